/*!
What the GEMMs that add to an f32 residual have in common (gemm_layernorm_hopper.cu,
gemm_moments_hopper.cu): two warpgroups multiply the upper and the lower half of a tile, and hold
its rows in registers. Needs f16x2.cuh, wgmma.cuh, tiles.cuh and gemm_hopper.cuh in front.

The residual is loaded before the matmul that it is added to: the first tile's at the beginning,
each other tile's before the tile in front of it is stored. Each warpgroup sees all stages in their
order, so none is a phase behind (tiles.cuh).
*/
#pragma once

// ---- gemm ----

/// Shared memory of staged rows, bytes: an odd number of units a row, 16 rows for each of eight warps.
__device__ constexpr int staged_pitch(int columns) { return columns * 2 + 16; }
__device__ constexpr int staged_bytes(int columns) { return 8 * 16 * staged_pitch(columns); }

/// BETWEEN bytes lie behind the stages, the staged rows first. A tile's columns begin at a column of
/// rows of so many columns; `has(j)`: whether its group j of eight is one of the row.
template <int TILE_N_, int STAGES_, int CLUSTER_M_, int CLUSTER_N_, int BETWEEN>
struct ResidualTiles : OutputTiles<TILE_N_, STAGES_, CLUSTER_M_, CLUSTER_N_, 8, BETWEEN> {
    typedef OutputTiles<TILE_N_, STAGES_, CLUSTER_M_, CLUSTER_N_, 8, BETWEEN> Base;
    using Base::descriptor, Base::release, Base::shared, Base::m, Base::lane, Base::warp;
    using Base::TILE_N, Base::WEIGHTS;
    static constexpr int GROUPS = TILE_N / 8;        // of eight columns, 16 bytes of f16
    static constexpr int PITCH = staged_pitch(TILE_N);
    static constexpr int STAGING = Base::BEHIND;
    static_assert(TILE_N % 16 == 0 && PITCH / 16 % 2 == 1, "pairs of units without bank conflicts");

    float* residual;
    u16* out;
    int group;
    // Lane l: columns 8 j + 2 (l % 4) and the next, of rows l / 4 (4 j, 4 j + 1) and l / 4 + 8.
    typedef float Sums[TILE_N / 2];

    // ---- matmul ----

    /// Issues the matmul of STEPS x 16 columns of a stage; without ADD the first replaces the sums.
    template <int STEPS, int ADD>
    __device__ __forceinline__ void multiply(Sums& sums, u32 stage) const {
        u64 a = descriptor(stage + group * 64 * 128), b = descriptor(stage + WEIGHTS);
        settle(sums);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < STEPS; i++) wgmma_ss(sums, a + i * 2, b + i * 2, i > 0 ? 1 : ADD);
        wgmma_commit();
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
    __device__ __forceinline__ float* own_residual(int row, int columns, int column) const {
        return residual + (long long)row * columns + column + (lane & 3) * 2;
    }

