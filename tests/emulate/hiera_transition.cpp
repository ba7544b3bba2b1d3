/*!
Runs the source of the block that begins Hiera's second stage (cuda/hiera_transition.cu) on the CPU
(machine.h) and compares its residual and the norm in front of the MLP with a float64 reference:
maps whose windows fill the last block of threads and maps whose windows do not, copies that come
late.
*/
#include "harness.h"
static void copy16_within(u32 to, const void* from, bool valid) { copy16(to, inside(from, 16), valid); }
#define copy16 copy16_within
#include "hiera_block.h"
#include "hiera_block_packed.h"
#include "hiera_transition.h"

/// Factors are halves, and so are queries, keys, values, weights of the attention, and the shortcut.
const double WORST = 4e-3, USUAL = 4e-4;

template <int COLUMNS, int HEADS> static void test(int grid, bool late_copies) {
    typedef HieraTransition<COLUMNS, HEADS> Of;
    const int C = COLUMNS, W = 2 * C, D = W / HEADS, H = HEADS, tokens = grid * grid, side = grid / WINDOW,
              half_grid = grid / 2;
    late = late_copies;
    Layer qkv(3 * W, C), skip(W, C), proj(W, W);
    // Queries are scaled by the export: scores of deviation 2.
    for (int i = 0; i < W * C; i++) qkv.weight[i] = tohalf(half(qkv.weight[i]) * 2 / sqrtf(D));
    Halves normed((size_t)tokens * C, 1), next((size_t)tokens / 4 * W), later(1000);
    Reals x((size_t)tokens / 4 * W, 1), vectors(3 * W, 0.3, 0.8);
    for (int c = 0; c < W; c++) vectors[c] = proj.bias[c];
    Stream stream;
    auto bias_of = [&](Layer& l, int row) {
        const float b = row < 0 ? 0 : l.bias[row];
        stream.bytes.insert(stream.bytes.end(), (unsigned char*)&b, (unsigned char*)(&b + 1));
    };
    auto rows = [&](Layer& l, auto row) {
        for (int step = 0; step < C / 16; step++)
            stream.fragment(l, row, [=](int k) { return step * 16 + by_four(k); });
        for (int n = 0; n < 16; n++) bias_of(l, row(n));
    };
    for (int h = 0; h < H; h++) {
        for (int t = 0; t < D / 16; t++)
            stream.rows_of(qkv, h * D + t * 16, W), stream.rows_of(qkv, W + h * D + t * 16, 2 * W);
        // The last eight columns of queries and of keys.
        if (D % 16) rows(qkv, [=](int n) { return n / 8 * W + (h + 1) * D - 8 + n % 8; });
        for (int t = 0; t < (D + 15) / 16; t++)
            stream.rows_of(qkv, 2 * W + h * D + t * 16, 2 * W + (h + 1) * D);
    }
    for (int t = 0; t < W / 16; t++) rows(skip, [=](int n) { return t * 16 + by_four(n); });
    for (int s = 0; s < W / 16; s++) {
        const int whole = D / 16, shared = s - H * whole;
        auto column = [=](int k) {
            return shared < 0 ? s / whole * D + s % whole * 16 + k : (shared * 2 + k / 8 + 1) * D - 8 + k % 8;
        };
        for (int t = 0; t < W / 16; t++) {
            stream.fragment(proj, [=](int n) { return t * 16 + by_four(n); }, column);
            if ((t + 1) % (C / 16) == 0) stream.biases(proj, -1, 0, 0);
        }
    }
    const auto begin = stream.bytes.size();
    stream.bytes.insert(stream.bytes.end(), (unsigned char*)vectors.data(),
                        (unsigned char*)(vectors.data() + 3 * W));
    stream.bytes.resize(begin + Of::UNIT);
    if ((int)stream.bytes.size() != Of::UNITS * Of::UNIT)
        printf("%zu bytes of weights\n", stream.bytes.size()), exit(1);
    Halves units(stream.bytes.size() / 2);
    memcpy(units.data(), stream.bytes.data(), stream.bytes.size());
    // The reference, window by window.
    Numbers wanted(x.count), after(x.count), from = normed.values();
    std::map<Layer*, Numbers> known;
    auto product = [&](Layer& l, const double* from, double* to) {
        Numbers& w = known[&l];
        if (w.size() != l.weight.count) w = l.weight.values();
        for (int r = 0; r < l.rows; r++) to[r] = l.bias.at(r) + dot(from, &w[(size_t)r * l.depth], l.depth);
    };
    for (int window = 0; window < side * side; window++) {
        Numbers each(KEYS * 3 * W), past(KEYS * W), attended(W), sum(W);
        for (int i = 0; i < KEYS; i++) {
            const double* token =
                &from[((size_t)(window / side * 8 + i / 8) * grid + window % side * 8 + i % 8) * C];
            product(qkv, token, &each[i * 3 * W]), product(skip, token, &past[i * W]);
        }
        for (int p = 0; p < KEYS / 4; p++) {
            const size_t to =
                ((size_t)(window / side * 4 + p / 4) * half_grid + window % side * 4 + p % 4) * W;
            auto pooled = [&](Numbers& of, int row, int c) {
                double most = -1e30;
                for (int i = 0; i < 4; i++)
                    most = std::max(most, of[((p / 4 * 2 + i / 2) * 8 + p % 4 * 2 + i % 2) * row + c]);
                return most;
            };
            for (int h = 0; h < H; h++) {
                Numbers weight(KEYS), query(D); double all = 0;
                for (int c = 0; c < D; c++) query[c] = pooled(each, 3 * W, h * D + c);
                for (int k = 0; k < KEYS; k++)
                    all += weight[k] = exp(dot(query.data(), &each[k * 3 * W + W + h * D], D));
                for (int c = 0; c < D; c++) {
                    double s = 0;
                    for (int k = 0; k < KEYS; k++) s += weight[k] * each[k * 3 * W + 2 * W + h * D + c];
                    attended[h * D + c] = s / all;
                }
            }
            product(proj, attended.data(), sum.data());
            for (int c = 0; c < W; c++) after[to + c] = wanted[to + c] = pooled(past, W, c) + sum[c];
            normalize64(&after[to], W, &vectors[W], &vectors[2 * W], 1e-6);
        }
    }
    depends_on(normed, x, next);
    launch({(unsigned)(side * side + TRANSITION_WINDOWS - 1) / TRANSITION_WINDOWS, 1, 1}, THREADS, Of::SHARED,
           [&] {
               Of().run({normed.data(), (unsigned char*)units.data(), x.data(), next.data(),
                         (unsigned char*)later.data(), 15, grid},
                        1024);
           });
    Shares of = shares_of(x, wanted, [](size_t) { return true; }),
           norm = shares_of(next, after, [](size_t) { return true; });
    printf(
        "hiera_transition_%d, %d x %d tokens, late %d: worst relative error %.2e, usual %.2e, of the next "
        "norm %.2e, %.2e, %ld written beyond",
        C, grid, grid, late_copies, of.worst, of.usual, norm.worst, norm.usual, x.beyond() + next.beyond());
    verdict(exceeds(of.worst, WORST) || exceeds(of.usual, USUAL) || exceeds(norm.worst, WORST) ||
            exceeds(norm.usual, USUAL) || x.beyond() || next.beyond());
}

int main(int count, char** words) {
    test<96, 2>(8, true);
    test<112, 4>(8, true);
    test<144, 4>(8, true);
    if (shipped_alone(count, words)) return 0;
    for (bool late_copies : {false, true})
        test<96, 2>(16, late_copies), test<112, 4>(24, late_copies), test<144, 4>(16, late_copies);
}
