/*!
f16 GEMM with bias and GELU for Hopper only (sm_90a): out[M, N] = gelu(A[M, K] B[N, K]^T + bias).
A: tokens, B: weights; f32 accumulators, rounded once.

| instance                        | tile, K of a stage | stages | cluster | threads | shared bytes |
|---------------------------------|--------------------|--------|---------|---------|--------------|
| gemm_bias_gelu_128_two_groups   | 128x128, 64        | 6      | 2x1     | 384     | 213 088      |
| gemm_bias_gelu_128_three_groups | 128x128, 64        | 6      | 2x1     | 512     | 221 280      |
| gemm_bias_gelu_192_two_groups   | 128x192, 64        | 5      | 2x1     | 384     | 221 272      |

Warp 0 loads tiles by TMA, and GROUPS warpgroups take the output tiles in turn: one multiplies with
`wgmma`, and the others apply GELU and store. Grid: whole clusters, which stay for the whole launch.

An epilogue with GELU can take longer than the matmul up to K = 576, by an estimate: a scheduler has
one warp of it, which waits for what it needs. So it is short, and overlaps other tiles' matmuls:
  - the sums begin as the biases, which come while the warpgroup waits for its turn;
  - the epilogue is a loop over the tile's halves, and the matmul one loop over stages, so that the
    code fits nearer instruction caches. The second half's sums move to the registers of the first;
  - three warpgroups hide an epilogue that takes twice as long as the matmul;
  - the kernel ends without a barrier of the cluster, which would wait for all stores.
None is the fastest for all shapes. Tiles of 192 columns are for large's third stage, 4096 x 2304 x
576. On 132 multiprocessors their waves are 2.9, those of 128 columns 4.4, and they read less from
the L2 cache. Nothing overlaps with the epilogue of a block's last tile, and theirs is longer. So
two warpgroups share it, a half each. On an H200 it takes 21.6 us there, and 24.3 with 128 columns.

The order of tiles changes no traffic: nothing stays in shared memory from one to the next. Tiles in
work at once are some rows of tiles of the output, so their tokens and all weights fit the L2 cache.
*/

#include "ptx.cuh"
#include "common.cuh"
#include "arithmetic.cuh"
#include "gelu.cuh"
#include "wgmma.cuh"
#include "cluster.cuh"
#include "tiles.cuh"
#include "gemm_hopper.cuh"

// ---- primitives (PTX ISA 8.0, sm_90a) ----

/// Waits for all threads of one warpgroup: named barrier 3, behind those of two that take turns.
__device__ __forceinline__ void last_group_barrier() { asm volatile("bar.sync 3, 128;" ::: "memory"); }

// ---- gemm ----

/// GROUPS warpgroups multiply. HALVES: two warpgroups store a half each of a block's last tile.
template <int TILE_N_, int STAGES_, int GROUPS, bool HALVES>
struct GemmGelu : GemmTiles<TILE_N_, STAGES_, GROUPS> {
    typedef GemmTiles<TILE_N_, STAGES_, GROUPS> Base;
    using typename Base::Sums;
    using Base::row_of, Base::column_of, Base::chunks, Base::release, Base::staging_of, Base::first_matrix,
        Base::first_unit;
    using Base::bias, Base::out, Base::shared, Base::m, Base::n, Base::k, Base::tiles, Base::first,
        Base::step, Base::lane, Base::warp;
    using Base::TILE_N, Base::STAGES, Base::TILE_K, Base::STAGE_BYTES, Base::FULL, Base::LOADING,
        Base::MULTIPLYING;
    static constexpr bool HAS_GELU = true;
    static_assert(!HALVES || GROUPS == 2, "named barrier 3 is free");
    // The barrier of a half that was given.
    static constexpr int GIVEN = Base::SHARED, SHARED = GIVEN + (HALVES ? 8 : 0);
    static_assert(SHARED <= 232448, "shared memory of a block");
    // Sums of a half, which pass through the stages.
    static_assert(!HALVES || 64 * TILE_N * 4 <= Base::BEHIND, "room for them");

    // ---- a computing warpgroup ----

