/*!
Output tiles of a GEMM, computed by thread block clusters on Hopper: wrappers of TMA, barriers and
clusters (primitives), the position of a block's tiles, and the warp that loads them.

Stages of 64 columns of K pass through a ring in the order of their use, with a pair of barriers
each. Blocks of one cluster work on neighbouring tiles at the same time. Blocks of one cluster row
need the same A, blocks of one cluster column the same B: each loads its share, and TMA multicasts
it to all of them, so that less is read from the L2 cache. TMA fills zeros outside of a matrix and
counts their bytes too, so no block of a cluster has fewer tiles or stages than another.

Why no barrier is taken for another of its phases; the n-th use of a stage is its phase n:
- "full" (arrivals: the block's own warp 0, with the bytes of the whole stage; then all bytes, from
  any block). A peer's bytes may come before the arrival. They count in the same phase: they are
  sent after "empty" of that use, which follows this block's reading of the use before, and so the
  end of phase n - 1. A warpgroup waits for phase n of a stage only when phase n - 1 is complete:
  for its own tile it has waited for it, and for others' tiles it knows (each kernel explains how).
- "empty" (arrivals: the reading warps of each block that receives from this one). Phase n is
  complete when all have read use n. Warp 0 waits for it before use n + 1, so no use is two phases
  ahead. Before the first use it asks for parity 1, which counts as complete.
The block's last matmuls wait for all bytes that were sent to it. At the end a barrier of the
cluster, or the loading thread (wait_for_readers), keeps the block until its peers have sent their
last arrivals.
*/
#pragma once

// ---- primitives (PTX ISA 8.0, sm_90) ----

/// Address of a matrix and shape of a TMA box: from cuTensorMapEncodeTiled.
struct alignas(64) TensorMap {
    u64 words[16];
};

/// Makes the barriers that this thread created visible to the cluster and to TMA.
__device__ __forceinline__ void barriers_publish() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/// Arrives, with the number of bytes that this phase waits for.
__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
    asm volatile(
        "{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }" ::"r"(barrier),
        "r"(bytes)
        : "memory");
}
/// Arrives at the barrier that block `rank` of the cluster has at this address. It announces a read
/// only: released to the whole cluster, each arrival would wait for all stores in flight
/// (MEMBAR.ALL.GPU).
__device__ __forceinline__ void barrier_arrive_at(u32 barrier, u32 rank) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(barrier), "r"(rank) : "memory");
}
__device__ __forceinline__ void prefetch_map(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"((u64)map) : "memory");
}
/// TMA load by one thread: the box that begins at this column and row, to this address of each
/// block in `blocks` (a bit for each rank), whose barriers at this address count the bytes.
template <bool SEVERAL>
__device__ __forceinline__ void tma_load(u32 to, const TensorMap* map, i32 column, i32 row, u32 barrier,
                                         u32 blocks) {
    if (SEVERAL)
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
            " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
            "l"((u64)map), "r"(column), "r"(row), "r"(barrier), "h"((u16)blocks)
            : "memory");
    else
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%2, %3}], [%4];" ::
                "r"(to),
            "l"((u64)map), "r"(column), "r"(row), "r"(barrier)
            : "memory");
}
/// TMA load by one thread, of a matrix of several: as `tma_load`.
template <bool SEVERAL>
__device__ __forceinline__ void tma_load(u32 to, const TensorMap* map, i32 column, i32 row, i32 matrix,
                                         u32 barrier, u32 blocks) {
    if (SEVERAL)
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
            " [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
            "l"((u64)map), "r"(column), "r"(row), "r"(matrix), "r"(barrier), "h"((u16)blocks)
            : "memory");
    else
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%2, %3, %4}], [%5];" ::
                "r"(to),
            "l"((u64)map), "r"(column), "r"(row), "r"(matrix), "r"(barrier)
            : "memory");
}
/// Waits until the phase of this parity is complete, and sees the stores of the cluster's blocks.
__device__ __forceinline__ void barrier_wait_for_peers(u32 barrier, u32 parity) {
    asm volatile(
        "{ .reg .pred done;\n"
        "AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@done bra READY;\n"
        "bra AGAIN;\n"
        "READY: }" ::"r"(barrier), "r"(parity) : "memory");
}
/// Stores two numbers at this address of block `rank` of the cluster, whose barrier at this address
/// counts their bytes.
__device__ __forceinline__ void send_two(u32 to, float2 x, u32 barrier, u32 rank) {
    asm volatile("{ .reg .b32 there, counter; mapa.shared::cluster.u32 there, %0, %4; "
                 "mapa.shared::cluster.u32 counter, %3, %4;\n"
                 "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 "
                 "[there], {%1, %2}, [counter]; }"
                 ::"r"(to), "f"(x.x), "f"(x.y), "r"(barrier), "r"(rank) : "memory");
}
/// Four 8x8 matrices of halves; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void store_matrices(u32 address, const u32 (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};"
                 ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}
