/*!
f16 GEMM with bias, with or without GELU, for Hopper only (sm_90a): out[M, N] = gelu(A[M, K] B[N,
K]^T + bias). A: tokens, B: weights; f32 accumulators, rounded once.

| instance                    | tile MxN, K of a stage | stages | cluster MxN | shared bytes |
|-----------------------------|------------------------|--------|-------------|--------------|
| gemm_bias_gelu_128_by_2, _4 | 128x128, 64            | 6      | 2x1, 2x2    | 213 088      |
| gemm_bias_gelu_192_by_2     | 128x192, 64            | 5      | 2x1         | 221 264      |
| gemm_bias_128_by_2          | 128x128, 64            | 6      | 2x1         | 213 088      |
| gemm_bias_192_by_2          | 128x192, 64            | 5      | 2x1         | 221 264      |

384 threads: warp 0 loads tiles by TMA (40 registers a thread), two warpgroups compute (232 each).
Grid: whole clusters, which stay for the whole launch ("persistent").

GELU takes a quarter to a half as long as the matmul, so it must overlap with a matmul. The two
warpgroups alternate between output tiles ("ping-pong" in CUTLASS): one multiplies with `wgmma`
while the other applies bias and GELU and stores. A warpgroup arrives at the other's named barrier
once for each tile that follows its own, and the other waits once. So a tile begins when one of the
two has seen all stages before it.
*/

#include "ptx.cuh"
#include "common.cuh"
#include "f16x2.cuh"
#include "gelu.cuh"
#include "wgmma.cuh"
#include "tiles.cuh"

// ---- gemm ----

/// TILE_N of an output tile; a cluster has CLUSTER_M x CLUSTER_N tiles. After the stages each of
/// eight warps has room for 16 rows x 64 columns.
template <bool GELU, int TILE_N_, int STAGES_, int CLUSTER_M_, int CLUSTER_N_>
struct GemmBiasGelu : OutputTiles<TILE_N_, STAGES_, CLUSTER_M_, CLUSTER_N_, 4, 8 * 16 * 128> {
    typedef OutputTiles<TILE_N_, STAGES_, CLUSTER_M_, CLUSTER_N_, 4, 8 * 16 * 128> Base;
    using Base::row_of, Base::column_of, Base::chunks, Base::descriptor, Base::release;
    using Base::shared, Base::m, Base::n, Base::k, Base::tiles, Base::first, Base::step, Base::lane,
        Base::warp;
    using Base::TILE_N, Base::STAGES, Base::TILE_K, Base::WEIGHTS, Base::STAGE_BYTES, Base::FULL;
    static constexpr bool HAS_GELU = GELU;
    static constexpr int STAGING = Base::BEHIND;
    static constexpr int SHARED = Base::TILES_END;
    static_assert(SHARED <= 232448, "shared memory of a block");
    static_assert(TILE_N % 64 == 0, "what is stored at once");

    const u16* bias;
    u16* out;

    // ---- a computing warpgroup ----

    typedef float Sums[2][TILE_N / 2];  // of rows 0 to 63 and 64 to 127

