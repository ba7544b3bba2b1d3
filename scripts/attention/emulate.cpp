/*!
Runs the attention kernels' own source on the CPU (machine.h) and compares with a float64 reference.
emulate.sh builds and runs it: all variants, or with `shipped` the instances in the PTX alone, on few keys.
*/
#include "machine.h"
#include "body.inc"

/// A tensor of rows in a vector of its own, or a part of one; a read of what is no element is a NaN.
struct Tensor {
    f16* data; Rows rows; int columns;
    f16& at(int batch, int row, int column) const { return data[(long)batch * rows.batch + (long)row * rows.row + column]; }
    void fill(int batches, int count, float scale) const {
        std::normal_distribution<float> normal;
        for (int b = 0; b < batches; b++) for (int r = 0; r < count; r++) for (int c = 0; c < columns; c++) at(b, r, c) = tohalf(normal(rng) * scale);
    }
};
/// `depth` columns of a head, 0: all that the kernel has. `tokens`: heads side by side in rows of `[q|k|v][head][depth]` and `[head][depth]`.
template <class A> static void test(const char* name, int batch, int m, int n, int splits, int bias_kind, float scale, bool lazy, int depth = 0, bool tokens = false) {
    late = lazy; std::normal_distribution<float> normal;
    constexpr int DV = A::DV;
    const int W = depth ? depth : A::WIDTH, V = depth ? depth : DV, all = batch * W;
    if (W > A::WIDTH || V > DV || (tokens && m != n)) { printf("%s: no such launch\n", name); exit(1); }
    const long around = 64, sizes[] = {(long)batch * m * W, (long)batch * n * W, (long)batch * n * V, (long)batch * m * V};
    std::vector<f16> memories[4];
    auto place = [&](int i, long size) { memories[i].assign(size + 2 * around + 8, 0x7e00); return (f16*)(((size_t)(memories[i].data() + around) + 15) / 16 * 16); };
    Tensor q, k, v, o;
    if (tokens) {
        f16* first = place(0, 3 * sizes[0]);
        q = {first, {3 * all, W}, W}, k = {first + all, {3 * all, W}, W}, v = {first + 2 * all, {3 * all, W}, W};
        o = {place(3, sizes[3]), {all, W}, W};
    } else {
        q = {place(0, sizes[0]), {W, m * W}, W}, k = {place(1, sizes[1]), {W, n * W}, W}, v = {place(2, sizes[2]), {V, n * V}, V};
        o = {place(3, sizes[3]), {V, m * V}, V};
    }
    q.fill(batch, m, scale / sqrtf(W)), k.fill(batch, n, 1), v.fill(batch, n, 1);
    std::vector<float> bias(n), partial(batch * splits * m * DV, NAN), stats(batch * splits * m * 2, NAN);
    for (int i = 0; i < n; i++) bias[i] = bias_kind == 1 ? (i < n / 2 ? -1e4f : 0) : bias_kind == 2 ? (rng() % 3 ? -1e4f : 0) : bias_kind == 3 ? -1e4f : normal(rng);
    Problem p{q.data, k.data, v.data, bias_kind ? bias.data() : nullptr, o.data, partial.data(), stats.data(), m, n, W, V, q.rows, k.rows, v.rows, o.rows};
    unsigned gx = (m + A::QUERIES - 1) / A::QUERIES; conflicts = loads = 0;
    gridDim = {gx, (unsigned)splits, (unsigned)batch}; blockDim = {(unsigned)A::THREADS, 1, 1};
    for (unsigned z = 0; z < (unsigned)batch; z++) for (unsigned y = 0; y < (unsigned)splits; y++) for (unsigned x = 0; x < gx; x++) {
        blockIdx = {x, y, z}; memory.assign(1024 + A::SHARED, 0xff); unpublished.clear(); for (auto& t : turns) t = {0, 0};
#ifdef HOPPER
        late_products = rng() & 1; barriers.clear(); for (auto& x : queue) x.clear();
#endif

        run_block(A::THREADS, [&] { A a; a.run(p, 1024); });
#ifdef HOPPER
        for (auto& t : turns) if (t.arrived) { printf("a turn is left over\n"); exit(1); }
#endif

    }
    if (splits > 1) {
        blockDim = {256, 1, 1}; int total = batch * m * DV / 4;
        for (unsigned b = 0; b < (unsigned)(total + 255) / 256; b++) for (unsigned t = 0; t < 256; t++) { blockIdx = {b, 0, 0}; threadIdx = {t, 0, 0}; combine<DV>(partial.data(), stats.data(), o.data, batch * m, m, splits, V, o.rows); }
    }
    double worst = 0, norm = 0, err = 0;
    for (int b = 0; b < batch; b++) for (int i = 0; i < m; i++) {
        std::vector<double> s(n); double top = -1e300, total = 0, sums[256] = {0};
        for (int j = 0; j < n; j++) { double d = 0; for (int c = 0; c < W; c++) d += (double)half(q.at(b, i, c)) * half(k.at(b, j, c)); s[j] = d + (bias_kind ? bias[j] : 0); top = std::max(top, s[j]); }
        for (int j = 0; j < n; j++) { double w = exp(s[j] - top); total += w; if (w > 1e-12) for (int c = 0; c < V; c++) sums[c] += w * half(v.at(b, j, c)); }
        for (int c = 0; c < V; c++) { double wanted = sums[c] / total, d = half(o.at(b, i, c)) - wanted; if (!(fabs(d) <= worst)) worst = std::isnan(d) ? 1e9 : fabs(d); err += d * d; norm += wanted * wanted; }
    }
    long beyond = 0;
    for (f16& x : memories[3]) beyond += (&x < o.data || &x >= o.data + sizes[3]) && x != 0x7e00;
    bool bad = !(worst < 1e-2) || !(sqrt(err / norm) < 2e-3) || conflicts || beyond;
    printf("%s batch %d m %d n %d splits %d bias %d scale %.0f late %d columns %d%s: max abs %.2e rel %.2e, %ld written beyond, bank conflicts %ld of %ld %s\n", name, batch, m, n, splits, bias_kind, scale, late, V, tokens ? " of tokens" : "", worst, sqrt(err / norm), beyond, conflicts, loads, bad ? "BAD" : "ok");
    fflush(stdout); if (bad) exit(1);
}
template <class A> static void suite(const char* name) {
    int m = A::QUERIES;
    test<A>(name, 1, m, 200, 1, 0, 1, true);
    test<A>(name, 1, m, 192, 1, 1, 4, false);
    test<A>(name, 2, m + 24, 333, 3, 2, 16, true);
    test<A>(name, 1, m - 7, 449, 2, 4, 60, false);
    test<A>(name, 1, m, 65, 2, 3, 1, true);
    test<A>(name, 1, 33, 5, 4, 0, 1, true);
}
/// What the program runs: whole and ragged tiles, one part and several.
template <class A> static void shipped(const char* name) {
    int m = A::QUERIES;
    test<A>(name, 1, m, 192, 1, 2, 4, true);
    test<A>(name, 1, m - 7, 333, 2, 4, 16, true);
    test<A>(name, 1, 33, 260, 2, 0, 4, false);
}
/// Heads of `depth` columns: in tokens whole and ragged, as tensors of their own, in one part and several.
template <class A> static void shipped_heads(const char* name, int depth) {
    int m = A::QUERIES;
    test<A>(name, 2, m + 24, m + 24, 2, 0, 4, true, depth, true);
    test<A>(name, 1, m - 7, 333, 1, 4, 16, true);
    test<A>(name, 2, 33, 33, 1, 0, 4, false, depth, true);
}
template <class A> static void heads(const char* name, std::initializer_list<int> depths) {
    int m = A::QUERIES;
    suite<A>(name);
    for (int depth : depths) {
        test<A>(name, 3, m, m, 1, 0, 4, true, depth, true);
        test<A>(name, 2, 2 * m + 44, 2 * m + 44, 1, 0, 4, false, depth, true);
        test<A>(name, 2, 2 * m + 44, 2 * m + 44, 3, 0, 16, true, depth, true);
        test<A>(name, 3, 5, 5, 1, 0, 1, true, depth, true);
        test<A>(name, 2, 200, 333, 2, 2, 60, true, depth);
    }
}
int main(int count, char** words) {
    if (count > 1 && !strcmp(words[1], "shipped")) {
#ifdef HOPPER
        shipped<Attention<256, 2, 128, 64, 10, 2, true>>("attention_cross_hopper");
        shipped<Attention<256, 2, 64, 256, 16, 4, true>>("attention_self_hopper");
        shipped_heads<Attention<64, 2, 128, 64, 7, 2, true>>("attention_heads_64_hopper", 56);
        shipped_heads<Attention<80, 2, 128, 80, 12, 4, true>>("attention_heads_80_hopper", 72);
        shipped_heads<Attention<96, 2, 128, 96, 12, 4, true>>("attention_heads_96_hopper", 96);
        shipped_heads<Attention<128, 2, 128, 128, 12, 2, true>>("attention_heads_128_hopper", 104);
#else
        shipped<Attention<256, 4, 2, 64, 64, 4, 1, 0>>("attention_cross");
        shipped<Attention<256, 8, 1, 64, 256, 4, 1, 0>>("attention_self");
        shipped_heads<Attention<64, 4, 2, 64, 64, 4, 1, 4>>("attention_heads_64", 56);
        shipped_heads<Attention<80, 4, 2, 32, 80, 4, 1, 0>>("attention_heads_80", 72);
        shipped_heads<Attention<96, 4, 2, 32, 96, 4, 1, 0>>("attention_heads_96", 96);
        shipped_heads<Attention<128, 4, 2, 32, 128, 4, 1, 0>>("attention_heads_128", 104);
#endif
        return 0;
    }
#ifdef HOPPER
    suite<Attention<256, 2, 128, 64, 10, 4, true>>("hopper cross 2x128");
    suite<Attention<256, 2, 160, 64, 8, 3, true>>("hopper cross 2x160");
    suite<Attention<256, 2, 96, 256, 12, 4, true>>("hopper self 2x96");
    test<Attention<256, 2, 128, 64, 10, 2, false>>("hopper cross no turns", 1, 128, 1700, 1, 2, 4, true);
    test<Attention<256, 2, 128, 64, 10, 8, true>>("hopper cross lag 8", 1, 128, 1700, 1, 2, 4, true);
    test<Attention<256, 3, 128, 64, 8, 3, true>>("hopper cross 3", 1, 192, 1700, 2, 0, 4, false);
    test<Attention<256, 2, 64, 256, 16, 4, true>>("hopper self 2x64", 1, 128, 900, 1, 0, 4, true);
    test<Attention<256, 2, 96, 256, 12, 6, true>>("hopper self 2x96", 1, 128, 1300, 2, 0, 4, true);
    heads<Attention<64, 2, 128, 64, 7, 2, true>>("hopper heads of 64", {8, 56, 64});
    heads<Attention<80, 2, 128, 80, 12, 4, true>>("hopper heads of 80", {72, 80});
    heads<Attention<96, 2, 128, 96, 12, 4, true>>("hopper heads of 96", {88, 96});
    heads<Attention<128, 2, 128, 128, 12, 2, true>>("hopper heads of 128", {104, 128});
    test<Attention<64, 2, 128, 64, 7, 2, true>>("hopper heads of 64", 1, 128, 2500, 1, 4, 4, false);
    test<Attention<64, 2, 128, 64, 2, 1, true>>("hopper heads of 64 ring2", 1, 128, 1700, 1, 4, 4, true);
    test<Attention<128, 2, 128, 128, 12, 2, true>>("hopper heads of 128", 1, 128, 2500, 1, 4, 4, false);
    test<Attention<128, 2, 128, 128, 4, 2, true>>("hopper heads of 128 ring4", 1, 128, 1700, 1, 4, 4, true);
    test<Attention<80, 2, 128, 80, 12, 4, true>>("hopper heads of 80", 1, 128, 2500, 1, 4, 4, false, 72);
    test<Attention<80, 2, 128, 80, 4, 2, true>>("hopper heads of 80 ring4", 1, 1700, 1700, 1, 0, 4, true, 72, true);
    test<Attention<96, 2, 128, 96, 12, 4, true>>("hopper heads of 96", 1, 1100, 1100, 1, 0, 4, false, 96, true);
#else
    suite<Attention<256, 4, 2, 64, 64, 4, 1, 0>>("cross 4x2x64 ring4");
    suite<Attention<256, 8, 2, 64, 64, 10, 5, 3>>("cross 8x2x64 ring10 group5");
    suite<Attention<256, 4, 2, 128, 64, 3, 1, 0>>("cross 4x2x128 ring3");
    suite<Attention<256, 8, 1, 64, 256, 4, 1, 4>>("self 8x1x64 ring4 q4");
    suite<Attention<256, 8, 1, 64, 256, 8, 2, 0>>("self 8x1x64 ring8 group2");
    heads<Attention<64, 4, 2, 64, 64, 4, 1, 4>>("heads of 64", {8, 56, 64});
    heads<Attention<80, 4, 2, 32, 80, 4, 1, 0>>("heads of 80", {72, 80});
    heads<Attention<96, 4, 2, 32, 96, 4, 1, 0>>("heads of 96", {88, 96});
    suite<Attention<64, 4, 2, 64, 64, 4, 2, 0>>("heads of 64 group2");
    heads<Attention<128, 4, 2, 32, 128, 4, 1, 0>>("heads of 128", {104, 128});
    suite<Attention<128, 4, 2, 64, 128, 6, 1, 2>>("heads of 128 4x2x64 ring6 q2");
#endif
}
