/*!
The memory attention, and an encoder's global attention, for Hopper only (sm_90a), by clusters of
two blocks: partial results and masks are those of attention.cu.

| instance                      | WIDTH, DV | queries x keys | Q in          | stages | shared bytes |
|-------------------------------|-----------|----------------|---------------|--------|--------------|
| attention_cross_hopper        | 256, 64   | 128 x 128      | registers     | 14     | 229 600      |
| attention_cross_biased_hopper | 256, 64   | 128 x 128      | registers     | 14     | 229 600      |
| attention_self_hopper         | 256, 256  | 128 x 80       | shared memory | 16     | 229 640      |
| attention_global_64_hopper    | 64, 64    | 128 x 128      | registers     | 14     | 229 600      |
| attention_global_80_hopper    | 80, 80    | 128 x 128      | registers     | 14     | 229 600      |
| attention_global_96_hopper    | 96, 96    | 128 x 128      | registers     | 14     | 229 600      |

A cluster has 256 queries, which see the same keys. Each block brings half of every chunk of K and V
by TMA, for both blocks (multicast), so the L2 cache is read once for 256 queries. By one block
alone, 28 736 keys are 589 MB a layer.

384 threads: one of warpgroup 0 brings chunks (24 registers a thread), each of the two others owns
64 queries and multiplies (240 registers, attention_hopper.cuh).

Shared memory gives 128 bytes a cycle. A tile of cross-attention needs the tensor cores for 2560
cycles: 10.5 MFLOP at 4096 a cycle. With both factors in shared memory a matmul of 64 x 128 x 16
reads 6 KB in its 64 cycles. With the matmuls with V and the chunks that arrive, a tile moves 308
KB, 2410 cycles. Q in registers leaves 243 KB, 1900 cycles, and its 64 KB of shared memory to the
ring. In self-attention O has these registers. Its tiles have 80 keys, for which shared memory needs
0.93 of the tensor cores' cycles; with 64 keys it needs as many. (Estimates, not measurements.)

Why no barrier is taken for another of its phases: as in tiles.cuh. A chunk's "full" counts the
bytes of both halves; "empty" counts the warps of both blocks, since both halves go to both. All
warps wait for all chunks in the order of the ring. Both blocks have the same tiles of keys. Q
passes through the first slots of the ring, or has a barrier of its own.

A full bank has no bias, and its instance no code for one. The bias of a filling bank is 0 for
memories that are there. A warp of the biased instance looks at a tile's bias while it waits, and
adds nothing if all of it is 0.

Heads lie side by side in tokens: a tensor map has columns, tokens and heads as sides, each with its
distance. Heads may be narrower than WIDTH, and WIDTH no multiple of 64: TMA fills zeros there, and
matmuls go as far as WIDTH.

Grid: (blocks of 128 queries, rounded up to whole clusters; parts of the keys; objects). TMA fills
zeros for queries and keys past an object's last. No row past the last is stored.
*/

#include "ptx.cuh"
#include "common.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "wgmma.cuh"
#include "cluster.cuh"
#include "tiles.cuh"
#include "attention_hopper.cuh"

// ---- primitives (PTX ISA 8.0, sm_90) ----

/// The same number in all lanes, which the compiler then knows: a descriptor made of it takes no
/// moves from lanes' registers.
__device__ __forceinline__ int of_warp(int x) { return __shfl_sync(0xffffffffu, x, 0); }
/// d[64 x 128] (+)= a[64 x 16] b[128 x 16]^T, a in registers, b by descriptor; `add` 0 starts from
/// zero.
__device__ __forceinline__ void wgmma_rs_rows(float (&d)[64], const u32 (&a)[4], u64 b, int add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %69, 0; wgmma.mma_async.sync.aligned.m64n128"
                 "k16.f32.f16.f16 {" NAMES_64 "}, {%64,%65,%66,%67}, %68, p, 1, 1, 0; }"
                 : OPERANDS_64(0) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}

// ---- attention ----

/// Blocks of a cluster.
constexpr int ATTENTION_CLUSTER = 2;

