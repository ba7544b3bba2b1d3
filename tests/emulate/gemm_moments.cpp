/*!
Runs the two matmuls that share a LayerNorm on the CPU (cluster.h) and compares with float64: the one in front, which adds to the residual
and measures its rows (cuda/gemm_moments_hopper.cu), and those behind, which normalise (gemm_normed.cuh).
*/
#include "cluster.h"
static const unsigned char *ahead_first, *ahead_end; static std::vector<int> fetched;
static void prefetch_far_line(const void* from) {
    const unsigned char* at = (const unsigned char*)from;
    if (at < ahead_first || at + 128 > ahead_end || (at - ahead_first) % 128) { printf("a line outside\n"); exit(1); }
    fetched[(at - ahead_first) / 128]++;
}
#include "gemm_hopper.cuh.gemm"
#include "gemm_normed.cuh.gemm"
#include "gemm_bias_hopper.cu.gemm"
#include "gemm_gelu_hopper.cu.gemm"
#include "gemm_layernorm.h"

template <class P> static TensorMap tokens_of(Halves& a, int m, int k) { return {a.data(), m, k, P::TOKEN_ROWS}; }
template <class P> static TensorMap weights_of(Halves& w, int n, int k) { return {w.data(), n, k, P::WEIGHT_ROWS}; }
/// Clusters of a launch, at most so many; `written` is what the kernel and those before it write.
template <class P, class F> static void launch(int clusters, int m, int n, const std::vector<Region>& written, F kernel) {
    const int across = (n + P::TILE_N * P::CLUSTER_N - 1) / (P::TILE_N * P::CLUSTER_N), down = (m + P::TILE_M * P::CLUSTER_M - 1) / (P::TILE_M * P::CLUSTER_M);
    run_clusters(std::min(clusters, across * down), P::CLUSTER, P::THREADS, [&] { P p; kernel(p, block_of(me->id) << 18 | 1024); }, 1, written);
}
template <class T> static Region region(T& of) { return {of.data(), of.count * sizeof of[0]}; }

/// What the matmul in front leaves: the residual, its halves and its rows' moments.
struct Rows { int m, n, parts; Reals residual, moments; Halves out; };
template <class P> static Rows measure(const char* name, int m, int n, int k, int clusters, float offset) {
    Halves a((long)m * k, 1), w((long)n * k, 1 / sqrtf(k));
    Rows rows{m, n, n / P::TILE_N, Reals((long)m * n, 1), Reals((long)n / P::TILE_N * m * 2), Halves((long)m * n)};
    Reals bias(n, 1);
    // Of three rows one has another mean, and one in half of its columns.
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) rows.residual[(long)i * n + j] += i % 3 == 1 || (i % 3 == 2 && j < n / 2) ? offset : 0;
    const Reals old = rows.residual;
    std::vector<unsigned char> behind(128 * 300); fetched.assign(300, 0);
    ahead_first = behind.data(), ahead_end = ahead_first + behind.size();
    const TensorMap tokens = tokens_of<P>(a, m, k), weights = weights_of<P>(w, n, k);
    launch<P>(clusters, m, n, {region(a), region(rows.residual), region(rows.out), region(rows.moments)}, [&](P& p, u32 shared) {
        p.run(&tokens, &weights, bias.data(), rows.residual.data(), rows.out.data(), rows.moments.data(), m, n, k, ahead_first, 300, shared);
    });
    Errors sums, halves, moments;
    for (int i = 0; i < m; i++) for (int part = 0; part < rows.parts; part++) {
        double mean = 0, squares = 0; const int c = P::TILE_N;
        for (int j = part * c; j < part * c + c; j++) {
            const long at = (long)i * n + j;
            double x = old.at(at) + bias.at(j); for (int l = 0; l < k; l++) x += a.at((long)i * k + l) * w.at((long)j * k + l);
            sums.add(rows.residual.at(at), x), halves.add(rows.out.at(at) / (1 + fabs(x)), x / (1 + fabs(x)));
            mean += rows.residual.at(at) / c;
        }
        for (int j = part * c; j < part * c + c; j++) squares += pow(rows.residual.at((long)i * n + j) - mean, 2);
        const long at = ((long)part * m + i) * 2;
        moments.add(rows.moments.at(at), mean), moments.add(rows.moments.at(at + 1) / c, squares / c);
    }
    const bool once = std::all_of(fetched.begin(), fetched.end(), [](int times) { return times == 1; });
    printf("%s %d x %d x %d, %d clusters, slow %d, offset %g: max abs %.2e (residual), rel %.2e (halves), max abs %.2e (moments)%s", name, m, n, k, clusters, slow,
           offset, sums.most, halves.most, moments.most, once ? "" : ", lines are left out or asked for again");
    verdict(exceeds(sums.most, 1e-4 + offset * 2e-6) || exceeds(halves.most, 6e-4) || exceeds(moments.most, 2e-5 + offset * 2e-6) || !once ||
            rows.residual.beyond() || rows.out.beyond() || rows.moments.beyond());
    return rows;
}

