/*!
f16 GEMM with bias and GELU for Hopper only (sm_90a), as gemm_hopper.cu: out[M, N] = gelu(A[M, K]
B[N, K]^T + bias). A: tokens, B: weights; f32 accumulators, rounded once.

| instance                        | tile, K of a stage | stages | cluster | threads | shared bytes |
|---------------------------------|--------------------|--------|---------|---------|--------------|
| gemm_bias_gelu_128_two_groups   | 128x128, 64        | 6      | 2x1     | 384     | 213 088      |
| gemm_bias_gelu_128_three_groups | 128x128, 64        | 6      | 2x1     | 512     | 221 280      |

Warp 0 loads tiles by TMA, and GROUPS warpgroups take the output tiles in turn: one multiplies with
`wgmma`, and the others apply GELU and store. Grid: whole clusters, which stay for the whole launch.

Why beside gemm_hopper.cu: an estimate from its times says that its epilogue takes longer than the
matmul up to K = 576, though its instructions are half as many as the matmul's cycles at K = 448. A
scheduler has one warp of the epilogue, which waits for what it needs. So here
  - the sums begin as the biases, which come while the warpgroup waits for its turn. There the
    epilogue waits for them, once for each 64 columns;
  - the epilogue is a loop over the tile's halves, and the matmul one loop over stages, so that the
    code fits nearer instruction caches. The second half's sums move to the registers of the first;
  - three warpgroups hide an epilogue that takes twice as long as the matmul;
  - the kernel ends without a barrier of the cluster, which would wait for all stores.

A warpgroup arrives at the next one's named barrier once for each tile that follows its own, and the
next one waits once. So a tile begins when the warpgroups before have seen all stages before it, and
no barrier of a stage is taken for another of its phases (tiles.cuh).
*/

#include "ptx.cuh"
#include "common.cuh"
#include "f16x2.cuh"
#include "gelu.cuh"
#include "wgmma.cuh"
#include "tiles.cuh"

// ---- gemm ----

/// TILE_N of an output tile; a cluster has CLUSTER_M x CLUSTER_N tiles. After the stages each warp
/// of the GROUPS that multiply has room for 16 rows x 64 columns.
template <int TILE_N_, int STAGES_, int CLUSTER_M_, int CLUSTER_N_, int GROUPS>
struct GemmGelu : OutputTiles<TILE_N_, STAGES_, CLUSTER_M_, CLUSTER_N_, 4, GROUPS * 4 * 16 * 128> {
    typedef OutputTiles<TILE_N_, STAGES_, CLUSTER_M_, CLUSTER_N_, 4, GROUPS * 4 * 16 * 128> Base;
    using Base::row_of, Base::column_of, Base::chunks, Base::descriptor, Base::release;
    using Base::shared, Base::m, Base::n, Base::k, Base::tiles, Base::first, Base::step, Base::lane,
        Base::warp;
    using Base::TILE_N, Base::STAGES, Base::TILE_K, Base::WEIGHTS, Base::STAGE_BYTES, Base::FULL;
    static constexpr bool HAS_GELU = true;
    static constexpr int THREADS = 128 * (1 + GROUPS);
    // 65536 registers: those that the loading warps do not need go to the others.
    static constexpr int LOADING = GROUPS == 2 ? 40 : 32, MULTIPLYING = GROUPS == 2 ? 232 : 160;
    static constexpr int STAGING = Base::BEHIND;
    static constexpr int SHARED = Base::TILES_END;
    static_assert(128 * (LOADING + GROUPS * MULTIPLYING) <= 65536, "registers of a multiprocessor");
    static_assert(SHARED <= 232448, "shared memory of a block");
    static_assert(TILE_N % 64 == 0, "what is stored at once");

    const u16* bias;
    u16* out;

    // ---- a computing warpgroup ----

    // Of rows 0 to 63 and 64 to 127. Lane l: columns 8 j + 2 (l % 4) and the next, of rows l / 4
    // (4 j, 4 j + 1) and l / 4 + 8.
    typedef float Sums[2][TILE_N / 2];

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

