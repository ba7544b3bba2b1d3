/*!
A fused block of Hiera against a float64 reference: what the tests of both kernels share. After the
kernel's source.
*/
#pragma once
#include "hiera_block_packed.h"

/// Factors are halves, and so are queries, keys, values, weights of the attention and the hidden layer.
const double WORST = 4e-3, USUAL = 4e-4;

/// A map of grid x grid tokens in windows of WIDTH x WIDTH, `windows` of them a block of `threads`.
/// `attention` appends the units up to the projection to a stream.
template <class Of, int COLUMNS, int HEADS, int WIDTH, class Attention>
static void test_block(int grid, int windows, int threads, bool late_copies, bool followed,
                       Attention attention) {
    const int C = COLUMNS, D = C / HEADS, KEYS = WIDTH * WIDTH, tokens = grid * grid, side = grid / WIDTH;
    late = late_copies;
    Layer qkv(3 * C, C), proj(C, C), up(4 * C, C), down(C, 4 * C);
    // Queries are scaled by the export: scores of deviation 2.
    for (int i = 0; i < C * C; i++) qkv.weight[i] = tohalf(half(qkv.weight[i]) * 2 / sqrtf(D));
    Reals x((size_t)tokens * C, 2, 0.5), vectors(9 * C, 0.3, 0.8);
    for (int c = 0; c < C; c++)
        vectors[c] = 0, vectors[3 * C + c] = proj.bias[c], vectors[6 * C + c] = down.bias[c];
    Halves next(followed ? (size_t)tokens * C : 0), later(1000);
    Stream stream;
    attention(stream, qkv, proj);
    // The next columns of the hidden layer come in front of what takes the last ones.
    for (int c = 0; c <= C / 4; c++) {
        if (c < C / 4) stream.rows_of(up, c * 16, 4 * C);
        if (c > 0) stream.columns_of(down, c * 16 - 16, 4 * C);
    }
    if ((int)stream.bytes.size() != Of::UNITS * Of::UNIT)
        printf("%zu bytes of weights\n", stream.bytes.size()), exit(1);
    Halves units(stream.bytes.size() / 2);
    memcpy(units.data(), stream.bytes.data(), stream.bytes.size());
    // The reference, window by window.
    Numbers wanted = x.values(), normed(wanted.size());
    auto norm = [&](const Numbers& from, Numbers& to, size_t at, int of) {
        for (int c = 0; c < C; c++) to[at + c] = from[at + c];
        normalize64(&to[at], C, &vectors[(3 * of + 1) * C], &vectors[(3 * of + 2) * C], 1e-6);
    };
    std::map<Layer*, Numbers> known;
    auto product = [&](Layer& l, const double* from, double* to) {
        Numbers& w = known[&l];
        if (w.size() != l.weight.count) w = l.weight.values();
        for (int r = 0; r < l.rows; r++) to[r] = l.bias.at(r) + dot(from, &w[(size_t)r * l.depth], l.depth);
    };
    for (int window = 0; window < side * side; window++) {
        auto token = [&](int i) {
            return ((size_t)(window / side * WIDTH + i / WIDTH) * grid + window % side * WIDTH + i % WIDTH) *
                   C;
        };
        Numbers each(KEYS * 3 * C), attended(C), sum(C), hidden(4 * C);
        for (int i = 0; i < KEYS; i++)
            norm(wanted, normed, token(i), 0), product(qkv, &normed[token(i)], &each[i * 3 * C]);
        for (int i = 0; i < KEYS; i++) {
            for (int h = 0; h < HEADS; h++) {
                Numbers weight(KEYS); double all = 0;
                for (int k = 0; k < KEYS; k++)
                    all += weight[k] = exp(dot(&each[i * 3 * C + h * D], &each[k * 3 * C + C + h * D], D));
                for (int c = 0; c < D; c++) {
                    double s = 0;
                    for (int k = 0; k < KEYS; k++) s += weight[k] * each[k * 3 * C + 2 * C + h * D + c];
                    attended[h * D + c] = s / all;
                }
            }
            product(proj, attended.data(), sum.data());
            for (int c = 0; c < C; c++) wanted[token(i) + c] += sum[c];
            norm(wanted, normed, token(i), 1);
            product(up, &normed[token(i)], hidden.data());
            for (double& v : hidden) v = gelu64(v);
            product(down, hidden.data(), sum.data());
            for (int c = 0; c < C; c++) wanted[token(i) + c] += sum[c];
            norm(wanted, normed, token(i), 2);
        }
    }
    if (followed) depends_on(x, next); else depends_on(x);
    launch({(unsigned)(side * side + windows - 1) / windows, 1, 1}, threads, Of::SHARED, [&] {
        Of().run({x.data(), (unsigned char*)units.data(), vectors.data(), followed ? next.data() : nullptr,
                  (unsigned char*)later.data(), 15, grid},
                 1024);
    });
    Shares of = shares_of(x, wanted, [](size_t) { return true; }), after;
    if (followed) after = shares_of(next, normed, [](size_t) { return true; });
    printf(
        "hiera_block_%d, %d x %d tokens, late %d: worst relative error %.2e, usual %.2e, of the next norm "
        "%.2e, %.2e, %ld written beyond",
        C, grid, grid, late_copies, of.worst, of.usual, after.worst, after.usual, x.beyond() + next.beyond());
    verdict(exceeds(of.worst, WORST) || exceeds(of.usual, USUAL) || exceeds(after.worst, WORST) ||
            exceeds(after.usual, USUAL) || x.beyond() || next.beyond());
}
