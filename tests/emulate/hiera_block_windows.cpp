/*!
Runs the source of the fused block of Hiera's second stage (cuda/hiera_block_windows.cu) on the CPU
(machine.h) and compares tokens and the next norm with a float64 reference: maps that fill their
blocks and others, heads with and without padding, copies that come late.
*/
#include "harness.h"
static void copy16_within(u32 to, const void* from, bool valid) { copy16(to, inside(from, 16), valid); }
#define copy16 copy16_within
#include "hiera_block_windows.h"
#include "hiera_block_test.h"

template <int COLUMNS, int HEADS> static void test(int grid, int warps, bool late_copies, bool followed) {
    typedef WindowBlock<COLUMNS, HEADS> Of;
    const int C = COLUMNS, D = C / HEADS;
    test_block<Of, COLUMNS, HEADS, SMALL_WINDOW>(
        grid, warps, warps * 32, late_copies, followed, [=](Stream& stream, Layer& qkv, Layer& proj) {
            for (int h = 0; h < HEADS; h++) {
                const int first = h * D, end = first + D;
                for (int at = first; at < end; at += 16)
                    stream.rows_of(qkv, at, end), stream.rows_of(qkv, C + at, C + end);
                for (int at = first; at < end; at += 16)
                    stream.rows_of(qkv, 2 * C + at, 2 * C + end), stream.columns_of(proj, at, end);
            }
        });
}

int main(int count, char** words) {
    test<192, 2>(4, 2, true, true);
    test<224, 4>(4, 1, true, true);
    if (shipped_alone(count, words)) return 0;
    test<192, 2>(16, MOST_WARPS, false, true), test<224, 4>(12, MOST_WARPS, true, false),
        test<224, 4>(8, 4, false, true);
}
