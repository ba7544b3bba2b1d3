/*!
Runs the source of Hiera's stem (cuda/hiera_stem.cu) on the CPU (machine.h) and compares its tokens
with a float64 reference: maps that fill no tile, columns that fill no unit or chunk, copies that
come late.
*/
#include "harness.h"
static void copy16_within(u32 to, const void* from, bool valid) { copy16(to, inside(from, 16), valid); }
#define copy16 copy16_within
#include "hiera_stem.h"
#include "repvit_packed.h"

/// A token is a float; its factors are halves.
const double WORST = 2e-6, USUAL = 3e-7;

static void test(int grid, int columns, bool late_copies, int lines = LINES) {
    late = late_copies;
    const int side = grid * 4, taps = CHANNELS * KERNEL * KERNEL, units = (columns + 15) / 16;
    Halves image((size_t)3 * side * side, 1, 0.2), weight((size_t)columns * taps, 1 / sqrtf(taps)),
        position((size_t)grid * grid * columns, 0.5);
    Reals bias(units * 16, 0.3), tokens((size_t)grid * grid * columns);
    // As crates/kernels/src/hiera/stem.rs has them: rows of eight taps, the first without a weight.
    Halves wide((size_t)units * 16 * STEPS * STEP);
    wide.fill([&](size_t at) {
        const size_t column = at / (STEPS * STEP);
        const int k = at % (STEPS * STEP), row = k / 8, tap = k % 8 - 1;
        return (int)column < columns && row < CHANNELS * KERNEL && tap >= 0
                   ? weight[column * taps + row * KERNEL + tap]
                   : (f16)0;
    });
    Halves weights = packed(wide, units * 16, STEPS * STEP, 1);
    depends_on(image, tokens);
    launch({(unsigned)(grid + COLUMNS - 1) / COLUMNS, (unsigned)(grid + lines - 1) / lines, 1}, THREADS,
           IMAGE + units * UNIT_BYTES, [&] {
               Stem().run({image.data(), weights.data(), bias.data(), position.data(), tokens.data(), side,
                           columns, lines},
                          1024);
           });
    Numbers in = image.values(), w = weight.values(), wanted(tokens.count);
    for (int t = 0; t < grid * grid; t++) for (int c = 0; c < columns; c++) {
        double sum = bias.at(c) + position.at((size_t)t * columns + c);
        for (int tap = 0; tap < taps; tap++) {
            const int y = t / grid * 4 + tap / 7 % 7 - 3, x = t % grid * 4 + tap % 7 - 3;
            if (y >= 0 && y < side && x >= 0 && x < side)
                sum += in[((size_t)tap / 49 * side + y) * side + x] * w[(size_t)c * taps + tap];
        }
        wanted[(size_t)t * columns + c] = sum;
    }
    Shares of = shares_of(tokens, wanted, [](size_t) { return true; });
    printf(
        "hiera_stem, %d x %d tokens of %d columns, %d lines a block, late %d: worst relative error %.2e, "
        "usual %.2e, %ld written beyond",
        grid, grid, columns, lines, late_copies, of.worst, of.usual, tokens.beyond());
    verdict(exceeds(of.worst, WORST) || exceeds(of.usual, USUAL) || tokens.beyond());
}

int main(int count, char** words) {
    for (int lines : {LINES, FEW_LINES}) test(10, 56, true, lines);
    if (shipped_alone(count, words)) return 0;
    for (int columns : {8, 32, 96, 112, 144})
        for (bool late_copies : {false, true})
            test(18, columns, late_copies, late_copies ? LINES : FEW_LINES);
    for (int columns : {16, 112, 144}) test(10, columns, true, FEW_LINES);
    for (int grid : {2, 4, 16, 34}) test(grid, 96, true);
}