/// Prefetches a line of 128 bytes into the L1 cache.
__device__ __forceinline__ void prefetch_line(const void* from) {
    asm volatile("prefetch.global.L1 [%0];" ::"l"(from) : "memory");
}

/// Three warps write vectors into shared memory, eight wait for them: named barrier 1, since 0 is
/// the block's.
__device__ __forceinline__ void vectors_give() { asm volatile("bar.arrive 1, 352;" ::: "memory"); }
__device__ __forceinline__ void vectors_wait() { asm volatile("bar.sync 1, 352;" ::: "memory"); }

// ---- tiles ----

/// Shared memory of a LayerNorm after a GEMM, bytes: staged rows, statistics, vectors.
__device__ constexpr int norm_bytes(int columns, int across) {
    return 8 * 16 * (2 * columns + 16) + 2 * across * 128 * 8 + 3 * 4 * columns;
}

/// TILE_N columns of an output tile; a cluster has CLUSTER_M x CLUSTER_N tiles; READERS warps of a
/// block read each stage; BETWEEN bytes lie after the stages, in before their barriers.
template <int TILE_N_, int STAGES_, int CLUSTER_M_, int CLUSTER_N_, int READERS, int BETWEEN>
struct OutputTiles {
    static constexpr int TILE_N = TILE_N_;
    static constexpr int STAGES = STAGES_;
    static constexpr int CLUSTER_M = CLUSTER_M_;
    static constexpr int CLUSTER_N = CLUSTER_N_;

    static constexpr int CLUSTER = CLUSTER_M * CLUSTER_N;
    static constexpr int THREADS = 384;
    static constexpr int TILE_M = 128;   // of an output tile
    // Of k: rows of 128 bytes, whose 16-byte units the copy engine swizzles.
    static constexpr int TILE_K = 64;
    // Of a box of tokens: each, or each of the first, brings one.
    static constexpr int TOKEN_ROWS = TILE_M % CLUSTER_N ? 64 : TILE_M / CLUSTER_N;
    // Of a box of weights: each brings one.
    static constexpr int WEIGHT_ROWS = TILE_N / CLUSTER_M;
    // Offset of the weights in a slot.
    static constexpr int WEIGHTS = TILE_M * 128;
    static constexpr int STAGE_BYTES = WEIGHTS + TILE_N * 128;
    // Blocks that this one sends to and receives from, itself included.
    static constexpr int SHARERS = CLUSTER_M + CLUSTER_N - 1;
    static constexpr int BEHIND = STAGES * STAGE_BYTES;       // offset of what a kernel has there
    static constexpr int FULL = BEHIND + BETWEEN;           // offsets of the barriers
    static constexpr int EMPTY = FULL + STAGES * 8;
    static constexpr int TILES_END = EMPTY + STAGES * 8;
    static_assert(TOKEN_ROWS % 8 == 0 && WEIGHT_ROWS % 8 == 0, "whole rows of the swizzle's pattern");

    u32 shared;
    int m, n, k;
    int down, across;                 // this block in its cluster
    int tiles, tiles_across;          // of the whole, a cluster's tiles being one
    int first, step;                  // this cluster's
    int lane, warp;                   // of a warpgroup that multiplies
    // The block that this lane signals its reads to; lanes from SHARERS on signal none.
    u32 mate;

