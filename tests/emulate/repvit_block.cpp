/*!
Runs the source of RepViT's blocks in one launch (cuda/repvit_block.cu) on the CPU (machine.h) and
compares them with a float64 reference, which rounds nothing: maps that fill no tile, copies that
come late, with a gate and without, other columns, and the sums of the next block.
*/
#include "harness.h"
static void copy16_within(u32 to, const void* from, bool valid) { copy16(to, inside(from, 16), valid); }
#define copy16 copy16_within
#include "repvit_block.h"
template <class Kind> static void run(int side, const BlockProblem& problem) {
    launch({(unsigned)(side + Kind::TILE_COLUMNS - 1) / Kind::TILE_COLUMNS,
            (unsigned)(side + Kind::TILE_LINES - 1) / Kind::TILE_LINES, 1},
           Kind::THREADS, Kind::SHARED, [&] { Kind().run(problem, 1024); });
}
#include "repvit_block_test.h"

int main(int count, char** words) {
    test<Block48, 48, 48>("repvit_block_48", 9, true, true);
    test<Block96, 96, 96>("repvit_block_96", 5, true, true);
    test<Block192, 192, 192>("repvit_block_192", 5, true, true);
    test<Down96, 48, 96>("repvit_down_96", 10, true, true);
    test<Down192, 96, 192>("repvit_down_192", 10, true, true);
    if (shipped_alone(count, words)) return 0;
    for (int grid : {2, 8, 18, 24}) for (bool late_copies : {false, true}) for (bool gated : {false, true}) {
        test<Block48, 48, 48>("repvit_block_48", grid, gated, late_copies);
        test<Block96, 96, 96>("repvit_block_96", grid, gated, late_copies);
        test<Block192, 192, 192>("repvit_block_192", grid, gated, late_copies);
        test<Down96, 48, 96>("repvit_down_96", 2 * grid, gated, late_copies);
        test<Down192, 96, 192>("repvit_down_192", 2 * grid, gated, late_copies);
    }
}
