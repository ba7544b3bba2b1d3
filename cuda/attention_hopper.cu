/*!
The attention of attention.cu for Hopper alone (sm_90a): the same arguments, partial results and masks, other instructions.

Warpgroup 0 copies; each of the others owns 64 queries and multiplies with `wgmma`, scores and results in registers,
Q, K and V read from shared memory through descriptors (128-byte swizzle: the layout that attention.cu already uses).
Chunks of 64 columns pass through a ring of slots with a pair of barriers each ("full", "empty"), in the order of their use:
K of tile 0, then K of tile j and V of tile j - 1. Two or three warpgroups take turns to issue products ("turn"), so that
one weighs its scores while another multiplies, as FlashAttention-3 (Shah et al., 2024) does.
*/

#include "attention.cuh"
#include "wgmma.cuh"

// ---- attention ----

template <int WIDTH_, int CONSUMERS_, int KEYS_, int DV_, int SLOTS_, int LAG_, bool TURNS>
struct Attention {
    static constexpr int WIDTH = WIDTH_;          // columns of Q and K
    static constexpr int CONSUMERS = CONSUMERS_;  // warpgroups that multiply
    static constexpr int KEYS = KEYS_;            // keys of a tile
    static constexpr int DV = DV_;                // columns of V
    static constexpr bool PACKED = WIDTH == PACKED_WIDTH;
    static constexpr int SLOTS = SLOTS_;          // chunks the ring holds
    static constexpr int LAG = LAG_;              // chunks under way before one is waited for and handed over
    // TURNS: whether warpgroups issue their products in turn, or whenever they can.

    static constexpr int THREADS = (1 + CONSUMERS) * 128;
    static constexpr int QUERIES = CONSUMERS * 64;
    static constexpr int K_CHUNKS = (WIDTH + CHUNK - 1) / CHUNK;
    static constexpr int V_CHUNKS = (DV + CHUNK - 1) / CHUNK;
    static constexpr int SLOT_BYTES = KEYS * 128;
    static constexpr int RING = QUERIES * K_CHUNKS * 128;   // offset of the ring: after Q
    static constexpr int BIAS = RING + SLOTS * SLOT_BYTES;  // offset of four tiles' biases
    static constexpr int FULL = BIAS + 4 * KEYS * 4;        // offsets of the barriers
    static constexpr int EMPTY = FULL + SLOTS * 8;
    static constexpr int SHARED = EMPTY + SLOTS * 8;
    // Before a K slot is free again its reader may need all of that K and the V before it.
    static_assert(SLOTS >= K_CHUNKS + V_CHUNKS && LAG < SLOTS, "ring");
    // The bias of tile t + 4 takes the place of tile t's, with a chunk whose slot was released SLOTS chunks before. Between the
    // first chunks of these tiles there are 4 (K_CHUNKS + V_CHUNKS), of tiles 0 and 4 (no V of a tile before the first) fewer.
    static_assert(SLOTS <= 4 * K_CHUNKS + 3 * V_CHUNKS, "four bias buffers");
    // One product reads all of V, DV columns wide: of the last chunk, which is not always whole, the first ones (the descriptor's
    // leading offset leads from 64 columns to the next ones, wherever N ends). Its chunks must follow each other in the ring. With
    // as many chunks of K they do.
    static_assert(V_CHUNKS == 1 || (V_CHUNKS == K_CHUNKS && SLOTS % V_CHUNKS == 0), "chunks of V in a row");
    static_assert(WIDTH % 16 == 0 && DV % 16 == 0 && KEYS % 16 == 0 && SLOTS <= THREADS, "columns, keys, barriers");

