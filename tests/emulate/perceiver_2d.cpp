/*!
Runs the source of EdgeTAM's two-dimensional latents (cuda/perceiver_2d.cu) on the CPU (machine.h)
and compares with a float64 reference that is written as the model is, norm by norm: squares of one
token, of fewer and of more than a lane keeps, scores far apart, tokens far from 0. It is compared
twice: with a reference that rounds the products' factors to halves, as the kernel does, and with
one that rounds nothing.
*/
#include "harness.h"
#include "perceiver_2d.h"

// ---- reference ----

static double rounded(double x, bool round) { return round ? half(tohalf((float)x)) : x; }
static Numbers norm(const double* x, const float* weights) {
    Numbers y(x, x + 64);
    normalize64(y.data(), 64, weights, weights + 64, 1e-5);
    return y;
}
static Numbers product(const f16* weight, int out, Numbers x, bool round) {
    Numbers y(out); for (double& v : x) v = rounded(v, round);
    for (int o = 0; o < out; o++)
        for (size_t i = 0; i < x.size(); i++) y[o] += half(weight[o * x.size() + i]) * x[i];
    return y;
}
static void add(Numbers& x, const Numbers& y) { for (size_t i = 0; i < x.size(); i++) x[i] += y[i]; }
static Numbers feed_forward(const f16* up, const f16* down, const Numbers& y, bool round) {
    Numbers hidden = product(up, 256, y, round);
    for (double& v : hidden) v = gelu64(v);
    return product(down, 64, hidden, round);
}
/// One latent, with the tokens of its square.
static Numbers wanted(Numbers x, const std::vector<Numbers>& tokens, const f16* halves, const float* floats,
                      bool round, double& top) {
    for (int layer = 0; layer < 2; layer++) {
        const f16 *ask = halves, *answer = ask + 4096, *up = answer + 4096, *down = up + 16384,
                  *alone = down + 16384, *self_up = alone + 4096, *self_down = self_up + 16384;
        Numbers u = product(ask, 64, norm(x.data(), floats + 128), round), scores, read(64);
        double high = -1e300, total = 0;
        std::vector<Numbers> y; for (auto& t : tokens) y.push_back(norm(t.data(), floats));
        for (auto& t : y) {
            double s = 0;
            for (int i = 0; i < 64; i++) s += u[i] * t[i];
            scores.push_back(s), high = std::max(high, s), top = std::max(top, fabs(s));
        }
        for (double& s : scores) total += s = exp(s - high);
        for (size_t n = 0; n < y.size(); n++)
            for (int i = 0; i < 64; i++) read[i] += scores[n] / total * y[n][i];
        add(x, product(answer, 64, read, round));
        add(x, feed_forward(up, down, norm(x.data(), floats + 256), round));
        add(x, product(alone, 64, norm(x.data(), floats + 384), round));
        add(x, feed_forward(self_up, self_down, norm(x.data(), floats + 512), round));
        halves = self_down + 16384, floats += 640;
    }
    return norm(x.data(), floats);
}

/// `scale`: deviation of scores, of which the largest of a launch is some four times; `mean` and
/// `deviation` of the tokens; how many of the 32 blocks run.
struct Case { int grid; bool late_copies; float scale, mean, deviation; int blocks; };

