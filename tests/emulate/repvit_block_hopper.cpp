/*!
Runs the source of Hopper's blocks of RepViT (cuda/repvit_block_hopper.cu) on the CPU (cluster.h)
like those for any GPU: the blocks of a cluster at once, with stores to each other's memory that
land early or late.
*/
#include "cluster.h"
static void copy16_within(u32 to, const void* from, bool valid) { copy16(to, inside(from, 16), valid); }
#define copy16 copy16_within
#include "repvit_block_hopper.h"
template <class Kind> static void run(int side, const BlockProblem& problem) {
    slow = late;
    run_clusters((side + Kind::TILE_COLUMNS - 1) / Kind::TILE_COLUMNS, Kind::BLOCKS, Kind::THREADS,
                 [&] { Kind().run(problem, block_of(me->id) << 18 | 1024); },
                 (side + Kind::TILE_LINES - 1) / Kind::TILE_LINES, dependent_on);
    dependent_on.clear();
}
#include "repvit_block_test.h"

int main(int count, char** words) {
    test<Block384By6, 384, 384>("repvit_block_384_by_6", 5, true, true);
    test<Down384By6, 192, 384>("repvit_down_384_by_6", 10, true, true);
    if (shipped_alone(count, words)) return 0;
    for (int grid : {2, 8, 18}) for (bool late_copies : {false, true}) for (bool gated : {false, true}) {
        test<Block384By6, 384, 384>("repvit_block_384_by_6", grid, gated, late_copies);
        test<Down384By6, 192, 384>("repvit_down_384_by_6", 2 * grid, gated, late_copies);
    }
}
