/*!
Output tiles of a product as clusters of blocks compute them on Hopper: what the copy engine, barriers and clusters are told (primitives), where a
block's tiles lie, and the warp that brings tokens and weights for them.

Chunks of 64 columns of k pass through a ring of slots in the order of their use, with a pair of barriers each. Blocks of one cluster work on
neighbouring tiles at the same time. Those in a row of them need the same tokens, those in a column the same weights: each brings its share, and
the copy engine writes it to all of them, so that less is read of the L2 cache. What lies outside of a matrix the copy engine fills with zeros
and counts like all else, so no block of a cluster has fewer tiles or chunks than another.

Why no barrier is mistaken for another of its phases, the n-th use of a slot being its phase n:
- "full" (arrivals: the block's own warp 0, with the bytes of the whole slot; then all bytes, from whichever block). A peer's bytes may come before the
  arrival: they are counted in the same phase, for they are sent after "empty" of that use, which follows this block's own reading of the use
  before, and so the end of phase n - 1. A warpgroup waits for phase n of a slot only when phase n - 1 is complete: of its own tile it has
  waited for it, and of tiles of others it knows (each kernel says how).
- "empty" (arrivals: the reading warps of each block that receives from this one). Phase n is complete when all have read use n. Warp 0 waits for it before
  use n + 1, so no use is two phases ahead. Before the first use parity 1 is asked for, which counts as complete.
The block's last products wait for all bytes that were sent to it; a barrier of the cluster at the end keeps it there until its peers have
sent their last arrivals.
*/
#pragma once

// ---- primitives (PTX ISA 8.0, sm_90) ----

/// Where a matrix lies and which box of it a copy brings: made by cuTensorMapEncodeTiled.
struct alignas(64) TensorMap {
    u64 words[16];
};

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void warp_barrier() { __syncwarp(); }
/// The compiler no longer knows what follows from `x`, and keeps none of it.
__device__ __forceinline__ void forget(int& x) { asm volatile("" : "+r"(x)); }

/// The place of this block in its cluster.
__device__ __forceinline__ u32 cluster_rank() {
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
/// Waits for all threads of the cluster.
__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/// Waits for all threads of the cluster, of which one has published the barriers that it created: that is all they see of each other.
__device__ __forceinline__ void cluster_barriers_known() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/// Makes the barriers that this thread created visible to the cluster and to the copy engine.
__device__ __forceinline__ void barriers_publish() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
/// Arrives, and says how many bytes this phase waits for.
__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }" ::"r"(barrier), "r"(bytes) : "memory");
}
/// Arrives at the barrier that block `rank` of the cluster has at this address. It says that something was read, no more: released to the whole
/// cluster, each arrival would wait for all stores under way (MEMBAR.ALL.GPU).
__device__ __forceinline__ void barrier_arrive_at(u32 barrier, u32 rank) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(barrier), "r"(rank) : "memory");
}
__device__ __forceinline__ void prefetch_map(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"((u64)map) : "memory");
}
/// One thread's order to the copy engine: the box that begins at this column and row, to this address of each block in `blocks` (a bit for
/// each rank), whose barriers at this address count the bytes.
template <bool SEVERAL>
__device__ __forceinline__ void fetch_box(u32 to, const TensorMap* map, i32 column, i32 row, u32 barrier, u32 blocks) {
    if (SEVERAL)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                     " [%0], [%1, {%2, %3}], [%4], %5;"
                     ::"r"(to), "l"((u64)map), "r"(column), "r"(row), "r"(barrier), "h"((u16)blocks) : "memory");
    else
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     ::"r"(to), "l"((u64)map), "r"(column), "r"(row), "r"(barrier) : "memory");
}
/// Waits until the phase of this parity is complete, for what blocks of the cluster stored.
__device__ __forceinline__ void barrier_wait_for_peers(u32 barrier, u32 parity) {
    asm volatile(
        "{ .reg .pred done;\n"
        "AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@done bra READY;\n"
        "bra AGAIN;\n"
        "READY: }" ::"r"(barrier), "r"(parity) : "memory");
}
/// Stores two numbers at this address of block `rank` of the cluster, whose barrier at this address counts their bytes.
__device__ __forceinline__ void send_two(u32 to, float2 x, u32 barrier, u32 rank) {
    asm volatile("{ .reg .b32 there, counter; mapa.shared::cluster.u32 there, %0, %4; mapa.shared::cluster.u32 counter, %3, %4;\n"
                 "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [there], {%1, %2}, [counter]; }"
                 ::"r"(to), "f"(x.x), "f"(x.y), "r"(barrier), "r"(rank) : "memory");
}
/// Four 8x8 matrices of halves; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void store_matrices(u32 address, const u32 (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};"
                 ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}
