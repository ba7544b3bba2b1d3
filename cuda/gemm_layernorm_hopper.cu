/*!
GEMM, residual add and the following LayerNorm, for Hopper only (sm_90a): residual[M, N] += A[M, K]
B[N, K]^T + bias in f32, then out[M, N] = LayerNorm(residual) in f16. A: tokens, B: weights; bias
and the norm's weight and bias are f32.

| instance, by N  | tile MxN, K of a stage | stages | cluster MxN | shared bytes                |
|-----------------|------------------------|--------|-------------|-----------------------------|
| 144             | 128x144, 64            | 5      | 2x1         | 216 864                     |
| 192, 224, 288   | 128xN/2, 64            | 6,6,5  | 1x2         | 204 016, 220 592, 218 912   |
| 384 by 6        | 128x128, 64            | 5      | 2x3         | 206 432                     |
| 448 by 6        | 128x160, 64            | 4      | 2x3         | 198 608                     |

384 threads: warp 0 loads tiles by TMA, warps 1 to 3 load biases and the norm's weights into shared
memory and prefetch the next kernels' weights into the L2 cache (40 registers a thread); two
warpgroups compute the upper and the lower half of each tile (232 each). Clusters are persistent.

A LayerNorm by itself reads everything that the GEMM has just written. Here the CLUSTER_N blocks of
a cluster hold whole rows in registers. (Three at most: an H200 runs 30 clusters of four at once,
and 4096 tokens need 32.) Each block computes mean and squared differences of its columns, sends
both to the other blocks of its row, and combines what they send (Chan, Golub and LeVeque, 1979). So
a common offset of a row costs no digits.

The residual is loaded before the matmul that it is added to: the first tile's at the beginning,
each other tile's while the tile before is normalised. Each warpgroup sees all stages in their
order, so none is a phase behind (tiles.cuh).

Statistics go alternately to one of two buffers, each with a barrier (arrivals: one thread of its
block, with the bytes of all blocks of the row; then all bytes). That thread arrives for the first
two tiles at the beginning. It arrives for tile t + 2 as soon as it has seen tile t, if there is
such a tile, before it sends its own part of tile t + 1. No block sends a part of tile t + 2 before
all parts of t + 1 are there, and a row's part of t + 1 is sent by threads that have read the parts
of tile t. So each part meets its own phase, and overwrites nothing that is still to be read.

`out` may lie over A if K equals N: a row is stored when all blocks of its row have sent their
parts, after their matmuls, and no other block reads it.
*/
#include "ptx.cuh"
#include "common.cuh"
#include "arithmetic.cuh"
#include "wgmma.cuh"
#include "cluster.cuh"
#include "tiles.cuh"
#include "gemm_hopper.cuh"

// ---- gemm ----

