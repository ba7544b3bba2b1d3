/*!
Fused attention, head by head: O = softmax(Q K^T + bias) V, from sm 80 on.

Q `[batch, m, WIDTH]` f16 (scaled by 1/sqrt(columns)), K `[batch, n, WIDTH]` f16, V `[batch, n, DV]`
f16, bias `[n]` f32 added to every row of scores, or null; O `[batch, m, DV]` f16. The scores stay
on the chip.

| instance            | WIDTH, DV | queries x keys | stages | threads | shared bytes | registers |
|---------------------|-----------|----------------|--------|---------|--------------|-----------|
| attention_cross     | 256, 64   | 128 x 32       | 2 x 4  | 256     | 98 816       | 237       |
| attention_self      | 256, 256  | 128 x 64       | 4      | 256     | 98 816       | 227       |
| attention_heads_64  | 64, 64    | 128 x 64       | 4      | 128     | 49 664       | 218       |
| attention_heads_80  | 80, 80    | 128 x 32       | 4      | 128     | 49 408       | 179       |
| attention_heads_96  | 96, 96    | 128 x 32       | 4      | 128     | 49 408       | 202       |

Memory attention: WIDTH is 256, DV is 64 (V is the memory itself; the output projection absorbs the
value projection) or 256 (self-attention), and the batch its objects. An encoder's global attention:
the batch is its heads, which have WIDTH columns or fewer, a multiple of 8; shared memory holds
zeros in the missing columns. Heads lie where `row` and `head` say: as tensors of their own, or side
by side in tokens, `[tokens, q|k|v, heads, depth]`.

A block owns `WARPS * ROW_BLOCKS * 16` queries and walks over tiles of keys with the online softmax
of Milakov and Gimelshein (2018), as flash attention does. A tile is cut into chunks of 64 columns
(128 bytes a row): WIDTH / 64 of K, then DV / 64 of V, the last of each narrower if 64 is no
divisor. Chunks pass through a ring in shared memory filled by `cp.async`; 16-byte units are
swizzled by `row mod 8`, so that `ldmatrix` has no bank conflicts. Matmuls are `mma.sync.m16n8k16`
with f32 accumulators: one PTX for Ampere, Ada, Hopper and Blackwell.

The limit: a warp of 16 queries reads a byte of K from shared memory for 8 multiply-adds, at 128
bytes a clock just the tensor cores' rate on GA100; warps of 32 queries (ROW_BLOCKS = 2) halve that
traffic.

attention_cross has two groups of four warps (GROUPS; one in a launch of 128 threads) with the same
queries, which take the tiles in turn, each with its own ring, barriers and softmax; the end adds up
what they found. So each scheduler has two warps: one multiplies while the other computes its
softmax. By count, of sm 80 and 87 (1024 multiply-adds a clock), for the 32 keys of a group's tile:
tensor cores 1280 clocks (of sm 86 and 89: 5120), shared memory 896, softmax some 400.

Grid: `x` = blocks of queries, `y` = splits of the keys, `z` = batch. With more than one split the
blocks write unnormalised f32 partial results, and `attention_combine_*` combines them.
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "attention_gather.cuh"

// ---- attention ----

template <int WIDTH_, int WARPS_, int ROW_BLOCKS_, int KEYS_, int DV_, int STAGES_, int GROUP_,
          int Q_REGISTERS_, int GROUPS_ = 1>
struct Attention {
    static constexpr int WIDTH = WIDTH_;            // columns of Q and K
    static constexpr int WARPS = WARPS_;            // warps of a block, or of each of its groups
    static constexpr int ROW_BLOCKS = ROW_BLOCKS_;  // blocks of 16 queries a warp
    static constexpr int KEYS = KEYS_;              // keys of a tile
    static constexpr int DV = DV_;                  // columns of V
    static constexpr int STAGES = STAGES_;            // chunks the ring holds
    static constexpr int GROUP = GROUP_;            // chunks between two barriers
    static constexpr int Q_REGISTERS = Q_REGISTERS_;  // of WIDTH / 16 column blocks of Q, those kept
    // Groups of warps that take the tiles in turn, at most: the launch says how many, by its threads.
    static constexpr int GROUPS = GROUPS_;
    static constexpr int GROUP_THREADS = WARPS * 32, THREADS = GROUPS * GROUP_THREADS;
    static constexpr int QUERIES = WARPS * ROW_BLOCKS * 16;
    static constexpr int K_CHUNKS = (WIDTH + CHUNK - 1) / CHUNK;
    static constexpr int CHUNKS = K_CHUNKS + (DV + CHUNK - 1) / CHUNK;
    static constexpr int STAGE_BYTES = KEYS * 128;
    // Behind Q each group's ring and the biases of two of its tiles.
    static constexpr int RING = QUERIES * K_CHUNKS * 128, BIAS = RING + STAGES * STAGE_BYTES;
    static constexpr int GROUP_BYTES = BIAS + 2 * KEYS * 4 - RING;
    static constexpr int SHARED = RING + GROUPS * GROUP_BYTES;
    // Chunks in flight beyond the current group.
    static constexpr int AHEAD = STAGES - GROUP;
    static_assert(STAGES % GROUP == 0 && CHUNKS % GROUP == 0 && STAGES >= 2 * GROUP, "ring");
    // The bias of tile t + 2 takes the place of tile t's. It is fetched behind the barrier before
    // part 2 CHUNKS - AHEAD of tile t: from the second group on, all threads have started that
    // tile's scores by then.
    static_assert(AHEAD <= 2 * CHUNKS - GROUP, "two bias buffers");
    static_assert(KEYS <= GROUP_THREADS && KEYS % (GROUP_THREADS / 8) == 0 && KEYS % 16 == 0,
                  "a thread copies one bias, and whole rows of keys");
    static_assert(GROUPS == 1 || (GROUPS == 2 && ROW_BLOCKS * (4 + DV / 2) * GROUP_THREADS * 4 <= RING &&
                                  GROUP_BYTES % 128 == 0),
                  "what the second group has found takes the place of Q");
    static_assert(WIDTH % 16 == 0 && DV % 16 == 0 && Q_REGISTERS <= WIDTH / 16, "columns");

    u32 shared;
    int thread, lane;   // of the group of warps, of the warp
    int n, first, end;  // keys, this group's first tile and the end of the block's
    int width, columns, key_row, value_row;
    const f16 *k, *v;
    const float* bias;

    /// Groups of the block, and this thread's.
    __device__ __forceinline__ static int groups() { return GROUPS == 1 ? 1 : blockDim.x / GROUP_THREADS; }
    __device__ __forceinline__ static int group() { return GROUPS == 1 ? 0 : threadIdx.x / GROUP_THREADS; }
    /// Waits for all threads that read the same ring.
    __device__ __forceinline__ static void ring_barrier() {
        if constexpr (GROUPS == 1) block_barrier();
        else group_barrier<GROUP_THREADS>(1 + group());
    }
    /// The group's ring, and the bias of a key: its tiles take two places in turn.
    __device__ __forceinline__ u32 ring() const { return shared + RING + (u32)(group() * GROUP_BYTES); }
    __device__ __forceinline__ u32 bias_at(int tile, int key) const {
        int odd = (GROUPS == 1 ? tile : tile >> (groups() - 1)) & 1;
        return shared + BIAS + (u32)(group() * GROUP_BYTES) + (u32)(odd * KEYS + key) * 4;
    }

    /// Starts the copies of chunk INDEX (counted from the start of tile `tile`) into the ring at
    /// `slot`.
    template <int INDEX>
    __device__ __forceinline__ void fetch(int tile, u32 slot) const {
        constexpr int PART = INDEX % CHUNKS;
        constexpr bool OF_KEYS = PART < K_CHUNKS;
        constexpr int FIRST = (OF_KEYS ? PART : PART - K_CHUNKS) * CHUNK,
                      UNITS = units_of<OF_KEYS ? WIDTH : DV, FIRST>();
        tile += INDEX / CHUNKS * groups();
        if (tile >= end) return;
        const f16* source = OF_KEYS ? k : v;
        int unit = thread & 7, stride = OF_KEYS ? key_row : value_row;
        bool inside = FIRST + unit * 8 < (OF_KEYS ? width : columns);
        u32 to = ring() + slot + (u32)(thread >> 3) * 128 + (u32)((unit ^ (thread >> 3)) & 7) * 16;
        if (UNITS == 8 || unit < UNITS) {
#pragma unroll
            for (int row = 0; row < KEYS; row += GROUP_THREADS / 8) {
                int key = tile * KEYS + row + (thread >> 3);
                bool valid = inside && key < n;
                copy16(to + row * 128, source + (valid ? (long long)key * stride + (FIRST + unit * 8) : 0),
                       valid);
            }
        }
        if (PART == 0 && bias && thread < KEYS) {
            int key = tile * KEYS + thread;
            copy4(bias_at(tile, thread), bias + (key < n ? key : 0), key < n);
        }
    }

    /// A group of GROUP chunks from chunk INDEX on, into consecutive slots.
    template <int INDEX, int DONE = 0>
    __device__ __forceinline__ void fetch_group(int tile, u32 slot) const {
        if constexpr (DONE < GROUP) {
            fetch<INDEX + DONE>(tile, slot + DONE * STAGE_BYTES);
            fetch_group<INDEX, DONE + 1>(tile, slot);
        } else {
            copies_commit();
        }
    }
    template <int INDEX = 0>
    __device__ __forceinline__ void fetch_first() const {
        if constexpr (INDEX < AHEAD) {
            fetch_group<INDEX>(first, INDEX * STAGE_BYTES);
            fetch_first<INDEX + GROUP>();
        }
    }

    float scores[ROW_BLOCKS][KEYS / 8][4];
    float acc_o[ROW_BLOCKS][DV / 8][4];
    float row_max[ROW_BLOCKS][2], row_sum[ROW_BLOCKS][2];  // of rows lane / 4 and lane / 4 + 8
    u32 weights[ROW_BLOCKS][KEYS / 16][4];
    u32 kept[Q_REGISTERS > 0 ? Q_REGISTERS : 1][ROW_BLOCKS][4];
    u32 q_rows, k_rows, v_rows;  // this lane's addresses for ldmatrix, at column block 0

    __device__ __forceinline__ void load_queries(u32 (&q)[ROW_BLOCKS][4], int block) const {
        u32 address = (q_rows ^ (u32)((block & 3) * 32)) + (u32)(block >> 2) * (QUERIES * 128);
#pragma unroll
        for (int r = 0; r < ROW_BLOCKS; r++) load_matrices(q[r], address + r * 2048);
    }

    /// Scores start at the bias, so that adding it costs nothing.
    __device__ __forceinline__ void start_scores(int tile) {
        bool ragged = (tile + 1) * KEYS > n;
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int column = j * 8 + (lane & 3) * 2 + i;
                float start = bias ? load_shared_float(bias_at(tile, column)) : 0.0f;
                if (ragged && tile * KEYS + column >= n) start = NEVER;
#pragma unroll
                for (int r = 0; r < ROW_BLOCKS; r++) scores[r][j][i] = scores[r][j][i + 2] = start;
            }
        }
    }

    template <int PART>
    __device__ __forceinline__ void multiply_keys(u32 slot) {
#pragma unroll
        for (int step = 0; step < units_of<WIDTH, PART * CHUNK>() / 2; step++) {
            constexpr int BASE = PART * 4;
            u32 q[ROW_BLOCKS][4];
            if (BASE + step >= Q_REGISTERS) load_queries(q, BASE + step);
            u32 address = (k_rows ^ (u32)(step * 32)) + slot;
#pragma unroll
            for (int j = 0; j < KEYS / 16; j++) {
                u32 b[4];
                load_matrices(b, address + j * 2048);
#pragma unroll
                for (int r = 0; r < ROW_BLOCKS; r++) {
                    const u32(&a)[4] = BASE + step < Q_REGISTERS
                                           ? kept[(BASE + step) % (Q_REGISTERS > 0 ? Q_REGISTERS : 1)][r]
                                           : q[r];
                    multiply_add(scores[r][2 * j], a, b[0], b[1]);
                    multiply_add(scores[r][2 * j + 1], a, b[2], b[3]);
                }
            }
        }
    }

    /// Scores to weights 2^(s log2 e - row_max), whose maxima may lag by HEADROOM (`raise_maxima`).
    __device__ __forceinline__ void online_softmax() {
#pragma unroll
        for (int r = 0; r < ROW_BLOCKS; r++) {
            float high[2] = {NOTHING, NOTHING};
#pragma unroll
            for (int j = 0; j < KEYS / 8; j++) {
                high[0] = fmaxf(high[0], fmaxf(scores[r][j][0], scores[r][j][1]));
                high[1] = fmaxf(high[1], fmaxf(scores[r][j][2], scores[r][j][3]));
            }
#pragma unroll
            for (int h = 0; h < 2; h++) high[h] = most_of_lanes<1, 4>(high[h]) * LOG2E;
            if (any_lane(high[0] > row_max[r][0] + HEADROOM || high[1] > row_max[r][1] + HEADROOM)) {
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    float scale = raise_maximum(high[h], row_max[r][h], row_sum[r][h]);
#pragma unroll
                    for (int j = 0; j < DV / 8; j++)
                        acc_o[r][j][2 * h] *= scale, acc_o[r][j][2 * h + 1] *= scale;
                }
            }
#pragma unroll
            for (int j = 0; j < KEYS / 8; j++) {
#pragma unroll
                for (int h = 0; h < 2; h++)
                    weights[r][j / 2][(j & 1) * 2 + h] =
                        weights_of(scores[r][j], h, row_max[r][h], row_sum[r][h]);
            }
        }
    }

    template <int PART>
    __device__ __forceinline__ void multiply_values(u32 slot) {
#pragma unroll
        for (int step = 0; step < KEYS / 16; step++) {
#pragma unroll
            for (int j = 0; j < units_of<DV, PART * CHUNK>() / 2; j++) {
                u32 b[4];
                load_matrices_transposed(b, (v_rows ^ (u32)(j * 32)) + slot + step * 2048);
#pragma unroll
                for (int r = 0; r < ROW_BLOCKS; r++) {
                    multiply_add(acc_o[r][PART * 8 + 2 * j], weights[r][step], b[0], b[1]);
                    multiply_add(acc_o[r][PART * 8 + 2 * j + 1], weights[r][step], b[2], b[3]);
                }
            }
        }
    }

    /// One tile, chunk after chunk; `slot` is the ring offset of the current chunk.
    template <int PART = 0>
    __device__ __forceinline__ void walk(int tile, u32& slot) {
        if constexpr (PART < CHUNKS) {
            if constexpr (PART % GROUP == 0) {
                copies_wait<STAGES / GROUP - 2>();
                // These chunks have landed for all threads, and nobody reads the slots before them
                // any more.
                ring_barrier();
                fetch_group<PART + AHEAD>(tile, slot == 0 ? AHEAD * STAGE_BYTES : slot - GROUP * STAGE_BYTES);
            }
            if constexpr (PART == 0) start_scores(tile);
            if constexpr (PART == K_CHUNKS) online_softmax();
            if constexpr (PART < K_CHUNKS) multiply_keys<PART>(slot);
            else multiply_values<PART - K_CHUNKS>(slot);
            slot = slot == (STAGES - 1) * STAGE_BYTES ? 0 : slot + STAGE_BYTES;
            walk<PART + 1>(tile, slot);
        }
    }

    __device__ __forceinline__ void run(const Problem& p, u32 shared_base) {
        shared = shared_base;
        thread = GROUPS == 1 ? threadIdx.x : threadIdx.x % GROUP_THREADS;
        lane = thread & 31;
        n = p.n;
        width = p.width, columns = p.columns, key_row = p.keys.row, value_row = p.values.row;
        k = p.k + (long long)blockIdx.z * p.keys.batch;
        v = p.v + (long long)blockIdx.z * p.values.batch;
        bias = p.bias;
        Tiles tiles(n, KEYS, blockIdx.y, gridDim.y);
        first = tiles.first + group(), end = tiles.end;
        int warp_row = (thread >> 5) * ROW_BLOCKS * 16, start = blockIdx.x * QUERIES;
        dependent_wait();
        dependent_launch();
        if (group() == 0) fetch_queries<WIDTH, QUERIES, GROUP_THREADS>(p, shared);
        fetch_first();

        u32 low = lane & 7, q_row = lane & 15, k_row = low + ((lane >> 4) << 3);
        q_rows = shared + (warp_row + q_row) * 128 + (((lane >> 4) ^ low) * 16);
        k_rows = ring() + k_row * 128 + ((((lane >> 3) & 1) ^ low) * 16);
        v_rows = ring() + q_row * 128 + (((lane >> 4) ^ low) * 16);
#pragma unroll
        for (int r = 0; r < ROW_BLOCKS; r++) {
#pragma unroll
            for (int h = 0; h < 2; h++) row_max[r][h] = NOTHING, row_sum[r][h] = 0.0f;
#pragma unroll
            for (int j = 0; j < DV / 8; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) acc_o[r][j][i] = 0.0f;
        }
        copies_wait<STAGES / GROUP - 1>();
        block_barrier();
#pragma unroll
        for (int i = 0; i < Q_REGISTERS; i++) load_queries(kept[i], i);

        u32 slot = 0;
        for (int tile = first; tile < end; tile += groups()) walk(tile, slot);
        // Two conditions: with one NVRTC moved other instances to local memory.
        if constexpr (GROUPS > 1)
            if (groups() > 1) gather<GROUP_THREADS>(acc_o, row_max, row_sum, shared, thread, group());
        if (GROUPS > 1 && group()) return;
#pragma unroll
        for (int r = 0; r < ROW_BLOCKS; r++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                store_row<DV, WIDTH == PACKED_WIDTH>(p, start + warp_row + r * 16 + (lane >> 2) + h * 8, lane,
                                                     row_max[r][h], row_sum[r][h],
                                                     [&](int j, int i) { return acc_o[r][j][2 * h + i]; });
    }
};

// ---- instances ----

// The launch of a kernel, for the host (scripts/kernels.py).
#define LAUNCH(NAME, WIDTH, DV, KEYS, BLOCKS)                                                                \
    [[maybe_unused]] constexpr int NAME##_queries = NAME##_instance::QUERIES;                                \
    [[maybe_unused]] constexpr int NAME##_shared = NAME##_instance::SHARED;                                  \
    [[maybe_unused]] constexpr int NAME##_width = WIDTH, NAME##_columns = DV, NAME##_blocks = BLOCKS;        \
    [[maybe_unused]] constexpr int NAME##_keys = KEYS * NAME##_instance::GROUPS;                             \
    [[maybe_unused]] constexpr int NAME##_group_threads = NAME##_instance::GROUP_THREADS;                    \
    [[maybe_unused]] constexpr int NAME##_group_bytes = NAME##_instance::GROUP_BYTES;

#define ATTENTION(NAME, WIDTH, WARPS, ROW_BLOCKS, KEYS, DV, STAGES, GROUP, Q_REGISTERS, GROUPS)          \
    typedef Attention<WIDTH, WARPS, ROW_BLOCKS, KEYS, DV, STAGES, GROUP, Q_REGISTERS, GROUPS>            \
        NAME##_instance;                                                                                     \
    LAUNCH(NAME, WIDTH, DV, KEYS, 1)                                                                         \
    extern "C" __global__ void __launch_bounds__(WARPS * GROUPS * 32, 1)                                 \
        NAME(const f16* q, const f16* k, const f16* v, const float* bias, f16* out, float* partial,          \
             float* stats, int m, int n) {                                                                   \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        NAME##_instance attention;                                                                           \
        attention.run(Problem{q, k, v, bias, out, partial, stats, m, n, WIDTH, DV, {WIDTH, m * WIDTH},       \
                              {WIDTH, n * WIDTH}, {DV, n * DV}, {DV, m * DV}}, shared_address(memory));      \
    }
// Heads of `depth` columns, which lie where the launch says, in elements.
#define HEADS(NAME, WIDTH, WARPS, ROW_BLOCKS, KEYS, DV, STAGES, GROUP, Q_REGISTERS, BLOCKS)                  \
    typedef Attention<WIDTH, WARPS, ROW_BLOCKS, KEYS, DV, STAGES, GROUP, Q_REGISTERS> NAME##_instance;       \
    LAUNCH(NAME, WIDTH, DV, KEYS, BLOCKS)                                                                    \
    extern "C" __global__ void __launch_bounds__(WARPS * 32, BLOCKS)                                         \
        NAME(const f16* q, const f16* k, const f16* v, const float* bias, f16* out, float* partial,          \
             float* stats, int m, int n, int depth, int row, int query_head, int key_head, int out_row,      \
             int out_head) {                                                                                 \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        NAME##_instance attention;                                                                           \
        attention.run(Problem{q, k, v, bias, out, partial, stats, m, n, depth, depth, {row, query_head},     \
                              {row, key_head}, {row, key_head}, {out_row, out_head}},                        \
                      shared_address(memory));                                                               \
    }
#define COMBINE(NAME, DV)                                                                                    \
    [[maybe_unused]] constexpr int NAME##_columns = DV;                                                      \
    extern "C" __global__ void NAME(const float* partial, const float* stats, f16* out, int rows, int m,     \
                                    int splits, int columns, int out_row, int out_batch) {                   \
        dependent_wait();                                                                                    \
        dependent_launch();                                                                                  \
        combine<DV>(partial, stats, out, rows, m, splits, columns, Rows{out_row, out_batch});                \
    }

COMBINE(attention_combine_64, 64)
COMBINE(attention_combine_80, 80)
COMBINE(attention_combine_96, 96)
COMBINE(attention_combine_256, 256)
ATTENTION(attention_cross, 256, 4, 2, 32, 64, 4, 1, 8, 2)
ATTENTION(attention_self, 256, 8, 1, 64, 256, 4, 1, 0, 1)
// Two blocks to a multiprocessor, one computes its softmax while the other multiplies: with less
// than 50 KB each they fit into the 100 KB of sm 86, 89 and 120.
HEADS(attention_heads_64, 64, 4, 2, 64, 64, 4, 1, 4, 2)
HEADS(attention_heads_80, 80, 4, 2, 32, 80, 4, 1, 0, 2)
HEADS(attention_heads_96, 96, 4, 2, 32, 96, 4, 1, 0, 2)
