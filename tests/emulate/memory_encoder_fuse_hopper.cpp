/*!
Runs the source of the memory encoder's join on Hopper (cuda/memory_encoder_fuse_hopper.cu) on the
CPU (cluster.h) and compares every column with a float64 reference that knows a convolution, a norm
and linear layers, not tiles: grids whose rows are 16, 32 or 48 tokens; what the norm is given far
from 0, and small; features or the mask alone.
*/
#include "cluster.h"
#include "memory_encoder_fuse_hopper.h"

/// `far`: how far the convolution lies from 0, in its spreads. `alone`: 1 without features, 2 without
/// a mask. `spread`: of the convolution; a small one shows what the norm adds to squares. `run`:
/// tokens of a box of pixels.
static void test(int grid, bool late_weights, float far = 0, int alone = 0, float spread = 1, int run = 0) {
    slow = late_weights, run = run ? run : grid % 32 ? 16 : 32;
    const int tokens = grid * grid, side = 2 * grid;
    Halves wide((size_t)side * side * 64, spread), weight(256 * 576, 1 / 24.0f),
        feat((size_t)256 * tokens, 1);
    Halves mask_weight(65536, alone == 2 ? 0 : 1 / 8.0f), feature_weight(65536, alone == 1 ? 0 : 1 / 16.0f);
    Halves x((size_t)tokens * 256);
    Reals bias(256, 0.3 * spread, far * spread), norm_weight(256, 0.2, 1), norm_bias(256, 0.3),
        sum_bias(256, 0.5);
    const TensorMap maps[] = {{wide.data(), grid, 128, run, side, 0, 0},
                              {feat.data(), 256, tokens, DEPTH / FUSE_CLUSTER},
                              {weight.data(), 256, 576, COLUMNS},
                              {feature_weight.data(), 256, 256, COLUMNS},
                              {mask_weight.data(), 256, 256, COLUMNS}};
    const std::vector<Region> written = {{wide.data(), (size_t)side * side * 128},
                                         {feat.data(), (size_t)tokens * 512},
                                         {x.data(), (size_t)tokens * 512}};
    run_clusters(
        tokens / FUSE_TOKENS, FUSE_CLUSTER, FUSE_THREADS,
        [&] {
            HopperFuse().run({&maps[0], &maps[1], &maps[2], &maps[3], &maps[4], bias.data(),
                              norm_weight.data(), norm_bias.data(), sum_bias.data(), x.data(), grid, run},
                             block_of(me->id) << 18 | 1024);
        },
        1, written);
    Numbers pixels = wide.values(), w = weight.values(), m = mask_weight.values(), f = feat.values(),
            fw = feature_weight.values(), rounds(x.count), exact(x.count);
    for (int t = 0; t < tokens; t++) {
        double hidden[256], rounded[256], own[256], window[576] = {};
        for (int tap = 0; tap < 9; tap++) {
            int py = t / grid * 2 + tap / 3 - 1, px = t % grid * 2 + tap % 3 - 1;
            if (py >= 0 && py < side && px >= 0 && px < side)
                std::copy_n(&pixels[((size_t)py * side + px) * 64], 64, window + tap * 64);
        }
        for (int c = 0; c < 256; c++) hidden[c] = bias.at(c) + dot(window, &w[c * 576], 576);
        normalize64(hidden, 256, norm_weight.data(), norm_bias.data(), 1e-6);
        for (int c = 0; c < 256; c++) {
            hidden[c] = gelu64(hidden[c]);
            rounded[c] = half(tohalf(hidden[c])), own[c] = f[(size_t)c * tokens + t];
        }
        for (int c = 0; c < 256; c++) {
            const size_t at = (size_t)t * 256 + c;
            double both = sum_bias.at(c) + dot(own, &fw[c * 256], 256);
            rounds[at] = both + dot(rounded, &m[c * 256], 256),
            exact[at] = both + dot(hidden, &m[c * 256], 256);
        }
    }
    Shares of = shares_of(x, rounds, [](size_t) { return true; });
    Errors of_rounded, of_exact;
    for (size_t i = 0; i < rounds.size(); i++)
        of_rounded.add(x.at(i), rounds[i]), of_exact.add(x.at(i), exact[i]);
    // As of the kernel for any GPU; of a million numbers one is further off.
    printf(
        "memory_encoder_fuse_hopper grid %d, run %d, late %d, far %.0f, alone %d, spread %.2f: "
        "worst %.2e, root mean square %.2e (%.2e with what halves of hidden cost)",
        grid, run, late_weights, far, alone, spread, of.worst, of_rounded.relative(), of_exact.relative());
    verdict(exceeds(of.worst, 1.3e-3) || exceeds(of_rounded.relative(), 2.3e-4) ||
            exceeds(of_exact.relative(), 3.2e-4) || x.beyond());
}

int main(int count, char** words) {
    test(16, true);
    if (shipped_alone(count, words)) return 0;
    test(16, false, 8), test(16, true, 0, 0, 0.01f);
    for (bool late_weights : {false, true}) {
        for (int alone : {1, 2}) test(16, late_weights, 0, alone);
        test(32, late_weights), test(48, late_weights, 3), test(32, late_weights, 0, 0, 1, 16);
    }
    test(64, false);
}