/// HOLDS: Q is in registers, and its place in shared memory belongs to the ring. BIASED: keys have a
/// bias.
template <int WIDTH_, int KEYS_, int DV_, int STAGES_, bool HOLDS_, bool BIASED_ = false>
struct ClusterAttention
    : AttentionWarpgroup<ClusterAttention<WIDTH_, KEYS_, DV_, STAGES_, HOLDS_, BIASED_>, WIDTH_, 2, KEYS_,
                         DV_, STAGES_, HOLDS_ ? 0 : query_bytes(WIDTH_, 2), HOLDS_ ? 0 : 8> {
    typedef AttentionWarpgroup<ClusterAttention, WIDTH_, 2, KEYS_, DV_, STAGES_,
                               HOLDS_ ? 0 : query_bytes(WIDTH_, 2), HOLDS_ ? 0 : 8> Base;
    using typename Base::Cursor;
    using Base::WIDTH, Base::CONSUMERS, Base::KEYS, Base::DV, Base::STAGES, Base::QUERIES, Base::K_CHUNKS,
        Base::V_CHUNKS, Base::STAGE_BYTES, Base::RING, Base::FULL, Base::EMPTY;
    using Base::shared, Base::thread, Base::lane, Base::n, Base::first, Base::end, Base::at, Base::scores;
    static constexpr bool HOLDS = HOLDS_, BIASED = BIASED_;
    static constexpr bool EAGER = WIDTH != PACKED_WIDTH;
    static constexpr int QUERIES_FULL = Base::BEHIND;  // offset of Q's barrier, if Q has one
    static constexpr int SHARED = Base::RING_END;
    static constexpr int BOX = KEYS / ATTENTION_CLUSTER;  // keys of a chunk that each block brings
    static_assert(BOX % 8 == 0 && QUERIES <= 256, "boxes are whole rows of the swizzle's pattern");
    static_assert(!HOLDS || QUERIES == KEYS, "chunks of Q are slots of the ring");
    static_assert(SHARED <= 232448, "shared memory of a block");

    // ---- the loading thread ----

    template <int CHUNKS>
    __device__ __forceinline__ void load_tile(Cursor& to, const TensorMap* map, int tile, u32 rank) const {
#pragma unroll 1
        for (int part = 0; part < CHUNKS; part++) {
            u32 full = shared + FULL + to.slot * 8, place = shared + RING + to.slot * STAGE_BYTES;
            barrier_wait(shared + EMPTY + to.slot * 8, to.turn ^ 1);
            barrier_expect(full, STAGE_BYTES);
            tma_load<true>(place + rank * BOX * 128, map, part * CHUNK, tile * KEYS + (int)rank * BOX,
                           (int)blockIdx.z, full, (1u << ATTENTION_CLUSTER) - 1);
            to.next();
        }
    }

    __device__ __forceinline__ void load_all(const TensorMap* q, const TensorMap* k,
                                             const TensorMap* v) const {
        if (first >= end) return;
        u32 rank = cluster_rank();
        Cursor to = {0, 0};
        if (!HOLDS) barrier_expect(shared + QUERIES_FULL, QUERIES * WIDTH * 2);
#pragma unroll 1
        for (int part = 0; part < K_CHUNKS; part++) {
            u32 full = shared + (HOLDS ? FULL + part * 8 : QUERIES_FULL);
            if (HOLDS) barrier_expect(full, STAGE_BYTES);
            tma_load<false>(shared + part * QUERIES * 128, q, part * CHUNK, (int)blockIdx.x * QUERIES,
                            (int)blockIdx.z, full, 1u << rank);
            if (HOLDS) to.next();
        }
#pragma unroll 1
        for (int tile = first; tile <= end; tile++) {
            if (tile < end) load_tile<K_CHUNKS>(to, k, tile, rank);
            if (tile > first) load_tile<V_CHUNKS>(to, v, tile - 1, rank);
        }
    }

    // ---- a computing warpgroup ----

    u32 query[HOLDS ? WIDTH / 16 : 1][4];  // of this warp's 16 rows

    /// Waits for Q, or brings it to registers.
    __device__ __forceinline__ void take_queries(int group) {
        if (first >= end) return;
        if constexpr (HOLDS) {
            int row = group * 64 + (thread >> 5) * 16 + (lane & 15);
            Cursor from = at;
#pragma unroll
            for (int part = 0; part < K_CHUNKS; part++) {
                this->await(at);
                u32 line = shared + at.slot * STAGE_BYTES + row * 128;
#pragma unroll
                for (int step = 0; step < min(CHUNK, WIDTH - part * CHUNK) / 16; step++)
                    load_matrices(query[part * (CHUNK / 16) + step],
                                  line + (u32)((step * 2 + (lane >> 4)) ^ (row & 7)) * 16);
                at.next();
            }
            // All lanes have read.
            warp_barrier();
            release(from, K_CHUNKS);
        } else {
            barrier_wait(shared + QUERIES_FULL, 0);
        }
    }

    /// The warp is done with `count` slots, in both blocks: its products, which all lanes waited
    /// for, have read them.
    __device__ __forceinline__ void release(const Cursor& from, int count) const {
        int slot = from.slot + lane / ATTENTION_CLUSTER;
        if (slot >= STAGES) slot -= STAGES;
        if (lane < count * ATTENTION_CLUSTER)
            barrier_arrive_at(shared + EMPTY + slot * 8, (u32)lane % ATTENTION_CLUSTER);
    }

    const float* bias;  // of BIASED: of all keys
    bool biased;        // of BIASED: whether any key of the tile has a bias other than 0

    static constexpr int SHARE = (KEYS + 31) / 32;  // of a tile's biases, for each lane

    /// Begins to load the lane's biases, and to bring those of the next tile to the L1 cache.
    __device__ __forceinline__ void load_bias(int tile, float (&own)[SHARE]) const {
        int key = tile * KEYS + lane, limit = min(n, (tile + 1) * KEYS);
#pragma unroll
        for (int i = 0; i < SHARE; i++) own[i] = key + i * 32 < limit ? bias[key + i * 32] : 0.0f;
        int next = (tile + 1) * KEYS + lane * 32;
        if (lane < SHARE && next < n) prefetch_line(bias + next);
    }

    /// Waits for the tile's keys, then for this warpgroup's turn, and issues the scores.
    __device__ __forceinline__ void begin_tile(int tile, u32 queries, int turn) {
        float own[SHARE];
        if constexpr (BIASED) load_bias(tile, own);
        u64 b[K_CHUNKS];
        this->await_keys(b);
        if constexpr (BIASED) {
            settle(own);  // what waits for the loads stays behind the keys, before the turn
            bool other = false;
#pragma unroll
            for (int i = 0; i < SHARE; i++) other |= own[i] != 0.0f;
            biased = any_lane(other);
        }
        named_barrier_sync(turn);
        if constexpr (HOLDS) {
            settle(scores);
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < WIDTH / 16; step++)
                wgmma_rs_rows(scores, query[step], b[step / 4] + step % 4 * 2, step > 0);
            wgmma_commit();
        } else {
            this->issue_scores(queries, b);
        }
    }

    /// Adds the bias, unless it is 0 for the whole tile, and takes keys past the last away.
    __device__ __forceinline__ void finish_scores(int tile) {
        int column = tile * KEYS + (lane & 3) * 2, rest = n - column;
        if (BIASED && biased) {
            const float* from = bias + column;
#pragma unroll
            for (int j = 0; j < KEYS / 8; j++) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    // Past the last key another one's, which is taken away below.
                    float more = from[min(j * 8 + i, rest - 1)];
                    scores[j * 4 + i] += more, scores[j * 4 + i + 2] += more;
                }
            }
        }
        if ((tile + 1) * KEYS > n) {
#pragma unroll
            for (int j = 0; j < KEYS / 8; j++) {
#pragma unroll
                for (int i = 0; i < 2; i++)
                    if (j * 8 + i >= rest) scores[j * 4 + i] = scores[j * 4 + i + 2] = NEVER;
            }
        }
    }

    /// This warp arrives at no barrier of the peer any more. A block ends when its peer's warps
    /// have said so and its own have seen all chunks. Said before the results are stored: else it
    /// would wait for the stores.
    __device__ __forceinline__ void leave() const {
        warp_barrier();
        cluster_release();
    }

    __device__ __forceinline__ void run(const TensorMap* q, const TensorMap* k, const TensorMap* v,
                                        const Problem& p, u32 shared_base) {
        this->begin(p, shared_base);
        bias = p.bias;
        if (threadIdx.x == 0) {
            prefetch_map(q);
            prefetch_map(k);
            prefetch_map(v);
            if (!HOLDS) barrier_create(shared + QUERIES_FULL, 1);
#pragma unroll 1
            for (int i = 0; i < STAGES; i++) {
                barrier_create(shared + FULL + i * 8, 1);
                barrier_create(shared + EMPTY + i * 8, CONSUMERS * 4 * ATTENTION_CLUSTER);
            }
            barriers_publish();
        }
        warp_barrier();
        // Before it no peer may send to this block.
        cluster_barriers_known();
        // Q, K, V and the bias are earlier kernels'.
        dependent_wait();
        dependent_launch();

        // 65536 registers: those that the loading warpgroup does not need go to the others.
        if (threadIdx.x < 128) {
            registers_release<24>();
            if (threadIdx.x == 0) load_all(q, k, v);
            warp_barrier();
            cluster_release();
            cluster_wait();
        } else {
            registers_claim<240>();
            int group = of_warp((int)(threadIdx.x >> 7) - 1);
            this->attend(group);
            this->store(p, group);
            warp_barrier();
            cluster_wait();
        }
    }
};