/// Rows of N columns; TILE_N columns of an output tile; a cluster has CLUSTER_M x CLUSTER_N tiles,
/// and the last tile of a row may have fewer columns.
template <int N_, int TILE_N_, int STAGES_, int CLUSTER_M_, int CLUSTER_N_>
struct GemmResidualLayerNorm
    : OutputTiles<TILE_N_, STAGES_, CLUSTER_M_, CLUSTER_N_, 8, norm_bytes(TILE_N_, CLUSTER_N_)> {
    typedef OutputTiles<TILE_N_, STAGES_, CLUSTER_M_, CLUSTER_N_, 8, norm_bytes(TILE_N_, CLUSTER_N_)> Base;
    using Base::row_of, Base::chunks, Base::release;
    using Base::shared, Base::m, Base::k, Base::tiles, Base::first, Base::step, Base::lane, Base::warp,
        Base::down, Base::across;
    using Base::TILE_N, Base::STAGES, Base::CLUSTER_N, Base::TILE_M, Base::TILE_K, Base::WEIGHTS,
        Base::STAGE_BYTES, Base::FULL, Base::BEHIND;
    static constexpr int N = N_;
    static constexpr int LAST = N - TILE_N * (CLUSTER_N - 1);  // columns of a row's last tile
    static constexpr int GROUPS = TILE_N / 8;        // of eight columns, 16 bytes of f16
    static constexpr int PITCH = TILE_N * 2 + 16;    // bytes of a staged row: an odd number of units
    static constexpr int STAGING = BEHIND;           // 16 rows for each of eight warps
    static constexpr int PARTS = STAGING + 8 * 16 * PITCH;  // two buffers of CLUSTER_N parts of 128 rows
    static constexpr int PART_BYTES = TILE_M * 8;
    // Bias, the norm's weight, the norm's bias: f32.
    static constexpr int VECTORS = PARTS + 2 * CLUSTER_N * PART_BYTES;
    static constexpr int COUNTED = Base::TILES_END;  // barriers of the two buffers
    static constexpr int SHARED = COUNTED + 2 * 8;
    static_assert(VECTORS + 3 * 4 * TILE_N == FULL, "what lies behind the slots");
    static_assert(SHARED <= 232448, "shared memory of a block");
    static_assert(LAST > 0 && LAST <= TILE_N && LAST % 16 == 0, "every block has columns of a row");
    static_assert(TILE_N % 16 == 0 && PITCH / 16 % 2 == 1 && FULL % 8 == 0,
                  "pairs of units without bank conflicts");

    float* residual;
    u16* out;
    int group;
    // Lane l: columns 8 j + 2 (l % 4) and the next, of rows l / 4 (4 j, 4 j + 1) and l / 4 + 8.
    typedef float Sums[TILE_N / 2];

    /// Whether a group of eight columns is one of the row.
    __device__ __forceinline__ bool has(int j) const {
        return LAST == TILE_N || j < LAST / 8 || across < CLUSTER_N - 1;
    }

    // ---- matmul ----

    /// Issues the matmul of STEPS x 16 columns of a stage; without ADD the first replaces the sums.
    template <int STEPS, int ADD>
    __device__ __forceinline__ void multiply(Sums& sums, u32 stage) const {
        wgmma_steps<STEPS, ADD>(sums, descriptor(stage + group * 64 * 128), descriptor(stage + WEIGHTS));
    }

    /// The accumulators of the tile whose stages begin at this place in the order of all.
    __device__ __forceinline__ void multiply_tile(Sums& sums, u32 place) const {
        int slot = multiply_stages(*this, sums, place);
        wgmma_wait<0>();
        settle(sums);
        release(slot);
    }

    // ---- the residual ----

    /// This lane's first row of the block's 128; the other is eight rows on.
    __device__ __forceinline__ int own_row() const { return group * 64 + warp * 16 + (lane >> 2); }
    __device__ __forceinline__ float* own_residual(int row) const {
        return residual + (long long)row * N + across * TILE_N + (lane & 3) * 2;
    }

    __device__ __forceinline__ void load_residual(Sums& kept, int tile) const {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int row = row_of(tile) + own_row() + r * 8;
            const float* from = own_residual(row);
            if (row < m) {
#pragma unroll
                for (int j = 0; j < GROUPS; j++) {
                    float2 x = {0.0f, 0.0f};
                    if (has(j)) x = load_coherent_pair(from + j * 8);
                    kept[j * 4 + r * 2] = x.x, kept[j * 4 + r * 2 + 1] = x.y;
                }
            } else {
#pragma unroll
                for (int j = 0; j < GROUPS; j++) kept[j * 4 + r * 2] = kept[j * 4 + r * 2 + 1] = 0.0f;
            }
        }
    }

    __device__ __forceinline__ u32 vector_at(int which, int j) const {
        return shared + VECTORS + (u32)(which * TILE_N + j * 8 + (lane & 3) * 2) * 4;
    }

    __device__ __forceinline__ void add(Sums& sums, const Sums& kept) const {
#pragma unroll
        for (int j = 0; j < GROUPS; j++) {
            const float2 bias = load_shared_pair(vector_at(0, j));
            float* sum = sums + j * 4;
            const float* more = kept + j * 4;
            sum[0] = sum[0] + bias.x + more[0], sum[1] = sum[1] + bias.y + more[1];
            sum[2] = sum[2] + bias.x + more[2], sum[3] = sum[3] + bias.y + more[3];
        }
    }

    __device__ __forceinline__ void store_residual(const Sums& sums, int tile) const {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int row = row_of(tile) + own_row() + r * 8;
            if (row >= m) continue;
            float* to = own_residual(row);
#pragma unroll
            for (int j = 0; j < GROUPS; j++)
                if (has(j)) store_pair(to + j * 8, {sums[j * 4 + r * 2], sums[j * 4 + r * 2 + 1]});
        }
    }

    // ---- the norm ----

    /// Where the parts of this lane's first row come; `order`: the tile's number of the cluster's.
    __device__ __forceinline__ u32 parts_of(int order) const {
        return shared + PARTS + (u32)(order & 1) * CLUSTER_N * PART_BYTES + own_row() * 8;
    }

    /// Means and squared differences of two rows' columns here, which go to all blocks of the row.
    __device__ __forceinline__ void send_statistics(const Sums& sums, int order, float (&mean)[2],
                                                    float (&squares)[2]) const {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float sum = 0.0f, square = 0.0f;  // columns beyond the row are zeros
#pragma unroll
            for (int j = 0; j < GROUPS; j++) sum += sums[j * 4 + r * 2] + sums[j * 4 + r * 2 + 1];
            mean[r] = sum_of_lanes<1, 4>(sum) * (has(GROUPS - 1) ? 1.0f / TILE_N : 1.0f / LAST);
#pragma unroll
            for (int j = 0; j < GROUPS; j++) {
                if (!has(j)) continue;
                const float a = sums[j * 4 + r * 2] - mean[r], b = sums[j * 4 + r * 2 + 1] - mean[r];
                square += a * a + b * b;
            }
            squares[r] = sum_of_lanes<1, 4>(square);
        }
        // One lane of four for each block.
        if (CLUSTER_N > 1 && (lane & 3) < CLUSTER_N) {
#pragma unroll
            for (int r = 0; r < 2; r++)
                send_two(parts_of(order) + across * PART_BYTES + r * 64, {mean[r], squares[r]},
                         shared + COUNTED + (order & 1) * 8, (u32)(down * CLUSTER_N + (lane & 3)));
        }
    }

    /// Mean and reciprocal deviation of whole rows. `one_more`: the buffer has another tile.
    __device__ __forceinline__ void statistics(int order, bool one_more, float (&mean)[2],
                                               float (&squares)[2], float (&scale)[2]) const {
        if (CLUSTER_N > 1) {
            u32 parts = parts_of(order), counted = shared + COUNTED + (order & 1) * 8;
            barrier_wait_for_peers(counted, (u32)(order >> 1 & 1));
            if (threadIdx.x == 128 && one_more) barrier_expect(counted, CLUSTER_N * PART_BYTES);
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float2 part[CLUSTER_N];
                mean[r] = squares[r] = 0.0f;
#pragma unroll
                for (int i = 0; i < CLUSTER_N; i++)
                    part[i] = load_shared_pair(parts + i * PART_BYTES + r * 64);
#pragma unroll
                for (int i = 0; i < CLUSTER_N; i++)
                    mean[r] += part[i].x * ((float)(i < CLUSTER_N - 1 ? TILE_N : LAST) / N);
#pragma unroll
                for (int i = 0; i < CLUSTER_N; i++)
                    squares[r] += part[i].y + (i < CLUSTER_N - 1 ? TILE_N : LAST) *
                                                  ((part[i].x - mean[r]) * (part[i].x - mean[r]));
            }
        }
