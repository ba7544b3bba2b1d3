/*!
The attention of attention.cu for Hopper only (sm_90a): the same arguments, partial results and
masks.

| instance                   | WIDTH, DV | queries x keys | stages | shared bytes |
|----------------------------|-----------|----------------|--------|--------------|
| attention_cross_hopper     | 256, 64   | 128 x 128      | 10     | 231 584      |
| attention_self_hopper      | 256, 256  | 128 x 64       | 16     | 197 888      |
| attention_heads_64_hopper  | 64, 64    | 128 x 128      | 7      | 133 232      |
| attention_heads_80_hopper  | 80, 80    | 128 x 128      | 12     | 231 616      |
| attention_heads_96_hopper  | 96, 96    | 128 x 128      | 12     | 231 616      |
| attention_heads_128_hopper | 128, 128  | 128 x 128      | 12     | 231 616      |

384 threads: warpgroup 0 copies (40 registers a thread); each of the two others owns 64 queries and
multiplies with `wgmma` (232 registers). Scores and O are in registers; Q, K and V are read from
shared memory through descriptors (128-byte swizzle, the layout of attention.cu). Chunks of 64
columns pass through a ring with a pair of barriers each ("full", "empty"), in the order of their
use: K of tile 0, then K of tile j and V of tile j - 1. The warpgroups alternate to issue matmuls by
named barriers, so that one computes its softmax while the other multiplies, as FlashAttention-3
(Shah et al., 2024) does.
*/

#include "ptx.cuh"
#include "attention.cuh"
#include "wgmma.cuh"

// ---- attention ----

template <int WIDTH_, int CONSUMERS_, int KEYS_, int DV_, int STAGES_, int LAG_, bool TURNS>
struct Attention {
    static constexpr int WIDTH = WIDTH_;          // columns of Q and K
    static constexpr int CONSUMERS = CONSUMERS_;  // warpgroups that multiply
    static constexpr int KEYS = KEYS_;            // keys of a tile
    static constexpr int DV = DV_;                // columns of V
    static constexpr bool PACKED = WIDTH == PACKED_WIDTH;
    static constexpr int STAGES = STAGES_;          // chunks the ring holds
    static constexpr int LAG = LAG_;              // chunks under way before one is waited for and handed over
    // TURNS: whether warpgroups issue their products in turn, or whenever they can.

    static constexpr int THREADS = (1 + CONSUMERS) * 128;
    static constexpr int QUERIES = CONSUMERS * 64;
    static constexpr int K_CHUNKS = (WIDTH + CHUNK - 1) / CHUNK;
    static constexpr int V_CHUNKS = (DV + CHUNK - 1) / CHUNK;
    static constexpr int STAGE_BYTES = KEYS * 128;
    static constexpr int RING = QUERIES * K_CHUNKS * 128;   // offset of the ring: after Q
    static constexpr int BIAS = RING + STAGES * STAGE_BYTES;  // offset of four tiles' biases
    static constexpr int FULL = BIAS + 4 * KEYS * 4;        // offsets of the barriers
    static constexpr int EMPTY = FULL + STAGES * 8;
    static constexpr int SHARED = EMPTY + STAGES * 8;
    // Before a K slot is free again its reader may need all of that K and the V before it.
    static_assert(STAGES >= K_CHUNKS + V_CHUNKS && LAG < STAGES, "ring");
    // The bias of tile t + 4 takes the place of tile t's, with a chunk whose slot was released
    // STAGES chunks before. Between the first chunks of these tiles there are 4 (K_CHUNKS +
    // V_CHUNKS), of tiles 0 and 4 (no V of a tile before the first) fewer.
    static_assert(STAGES <= 4 * K_CHUNKS + 3 * V_CHUNKS, "four bias buffers");
    // One product reads all of V, DV columns wide: of the last chunk, which is not always whole,
    // the first ones (the descriptor's leading offset leads from 64 columns to the next ones,
    // wherever N ends). Its chunks must follow each other in the ring. With as many chunks of K
    // they do.
    static_assert(V_CHUNKS == 1 || (V_CHUNKS == K_CHUNKS && STAGES % V_CHUNKS == 0), "chunks of V in a row");
    static_assert(WIDTH % 16 == 0 && DV % 16 == 0 && KEYS % 16 == 0 && STAGES <= THREADS,
                  "columns, keys, barriers");

