// What the stand-in driver runs the kernels' shipped sources with, entry points included: a fibre a
// thread, tensor cores as in tests/emulate/machine.h.
#pragma once
#include "../../emulate/cluster.h"
#include "../../emulate/dependents.h"
#include "kernel.h"

static float rsqrtf(float x) { return reciprocal_root(x); }
#define __shared__ static
#define __cluster_dims__(...)

/// Shared memory that a kernel declares: it begins at 1024 in each block of a cluster.
struct BlockMemory {};
static u32 shared_address(const BlockMemory&) { return block_of(me->id) << 18 | 1024; }
static u32 shared_address(const void*) { stop("shared memory without a place"); }
/// A parameter that is a tensor map: the word that the driver keeps.
struct MapWord {
    const TensorMap* at;
    const TensorMap* operator&() const { return at; }
};

/// All blocks of a launch, one after the other, or a cluster of them after the other.
static void run(const Kernel& kernel, const Launch& of, void** values) {
    by_chance = slow = late = false;
    const auto thread = [&] { kernel.call(values); };
    if (kernel.cluster) {
        if (of.grid[0] % kernel.cluster) stop("no whole clusters");
        const std::vector<Region> written(of.written, of.written + of.regions);
        run_clusters(of.grid[0] / kernel.cluster, kernel.cluster, of.threads, thread, of.grid[1], written,
                     of.grid[2]);
        block_threads = 0, beside = nullptr;
        return;
    }
    gridDim = {of.grid[0], of.grid[1], of.grid[2]}, blockDim = {of.threads, 1, 1};
    // Static shared memory is 48 KiB at the most.
    const size_t bytes = 1024 + std::max(of.shared, 48u << 10);
    for (unsigned z = 0; z < of.grid[2]; z++)
        for (unsigned y = 0; y < of.grid[1]; y++)
            for (unsigned x = 0; x < of.grid[0]; x++) {
                memory.assign(bytes, 0xff), unpublished.clear(), forget_copies(), barriers.clear(),
                    late_products = false;
                forget_turns(), blockIdx = {x, y, z};
                if (is_dependent(of, x, y, z))
                    run_dependent(of.written, of.regions, [&] { run_block(of.threads, thread); });
                else run_block(of.threads, thread);
            }
}
#define SOURCE(space, name) {#name, call<space::name>, count(space::name), run, 0, writes(space::name)}
#define CLUSTER(space, name, blocks) \
    {#name, call<space::name>, count(space::name), run, blocks, writes(space::name)}