static void test(Case c) {
    late = c.late_copies;
    Halves tokens((size_t)c.grid * c.grid * 64, c.deviation, c.mean), weights(155648), result(256 * 64);
    Reals latents(256 * 64, 1, 0.2f), norms(1408);
    norms.fill([&](size_t i) { return i / 64 % 2 ? normal(rng) * 0.3f : normal(rng) * 0.2f + 1; });
    // Rows of 64 or 256 columns, each of some deviation; what a layer adds is about as large as
    // what it is added to.
    weights.fill([&](size_t i) {
        size_t at = i % 77824;
        bool ask = at < 4096, down = (at >= 24576 && at < 40960) || at >= 61440;
        return tohalf(normal(rng) * (ask ? c.scale / 64 : down ? 0.08f : 0.125f));
    });
    gridDim = {32, 1, 1}; blockDim = {WINDOW_THREADS, 1, 1};
    depends_on(tokens, result);
    for (int b = 0; b < c.blocks; b++) {
        blockIdx = {(unsigned)(b * 13 + c.grid) % 32, 0, 0};
        one_block(WINDOW_THREADS, WINDOWS_SHARED, [&] {
            Windows().run(WindowsProblem{tokens.data(), latents.data(), weights.data(), norms.data(),
                                         result.data(), c.grid},
                          1024);
        });
    }
    dependent_on.clear();
    double worst[2] = {}, squares[2] = {}, most = 0, top = 0; int w = c.grid / 16; long others = 0;
    std::vector<bool> ran(32); for (int b = 0; b < c.blocks; b++) ran[(b * 13 + c.grid) % 32] = true;
    for (int l = 0; l < 256; l++) {
        const f16* got = result.data() + l * 64;
        if (!ran[l / 8]) { for (int i = 0; i < 64; i++) others += got[i] != Halves::NONE; continue; }
        std::vector<Numbers> own;
        for (int y = 0; y < w; y++)
            for (int x = 0; x < w; x++) {
                const f16* t = tokens.data() + ((size_t)(l / 16 * w + y) * c.grid + l % 16 * w + x) * 64;
                Numbers row;
                for (int i = 0; i < 64; i++) row.push_back(half(t[i]));
                own.push_back(row);
            }
        for (int round = 0; round < 2; round++) {
            Numbers y = wanted(Numbers(latents.data() + l * 64, latents.data() + l * 64 + 64), own,
                               weights.data(), norms.data(), round, top);
            Errors errors;
            for (int i = 0; i < 64; i++) errors.add(half(got[i]), y[i]);
            double e = errors.relative();
            most = std::max(most, errors.most), worst[round] = std::max(worst[round], e),
            squares[round] += e * e / (8 * c.blocks);
        }
    }
    long beyond =
        tokens.beyond() + latents.beyond() + weights.beyond() + norms.beyond() + result.beyond() + others;
    // The result's own rounding is up to 2^-11 of a column, a quarter of a thousandth of a row.
    // Where the first layer's sums differ in the last places some of the second layer's factors
    // become other halves, of 2^-11, in which scores move by that of their deviation: few latents,
    // between tokens that weigh the same, are off by several times what is usual.
    double usual[2] = {sqrt(squares[0]), sqrt(squares[1])};
    bool bad = exceeds(usual[1], 4e-4 + 4e-5 * c.scale) || exceeds(worst[1], 1e-3 + 1e-3 * c.scale) ||
               exceeds(usual[0], 6e-4 + 1e-4 * c.scale) || exceeds(worst[0], 1e-3 + 1e-3 * c.scale) || beyond;
    printf(
        "perceiver_2d_window_attn grid %d, %d blocks, late %d, |score| up to %.1f, tokens %.3g +- %.3g: rel "
        "%.2e, worst %.2e (unrounded %.2e, %.2e), max abs %.2e, %ld written beyond",
        c.grid, c.blocks, c.late_copies, top, c.mean, c.deviation, usual[1], worst[1], usual[0], worst[0],
        most, beyond);
    verdict(bad);
}

int main(int count, char** words) {
    test({16, true, 1, 0, 1, 3});
    test({32, false, 3, 0, 0.01f, 3});
    test({64, true, 7, 0.5f, 1, 3});
    test({80, true, 3, 0, 1, 2});
    if (shipped_alone(count, words)) return 0;
    for (int grid : {16, 32, 48, 64, 80, 112})
        for (float scale : {1.0f, 8.0f}) {
            test({grid, false, scale, 0, 1, 32});
            test({grid, true, scale, 0, 0.01f, 32});
            test({grid, true, scale, 5, 1, 32});
        }
}