#pragma unroll
        for (int r = 0; r < 2; r++) scale[r] = reciprocal_root(squares[r] * (1.0f / N) + 1e-6f);
    }

    /// Normalises and stores 16-byte units, which lanes assemble in shared memory: each warp has 16
    /// rows there.
    __device__ __forceinline__ void normalize(const Sums& sums, int tile, const float (&mean)[2],
                                              const float (&scale)[2]) const {
        u32 staging = shared + STAGING + (u32)(group * 4 + warp) * 16 * PITCH;
        // Matrices 0 and 1 are rows 0 to 7 and 8 to 15 of a unit, 2 and 3 those of the next.
        u32 matrix = staging + (u32)(lane & 15) * PITCH + (u32)(lane >> 4) * 16;
        warp_barrier();  // the rows of the tile before were read
#pragma unroll
        for (int j = 0; j < GROUPS; j += 2) {
            u32 halves[4];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float2 weight = load_shared_pair(vector_at(1, j + i));
                const float2 bias = load_shared_pair(vector_at(2, j + i));
                const float* x = sums + (j + i) * 4;
                halves[i * 2] = to_f16x2((x[0] - mean[0]) * scale[0] * weight.x + bias.x,
                                         (x[1] - mean[0]) * scale[0] * weight.y + bias.y);
                halves[i * 2 + 1] = to_f16x2((x[2] - mean[1]) * scale[1] * weight.x + bias.x,
                                             (x[3] - mean[1]) * scale[1] * weight.y + bias.y);
            }
            store_matrices(matrix + j * 16, halves);
        }
        warp_barrier();
        int top = row_of(tile) + group * 64 + warp * 16;
        u16* to = out + (long long)top * N + across * TILE_N;