    /// A place in the ring and how often (modulo 2) it was passed.
    struct Cursor {
        int slot;
        u32 turn;
        __device__ __forceinline__ void next() {
            if (++slot == SLOTS) slot = 0, turn ^= 1;
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
    __device__ __forceinline__ void fetch(Progress& at, const f16* source, int columns, int stride, int tile, bool with_bias) const {
        constexpr int LINES = 128 / UNITS;  // that the warpgroup copies at once
        static_assert(128 % UNITS == 0 && LINES % 8 == 0 && KEYS % LINES == 0, "whole rows of the swizzle's pattern");
        u32 empty = shared + EMPTY + at.free.slot * 8, parity = at.free.turn ^ 1;
        if (at.begun >= SLOTS && !barrier_ready(empty, parity)) {
            hand_over_all(at);  // nothing better to do than to wait for what is under way
            barrier_wait(empty, parity);
        }
        int unit = (u32)thread % UNITS, line = (u32)thread / UNITS;
        bool inside = PACKED || unit * 8 < columns;
        u32 to = shared + RING + at.free.slot * SLOT_BYTES + line * 128 + ((unit ^ line) & 7) * 16;
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
    __device__ __forceinline__ void fetch_tile(Progress& at, const f16* source, int columns, int stride, int tile, bool with_bias) const {
        constexpr int WHOLE = COLUMNS / CHUNK, REST = COLUMNS % CHUNK;
        for (int part = 0; part < WHOLE; part++)
            fetch<8>(at, source + part * CHUNK, columns - part * CHUNK, stride, tile, part == 0 && with_bias);
        if constexpr (REST > 0) fetch<REST / 8>(at, source + WHOLE * CHUNK, columns - WHOLE * CHUNK, stride, tile, WHOLE == 0 && with_bias);
    }

    __device__ __forceinline__ void copy_all(const Problem& p) const {
        const f16* k = p.k + (PACKED ? (long long)blockIdx.z * n * WIDTH : (long long)blockIdx.z * p.keys.batch);
        const f16* v = p.v + (PACKED ? (long long)blockIdx.z * n * DV : (long long)blockIdx.z * p.values.batch);
        int width = PACKED ? WIDTH : p.width, columns = PACKED ? DV : p.columns;
        int key_row = PACKED ? WIDTH : p.keys.row, value_row = PACKED ? DV : p.values.row;
        Progress at = {{0, 0}, {0, 0}, 0, 0};
        for (int tile = first; tile <= end && first < end; tile++) {
            if (tile < end) fetch_tile<WIDTH>(at, k, width, key_row, tile, bias);
            if (tile > first) fetch_tile<DV>(at, v, columns, value_row, tile - 1, false);
        }
        hand_over_all(at);
    }

    // ---- a multiplying warpgroup ----

    float scores[KEYS / 2];
    float result[DV / 2];
    u32 weights[KEYS / 16][4];
    float top[2], sum[2], scale[2];  // of rows lane / 4 and lane / 4 + 8 of the warp's 16
    Cursor at;

    __device__ __forceinline__ void await(const Cursor& c) const { barrier_wait(shared + FULL + c.slot * 8, c.turn); }

    /// The warp's lanes are done with the slots: with the products, which all of them waited for, and with the bias, which each reads for
    /// itself.
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

    /// Nothing but products between the beginning and the commit: control flow there makes the compiler serialise them.
    __device__ __forceinline__ void issue_scores(u32 queries, int add) {
        u64 b[K_CHUNKS];
#pragma unroll
        for (int part = 0; part < K_CHUNKS; part++) {
            await(at);
            b[part] = descriptor(shared + RING + at.slot * SLOT_BYTES);
            at.next();
        }
        settle(scores);
        products_begin();
#pragma unroll
        for (int step = 0; step < WIDTH / 16; step++) {
            u64 a = descriptor(queries + step / 4 * QUERIES * 128);
            multiply_keys_async(scores, a + step % 4 * 2, b[step / 4] + step % 4 * 2, step > 0 ? 1 : add);
        }
        products_commit();
    }

    __device__ __forceinline__ void issue_values() {
        u64 b = descriptor(shared + RING + at.slot * SLOT_BYTES, SLOT_BYTES);
#pragma unroll
        for (int part = 0; part < V_CHUNKS; part++) {
            await(at);
            at.next();
        }
        settle(result);
        products_begin();
#pragma unroll
        for (int step = 0; step < KEYS / 16; step++) multiply_values_async(result, weights[step], b + step * 128);
        products_commit();
    }

    /// Scores to weights 2^(s log2 e - top), still f32 and in place; true if results must be rescaled by `scale`.
    __device__ __forceinline__ bool weigh() {
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
        bool rescale = any_lane(high[0] > top[0] + HEADROOM || high[1] > top[1] + HEADROOM);
        if (rescale) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float next = fmaxf(top[h], high[h]);
                scale[h] = power_of_two(top[h] - next);
                top[h] = next;
                sum[h] *= scale[h];
            }
        }
#pragma unroll
        for (int j = 0; j < KEYS / 2; j++) {
            int h = j / 2 & 1;
            scores[j] = power_of_two(fmaf(scores[j], LOG2E, -top[h]));
            sum[h] += scores[j];
        }
        return rescale;
    }

    __device__ __forceinline__ void pack_weights(bool rescale) {
        if (rescale) {
#pragma unroll
            for (int j = 0; j < DV / 2; j++) result[j] *= scale[j / 2 & 1];
        }
#pragma unroll
        for (int step = 0; step < KEYS / 16; step++)
#pragma unroll
            for (int i = 0; i < 4; i++) weights[step][i] = pack(scores[step * 8 + i * 2], scores[step * 8 + i * 2 + 1]);
    }

    /// Waits for the tile's first chunk (the bias comes with it), then for this warpgroup's turn, and issues the scores.
    __device__ __forceinline__ void begin_tile(int tile, u32 queries, int turn) {
        await(at);
        int add = start_scores(tile);
        if (TURNS) turn_wait(turn);
        issue_scores(queries, add);
    }