    /// A place in the ring and how often (modulo 2) it was passed.
    struct Cursor {
        int slot;
        u32 turn;
        __device__ __forceinline__ void next() {
            if (++slot == STAGES) slot = 0, turn ^= 1;
        }
    };

    u32 shared;
    int thread, lane;  // of the warpgroup, of the warp
    int n, first, end;
    const float* bias;

    // ---- the copying warpgroup ----

    /// Chunks begun and chunks handed over to the multiplying warpgroups.
    struct Progress {
        Cursor free, landed;
        int begun, handed;
    };

    __device__ __forceinline__ void hand_over(Progress& at) const {
        copies_publish();
        barrier_arrive(shared + FULL + at.landed.slot * 8);
        at.landed.next();
        at.handed++;
    }
    __device__ __forceinline__ void hand_over_all(Progress& at) const {
        copies_wait<0>();
        while (at.handed < at.begun) hand_over(at);
    }

    /// The next chunk: UNITS 16-byte units a row, zeros behind `columns` and behind the last key.
    template <int UNITS>
    __device__ __forceinline__ void fetch(Progress& at, const f16* source, int columns, int stride, int tile,
                                          bool with_bias) const {
        constexpr int LINES = 128 / UNITS;  // that the warpgroup copies at once
        static_assert(128 % UNITS == 0 && LINES % 8 == 0 && KEYS % LINES == 0,
                      "whole rows of the swizzle's pattern");
        u32 empty = shared + EMPTY + at.free.slot * 8, parity = at.free.turn ^ 1;
        if (at.begun >= STAGES && !barrier_ready(empty, parity)) {
            hand_over_all(at);  // nothing better to do than to wait for the copies in flight
            barrier_wait(empty, parity);
        }
        int unit = (u32)thread % UNITS, line = (u32)thread / UNITS;
        bool inside = PACKED || unit * 8 < columns;
        u32 to = shared + RING + at.free.slot * STAGE_BYTES + line * 128 + ((unit ^ line) & 7) * 16;
        const f16* from = source + (long long)(tile * KEYS + line) * stride + unit * 8;
#pragma unroll
        for (int row = 0; row < KEYS; row += LINES) {
            bool valid = inside && tile * KEYS + row + line < n;
            copy16(to + row * 128, valid ? from + row * stride : source, valid);
        }
        for (int i = thread; with_bias && i < KEYS; i += 128) {
            int key = tile * KEYS + i;
            copy4(shared + BIAS + ((tile & 3) * KEYS + i) * 4, bias + (key < n ? key : 0), key < n);
        }
        copies_commit();
        at.free.next();
        if (++at.begun - at.handed > LAG) {
            copies_wait<LAG>();
            hand_over(at);
        }
    }

    /// All chunks of a tile of K or V; of the last one only what is multiplied.
    template <int COLUMNS>
    __device__ __forceinline__ void fetch_tile(Progress& at, const f16* source, int columns, int stride,
                                               int tile, bool with_bias) const {
        constexpr int WHOLE = COLUMNS / CHUNK, REST = COLUMNS % CHUNK;
        for (int part = 0; part < WHOLE; part++)
            fetch<8>(at, source + part * CHUNK, columns - part * CHUNK, stride, tile, part == 0 && with_bias);
        if constexpr (REST > 0)
            fetch<REST / 8>(at, source + WHOLE * CHUNK, columns - WHOLE * CHUNK, stride, tile,
                            WHOLE == 0 && with_bias);
    }

