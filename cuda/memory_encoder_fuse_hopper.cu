/*!
The memory encoder's mask and features become one, for Hopper (sm_90a): what
memory_encoder_fuse_mask_and_features of memory_encoder_fuse.cu computes, of grids that are
multiples of 16. That file's header explains the names, and says which values are rounded.

| kernel                     | M, N, K                     | tile of T | cluster | threads | shared bytes |
|----------------------------|-----------------------------|-----------|---------|---------|--------------|
| memory_encoder_fuse_hopper | T, 256, 576; then 256 + 256 | 64        | 2       | 512     | 231 672      |

The two blocks of a cluster have the same 64 tokens in a row, and 128 columns each. So a block reads
half of the weights: 278 KB in place of 557. Each brings half of the tokens' pixels and features,
and multicasts it. At 1024 pixels 128 blocks read 42 MB from the L2 cache in place of 77, by count.

Products are steps of 64 columns of depth: nine taps, four parts of the features, four of hidden.
A step's weights, and its tokens, come to a slot by TMA; there are eight slots for 17 steps. Each
step has a barrier of its own, with one phase, and so has each slot that is filled again.

- The loader is a thread of the last warpgroup. Before the wait for the previous kernel it asks for
  weights of the first steps, which no kernel writes.
- Warpgroups 0 and 1 convolve, 64 columns each. They send means and squares of each token to both
  blocks. After norm and GELU, a warp copies its 16 rows of `hidden` to the peer.
- Warpgroup 2 multiplies features meanwhile, then `hidden` in the same sums: its own block's columns
  first.

A map sees `wide` as [2g, g, 128]: of each row, pairs of pixels. A tap is a box of it: pixel 2x - 1
is the second of pair x - 1, 2x and 2x + 1 are pair x. What lies outside is zeros. Features are
channel by channel: `wgmma` takes such a left factor transposed.

At the end a barrier of the cluster keeps a block until its peer has got all that it sends.

Grid: T / 64 clusters of 2 blocks.
*/
#include "ptx.cuh"
#include "common.cuh"
#include "arithmetic.cuh"
#include "gelu.cuh"
#include "wgmma.cuh"
#include "cluster.cuh"
#include "tiles.cuh"

// ---- primitives (PTX ISA 8.0, sm_90a) ----

/// Copies published bytes to the same address of block `rank`, whose barrier counts them.
__device__ __forceinline__ void send_bytes(u32 from, u32 bytes, u32 barrier, u32 rank) {
    asm volatile("{ .reg .b32 there, counter; mapa.shared::cluster.u32 there, %0, %3; "
                 "mapa.shared::cluster.u32 counter, %2, %3;\n"
                 "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                 "[there], [%0], %1, [counter]; }" ::"r"(from), "r"(bytes), "r"(barrier), "r"(rank)
                 : "memory");
}
/// d[64 x 128] += a[16 x 64]^T b[128 x 16]^T, both by descriptor: rows of a are columns of depth.
__device__ __forceinline__ void wgmma_transposed(float (&d)[64], u64 a, u64 b) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n128"
                 "k16.f32.f16.f16 {" NAMES_64 "}, %64, %65, p, 1, 1, 1, 0; }"
                 : OPERANDS_64(0) : "l"(a), "l"(b));
}

// ---- fuse ----

constexpr int FUSE_CLUSTER = 2, FUSE_THREADS = 512;
constexpr int FUSE_TOKENS = 64, FUSE_WIDTH = 256;  // of a cluster, columns of a token
constexpr int DEPTH = 64;                          // of a step: channels of a pixel are as many
constexpr int TAPS = 9, PARTS = FUSE_WIDTH / DEPTH, STEPS = TAPS + 2 * PARTS, SLOTS = 8;
constexpr int REFILLED = STEPS - SLOTS;            // steps whose slot a later step fills again
constexpr int AHEAD = 3;                           // steps whose weights are asked for before the wait
constexpr int COLUMNS = FUSE_WIDTH / FUSE_CLUSTER; // of a block
constexpr int SPAN = 64;                           // columns of a warpgroup that convolves
constexpr int GROUPS = COLUMNS / SPAN, SPANS = FUSE_WIDTH / SPAN;
constexpr int BROUGHT = FUSE_TOKENS / FUSE_CLUSTER;  // tokens that a block brings
[[maybe_unused]] constexpr int FUSE_RUN = 16;      // tokens in one row: a grid is a multiple of it
constexpr float NORM_EPSILON = 1e-6f;
static_assert(REFILLED == TAPS, "each tap's slot is filled again");