    __device__ __forceinline__ void multiply_all(int group) {
        u32 queries = shared + group * 64 * 128;
        bool closes = group + 1 == CONSUMERS;
        int mine = 1 + group, other = closes ? 1 : mine + 1;  // named barrier 0 is the block's
        if (first >= end) return;
        at = Cursor{0, 0};
        if (TURNS && closes) turn_give(other);
        Cursor keys = at;
        begin_tile(first, queries, mine);
        if (TURNS && (!closes || first + 1 < end)) turn_give(other);
        products_wait<0>();
        settle(scores);
        release(keys, K_CHUNKS);
        pack_weights(weigh());
        for (int tile = first + 1; tile < end; tile++) {
            keys = at;
            begin_tile(tile, queries, mine);
            Cursor values = at;
            issue_values();
            if (TURNS && (!closes || tile + 1 < end)) turn_give(other);
            products_wait<1>();
            settle(scores);
            release(keys, K_CHUNKS);
            bool rescale = weigh();
            products_wait<0>();
            settle(result);
            release(values, V_CHUNKS);
            pack_weights(rescale);
        }
        issue_values();
        products_wait<0>();
        settle(result);
    }

    __device__ __forceinline__ void run(const Problem& p, u32 shared_base) {
        shared = shared_base;
        thread = threadIdx.x & 127;
        lane = threadIdx.x & 31;
        n = p.n;
        bias = p.bias;
        Tiles tiles(n, KEYS, blockIdx.y, gridDim.y);
        first = tiles.first, end = tiles.end;

        fetch_queries<WIDTH, QUERIES, THREADS>(p, shared);
        if (threadIdx.x < SLOTS) {
            barrier_create(shared + FULL + threadIdx.x * 8, 128);
            barrier_create(shared + EMPTY + threadIdx.x * 8, CONSUMERS * 4);
        }
        copies_wait<0>();
        copies_publish();
        block_barrier();

        // 65536 registers: what the copying warpgroup does not need goes to the others.
        if (threadIdx.x < 128) {
            registers_release<CONSUMERS == 2 ? 40 : 32>();
            copy_all(p);
        } else {
            registers_claim<CONSUMERS == 2 ? 232 : 160>();
            int group = (threadIdx.x >> 7) - 1;
#pragma unroll
            for (int h = 0; h < 2; h++) top[h] = NOTHING, sum[h] = 0.0f, scale[h] = 1.0f;
#pragma unroll
            for (int j = 0; j < DV / 2; j++) result[j] = 0.0f;
            multiply_all(group);
            int row = blockIdx.x * QUERIES + group * 64 + (thread >> 5) * 16 + (lane >> 2);
#pragma unroll
            for (int h = 0; h < 2; h++)
                store_row<DV, PACKED>(p, row + h * 8, lane, top[h], sum[h],
                              [&](int j, int i) { return result[j * 4 + 2 * h + i]; });
        }
    }
};

// ---- instances ----

#define ATTENTION_HOPPER(NAME, WIDTH, CONSUMERS, KEYS, DV, SLOTS, LAG, TURNS)                                          \
    extern "C" __global__ void __launch_bounds__((1 + CONSUMERS) * 128, 1)                                             \
        NAME(const f16* q, const f16* k, const f16* v, const float* bias, f16* out, float* partial, float* stats,      \
             int m, int n) {                                                                                           \
        extern __shared__ __align__(1024) unsigned char memory[];                                                      \
        Attention<WIDTH, CONSUMERS, KEYS, DV, SLOTS, LAG, TURNS> attention;                                            \
        attention.run(Problem{q, k, v, bias, out, partial, stats, m, n, WIDTH, DV, {WIDTH, m * WIDTH},                 \
                              {WIDTH, n * WIDTH}, {DV, n * DV}, {DV, m * DV}}, shared_address(memory));                \
    }
// Heads of `depth` columns, which lie where the launch says, in elements.
#define HEADS_HOPPER(NAME, WIDTH, CONSUMERS, KEYS, DV, SLOTS, LAG, TURNS)                                              \
    extern "C" __global__ void __launch_bounds__((1 + CONSUMERS) * 128, 1)                                             \
        NAME(const f16* q, const f16* k, const f16* v, const float* bias, f16* out, float* partial, float* stats,      \
             int m, int n, int depth, int row, int query_head, int key_head, int out_row, int out_head) {              \
        extern __shared__ __align__(1024) unsigned char memory[];                                                      \
        Attention<WIDTH, CONSUMERS, KEYS, DV, SLOTS, LAG, TURNS> attention;                                            \
        attention.run(Problem{q, k, v, bias, out, partial, stats, m, n, depth, depth, {row, query_head},               \
                              {row, key_head}, {row, key_head}, {out_row, out_head}}, shared_address(memory));         \
    }

#ifndef ATTENTION_NO_INSTANCES
ATTENTION_HOPPER(attention_cross_hopper, 256, 2, 128, 64, 10, 2, true)
ATTENTION_HOPPER(attention_self_hopper, 256, 2, 64, 256, 16, 4, true)
HEADS_HOPPER(attention_heads_64_hopper, 64, 2, 128, 64, 7, 2, true)
// Every other chunk is narrow: twice as many under way are as many bytes.
HEADS_HOPPER(attention_heads_80_hopper, 80, 2, 128, 80, 12, 4, true)
HEADS_HOPPER(attention_heads_96_hopper, 96, 2, 128, 96, 12, 4, true)
HEADS_HOPPER(attention_heads_128_hopper, 128, 2, 128, 128, 12, 2, true)
#endif