    /// Issues the matmul of STEPS x 16 columns of a stage. ADD is 0 for the first, a constant: the
    /// accumulators of the tile before need not be kept for it. Nothing but `wgmma` between fence
    /// and commit: control flow there makes the compiler serialise them.
    template <int STEPS, int ADD>
    __device__ __forceinline__ void multiply(Sums& sums, int slot) const {
        u64 a = descriptor(shared + slot * STAGE_BYTES),
            b = descriptor(shared + slot * STAGE_BYTES + WEIGHTS);
        settle(sums[0]);
        settle(sums[1]);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            wgmma_ss(sums[0], a + i * 2, b + i * 2, i > 0 ? 1 : ADD);
            wgmma_ss(sums[1], a + i * 2 + 64 * 128 / 16, b + i * 2, i > 0 ? 1 : ADD);
        }
        wgmma_commit();
    }

    /// Issues the next stage when it is loaded, and releases the one before when that has been
    /// multiplied.
    template <int STEPS>
    __device__ __forceinline__ void multiply_more(Sums& sums, int& slot, u32& turn) const {
        int before = slot;
        if (++slot == STAGES) slot = 0, turn ^= 1;
        barrier_wait(shared + FULL + slot * 8, turn);
        multiply<STEPS, 1>(sums, slot);
        wgmma_wait<1>();
        release(before);
    }

    /// The accumulators of the tile whose stages begin at this place in the order of all;
    /// `hand_on`: another tile follows, for the other warpgroup.
    __device__ __forceinline__ void multiply_tile(Sums& sums, u32 place, int group, bool hand_on) const {
        int slot = (int)(place % STAGES);
        u32 turn = place / STAGES & 1;
        barrier_wait(shared + FULL + slot * 8, turn);
        multiply<4, 0>(sums, slot);
        for (int at = 2 * TILE_K; at <= k; at += TILE_K) multiply_more<4>(sums, slot, turn);
        // Of the last stage only the columns that are not zeros.
        switch (k % TILE_K / 16) {
            case 1: multiply_more<1>(sums, slot, turn); break;
            case 2: multiply_more<2>(sums, slot, turn); break;
            case 3: multiply_more<3>(sums, slot, turn); break;
        }
        if (hand_on) named_barrier_arrive(2 - group);
        wgmma_wait<0>();
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

    __device__ __forceinline__ u32 finished(float low, float high) const {
        return GELU ? to_f16x2(gelu(low), gelu(high)) : to_f16x2(low, high);
    }

    /// Applies bias and GELU and stores whole lines of 128 bytes, which lanes assemble in shared
    /// memory: each warp has 16 rows there.
    __device__ __forceinline__ void store_tile(const Sums& sums, int row, int column, int group) {
        u32 staging = shared + STAGING + (u32)(group * 4 + warp) * 16 * 128;
        // This lane's addresses for `stmatrix`: matrices 0 and 1 are rows 0 to 7 and 8 to 15 of a
        // unit, 2 and 3 those of the next. Units are swizzled by their row.
        int first_matrix = (int)(staging + (u32)(lane & 15) * 128 + (u32)(lane >> 4 ^ (lane & 7)) * 16);
        int first_unit = (int)(staging + (u32)(lane >> 3) * 128 + (u32)((lane & 7) ^ (lane >> 3)) * 16);
#pragma unroll
        for (int part = 0; part < TILE_N / 64; part++) {
            if (column + part * 64 >= n) break;
            u32 words[8];
            load_bias(words, column + part * 64);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                u32 halves[4][4];
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    const float2 b = to_float2(words[j]);
                    const float* sum = sums[half] + (part * 8 + j) * 4;
                    halves[j / 2][j % 2 * 2] = finished(sum[0] + b.x, sum[1] + b.y);
                    halves[j / 2][j % 2 * 2 + 1] = finished(sum[2] + b.x, sum[3] + b.y);
                }
                warp_barrier();  // the lines before were read
                // Addresses are recomputed, or those of all parts would take registers beside the
                // accumulators.
                int matrix = first_matrix, from = first_unit;
                forget(matrix);
#pragma unroll
                for (int pair = 0; pair < 4; pair++) store_matrices((u32)(matrix ^ pair * 32), halves[pair]);
                warp_barrier();
                int at = row + half * 64 + warp * 16 + (lane >> 3),
                    place = column + part * 64 + (lane & 7) * 8, four_rows = n * 4;
                forget(from);
                forget(at);
                forget(place);
                forget(four_rows);
                u16* to = out + (long long)at * n + place;
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    // Four rows further the swizzle has another unit.
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
            // The biases are needed at once after the matmul.
            if (lane < TILE_N / 64 && column + lane * 64 < n) prefetch_line(bias + column + lane * 64);
            if (order > 0) named_barrier_sync(1 + group);  // named barrier 0 is the block's
            // Declared here, not outside the loop: the first matmul overwrites them, so they need
            // not be kept.
            Sums sums;
            multiply_tile(sums, place, group, tile + step < tiles);
            store_tile(sums, row, column, group);
        }
    }

    __device__ __forceinline__ void run(const TensorMap* tokens, const TensorMap* weights, const u16* biases,
                                        u16* to, int rows, int columns, int depth, u32 shared_base) {
        bias = biases, out = to;
        this->begin(tokens, weights, rows, columns, depth, shared_base);
        if (threadIdx.x == 0) barriers_publish();
        warp_barrier();
        // Before it no peer may send to this block.
        cluster_barriers_known();

        // 65536 registers: those that the loading warp does not need go to the others.
        if (threadIdx.x < 128) {
            registers_release<40>();
            if (threadIdx.x == 0) this->load_all_tiles(tokens, weights);
            warp_barrier();
            cluster_barrier();
        } else {
            registers_claim<232>();
            this->begin_multiplying();
            multiply_all((int)(threadIdx.x >> 7) - 1);
            warp_barrier();
            cluster_barrier();
        }
    }
};

// ---- instances ----

// Grids are whole clusters; m at least 1, n a multiple of 64, k of 16 and at least 64; all
// addresses multiples of 16. Constants: for the host (scripts/kernels.py).
#define GEMM(NAME, GELU, TILE_N, STAGES, CLUSTER_M, CLUSTER_N)                                               \
    typedef GemmBiasGelu<GELU, TILE_N, STAGES, CLUSTER_M, CLUSTER_N> NAME##_instance;                        \
    [[maybe_unused]] constexpr int NAME##_tile_n = TILE_N, NAME##_stages = STAGES;                           \
    [[maybe_unused]] constexpr int NAME##_shared = NAME##_instance::SHARED;                                  \
    [[maybe_unused]] constexpr int NAME##_cluster_m = CLUSTER_M, NAME##_cluster_n = CLUSTER_N;               \
    extern "C" __global__ void __cluster_dims__(CLUSTER_M * CLUSTER_N, 1, 1) __launch_bounds__(384, 1)       \
        NAME(const __grid_constant__ TensorMap tokens, const __grid_constant__ TensorMap weights,            \
             const u16* bias, u16* out, int m, int n, int k) {                                               \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        NAME##_instance product;                                                                             \
        product.run(&tokens, &weights, bias, out, m, n, k, shared_address(memory));                          \
    }

// A module of cuda/kernels.toml has the instances of one INSTANCES; without it this file has all.
#define GELU_128 1
#define GELU_192 2
#define BIAS 3
#if !defined(INSTANCES) || INSTANCES == GELU_128
GEMM(gemm_bias_gelu_128_by_2, true, 128, 6, 2, 1)
GEMM(gemm_bias_gelu_128_by_4, true, 128, 6, 2, 2)
#endif
#if !defined(INSTANCES) || INSTANCES == GELU_192
GEMM(gemm_bias_gelu_192_by_2, true, 192, 5, 2, 1)
#endif
#if !defined(INSTANCES) || INSTANCES == BIAS
GEMM(gemm_bias_128_by_2, false, 128, 6, 2, 1)
GEMM(gemm_bias_192_by_2, false, 192, 5, 2, 1)
#endif
