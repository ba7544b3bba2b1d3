/*!
What the GEMMs for Hopper have in common: how a tile's stages are multiplied, and, where biases and
output are f16 (gemm_bias_hopper.cu, gemm_gelu_hopper.cu), the shape of a block. Needs ptx.cuh,
common.cuh, wgmma.cuh, cluster.cuh and tiles.cuh in front.
*/
#pragma once

// ---- gemm ----

/// Issues the next stage when it is loaded, and releases the one before when that has been
/// multiplied.
template <int STEPS, class Gemm, class Sums>
__device__ __forceinline__ void multiply_more(const Gemm& gemm, Sums& sums, int& slot, u32& turn) {
    int before = slot;
    if (++slot == Gemm::STAGES) slot = 0, turn ^= 1;
    barrier_wait(gemm.shared + Gemm::FULL + slot * 8, turn);
    gemm.template multiply<STEPS, 1>(sums, gemm.shared + slot * Gemm::STAGE_BYTES);
    wgmma_wait<1>();
    gemm.release(before);
}

/// Issues the matmuls of the tile whose stages begin at this place in the order of all, by
/// `multiply<STEPS, ADD>(sums, stage)` of a kernel: STEPS x 16 columns. ADD is 0 for the first, a
/// constant: the accumulators of the tile before need not be kept for it. Returns the last slot,
/// which the caller awaits and releases.
template <class Gemm, class Sums>
__device__ __forceinline__ int multiply_stages(const Gemm& gemm, Sums& sums, u32 place) {
    int slot = (int)(place % Gemm::STAGES);
    u32 turn = place / Gemm::STAGES & 1;
    barrier_wait(gemm.shared + Gemm::FULL + slot * 8, turn);
    gemm.template multiply<4, 0>(sums, gemm.shared + slot * Gemm::STAGE_BYTES);
    for (int at = 2 * Gemm::TILE_K; at <= gemm.k; at += Gemm::TILE_K)
        multiply_more<4>(gemm, sums, slot, turn);
    // Of the last stage only the columns that are not zeros.
    switch (gemm.k % Gemm::TILE_K / 16) {
        case 1: multiply_more<1>(gemm, sums, slot, turn); break;
        case 2: multiply_more<2>(gemm, sums, slot, turn); break;
        case 3: multiply_more<3>(gemm, sums, slot, turn); break;
    }
    return slot;
}

/// A block whose GROUPS warpgroups take output tiles of TILE_N columns in turn; two blocks are a
/// cluster of two tiles of a column. After the stages each warp has room for 16 rows x 64 columns.
///
/// A warpgroup arrives at the next one's named barrier once for each tile that follows its own, and
/// the next one waits once. So a tile begins when the warpgroups before have seen all stages before
/// it, and no barrier of a stage is taken for another of its phases (tiles.cuh).
template <int TILE_N_, int STAGES_, int GROUPS>
struct GemmTiles : OutputTiles<TILE_N_, STAGES_, 2, 1, 4, GROUPS * 4 * 16 * 128> {
    typedef OutputTiles<TILE_N_, STAGES_, 2, 1, 4, GROUPS * 4 * 16 * 128> Base;
    using Base::shared, Base::lane, Base::warp;
    using Base::TILE_N, Base::WEIGHTS;
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

    // Of rows 0 to 63 and 64 to 127. Lane l: columns 8 j + 2 (l % 4) and the next, of rows l / 4
    // (4 j, 4 j + 1) and l / 4 + 8.
    typedef float Sums[2][TILE_N / 2];

    __device__ __forceinline__ void begin_block(const TensorMap* tokens, const TensorMap* weights,
                                                const u16* biases, u16* to, int rows, int columns, int depth,
                                                u32 shared_base) {
        bias = biases, out = to;
        this->begin(tokens, weights, rows, columns, depth, shared_base);
        if (threadIdx.x == 0) barriers_publish();
        warp_barrier();
        // Before it no peer may send to this block.
        cluster_barriers_known();
    }

    // A member: without it NVRTC 12.2 gives other PTX.
    __device__ __forceinline__ u64 descriptor(u32 address) const { return ::descriptor(address); }
    /// Issues the matmul of STEPS x 16 columns from this place in a stage on; without ADD the first
    /// replaces the sums. Nothing but `wgmma` between fence and commit: control flow there makes the
    /// compiler serialise them.
    template <int STEPS, int ADD>
    __device__ __forceinline__ void multiply(Sums& sums, u32 from) const {
        u64 a = descriptor(from), b = descriptor(from + WEIGHTS);
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

    // Lines of 128 bytes are assembled in shared memory; 16-byte units are swizzled by their row.
    __device__ __forceinline__ u32 staging_of(int group) const {
        return shared + STAGING + (u32)(group * 4 + warp) * 16 * 128;
    }
    /// This lane's address for `stmatrix`: matrices 0 and 1 are rows 0 to 7 and 8 to 15 of a unit, 2
    /// and 3 those of the next.
    __device__ __forceinline__ u32 first_matrix(u32 staging) const {
        return staging + (u32)(lane & 15) * 128 + (u32)(lane >> 4 ^ (lane & 7)) * 16;
    }
    /// This lane's first unit to store; the next is four rows further.
    __device__ __forceinline__ u32 first_unit(u32 staging) const {
        return staging + (u32)(lane >> 3) * 128 + (u32)((lane & 7) ^ (lane >> 3)) * 16;
    }
};

// ---- instances ----

// Grids are whole clusters; all addresses multiples of 16; k a multiple of 16 and at least 64; m at
// least 1. Constants: for the host (scripts/kernels.py).
#define GEMM_CONSTANTS(NAME, ...)                                                                            \
    typedef __VA_ARGS__ NAME##_instance;                                                                     \
    [[maybe_unused]] constexpr int NAME##_tile_n = NAME##_instance::TILE_N;                                  \
    [[maybe_unused]] constexpr int NAME##_shared = NAME##_instance::SHARED;                                  \
    [[maybe_unused]] constexpr int NAME##_cluster_m = NAME##_instance::CLUSTER_M;                            \
    [[maybe_unused]] constexpr int NAME##_cluster_n = NAME##_instance::CLUSTER_N;

// Of f16 biases and outputs: n a multiple of 64.
#define GEMM(NAME, ...)                                                                                      \
    GEMM_CONSTANTS(NAME, __VA_ARGS__)                                                                        \
    extern "C" __global__ void __cluster_dims__(NAME##_instance::CLUSTER, 1, 1)                              \
        __launch_bounds__(NAME##_instance::THREADS, 1)                                                       \
        NAME(const __grid_constant__ TensorMap tokens, const __grid_constant__ TensorMap weights,            \
             const u16* bias, u16* out, int m, int n, int k) {                                               \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        NAME##_instance product;                                                                             \
        product.run(&tokens, &weights, bias, out, m, n, k, shared_address(memory));                          \
    }
