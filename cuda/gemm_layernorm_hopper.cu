/*!
A product that is added to a residual, with the LayerNorm behind it, for Hopper alone (sm_90a):
residual[m, n] += tokens[m, k] weights[n, k]^T + bias, in f32, and out[m, n] = LayerNorm(residual), halves. Biases and the norm's weights are f32.

A norm by itself reads all that the product has just written. Here a cluster of ACROSS blocks side by side has whole rows, in registers (three at the
most: of clusters of four an H200 runs 30 at once, and rows of 4096 tokens need 32). Each block takes mean and squared differences of its own columns, sends both to the others of its row, and joins what they send (Chan, Golub and LeVeque,
"Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979), so that a common offset of a row costs no digits.

Blocks stay for the whole launch. Warp 0 brings tokens and weights (tiles.cuh), the warps beside it bring biases and the norm's weights into shared
memory and the weights of later kernels into the L2 cache, and two warpgroups multiply the upper and the lower half of each tile. The residual is loaded before the products that it is added to: that of the
first tile at the beginning, that of each other while the tile before it is normalised. Each warpgroup sees all chunks in their order, so none is a
phase behind (tiles.cuh).

What is sent goes to one of two places in turn, each with a barrier (arrivals: one thread of its block, with the bytes of all blocks of the row; then all
bytes). The thread arrives for the first two tiles at the beginning, and for tile t + 2 as soon as it has seen tile t and there is such a tile, before it sends its own part of
tile t + 1. Nobody sends a part of tile t + 2 before all parts of t + 1 are there, and a row's part of t + 1 is sent by threads that have read what came
for tile t. So what belongs to a tile meets its own phase, and overwrites nothing that is still to be read.

`out` may lie where the tokens do, for k equal to n: a row is stored when all blocks of its row have sent their parts, behind their products, and no
other block reads it.
*/

#include "common.cuh"
#include "halves.cuh"
#include "wgmma.cuh"
#include "tiles.cuh"

// ---- primitives ----

__device__ __forceinline__ float float_from_lane(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
__device__ __forceinline__ float reciprocal_root(float x) { return rsqrtf(x); }
/// What three warps put into shared memory is there for eight: named barrier 1, since 0 is the block's.
__device__ __forceinline__ void vectors_give() { asm volatile("bar.arrive 1, 352;" ::: "memory"); }
__device__ __forceinline__ void vectors_wait() { asm volatile("bar.sync 1, 352;" ::: "memory"); }
/// Asks for a line of 128 bytes to be in the L2 cache soon.
__device__ __forceinline__ void prefetch_far_line(const void* from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from) : "memory"); }

// ---- gemm ----

__device__ constexpr int norm_bytes(int columns, int across) { return 8 * 16 * (2 * columns + 16) + 2 * across * 128 * 8 + 3 * 4 * columns; }

/// Rows of N columns; COLUMNS of an output tile; a cluster has DOWN x ACROSS tiles, of which those that are last in a row may have fewer columns.
template <int N_, int COLUMNS_, int SLOTS_, int DOWN_, int ACROSS_>
struct Norm : Tiles<COLUMNS_, SLOTS_, DOWN_, ACROSS_, 8, norm_bytes(COLUMNS_, ACROSS_)> {
    typedef Tiles<COLUMNS_, SLOTS_, DOWN_, ACROSS_, 8, norm_bytes(COLUMNS_, ACROSS_)> Base;
    using Base::COLUMNS, Base::SLOTS, Base::ACROSS, Base::ROWS, Base::CHUNK, Base::WEIGHTS, Base::SLOT_BYTES, Base::FULL, Base::BEHIND;
    using Base::shared, Base::m, Base::k, Base::tiles, Base::first, Base::step, Base::lane, Base::warp, Base::down, Base::across;
    using Base::row_of, Base::chunks, Base::descriptor, Base::release;
    static constexpr int N = N_;
    static constexpr int LAST = N - COLUMNS * (ACROSS - 1);         // columns of a row's last tile
    static constexpr int GROUPS = COLUMNS / 8;                      // of eight columns: a 16-byte unit of halves
    static constexpr int PITCH = COLUMNS * 2 + 16;                  // bytes from a staged row to the next: an odd number of units
    static constexpr int STAGING = BEHIND;                          // 16 rows for each of eight warps
    static constexpr int PARTS = STAGING + 8 * 16 * PITCH;          // two places for ACROSS parts of 128 rows
    static constexpr int PART_BYTES = ROWS * 8;
    static constexpr int VECTORS = PARTS + 2 * ACROSS * PART_BYTES; // bias, the norm's weight, the norm's bias: f32
    static constexpr int COUNTED = Base::TILES_END;                 // barriers of the two places
    static constexpr int SHARED = COUNTED + 2 * 8;
    static_assert(VECTORS + 3 * 4 * COLUMNS == FULL, "what lies behind the slots");
    static_assert(SHARED <= 232448, "shared memory of a block");
    static_assert(LAST > 0 && LAST <= COLUMNS && LAST % 16 == 0, "every block has columns of a row");
    static_assert(COLUMNS % 16 == 0 && PITCH / 16 % 2 == 1 && FULL % 8 == 0, "pairs of units without bank conflicts");

