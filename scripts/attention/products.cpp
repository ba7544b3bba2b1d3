/*!
Runs the products' own source (cuda/products_hopper.cu) on the CPU (cluster.h) and compares with float64.
*/
#include "cluster.h"
#include "products.inc"

template <class P> static void test(const char* name, int m, int n, int k, int clusters, bool lazy) {
    std::normal_distribution<float> normal;
    auto drawn = [&](long count, float scale) { std::vector<u16> v(count + 8); for (auto& x : v) x = tohalf(normal(rng) * scale); return v; };
    std::vector<u16> a = drawn((long)m * k, 1), w = drawn((long)n * k, 1 / sqrtf(k)), bias = drawn(n, 1), memory_out((long)m * n + 64, 0x7e00);
    u16* out = (u16*)(((size_t)memory_out.data() + 15) / 16 * 16); out_first = out, out_end = out + (long)m * n;
    const TensorMap tokens{a.data(), m, k, P::TOKEN_ROWS}, weights{w.data(), n, k, P::WEIGHT_ROWS};
    int across = (n + P::COLUMNS * P::ACROSS - 1) / (P::COLUMNS * P::ACROSS), tiles = across * ((m + P::ROWS * P::DOWN - 1) / (P::ROWS * P::DOWN));
    clusters = std::min(clusters, tiles), slow = lazy, conflicts = loads = 0;
    run_clusters(clusters, P::CLUSTER, P::THREADS, [&] { P p; p.run(&tokens, &weights, bias.data(), out, m, n, k, block_of(me->id) << 18 | 1024); });
    double err = 0, norm = 0, worst = 0;
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) {
        double s = half(bias[j]); for (int c = 0; c < k; c++) s += (double)half(a[(long)i * k + c]) * half(w[(long)j * k + c]);
        double wanted = P::IS_ACTIVATED ? 0.5 * s * erfc(-s / sqrt(2)) : s, d = half(out[(long)i * n + j]) - wanted;
        if (!(fabs(d) <= worst)) worst = std::isnan(d) ? 1e9 : fabs(d);
        err += d * d, norm += wanted * wanted;
    }
    bool bad = !(worst < 5e-3) || !(sqrt(err / norm) < 6e-4) || conflicts;
    printf("%s %d x %d x %d, %d clusters, slow %d: max abs %.2e rel %.2e, bank conflicts %ld of %ld %s\n", name, m, n, k, clusters, lazy, worst, sqrt(err / norm), conflicts, loads, bad ? "BAD" : "ok");
    fflush(stdout); if (bad) exit(1);
}
template <class P> static void suite(const char* name, bool all) {
    test<P>(name, 33, 64, 96, 1, true);
    test<P>(name, 385, 448, 144, 2, true);
    test<P>(name, 129, 384 * P::ACROSS, 464, 1, true);  // more chunks a tile than slots: phases of a tile that is not begun yet
    if (!all) return;
    test<P>(name, 300, 384, 64, 1, false);
    test<P>(name, 1100, 128, 112, 1, true);
    test<P>(name, 129, 576, 576, 1, true);
    test<P>(name, 513, 320, 416, 2, true);
    test<P>(name, 257, 768, 80, 3, true);
}
int main(int count, char**) {
    bool all = count == 1;
    suite<Product<true, 128, 6, 2, 1>>("128 by 2", all);
    suite<Product<true, 192, 5, 2, 1>>("192 by 2", all);
    suite<Product<true, 128, 6, 2, 2>>("128 by 4", all);
    suite<Product<true, 192, 5, 2, 2>>("192 by 4", all);
    suite<Product<false, 128, 6, 2, 1>>("plain 128 by 2", false);
    suite<Product<false, 192, 5, 2, 1>>("plain 192 by 2", false);
}
