/*!
Runs the source of RepViT's stem (cuda/repvit_stem.cu) on the CPU (machine.h) and compares its
tokens with a float64 reference: maps that fill no tile, fewer columns than it has room for, copies
that come late.
*/
#include "harness.h"
static void copy16_within(u32 to, const void* from, bool valid) { copy16(to, inside(from, 16), valid); }
#define copy16 copy16_within
#include "repvit_stem.h"
#include "repvit_packed.h"

/// A token is stored as a half, and so is what lies between the convolutions.
const double WORST = 1.6e-3, USUAL = 3e-4;

/// Of a 3x3 convolution with stride 2; `weight` [columns, channels, 3, 3], maps channels-last.
static Numbers convolved(const Numbers& in, Halves& weight, Reals& bias, int side, int channels,
                         int columns) {
    const int out = side / 2;
    Numbers y((size_t)out * out * columns), w = weight.values();
    for (int t = 0; t < out * out; t++) for (int c = 0; c < columns; c++) {
        double sum = bias.at(c);
        for (int tap = 0; tap < 9; tap++) {
            const int row = t / out * 2 + tap / 3 - 1, column = t % out * 2 + tap % 3 - 1;
            if (row < 0 || row >= side || column < 0 || column >= side) continue;
            for (int k = 0; k < channels; k++)
                sum += in[((size_t)row * side + column) * channels + k] * w[(c * channels + k) * 9 + tap];
        }
        y[(size_t)t * columns + c] = sum;
    }
    return y;
}

static void test(int grid, int middle, int columns, bool late_copies) {
    late = late_copies;
    const int side = grid * 4;
    Halves image((size_t)3 * side * side, 1, 0.2), first(middle * 27, 0.25),
        second(columns * middle * 9, 1 / sqrtf(9 * middle)), tokens((size_t)grid * grid * columns);
    Reals first_bias(MIDDLE, 0.3), second_bias(WIDTH, 0.3), edges(9 * columns, 1);
    Tensor<long long> sums(COPIES * columns, -1ll);
    sums.fill([](size_t) { return 0; });
    // As crates/kernels/src/repvit/packed.rs has them: pairs of taps, and taps in front of channels.
    Halves of_first(FIRST_WORDS * 64), by_taps(columns * 9 * MIDDLE), wide(WIDTH * 9 * MIDDLE);
    of_first.fill([&](size_t at) {
        const int word = at / 256 * 4 + at / 2 % 4, lane = at / 8 % 32, column = word / 2 % 3 * 8 + lane / 4,
                  pair = word / 6 * 8 + word % 2 * 4 + lane % 4;
        const int tap = pair % 2 * 2 + at % 2 - 1;
        return word < 18 && column < middle && pair < 18 && tap >= 0 ? first[column * 27 + pair / 2 * 3 + tap]
                                                                     : (f16)0;
    });
    by_taps.fill([&](size_t at) {
        const int channel = at % MIDDLE, tap = at / MIDDLE % 9;
        return channel < middle ? second[(at / MIDDLE / 9 * middle + channel) * 9 + tap] : (f16)0;
    });
    wide.fill([&](size_t at) { return at < by_taps.count ? by_taps[at] : (f16)0; });
    for (int i = middle; i < MIDDLE; i++) first_bias[i] = 0;
    Halves of_second = packed(wide, WIDTH, 9 * MIDDLE, 3);
    depends_on(image, tokens, sums);
    launch({(unsigned)(grid + COLUMNS - 1) / COLUMNS, (unsigned)(grid + LINES - 1) / LINES, 1}, THREADS,
           Stem::SHARED, [&] {
               Stem().run(
                   {image.data(), of_first.data(), first_bias.data(), of_second.data(), second_bias.data(),
                    tokens.data(), edges.data(), late_copies ? sums.data() : nullptr, side, columns},
                   1024);
           });
    Numbers in((size_t)side * side * 3);
    for (size_t i = 0; i < in.size(); i++) in[i] = image.at(i % 3 * side * side + i / 3);
    Numbers between = convolved(in, first, first_bias, side, 3, middle);
    for (double& x : between) x = gelu64(x);
    Shares of = shares_of(tokens, convolved(between, second, second_bias, side / 2, middle, columns),
                          [](size_t) { return true; });
    printf(
        "repvit_stem, %d x %d tokens, %d to %d columns, late %d: worst relative error %.2e, usual %.2e, %ld "
        "written beyond",
        grid, grid, middle, columns, late_copies, of.worst, of.usual, tokens.beyond());
    Errors all;
    for (int c = 0; c < columns; c++) {
        double found = 0, wanted = 0;
        auto edge = [&](int at) { return at == 0 ? 0 : at == grid - 1 ? 2 : 1; };
        for (int i = 0; i < COPIES; i++) found += sums.at(i * columns + c) / SUM_UNIT;
        for (int t = 0; t < grid * grid; t++)
            wanted += tokens.at((size_t)t * columns + c) *
                      edges.at((edge(t / grid) * 3 + edge(t % grid)) * columns + c);
        all.add(found, late_copies ? wanted : 0);
    }
    printf(", sums' %.1e", all.most);
    // Where eight pixels begin a new line.
    verdict(exceeds(of.worst, WORST) || exceeds(of.usual, USUAL) || tokens.beyond() ||
                exceeds(all.most, 1e-5 * grid * grid) || sums.beyond(),
            loads / 4);
}

int main(int count, char** words) {
    test(10, 24, 48, true);
    if (shipped_alone(count, words)) return 0;
    for (int grid : {2, 4, 16, 18, 34})
        for (bool late_copies : {false, true})
            test(grid, 24, 48, late_copies), test(grid, 8, 16, late_copies);
}
