/*!
Runs the source of the attention (cuda/attention.cu or attention_cluster_hopper.cu) on the CPU
(machine.h, cluster.h) and compares with a float64 reference: all variants, or with `shipped` the
instances in the PTX alone, on few keys.
*/
#ifdef CLUSTERS
#include "cluster.h"
#else
#include "harness.h"
#endif
#include "attention.h"

#ifdef CLUSTERS
typedef ClusterAttention<256, 128, 64, 14, true, true> Filling;
template <int WIDTH> using Global = ClusterAttention<WIDTH, 128, WIDTH, 14, true>;
#else
typedef Attention<256, 4, 2, 32, 64, 4, 1, 8, 2> Cross;
template <class A>
constexpr int threads_of(int groups) {
    return groups ? groups * A::GROUP_THREADS : A::THREADS;
}
#endif
/// Of a kernel with code for a bias: a launch without one.
constexpr int NO_BIAS = -1;
/// Groups of warps that a block has, 0: all that the kernel may have.
static int groups = 0;
/// All blocks of a launch.
template <class A> static void attend(const Problem& p, int batch, int splits) {
    const unsigned blocks = (p.m + A::QUERIES - 1) / A::QUERIES;
#ifdef CLUSTERS
    const auto map = [&](const f16* from, int rows, int columns, int box, Rows at) {
        return TensorMap{from, rows, columns, box, batch, at.row, at.batch};
    };
    const TensorMap q = map(p.q, p.m, p.width, A::QUERIES, p.queries),
                    k = map(p.k, p.n, p.width, A::BOX, p.keys),
                    v = map(p.v, p.n, p.columns, A::BOX, p.values);
    Problem rest = p;
    rest.q = rest.k = rest.v = nullptr, slow = late;
    run_clusters((blocks + ATTENTION_CLUSTER - 1) / ATTENTION_CLUSTER, ATTENTION_CLUSTER, A::THREADS,
                 [&] {
                     A a;
                     a.run(&q, &k, &v, rest, block_of(me->id) << 18 | 1024);
                 },
                 splits, dependent_on, batch);
    dependent_on.clear();
    block_threads = 0, beside = nullptr;
#else
    launch({blocks, (unsigned)splits, (unsigned)batch}, threads_of<A>(groups), A::SHARED, [&] {
        A a;
        a.run(p, 1024);
    });
#endif
}