    float* residual;
    u16* out;

    typedef float Sums[COLUMNS / 2];  // lane l: columns 8 j + 2 (l % 4) and the next, of row l / 4 (4 j, 4 j + 1) and of row l / 4 + 8
    int group;

    /// Whether a group of eight columns is one of the row.
    __device__ __forceinline__ bool has(int j) const { return LAST == COLUMNS || j < LAST / 8 || across < ACROSS - 1; }

    // ---- products ----

    /// Begins STEPS x 16 columns of a chunk; ADD 0 for the first, as a constant: the sums of the tile before need not be kept for it.
    template <int STEPS, int ADD>
    __device__ __forceinline__ void multiply(Sums& sums, int slot) const {
        u64 a = descriptor(shared + slot * SLOT_BYTES + group * 64 * 128), b = descriptor(shared + slot * SLOT_BYTES + WEIGHTS);
        settle(sums);
        products_begin();
#pragma unroll
        for (int i = 0; i < STEPS; i++) multiply_keys_async(sums, a + i * 2, b + i * 2, i > 0 ? 1 : ADD);
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

    /// The sums of the tile whose chunks begin at this place in the order of all.
    __device__ __forceinline__ void multiply_tile(Sums& sums, u32 place) const {
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
        products_wait<0>();
        settle(sums);
        release(slot);
    }

    // ---- the residual ----

    /// This lane's first row of the block's 128; the other is eight rows on.
    __device__ __forceinline__ int own_row() const { return group * 64 + warp * 16 + (lane >> 2); }
    __device__ __forceinline__ float* own_residual(int row) const { return residual + (long long)row * N + across * COLUMNS + (lane & 3) * 2; }

    __device__ __forceinline__ void load_residual(Sums& kept, int tile) const {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int row = row_of(tile) + own_row() + r * 8;
            const float* from = own_residual(row);
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

    __device__ __forceinline__ u32 vector_at(int which, int j) const { return shared + VECTORS + (u32)(which * COLUMNS + j * 8 + (lane & 3) * 2) * 4; }

    __device__ __forceinline__ void add(Sums& sums, const Sums& kept) const {
#pragma unroll
        for (int j = 0; j < GROUPS; j++) {
            const float2 bias = shared_two(vector_at(0, j));
            sums[j * 4] = sums[j * 4] + bias.x + kept[j * 4], sums[j * 4 + 1] = sums[j * 4 + 1] + bias.y + kept[j * 4 + 1];
            sums[j * 4 + 2] = sums[j * 4 + 2] + bias.x + kept[j * 4 + 2], sums[j * 4 + 3] = sums[j * 4 + 3] + bias.y + kept[j * 4 + 3];
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
                if (has(j)) store_two(to + j * 8, {sums[j * 4 + r * 2], sums[j * 4 + r * 2 + 1]});
        }
    }

    // ---- the norm ----

    /// The sum of four lanes that have a row together.
    __device__ __forceinline__ float of_row(float x) const {
        x += float_from_lane(x, 1);
        return x + float_from_lane(x, 2);
    }

    /// Mean and reciprocal deviation of this lane's two rows, of which the sums are this block's columns. `order`: which of the cluster's tiles it is;
    /// `one_more`: the place has another tile.
    __device__ __forceinline__ void statistics(const Sums& sums, int order, bool one_more, float (&mean)[2], float (&scale)[2]) const {
        float squares[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float sum = 0.0f, square = 0.0f;
            // Columns beyond the row are zeros.
#pragma unroll
            for (int j = 0; j < GROUPS; j++) sum += sums[j * 4 + r * 2] + sums[j * 4 + r * 2 + 1];
            mean[r] = of_row(sum) * (has(GROUPS - 1) ? 1.0f / COLUMNS : 1.0f / LAST);
#pragma unroll
            for (int j = 0; j < GROUPS; j++) {
                if (!has(j)) continue;
                const float a = sums[j * 4 + r * 2] - mean[r], b = sums[j * 4 + r * 2 + 1] - mean[r];
                square += a * a + b * b;
            }
            squares[r] = of_row(square);
        }
        if (ACROSS > 1) {
            u32 place = (u32)(order & 1), parts = shared + PARTS + place * ACROSS * PART_BYTES + own_row() * 8, counted = shared + COUNTED + place * 8;
            // One lane of four for each block.
            if ((lane & 3) < ACROSS) {
#pragma unroll
                for (int r = 0; r < 2; r++)
                    send_two(parts + across * PART_BYTES + r * 64, {mean[r], squares[r]}, counted, (u32)(down * ACROSS + (lane & 3)));
            }
            barrier_wait_for_peers(counted, (u32)(order >> 1 & 1));
            if (threadIdx.x == 128 && one_more) barrier_expect(counted, ACROSS * PART_BYTES);
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float2 part[ACROSS];
                float sum = 0.0f, square = 0.0f;
#pragma unroll
                for (int i = 0; i < ACROSS; i++) part[i] = shared_two(parts + i * PART_BYTES + r * 64);
#pragma unroll
                for (int i = 0; i < ACROSS; i++) sum += part[i].x * ((float)(i < ACROSS - 1 ? COLUMNS : LAST) / N);
                mean[r] = sum;
#pragma unroll
                for (int i = 0; i < ACROSS; i++)
                    square += part[i].y + (i < ACROSS - 1 ? COLUMNS : LAST) * ((part[i].x - mean[r]) * (part[i].x - mean[r]));
                squares[r] = square;
            }
        }
#pragma unroll
        for (int r = 0; r < 2; r++) scale[r] = reciprocal_root(squares[r] * (1.0f / N) + 1e-6f);
    }

    /// Stores what is normalised by 16-byte units, which lanes put together in shared memory: a warp has its own 16 rows there.
    __device__ __forceinline__ void normalize(const Sums& sums, int tile, const float (&mean)[2], const float (&scale)[2]) const {
        u32 staging = shared + STAGING + (u32)(group * 4 + warp) * 16 * PITCH;
        // Matrices 0 and 1 are rows 0 to 7 and 8 to 15 of a unit, 2 and 3 those of the next.
        u32 matrix = staging + (u32)(lane & 15) * PITCH + (u32)(lane >> 4) * 16;
        warp_barrier();  // the rows of the tile before were read
#pragma unroll
        for (int j = 0; j < GROUPS; j += 2) {
            u32 halves[4];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float2 weight = shared_two(vector_at(1, j + i)), bias = shared_two(vector_at(2, j + i));
                const float* x = sums + (j + i) * 4;
                halves[i * 2] = halves_of((x[0] - mean[0]) * scale[0] * weight.x + bias.x, (x[1] - mean[0]) * scale[0] * weight.y + bias.y);
                halves[i * 2 + 1] = halves_of((x[2] - mean[1]) * scale[1] * weight.x + bias.x, (x[3] - mean[1]) * scale[1] * weight.y + bias.y);
            }
            store_matrices(matrix + j * 16, halves);
        }
        warp_barrier();
        int top = row_of(tile) + group * 64 + warp * 16;
        u16* to = out + (long long)top * N + across * COLUMNS;
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
        grid_wait();
        if (first < tiles) load_residual(kept, first);
        for (int tile = first; tile < tiles; tile += step, order++, place += chunks_of_a_tile) {
            Sums sums;
            multiply_tile(sums, place);
            if (order == 0) vectors_wait();
            add(sums, kept);
            if (tile + step < tiles) load_residual(kept, tile + step);
            store_residual(sums, tile);
            float mean[2], scale[2];
            statistics(sums, order, tile + 2 * step < tiles, mean, scale);
            normalize(sums, tile, mean, scale);
        }
    }

