/*!
The shared memory of a block of mlp_hopper.cu, the threads that load it, and what its other roles
share: matmuls of a stage, and tiles of 64 columns of all tokens.

Needs ptx.cuh, common.cuh, arithmetic.cuh, wgmma.cuh, cluster.cuh and tiles.cuh in front.
*/
#pragma once

// ---- primitives (PTX ISA 8.1, sm_90) ----

/// Four 8x8 matrices of halves, each transposed; lane l gives the address of row l % 8 of matrix
/// l / 8.
__device__ __forceinline__ void load_matrices_transposed(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
/// Four 8x8 matrices of halves, each as its transpose; lane l gives the address of row l % 8 of the
/// transpose of matrix l / 8.
__device__ __forceinline__ void store_matrices_transposed(u32 address, const u32 (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};"
                 ::"r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}
/// Stores four words in a peer's shared memory, whose barrier counts their bytes.
__device__ __forceinline__ void send_unit(u32 there, const u32 (&x)[4], u32 barrier_there) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%0], {%1,%2,%3,%4}, [%5];"
                 ::"r"(there), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(barrier_there) : "memory");
}
/// Waits for all threads of the first warpgroup: named barrier 1, since 0 is the block's.
__device__ __forceinline__ void first_group_barrier() { asm volatile("bar.sync 1, 128;" ::: "memory"); }

// ---- mlp ----

constexpr int MLP_TOKENS = 144, MLP_CLUSTER = 4, MLP_THREADS = 512;
constexpr int MLP_WIDTH = 256, MLP_MEMORY = 64;  // columns of a token, of a memory
// Rows and columns of a stage, hidden columns of a chunk.
constexpr int PART = 64;
constexpr u32 TILE = MLP_TOKENS * 128;           // bytes of 64 columns of all tokens
constexpr u32 STAGE = PART * 128;
// Accumulators of a thread for PART rows of weights and all tokens, which are sent eight at a time.
constexpr int SUMS = MLP_TOKENS / 2, EIGHTS = SUMS / 8;
// A memory's columns that a block makes are those of one warp's rows.
static_assert(MLP_MEMORY / MLP_CLUSTER == 16 && MLP_WIDTH / MLP_CLUSTER == PART, "shares of a block");
static_assert(MLP_TOKENS % 16 == 0 && TILE % 1024 == 0, "pairs of eight tokens, swizzled tiles");

// The rings of up, down 0 and down 1: a chunk is four stages of the first, two of each other.
constexpr int UP_STAGES = 7, DOWN_STAGES = 3, STAGES = UP_STAGES + 2 * DOWN_STAGES;

// Offsets in shared memory: x, the rings, two chunks of hidden columns, the projection's weight.
constexpr u32 RINGS = MLP_WIDTH / 64 * TILE;
constexpr u32 HIDDEN = RINGS + STAGES * STAGE;
constexpr u32 PROJECTION = HIDDEN + 2 * TILE;
constexpr u32 FULL = PROJECTION + STAGE, EMPTY = FULL + STAGES * 8;
constexpr u32 X_FULL = EMPTY + STAGES * 8, HIDDEN_FULL = X_FULL + 8, HIDDEN_EMPTY = HIDDEN_FULL + 16;
constexpr u32 RESIDUAL_FULL = HIDDEN_EMPTY + 16, PROJECTION_FULL = RESIDUAL_FULL + 8;
constexpr u32 SUMS_FULL = PROJECTION_FULL + 8, MEMORY_FULL = SUMS_FULL + 8;
constexpr u32 mlp_hopper_shared = MEMORY_FULL + 8;
static_assert(mlp_hopper_shared <= 232448, "shared memory of a block");
// Where sums of three peers come, when nobody needs x and stages any more: of a tile, then of the
// projection's 16 columns.
constexpr u32 OF_GROUP = 128 * 16, OF_WARP = 32 * 16;  // bytes of eight sums of each thread
constexpr u32 SUMS_BYTES = EIGHTS * OF_GROUP, MEMORY_BYTES = EIGHTS * OF_WARP;
constexpr u32 CAME = 0, MEMORY_CAME = 3 * SUMS_BYTES;
static_assert(MEMORY_CAME + 3 * MEMORY_BYTES <= HIDDEN, "room for the peers' sums");

