/*!
Runs the source of the products with a norm behind them (cuda/norms_hopper.cu) on the CPU (cluster.h) and compares with float64.
*/
#include "cluster.h"

static float float_from_lane(float x, int mask) { return from_lane(x, mask); }
static float reciprocal_root(float x) { return 1 / sqrtf(x); }
static void vectors_give() { turn_arrive(1 + 16 * block_of(me->id), 352); }
static void vectors_wait() { turn_join(1 + 16 * block_of(me->id), 352); }
static const unsigned char *ahead_first, *ahead_end; static std::vector<int> fetched;
static void prefetch_far_line(const void* from) {
    const unsigned char* at = (const unsigned char*)from;
    if (at < ahead_first || at + 128 > ahead_end || (at - ahead_first) % 128) { printf("a line outside\n"); exit(1); }
    fetched[(at - ahead_first) / 128]++;
}
static const float *residual_first, *residual_end;
static void two_inside(const float* p) { if ((size_t)p % 8 || p < residual_first || p + 2 > residual_end) { printf("a residual outside\n"); exit(1); } }
static float2 load_two(const float* from) { two_inside(from); return {from[0], from[1]}; }
static void store_two(float* to, float2 x) { two_inside(to); to[0] = x.x, to[1] = x.y; }
#include "norms.inc"

/// `in_place`: what is normalised goes where the tokens came from, k being the columns.
template <class P> static void test(const char* name, int m, int k, int clusters, bool lazy, bool in_place = false, float offset = 0) {
    const int n = P::N;
    std::normal_distribution<float> normal;
    auto halves = [&](long count, float scale) { std::vector<u16> v(count + 8); for (auto& x : v) x = tohalf(normal(rng) * scale); return v; };
    auto floats = [&](long count, float mean) { std::vector<float> v(count); for (auto& x : v) x = mean + normal(rng); return v; };
    if (in_place) k = n;
    std::vector<u16> a = halves((long)m * k + 64, 1), w = halves((long)n * k, 1 / sqrtf(k)), memory_out((long)m * n + 64, 0x7e00);
    auto aligned = [](std::vector<u16>& v) { return (u16*)(((size_t)v.data() + 15) / 16 * 16); };
    u16 *from = aligned(a), *out = in_place ? from : aligned(memory_out);
    out_first = out, out_end = out + (long)m * n;
    const std::vector<u16> before(from, from + (long)m * k);
    std::vector<float> residual = floats((long)m * n, offset), bias = floats(n, 0), weight = floats(n, 1), shift = floats(n, 0);
    const std::vector<float> old = residual;
    residual_first = residual.data(), residual_end = residual_first + residual.size();
    std::vector<unsigned char> behind(128 * 1000); fetched.assign(1000, 0);
    ahead_first = behind.data(), ahead_end = ahead_first + behind.size();
    const TensorMap tokens{from, m, k, P::TOKEN_ROWS}, weights{w.data(), n, k, P::WEIGHT_ROWS};
    clusters = std::min(clusters, (m + P::ROWS * P::DOWN - 1) / (P::ROWS * P::DOWN)), slow = lazy, conflicts = loads = 0;
    run_clusters(clusters, P::CLUSTER, P::THREADS, [&] {
        P p; p.run(&tokens, &weights, bias.data(), residual.data(), weight.data(), shift.data(), out, m, k, ahead_first, 1000, block_of(me->id) << 18 | 1024);
    });
    double worst_sum = 0, worst = 0;
    for (int i = 0; i < m; i++) {
        std::vector<double> row(n); double mean = 0, square = 0;
        for (int j = 0; j < n; j++) {
            double s = old[(long)i * n + j] + (double)bias[j];
            for (int c = 0; c < k; c++) s += (double)half(before[(long)i * k + c]) * half(w[(long)j * k + c]);
            double d = fabs(residual[(long)i * n + j] - s);
            if (!(d <= worst_sum)) worst_sum = std::isnan(d) ? 1e9 : d;
            row[j] = s, mean += s / n;
        }
        for (double s : row) square += (s - mean) * (s - mean) / n;
        for (int j = 0; j < n; j++) {
            double wanted = (row[j] - mean) / sqrt(square + 1e-6) * weight[j] + shift[j], d = fabs(half(out[(long)i * n + j]) - wanted);
            if (!(d <= worst)) worst = std::isnan(d) ? 1e9 : d;
        }
    }
    bool once = std::all_of(fetched.begin(), fetched.end(), [](int times) { return times == 1; });
    bool bad = !(worst_sum < 1e-4 + offset * 2e-6) || !(worst < 8e-3) || conflicts || !once;
    printf("%s %d x %d x %d, %d clusters, slow %d, in place %d, offset %g: max abs %.2e (residual), %.2e, bank conflicts %ld of %ld%s %s\n", name, m, n, k, clusters, lazy, in_place,
           offset, worst_sum, worst, conflicts, loads, once ? "" : ", lines are left out or asked for again", bad ? "BAD" : "ok");
    fflush(stdout); if (bad) exit(1);
}
template <class P> static void suite(const char* name, bool all) {
    test<P>(name, 33, 96, 1, true);
    test<P>(name, 128 * P::DOWN * 4 - 27, 144, 1, true, false, 50);  // four tiles in a row: each place is used twice
    if (!all) return;
    test<P>(name, 129, 464, 1, true);
    test<P>(name, 1, 64, 1, false);
    test<P>(name, 128 * P::DOWN * 3, 80, 2, true, false, 300);
    test<P>(name, 128 * P::DOWN * 5 + 1, 112, 2, true);
    test<P>(name, 128 * P::DOWN * 3 - 1, 0, 1, true, true, 10);
    test<P>(name, 128 * P::DOWN + 64, 0, 2, false, true);
}
int main(int count, char**) {
    bool all = count == 1;
    suite<Norm<96, 96, 6, 2, 1>>("96", all);
    suite<Norm<224, 112, 6, 1, 2>>("224", all);
    suite<Norm<384, 128, 5, 1, 3>>("384 by 3", all);
    suite<Norm<448, 160, 4, 2, 3>>("448 by 6", all);
    suite<Norm<576, 192, 4, 1, 3>>("576 by 3", all);
    if (!all) return 0;
    suite<Norm<144, 144, 5, 2, 1>>("144", all);
    suite<Norm<288, 144, 5, 1, 2>>("288", all);
    suite<Norm<448, 160, 4, 1, 3>>("448 by 3", all);
    suite<Norm<576, 192, 4, 2, 3>>("576 by 6", all);
}