    /// Sums of a tile begin as its biases, and as zeros beyond the last column.
    __device__ __forceinline__ void begin_with_bias(Sums& sums, int column) const {
        const u32* from = (const u32*)(bias + column) + (lane & 3);
#pragma unroll
        for (int j = 0; j < TILE_N / 8; j++) {
            u32 word = 0;
            if (column + j / 8 * 64 < n) word = from[j * 4];
            const float2 b = to_float2(word);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float* sum = sums[half] + j * 4;
                sum[0] = sum[2] = b.x, sum[1] = sum[3] = b.y;
            }
        }
    }

    /// Adds the products of the tile whose stages begin at this place in the order of all;
    /// `hand_on`: another tile follows, for the next warpgroup. A stage is released when the next
    /// one is issued and it has been multiplied.
    __device__ __forceinline__ void multiply_tile(Sums& sums, u32 place, int next, bool hand_on) const {
        int slot = (int)(place % STAGES), before = 0;
        u32 turn = place / STAGES & 1;
#pragma unroll 1
        for (int rest = k; rest > 0; rest -= TILE_K) {
            u32 stage = shared + slot * STAGE_BYTES;
            barrier_wait(shared + FULL + slot * 8, turn);
            if (rest >= TILE_K) {
                this->template multiply<4, 1>(sums, stage);
            } else {
                // Of the last stage only the columns that are not zeros.
#pragma unroll 1
                for (int at = 0; at < rest; at += 16) this->template multiply<1, 1>(sums, stage + at * 2);
            }
            if (rest < k) {
                wgmma_wait<1>();
                release(before);
            }
            before = slot;
            if (++slot == STAGES) slot = 0, turn ^= 1;
        }
        if (hand_on) named_barrier_arrive(1 + next);
        wgmma_wait<0>();
        settle(sums[0]);
        settle(sums[1]);
        release(before);
    }

    /// Applies GELU and stores whole lines of 128 bytes, which lanes assemble in shared memory. The
    /// second half's sums take the registers of the first. `many` halves, 1 or 2, from this row on.
    __device__ __forceinline__ void store_tile(Sums& sums, int row, int column, int group, int many) const {
        u32 staging = staging_of(group), matrix = first_matrix(staging), unit = first_unit(staging);
        int at = row + warp * 16 + (lane >> 3);
#pragma unroll 1
        for (int half = 0; half < many; half++, at += 64) {
            u16* to = out + (long long)at * n + column + (lane & 7) * 8;
#pragma unroll
            for (int part = 0; part < TILE_N / 64; part++) {
                if (column + part * 64 >= n) break;
                u32 halves[4][4];
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    const float* sum = sums[0] + (part * 8 + j) * 4;
                    halves[j / 2][j % 2 * 2] = to_f16x2(gelu(sum[0]), gelu(sum[1]));
                    halves[j / 2][j % 2 * 2 + 1] = to_f16x2(gelu(sum[2]), gelu(sum[3]));
                }
                warp_barrier();  // the lines before were read
#pragma unroll
                for (int pair = 0; pair < 4; pair++) store_matrices(matrix ^ pair * 32, halves[pair]);
                warp_barrier();
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    // Four rows further the swizzle has another unit.
                    uint4 eight = shared_unit((unit ^ (i & 1) * 64) + i * 4 * 128);
                    if (at + i * 4 < m) store_unit(to + part * 64 + i * 4 * n, eight);
                }
            }
            if (HALVES && half + 1 == many) break;
#pragma unroll
            for (int i = 0; i < TILE_N / 2; i++) sums[0][i] = sums[1][i];
        }
    }

    // A block's last tile: its owner gives the second half's sums to the other warpgroup, whose
    // registers are free. They lie in the stages: all bytes that are sent to this block have come,
    // as nobody sends beyond the last tile. Matmuls before that tile have read them: it refilled all
    // stages, as the host takes this kernel for K beyond four of them alone. A barrier in shared memory
    // orders stores and loads, and every thread that stores arrives there. Keep that: racecheck reported
    // a named barrier at which one side only arrives (840 times), and a barrier in shared memory at
    // which one lane arrives for its warp (504 times). It reports nothing where every thread arrives.
    // Our guess is that racecheck does not see the order of the other two. All gave right results.

    /// A thread's four sums i, of both warpgroups.
    __device__ __forceinline__ u32 given(int i) const {
        return shared + (u32)(i * 128 + warp * 32 + lane) * 16;
    }
    __device__ __forceinline__ void give_half(const Sums& sums) const {
        // Products of the warpgroup's other warps may still read weights.
        last_group_barrier();
#pragma unroll
        for (int i = 0; i < TILE_N / 8; i++) {
            const float* four = sums[1] + i * 4;
            store_shared_floats(given(i), make_float4(four[0], four[1], four[2], four[3]));
        }
        barrier_arrive(shared + GIVEN);
    }
    __device__ __forceinline__ void take_half(Sums& sums) const {
        barrier_wait(shared + GIVEN, 0);
#pragma unroll
        for (int i = 0; i < TILE_N / 8; i++) {
            float4 four = load_shared_floats(given(i));
            float* to = sums[0] + i * 4;
            to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
        }
    }

    __device__ __forceinline__ void multiply_all(int group) const {
        u32 chunks_of_a_tile = (u32)chunks(), place = 0;
        int next = group + 1 < GROUPS ? group + 1 : 0, whose = 0;
        for (int tile = first; tile < tiles; tile += step, place += chunks_of_a_tile) {
            bool own = whose == group;
            if (++whose == GROUPS) whose = 0;
            const bool halved = HALVES && tile + step >= tiles;
            if (!own && !halved) continue;
            int row = row_of(tile), column = column_of(tile);
            Sums sums;
            if (own) {
                begin_with_bias(sums, column);
                if (place > 0) named_barrier_sync(1 + group);  // named barrier 0 is the block's
                multiply_tile(sums, place, next, tile + step < tiles);
                if (halved) give_half(sums);
            } else {
                take_half(sums);
                row += 64;
            }
            store_tile(sums, row, column, group, halved ? 1 : 2);
        }
    }

    __device__ __forceinline__ void run(const TensorMap* tokens, const TensorMap* weights, const u16* biases,
                                        u16* to, int rows, int columns, int depth, u32 shared_base) {
        if (HALVES && threadIdx.x == 0) barrier_create(shared_base + GIVEN, 128);
        this->begin_block(tokens, weights, biases, to, rows, columns, depth, shared_base);
        if (threadIdx.x < 128) {
            registers_release<LOADING>();
            if (threadIdx.x == 0) {
                this->load_all_tiles(tokens, weights);
                this->wait_for_readers();
            }
        } else {
            registers_claim<MULTIPLYING>();
            this->begin_multiplying();
            multiply_all((int)(threadIdx.x >> 7) - 1);
        }
    }
};

// ---- instances ----

GEMM(gemm_bias_gelu_128_two_groups, GemmGelu<128, 6, 2, false>)
GEMM(gemm_bias_gelu_128_three_groups, GemmGelu<128, 6, 3, false>)
GEMM(gemm_bias_gelu_192_two_groups, GemmGelu<192, 5, 2, true>)
