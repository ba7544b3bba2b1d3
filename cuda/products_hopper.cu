/*!
The product of a hidden layer with its activation, for Hopper alone (sm_90a): out[m, n] = gelu(tokens[m, k] weights[n, k]^T + bias), halves,
sums in f32 and rounded once, behind the activation.

The activation takes as many instructions as a quarter to a half of the product's time, so it must run beside products. Blocks stay for the
whole launch. Warp 0 brings tokens and weights; the other two warpgroups have every other output tile for themselves ("ping-pong", as CUTLASS
calls it): while one multiplies with `wgmma`, the other activates and stores what it has. Chunks of 64 columns of k pass through a ring of
slots in the order of their use, with a pair of barriers each.

Blocks of one cluster work on neighbouring tiles at the same time. Those in a row of them need the same tokens, those in a column the same
weights: each brings its share, and the copy engine writes it to all of them, so that less is read of the L2 cache. What lies outside of a
matrix the copy engine fills with zeros and counts like all else, so no block of a cluster has fewer tiles or chunks than another.

Why no barrier is mistaken for another of its phases, the n-th use of a slot being its phase n:
- "full" (arrivals: the block's own warp 0, with the bytes of the whole slot; then all bytes, from whichever block). A peer's bytes may come before the
  arrival: they are counted in the same phase, for they are sent after "empty" of that use, which follows this block's own reading of the use
  before, and so the end of phase n - 1. A warpgroup waits for phase n of a slot only when phase n - 1 is complete: of its own tile it has
  waited for it, and a tile begins when the other warpgroup has seen all chunks before it (`turn`).
- "empty" (arrivals: four warps of each block that receives from this one). Phase n is complete when all have read use n. Warp 0 waits for it before
  use n + 1, so no use is two phases ahead. Before the first use parity 1 is asked for, which counts as complete.
- `turn`: a warpgroup gives the turn once for each tile that follows its own, and the other takes it once.
The block's last products wait for all bytes that were sent to it; the barrier of the cluster at the end keeps it there until its peers have
sent their last arrivals.
*/

#include "common.cuh"
#include "gelu.cuh"
#include "wgmma.cuh"

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
/// Asks for a line of 128 bytes to be in the L1 cache soon.
__device__ __forceinline__ void prefetch_line(const void* from) { asm volatile("prefetch.global.L1 [%0];" ::"l"(from) : "memory"); }
/// In one piece: the compiler cuts such stores in four.
__device__ __forceinline__ void store_unit(void* to, uint4 x) {
    asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}

// ---- products ----

/// COLUMNS of an output tile; a cluster has DOWN x ACROSS tiles.
template <int COLUMNS_, int SLOTS_, int DOWN_, int ACROSS_>
struct Product {
    static constexpr int COLUMNS = COLUMNS_;
    static constexpr int SLOTS = SLOTS_;
    static constexpr int DOWN = DOWN_;
    static constexpr int ACROSS = ACROSS_;

    static constexpr int CLUSTER = DOWN * ACROSS;
    static constexpr int THREADS = 384;
    static constexpr int ROWS = 128;   // of an output tile
    static constexpr int CHUNK = 64;   // of k: rows of 128 bytes, whose 16-byte units the copy engine swizzles
    static constexpr int TOKEN_ROWS = ROWS / ACROSS, WEIGHT_ROWS = COLUMNS / DOWN;  // of the boxes that a block brings
    static constexpr int WEIGHTS = ROWS * 128;                                      // offset of the weights in a slot
    static constexpr int SLOT_BYTES = WEIGHTS + COLUMNS * 128;
    static constexpr int SHARERS = DOWN + ACROSS - 1;       // blocks that this one sends to and receives from, itself included
    static constexpr int STAGING = SLOTS * SLOT_BYTES;      // offset of 16 rows x 64 columns for each of eight warps
    static constexpr int FULL = STAGING + 8 * 16 * 128;     // offsets of the barriers
    static constexpr int EMPTY = FULL + SLOTS * 8;
    static constexpr int SHARED = EMPTY + SLOTS * 8;
    static_assert(SHARED <= 232448, "shared memory of a block");
    static_assert(TOKEN_ROWS % 8 == 0 && WEIGHT_ROWS % 8 == 0 && COLUMNS % 64 == 0, "whole rows of the swizzle's pattern");

    u32 shared;
    int m, n, k;
    const u16* bias;
    u16* out;
    int down, across;                 // this block in its cluster
    int tiles, tiles_across;          // of the whole, a cluster's tiles being one
    int first, step;                  // this cluster's

    __device__ __forceinline__ int chunks() const { return (k + CHUNK - 1) / CHUNK; }
    __device__ __forceinline__ int row_of(int tile) const { return (tile / tiles_across * DOWN + down) * ROWS; }
    __device__ __forceinline__ int column_of(int tile) const { return (tile % tiles_across * ACROSS + across) * COLUMNS; }