/// What a launch is given.
struct MlpProblem {
    const TensorMap* x;           // [tokens, 256], in boxes of 144 rows, as is the residual
    const TensorMap* up;          // U [hidden, 256], in boxes of 64 rows, as are the next two
    const TensorMap* down;        // D [256, hidden]
    const TensorMap* projection;  // [64, 256]
    const TensorMap* residual;    // [tokens, 256]
    const float *up_bias, *down_bias;
    const float *memory_bias, *score, *absent;  // null without the projection
    u16* out;                                   // [tokens, 256], or [tokens, 64] with it
    int tokens;
    int chunks;  // of a block
    bool gelu;
};

/// A place in one of the rings, and how often (modulo 2) it was passed.
struct Cursor {
    int slot;
    u32 turn;
    __device__ __forceinline__ static int first(int ring) {
        return ring == 0 ? 0 : UP_STAGES + (ring - 1) * DOWN_STAGES;
    }
    __device__ __forceinline__ void begin(int ring) { slot = first(ring), turn = 0; }
    __device__ __forceinline__ void next(int ring) {
        if (++slot == first(ring + 1)) slot = first(ring), turn ^= 1;
    }
};

/// The block, and what its roles share.
class MlpBlock {
protected:
    typedef float Sums[SUMS];  // of row lane / 4 (+ 8) of a warp's 16, two tokens of each eight
    u32 shared, rank;
    int thread, warp, lane;  // of the warpgroup
    int first;               // token of the cluster

    __device__ __forceinline__ u32 tile_of_chunk(int chunk) const {
        return shared + HIDDEN + (chunk & 1) * TILE;
    }
    /// The first hidden column of a chunk.
    __device__ __forceinline__ int hidden_of(const MlpProblem& p, int chunk) const {
        return ((int)rank * p.chunks + chunk) * PART;
    }

    // ---- the loader ----

    /// The `at`-th stage of a ring.
    __device__ __forceinline__ void load_stage(const MlpProblem& p, int ring, Cursor& to, int at) const {
        u32 full = shared + FULL + to.slot * 8, stage = shared + RINGS + to.slot * STAGE;
        barrier_wait(shared + EMPTY + to.slot * 8, to.turn ^ 1);
        barrier_expect(full, STAGE);
        if (ring == 0) {
            tma_load<false>(stage, p.up, (at & 3) * 64, hidden_of(p, at >> 2), full, 1u << rank);
        } else {
            int tile = (((ring - 1) * 2 + (at & 1)) ^ (int)rank);
            tma_load<false>(stage, p.down, hidden_of(p, at >> 1), tile * PART, full, 1u << rank);
        }
        to.next(ring);
    }

    /// Weights, which no kernel writes: as many stages as the ring has. All barriers of the cluster
    /// are known behind it.
    __device__ __forceinline__ int load_ahead(const MlpProblem& p, int ring, Cursor& to) const {
        int stages = p.chunks * (ring == 0 ? 4 : 2), most = ring == 0 ? UP_STAGES : DOWN_STAGES, at = 0;
        prefetch_map(ring == 0 ? p.up : p.down);
        for (; at < stages && at < most; at++) load_stage(p, ring, to, at);
        if (ring == 0) prefetch_map(p.x);
        if (ring == 1) prefetch_map(p.residual);
        if (ring == 2 && p.memory_bias)
            tma_load<false>(shared + PROJECTION, p.projection, (int)rank * 64, 0, shared + PROJECTION_FULL,
                            1u << rank);
        return at;
    }