__device__ __forceinline__ uint4 shared_unit(u32 address) {
    uint4 r;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(address) : "memory");
    return r;
}
__device__ __forceinline__ float2 shared_two(u32 address) {
    float2 r;
    asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(r.x), "=f"(r.y) : "r"(address) : "memory");
    return r;
}
__device__ __forceinline__ void put_shared(u32 address, float x) { asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(x) : "memory"); }
/// Where it stands, not where the compiler would have it: what is loaded before products is there behind them.
__device__ __forceinline__ float2 load_two(const float* from) {
    float2 r;
    asm volatile("ld.global.v2.f32 {%0,%1}, [%2];" : "=f"(r.x), "=f"(r.y) : "l"(from) : "memory");
    return r;
}
__device__ __forceinline__ void store_two(float* to, float2 x) {
    asm volatile("st.global.v2.f32 [%0], {%1,%2};" ::"l"(to), "f"(x.x), "f"(x.y) : "memory");
}
/// Asks for a line of 128 bytes to be in the L1 cache soon.
__device__ __forceinline__ void prefetch_line(const void* from) { asm volatile("prefetch.global.L1 [%0];" ::"l"(from) : "memory"); }
/// In one piece: the compiler cuts such stores in four.
__device__ __forceinline__ void store_unit(void* to, uint4 x) {
    asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}

// ---- tiles ----

/// COLUMNS of an output tile; a cluster has DOWN x ACROSS tiles; READERS warps of a block read each slot; BETWEEN bytes lie behind the slots, in
/// front of their barriers.
template <int COLUMNS_, int SLOTS_, int DOWN_, int ACROSS_, int READERS, int BETWEEN>
struct Tiles {
    static constexpr int COLUMNS = COLUMNS_;
    static constexpr int SLOTS = SLOTS_;
    static constexpr int DOWN = DOWN_;
    static constexpr int ACROSS = ACROSS_;

    static constexpr int CLUSTER = DOWN * ACROSS;
    static constexpr int THREADS = 384;
    static constexpr int ROWS = 128;   // of an output tile
    static constexpr int CHUNK = 64;   // of k: rows of 128 bytes, whose 16-byte units the copy engine swizzles
    static constexpr int TOKEN_ROWS = ROWS % ACROSS ? 64 : ROWS / ACROSS;           // of a box of tokens: each, or each of the first, brings one
    static constexpr int WEIGHT_ROWS = COLUMNS / DOWN;                              // of a box of weights: each brings one
    static constexpr int WEIGHTS = ROWS * 128;                                      // offset of the weights in a slot
    static constexpr int SLOT_BYTES = WEIGHTS + COLUMNS * 128;
    static constexpr int SHARERS = DOWN + ACROSS - 1;       // blocks that this one sends to and receives from, itself included
    static constexpr int BEHIND = SLOTS * SLOT_BYTES;       // offset of what a kernel has there
    static constexpr int FULL = BEHIND + BETWEEN;           // offsets of the barriers
    static constexpr int EMPTY = FULL + SLOTS * 8;
    static constexpr int TILES_END = EMPTY + SLOTS * 8;
    static_assert(TOKEN_ROWS % 8 == 0 && WEIGHT_ROWS % 8 == 0, "whole rows of the swizzle's pattern");

