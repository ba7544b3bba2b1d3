/*!
The attention of attention.cu within heads, for Hopper only (sm_90a): the same arguments, partial
results and masks. attention_cluster_hopper.cu has it by clusters; this one is for comparison.

| instance                   | WIDTH, DV | queries x keys | stages | shared bytes |
|----------------------------|-----------|----------------|--------|--------------|
| attention_heads_64_hopper  | 64, 64    | 128 x 128      | 7      | 133 232      |
| attention_heads_80_hopper  | 80, 80    | 128 x 128      | 12     | 231 616      |
| attention_heads_96_hopper  | 96, 96    | 128 x 128      | 12     | 231 616      |

384 threads: warpgroup 0 copies (40 registers a thread); each of the two others owns 64 queries and
multiplies with `wgmma` (232 registers, attention_hopper.cuh). The copying threads hand over chunks
by the ring's barriers.
*/

#include "ptx.cuh"
#include "attention.cuh"
#include "wgmma.cuh"
#include "attention_hopper.cuh"

// ---- attention ----

/// LAG: chunks under way before one is waited for and handed over.
template <int WIDTH_, int CONSUMERS_, int KEYS_, int DV_, int STAGES_, int LAG_, bool TURNS>
struct Attention
    : AttentionWarpgroup<Attention<WIDTH_, CONSUMERS_, KEYS_, DV_, STAGES_, LAG_, TURNS>, WIDTH_, CONSUMERS_,
                         KEYS_, DV_, STAGES_, query_bytes(WIDTH_, CONSUMERS_), 4 * KEYS_ * 4, TURNS> {
    typedef AttentionWarpgroup<Attention, WIDTH_, CONSUMERS_, KEYS_, DV_, STAGES_,
                               query_bytes(WIDTH_, CONSUMERS_), 4 * KEYS_ * 4, TURNS> Base;
    using typename Base::Cursor;
    using Base::WIDTH, Base::CONSUMERS, Base::KEYS, Base::DV, Base::PACKED, Base::STAGES, Base::THREADS,
        Base::QUERIES, Base::K_CHUNKS, Base::V_CHUNKS, Base::STAGE_BYTES, Base::RING, Base::FULL, Base::EMPTY;
    using Base::shared, Base::thread, Base::lane, Base::n, Base::first, Base::end, Base::bias, Base::scores;
    static constexpr int LAG = LAG_;
    static constexpr bool PEELED = true;
    static constexpr bool EAGER = false;
    static constexpr int BIAS = Base::BEHIND;  // offset of four tiles' biases
    static constexpr int SHARED = Base::RING_END;
    static_assert(LAG < STAGES, "ring");
    // The bias of tile t + 4 takes the place of tile t's, with a chunk whose slot was released
    // STAGES chunks before. Between the first chunks of these tiles there are 4 (K_CHUNKS +
    // V_CHUNKS), of tiles 0 and 4 (no V of a tile before the first) fewer.
    static_assert(STAGES <= 4 * K_CHUNKS + 3 * V_CHUNKS, "four bias buffers");

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
    /// Waits for the tile's first chunk (the bias comes with it), then for this warpgroup's turn,
    /// and issues the scores.
    __device__ __forceinline__ void begin_tile(int tile, u32 queries, int turn) {
        this->await(this->at);
        int add = start_scores(tile);
        if (TURNS) named_barrier_sync(turn);
        u64 b[K_CHUNKS];
        this->await_keys(b);
        this->issue_scores(queries, b, add);
    }

    __device__ __forceinline__ void finish_scores(int) const {}
    __device__ __forceinline__ void take_queries(int) const {}
    __device__ __forceinline__ void leave() const {}

    __device__ __forceinline__ void run(const Problem& p, u32 shared_base) {
        this->begin(p, shared_base);
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
            this->attend(group);
            this->store(p, group);
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
HEADS_HOPPER(attention_heads_64_hopper, 64, 2, 128, 64, 7, 2, true)
// Every other chunk is narrow: twice as many in flight are as many bytes.
HEADS_HOPPER(attention_heads_80_hopper, 80, 2, 128, 80, 12, 4, true)
HEADS_HOPPER(attention_heads_96_hopper, 96, 2, 128, 96, 12, 4, true)
#endif
