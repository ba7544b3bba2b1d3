/*!
Runs the source of Hiera's fused block (cuda/hiera_block.cu) on the CPU (machine.h) and compares
tokens and the next norm with a float64 reference: maps with an even and an odd number of windows,
with and without a next norm, copies that come late.
*/
#include "harness.h"
static void copy16_within(u32 to, const void* from, bool valid) { copy16(to, inside(from, 16), valid); }
#define copy16 copy16_within
#include "hiera_block.h"
#include "hiera_block_test.h"

template <int COLUMNS, int HEADS> static void test(int grid, bool late_copies, bool followed) {
    typedef HieraBlock<COLUMNS, HEADS> Of;
    const int C = COLUMNS, D = C / HEADS;
    test_block<Of, COLUMNS, HEADS, WINDOW>(
        grid, WINDOWS, THREADS, late_copies, followed, [=](Stream& stream, Layer& qkv, Layer& proj) {
            for (int h = 0; h < HEADS; h++) {
                for (int t = 0; t < Of::QUERY_TILES; t++) stream.rows_of(qkv, h * D + t * 16, (h + 1) * D);
                // Keys, then values, of which a tile may have both.
                for (int t = 0; t < 2 * D / 16; t++) {
                    auto row = [=](int n) {
                        const int at = t * 16 + n;
                        return (1 + at / D) * C + h * D + at % D;
                    };
                    for (int step = 0; step < C / 16; step++)
                        stream.fragment(qkv, row, [=](int k) { return step * 16 + by_four(k); });
                    for (int n = 0; n < 16; n++) {
                        const float b = qkv.bias[row(n)];
                        stream.bytes.insert(stream.bytes.end(), (unsigned char*)&b, (unsigned char*)(&b + 1));
                    }
                }
            }
            for (int s = 0; s < C / 16; s++) stream.columns_of(proj, s * 16, C);
        });
}

int main(int count, char** words) {
    test<96, 1>(8, true, true);
    test<112, 2>(8, true, true);
    test<144, 2>(8, true, true);
    if (shipped_alone(count, words)) return 0;
    for (bool late_copies : {false, true})
        test<96, 1>(16, late_copies, late_copies), test<112, 2>(24, late_copies, !late_copies);
    test<144, 2>(24, true, false);
}