    /// The rest, by the same thread. Each block brings 64 columns of x to all of the cluster. The
    /// residual comes to the place of the last chunk but one, once its hidden columns have been
    /// multiplied. This thread waits for that phase of the barrier without having waited for the
    /// one before. That one is complete: to refill its ring, the thread waited until a stage was
    /// free that had been multiplied with those hidden columns, and these were stored behind it.
    __device__ __forceinline__ void load_rest(const MlpProblem& p, int ring, Cursor& to, int at) const {
        if (ring == 0) {
            pdl_launch_dependents();
            tma_load<true>(shared + rank * TILE, p.x, (int)rank * 64, first, shared + X_FULL,
                           (1u << MLP_CLUSTER) - 1);
        }
        for (int stages = p.chunks * (ring == 0 ? 4 : 2); at < stages; at++) load_stage(p, ring, to, at);
        if (ring != 1) return;
        int before = p.chunks - 2;
        barrier_wait(shared + HIDDEN_EMPTY + (before & 1) * 8, (u32)(before >> 1) & 1);
        tma_load<false>(tile_of_chunk(before), p.residual, (int)rank * 64, first, shared + RESIDUAL_FULL,
                        1u << rank);
    }

    // ---- matmuls ----

    /// Issues 64 rows of weights [64 x 64] times the tokens' 64 columns.
    template <int ADD>
    __device__ __forceinline__ static void multiply(Sums& sums, u32 weights, u32 tokens) {
        wgmma_steps<4, ADD>(sums, descriptor(weights), descriptor(tokens));
    }
    __device__ __forceinline__ void await(const Cursor& at) const {
        barrier_wait(shared + FULL + at.slot * 8, at.turn);
    }
    __device__ __forceinline__ u32 stage_at(const Cursor& at) const {
        return shared + RINGS + at.slot * STAGE;
    }
    /// The warp's lanes are done: with the products that a stage or hidden columns are read for, or
    /// with hidden columns that each has published.
    __device__ __forceinline__ void announce(u32 barrier) const {
        warp_barrier();
        if (lane == 0) barrier_arrive(shared + barrier);
    }

    // ---- tiles of 64 columns in shared memory: a row of 128 bytes a token, swizzled ----

    /// This lane's address for two matrices of 16 tokens. Their 16 columns are the rows of the
    /// warp's sums.
    __device__ __forceinline__ u32 lanes_place(u32 tile) const {
        return tile + (u32)((lane >> 4) * 8 + (lane & 7)) * 128 +
               (u32)((warp * 2 + (lane >> 3 & 1)) ^ (lane & 7)) * 16;
    }
    /// Stores the warp's 16 rows of sums as 16 columns of the tile. Of 16 tokens at a time,
    /// finish(words, sums, place) makes the halves of eight sums, and may read what is in their
    /// place.
    template <class Finish>
    __device__ __forceinline__ void store_sums(u32 tile, const Sums& sums, Finish finish) const {
        u32 to = lanes_place(tile);
#pragma unroll
        for (int i = 0; i < MLP_TOKENS / 16; i++) {
            u32 words[4];
            const float* sum = sums + i * 8;
            finish(words, sum, to + i * 16 * 128);
            store_matrices_transposed(to + i * 16 * 128, words);
        }
    }

    // ---- barriers ----

    __device__ __forceinline__ void create_barriers(const MlpProblem& p) const {
        for (int i = 0; i < STAGES; i++) {
            barrier_create(shared + FULL + i * 8, 1);
            barrier_create(shared + EMPTY + i * 8, 4);
        }
        for (int i = 0; i < 2; i++) {
            barrier_create(shared + HIDDEN_FULL + i * 8, 4);
            barrier_create(shared + HIDDEN_EMPTY + i * 8, 8);
        }
        auto of_bytes = [&](u32 barrier, u32 bytes) {
            barrier_create(shared + barrier, 1);
            barrier_expect(shared + barrier, bytes);
        };
        // Each has one phase.
        of_bytes(X_FULL, MLP_WIDTH / 64 * TILE);
        of_bytes(RESIDUAL_FULL, TILE);
        of_bytes(SUMS_FULL, 3 * SUMS_BYTES);
        if (p.memory_bias) of_bytes(PROJECTION_FULL, STAGE), of_bytes(MEMORY_FULL, 3 * MEMORY_BYTES);
        barriers_publish();
    }
};