// ---- instances ----

// Constants: for the host (scripts/kernels.py).
#define CLUSTER_INSTANCE(NAME, WIDTH, KEYS, DV, STAGES, ...)                                                 \
    typedef ClusterAttention<WIDTH, KEYS, DV, STAGES, __VA_ARGS__> NAME##_instance;                          \
    [[maybe_unused]] constexpr int NAME##_queries = NAME##_instance::QUERIES;                                \
    [[maybe_unused]] constexpr int NAME##_shared = NAME##_instance::SHARED;                                  \
    [[maybe_unused]] constexpr int NAME##_box = NAME##_instance::BOX;                                        \
    [[maybe_unused]] constexpr int NAME##_width = WIDTH, NAME##_columns = DV, NAME##_keys = KEYS;
// ROW, HEAD: elements from one row and head of the results to the next; kernels of packed rows do not
// read them. Behind the tensor maps come the other parameters.
#define CLUSTER_KERNEL(NAME, BIAS, COLUMNS, ROW, HEAD, ...)                                                  \
    extern "C" __global__ void __cluster_dims__(ATTENTION_CLUSTER, 1, 1) __launch_bounds__(384, 1)           \
        NAME(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,                       \
             const __grid_constant__ TensorMap v, __VA_ARGS__) {                                             \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        NAME##_instance attention;                                                                           \
        attention.run(&q, &k, &v,                                                                            \
                      Problem{nullptr, nullptr, nullptr, BIAS, out, partial, stats, m, n, COLUMNS, COLUMNS,  \
                              {}, {}, {}, {ROW, HEAD}},                                                      \
                      shared_address(memory));                                                               \
    }
