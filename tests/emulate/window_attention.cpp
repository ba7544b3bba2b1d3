/*!
Runs the source of the attention inside windows (cuda/window_attention.cu, or
window_attention_hopper.cu) on the CPU (machine.h) and compares with a float64 reference: maps that
windows reach over, pooled queries, several pairs in a block, several tiles of queries a warp,
queries of a window over several blocks. With `shipped` a few of the cases.
*/
#include "harness.h"
#include "window_attention.h"

struct Case { int grid, window, heads, depth; bool pooled; int warps, together, parts; float scale; };

template <class W> static void test(const char* name, Case c, bool lazy) {
    late = lazy;
    int columns = c.heads * c.depth, factor = c.pooled ? 2 : 1, out_side = c.grid / factor,
        side = (c.grid + c.window - 1) / c.window;
    Halves qkv((size_t)c.grid * c.grid * 3 * columns, 1), bias(3 * columns, 1),
        out((size_t)out_side * out_side * columns);
    // q is scaled; keys stay as they are.
    for (int t = 0; t < c.grid * c.grid; t++) for (int i = 0; i < columns; i++) {
        f16& q = qkv.data()[t * 3 * columns + i]; q = tohalf(half(q) * c.scale / sqrtf(c.depth));
    }
    WindowProblem p{qkv.data(), bias.data(), out.data(), c.grid,   c.window,   c.grid / c.window,
                    side,       c.heads,     c.depth,    c.pooled, c.together, c.parts};
    depends_on(qkv, out);
#ifdef HOPPER
    HopperWindowProblem own{p, reciprocal_of(c.window), reciprocal_of(std::max(c.grid % c.window, 1))};
    int groups = c.warps / 4, keys = c.window * c.window, last = (keys - W::LAST + W::KEYS - 1) / W::KEYS,
        rows = last * W::KEYS + W::LAST;
    if (c.pooled || c.together > 1 || c.warps % 4 || groups > 4 || groups * c.parts * 64 < keys ||
        keys <= 64) {
        printf("%s: no such launch\n", name);
        exit(1);
    }
    int shared = rows * 128 * W::CHUNKS + groups * W::TILE +
                 (W::REST ? (groups + W::BESIDE - 1) / W::BESIDE * W::TILE : 0) + W::BARRIERS * 8;
    launch({(unsigned)c.heads, (unsigned)c.parts, (unsigned)(side * side)}, 32 * c.warps, shared, [&] {
        W w;
        w.run(own, 1024);
    });
#else
    if (c.warps > 8 || (c.together > 1 && (c.warps != c.together || c.parts > 1))) {
        printf("%s: no such launch\n", name);
        exit(1);
    }
    int groups = (side * side + c.together - 1) / c.together;
    int rows = (c.window * c.window + 15) / 16 * 16, shared = c.together * 2 * rows * W::PITCH;
    launch({(unsigned)(groups * c.heads * c.parts), 1, 1}, 32 * c.warps, shared, [&] {
        W w;
        w.run(p, 1024);
    });
#endif
    auto at = [&](int part, int y, int x, int i) {
        return (double)half(y < c.grid && x < c.grid
                                ? qkv.data()[((size_t)y * c.grid + x) * 3 * columns + part * columns + i]
                                : bias.data()[part * columns + i]);
    };
    Errors errors;
    for (int oy = 0; oy < out_side; oy++)
        for (int ox = 0; ox < out_side; ox++)
            for (int h = 0; h < c.heads; h++) {
                int y = oy * factor, x = ox * factor, top = y / c.window * c.window,
                    left = x / c.window * c.window;
                std::vector<double> q(c.depth, -1e300), s, o(c.depth, 0.0);
                for (int i = 0; i < c.depth; i++)
                    for (int dy = 0; dy < factor; dy++)
                        for (int dx = 0; dx < factor; dx++)
                            q[i] = std::max(q[i], at(0, y + dy, x + dx, h * c.depth + i));
                double high = -1e300, sum = 0;
                for (int ky = top; ky < top + c.window; ky++)
                    for (int kx = left; kx < left + c.window; kx++) {
                        double d = 0;
                        for (int i = 0; i < c.depth; i++) d += q[i] * at(1, ky, kx, h * c.depth + i);
                        s.push_back(d);
                        high = std::max(high, d);
                    }
                for (int k = 0; k < (int)s.size(); k++) {
                    double w = exp(s[k] - high);
                    sum += w;
                    for (int i = 0; i < c.depth; i++)
                        o[i] += w * at(2, top + k / c.window, left + k % c.window, h * c.depth + i);
                }
                for (int i = 0; i < c.depth; i++)
                    errors.add(out.at(((size_t)oy * out_side + ox) * columns + h * c.depth + i), o[i] / sum);
            }
    bool bad = exceeds(errors.most, 1e-2) || exceeds(errors.relative(), 2e-3) || out.beyond();
    printf(
        "%s grid %d window %d heads %d depth %d pooled %d warps %d together %d parts %d scale %.0f late %d: "
        "max abs %.2e rel %.2e, %ld written beyond",
        name, c.grid, c.window, c.heads, c.depth, c.pooled, c.warps, c.together, c.parts, c.scale, late,
        errors.most, errors.relative(), out.beyond());
    verdict(bad);
}
template <class W>
static void both(const char* name, Case c) {
    test<W>(name, c, false);
    test<W>(name, c, true);
}
#ifdef HOPPER
using W56_hopper = HopperWindows<56, 80, 48>;
using W72_hopper = HopperWindows<72, 64, 64>;
using W96_hopper = HopperWindows<96, 64, 16>;
#else
using W56 = Windows<56, 16, 32>; using W72 = Windows<72, 16, 16>; using W96 = Windows<96, 16, 16>;
using W56_wide = Windows<56, 32, 16>;
using W72_wide = Windows<72, 32, 32>;
using W96_wide = Windows<96, 32, 32>;
#endif
#define TEST(NAME, ...) test<W##NAME>("window_attention_" #NAME, __VA_ARGS__)
#define BOTH(NAME, ...) both<W##NAME>("window_attention_" #NAME, __VA_ARGS__)