    __device__ __forceinline__ void copy_all(const Problem& p) const {
        const f16* k =
            p.k + (PACKED ? (long long)blockIdx.z * n * WIDTH : (long long)blockIdx.z * p.keys.batch);
        const f16* v =
            p.v + (PACKED ? (long long)blockIdx.z * n * DV : (long long)blockIdx.z * p.values.batch);
        int width = PACKED ? WIDTH : p.width, columns = PACKED ? DV : p.columns;
        int key_row = PACKED ? WIDTH : p.keys.row, value_row = PACKED ? DV : p.values.row;
        Progress at = {{0, 0}, {0, 0}, 0, 0};
        for (int tile = first; tile <= end && first < end; tile++) {
            if (tile < end) fetch_tile<WIDTH>(at, k, width, key_row, tile, bias);
            if (tile > first) fetch_tile<DV>(at, v, columns, value_row, tile - 1, false);
        }
        hand_over_all(at);
    }

    // ---- a computing warpgroup ----

    float scores[KEYS / 2];
    float acc_o[DV / 2];
    u32 weights[KEYS / 16][4];
    float row_max[2], row_sum[2], scale[2];  // of rows lane / 4 and lane / 4 + 8 of the warp's 16
    Cursor at;

    __device__ __forceinline__ void await(const Cursor& c) const {
        barrier_wait(shared + FULL + c.slot * 8, c.turn);
    }

    /// The warp's lanes are done with the slots: with the products, which all of them waited for,
    /// and with the bias, which each reads for itself.
    __device__ __forceinline__ void release(Cursor& from, int count) const {
        warp_barrier();
        for (int i = 0; i < count; i++) {
            if (lane == 0) barrier_arrive(shared + EMPTY + from.slot * 8);
            from.next();
        }
    }

    /// Starts the scores at the bias where there is one; says whether they must be added to.
    __device__ __forceinline__ int start_scores(int tile) {
        bool ragged = (tile + 1) * KEYS > n;
        if (!bias && !ragged) return 0;
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int column = j * 8 + (lane & 3) * 2 + i;
                float start = bias ? shared_float(shared + BIAS + ((tile & 3) * KEYS + column) * 4) : 0.0f;
                if (tile * KEYS + column >= n) start = NEVER;
                scores[j * 4 + i] = scores[j * 4 + i + 2] = start;
            }
        }
        return 1;
    }

    /// Nothing but `wgmma` between fence and commit: control flow there makes the compiler
    /// serialise them.
    __device__ __forceinline__ void issue_scores(u32 queries, int add) {
        u64 b[K_CHUNKS];
#pragma unroll
        for (int part = 0; part < K_CHUNKS; part++) {
            await(at);
            b[part] = descriptor(shared + RING + at.slot * STAGE_BYTES);
            at.next();
        }
        settle(scores);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < WIDTH / 16; step++) {
            u64 a = descriptor(queries + step / 4 * QUERIES * 128);
            wgmma_ss(scores, a + step % 4 * 2, b[step / 4] + step % 4 * 2, step > 0 ? 1 : add);
        }
        wgmma_commit();
    }

    __device__ __forceinline__ void issue_values() {
        u64 b = descriptor(shared + RING + at.slot * STAGE_BYTES, STAGE_BYTES);
#pragma unroll
        for (int part = 0; part < V_CHUNKS; part++) {
            await(at);
            at.next();
        }
        settle(acc_o);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < KEYS / 16; step++) wgmma_rs(acc_o, weights[step], b + step * 128);
        wgmma_commit();
    }

    /// Scores to weights 2^(s log2 e - row_max), still f32 and in place; true if results must be
    /// rescaled by `scale`.
    __device__ __forceinline__ bool online_softmax() {
        float high[2] = {NOTHING, NOTHING};
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++) {
            high[0] = fmaxf(high[0], fmaxf(scores[j * 4], scores[j * 4 + 1]));
            high[1] = fmaxf(high[1], fmaxf(scores[j * 4 + 2], scores[j * 4 + 3]));
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            high[h] = fmaxf(high[h], from_lane(high[h], 1));
            high[h] = fmaxf(high[h], from_lane(high[h], 2)) * LOG2E;
        }
        bool rescale = any_lane(high[0] > row_max[0] + HEADROOM || high[1] > row_max[1] + HEADROOM);
        if (rescale) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float next = fmaxf(row_max[h], high[h]);
                scale[h] = power_of_two(row_max[h] - next);
                row_max[h] = next;
                row_sum[h] *= scale[h];
            }
        }
