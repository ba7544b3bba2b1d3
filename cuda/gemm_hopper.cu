/*!
The product of a hidden layer with its activation, for Hopper alone (sm_90a): out[m, n] = gelu(tokens[m, k] weights[n, k]^T + bias), halves,
sums in f32 and rounded once, behind the activation; and the same without one, for queries, keys and values.

The activation takes as many instructions as a quarter to a half of the product's time, so it must run beside products. Blocks stay for the
whole launch. Warp 0 brings tokens and weights (tiles.cuh); the other two warpgroups have every other output tile for themselves ("ping-pong", as
CUTLASS calls it): while one multiplies with `wgmma`, the other activates and stores what it has. A warpgroup gives the turn once for each tile that
follows its own, and the other takes it once: a tile begins when all chunks before it were seen by one or the other.
*/

#include "common.cuh"
#include "halves.cuh"
#include "gelu.cuh"
#include "wgmma.cuh"
#include "tiles.cuh"

// ---- gemm ----

/// COLUMNS of an output tile; a cluster has DOWN x ACROSS tiles. Behind the slots each of eight warps has room for 16 rows x 64 columns.
template <bool ACTIVATED, int COLUMNS_, int SLOTS_, int DOWN_, int ACROSS_>
struct Product : Tiles<COLUMNS_, SLOTS_, DOWN_, ACROSS_, 4, 8 * 16 * 128> {
    typedef Tiles<COLUMNS_, SLOTS_, DOWN_, ACROSS_, 4, 8 * 16 * 128> Base;
    using Base::COLUMNS, Base::SLOTS, Base::CHUNK, Base::WEIGHTS, Base::SLOT_BYTES, Base::FULL;
    using Base::shared, Base::m, Base::n, Base::k, Base::tiles, Base::first, Base::step, Base::lane, Base::warp;
    using Base::row_of, Base::column_of, Base::chunks, Base::descriptor, Base::release;
    static constexpr bool IS_ACTIVATED = ACTIVATED;
    static constexpr int STAGING = Base::BEHIND;
    static constexpr int SHARED = Base::TILES_END;
    static_assert(SHARED <= 232448, "shared memory of a block");
    static_assert(COLUMNS % 64 == 0, "what is stored at once");

    const u16* bias;
    u16* out;

    // ---- a multiplying warpgroup ----

    typedef float Sums[2][COLUMNS / 2];  // of rows 0 to 63 and 64 to 127

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

    __device__ __forceinline__ u32 finished(float low, float high) const { return ACTIVATED ? halves_of(gelu(low), gelu(high)) : halves_of(low, high); }

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
                    halves[j / 2][j % 2 * 2] = finished(sum[0] + b.x, sum[1] + b.y);
                    halves[j / 2][j % 2 * 2 + 1] = finished(sum[2] + b.x, sum[3] + b.y);
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
        bias = biases, out = to;
        this->begin(tokens, weights, rows, columns, depth, shared_base);
        if (threadIdx.x == 0) barriers_publish();
        warp_barrier();
        // Before it no peer may send anything here.
        cluster_barriers_known();

        // 65536 registers: what the bringing warp does not need goes to the others.
        if (threadIdx.x < 128) {
            registers_release<40>();
            if (threadIdx.x == 0) this->bring_all(tokens, weights);
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

// Grids are whole clusters; m at least 1, n a multiple of 64, k of 16 and at least 64; all addresses multiples of 16.
#define GEMM(NAME, ACTIVATED, COLUMNS, SLOTS, DOWN, ACROSS)                                                         \
    extern "C" __global__ void __cluster_dims__(DOWN * ACROSS, 1, 1) __launch_bounds__(384, 1)                          \
        NAME(const __grid_constant__ TensorMap tokens, const __grid_constant__ TensorMap weights, const u16* bias,     \
             u16* out, int m, int n, int k) {                                                                          \
        extern __shared__ __align__(1024) unsigned char memory[];                                                      \
        Product<ACTIVATED, COLUMNS, SLOTS, DOWN, ACROSS> product;                                                      \
        product.run(&tokens, &weights, bias, out, m, n, k, shared_address(memory));                                    \
    }

// A module of cuda/kernels.toml has those of one INSTANCES; without it here are all.
#define GELU_128 1
#define GELU_192 2
#define BIAS 3
#if !defined(INSTANCES) || INSTANCES == GELU_128
GEMM(gemm_bias_gelu_128_by_2, true, 128, 6, 2, 1)
GEMM(gemm_bias_gelu_128_by_4, true, 128, 6, 2, 2)
#endif
#if !defined(INSTANCES) || INSTANCES == GELU_192
GEMM(gemm_bias_gelu_192_by_2, true, 192, 5, 2, 1)
GEMM(gemm_bias_gelu_192_by_4, true, 192, 5, 2, 2)
#endif
#if !defined(INSTANCES) || INSTANCES == BIAS
GEMM(gemm_bias_128_by_2, false, 128, 6, 2, 1)
GEMM(gemm_bias_192_by_2, false, 192, 5, 2, 1)
#endif
