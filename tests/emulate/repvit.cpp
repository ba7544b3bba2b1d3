/*!
Runs the source of a RepViT block's parts (cuda/repvit.cu) on the CPU (machine.h) and compares each
with a float64 reference: maps, channels and depths that fill no tile, copies that come late.
*/
#include "harness.h"
static void copy16_within(u32 to, const void* from, bool valid) { copy16(to, inside(from, 16), valid); }
#define copy16 copy16_within
#include "repvit.h"
#include "repvit_packed.h"

/// How far off a stored half may be, of its own size or the usual one: everywhere, and as a rule.
const double WORST = 5.5e-4, USUAL = 2.5e-4;
static void compare(const char* what, Halves& found, const Numbers& wanted) {
    Shares of = shares_of(found, wanted, [](size_t) { return true; });
    printf("%s: worst relative error %.2e, usual %.2e, %ld written beyond", what, of.worst, of.usual,
           found.beyond());
    verdict(exceeds(of.worst, WORST) || exceeds(of.usual, USUAL) || found.beyond());
}

/// The convolution's results, one of each place that the stride keeps.
static Numbers convolved(Halves& x, Reals& weight, Reals& bias, int grid, int channels, int stride) {
    const int side = (grid + stride - 1) / stride;
    Numbers y((size_t)side * side * channels), in = x.values();
    for (int t = 0; t < side * side; t++) for (int c = 0; c < channels; c++) {
        double sum = bias.at(c);
        for (int tap = 0; tap < 9; tap++) {
            int row = t / side * stride + tap / 3 - 1, column = t % side * stride + tap % 3 - 1;
            if (row >= 0 && row < grid && column >= 0 && column < grid)
                sum += in[((size_t)row * grid + column) * channels + c] * weight.at(tap * channels + c);
        }
        y[(size_t)t * channels + c] = sum;
    }
    return y;
}

static void conv(int grid, int channels, int stride, bool gated) {
    const int side = (grid + stride - 1) / stride, strips = side * ((side + STRIP - 1) / STRIP);
    Halves x((size_t)grid * grid * channels, 1), y((size_t)side * side * channels);
    Reals weight(9 * channels, 0.3), bias(channels, 0.3), gate(channels, 0.2, 0.6);
    ConvProblem p{x.data(), weight.data(), bias.data(), gated ? gate.data() : nullptr,
                  y.data(), grid,          channels};
    depends_on(x, gate, y);
    launch({(unsigned)(strips + STRIPS - 1) / STRIPS, (unsigned)(channels + SLICE - 1) / SLICE, 1},
           CONV_THREADS, 0, [&] { stride == 1 ? convolve<1>(p) : convolve<2>(p); });
    Numbers wanted = convolved(x, weight, bias, grid, channels, stride);
    if (gated) for (size_t i = 0; i < wanted.size(); i++) wanted[i] *= gate.at(i % channels);
    char what[99];
    snprintf(what, sizeof what, "repvit_dwconv, stride %d, grid %d, %d channels, gate %d", stride, grid,
             channels, gated);
    compare(what, y, wanted);
}

