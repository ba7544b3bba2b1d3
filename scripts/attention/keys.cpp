/*!
Runs the source of the memory attention's keys (cuda/keys.cu) on the CPU (machine.h) and compares every key with a float64 reference: places
and quarters of pointers that fill no tile, pointers without times, fewer blocks than tiles.
*/
#include "machine.h"
static u32 add_halves(u32 a, u32 b) { return tohalf(half(a) + half(b)) | (u32)tohalf(half(a >> 16) + half(b >> 16)) << 16; }
#include "../../cuda/halves.cuh"
// As far off as the instructions may be.
static float sine(float x) { return std::sin(x) + 0x1p-20f; }
static float cosine(float x) { return std::cos(x) - 0x1p-20f; }
#include "body.inc"

/// What memory holds around a tensor: a read beyond it is a NaN.
template <class T> struct Tensor {
    std::vector<T> all; size_t count; T around;
    static const size_t AROUND = 4096;
    Tensor(size_t n, T nothing) : all(n + 2 * AROUND + 8, nothing), count(n), around(nothing) {}
    T* data() { return (T*)(((size_t)(all.data() + AROUND) + 15) / 16 * 16); }
    template <class D> void fill(D draw) { for (size_t i = 0; i < count; i++) data()[i] = draw(i); }
    long beyond() { long n = 0; for (T& t : all) if ((&t < data() || &t >= data() + count) && memcmp(&t, &around, sizeof t)) n++; return n; }
};

struct Case { int layers, count, tokens, pointers; bool times; unsigned blocks; };

static void test(Case c) {
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> uniform;
    const f16 NONE = 0x7e00;
    auto some = [&](float scale) { return [=, &normal](size_t) { return tohalf(normal(rng) * scale); }; };
    Tensor<f16> memories(c.count * c.tokens * 64, NONE), pointers(c.pointers * 256, NONE), weight(c.layers * 256 * 64, NONE), positions(c.tokens * 64, NONE), age_rows(c.count * 64, NONE);
    Tensor<float> bias(c.layers * 256, NAN), times(c.pointers, NAN), frequencies(128, NAN), time_weight(256 * 64, NAN), time_bias(64, NAN);
    Tensor<u32> turns(c.tokens * 128, 0x7e007e00u);
    Tensor<int> ages(c.count, 1 << 24);
    size_t all = c.count * c.tokens + 4 * c.pointers;
    Tensor<f16> keys(c.layers * all * 256, NONE);
    memories.fill(some(1)), pointers.fill(some(1)), weight.fill(some(0.125)), positions.fill(some(0.5)), age_rows.fill(some(0.5));
    auto real = [&](float scale) { return [=, &normal](size_t) { return normal(rng) * scale; }; };
    bias.fill(real(0.5)), time_weight.fill(real(0.1)), time_bias.fill(real(0.5));
    times.fill([&](size_t) { return uniform(rng); });
    frequencies.fill([&](size_t i) { return powf(10000.0f, -2.0f * (i / 2) / 128); });
    turns.fill([&](size_t) { float angle = 64 * uniform(rng); return pack(cosf(angle), sinf(angle)); });
    ages.fill([&](size_t i) { return (int)((i + 3) * 5 % c.count); });
    gridDim = {c.blocks, (unsigned)c.layers, 1}; blockDim = {KEY_THREADS, 1, 1};
    for (unsigned y = 0; y < gridDim.y; y++) for (unsigned x = 0; x < gridDim.x; x++) {
        blockIdx = {x, y, 0};
        PointerTimes shared; memset(&shared, 0xff, sizeof shared);
        std::vector<Keys> threads(KEY_THREADS);
        run_block(KEY_THREADS, [&] {
            threads[threadIdx.x].run(KeysProblem{memories.data(), ages.data(), pointers.data(), c.times ? times.data() : nullptr, weight.data(), bias.data(), positions.data(), age_rows.data(), turns.data(),
                                                 frequencies.data(), time_weight.data(), time_bias.data(), keys.data(), c.count, c.tokens, c.pointers}, shared);
        });
    }
    double worst = 0, err = 0, norm = 0;
    for (int layer = 0; layer < c.layers; layer++) for (size_t row = 0; row < all; row++) {
        double x[64], k[256];
        bool memory = row < (size_t)c.count * c.tokens; int place = row % c.tokens, quarter = row - c.count * c.tokens;
        for (int i = 0; i < 64; i++) {
            if (memory) x[i] = (double)half(memories.data()[row * 64 + i]) + half(positions.data()[place * 64 + i]) + half(age_rows.data()[ages.data()[row / c.tokens] * 64 + i]);
            else {
                x[i] = half(pointers.data()[quarter * 64 + i]);
                if (c.times) {
                    x[i] += time_bias.data()[i];
                    for (int w = 0; w < 256; w++) { double angle = (double)times.data()[quarter / 4] * frequencies.data()[w % 128]; x[i] += (w < 128 ? sin(angle) : cos(angle)) * time_weight.data()[w * 64 + i]; }
                }
            }
        }
        for (int n = 0; n < 256; n++) { k[n] = bias.data()[layer * 256 + n]; for (int i = 0; i < 64; i++) k[n] += x[i] * half(weight.data()[(layer * 256 + n) * 64 + i]); }
        for (int n = 0; n < 256; n++) {
            u32 turn = memory ? turns.data()[place * 128 + n % 128] : 0x3c00; double co = half(turn), si = half(turn >> 16);
            double wanted = n < 128 ? k[n] * co - k[n + 128] * si : k[n - 128] * si + k[n] * co, d = half(keys.data()[(layer * all + row) * 256 + n]) - wanted;
            if (!(fabs(d) <= worst)) worst = std::isnan(d) ? 1e9 : fabs(d);
            err += d * d; norm += wanted * wanted;
        }
    }
    bool bad = !(worst < 1e-2) || !(sqrt(err / norm) < 1e-3) || keys.beyond();
    printf("memory_keys %d layers, %d memories of %d, %d pointers, times %d, %u blocks: max abs %.2e rel %.2e, %ld written beyond %s\n", c.layers, c.count, c.tokens, c.pointers, c.times, c.blocks, worst,
           sqrt(err / norm), keys.beyond(), bad ? "BAD" : "ok");
    fflush(stdout); if (bad) exit(1);
}

int main(int count, char** words) {
    test({2, 3, 40, 5, true, 2});
    test({1, 2, 9, 4, false, 3});
    test({1, 7, 64, 16, true, 1});
    if (count > 1 && !strcmp(words[1], "shipped")) return 0;
    test({4, 7, 64, 16, true, 9});
    test({4, 2, 1024, 16, true, 20});
    test({2, 7, 512, 16, false, 33});
    test({1, 1, 1, 1, true, 1});
    test({3, 1, 17, 3, true, 1});
}