// Bytes: 64 columns of all tokens; a step's weights; both; a token's statistics.
constexpr u32 TILE = FUSE_TOKENS * 128, WEIGHT = COLUMNS * 128, SLOT = TILE + WEIGHT, STATISTIC = SPANS * 8;
// Offsets in shared memory: slots, `hidden`, statistics, barriers.
constexpr u32 HIDDEN = SLOTS * SLOT, STATISTICS = HIDDEN + SPANS * TILE;
constexpr u32 FULL = STATISTICS + FUSE_TOKENS * STATISTIC, EMPTY = FULL + STEPS * 8;
constexpr u32 STATISTICS_FULL = EMPTY + REFILLED * 8, HIDDEN_FULL = STATISTICS_FULL + 8;
constexpr u32 memory_encoder_fuse_hopper_shared = HIDDEN_FULL + SPANS * 8;
static_assert(memory_encoder_fuse_hopper_shared <= 232448, "shared memory of a block");

/// What a launch is given.
struct FuseProblem {
    const TensorMap *wide, *feat;  // [2 grid, grid, 128] in boxes of `run` rows, [256, grid²] of 32
    const TensorMap *weight, *feature_weight, *mask_weight;  // [256, 576], [256, 256], in boxes of 128 rows
    const float *bias, *norm_weight, *norm_bias, *sum_bias;  // [256]
    u16* x;                                                  // [grid², 256]
    int grid, run;  // run: 16 or 32 tokens that share a row
};

class HopperFuse {
    typedef float Sums[SPAN / 2];     // of row lane / 4 (+ 8) of a warp's 16, two columns of each eight
    typedef float Both[COLUMNS / 2];  // of masks and features
    u32 shared, rank;
    int group, warp, lane, first;     // warp: of the warpgroup; first: token of the cluster

    __device__ __forceinline__ u32 slot_of(int step) const { return shared + step % SLOTS * SLOT; }
    __device__ __forceinline__ u32 full(int step) const { return shared + FULL + step * 8; }
    __device__ __forceinline__ u32 empty(int step) const { return shared + EMPTY + step * 8; }
    __device__ __forceinline__ u32 hidden_full(int span) const { return shared + HIDDEN_FULL + span * 8; }
    /// Of `hidden`, what a block multiplies as its `at`-th: first its own.
    __device__ __forceinline__ int span_of(int at) const { return (at + (int)rank * GROUPS) % SPANS; }

    // ---- the loader ----