    template <class Has>
    __device__ __forceinline__ void load_rows(Sums& kept, int top, int columns, int column, Has has) const {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int row = top + own_row() + r * 8;
            const float* from = own_residual(row, columns, column);
            if (row < m) {
#pragma unroll
                for (int j = 0; j < GROUPS; j++) {
                    float2 x = {0.0f, 0.0f};
                    if (has(j)) x = load_two(from + j * 8);
                    kept[j * 4 + r * 2] = x.x, kept[j * 4 + r * 2 + 1] = x.y;
                }
            } else {
#pragma unroll
                for (int j = 0; j < GROUPS; j++) kept[j * 4 + r * 2] = kept[j * 4 + r * 2 + 1] = 0.0f;
            }
        }
    }

    template <class Has>
    __device__ __forceinline__ void store_rows(const Sums& sums, int top, int columns, int column,
                                               Has has) const {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int row = top + own_row() + r * 8;
            if (row >= m) continue;
            float* to = own_residual(row, columns, column);
#pragma unroll
            for (int j = 0; j < GROUPS; j++)
                if (has(j)) store_two(to + j * 8, {sums[j * 4 + r * 2], sums[j * 4 + r * 2 + 1]});
        }
    }

    /// Adds the residual and each group's biases, `bias(j)`.
    template <class Biases>
    __device__ __forceinline__ void add_rows(Sums& sums, const Sums& kept, Biases biases) const {
#pragma unroll
        for (int j = 0; j < GROUPS; j++) {
            const float2 bias = biases(j);
            float* sum = sums + j * 4;
            const float* more = kept + j * 4;
            sum[0] = sum[0] + bias.x + more[0], sum[1] = sum[1] + bias.y + more[1];
            sum[2] = sum[2] + bias.x + more[2], sum[3] = sum[3] + bias.y + more[3];
        }
    }

    // ---- the norm ----

    /// The sum of four lanes that have a row together.
    __device__ __forceinline__ float of_row(float x) const {
        x += float_from_lane(x, 1);
        return x + float_from_lane(x, 2);
    }

    /// Means, and squared differences from them, of two rows' columns in this tile, `share` being one
    /// of their number. Columns beyond the row are zeros.
    template <class Has>
    __device__ __forceinline__ void moments_of(const Sums& sums, float share, float (&mean)[2],
                                               float (&squares)[2], Has has) const {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float sum = 0.0f, square = 0.0f;
#pragma unroll
            for (int j = 0; j < GROUPS; j++) sum += sums[j * 4 + r * 2] + sums[j * 4 + r * 2 + 1];
            mean[r] = of_row(sum) * share;
#pragma unroll
            for (int j = 0; j < GROUPS; j++) {
                if (!has(j)) continue;
                const float a = sums[j * 4 + r * 2] - mean[r], b = sums[j * 4 + r * 2 + 1] - mean[r];
                square += a * a + b * b;
            }
            squares[r] = of_row(square);
        }
    }

    // ---- the f16 output ----

    /// Stores 16-byte units, which lanes assemble in shared memory, where each warp has 16 rows.
    /// `halves(j)`: of a group of eight, what this lane has of its first row and of the other.
    template <class Has, class Halves>
    __device__ __forceinline__ void store_halves(int top, int columns, int column, Has has,
                                                 Halves halves) const {
        u32 staging = shared + STAGING + (u32)(group * 4 + warp) * 16 * PITCH;
        // Matrices 0 and 1 are rows 0 to 7 and 8 to 15 of a unit, 2 and 3 those of the next.
        u32 matrix = staging + (u32)(lane & 15) * PITCH + (u32)(lane >> 4) * 16;
        warp_barrier();  // the rows of the tile before were read
#pragma unroll
        for (int j = 0; j < GROUPS; j += 2) {
            const uint2 one = halves(j), next = halves(j + 1);
            const u32 both[4] = {one.x, one.y, next.x, next.y};
            store_matrices(matrix + j * 16, both);
        }
        warp_barrier();
        top += group * 64 + warp * 16;
        u16* to = out + (long long)top * columns + column;
#pragma unroll
        for (int i = 0; i < GROUPS / 2; i++) {
            int at = i * 32 + lane, row = at / GROUPS, unit = at % GROUPS;
            uint4 eight = shared_unit(staging + (u32)(row * PITCH + unit * 16));
            if (top + row < m && has(unit)) store_unit(to + row * columns + unit * 8, eight);
        }
    }

    /// Lines of 128 bytes, of the weights behind, into the L2 cache: warps 1 to 3 of all blocks.
    __device__ __forceinline__ void fetch_ahead(const unsigned char* ahead, int lines) const {
        for (u32 line = blockIdx.x * 96 + threadIdx.x - 32; line < (u32)lines; line += gridDim.x * 96)
            prefetch_far_line(ahead + (u64)line * 128);
    }
};
