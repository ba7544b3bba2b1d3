// Kernels whose shipped sources, entry points included, the stand-in driver runs: with the tensor
// cores' instructions of tests/emulate/machine.h, a fibre a thread.
#undef _FORTIFY_SOURCE  // checked jumps refuse to leave a stack for another
#include "../../emulate/machine.h"
#include "kernel.h"

#define __shared__ static

namespace keys {
#include "../../emulate/keys.h"
#include "keys.cu.instances"
}  // namespace keys

// All blocks of a launch, one behind the other.
static void launch(void (*call)(void**), const unsigned grid[3], unsigned threads, void** values) {
    gridDim = {grid[0], grid[1], grid[2]}, blockDim = {threads, 1, 1};
    memory.assign(1024, 0xff);
    for (unsigned z = 0; z < grid[2]; z++)
        for (unsigned y = 0; y < grid[1]; y++)
            for (unsigned x = 0; x < grid[0]; x++) {
                blockIdx = {x, y, z};
                run_block(threads, [=] { call(values); });
            }
}

extern const Kernel SOURCES[] = {
    {"memory_keys", call<keys::memory_keys>, count(keys::memory_keys), launch},
};
extern const int SOURCES_COUNT = sizeof SOURCES / sizeof *SOURCES;