    /// By a warp: a barrier of a lane.
    __device__ __forceinline__ void create_barrier() const {
        constexpr int STATISTICS_AT = STEPS + REFILLED, SPANS_AT = STATISTICS_AT + 1;
        static_assert(SPANS_AT + SPANS <= 32, "lanes");
        bool mine = lane < SPANS_AT + SPANS;
        u32 bytes = lane < TAPS + PARTS ? SLOT : WEIGHT, arrivals = 1;
        if (lane >= SPANS_AT) {
            bool own = (lane - SPANS_AT) / GROUPS == (int)rank;  // its warps arrive; the peer's copy
            bytes = own ? 0 : TILE, arrivals = own ? 4 : 1;
        } else if (lane == STATISTICS_AT) {
            bytes = FUSE_TOKENS * STATISTIC;
        } else if (lane >= STEPS) {
            bytes = 0, arrivals = FUSE_CLUSTER * GROUPS * 4;
        }
        if (mine) barrier_create(shared + FULL + lane * 8, (int)arrivals);
        // ptxas creates the barriers of all lanes in one loop. racecheck counts it as another lane's store.
        warp_barrier();
        if (mine && bytes != 0) barrier_expect(shared + FULL + lane * 8, bytes);
        if (mine) barriers_publish();
    }
    __device__ __forceinline__ void load_weights(const FuseProblem& p, int step) const {
        const TensorMap* map = p.weight;
        int part = step;
        if (step >= TAPS + PARTS) map = p.mask_weight, part = span_of(step - TAPS - PARTS);
        else if (step >= TAPS) map = p.feature_weight, part = step - TAPS;
        tma_load<false>(slot_of(step) + TILE, map, part * DEPTH, (int)rank * COLUMNS, full(step), 1u << rank);
    }
    /// This block's half of the tokens, to both blocks. `hidden` is not loaded.
    __device__ __forceinline__ void load_tokens(const FuseProblem& p, int step) const {
        constexpr u32 BOTH = (1u << FUSE_CLUSTER) - 1;
        int own = (int)rank * BROUGHT;
        u32 to = slot_of(step) + own * 128;
        if (step >= TAPS + PARTS) return;
        if (step >= TAPS) {
            int channel = (step - TAPS) * DEPTH + (int)rank * (DEPTH / FUSE_CLUSTER);
            tma_load<true>(to, p.feat, first, channel, full(step), BOTH);
            return;
        }
        int dy = step / 3, dx = step % 3;
        for (int at = 0; at < BROUGHT; at += p.run) {
            int token = first + own + at, y = token / p.grid, x = token - y * p.grid;
            tma_load<true>(to + at * 128, p.wide, dx == 1 ? 0 : DEPTH, dx == 0 ? x - 1 : x, 2 * y + dy - 1,
                           full(step), BOTH);
        }
    }
    __device__ __forceinline__ void load(const FuseProblem& p) const {
        for (int step = 0; step < AHEAD; step++) load_weights(p, step);
        pdl_wait();
        pdl_launch_dependents();
        for (int step = 0; step < AHEAD; step++) load_tokens(p, step);
        prefetch_map(p.feat), prefetch_map(p.feature_weight), prefetch_map(p.mask_weight);
        for (int step = AHEAD; step < STEPS; step++) {
            // Of both blocks, for each brings tokens to both.
            if (step >= SLOTS) barrier_wait(empty(step - SLOTS), 0);
            load_weights(p, step);
            load_tokens(p, step);
        }
    }

    // ---- warpgroups 0 and 1: convolution, norm, GELU ----

    /// This lane's columns of a vector, beginning with the two of the first eight.
    template <int N>
    __device__ __forceinline__ void columns(float2 (&to)[N], const float* of) const {
#pragma unroll
        for (int j = 0; j < N; j++) to[j] = load_pair(of + j * 8 + (lane & 3) * 2);
    }
    template <int N>
    __device__ __forceinline__ static void begin(float (&sums)[N], const float2 (&bias)[N / 4]) {
#pragma unroll
        for (int j = 0; j < N; j++) sums[j] = j & 1 ? bias[j / 4].y : bias[j / 4].x;
    }
    __device__ __forceinline__ void release(int step) const {
        if (lane < FUSE_CLUSTER) barrier_arrive_at(empty(step), (u32)lane);
    }
    __device__ __forceinline__ void convolve(Sums& sums) const {
#pragma unroll
        for (int step = 0; step < TAPS; step++) {
            barrier_wait(full(step), 0);
            wgmma_steps<4, 1>(sums, descriptor(slot_of(step)),
                              descriptor(slot_of(step) + TILE + group * (SPAN * 128)));
            if (step == 0) continue;
            wgmma_wait<1>();
            release(step - 1);
        }
        wgmma_wait<0>();
        settle(sums);
        release(TAPS - 1);
    }