    /// Issues the matmul of STEPS x 16 columns from this place in a stage on. Nothing but `wgmma`
    /// between fence and commit: control flow there makes the compiler serialise them.
    template <int STEPS>
    __device__ __forceinline__ void multiply(Sums& sums, u32 from) const {
        u64 a = descriptor(from), b = descriptor(from + WEIGHTS);
        settle(sums[0]);
        settle(sums[1]);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            wgmma_ss(sums[0], a + i * 2, b + i * 2, 1);
            wgmma_ss(sums[1], a + i * 2 + 64 * 128 / 16, b + i * 2, 1);
        }
        wgmma_commit();
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
                multiply<4>(sums, stage);
            } else {
                // Of the last stage only the columns that are not zeros.
#pragma unroll 1
                for (int at = 0; at < rest; at += 16) multiply<1>(sums, stage + at * 2);
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

    /// Applies GELU and stores whole lines of 128 bytes, which lanes assemble in shared memory: each
    /// warp has 16 rows there. The second half's sums take the registers of the first.
    __device__ __forceinline__ void store_tile(Sums& sums, int row, int column, int group) const {
        u32 staging = shared + STAGING + (u32)(group * 4 + warp) * 16 * 128;
        // This lane's addresses for `stmatrix`: matrices 0 and 1 are rows 0 to 7 and 8 to 15 of a
        // unit, 2 and 3 those of the next. Units are swizzled by their row.
        u32 matrix = staging + (u32)(lane & 15) * 128 + (u32)(lane >> 4 ^ (lane & 7)) * 16;
        u32 unit = staging + (u32)(lane >> 3) * 128 + (u32)((lane & 7) ^ (lane >> 3)) * 16;
        int at = row + warp * 16 + (lane >> 3);
#pragma unroll 1
        for (int half = 0; half < 2; half++, at += 64) {
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
#pragma unroll
            for (int i = 0; i < TILE_N / 2; i++) sums[0][i] = sums[1][i];
        }
    }

    __device__ __forceinline__ void multiply_all(int group) const {
        u32 chunks_of_a_tile = (u32)chunks(), place = 0;
        int next = group + 1 < GROUPS ? group + 1 : 0, whose = 0;
        for (int tile = first; tile < tiles; tile += step, place += chunks_of_a_tile) {
            bool own = whose == group;
            if (++whose == GROUPS) whose = 0;
            if (!own) continue;
            int row = row_of(tile), column = column_of(tile);
            Sums sums;
            begin_with_bias(sums, column);
            if (place > 0) named_barrier_sync(1 + group);  // named barrier 0 is the block's
            multiply_tile(sums, place, next, tile + step < tiles);
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

// As those of gemm_hopper.cu.
#define GEMM_GELU(NAME, TILE_N, STAGES, CLUSTER_M, CLUSTER_N, GROUPS)                                        \
    typedef GemmGelu<TILE_N, STAGES, CLUSTER_M, CLUSTER_N, GROUPS> NAME##_instance;                          \
    [[maybe_unused]] constexpr int NAME##_tile_n = TILE_N, NAME##_stages = STAGES;                           \
    [[maybe_unused]] constexpr int NAME##_shared = NAME##_instance::SHARED;                                  \
    [[maybe_unused]] constexpr int NAME##_cluster_m = CLUSTER_M, NAME##_cluster_n = CLUSTER_N;               \
    extern "C" __global__ void __cluster_dims__(CLUSTER_M * CLUSTER_N, 1, 1)                                 \
        __launch_bounds__(NAME##_instance::THREADS, 1)                                                       \
        NAME(const __grid_constant__ TensorMap tokens, const __grid_constant__ TensorMap weights,            \
             const u16* bias, u16* out, int m, int n, int k) {                                               \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        NAME##_instance product;                                                                             \
        product.run(&tokens, &weights, bias, out, m, n, k, shared_address(memory));                          \
    }

GEMM_GELU(gemm_bias_gelu_128_two_groups, 128, 6, 2, 1, 2)
GEMM_GELU(gemm_bias_gelu_128_three_groups, 128, 6, 2, 1, 3)
