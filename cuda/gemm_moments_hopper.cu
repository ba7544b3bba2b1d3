/*!
GEMM and residual add for Hopper only (sm_90a), with what the following LayerNorm needs: residual[M,
N] += A[M, K] B[N, K]^T + bias in f32, out[M, N] = residual in f16, and moments[N / TILE_N][M] =
{mean, sum of squared differences from it} of each row's columns in each tile, of the f32 values. A:
tokens, B: weights; bias and moments are f32. The next GEMM normalises (gemm_normed.cuh).

| instance                   | tile MxN, K of a stage | stages | cluster MxN | shared bytes |
|----------------------------|------------------------|--------|-------------|--------------|
| gemm_residual_moments_96   | 128x96, 64             | 7      | 1x2         | 227 440      |
| gemm_residual_moments_112  | 128x112, 64            | 6      | 1x2         | 215 136      |
| gemm_residual_moments_144  | 128x144, 64            | 5      | 2x1         | 213 072      |

384 threads: warp 0 loads tiles by TMA, warps 1 to 3 prefetch the next kernels' weights into the L2
cache (40 registers a thread); two warpgroups compute the upper and the lower half of each tile (232
each). Clusters are persistent.

No block waits for another one's numbers, as a LayerNorm in this place would make it
(gemm_layernorm_hopper.cu). So tiles are as small as they must be for all multiprocessors: 4096 x
576 has 128 tiles of 144 columns. Blocks of a cluster share the matrix of which more bytes a stage
are saved so: tokens with tiles of 96 and 112 columns, weights with 144.
*/
#include "ptx.cuh"
#include "common.cuh"
#include "f16x2.cuh"
#include "wgmma.cuh"
#include "tiles.cuh"
#include "gemm_hopper.cuh"
#include "gemm_residual.cuh"

// ---- gemm ----

template <int TILE_N_, int STAGES_, int CLUSTER_M_, int CLUSTER_N_>
struct GemmResidualMoments : ResidualTiles<TILE_N_, STAGES_, CLUSTER_M_, CLUSTER_N_, staged_bytes(TILE_N_)> {
    typedef ResidualTiles<TILE_N_, STAGES_, CLUSTER_M_, CLUSTER_N_, staged_bytes(TILE_N_)> Base;
    using typename Base::Sums;
    using Base::row_of, Base::column_of, Base::chunks, Base::own_row;
    using Base::residual, Base::out, Base::group, Base::m, Base::n, Base::tiles, Base::first, Base::step,
        Base::lane;
    using Base::TILE_N, Base::GROUPS;
    static constexpr int SHARED = Base::TILES_END;
    static_assert(SHARED <= 232448, "shared memory of a block");

    float* moments;

    struct All {
        __device__ __forceinline__ bool operator()(int) const { return true; }
    };

    __device__ __forceinline__ void load_residual(Sums& kept, int tile) const {
        this->load_rows(kept, row_of(tile), n, column_of(tile), All());
    }

    /// Of two rows; one lane of four stores each.
    __device__ __forceinline__ void store_moments(int tile, const float (&mean)[2],
                                                  const float (&squares)[2]) const {
        int row = row_of(tile) + own_row();
        float* to = moments + ((long long)(column_of(tile) / TILE_N) * m + row) * 2;
        if ((lane & 3) == 0 && row < m) store_two(to, {mean[0], squares[0]});
        if ((lane & 3) == 0 && row + 8 < m) store_two(to + 16, {mean[1], squares[1]});
    }

    __device__ __forceinline__ void multiply_all(const float* bias) const {
        u32 chunks_of_a_tile = (u32)chunks(), place = 0;
        Sums kept;
        pdl_wait();
        if (first < tiles) load_residual(kept, first);
        for (int tile = first; tile < tiles; tile += step, place += chunks_of_a_tile) {
            const int top = row_of(tile), column = column_of(tile);
            // They come while the matmul runs.
            float2 biases[GROUPS];
#pragma unroll
            for (int j = 0; j < GROUPS; j++) biases[j] = load_two(bias + column + j * 8 + (lane & 3) * 2);
            Sums sums;
            this->multiply_tile(sums, place);
            this->add_rows(sums, kept, [&](int j) { return biases[j]; });
            if (tile + step < tiles) load_residual(kept, tile + step);
            this->store_rows(sums, top, n, column, All());
            float mean[2], squares[2];
            this->moments_of(sums, 1.0f / TILE_N, mean, squares, All());
            store_moments(tile, mean, squares);
            this->store_halves(top, n, column, All(), [&](int j) {
                const float* x = sums + j * 4;
                return uint2{to_f16x2(x[0], x[1]), to_f16x2(x[2], x[3])};
            });
        }
    }

    __device__ __forceinline__ void run(const TensorMap* tokens, const TensorMap* weights, const float* bias,
                                        float* added_to, u16* to, float* of_rows, int rows, int columns,
                                        int depth, const unsigned char* ahead, int lines, u32 shared_base) {
        residual = added_to, out = to, moments = of_rows;
        this->begin(tokens, weights, rows, columns, depth, shared_base);
        if (threadIdx.x == 0) barriers_publish();
        warp_barrier();
        // Before it no peer may send to this block.
        cluster_barriers_known();
        // 65536 registers: those that the loading warps do not need go to the others.
        if (threadIdx.x < 128) {
            registers_release<40>();
            if (threadIdx.x == 0) {
                this->load_all_tiles(tokens, weights);
                this->wait_for_readers();
            }
            if (threadIdx.x >= 32) this->fetch_ahead(ahead, lines);
        } else {
            registers_claim<232>();
            this->begin_multiplying();
            group = (int)(threadIdx.x >> 7) - 1;
            multiply_all(bias);
        }
    }
};

// ---- instances ----

// N: a multiple of a cluster's columns. `lines` lines of 128 bytes from `ahead` on are prefetched into
// the L2 cache.
#define GEMM_RESIDUAL_MOMENTS(NAME, TILE_N, STAGES, CLUSTER_M, CLUSTER_N)                                    \
    GEMM_CONSTANTS(NAME, GemmResidualMoments<TILE_N, STAGES, CLUSTER_M, CLUSTER_N>)                          \
    extern "C" __global__ void __cluster_dims__(CLUSTER_M * CLUSTER_N, 1, 1) __launch_bounds__(384, 1)       \
        NAME(const __grid_constant__ TensorMap tokens, const __grid_constant__ TensorMap weights,            \
             const float* bias, float* residual, u16* out, float* moments, int m, int n, int k,              \
             const unsigned char* ahead, int lines) {                                                        \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        NAME##_instance product;                                                                             \
        product.run(&tokens, &weights, bias, residual, out, moments, m, n, k, ahead, lines,                  \
                    shared_address(memory));                                                                 \
    }
GEMM_RESIDUAL_MOMENTS(gemm_residual_moments_96, 96, 7, 1, 2)
GEMM_RESIDUAL_MOMENTS(gemm_residual_moments_112, 112, 6, 1, 2)
GEMM_RESIDUAL_MOMENTS(gemm_residual_moments_144, 144, 5, 2, 1)