    /// Each token's mean of the warpgroup's columns, and the squares of what they are off it.
    __device__ __forceinline__ void share_statistics(const Sums& sums) const {
        float means[2], squares[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float mean = 0.0f, square = 0.0f;
#pragma unroll
            for (int j = 0; j < SPAN / 8; j++) mean += sums[j * 4 + h * 2] + sums[j * 4 + h * 2 + 1];
            mean *= 4.0f / SPAN;
#pragma unroll
            for (int j = 0; j < SPAN / 4; j++) {
                float off = sums[j / 2 * 4 + h * 2 + j % 2] - mean;
                square = fmaf(off, off, square);
            }
            merge_moments<4, SPAN / 4>(mean, square);
            means[h] = mean, squares[h] = square;
        }
        int h = lane & 1, row = warp * 16 + h * 8 + (lane >> 2);
        u32 to = shared + STATISTICS + row * STATISTIC + (rank * GROUPS + group) * 8;
        send_two(to, make_float2(h ? means[1] : means[0], h ? squares[1] : squares[0]),
                 shared + STATISTICS_FULL, (u32)(lane >> 1 & 1));
    }

    /// Norm and GELU, to the tiles that both blocks have of these columns.
    __device__ __forceinline__ void finish_hidden(const Sums& sums, const float2 (&weight)[SPAN / 8],
                                                  const float2 (&bias)[SPAN / 8]) const {
        float mean[2], scale[2];
        barrier_wait_for_peers(shared + STATISTICS_FULL, 0);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            u32 from = shared + STATISTICS + (warp * 16 + h * 8 + (lane >> 2)) * STATISTIC;
            float4 a = load_shared_floats(from), b = load_shared_floats(from + 16);
            float m = ((a.x + a.z) + (b.x + b.z)) * (1.0f / SPANS), square = (a.y + a.w) + (b.y + b.w);
            float apart = (a.x - m) * (a.x - m);
            apart = fmaf(a.z - m, a.z - m, apart), apart = fmaf(b.x - m, b.x - m, apart);
            apart = fmaf(b.z - m, b.z - m, apart);
            mean[h] = m, scale[h] = reciprocal_root(fmaf(apart, (float)SPAN, square) * (1.0f / FUSE_WIDTH) +
                                                    NORM_EPSILON);
        }
        int span = (int)rank * GROUPS + group;
        u32 tile = shared + HIDDEN + span * TILE;
        u32 to = tile + (u32)(warp * 16 + (lane & 15)) * 128 + (u32)((lane >> 4) ^ (lane & 7)) * 16;
#pragma unroll
        for (int j = 0; j < SPAN / 8; j += 2) {
            u32 words[4];
#pragma unroll
            for (int e = 0; e < 2; e++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    float one = (sums[(j + e) * 4 + h * 2] - mean[h]) * scale[h];
                    float other = (sums[(j + e) * 4 + h * 2 + 1] - mean[h]) * scale[h];
                    words[e * 2 + h] = to_f16x2(gelu(fmaf(one, weight[j + e].x, bias[j + e].x)),
                                                gelu(fmaf(other, weight[j + e].y, bias[j + e].y)));
                }
            store_matrices(to ^ (u32)j * 16, words);
        }
        copies_publish();
        warp_barrier();
        if (lane != 0) return;
        send_bytes(tile + warp * (16 * 128), 16 * 128, hidden_full(span), rank ^ 1);
        barrier_arrive(hidden_full(span));
    }
    __device__ __forceinline__ void make_hidden(const FuseProblem& p) const {
        int column = (int)rank * COLUMNS + group * SPAN;
        float2 bias[SPAN / 8], norm_weight[SPAN / 8], norm_bias[SPAN / 8];
        columns(bias, p.bias + column);
        columns(norm_weight, p.norm_weight + column), columns(norm_bias, p.norm_bias + column);
        Sums sums;
        begin(sums, bias);
        convolve(sums);
        share_statistics(sums);
        finish_hidden(sums, norm_weight, norm_bias);
    }

    // ---- warpgroup 2: features, and hidden ----

    __device__ __forceinline__ void multiply_features(Both& sums) const {
#pragma unroll
        for (int step = TAPS; step < TAPS + PARTS; step++) {
            barrier_wait(full(step), 0);
            u64 a = descriptor(slot_of(step)), b = descriptor(slot_of(step) + TILE);
            settle(sums);
            wgmma_fence();
            // 16 channels are 2048 bytes.
#pragma unroll
            for (int i = 0; i < 4; i++) wgmma_transposed(sums, a + i * 128, b + i * 2);
            wgmma_commit();
        }
    }
    __device__ __forceinline__ void multiply_hidden(Both& sums) const {
#pragma unroll
        for (int at = 0; at < SPANS; at++) {
            int step = TAPS + PARTS + at, span = span_of(at);
            barrier_wait(full(step), 0);
            barrier_wait_for_peers(hidden_full(span), 0);
            wgmma_steps<4, 1>(sums, descriptor(shared + HIDDEN + span * TILE),
                              descriptor(slot_of(step) + TILE));
        }
        wgmma_wait<0>();
        settle(sums);
    }
    /// Through the tokens of two slots' taps: `hidden` came behind them, and later steps have none.
    __device__ __forceinline__ void store(const FuseProblem& p, const Both& sums) const {
        constexpr int STAGING = TAPS + PARTS;
        static_assert(STAGING / SLOTS == 1 && STAGING % SLOTS + GROUPS <= SLOTS, "slots of hidden's steps");
        u32 own = (u32)(warp * 16 + (lane & 15)) * 128 + (u32)((lane >> 4) ^ (lane & 7)) * 16;
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j += 2) {
            u32 words[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int at = (j + i / 2) * 4 + i % 2 * 2;
                words[i] = to_f16x2(sums[at], sums[at + 1]);
            }
            store_matrices(slot_of(STAGING + j / 8) + (own ^ (u32)(j % 8) * 16), words);
        }
        warp_barrier();
        int unit = lane & 7;
        u16* out = p.x + (int)rank * COLUMNS + unit * 8;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int row = warp * 16 + i % 4 * 4 + (lane >> 3);
            store_unit(out + (first + row) * FUSE_WIDTH + i / 4 * SPAN,
                       shared_unit(slot_of(STAGING + i / 4) + row * 128 + (u32)(unit ^ (row & 7)) * 16));
        }
    }