    /// This block's columns of what each row needs: warps 1 to 3.
    __device__ __forceinline__ void put_vectors(const float* bias, const float* norm_weight, const float* norm_bias) const {
        for (int i = (int)threadIdx.x - 32; i < COLUMNS; i += 96) {
            int column = across * COLUMNS + i;
            bool inside = column < N;
            put_shared(shared + VECTORS + i * 4, inside ? bias[column] : 0.0f);
            put_shared(shared + VECTORS + (COLUMNS + i) * 4, inside ? norm_weight[column] : 0.0f);
            put_shared(shared + VECTORS + (2 * COLUMNS + i) * 4, inside ? norm_bias[column] : 0.0f);
        }
    }

    /// The weights behind: warps 1 to 3 of all blocks.
    __device__ __forceinline__ void fetch_ahead(const unsigned char* ahead, int lines) const {
        for (u32 line = blockIdx.x * 96 + threadIdx.x - 32; line < (u32)lines; line += gridDim.x * 96) prefetch_far_line(ahead + (u64)line * 128);
    }

    __device__ __forceinline__ void run(const TensorMap* tokens, const TensorMap* weights, const float* bias, float* added_to, const float* norm_weight,
                                        const float* norm_bias, u16* to, int rows, int depth, const unsigned char* ahead, int lines, u32 shared_base) {
        residual = added_to, out = to;
        this->begin(tokens, weights, rows, N, depth, shared_base);
        if (threadIdx.x == 0) {
            for (int i = 0; i < 2 && ACROSS > 1; i++) {
                barrier_create(shared + COUNTED + i * 8, 1);
                if (first + i * step < tiles) barrier_expect(shared + COUNTED + i * 8, ACROSS * PART_BYTES);
            }
            barriers_publish();
        }
        warp_barrier();
        // Before it no peer may send anything here.
        cluster_barriers_known();

        // 65536 registers: what the bringing warp does not need goes to the others.
        if (threadIdx.x < 128) {
            registers_release<40>();
            if (threadIdx.x == 0) this->bring_all(tokens, weights);
            if (threadIdx.x >= 32) {
                put_vectors(bias, norm_weight, norm_bias);
                vectors_give();
                fetch_ahead(ahead, lines);
            }
            warp_barrier();
            cluster_barrier();
        } else {
            registers_claim<232>();
            this->begin_multiplying();
            group = (int)(threadIdx.x >> 7) - 1;
            multiply_all();
            warp_barrier();
            cluster_barrier();
        }
    }
};