/// Sums, and the gate of them.
static void gate(int grid, int channels, int squeezed, int chunk) {
    const int tokens = grid * grid;
    Halves x((size_t)tokens * channels, 1, 0.3), squeeze(squeezed * channels, 4 / sqrtf(channels)),
        excite(channels * squeezed, 1 / sqrtf(squeezed));
    Reals weight(9 * channels, 0.3), bias(channels, 0.3), edges(9 * channels), squeeze_bias(squeezed, 0.3),
        excite_bias(channels, 0.3), found(channels);
    Tensor<long long> sums(COPIES * channels, -1ll);
    sums.fill([](size_t) { return 0; });
    edges.fill([&](size_t at) {
        const int row = at / channels / 3, column = at / channels % 3; float sum = 0;
        for (int tap = 0; tap < 9; tap++) {
            auto beyond = [](int edge, int tap) {
                return (edge == 0 && tap == 2) || (edge == 2 && tap == 0);
            };
            if (!beyond(row, tap / 3) && !beyond(column, tap % 3))
                sum += weight.data()[tap * channels + at % channels];
        }
        return sum;
    });
    struct Parts { float4 of[SUM_THREADS]; };
    depends_on(x, sums);
    launch_with<Parts>({(unsigned)(tokens + chunk - 1) / chunk, 1, 1}, SUM_THREADS, [&](Parts& parts) {
        sum_tokens({x.data(), edges.data(), sums.data(), grid, channels, chunk}, parts.of);
    });
    struct Means { float means[MOST_CHANNELS], squeezed[MOST_SQUEEZED]; };
    depends_on(sums, found);
    launch_with<Means>({1, 1, 1}, GATE_THREADS, [&](Means& of) {
        gate_channels({sums.data(), bias.data(), squeeze.data(), squeeze_bias.data(), excite.data(),
                       excite_bias.data(), found.data(), channels, squeezed, tokens},
                      of.means, of.squeezed);
    });
    Numbers y = convolved(x, weight, bias, grid, channels, 1), means(channels), inner(squeezed);
    for (size_t i = 0; i < y.size(); i++) means[i % channels] += y[i] / tokens;
    for (int s = 0; s < squeezed; s++) {
        inner[s] = squeeze_bias.at(s);
        for (int c = 0; c < channels; c++) inner[s] += squeeze.at(s * channels + c) * means[c];
        inner[s] = std::max(inner[s], 0.0);
    }
    Errors errors;
    for (int c = 0; c < channels; c++) {
        double sum = excite_bias.at(c);
        for (int s = 0; s < squeezed; s++) sum += excite.at(c * squeezed + s) * inner[s];
        errors.add(found.at(c), 1 / (1 + exp(-sum)));
    }
    printf("repvit_sums and repvit_gate, grid %d, %d channels, %d squeezed: max abs %.2e, %ld written beyond",
           grid, channels, squeezed, errors.most, found.beyond() + sums.beyond());
    verdict(exceeds(errors.most, 2e-6) || found.beyond() || sums.beyond());
}

template <class Kind>
static void gemm(const char* name, Epilogue epilogue, int rows, int columns, int depth, bool late_copies) {
    late = late_copies;
    Halves tokens((size_t)rows * depth, 1), weight(columns * depth, 1 / sqrtf(depth)),
        packed_weight = packed(weight, columns, depth, 1), residual((size_t)rows * columns, 1),
        out((size_t)rows * columns);
    Reals bias(columns, 0.3);
    const u32 bytes = std::max(Kind::TOKENS * (u32)((depth + 15) / 16 * 32 + 16), GEMM_COLUMNS * 32u * 4);
    depends_on(tokens, residual, out);
    launch({(unsigned)(rows + Kind::TOKENS - 1) / Kind::TOKENS,
            (unsigned)(columns + GEMM_COLUMNS - 1) / GEMM_COLUMNS, 1},
           GEMM_THREADS, bytes, [&] {
               Kind().run(
                   {tokens.data(), packed_weight.data(), bias.data(),
                    epilogue == RESIDUAL ? residual.data() : nullptr, out.data(), rows, columns, depth},
                   1024);
           });
    Numbers wanted((size_t)rows * columns), t = tokens.values(), w = weight.values();
    for (size_t i = 0; i < wanted.size(); i++) {
        double sum = bias.at(i % columns) + dot(&t[i / columns * depth], &w[i % columns * depth], depth);
        wanted[i] = epilogue == GELU ? gelu64(sum) : epilogue == RESIDUAL ? sum + residual.at(i) : sum;
    }
    char what[99];
    snprintf(what, sizeof what, "%s, %d x %d x %d, late %d", name, rows, columns, depth, late_copies);
    compare(what, out, wanted);
}

int main(int count, char** words) {
    conv(5, 72, 1, true), conv(6, 24, 2, false);
    gate(5, 72, 16, 7);
    gemm<GemmBias>("repvit_gemm_bias", BIAS, 33, 40, 24, true);
    gemm<GemmGelu>("repvit_gemm_gelu", GELU, 65, 104, 40, true);
    gemm<GemmResidual>("repvit_gemm_residual", RESIDUAL, 9, 24, 168, true);
    if (shipped_alone(count, words)) return 0;
    for (int grid : {1, 2, 4, 7, 16})
        for (int channels : {8, 48, 384})
            for (int stride : {1, 2}) conv(grid, channels, stride, grid & 1);
    for (int grid : {2, 3, 16, 32}) gate(grid, 48, 16, 20), gate(grid, 384, 96, 64), gate(grid, 1024, 256, 5);
    for (bool late_copies : {false, true})
        for (int rows : {1, 32, 64, 100})
            for (int depth : {8, 16, 128, 384, 768}) {
                gemm<GemmBias>("repvit_gemm_bias", BIAS, rows, 96, depth, late_copies);
                gemm<GemmGelu>("repvit_gemm_gelu", GELU, rows, 192, depth, late_copies);
                gemm<GemmResidual>("repvit_gemm_residual", RESIDUAL, rows, 200, depth, late_copies);
            }
}