int main(int count, char** words) {
#ifdef HOPPER
    // Each kernel: whole windows, a map that windows reach over, fewer columns than the kernel has;
    // queries over two blocks.
    TEST(56_hopper, {14, 14, 2, 56, false, 8, 1, 2, 4}, true);
    TEST(56_hopper, {20, 14, 1, 56, false, 8, 1, 2, 16}, false);
    TEST(56_hopper, {11, 11, 1, 8, false, 8, 1, 1, 4}, true);
    TEST(72_hopper, {16, 16, 1, 72, false, 16, 1, 1, 4}, true);
    TEST(72_hopper, {20, 16, 1, 72, false, 16, 1, 1, 16}, true);
    TEST(72_hopper, {14, 14, 2, 64, false, 16, 1, 1, 1}, false);
    TEST(96_hopper, {14, 14, 1, 96, false, 8, 1, 2, 4}, true);
    TEST(96_hopper, {20, 14, 1, 96, false, 8, 1, 2, 60}, true);
    TEST(96_hopper, {11, 11, 2, 88, false, 8, 1, 1, 4}, false);
    if (shipped_alone(count, words)) return 0;
    for (int window = 9; window <= 16; window++)
        for (int depth = 8; depth <= 96; depth += 8) {
            int tiles = (window * window + 63) / 64, grid = depth % 16 ? window : window + 5;
            if (depth <= 56) BOTH(56_hopper, {grid, window, 1, depth, false, 8, 1, (tiles + 1) / 2, 4});
            else if (depth <= 72) BOTH(72_hopper, {grid, window, 1, depth, false, 4 * tiles, 1, 1, 4});
            else BOTH(96_hopper, {grid, window, 1, depth, false, 8, 1, (tiles + 1) / 2, 4});
        }
    // Other divisions, maps smaller than a window, scores far apart.
    BOTH(56_hopper, {28, 14, 3, 56, false, 16, 1, 1, 4});
    BOTH(56_hopper, {28, 14, 2, 40, false, 4, 1, 4, 60});
    BOTH(72_hopper, {32, 16, 2, 72, false, 8, 1, 2, 60});
    BOTH(72_hopper, {9, 16, 2, 72, false, 16, 1, 1, 60});
    BOTH(72_hopper, {3, 16, 1, 72, false, 12, 1, 2, 4});
    BOTH(96_hopper, {28, 14, 2, 96, false, 16, 1, 1, 4});
    BOTH(96_hopper, {17, 16, 1, 96, false, 12, 1, 2, 60});
    // As the models have them, but for the heads.
    BOTH(56_hopper, {64, 14, 1, 56, false, 8, 1, 2, 4});
    BOTH(72_hopper, {64, 16, 1, 72, false, 16, 1, 1, 4});
    BOTH(96_hopper, {64, 14, 1, 96, false, 8, 1, 2, 4});
    return 0;
#else
    // Each kernel: a map that windows reach over, pooled queries, more windows in the last block than
    // there are, warps without queries, queries over two blocks.
    TEST(56, {20, 14, 1, 56, false, 8, 1, 1, 4}, true);
    TEST(56, {14, 4, 3, 8, false, 4, 4, 1, 1}, true);
    TEST(56, {16, 8, 2, 56, true, 1, 1, 1, 1}, false);
    TEST(72, {16, 16, 1, 64, false, 8, 1, 1, 4}, true);
    TEST(72, {10, 4, 2, 72, true, 4, 4, 1, 1}, true);
    TEST(72, {16, 8, 1, 72, false, 4, 1, 1, 16}, false);
    TEST(96, {20, 14, 1, 96, true, 4, 1, 1, 4}, true);
    TEST(96, {16, 14, 1, 80, false, 7, 1, 1, 1}, false);
    TEST(96, {9, 7, 2, 96, false, 4, 1, 1, 60}, true);
    TEST(56_wide, {20, 14, 2, 56, false, 4, 1, 2, 4}, true);
    TEST(56_wide, {16, 8, 1, 40, false, 2, 1, 1, 60}, true);
    TEST(56_wide, {16, 14, 1, 56, true, 2, 1, 1, 1}, false);
    TEST(72_wide, {16, 16, 1, 72, false, 8, 1, 1, 4}, true);
    TEST(72_wide, {20, 16, 1, 72, true, 2, 1, 1, 16}, true);
    TEST(72_wide, {20, 8, 1, 72, false, 2, 1, 1, 1}, false);
    TEST(96_wide, {16, 14, 1, 96, false, 7, 1, 1, 4}, true);
    TEST(96_wide, {14, 7, 2, 96, false, 2, 1, 1, 1}, true);
    TEST(96_wide, {20, 14, 1, 88, true, 2, 1, 1, 60}, false);
    if (shipped_alone(count, words)) return 0;
    BOTH(56, {28, 14, 2, 56, false, 8, 1, 1, 4});
    BOTH(56, {28, 14, 2, 56, true, 4, 1, 1, 4});
    BOTH(56, {16, 4, 2, 56, true, 4, 4, 1, 4});
    BOTH(56, {16, 4, 1, 8, false, 4, 4, 1, 4});
    BOTH(56, {16, 16, 1, 48, false, 8, 1, 1, 4});
    BOTH(56, {16, 3, 2, 8, false, 4, 4, 1, 4});
    BOTH(56, {16, 5, 2, 8, false, 2, 1, 1, 4});
    BOTH(56, {16, 6, 2, 8, true, 4, 4, 1, 4});
    BOTH(56, {5, 1, 1, 16, false, 4, 4, 1, 4});
    BOTH(56, {6, 2, 3, 24, true, 4, 4, 1, 4});
    BOTH(56, {3, 7, 1, 32, false, 1, 1, 1, 4});
    BOTH(56_wide, {28, 14, 2, 56, false, 7, 1, 1, 4});
    BOTH(56_wide, {36, 14, 2, 56, false, 4, 1, 2, 4});
    BOTH(56_wide, {20, 14, 1, 56, false, 2, 1, 4, 4});
    BOTH(72_wide, {18, 16, 2, 72, false, 4, 1, 2, 4});
    BOTH(96_wide, {20, 14, 2, 96, false, 4, 1, 2, 4});
    BOTH(56_wide, {36, 14, 1, 56, false, 7, 1, 1, 4});
    BOTH(56_wide, {9, 16, 1, 56, false, 8, 1, 1, 4});
    BOTH(56_wide, {16, 8, 2, 56, false, 2, 1, 1, 4});
    BOTH(56_wide, {16, 5, 2, 8, false, 1, 1, 1, 4});
    BOTH(56_wide, {28, 14, 2, 56, true, 2, 1, 1, 4});
    BOTH(56_wide, {28, 14, 1, 56, false, 3, 1, 1, 4});
    BOTH(72, {20, 16, 1, 72, false, 8, 1, 1, 4});
    BOTH(72, {20, 16, 2, 72, true, 4, 1, 1, 16});
    BOTH(72, {16, 8, 2, 64, false, 4, 1, 1, 4});
    BOTH(72, {12, 8, 2, 72, true, 1, 1, 1, 4});
    BOTH(72, {12, 8, 2, 72, true, 2, 2, 1, 4});
    BOTH(72_wide, {32, 16, 2, 72, false, 8, 1, 1, 4});
    BOTH(72_wide, {20, 16, 1, 72, false, 8, 1, 1, 60});
    BOTH(72_wide, {32, 16, 2, 72, true, 2, 1, 1, 4});
    BOTH(72_wide, {16, 8, 2, 72, false, 2, 1, 1, 4});
    BOTH(72_wide, {20, 14, 1, 64, false, 4, 1, 1, 4});
    BOTH(96, {28, 14, 2, 96, false, 8, 1, 1, 4});
    BOTH(96, {20, 14, 2, 96, false, 7, 1, 1, 4});
    BOTH(96, {28, 14, 1, 96, true, 4, 1, 1, 4});
    BOTH(96, {16, 8, 1, 96, false, 4, 1, 1, 4});
    BOTH(96, {16, 8, 2, 96, true, 1, 1, 1, 4});
    BOTH(96, {16, 4, 2, 96, false, 4, 4, 1, 4});
    BOTH(96, {16, 4, 4, 96, true, 4, 4, 1, 4});
    BOTH(96, {32, 7, 1, 96, false, 4, 1, 1, 4});
    BOTH(96, {15, 15, 1, 88, false, 8, 1, 1, 60});
    BOTH(96, {11, 11, 1, 88, false, 3, 1, 1, 60});
    BOTH(96_wide, {28, 14, 2, 96, false, 7, 1, 1, 4});
    BOTH(96_wide, {20, 14, 1, 80, false, 7, 1, 1, 4});
    BOTH(96_wide, {16, 8, 1, 96, false, 2, 1, 1, 4});
    BOTH(96_wide, {32, 7, 1, 96, false, 2, 1, 1, 60});
    // As the models have them, but for the heads.
    BOTH(56_wide, {64, 14, 1, 56, false, 4, 1, 2, 4});
    BOTH(72_wide, {64, 16, 1, 72, false, 8, 1, 1, 4});
    BOTH(96_wide, {64, 14, 1, 96, false, 7, 1, 1, 4});
    BOTH(56, {64, 14, 1, 56, true, 4, 1, 1, 4});
    BOTH(96_wide, {11, 11, 1, 88, false, 4, 1, 1, 4});
    return 0;
#endif
}