// ---- instances ----

// Grids are whole clusters; m at least 1, k a multiple of 16 and at least 64, rows of N columns; all addresses multiples of 16.
// `lines` lines of 128 bytes from `ahead` on are brought into the L2 cache.
#define GEMM_RESIDUAL_LAYERNORM(NAME, N, COLUMNS, SLOTS, DOWN, ACROSS)                                                            \
    extern "C" __global__ void __cluster_dims__(DOWN * ACROSS, 1, 1) __launch_bounds__(384, 1)                          \
        NAME(const __grid_constant__ TensorMap tokens, const __grid_constant__ TensorMap weights, const float* bias,   \
             float* residual, const float* norm_weight, const float* norm_bias, u16* out, int m, int k,                \
             const unsigned char* ahead, int lines) {                                                                  \
        extern __shared__ __align__(1024) unsigned char memory[];                                                      \
        Norm<N, COLUMNS, SLOTS, DOWN, ACROSS> norm;                                                                    \
        norm.run(&tokens, &weights, bias, residual, norm_weight, norm_bias, out, m, k, ahead, lines,                   \
                 shared_address(memory));                                                                              \
    }

// A module of cuda/kernels.toml has those of one INSTANCES; without it here are all.
#if !defined(INSTANCES) || INSTANCES == 96
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_96, 96, 96, 6, 2, 1)
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_192, 192, 96, 6, 1, 2)
#endif
#if !defined(INSTANCES) || INSTANCES == 112
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_112, 112, 112, 6, 2, 1)
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_224, 224, 112, 6, 1, 2)
#endif
#if !defined(INSTANCES) || INSTANCES == 144
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_144, 144, 144, 5, 2, 1)
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_288, 288, 144, 5, 1, 2)
#endif
#if !defined(INSTANCES) || INSTANCES == 384
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_384_by_3, 384, 128, 5, 1, 3)
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_384_by_6, 384, 128, 5, 2, 3)
#endif
#if !defined(INSTANCES) || INSTANCES == 448
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_448_by_3, 448, 160, 4, 1, 3)
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_448_by_6, 448, 160, 4, 2, 3)
#endif
#if !defined(INSTANCES) || INSTANCES == 576
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_576_by_3, 576, 192, 4, 1, 3)
GEMM_RESIDUAL_LAYERNORM(gemm_residual_layernorm_576_by_6, 576, 192, 4, 2, 3)
#endif