    __device__ __forceinline__ int chunks() const { return (k + TILE_K - 1) / TILE_K; }
    __device__ __forceinline__ int row_of(int tile) const {
        return (tile / tiles_across * CLUSTER_M + down) * TILE_M;
    }
    __device__ __forceinline__ int column_of(int tile) const {
        return (tile % tiles_across * CLUSTER_N + across) * TILE_N;
    }

    __device__ __forceinline__ void begin(const TensorMap* tokens, const TensorMap* weights, int rows,
                                          int columns, int depth, u32 shared_base) {
        shared = shared_base, m = rows, n = columns, k = depth;
        int rank = (int)cluster_rank();
        down = rank / CLUSTER_N, across = rank % CLUSTER_N;
        tiles_across = (n + TILE_N * CLUSTER_N - 1) / (TILE_N * CLUSTER_N);
        tiles = tiles_across * ((m + TILE_M * CLUSTER_M - 1) / (TILE_M * CLUSTER_M));
        first = (int)(blockIdx.x / CLUSTER), step = (int)(gridDim.x / CLUSTER);
        if (threadIdx.x == 0) {
            prefetch_map(tokens);
            prefetch_map(weights);
            for (int i = 0; i < STAGES; i++) {
                barrier_create(shared + FULL + i * 8, 1);
                barrier_create(shared + EMPTY + i * 8, READERS * SHARERS);
            }
        }
    }

    // ---- the loading warp ----

    /// By one thread. Before the wait nothing touches memory that earlier kernels write or read.
    __device__ __forceinline__ void load_all_tiles(const TensorMap* tokens, const TensorMap* weights) const {
        pdl_wait();
        pdl_launch_dependents();
        u32 row_mates = ((1u << CLUSTER_N) - 1) << (down * CLUSTER_N), column_mates = 0;
#pragma unroll
        for (int i = 0; i < CLUSTER_M; i++) column_mates |= 1u << (i * CLUSTER_N + across);
        int slot = 0;
        u32 turn = 0;
        for (int tile = first; tile < tiles; tile += step) {
            int row = row_of(tile) + across * TOKEN_ROWS, column = column_of(tile) + down * WEIGHT_ROWS;
            for (int at = 0; at < k; at += TILE_K) {
                u32 full = shared + FULL + slot * 8, to = shared + slot * STAGE_BYTES;
                barrier_wait(shared + EMPTY + slot * 8, turn ^ 1);
                barrier_expect(full, STAGE_BYTES);
                if (across < TILE_M / TOKEN_ROWS)
                    tma_load<(CLUSTER_N > 1)>(to + across * TOKEN_ROWS * 128, tokens, at, row, full,
                                              row_mates);
                tma_load<(CLUSTER_M > 1)>(to + WEIGHTS + down * WEIGHT_ROWS * 128, weights, at, column, full,
                                          column_mates);
                if (++slot == STAGES) slot = 0, turn ^= 1;
            }
        }
    }

    /// By the same thread, at the end: all that this block and its peers read of its stages has been
    /// announced, so nobody sends to it any more. A barrier of the cluster would release, and so wait
    /// for, all stores of the block.
    __device__ __forceinline__ void wait_for_readers() const {
        u32 use = (u32)((tiles - first + step - 1) / step * chunks());
        for (int i = 0; i < STAGES; i++, use++)
            barrier_wait(shared + EMPTY + use % STAGES * 8, (use / STAGES & 1) ^ 1);
    }

    // ---- a computing warpgroup ----

    __device__ __forceinline__ void begin_multiplying() {
        lane = (int)threadIdx.x & 31, warp = (int)(threadIdx.x >> 5) & 3;
        // Blocks of the row first, then the others of the column.
        int other = lane - CLUSTER_N;
        mate = (u32)(lane < CLUSTER_N ? down * CLUSTER_N + lane
                                      : (other + (other >= down ? 1 : 0)) * CLUSTER_N + across);
    }

    __device__ __forceinline__ void release(int slot) const {
        if (lane < SHARERS) barrier_arrive_at(shared + EMPTY + slot * 8, mate);
    }
};
