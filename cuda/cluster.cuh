/*!
Wrappers of the instructions by which blocks of a thread block cluster address each other and wait
for each other. Hopper only.

Needs ptx.cuh in front.
*/
#pragma once

// ---- primitives (PTX ISA 8.0, sm_90) ----

/// The place of this block in its cluster.
__device__ __forceinline__ u32 cluster_rank() {
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
/// Waits for all threads of the cluster.
__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}
/// Waits for all threads of the cluster. Only the barriers that one thread of each block has
/// published become visible.
__device__ __forceinline__ void cluster_barriers_known() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}
/// The first half of a barrier: says to the cluster that this thread runs, and nothing of its
/// stores.
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
/// The same, and publishes its stores.
__device__ __forceinline__ void cluster_release() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
/// The second half: waits until all threads of the cluster have arrived, and sees what they
/// published.
__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/// Where an address of shared memory lies in block `rank` of the cluster.
__device__ __forceinline__ u32 peer_address(u32 address, u32 rank) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}