    // ---- the warp that brings ----

    __device__ __forceinline__ void bring_all(const TensorMap* tokens, const TensorMap* weights) const {
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
                fetch_box<(ACROSS > 1)>(to + across * TOKEN_ROWS * 128, tokens, at, row, full, row_mates);
                fetch_box<(DOWN > 1)>(to + WEIGHTS + down * WEIGHT_ROWS * 128, weights, at, column, full, column_mates);
                if (++slot == SLOTS) slot = 0, turn ^= 1;
            }
        }
    }

    // ---- a multiplying warpgroup ----

    typedef float Sums[2][COLUMNS / 2];  // of rows 0 to 63 and 64 to 127
    int lane, warp;                      // of the warpgroup
    u32 mate;                            // the block that this lane tells what is read; lanes from SHARERS on tell none

    __device__ __forceinline__ void release(int slot) const {
        if (lane < SHARERS) barrier_arrive_at(shared + EMPTY + slot * 8, mate);
    }

    /// Rows of 128 bytes, groups of eight rows 1024 bytes apart, 128-byte swizzle.
    __device__ __forceinline__ u64 descriptor(u32 address) const {
        return (u64)((address & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
    }

    /// Begins STEPS x 16 columns of a chunk; ADD 0 for the first, as a constant: the sums of the tile before need not be kept for it.
    /// Nothing but products between the beginning and the commit: control flow there makes the compiler serialise them.
    template <int STEPS, int ADD>
    __device__ __forceinline__ void multiply(Sums& sums, int slot) const {
        u64 a = descriptor(shared + slot * SLOT_BYTES), b = descriptor(shared + slot * SLOT_BYTES + WEIGHTS);
        settle(sums[0]);
        settle(sums[1]);
        products_begin();
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            multiply_keys_async(sums[0], a + i * 2, b + i * 2, i > 0 ? 1 : ADD);
            multiply_keys_async(sums[1], a + i * 2 + 64 * 128 / 16, b + i * 2, i > 0 ? 1 : ADD);
        }
        products_commit();
    }

    /// Begins another chunk when it is there, and lets go of the one before when that has been multiplied.
    template <int STEPS>
    __device__ __forceinline__ void multiply_more(Sums& sums, int& slot, u32& turn) const {
        int before = slot;
        if (++slot == SLOTS) slot = 0, turn ^= 1;
        barrier_wait(shared + FULL + slot * 8, turn);
        multiply<STEPS, 1>(sums, slot);
        products_wait<1>();
        release(before);
    }

    /// The sums of the tile whose chunks begin at this place in the order of all; `hand_on`: there is another, for the other warpgroup.
    __device__ __forceinline__ void multiply_tile(Sums& sums, u32 place, int group, bool hand_on) const {
        int slot = (int)(place % SLOTS);
        u32 turn = place / SLOTS & 1;
        barrier_wait(shared + FULL + slot * 8, turn);
        multiply<4, 0>(sums, slot);
        for (int at = 2 * CHUNK; at <= k; at += CHUNK) multiply_more<4>(sums, slot, turn);
        // Of the last chunk what is not all zeros.
        switch (k % CHUNK / 16) {
            case 1: multiply_more<1>(sums, slot, turn); break;
            case 2: multiply_more<2>(sums, slot, turn); break;
            case 3: multiply_more<3>(sums, slot, turn); break;
        }
        if (hand_on) turn_give(2 - group);
        products_wait<0>();
        settle(sums[0]);
        settle(sums[1]);
        release(slot);
    }

    /// The biases of this lane's columns among 64, two in a word.
    __device__ __forceinline__ void load_bias(u32 (&words)[8], int column) const {
        const u32* from = (const u32*)(bias + column) + (lane & 3);
#pragma unroll
        for (int j = 0; j < 8; j++) words[j] = from[j * 4];
    }

    /// Activates what is in `sums` and stores it by whole lines of 128 bytes, which lanes put together in shared memory: a warp has its own 16 rows there.
    __device__ __forceinline__ void activate_tile(const Sums& sums, int row, int column, int group) {
        u32 staging = shared + STAGING + (u32)(group * 4 + warp) * 16 * 128;
        // Where this lane stores matrices: 0 and 1 are rows 0 to 7 and 8 to 15 of a unit, 2 and 3 those of the next. Units are swizzled by their row.
        int first_matrix = (int)(staging + (u32)(lane & 15) * 128 + (u32)(lane >> 4 ^ (lane & 7)) * 16);
        int first_unit = (int)(staging + (u32)(lane >> 3) * 128 + (u32)((lane & 7) ^ (lane >> 3)) * 16);
#pragma unroll
        for (int part = 0; part < COLUMNS / 64; part++) {
            if (column + part * 64 >= n) break;
            u32 words[8];
            load_bias(words, column + part * 64);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                u32 halves[4][4];
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    const float2 b = floats_of(words[j]);
                    const float* sum = sums[half] + (part * 8 + j) * 4;
                    halves[j / 2][j % 2 * 2] = halves_of(gelu(sum[0] + b.x), gelu(sum[1] + b.y));
                    halves[j / 2][j % 2 * 2 + 1] = halves_of(gelu(sum[2] + b.x), gelu(sum[3] + b.y));
                }
                warp_barrier();  // the lines before were read
                // Addresses are made anew, or those of all parts would be kept beside the sums.
                int matrix = first_matrix, from = first_unit;
                forget(matrix);
#pragma unroll
                for (int pair = 0; pair < 4; pair++) store_matrices((u32)(matrix ^ pair * 32), halves[pair]);
                warp_barrier();
                int at = row + half * 64 + warp * 16 + (lane >> 3), place = column + part * 64 + (lane & 7) * 8, four_rows = n * 4;
                forget(from);
                forget(at);
                forget(place);
                forget(four_rows);
                u16* to = out + (long long)at * n + place;
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    // Four rows on, the swizzle has another unit.
                    uint4 eight = shared_unit((u32)((from ^ (i & 1) * 64) + i * 4 * 128));
                    if (at + i * 4 < m) store_unit(to, eight);
                    to += four_rows;
                }
            }
        }
    }

    __device__ __forceinline__ void multiply_all(int group) {
        u32 chunks_of_a_tile = (u32)chunks(), place = 0;
        int order = 0;
        for (int tile = first; tile < tiles; tile += step, order++, place += chunks_of_a_tile) {
            if ((order & 1) != group) continue;
            int row = row_of(tile), column = column_of(tile);
            // The biases will be wanted at once when the products are there.
            if (lane < COLUMNS / 64 && column + lane * 64 < n) prefetch_line(bias + column + lane * 64);
            if (order > 0) turn_wait(1 + group);  // named barrier 0 is the block's
            // Here, not beside the loop: what the first product leaves out of account need not be kept.
            Sums sums;
            multiply_tile(sums, place, group, tile + step < tiles);
            activate_tile(sums, row, column, group);
        }
    }

    __device__ __forceinline__ void run(const TensorMap* tokens, const TensorMap* weights, const u16* biases, u16* to, int rows, int columns,
                                        int depth, u32 shared_base) {
        shared = shared_base, bias = biases, out = to, m = rows, n = columns, k = depth;
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
                barrier_create(shared + EMPTY + i * 8, 4 * SHARERS);
            }
            barriers_publish();
        }
        warp_barrier();
        // Before it no peer may send anything here.
        cluster_barrier();

        // 65536 registers: what the bringing warp does not need goes to the others.
        if (threadIdx.x < 128) {
            registers_release<40>();
            if (threadIdx.x == 0) bring_all(tokens, weights);
            warp_barrier();
            cluster_barrier();
        } else {
            registers_claim<232>();
            lane = (int)threadIdx.x & 31, warp = (int)(threadIdx.x >> 5) & 3;
            // Those of the row first, then the others of the column.
            int other = lane - ACROSS;
            mate = (u32)(lane < ACROSS ? down * ACROSS + lane : (other + (other >= down ? 1 : 0)) * ACROSS + across);
            multiply_all((int)(threadIdx.x >> 7) - 1);
            warp_barrier();
            cluster_barrier();
        }
    }
};

// ---- instances ----

// Grids are whole clusters; m at least 1, n a multiple of 64, k of 16 and at least 64; all addresses multiples of 16.
#define PRODUCT_GELU(NAME, COLUMNS, SLOTS, DOWN, ACROSS)                                                               \
    extern "C" __global__ void __cluster_dims__(DOWN * ACROSS, 1, 1) __launch_bounds__(384, 1)                          \
        NAME(const __grid_constant__ TensorMap tokens, const __grid_constant__ TensorMap weights, const u16* bias,     \
             u16* out, int m, int n, int k) {                                                                          \
        extern __shared__ __align__(1024) unsigned char memory[];                                                      \
        Product<COLUMNS, SLOTS, DOWN, ACROSS> product;                                                                 \
        product.run(&tokens, &weights, bias, out, m, n, k, shared_address(memory));                                    \
    }

PRODUCT_GELU(product_gelu_128_by_2, 128, 6, 2, 1)
PRODUCT_GELU(product_gelu_192_by_2, 192, 5, 2, 1)
PRODUCT_GELU(product_gelu_128_by_4, 128, 6, 2, 2)
PRODUCT_GELU(product_gelu_192_by_4, 192, 5, 2, 2)
