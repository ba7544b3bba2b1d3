/*!
Runs the sources of the memory encoder's blocks (cuda/memory_encoder_convnext.cu,
memory_encoder_convnext_128.cu, memory_encoder_convnext.cuh) on the CPU (machine.h) and compares
each kernel with a float64 reference, which rounds nothing but what is stored: maps and tokens that
fill no tile, results in the place of x, copies that come late, objects that are there and that are
not.
*/
#include "harness.h"
static float rsqrtf(float x) { return reciprocal_root(x); }
// Nothing but tensors may be read.
static void copy16_within(u32 to, const void* from, bool valid) { copy16(to, inside(from, 16), valid); }
#define copy16 copy16_within
#include "memory_encoder_convnext.h"
/// How far off a result may be, of its own size or the usual one: everywhere, and the square mean.
/// Storing a half costs at most 2^-11 (4.9e-4), 1.4e-4 as a rule: all that memory_encoder_dwconv7x7
/// does. In memory_encoder_convnext_mlp the hidden columns are halves too, in
/// memory_encoder_convnext_mlp_proj also the sums: 1.9e-4 and 2.7e-4 as a rule, and some six times
/// as much where it is most.
struct Limit { double worst, usual; };
const Limit SPREAD_LIMIT = {5.5e-4, 1.6e-4}, MIX_LIMIT = {1.2e-3, 2.1e-4}, LAST_LIMIT = {1.7e-3, 3e-4};
/// Of the rows that were computed; what others hold is as before.
static void compare(const char* what, Halves& found, const Numbers& wanted, const std::vector<bool>& computed,
                    Halves* before, bool late, Limit limit) {
    const size_t width = wanted.size() / computed.size(); bool strange = found.beyond();
    for (size_t i = 0; i < wanted.size(); i++)
        if (!computed[i / width]) strange |= found[i] != (before ? (*before)[i] : found.nothing);
    Shares of = shares_of(found, wanted, [&](size_t i) { return computed[i / width]; });
    printf("%s, late %d: worst relative error %.2e, usual %.2e%s", what, late, of.worst, of.usual,
           strange ? ", written beyond" : "");
    verdict(exceeds(of.worst, limit.worst) || exceeds(of.usual, limit.usual) || strange);
}
/// Every `stride`th block of the launch. With a small `scale` the norm's epsilon shows.
static void spread(int grid, bool late_copies, float mean, int stride = 1, float scale = 1) {
    late = late_copies;
    Halves x((size_t)grid * grid * 256, scale, mean), y((size_t)grid * grid * 256);
    Reals weight(49 * 256, 0.15), bias(256, 0.3f * scale), norm_weight(256, 0.3, 1), norm_bias(256, 0.3);
    std::vector<bool> computed(grid * grid);
    depends_on(x, y);
    launch(
        {(unsigned)(grid + 7) / 8, (unsigned)(grid + 3) / 4, 1}, SPREAD_THREADS, SPREAD_SHARED,
        [&] {
            if (threadIdx.x == 0)
                for (int i = 0; i < 32; i++) {
                    int row = blockIdx.y * 4 + i / 8, column = blockIdx.x * 8 + i % 8;
                    if (row < grid && column < grid) computed[row * grid + column] = true;
                }
            Spread().run(
                {x.data(), weight.data(), bias.data(), norm_weight.data(), norm_bias.data(), y.data(), grid},
                1024);
        },
        stride);
    Numbers wanted((size_t)grid * grid * 256), in = x.values();
    for (int at = 0; at < grid * grid; at++) if (computed[at]) {
        double* sums = &wanted[at * 256];
        for (int c = 0; c < 256; c++) sums[c] = bias.at(c);
        for (int dy = -3; dy <= 3; dy++) for (int dx = -3; dx <= 3; dx++) {
            int row = at / grid + dy, column = at % grid + dx;
            if (row >= 0 && row < grid && column >= 0 && column < grid)
                for (int c = 0; c < 256; c++)
                    sums[c] += in[((size_t)row * grid + column) * 256 + c] *
                               weight.at(((dy + 3) * 7 + dx + 3) * 256 + c);
        }
        normalize64(sums, 256, norm_weight.data(), norm_bias.data(), 1e-6);
    }
    char what[99];
    snprintf(what, sizeof what, "memory_encoder_dwconv7x7, grid %d, x of about %g, mean %g", grid, scale,
             mean);
    compare(what, y, wanted, computed, nullptr, late_copies, SPREAD_LIMIT);
}

/// `score`: null for memory_encoder_convnext_mlp. `hidden`: how large the hidden columns are before
/// they are activated. `large`: tiles of 128 tokens, not of 32.
struct Case {
    int tokens;
    bool late_copies;
    float hidden;
    const float* score;
    bool in_place;
    int stride;
    bool large = false;
};