/// LayerNorm(rows) w^T + bias, folded as the host does it, by P; `error`: the norm of what differs from float64's of the f32 rows.
template <class P> static void normalize(const char* name, const Rows& rows, int n, int clusters, double limit) {
    const int m = rows.m, k = rows.n;
    Halves x(rows.out), folded((long)n * k), out((long)m * n);
    Reals moments(rows.moments), w((long)n * k, 1 / sqrtf(k)), gain(k, 0.5, 1), shift(k, 0.5), bias(n, 1), sums(n), biases(n);
    for (int i = 0; i < n; i++) {
        double all = 0, plus = bias.at(i);
        for (int c = 0; c < k; c++) {
            const long at = (long)i * k + c;
            folded[at] = tohalf(w[at] * gain[c]), all += folded.at(at), plus += w.at(at) * shift.at(c);
        }
        sums[i] = all, biases[i] = plus;
    }
    const TensorMap tokens = tokens_of<P>(x, m, k), weights = weights_of<P>(folded, n, k);
    launch<P>(clusters, m, n, {region(x), region(moments), region(out)}, [&](P& p, u32 shared) {
        p.run(&tokens, &weights, {moments.data(), sums.data(), biases.data(), rows.parts}, out.data(), m, n, k, shared);
    });
    Errors errors;
    for (int i = 0; i < m; i++) {
        Numbers row(k); for (int c = 0; c < k; c++) row[c] = rows.residual.at((long)i * k + c);
        normalize64(row.data(), k, gain.first, shift.first, 1e-6);
        for (int j = 0; j < n; j++) {
            double s = bias.at(j); for (int c = 0; c < k; c++) s += row[c] * w.at((long)j * k + c);
            errors.add(out.at((long)i * n + j), P::HAS_GELU ? gelu64(s) : s);
        }
    }
    printf("%s behind %d parts, %d x %d x %d, %d clusters, slow %d: max abs %.2e rel %.2e", name, rows.parts, m, n, k, clusters, slow, errors.most, errors.relative());
    verdict(exceeds(errors.most, 20 * limit) || exceeds(errors.relative(), limit) || out.beyond());
}

/// Rows of a mean of up to so many deviations, by the matmul in front and all behind it.
template <class P> static void chain(const char* name, int m, int n, int k, int hidden, int clusters, bool lazy, float offset = 0) {
    slow = lazy;
    const Rows rows = measure<P>(name, m, n, k, clusters, offset);
    // Halves of rows and of weights are off by 3e-4 of their size each; the mean adds to the rows' size.
    const double limit = 6e-4 + 2.5e-4 * offset;
    normalize<GemmGelu<2, true>>("gelu, two groups", rows, hidden, clusters, limit);
    normalize<GemmGelu<3, true>>("gelu, three groups", rows, hidden, clusters, limit);
    normalize<GemmBias<128, 6, true>>("bias, 128 columns", rows, hidden, clusters, limit);
    normalize<GemmBias<192, 5, true>>("bias, 192 columns", rows, hidden, clusters, limit);
}
int main(int count, char** words) {
    const bool all = !shipped_alone(count, words);
    chain<GemmResidualMoments<96, 7, 1, 2>>("96", 385, 192, 96, 448, 1, true, 3);  // several tiles a block
    chain<GemmResidualMoments<144, 5, 2, 1>>("144", 129, 144, 80, 64, 1, true);   // one part
    if (!all) return 0;
    chain<GemmResidualMoments<112, 6, 1, 2>>("112", 300, 448, 144, 192, 2, true);
    chain<GemmResidualMoments<112, 6, 1, 2>>("112", 1, 224, 64, 64, 1, false, 3);
    chain<GemmResidualMoments<96, 7, 1, 2>>("96", 33, 768, 464, 320, 2, true, 3);  // eight parts; more chunks a tile than slots
    chain<GemmResidualMoments<144, 5, 2, 1>>("144", 257, 432, 400, 128, 1, true, 3);  // three parts
    chain<GemmResidualMoments<144, 5, 2, 1>>("144", 513, 720, 112, 128, 2, false);  // five parts
    chain<GemmResidualMoments<144, 5, 2, 1>>("144", 140, 288, 96, 64, 3, true, 30);
}
