/*!
Runs the source of the end of the attention to the bank (cuda/memory_attention_tail.cu) on the CPU
(machine.h) and compares with a float64 reference, and bit for bit with the kernels whose place it
takes: one part and several, of which some count for nothing; tokens that fill no tile.
*/
#include "harness.h"
static float rsqrtf(float x) { return reciprocal_root(x); }
#include "memory_attention_tail.h"
#include "memory_attention.cu.norm"
#include "memory_attention_mlp.cu.gemm"
#include "repvit_packed.h"

/// How a case's parts are drawn.
enum Parts { ALIKE, FAR_APART, MASKED };

static void tail(int tokens, int parts, Parts kind, float scale = 1) {
    const size_t all = (size_t)tokens * 256;
    Halves whole((size_t)tokens * 64, 1), residual(all, scale, scale), sum(all), normed(all);
    Halves weight((size_t)256 * 64, scale / 8), packed_weight = packed(weight, 256, 64, 1);
    Reals bias(256, 0.3 * scale), norm_weight(256, 0.3, 1), norm_bias(256, 0.3);
    const size_t lines = parts > 1 ? (size_t)parts * tokens : 0;
    Reals partial(lines * 64, 5), stats(lines * 2);
    for (size_t i = 0; i < lines; i++) {
        // Keys that a bias masks, and parts that lag so far behind that they weigh nothing.
        const float top = kind == MASKED ? -14427.0f : normal(rng) * (kind == FAR_APART ? 100 : 1);
        stats[i * 2] = top, stats[i * 2 + 1] = 20 + fabsf(normal(rng));
    }
    depends_on(whole, residual, sum, normed, partial, stats);
    const unsigned blocks = (tokens + TAIL_TOKENS - 1) / TAIL_TOKENS;
    launch({blocks, 1, 1}, TAIL_THREADS, TAIL_SHARED, [&] {
        Tail().run({parts > 1 ? partial.data() : nullptr, parts > 1 ? stats.data() : nullptr,
                    parts > 1 ? nullptr : whole.data(), packed_weight.data(), bias.data(), residual.data(),
                    norm_weight.data(), norm_bias.data(), sum.data(), normed.data(), tokens, parts},
                   1024);
    });
    const long own_conflicts = conflicts, own_loads = loads;
    // The three kernels in its place.
    Halves joined_halves(whole), old_sum(all), old_normed(all);
    if (parts > 1) launch({(unsigned)tokens, 1, 1}, MEMORY / 4, 0, [&] {
        combine<MEMORY>(partial.data(), stats.data(), joined_halves.data(), tokens, tokens, parts, MEMORY,
                        Rows{MEMORY, tokens * MEMORY});
    });
    const unsigned tall = (tokens + TALL - 1) / TALL;
    launch({tall, 256 / RESIDUAL_COLUMNS, 1}, GEMM_THREADS, RESIDUAL_SHARED, [&] {
        GemmResidual().run({joined_halves.data(), weight.data(), bias.data(), residual.data(), old_sum.data(),
                            tokens, 256, MEMORY},
                           1024);
    });
    launch({(unsigned)(tokens + NORM_TOKENS - 1) / NORM_TOKENS, 1, 1}, NORM_THREADS, 0, [&] {
        normalize_token(old_sum.data(), norm_weight.data(), norm_bias.data(), old_normed.data(), tokens);
    });
    long others = 0;
    for (size_t i = 0; i < all; i++) others += sum[i] != old_sum[i] || normed[i] != old_normed[i];
    conflicts = own_conflicts, loads = own_loads;
    Numbers wanted(all), w = weight.values();
    for (int t = 0; t < tokens; t++) {
        Numbers joined(64);
        double top = -1e300, total = 0;
        for (size_t line = t; line < lines; line += tokens) top = std::max(top, stats.at(line * 2));
        for (size_t line = t; line < lines; line += tokens) {
            const double share = exp2(stats.at(line * 2) - top);
            total += stats.at(line * 2 + 1) * share;
            for (int c = 0; c < 64; c++) joined[c] += partial.at(line * 64 + c) * share;
        }
        for (int c = 0; c < 64; c++) joined[c] = parts > 1 ? joined[c] / total : whole.at((size_t)t * 64 + c);
        for (int c = 0; c < 256; c++)
            wanted[(size_t)t * 256 + c] =
                residual.at((size_t)t * 256 + c) + bias.at(c) + dot(joined.data(), &w[c * 64], 64);
    }
    // The norm is that of the halves which were stored.
    Numbers norms = sum.values();
    for (int t = 0; t < tokens; t++)
        normalize64(&norms[(size_t)t * 256], 256, norm_weight.data(), norm_bias.data(), 1e-5);
    auto each = [](size_t) { return true; };
    Shares of = shares_of(sum, wanted, each), of_norm = shares_of(normed, norms, each);
    const long beyond = sum.beyond() + normed.beyond();
    printf("memory_attention_cross_tail, %d tokens, %d parts, kind %d: worst relative error %.2e and %.2e, "
           "usual %.2e and %.2e, %ld other bits, %ld written beyond",
           tokens, parts, kind, of.worst, of_norm.worst, of.usual, of_norm.usual, others, beyond);
    verdict(exceeds(of.worst, 6e-4) || exceeds(of.usual, 2.5e-4) || exceeds(of_norm.worst, 5.5e-4) ||
            exceeds(of_norm.usual, 2.2e-4) || others || beyond);
}

int main(int count, char** words) {
    tail(45, 3, FAR_APART), tail(33, 1, ALIKE), tail(16, 9, ALIKE);
    if (shipped_alone(count, words)) return 0;
    // With small numbers the norm's epsilon shows.
    tail(32, 1, ALIKE, 3e-3), tail(40, 4, ALIKE, 3e-3);
    for (int tokens : {1, 16, 32, 100})
        for (int parts : {1, 2, 3, 4, 5, 8, 13})
            for (Parts kind : {ALIKE, FAR_APART, MASKED}) tail(tokens, parts, kind);
}
