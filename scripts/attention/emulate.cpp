/*!
Runs the attention kernels' own source on the CPU (machine.h) and compares with a float64 reference.
emulate.sh builds and runs it: all variants, or with `shipped` the instances in the PTX alone, on few keys.
*/
#include "machine.h"
#include "body.inc"

template <class A> static void test(const char* name, int batch, int m, int n, int splits, int bias_kind, float scale, bool lazy) {
    late = lazy; std::normal_distribution<float> normal;
    constexpr int DV = A::DV, W = A::WIDTH;
    std::vector<f16> qv(batch * m * W + 8), kv(batch * n * W + 8), vv(batch * n * DV + 8), out(batch * m * DV, 0x7e00);
    auto align = [](std::vector<f16>& x) { return (f16*)(((size_t)x.data() + 15) / 16 * 16); };
    f16 *q = align(qv), *k = align(kv), *v = align(vv);
    for (int i = 0; i < batch * m * W; i++) q[i] = tohalf(normal(rng) * scale / sqrtf(W));
    for (int i = 0; i < batch * n * W; i++) k[i] = tohalf(normal(rng));
    for (int i = 0; i < batch * n * DV; i++) v[i] = tohalf(normal(rng));
    std::vector<float> bias(n), partial(batch * splits * m * DV, NAN), stats(batch * splits * m * 2, NAN);
    for (int i = 0; i < n; i++) bias[i] = bias_kind == 1 ? (i < n / 2 ? -1e4f : 0) : bias_kind == 2 ? (rng() % 3 ? -1e4f : 0) : bias_kind == 3 ? -1e4f : normal(rng);
    Problem p{q, k, v, bias_kind ? bias.data() : nullptr, out.data(), partial.data(), stats.data(), m, n};
    unsigned gx = (m + A::QUERIES - 1) / A::QUERIES; conflicts = loads = 0;
    gridDim = {gx, (unsigned)splits, (unsigned)batch}; blockDim = {(unsigned)A::THREADS, 1, 1};
    for (unsigned z = 0; z < (unsigned)batch; z++) for (unsigned y = 0; y < (unsigned)splits; y++) for (unsigned x = 0; x < gx; x++) {
        blockIdx = {x, y, z}; memory.assign(1024 + A::SHARED, 0xff); for (auto& t : turns) t = {0, 0};
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
        for (unsigned b = 0; b < (unsigned)(total + 255) / 256; b++) for (unsigned t = 0; t < 256; t++) { blockIdx = {b, 0, 0}; threadIdx = {t, 0, 0}; combine<DV>(partial.data(), stats.data(), out.data(), batch * m, m, splits); }
    }
    double worst = 0, norm = 0, err = 0;
    for (int b = 0; b < batch; b++) for (int i = 0; i < m; i++) {
        std::vector<double> s(n); double top = -1e300, total = 0, o[256] = {0};
        for (int j = 0; j < n; j++) { double d = 0; for (int c = 0; c < W; c++) d += (double)half(q[(b * m + i) * W + c]) * half(k[(b * n + j) * W + c]); s[j] = d + (bias_kind ? bias[j] : 0); top = std::max(top, s[j]); }
        for (int j = 0; j < n; j++) { double w = exp(s[j] - top); total += w; if (w > 1e-12) for (int c = 0; c < DV; c++) o[c] += w * half(v[(b * n + j) * DV + c]); }
        for (int c = 0; c < DV; c++) { double d = half(out[(b * m + i) * DV + c]) - o[c] / total; if (!(fabs(d) <= worst)) worst = std::isnan(d) ? 1e9 : fabs(d); err += d * d; norm += o[c] * o[c] / total / total; }
    }
    bool bad = !(worst < 1e-2) || !(sqrt(err / norm) < 2e-3) || conflicts;
    printf("%s batch %d m %d n %d splits %d bias %d scale %.0f late %d: max abs %.2e rel %.2e bank conflicts %ld of %ld %s\n", name, batch, m, n, splits, bias_kind, scale, late, worst, sqrt(err / norm), conflicts, loads, bad ? "BAD" : "ok");
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
int main(int count, char** words) {
    if (count > 1 && !strcmp(words[1], "shipped")) {
#ifdef HOPPER
        shipped<Attention<256, 2, 128, 64, 10, 2, true>>("attention_cross_hopper");
        shipped<Attention<256, 2, 64, 256, 16, 4, true>>("attention_self_hopper");
        shipped<Attention<64, 2, 128, 64, 7, 2, true>>("attention_heads_64_hopper");
        shipped<Attention<128, 2, 128, 128, 12, 2, true>>("attention_heads_128_hopper");
#else
        shipped<Attention<256, 4, 2, 64, 64, 4, 1, 0>>("attention_cross");
        shipped<Attention<256, 8, 1, 64, 256, 4, 1, 0>>("attention_self");
        shipped<Attention<64, 4, 2, 64, 64, 4, 1, 4>>("attention_heads_64");
        shipped<Attention<128, 4, 2, 32, 128, 4, 1, 0>>("attention_heads_128");
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
    suite<Attention<64, 2, 128, 64, 7, 2, true>>("hopper heads of 64");
    suite<Attention<128, 2, 128, 128, 12, 2, true>>("hopper heads of 128");
    test<Attention<64, 2, 128, 64, 7, 2, true>>("hopper heads of 64", 1, 128, 2500, 1, 4, 4, false);
    test<Attention<64, 2, 128, 64, 2, 1, true>>("hopper heads of 64 ring2", 1, 128, 1700, 1, 4, 4, true);
    test<Attention<128, 2, 128, 128, 12, 2, true>>("hopper heads of 128", 1, 128, 2500, 1, 4, 4, false);
    test<Attention<128, 2, 128, 128, 4, 2, true>>("hopper heads of 128 ring4", 1, 128, 1700, 1, 4, 4, true);
#else
    suite<Attention<256, 4, 2, 64, 64, 4, 1, 0>>("cross 4x2x64 ring4");
    suite<Attention<256, 8, 2, 64, 64, 10, 5, 3>>("cross 8x2x64 ring10 group5");
    suite<Attention<256, 4, 2, 128, 64, 3, 1, 0>>("cross 4x2x128 ring3");
    suite<Attention<256, 8, 1, 64, 256, 4, 1, 4>>("self 8x1x64 ring4 q4");
    suite<Attention<256, 8, 1, 64, 256, 8, 2, 0>>("self 8x1x64 ring8 group2");
    suite<Attention<64, 4, 2, 64, 64, 4, 1, 4>>("heads of 64");
    suite<Attention<64, 4, 2, 64, 64, 4, 2, 0>>("heads of 64 group2");
    suite<Attention<128, 4, 2, 32, 128, 4, 1, 0>>("heads of 128");
    suite<Attention<128, 4, 2, 64, 128, 6, 1, 2>>("heads of 128 4x2x64 ring6 q2");
#endif
}
