/*!
Runs the source of the products with a norm behind them (cuda/gemm_layernorm_hopper.cu) on the CPU
(cluster.h) and compares with float64.
*/
#include "cluster.h"
static const unsigned char *ahead_first, *ahead_end; static std::vector<int> fetched;
static void prefetch(const void* from) {
    const unsigned char* at = (const unsigned char*)from;
    if (at < ahead_first || at + 128 > ahead_end || (at - ahead_first) % 128) {
        printf("a line outside\n");
        exit(1);
    }
    fetched[(at - ahead_first) / 128]++;
}
#include "gemm_layernorm.h"

/// `in_place`: what is normalised goes where the tokens came from, k being the columns.
template <class P>
static void test(const char* name, int m, int k, int clusters, bool lazy, bool in_place = false,
                 float offset = 0) {
    const int n = P::N, tall = P::TILE_M * P::CLUSTER_M;
    if (in_place) k = n;
    Halves a((long)m * k, 1), w((long)n * k, 1 / sqrtf(k)), apart((long)m * n);
    Halves& out = in_place ? a : apart;
    Reals residual((long)m * n, 1, offset), bias(n, 1), weight(n, 1, 1), shift(n, 1);
    const Halves before = a; const Reals old = residual;
    std::vector<unsigned char> behind(128 * 1000); fetched.assign(1000, 0);
    ahead_first = behind.data(), ahead_end = ahead_first + behind.size();
    const TensorMap tokens{a.data(), m, k, P::TOKEN_ROWS}, weights{w.data(), n, k, P::WEIGHT_ROWS};
    clusters = std::min(clusters, (m + tall - 1) / tall), slow = lazy;
    run_clusters(clusters, P::CLUSTER, P::THREADS, [&] {
        P p;
        p.run(&tokens, &weights, bias.data(), residual.data(), weight.data(), shift.data(), out.data(), m, k,
              ahead_first, 1000, block_of(me->id) << 18 | 1024);
    });
    Errors sums, errors;
    for (int i = 0; i < m; i++) {
        Numbers row(n);
        for (int j = 0; j < n; j++) {
            row[j] = old.at((long)i * n + j) + bias.at(j);
            for (int c = 0; c < k; c++) row[j] += before.at((long)i * k + c) * w.at((long)j * k + c);
            sums.add(residual.at((long)i * n + j), row[j]);
        }
        normalize64(row.data(), n, weight.data(), shift.data(), 1e-6);
        for (int j = 0; j < n; j++) errors.add(out.at((long)i * n + j), row[j]);
    }
    bool once = std::all_of(fetched.begin(), fetched.end(), [](int times) { return times == 1; });
    printf("%s %d x %d x %d, %d clusters, slow %d, in place %d, offset %g: max abs %.2e (residual), %.2e%s",
           name, m, n, k, clusters, lazy, in_place, offset, sums.most, errors.most,
           once ? "" : ", lines are left out or asked for again");
    verdict(exceeds(sums.most, 1e-4 + offset * 2e-6) || exceeds(errors.most, 8e-3) || !once || out.beyond() ||
            residual.beyond());
}
template <class P> static void suite(const char* name, bool all) {
    test<P>(name, 33, 96, 1, true);
    // Four tiles in a row: each place is used twice.
    test<P>(name, 128 * P::CLUSTER_M * 4 - 27, 144, 1, true, false, 50);
    if (!all) return;
    test<P>(name, 129, 464, 1, true);
    test<P>(name, 1, 64, 1, false);
    test<P>(name, 128 * P::CLUSTER_M * 3, 80, 2, true, false, 300);
    test<P>(name, 128 * P::CLUSTER_M * 5 + 1, 112, 2, true);
    test<P>(name, 128 * P::CLUSTER_M * 3 - 1, 0, 1, true, true, 10);
    test<P>(name, 128 * P::CLUSTER_M + 64, 0, 2, false, true);
}
int main(int count, char** words) {
    const bool all = !shipped_alone(count, words);
    suite<GemmResidualLayerNorm<144, 144, 5, 2, 1>>("144", all);
    suite<GemmResidualLayerNorm<224, 112, 6, 1, 2>>("224", all);
    suite<GemmResidualLayerNorm<384, 128, 5, 2, 3>>("384 by 6", all);
    suite<GemmResidualLayerNorm<448, 160, 4, 2, 3>>("448 by 6", all);
    if (!all) return 0;
    suite<GemmResidualLayerNorm<288, 144, 5, 1, 2>>("288", all);
}