#pragma unroll
        for (int j = 0; j < KEYS / 2; j++) {
            int h = j / 2 & 1;
            scores[j] = power_of_two(fmaf(scores[j], LOG2E, -row_max[h]));
            row_sum[h] += scores[j];
        }
        return rescale;
    }

    __device__ __forceinline__ void pack_weights(bool rescale) {
        if (rescale) {
#pragma unroll
            for (int j = 0; j < DV / 2; j++) acc_o[j] *= scale[j / 2 & 1];
        }
#pragma unroll
        for (int step = 0; step < KEYS / 16; step++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                weights[step][i] = pack(scores[step * 8 + i * 2], scores[step * 8 + i * 2 + 1]);
    }

    /// Waits for the tile's first chunk (the bias comes with it), then for this warpgroup's turn,
    /// and issues the scores.
    __device__ __forceinline__ void begin_tile(int tile, u32 queries, int turn) {
        await(at);
        int add = start_scores(tile);
        if (TURNS) named_barrier_sync(turn);
        issue_scores(queries, add);
    }

    __device__ __forceinline__ void multiply_all(int group) {
        u32 queries = shared + group * 64 * 128;
        bool closes = group + 1 == CONSUMERS;
        int mine = 1 + group, other = closes ? 1 : mine + 1;  // named barrier 0 is the block's
        if (first >= end) return;
        at = Cursor{0, 0};
        if (TURNS && closes) named_barrier_arrive(other);
        Cursor keys = at;
        begin_tile(first, queries, mine);
        if (TURNS && (!closes || first + 1 < end)) named_barrier_arrive(other);
        wgmma_wait<0>();
        settle(scores);
        release(keys, K_CHUNKS);
        pack_weights(online_softmax());
        for (int tile = first + 1; tile < end; tile++) {
            keys = at;
            begin_tile(tile, queries, mine);
            Cursor values = at;
            issue_values();
            if (TURNS && (!closes || tile + 1 < end)) named_barrier_arrive(other);
            wgmma_wait<1>();
            settle(scores);
            release(keys, K_CHUNKS);
            bool rescale = online_softmax();
            wgmma_wait<0>();
            settle(acc_o);
            release(values, V_CHUNKS);
            pack_weights(rescale);
        }
        issue_values();
        wgmma_wait<0>();
        settle(acc_o);
    }

    __device__ __forceinline__ void run(const Problem& p, u32 shared_base) {
        shared = shared_base;
        thread = threadIdx.x & 127;
        lane = threadIdx.x & 31;
        n = p.n;
        bias = p.bias;
        Tiles tiles(n, KEYS, blockIdx.y, gridDim.y);
        first = tiles.first, end = tiles.end;

        if (threadIdx.x < STAGES) {
            barrier_create(shared + FULL + threadIdx.x * 8, 128);
            barrier_create(shared + EMPTY + threadIdx.x * 8, CONSUMERS * 4);
        }
        dependent_wait();
        dependent_launch();
        fetch_queries<WIDTH, QUERIES, THREADS>(p, shared);
        copies_wait<0>();
        copies_publish();
        block_barrier();

        // 65536 registers: those that the copying warpgroup does not need go to the others.
        if (threadIdx.x < 128) {
            registers_release<CONSUMERS == 2 ? 40 : 32>();
            copy_all(p);
        } else {
            registers_claim<CONSUMERS == 2 ? 232 : 160>();
            int group = (threadIdx.x >> 7) - 1;
#pragma unroll
            for (int h = 0; h < 2; h++) row_max[h] = NOTHING, row_sum[h] = 0.0f, scale[h] = 1.0f;
#pragma unroll
            for (int j = 0; j < DV / 2; j++) acc_o[j] = 0.0f;
            multiply_all(group);
            int row = blockIdx.x * QUERIES + group * 64 + (thread >> 5) * 16 + (lane >> 2);
#pragma unroll
            for (int h = 0; h < 2; h++)
                store_row<DV, PACKED>(p, row + h * 8, lane, row_max[h], row_sum[h],
                              [&](int j, int i) { return acc_o[j * 4 + 2 * h + i]; });
        }
    }
};

