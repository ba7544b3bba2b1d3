/*!
Runs the source of the memory attention's keys (cuda/memory_key_proj.cu) on the CPU (machine.h) and
compares every key with a float64 reference: places and quarters of pointers that fill no tile,
pointers without times, fewer blocks than tiles.
*/
#include "harness.h"
#include "memory_key_proj.h"

struct Case { int layers, count, tokens, pointers; bool times; unsigned blocks; };

static void test(Case c) {
    std::uniform_real_distribution<float> uniform;
    Halves memories(c.count * c.tokens * 64, 1), pointers(c.pointers * 256, 1),
        weight(c.layers * 256 * 64, 0.125), positions(c.tokens * 64, 0.5), age_rows(c.count * 64, 0.5);
    Reals bias(c.layers * 256, 0.5), times(c.pointers), frequencies(128), time_weight(256 * 64, 0.1),
        time_bias(64, 0.5);
    Tensor<u32> turns(c.tokens * 128, 0x7e007e00u);
    Tensor<int> ages(c.count, 1 << 24);
    size_t all = c.count * c.tokens + 4 * c.pointers;
    Halves keys(c.layers * all * 256);
    times.fill([&](size_t) { return uniform(rng); });
    frequencies.fill([&](size_t i) { return powf(10000.0f, -2.0f * (i / 2) / 128); });
    turns.fill([&](size_t) { float angle = 64 * uniform(rng); return to_f16x2(cosf(angle), sinf(angle)); });
    ages.fill([&](size_t i) { return (int)((i + 3) * 5 % c.count); });
    struct Block { PointerTimes shared; Keys threads[KEY_THREADS]; };
    launch_with<Block>({c.blocks, (unsigned)c.layers, 1}, KEY_THREADS, [&](Block& block) {
        block.threads[threadIdx.x].run(
            KeysProblem{memories.data(), ages.data(), pointers.data(), c.times ? times.data() : nullptr,
                        weight.data(), bias.data(), positions.data(), age_rows.data(), turns.data(),
                        frequencies.data(), time_weight.data(), time_bias.data(), keys.data(), c.count,
                        c.tokens, c.pointers},
            block.shared);
    });
    Errors errors;
    for (int layer = 0; layer < c.layers; layer++) for (size_t row = 0; row < all; row++) {
        double x[64], k[256];
        bool memory = row < (size_t)c.count * c.tokens;
        int place = row % c.tokens, quarter = row - c.count * c.tokens;
        for (int i = 0; i < 64; i++) {
            if (memory)
                x[i] = (double)half(memories.data()[row * 64 + i]) + half(positions.data()[place * 64 + i]) +
                       half(age_rows.data()[ages.data()[row / c.tokens] * 64 + i]);
            else {
                x[i] = half(pointers.data()[quarter * 64 + i]);
                if (c.times) {
                    x[i] += time_bias.data()[i];
                    for (int w = 0; w < 256; w++) {
                        double angle = (double)times.data()[quarter / 4] * frequencies.data()[w % 128];
                        x[i] += (w < 128 ? sin(angle) : cos(angle)) * time_weight.data()[w * 64 + i];
                    }
                }
            }
        }
        for (int n = 0; n < 256; n++) {
            k[n] = bias.data()[layer * 256 + n];
            for (int i = 0; i < 64; i++) k[n] += x[i] * half(weight.data()[(layer * 256 + n) * 64 + i]);
        }
        for (int n = 0; n < 256; n++) {
            u32 turn = memory ? turns.data()[place * 128 + n % 128] : 0x3c00;
            double co = half(turn), si = half(turn >> 16);
            double wanted = n < 128 ? k[n] * co - k[n + 128] * si : k[n - 128] * si + k[n] * co;
            errors.add(keys.at((layer * all + row) * 256 + n), wanted);
        }
    }
    bool bad = exceeds(errors.most, 1e-2) || exceeds(errors.relative(), 1e-3) || keys.beyond();
    printf(
        "memory_key_proj %d layers, %d memories of %d, %d pointers, times %d, %u blocks: max abs %.2e rel "
        "%.2e, %ld written beyond",
        c.layers, c.count, c.tokens, c.pointers, c.times, c.blocks, errors.most, errors.relative(),
        keys.beyond());
    verdict(bad);
}

int main(int count, char** words) {
    test({2, 3, 40, 5, true, 2});
    test({1, 2, 9, 4, false, 3});
    test({1, 7, 64, 16, true, 1});
    if (shipped_alone(count, words)) return 0;
    test({4, 7, 64, 16, true, 9});
    test({4, 2, 1024, 16, true, 20});
    test({2, 7, 512, 16, false, 33});
    test({1, 1, 1, 1, true, 1});
    test({3, 1, 17, 3, true, 1});
}
