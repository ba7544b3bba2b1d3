/*!
Runs the source of Hiera's fused block (cuda/hiera_block.cu) on the CPU (machine.h) and compares tokens and the next norm with a float64 reference: maps with an
even and an odd number of windows, with and without a next norm, copies that come late.
*/
#include "harness.h"
static void copy16_within(u32 to, const void* from, bool valid) { copy16(to, inside(from, 16), valid); }
#define copy16 copy16_within
#include "hiera_block.h"
#include "hiera_block_packed.h"

/// Factors are halves, and so are queries, keys, values, weights of the attention and the hidden layer.
const double WORST = 4e-3, USUAL = 4e-4;

template <int COLUMNS, int HEADS> static void test(int grid, bool late_copies, bool followed) {
    typedef HieraBlock<COLUMNS, HEADS> Of;
    const int C = COLUMNS, D = C / HEADS, tokens = grid * grid, side = grid / WINDOW;
    late = late_copies;
    Layer qkv(3 * C, C), proj(C, C), up(4 * C, C), down(C, 4 * C);
    // Queries are scaled by the export: scores of deviation 2.
    for (int i = 0; i < C * C; i++) qkv.weight[i] = tohalf(half(qkv.weight[i]) * 2 / sqrtf(D));
    Reals x((size_t)tokens * C, 2, 0.5), vectors(9 * C, 0.3, 0.8);
    for (int c = 0; c < C; c++) vectors[c] = 0, vectors[3 * C + c] = proj.bias[c], vectors[6 * C + c] = down.bias[c];
    Halves next(followed ? (size_t)tokens * C : 0), later(1000);
    Stream stream;
    for (int h = 0; h < HEADS; h++) {
        for (int t = 0; t < Of::QUERY_TILES; t++) stream.rows_of(qkv, h * D + t * 16, (h + 1) * D);
        // Keys, then values, of which a tile may have both.
        for (int t = 0; t < 2 * D / 16; t++) {
            auto row = [=](int n) { const int at = t * 16 + n; return (1 + at / D) * C + h * D + at % D; };
            for (int step = 0; step < C / 16; step++) stream.fragment(qkv, row, [=](int k) { return step * 16 + by_four(k); });
            for (int n = 0; n < 16; n++) { const float b = qkv.bias[row(n)]; stream.bytes.insert(stream.bytes.end(), (unsigned char*)&b, (unsigned char*)(&b + 1)); }
        }
    }
    for (int s = 0; s < C / 16; s++) stream.columns_of(proj, s * 16);
    // The next columns of the hidden layer come in front of what takes the last ones.
    for (int c = 0; c <= C / 4; c++) {
        if (c < C / 4) stream.rows_of(up, c * 16, 4 * C);
        if (c > 0) stream.columns_of(down, c * 16 - 16);
    }
    if ((int)stream.bytes.size() != Of::UNITS * Of::UNIT) printf("%zu bytes of weights\n", stream.bytes.size()), exit(1);
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
        auto token = [&](int i) { return ((size_t)(window / side * 8 + i / 8) * grid + window % side * 8 + i % 8) * C; };
        Numbers each(KEYS * 3 * C), attended(C), sum(C), hidden(4 * C);
        for (int i = 0; i < KEYS; i++) norm(wanted, normed, token(i), 0), product(qkv, &normed[token(i)], &each[i * 3 * C]);
        for (int i = 0; i < KEYS; i++) {
            for (int h = 0; h < HEADS; h++) {
                Numbers weight(KEYS); double all = 0;
                for (int k = 0; k < KEYS; k++) all += weight[k] = exp(dot(&each[i * 3 * C + h * D], &each[k * 3 * C + C + h * D], D));
                for (int c = 0; c < D; c++) { double s = 0; for (int k = 0; k < KEYS; k++) s += weight[k] * each[k * 3 * C + 2 * C + h * D + c]; attended[h * D + c] = s / all; }
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
    launch({(unsigned)(side * side + WINDOWS - 1) / WINDOWS, 1, 1}, THREADS, Of::SHARED, [&] {
        Of().run({x.data(), (unsigned char*)units.data(), vectors.data(), followed ? next.data() : nullptr, (unsigned char*)later.data(), 15, grid}, 1024);
    });
    Shares of = shares_of(x, wanted, [](size_t) { return true; }), after;
    if (followed) after = shares_of(next, normed, [](size_t) { return true; });
    printf("hiera_block_%d, %d x %d tokens, late %d: worst relative error %.2e, usual %.2e, of the next norm %.2e, %.2e, %ld written beyond", C, grid, grid, late_copies, of.worst, of.usual, after.worst, after.usual, x.beyond() + next.beyond());
    verdict(exceeds(of.worst, WORST) || exceeds(of.usual, USUAL) || exceeds(after.worst, WORST) || exceeds(after.usual, USUAL) || x.beyond() || next.beyond());
}

int main(int count, char** words) {
    test<96, 1>(8, true, true);
    test<112, 2>(8, true, true);
    test<144, 2>(8, true, true);
    if (shipped_alone(count, words)) return 0;
    for (bool late_copies : {false, true}) test<96, 1>(16, late_copies, late_copies), test<112, 2>(24, late_copies, !late_copies);
    test<144, 2>(24, true, false);
}