// ---- instances ----

// The launch of a kernel, for the host (scripts/kernels.py).
#define LAUNCH(NAME, WIDTH, CONSUMERS, KEYS, DV, STAGES, LAG, TURNS)                                         \
    typedef Attention<WIDTH, CONSUMERS, KEYS, DV, STAGES, LAG, TURNS> NAME##_instance;                       \
    [[maybe_unused]] constexpr int NAME##_queries = NAME##_instance::QUERIES;                                \
    [[maybe_unused]] constexpr int NAME##_shared = NAME##_instance::SHARED;                                  \
    [[maybe_unused]] constexpr int NAME##_width = WIDTH, NAME##_columns = DV, NAME##_keys = KEYS;

#define ATTENTION_HOPPER(NAME, WIDTH, CONSUMERS, KEYS, DV, STAGES, LAG, TURNS)                               \
    LAUNCH(NAME, WIDTH, CONSUMERS, KEYS, DV, STAGES, LAG, TURNS)                                             \
    extern "C" __global__ void __launch_bounds__((1 + CONSUMERS) * 128, 1)                                   \
        NAME(const f16* q, const f16* k, const f16* v, const float* bias, f16* out, float* partial,          \
             float* stats, int m, int n) {                                                                   \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        NAME##_instance attention;                                                                           \
        attention.run(Problem{q, k, v, bias, out, partial, stats, m, n, WIDTH, DV, {WIDTH, m * WIDTH},       \
                              {WIDTH, n * WIDTH}, {DV, n * DV}, {DV, m * DV}}, shared_address(memory));      \
    }
// Heads of `depth` columns, which lie where the launch says, in elements.
#define HEADS_HOPPER(NAME, WIDTH, CONSUMERS, KEYS, DV, STAGES, LAG, TURNS)                                   \
    LAUNCH(NAME, WIDTH, CONSUMERS, KEYS, DV, STAGES, LAG, TURNS)                                             \
    extern "C" __global__ void __launch_bounds__((1 + CONSUMERS) * 128, 1)                                   \
        NAME(const f16* q, const f16* k, const f16* v, const float* bias, f16* out, float* partial,          \
             float* stats, int m, int n, int depth, int row, int query_head, int key_head, int out_row,      \
             int out_head) {                                                                                 \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        NAME##_instance attention;                                                                           \
        attention.run(Problem{q, k, v, bias, out, partial, stats, m, n, depth, depth, {row, query_head},     \
                              {row, key_head}, {row, key_head}, {out_row, out_head}},                        \
                      shared_address(memory));                                                               \
    }

#ifndef ATTENTION_NO_INSTANCES
ATTENTION_HOPPER(attention_cross_hopper, 256, 2, 128, 64, 10, 2, true)
ATTENTION_HOPPER(attention_self_hopper, 256, 2, 64, 256, 16, 4, true)
HEADS_HOPPER(attention_heads_64_hopper, 64, 2, 128, 64, 7, 2, true)
// Every other chunk is narrow: twice as many in flight are as many bytes.
HEADS_HOPPER(attention_heads_80_hopper, 80, 2, 128, 80, 12, 4, true)
HEADS_HOPPER(attention_heads_96_hopper, 96, 2, 128, 96, 12, 4, true)
HEADS_HOPPER(attention_heads_128_hopper, 128, 2, 128, 128, 12, 2, true)
#endif