static void mix(Case c) {
    late = c.late_copies;
    const int tokens = c.tokens;
    Halves y((size_t)tokens * 256, 1), x((size_t)tokens * 256, 1.5, 0.2),
        before = x, up(1024 * 256, c.hidden / 16), down(256 * 1024, 0.05f / c.hidden),
        out_weight(64 * 256, 1 / 16.0f);
    Reals up_bias(1024, c.hidden / 2), down_bias(256, 0.3), out_bias(64, 0.3),
        score(1, 0, c.score ? *c.score : 0), absent(64, 0.5);
    Halves apart((size_t)tokens * (c.score ? 64 : 256));
    Halves& out = c.in_place ? x : apart;
    std::vector<bool> computed(tokens);
    depends_on(y, x, score, apart);
    const unsigned tile = c.large ? tiles128::TILE_128_TOKENS : MIX_TOKENS;
    launch(
        {(tokens + tile - 1) / tile, 1, 1}, c.large ? tiles128::TILE_128_THREADS : MIX_THREADS,
        c.large ? tiles128::TILE_128_SHARED : MIX_SHARED,
        [&] {
            if (threadIdx.x == 0)
                for (unsigned i = blockIdx.x * tile; i < blockIdx.x * tile + tile && i < (unsigned)tokens;
                     i++)
                    computed[i] = true;
            if (c.large)
                tiles128::Tile128Mlp().run(
                    {y.data(), x.data(), up.data(), up_bias.data(), down.data(), down_bias.data(), out.data(),
                     c.score ? out_weight.data() : nullptr, out_bias.data(), score.data(), absent.data(),
                     tokens},
                    1024);
            else if (c.score)
                Mix<true>().run(
                    {y.data(), x.data(), up.data(), up_bias.data(), down.data(), down_bias.data(), nullptr,
                     tokens, out_weight.data(), out_bias.data(), score.data(), absent.data(), out.data()},
                    1024);
            else
                Mix<false>().run({y.data(), x.data(), up.data(), up_bias.data(), down.data(),
                                  down_bias.data(), out.data(), tokens},
                                 1024);
        },
        c.stride);
    const int width = c.score ? 64 : 256;
    Numbers wanted((size_t)tokens * width), u = up.values(), d = down.values();
    for (int t = 0; t < tokens; t++) if (computed[t]) {
        double in[256], hidden[1024], sums[256];
        for (int k = 0; k < 256; k++) in[k] = y.at((size_t)t * 256 + k);
        for (int h = 0; h < 1024; h++) {
            double s = up_bias.at(h);
            for (int k = 0; k < 256; k++) s += u[h * 256 + k] * in[k];
            hidden[h] = gelu64(s);
        }
        for (int k = 0; k < 256; k++) {
            double s = before.at((size_t)t * 256 + k) + down_bias.at(k);
            for (int h = 0; h < 1024; h++) s += d[k * 1024 + h] * hidden[h];
            sums[k] = s;
        }
        for (int o = 0; o < width; o++) {
            double s = c.score ? out_bias.at(o) + (*c.score <= 0 ? absent.at(o) : 0) : sums[o];
            if (c.score) for (int k = 0; k < 256; k++) s += out_weight.at(o * 256 + k) * sums[k];
            wanted[(size_t)t * width + o] = s;
        }
    }
    char what[120], how[40] = "";
    if (c.score) snprintf(how, sizeof how, ", score %g", *c.score);
    snprintf(what, sizeof what, "memory_%s%s, %d tokens, hidden of about %g%s%s", c.score ? "last" : "mix",
             c.large ? " of 128" : "", tokens, c.hidden, how, c.in_place ? ", in place" : "");
    compare(what, out, wanted, computed, c.in_place ? &before : nullptr, c.late_copies,
            c.score ? LAST_LIMIT : MIX_LIMIT);
}

int main(int count, char** words) {
    const float there = 3, none = 0, absent = -2;
    spread(6, true, 2), spread(4, false, 0, 1, 1e-3);
    mix({36, true, 1, nullptr, true, 1});
    mix({4, false, 1, &absent, false, 1});
    mix({140, true, 1, nullptr, true, 1, true});
    mix({36, false, 1, &absent, false, 1, true});
    if (shipped_alone(count, words)) return 0;
    for (int grid : {4, 6, 10, 32, 64})
        for (bool late_copies : {false, true}) {
            const int stride = grid == 64 ? 9 : grid == 32 ? 3 : 1, tokens = grid * grid;
            for (float mean : {0.0f, 4.0f})
                spread(grid, late_copies, mean, grid == 64 ? 11 : grid == 32 && mean ? 5 : 1);
            mix({tokens, late_copies, 1, nullptr, true, stride});
            mix({tokens, late_copies, 3, nullptr, false, stride});
            for (const float* score : {&there, &none, &absent})
                mix({tokens, late_copies, score == &none ? 2.0f : 1.0f, score, false, stride});
        }
    for (int tokens : {1, 127, 128, 129, 300})
        for (bool late_copies : {false, true}) {
            mix({tokens, late_copies, 3, nullptr, late_copies, 1, true});
            for (const float* score : {&there, &none, &absent})
                mix({tokens, late_copies, 1, score, false, 1, true});
        }
    for (int tokens : {1, 31, 32, 33})
        mix({tokens, true, 1, nullptr, true, 1}), mix({tokens, false, 1, &absent, false, 1});
}
