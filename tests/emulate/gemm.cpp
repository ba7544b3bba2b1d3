/*!
Runs the matmuls' own sources (cuda/gemm_bias_hopper.cu, gemm_gelu_hopper.cu) on the CPU (cluster.h)
and compares with float64.
*/
#include "cluster.h"
#include "gemm.h"

template <class P> static void test(const char* name, int m, int n, int k, int clusters, bool lazy) {
    Halves a((long)m * k, 1), w((long)n * k, 1 / sqrtf(k)), bias(n, 1), out((long)m * n);
    const TensorMap tokens{a.data(), m, k, P::TOKEN_ROWS}, weights{w.data(), n, k, P::WEIGHT_ROWS};
    const int tall = P::TILE_M * P::CLUSTER_M, broad = P::TILE_N * P::CLUSTER_N;
    const int tiles = ((m + tall - 1) / tall) * ((n + broad - 1) / broad);
    clusters = std::min(clusters, tiles), slow = lazy;
    run_clusters(clusters, P::CLUSTER, P::THREADS, [&] {
        P p;
        p.run(&tokens, &weights, bias.data(), out.data(), m, n, k, block_of(me->id) << 18 | 1024);
    });
    Errors errors;
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) {
        double s = bias.at(j); for (int c = 0; c < k; c++) s += a.at((long)i * k + c) * w.at((long)j * k + c);
        errors.add(out.at((long)i * n + j), P::HAS_GELU ? gelu64(s) : s);
    }
    printf("%s %d x %d x %d, %d clusters, slow %d: max abs %.2e rel %.2e", name, m, n, k, clusters, lazy,
           errors.most, errors.relative());
    verdict(exceeds(errors.most, 5e-3) || exceeds(errors.relative(), 6e-4) || out.beyond());
}
template <class P> static void suite(const char* name, bool all) {
    test<P>(name, 33, 64, 96, 1, true);
    test<P>(name, 385, 448, 144, 2, true);
    // More chunks a tile than slots: phases of a tile that is not begun yet.
    test<P>(name, 129, 384 * P::CLUSTER_N, 464, 1, true);
    if (!all) return;
    test<P>(name, 300, 384, 64, 1, false);
    test<P>(name, 1100, 128, 112, 1, true);
    test<P>(name, 129, 576, 576, 1, true);
    test<P>(name, 513, 320, 416, 2, true);
    test<P>(name, 257, 768, 80, 3, true);
}
int main(int count, char** words) {
    const bool all = !shipped_alone(count, words);
    suite<GemmGelu<128, 6, 2, false>>("gelu, 128 columns, two groups", all);
    suite<GemmGelu<128, 6, 3, false>>("gelu, 128 columns, three groups", all);
    suite<GemmGelu<192, 5, 2, true>>("gelu, 192 columns, two groups", all);
    suite<GemmBias<128, 6>>("bias, 128 columns", all);
    suite<GemmBias<192, 5>>("bias, 192 columns", all);
}