#pragma unroll
        for (int i = 0; i < GROUPS / 2; i++) {
            int at = i * 32 + lane, row = at / GROUPS, unit = at % GROUPS;
            uint4 eight = shared_unit(staging + (u32)(row * PITCH + unit * 16));
            if (top + row < m && has(unit)) store_unit(to + row * N + unit * 8, eight);
        }
    }

    __device__ __forceinline__ void multiply_all() const {
        u32 chunks_of_a_tile = (u32)chunks(), place = 0;
        int order = 0;
        Sums kept;
        pdl_wait();
        if (first < tiles) load_residual(kept, first);
        for (int tile = first; tile < tiles; tile += step, order++, place += chunks_of_a_tile) {
            Sums sums;
            multiply_tile(sums, place);
            if (order == 0) vectors_wait();
            add(sums, kept);
            if (tile + step < tiles) load_residual(kept, tile + step);
            float mean[2], squares[2], scale[2];
            if (CLUSTER_N == 1) store_residual(sums, tile);
            send_statistics(sums, order, mean, squares);
            if (CLUSTER_N > 1) store_residual(sums, tile);  // while the others' are on their way
            statistics(order, tile + 2 * step < tiles, mean, squares, scale);
            normalize(sums, tile, mean, scale);
        }
    }

    /// This block's columns of what each row needs: warps 1 to 3.
    __device__ __forceinline__ void put_vectors(const float* bias, const float* norm_weight,
                                                const float* norm_bias) const {
        for (int i = (int)threadIdx.x - 32; i < TILE_N; i += 96) {
            int column = across * TILE_N + i;
            bool inside = column < N;
            store_shared_float(shared + VECTORS + i * 4, inside ? bias[column] : 0.0f);
            store_shared_float(shared + VECTORS + (TILE_N + i) * 4, inside ? norm_weight[column] : 0.0f);
            store_shared_float(shared + VECTORS + (2 * TILE_N + i) * 4, inside ? norm_bias[column] : 0.0f);
        }
    }

    /// The weights behind: warps 1 to 3 of all blocks.
    __device__ __forceinline__ void fetch_ahead(const unsigned char* ahead, int lines) const {
        for (u32 line = blockIdx.x * 96 + threadIdx.x - 32; line < (u32)lines; line += gridDim.x * 96)
            prefetch(ahead + (u64)line * 128);
    }

    __device__ __forceinline__ void run(const TensorMap* tokens, const TensorMap* weights, const float* bias,
                                        float* added_to, const float* norm_weight, const float* norm_bias,
                                        u16* to, int rows, int depth, const unsigned char* ahead, int lines,
                                        u32 shared_base) {
        residual = added_to, out = to;
        this->begin(tokens, weights, rows, N, depth, shared_base);
        if (threadIdx.x == 0) {
            for (int i = 0; i < 2 && CLUSTER_N > 1; i++) {
                barrier_create(shared + COUNTED + i * 8, 1);
                if (first + i * step < tiles)
                    barrier_expect(shared + COUNTED + i * 8, CLUSTER_N * PART_BYTES);
            }
            barriers_publish();
        }
        warp_barrier();
        // Before it no peer may send anything here.
        cluster_barriers_known();
        // 65536 registers: those that the loading warps do not need go to the others.
        if (threadIdx.x < 128) {
            registers_release<40>();
            if (threadIdx.x == 0) {
                this->load_all_tiles(tokens, weights);
                this->wait_for_readers();
            }
            if (threadIdx.x >= 32) {
                put_vectors(bias, norm_weight, norm_bias);
                vectors_give();
                fetch_ahead(ahead, lines);
            }
        } else {
            registers_claim<232>();
            this->begin_multiplying();
            group = (int)(threadIdx.x >> 7) - 1;
            multiply_all();
        }
    }
};

// ---- instances ----

// Rows of N columns, f32 biases. `lines` lines of 128 bytes from `ahead` on are prefetched into the
// L2 cache.
#define GEMM_RESIDUAL_LAYERNORM(NAME, N, TILE_N, STAGES, CLUSTER_M, CLUSTER_N)                               \
    GEMM_CONSTANTS(NAME, GemmResidualLayerNorm<N, TILE_N, STAGES, CLUSTER_M, CLUSTER_N>)                     \
    [[maybe_unused]] constexpr int NAME##_n = N;                                                             \
    extern "C" __global__ void __cluster_dims__(CLUSTER_M * CLUSTER_N, 1, 1) __launch_bounds__(384, 1)       \
        NAME(const __grid_constant__ TensorMap tokens, const __grid_constant__ TensorMap weights,            \
             const float* bias, float* residual, const float* norm_weight, const float* norm_bias,           \
             u16* out, int m, int k, const unsigned char* ahead, int lines) {                                \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        NAME##_instance norm;                                                                                \
        norm.run(&tokens, &weights, bias, residual, norm_weight, norm_bias, out, m, k, ahead, lines,         \
                 shared_address(memory));                                                                    \
    }
// A module of cuda/kernels.toml has the instances of one INSTANCES; without it this file has all.
#if !defined(INSTANCES) || INSTANCES == 192
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_192, 192, 96, 6, 1, 2)
#endif
#if !defined(INSTANCES) || INSTANCES == 224
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_224, 224, 112, 6, 1, 2)
#endif
#if !defined(INSTANCES) || INSTANCES == 144
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_144, 144, 144, 5, 2, 1)
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_288, 288, 144, 5, 1, 2)
#endif
#if !defined(INSTANCES) || INSTANCES == 384
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_384_by_6, 384, 128, 5, 2, 3)
#endif
#if !defined(INSTANCES) || INSTANCES == 448
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_448_by_6, 448, 160, 4, 2, 3)
#endif