public:
    __device__ __forceinline__ void run(const FuseProblem& p, u32 memory) {
        shared = memory, rank = cluster_rank();
        group = (int)threadIdx.x >> 7, warp = (int)(threadIdx.x >> 5) & 3, lane = (int)threadIdx.x & 31;
        first = (int)(blockIdx.x / FUSE_CLUSTER) * FUSE_TOKENS;
        bool loads = threadIdx.x == (GROUPS + 1) * 128;
        if (loads) prefetch_map(p.weight), prefetch_map(p.wide);
        if (group == GROUPS + 1 && warp == 0) create_barrier();
        warp_barrier();  // all of its lanes arrive as one
        cluster_barriers_known();
        if (group == GROUPS) {
            float2 bias[COLUMNS / 8];
            columns(bias, p.sum_bias + (int)rank * COLUMNS);
            Both sums;
            begin(sums, bias);
            multiply_features(sums);
            multiply_hidden(sums);
            cluster_arrive();  // all that is sent to this block has come
            store(p, sums);
        } else {
            if (group < GROUPS) make_hidden(p);
            if (loads) load(p);
            warp_barrier();
            cluster_arrive();
        }
        cluster_wait();
    }
};

// ---- instances ----

extern "C" __global__ void __cluster_dims__(FUSE_CLUSTER, 1, 1) __launch_bounds__(FUSE_THREADS, 1)
    memory_encoder_fuse_hopper(const __grid_constant__ TensorMap wide, const __grid_constant__ TensorMap feat,
                               const __grid_constant__ TensorMap weight,
                               const __grid_constant__ TensorMap feature_weight,
                               const __grid_constant__ TensorMap mask_weight, const float* bias,
                               const float* norm_weight, const float* norm_bias, const float* sum_bias,
                               u16* x, int grid, int run) {
    extern __shared__ __align__(1024) unsigned char memory[];
    HopperFuse().run({&wide, &feat, &weight, &feature_weight, &mask_weight, bias, norm_weight, norm_bias,
                      sum_bias, x, grid, run},
                     shared_address(memory));
}