#define ATTENTION_CLUSTER_HOPPER(NAME, WIDTH, KEYS, DV, STAGES, HOLDS)                                       \
    CLUSTER_INSTANCE(NAME, WIDTH, KEYS, DV, STAGES, HOLDS)                                                   \
    CLUSTER_KERNEL(NAME, nullptr, DV, 0, 0, f16* out, float* partial, float* stats, int m, int n)
#define ATTENTION_BIASED_HOPPER(NAME, WIDTH, KEYS, DV, STAGES, HOLDS, BIASED)                                \
    CLUSTER_INSTANCE(NAME, WIDTH, KEYS, DV, STAGES, HOLDS, BIASED)                                           \
    CLUSTER_KERNEL(NAME, bias, DV, 0, 0, const float* bias, f16* out, float* partial, float* stats, int m,   \
                   int n)
// Heads of `depth` columns, whose results lie where the launch says, in elements.
#define ATTENTION_GLOBAL_HOPPER(NAME, WIDTH, KEYS, DV, STAGES, HOLDS)                                        \
    CLUSTER_INSTANCE(NAME, WIDTH, KEYS, DV, STAGES, HOLDS)                                                   \
    CLUSTER_KERNEL(NAME, nullptr, depth, out_row, out_head, f16* out, float* partial, float* stats, int m,   \
                   int n, int depth, int out_row, int out_head)

// A module of cuda/kernels.toml has the instances of one INSTANCES; without it this file has all.
#define MEMORY 1
#define GLOBAL 2
#if !defined(INSTANCES) || INSTANCES == MEMORY
ATTENTION_CLUSTER_HOPPER(attention_cross_hopper, 256, 128, 64, 14, true)
ATTENTION_BIASED_HOPPER(attention_cross_biased_hopper, 256, 128, 64, 14, true, true)
ATTENTION_CLUSTER_HOPPER(attention_self_hopper, 256, 80, 256, 16, false)
#endif
#if !defined(INSTANCES) || INSTANCES == GLOBAL
ATTENTION_GLOBAL_HOPPER(attention_global_64_hopper, 64, 128, 64, 14, true)
ATTENTION_GLOBAL_HOPPER(attention_global_80_hopper, 80, 128, 80, 14, true)
ATTENTION_GLOBAL_HOPPER(attention_global_96_hopper, 96, 128, 96, 14, true)
#endif