/// A matrix of rows in a tensor.
struct Matrix {
    f16* data; Rows rows;
    f16& at(int batch, int row, int column) const {
        return data[(long)batch * rows.batch + (long)row * rows.row + column];
    }
};
/// `depth` columns of a head, 0: all that the kernel has. `tokens`: heads side by side in rows of
/// `[q|k|v][head][depth]` and `[head][depth]`.
template <class A>
static void test(const char* name, int batch, int m, int n, int splits, int bias_kind, float scale, bool lazy,
                 int depth = 0, bool tokens = false) {
    late = lazy;
    constexpr int DV = A::DV;
    const int W = depth ? depth : A::WIDTH, V = depth ? depth : DV, all = batch * W;
    if (W > A::WIDTH || V > DV || (tokens && m != n)) { printf("%s: no such launch\n", name); exit(1); }
    Halves ask(tokens ? 3l * m * all : (long)m * all, 1), keys(tokens ? 0 : (long)n * all, 1),
        values(tokens ? 0 : (long)batch * n * V, 1), out((long)batch * m * V);
    Matrix q{ask.data(), {W, m * W}}, k{keys.data(), {W, n * W}}, v{values.data(), {V, n * V}},
        o{out.data(), {V, m * V}};
    if (tokens)
        q.rows = {3 * all, W}, k = {q.data + all, q.rows}, v = {q.data + 2 * all, q.rows}, o.rows = {all, W};
    for (int b = 0; b < batch; b++)
        for (int r = 0; r < m; r++)
            for (int c = 0; c < W; c++) {
                f16& x = q.at(b, r, c);
                x = tohalf(half(x) * scale / sqrtf(W));
            }
#ifdef CLUSTERS
    // An instance has a bias, which may be 0, or takes none (NO_BIAS), or has no code for one.
    if (!A::BIASED) bias_kind = NO_BIAS;
    const bool biased = bias_kind != NO_BIAS;
#else
    const bool biased = bias_kind;
#endif
    Reals bias(n), partial(batch * splits * m * DV), stats(batch * splits * m * 2);
    for (int i = 0; i < n; i++)
        bias[i] = bias_kind == 0 || bias_kind == NO_BIAS ? 0
                  : bias_kind == 1                       ? (i < n / 2 ? -1e4f : 0)
                  : bias_kind == 2                       ? (rng() % 3 ? -1e4f : 0)
                  : bias_kind == 3                       ? -1e4f
                  : bias_kind == 5                       ? (i % 300 == 299 ? 4.0f : 0)
                                                         : normal(rng);
    Problem p{q.data, k.data, v.data, biased ? bias.data() : nullptr, o.data, partial.data(), stats.data(), m,
              n, W, V, q.rows, k.rows, v.rows, o.rows};
    depends_on(ask, keys, values, bias, out, partial, stats);
    attend<A>(p, batch, splits);
    if (splits > 1) {
        blockDim = {256, 1, 1}; int total = batch * m * DV / 4;
        for (unsigned b = 0; b < (unsigned)(total + 255) / 256; b++)
            for (unsigned t = 0; t < 256; t++) {
                blockIdx = {b, 0, 0};
                threadIdx = {t, 0, 0};
                combine<DV>(partial.data(), stats.data(), o.data, batch * m, m, splits, V, o.rows);
            }
    }
    Errors errors;
    for (int b = 0; b < batch; b++) for (int i = 0; i < m; i++) {
        std::vector<double> s(n); double top = -1e300, total = 0, sums[256] = {0};
        for (int j = 0; j < n; j++) {
            double d = 0;
            for (int c = 0; c < W; c++) d += (double)half(q.at(b, i, c)) * half(k.at(b, j, c));
            s[j] = d + bias[j];
            top = std::max(top, s[j]);
        }
        for (int j = 0; j < n; j++) {
            double w = exp(s[j] - top);
            total += w;
            if (w > 1e-12)
                for (int c = 0; c < V; c++) sums[c] += w * half(v.at(b, j, c));
        }
        for (int c = 0; c < V; c++) errors.add(half(o.at(b, i, c)), sums[c] / total);
    }
    const long beyond = out.beyond() + partial.beyond() + stats.beyond();
    printf(
        "%s batch %d m %d n %d splits %d bias %d scale %.0f late %d columns %d%s: max abs %.2e rel %.2e, %ld "
        "written beyond",
        name, batch, m, n, splits, bias_kind, scale, late, V, tokens ? " of tokens" : "", errors.most,
        errors.relative(), beyond);
    verdict(exceeds(errors.most, 1e-2) || exceeds(errors.relative(), 2e-3) || beyond);
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
    if (shipped_alone(count, words)) {
#ifdef CLUSTERS
        shipped<ClusterAttention<256, 128, 64, 14, true>>("attention_cross_hopper");
        shipped<ClusterAttention<256, 128, 64, 14, true, true>>("attention_cross_biased_hopper");
        test<Filling>("attention_cross_biased_hopper, no bias", 1, 121, 333, 2, NO_BIAS, 4, true);
        test<Filling>("attention_cross_biased_hopper, no bias", 1, 33, 260, 1, NO_BIAS, 4, false);
        shipped<ClusterAttention<256, 80, 256, 16, false>>("attention_self_hopper");
        shipped_heads<ClusterAttention<64, 128, 64, 14, true>>("attention_global_64_hopper", 56);
        shipped_heads<ClusterAttention<80, 128, 80, 14, true>>("attention_global_80_hopper", 72);
        shipped_heads<ClusterAttention<96, 128, 96, 14, true>>("attention_global_96_hopper", 96);
#else
        shipped<Attention<256, 4, 2, 32, 64, 4, 1, 8, 2>>("attention_cross");
        groups = 1, shipped<Cross>("attention_cross, one group"), groups = 0;
        shipped<Attention<256, 8, 1, 64, 256, 4, 1, 0>>("attention_self");
        shipped_heads<Attention<64, 4, 2, 64, 64, 4, 1, 4>>("attention_heads_64", 56);
        shipped_heads<Attention<80, 4, 2, 32, 80, 4, 1, 0>>("attention_heads_80", 72);
        shipped_heads<Attention<96, 4, 2, 32, 96, 4, 1, 0>>("attention_heads_96", 96);
#endif
        return 0;
    }
#ifdef CLUSTERS
    suite<ClusterAttention<256, 128, 64, 14, true>>("cluster cross holds");
    suite<Filling>("cluster cross biased");
    suite<ClusterAttention<256, 128, 64, 10, false>>("cluster cross");
    suite<ClusterAttention<256, 80, 256, 16, false>>("cluster self");
    suite<ClusterAttention<256, 64, 256, 20, false>>("cluster self 64");
    suite<ClusterAttention<256, 128, 64, 5, true, true>>("cluster cross ring5");
    suite<ClusterAttention<256, 64, 256, 8, false>>("cluster self ring8");
    test<ClusterAttention<256, 128, 64, 14, true>>("cluster cross holds", 1, 128, 1700, 1, 0, 4, true);
    test<Filling>("cluster cross biased", 1, 128, 1700, 1, 2, 4, true);
    test<Filling>("cluster cross biased, no bias", 3, 520, 1200, 2, NO_BIAS, 4, true);
    // Tiles with a bias of 0, and with one that has a single other.
    test<Filling>("cluster cross biased", 1, 128, 1750, 1, 5, 16, false);
    test<Filling>("cluster cross biased", 3, 520, 1200, 2, 4, 4, true);
    test<ClusterAttention<256, 128, 64, 14, true>>("cluster cross holds", 3, 520, 1200, 2, 0, 4, true);
    test<ClusterAttention<256, 80, 256, 16, false>>("cluster self", 2, 300, 900, 1, 0, 4, true);
    heads<Global<64>>("cluster heads of 64", {8, 56, 64});
    heads<Global<80>>("cluster heads of 80", {72, 80});
    heads<Global<96>>("cluster heads of 96", {88, 96});
    test<Global<96>>("cluster heads of 96", 2, 1100, 1100, 1, 0, 4, true, 96, true);
    test<Global<80>>("cluster heads of 80", 3, 1100, 1100, 1, 0, 4, true, 72, true);
    test<Global<64>>("cluster heads of 64", 3, 2100, 2100, 1, 0, 4, false, 56, true);
    test<ClusterAttention<96, 128, 96, 4, true>>("cluster heads of 96 ring4", 2, 900, 900, 1, 0, 4, true, 96,
                                                 true);
    test<ClusterAttention<64, 128, 64, 2, true>>("cluster heads of 64 ring2", 2, 900, 900, 1, 0, 4, true, 56,
                                                 true);
#else
    suite<Attention<256, 4, 2, 64, 64, 4, 1, 0>>("cross 4x2x64 ring4");
    suite<Attention<256, 8, 2, 64, 64, 10, 5, 3>>("cross 8x2x64 ring10 group5");
    suite<Attention<256, 4, 2, 128, 64, 3, 1, 0>>("cross 4x2x128 ring3");
    suite<Cross>("cross 2x4x2x32 ring4 q8");
    groups = 1, suite<Cross>("cross, one group"), groups = 0;
    // Groups with many tiles, with one and with none.
    for (int n : {1700, 33, 32, 20}) test<Cross>("cross 2x4x2x32", 1, 128, n, 1, 4, 16, true);
    suite<Attention<256, 4, 2, 64, 64, 6, 1, 0, 2>>("cross 2x4x2x64 ring6");
    suite<Attention<256, 8, 1, 64, 256, 4, 1, 4>>("self 8x1x64 ring4 q4");
    suite<Attention<256, 8, 1, 64, 256, 8, 2, 0>>("self 8x1x64 ring8 group2");
    heads<Attention<64, 4, 2, 64, 64, 4, 1, 4>>("heads of 64", {8, 56, 64});
    heads<Attention<80, 4, 2, 32, 80, 4, 1, 0>>("heads of 80", {72, 80});
    heads<Attention<96, 4, 2, 32, 96, 4, 1, 0>>("heads of 96", {88, 96});
    suite<Attention<64, 4, 2, 64, 64, 4, 2, 0>>("heads of 64 group2");
#endif
}