    u32 shared;
    int m, n, k;
    int down, across;                 // this block in its cluster
    int tiles, tiles_across;          // of the whole, a cluster's tiles being one
    int first, step;                  // this cluster's
    int lane, warp;                   // of a warpgroup that multiplies
    u32 mate;                         // the block that this lane tells what is read; lanes from SHARERS on tell none

    __device__ __forceinline__ int chunks() const { return (k + CHUNK - 1) / CHUNK; }
    __device__ __forceinline__ int row_of(int tile) const { return (tile / tiles_across * DOWN + down) * ROWS; }
    __device__ __forceinline__ int column_of(int tile) const { return (tile % tiles_across * ACROSS + across) * COLUMNS; }

    __device__ __forceinline__ void begin(const TensorMap* tokens, const TensorMap* weights, int rows, int columns, int depth, u32 shared_base) {
        shared = shared_base, m = rows, n = columns, k = depth;
        int rank = (int)cluster_rank();
        down = rank / ACROSS, across = rank % ACROSS;
        tiles_across = (n + COLUMNS * ACROSS - 1) / (COLUMNS * ACROSS);
        tiles = tiles_across * ((m + ROWS * DOWN - 1) / (ROWS * DOWN));
        first = (int)(blockIdx.x / CLUSTER), step = (int)(gridDim.x / CLUSTER);
        if (threadIdx.x == 0) {
            prefetch_map(tokens);
            prefetch_map(weights);
            for (int i = 0; i < SLOTS; i++) {
                barrier_create(shared + FULL + i * 8, 1);
                barrier_create(shared + EMPTY + i * 8, READERS * SHARERS);
            }
        }
    }

    // ---- the warp that brings ----

    /// By one thread. Up to here nothing has touched what kernels before made or read.
    __device__ __forceinline__ void bring_all(const TensorMap* tokens, const TensorMap* weights) const {
        grid_wait();
        grid_release();
        u32 row_mates = ((1u << ACROSS) - 1) << (down * ACROSS), column_mates = 0;
#pragma unroll
        for (int i = 0; i < DOWN; i++) column_mates |= 1u << (i * ACROSS + across);
        int slot = 0;
        u32 turn = 0;
        for (int tile = first; tile < tiles; tile += step) {
            int row = row_of(tile) + across * TOKEN_ROWS, column = column_of(tile) + down * WEIGHT_ROWS;
            for (int at = 0; at < k; at += CHUNK) {
                u32 full = shared + FULL + slot * 8, to = shared + slot * SLOT_BYTES;
                barrier_wait(shared + EMPTY + slot * 8, turn ^ 1);
                barrier_expect(full, SLOT_BYTES);
                if (across < ROWS / TOKEN_ROWS)
                    fetch_box<(ACROSS > 1)>(to + across * TOKEN_ROWS * 128, tokens, at, row, full, row_mates);
                fetch_box<(DOWN > 1)>(to + WEIGHTS + down * WEIGHT_ROWS * 128, weights, at, column, full, column_mates);
                if (++slot == SLOTS) slot = 0, turn ^= 1;
            }
        }
    }

    // ---- a multiplying warpgroup ----

    __device__ __forceinline__ void begin_multiplying() {
        lane = (int)threadIdx.x & 31, warp = (int)(threadIdx.x >> 5) & 3;
        // Those of the row first, then the others of the column.
        int other = lane - ACROSS;
        mate = (u32)(lane < ACROSS ? down * ACROSS + lane : (other + (other >= down ? 1 : 0)) * ACROSS + across);
    }

    __device__ __forceinline__ void release(int slot) const {
        if (lane < SHARERS) barrier_arrive_at(shared + EMPTY + slot * 8, mate);
    }

    /// Rows of 128 bytes, groups of eight rows 1024 bytes apart, 128-byte swizzle.
    __device__ __forceinline__ u64 descriptor(u32 address) const {
        return (u64)((address & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
    }
};
