/*!
f16 GEMM with bias for Hopper only (sm_90a): out[M, N] = A[M, K] B[N, K]^T + bias. A: tokens, B:
weights; f32 accumulators, rounded once.

| instance           | tile MxN, K of a stage | stages | cluster MxN | shared bytes |
|--------------------|------------------------|--------|-------------|--------------|
| gemm_bias_128_by_2 | 128x128, 64            | 6      | 2x1         | 213 088      |
| gemm_bias_192_by_2 | 128x192, 64            | 5      | 2x1         | 221 264      |

384 threads: warp 0 loads tiles by TMA (40 registers a thread), two warpgroups compute (232 each).
Grid: whole clusters, which stay for the whole launch ("persistent").

The two warpgroups alternate between output tiles ("ping-pong" in CUTLASS): one multiplies with
`wgmma` while the other adds biases and stores.
*/

#include "ptx.cuh"
#include "common.cuh"
#include "arithmetic.cuh"
#include "wgmma.cuh"
#include "cluster.cuh"
#include "tiles.cuh"
#include "gemm_hopper.cuh"

// ---- gemm ----

template <int TILE_N_, int STAGES_>
struct GemmBias : GemmTiles<TILE_N_, STAGES_, 2> {
    typedef GemmTiles<TILE_N_, STAGES_, 2> Base;
    using typename Base::Sums;
    using Base::row_of, Base::column_of, Base::chunks, Base::release, Base::staging_of, Base::first_matrix,
        Base::first_unit;
    using Base::bias, Base::out, Base::m, Base::n, Base::tiles, Base::first, Base::step, Base::lane,
        Base::warp;
    using Base::TILE_N, Base::LOADING, Base::MULTIPLYING;
    static constexpr bool HAS_GELU = false;

    // ---- a computing warpgroup ----

    /// The accumulators of the tile whose stages begin at this place in the order of all;
    /// `hand_on`: another tile follows, for the other warpgroup.
    __device__ __forceinline__ void multiply_tile(Sums& sums, u32 place, int group, bool hand_on) const {
        int slot = multiply_stages(*this, sums, place);
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

    /// Adds biases and stores whole lines of 128 bytes, which lanes assemble in shared memory.
    __device__ __forceinline__ void store_tile(const Sums& sums, int row, int column, int group) {
        u32 staging = staging_of(group);
        int matrices = (int)first_matrix(staging), units = (int)first_unit(staging);
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
                    halves[j / 2][j % 2 * 2] = to_f16x2(sum[0] + b.x, sum[1] + b.y);
                    halves[j / 2][j % 2 * 2 + 1] = to_f16x2(sum[2] + b.x, sum[3] + b.y);
                }
                warp_barrier();  // the lines before were read
                // Addresses are recomputed, or those of all parts would take registers beside the
                // accumulators.
                int matrix = matrices, from = units;
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
        this->begin_block(tokens, weights, biases, to, rows, columns, depth, shared_base);
        if (threadIdx.x < 128) {
            registers_release<LOADING>();
            if (threadIdx.x == 0) this->load_all_tiles(tokens, weights);
            warp_barrier();
            cluster_barrier();
        } else {
            registers_claim<MULTIPLYING>();
            this->begin_multiplying();
            multiply_all((int)(threadIdx.x >> 7) - 1);
            warp_barrier();
            cluster_barrier();
        }
    }
};

// ---- instances ----

GEMM(gemm_bias_128_by_2, GemmBias<128, 6>)
GEMM(gemm_bias_192_by_2, GemmBias<192, 5>)
