/*!
Window attention of an encoder's map, head by head: O = softmax(Q K^T) V in each window; sm 80 on.

qkv `[grid^2, 3 heads depth]` f16, rows `[q|k|v][head][depth]`, q scaled; bias `[3 heads depth]`
f16; O `[grid_out^2, heads depth]` f16; tokens in image order. Windows begin at the top left. Beyond
the map a window holds padding tokens, whose q, k and v are the bias. They are keys; as queries they
are not needed, and no tile of queries holds them. Pooled: a query is the maximum over 2x2 tokens of
the window, and the output map has half the side.

| instance                  | columns | queries x keys of a step | shared, 256 keys |
|---------------------------|---------|--------------------------|------------------|
| window_attention_56       | to 56   | 16 x 32                  | 57 344           |
| window_attention_72       | to 72   | 16 x 16                  | 73 728           |
| window_attention_96       | to 96   | 16 x 16                  | 106 496          |
| window_attention_56_wide  | to 56   | 32 x 16                  | 57 344           |
| window_attention_72_wide  | to 72   | 32 x 32                  | 73 728           |
| window_attention_96_wide  | to 96   | 32 x 32                  | 106 496          |

All keys and values of a window and head (a "pair") lie in shared memory, copied by `cp.async` from
the map, 64 keys with their values at a time: matmuls begin with the first of them. Rows have an odd
number of 16-byte units, so that `ldmatrix` has no bank conflicts. A warp has 16 or 32 queries at a
time and walks over the keys with the online softmax of attention.cu; with 32 every fragment of keys
and values serves two tiles, which halves the reads of shared memory. Queries are loaded in 16-byte
units, which four lanes exchange for the fragments of `mma`; results are stored the same way. Shared
memory holds no queries: the largest window leaves no room (sm 86: 100 KB).

Memory bounds small windows, which read all of qkv once; the tensor cores bound large ones.

Grid: `x` = pairs, heads first: `together` of the same head in a block of as many warps (a pair
each), or all warps of a block on one pair; then all pairs again for each further of `parts` of
their queries. Whole windows come before those that reach beyond the map, so that multiprocessors
with more blocks than others have large and small ones. A warp without queries copies too.
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "window_attention.cuh"

// ---- attention ----

template <int COLUMNS, int QUERIES, int KEYS_>
struct Windows {
    static constexpr int KEYS = KEYS_;              // keys of a step
    static constexpr int TILES = QUERIES / 16;      // of a warp
    static constexpr int UNITS = COLUMNS / 8;       // 16-byte units of a row
    static constexpr int PAIRS = UNITS / 2;         // of units: 16 columns, as `mma` takes them
    static constexpr bool ODD = UNITS % 2 != 0;     // a unit is left
    static constexpr int GROUPS = (UNITS + 3) / 4;  // of units, as four lanes have
    static constexpr int PITCH = (UNITS | 1) * 16;
    static constexpr int PART = 64;                 // keys that come together
    static constexpr int AT_ONCE = 2 * TILES;       // copies of a thread that are prepared together
    static_assert(COLUMNS % 8 == 0 && QUERIES % 16 == 0 && KEYS % 16 == 0 && PART % KEYS == 0, "sizes");

    int lane, depth;
    int keys, rows;              // of the window; in shared memory
    int arrived;                 // rows that are there, for all warps of the pair
    bool alone;                  // this warp has a pair to itself
    u32 key_rows, value_rows;    // this lane's addresses for ldmatrix, at the first keys
    u32 last_keys;               // the same of the unit that is left: 32 rows of one unit

    float scores[TILES][KEYS / 8][4];
    float acc_o[TILES][UNITS][4];
    float row_max[TILES][2], row_sum[TILES][2];  // of rows lane / 4 and lane / 4 + 8
    u32 weights[TILES][KEYS / 16][4];
    u32 queries[TILES][PAIRS + ODD][4];
    u32 loaded[TILES][2][GROUPS][4];     // the next queries, as they lie in memory

    /// Starts the copies of keys and values, part by part, each a group; zeros behind the last key
    /// and behind `depth`.
    __device__ __forceinline__ void fetch(const WindowProblem& p, int head, int top_row, int left, int first,
                                          int step, u32 shared) const {
        int columns = p.heads * depth, start = columns + head * depth, reciprocal = reciprocal_of(p.window);
        for (int begin = 0; begin < rows; begin += PART) {
            int end = (begin + PART < rows ? begin + PART : rows) * UNITS;
            // Several at a time, none behind a branch: their addresses are worked out side by side.
            for (int base = begin * UNITS + first; base < end; base += AT_ONCE * step) {
#pragma unroll
                for (int i = 0; i < AT_ONCE; i++) {
                    int at = base + i * step, row = (int)((u32)at / UNITS), unit = at - row * UNITS;
                    int y = quotient(row, reciprocal), x = row - y * p.window;
                    y += top_row, x += left;
                    bool inside = y < p.grid && x < p.grid && row < keys, fits = unit * 8 < depth;
                    const f16* from = (inside ? p.qkv + (y * p.grid + x) * (3 * columns) : p.bias) +
                                      (fits ? start + unit * 8 : start);
                    u32 to = shared + row * PITCH + unit * 16;
                    copy16_if(at < end, to, from, row < keys && fits);
                    copy16_if(at < end, to + rows * PITCH, from + columns, row < keys && fits);
                }
            }
            copies_commit();
        }
    }

    /// Waits for the next part. All warps of a pair come here as often.
    __device__ __forceinline__ void land() {
        int behind = rows - arrived;
        if (behind <= PART) copies_wait<0>();
        else if (behind <= 2 * PART) copies_wait<1>();
        else if (behind <= 3 * PART) copies_wait<2>();
        else copies_wait<3>();
        if (alone) warp_barrier();
        else block_barrier();
        arrived += PART;
    }

    /// The rows of queries of a tile as they lie in memory: four words a lane of each four units,
    /// or one of a unit that is left. All loads are under way before the first is used; none is
    /// behind a branch.
    __device__ __forceinline__ void load_queries(const WindowProblem& p, const Asked& asked, int reciprocal,
                                                 int tile, int head) {
        int token = 3 * p.heads * depth, factor = p.pooled ? 2 : 1;
        const f16* from[TILES][2];
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                int2 at = asked.token(tile + t * 16 + h * 8 + (lane >> 2), reciprocal);
                from[t][h] = p.qkv + (at.y * factor * p.grid + at.x * factor) * token + head * depth;
            }
        load_words<false>(from, 0);
        // One after the other: all at once would need too many registers.
#pragma unroll 1
        for (int i = 1; i < factor * factor; i++)
            load_words<true>(from, ((i & 1) + (i >> 1) * p.grid) * token);
    }

    /// One of the tokens of a query: the first, or the greater of it and what is there.
    template <bool MORE>
    __device__ __forceinline__ void load_words(const f16* const (&from)[TILES][2], int at) {
        u32 found[TILES][2][GROUPS][4];
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int i = 0; i < GROUPS; i++) {
                    u32(&words)[4] = found[t][h][i];
                    if (i * 4 + 1 == UNITS) {
                        bool there = i * 32 < depth;
                        u32 one = *(const u32*)(from[t][h] + at + (there ? i * 32 + (lane & 3) * 2 : 0));
                        words[0] = there ? one : 0;
                    } else {
                        int unit = i * 4 + (lane & 3);
                        bool there = unit * 8 < depth;
                        uint4 eight = *(const uint4*)(from[t][h] + at + (there ? unit * 8 : 0));
                        words[0] = there ? eight.x : 0, words[1] = there ? eight.y : 0;
                        words[2] = there ? eight.z : 0, words[3] = there ? eight.w : 0;
                    }
                }
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int i = 0; i < GROUPS; i++)
#pragma unroll
                    for (int k = 0; k < 4; k++)
                        if (i * 4 + 1 != UNITS || k == 0) {
                            u32& to = loaded[t][h][i][k];
                            to = MORE ? greater_halves(to, found[t][h][i][k]) : found[t][h][i][k];
                        }
    }

    /// What was loaded, as fragments of the left factor.
    __device__ __forceinline__ void place_queries() {
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int i = 0; i < GROUPS; i++) {
                    u32(&words)[4] = loaded[t][h][i];
                    if (i * 4 + 1 != UNITS) exchange(words, lane);
#pragma unroll
                    for (int k = 0; k < 4; k++)
                        if (i * 4 + k < UNITS) queries[t][(i * 4 + k) / 2][(k & 1) * 2 + h] = words[k];
                }
    }

    template <int STEPS>
    __device__ __forceinline__ void multiply_keys(int key) {
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int j = 0; j < STEPS * 2; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) scores[t][j][i] = 0.0f;
#pragma unroll
        for (int step = 0; step < PAIRS; step++) {
#pragma unroll
            for (int j = 0; j < STEPS; j++) {
                u32 b[4];
                load_matrices(b, key_rows + (key + j * 16) * PITCH + step * 32);
#pragma unroll
                for (int t = 0; t < TILES; t++) {
                    multiply_add(scores[t][2 * j], queries[t][step], b[0], b[1]);
                    multiply_add(scores[t][2 * j + 1], queries[t][step], b[2], b[3]);
                }
            }
        }
        if (ODD) {
#pragma unroll
            for (int j = 0; j < STEPS; j += 2) {
                u32 b[4];
                load_matrices(b, last<STEPS>(key + j * 16));
#pragma unroll
                for (int t = 0; t < TILES; t++)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        if (2 * j + i < 2 * STEPS)
                            multiply_add_eight(scores[t][2 * j + i], queries[t][PAIRS + ODD - 1], b[i]);
            }
        }
        if (key + STEPS * 16 > keys) {
#pragma unroll
            for (int t = 0; t < TILES; t++)
#pragma unroll
                for (int j = 0; j < STEPS * 2; j++)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        if (key + j * 8 + (lane & 3) * 2 + (i & 1) >= keys) scores[t][j][i] = NEVER;
        }
    }

    /// This lane's address of the last unit, of 32 rows from `key` on; at the end of 16, read twice.
    template <int STEPS>
    __device__ __forceinline__ u32 last(int key) const {
        return last_keys + (key - (STEPS == 1 ? lane & 16 : 0)) * PITCH;
    }

    /// Scores to weights 2^(s log2 e - row_max), as cuda/attention.cu does it.
    template <int STEPS>
    __device__ __forceinline__ void online_softmax() {
        float high[TILES][2];
        bool above = false;
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float most = NOTHING;
#pragma unroll
                for (int j = 0; j < STEPS * 2; j++)
                    most = fmaxf(most, fmaxf(scores[t][j][2 * h], scores[t][j][2 * h + 1]));
                high[t][h] = most_of_lanes<1, 4>(most) * LOG2E;
                above |= high[t][h] > row_max[t][h] + HEADROOM;
            }
        if (any_lane(above)) {
#pragma unroll
            for (int t = 0; t < TILES; t++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    float scale = raise_maximum(high[t][h], row_max[t][h], row_sum[t][h]);
#pragma unroll
                    for (int j = 0; j < UNITS; j++)
                        acc_o[t][j][2 * h] *= scale, acc_o[t][j][2 * h + 1] *= scale;
                }
        }
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int j = 0; j < STEPS * 2; j++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    weights[t][j / 2][(j & 1) * 2 + h] =
                        weights_of(scores[t][j], h, row_max[t][h], row_sum[t][h]);
    }

    template <int STEPS>
    __device__ __forceinline__ void multiply_values(int key) {
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
#pragma unroll
            for (int j = 0; j < PAIRS; j++) {
                u32 b[4];
                load_matrices_transposed(b, value_rows + (key + step * 16) * PITCH + j * 32);
#pragma unroll
                for (int t = 0; t < TILES; t++) {
                    multiply_add(acc_o[t][2 * j], weights[t][step], b[0], b[1]);
                    multiply_add(acc_o[t][2 * j + 1], weights[t][step], b[2], b[3]);
                }
            }
        }
        if (ODD) {
#pragma unroll
            for (int step = 0; step < STEPS; step += 2) {
                u32 b[4];
                load_matrices_transposed(b, last<STEPS>(rows + key + step * 16));
#pragma unroll
                for (int t = 0; t < TILES; t++) {
                    multiply_add(acc_o[t][UNITS - 1], weights[t][step], b[0], b[1]);
                    if (STEPS > 1)
                        multiply_add(acc_o[t][UNITS - 1], weights[t][(step + 1) % STEPS], b[2], b[3]);
                }
            }
        }
    }

    /// STEPS * 16 keys.
    template <int STEPS>
    __device__ __forceinline__ void walk(int key) {
        if (key >= arrived) land();
        multiply_keys<STEPS>(key);
        online_softmax<STEPS>();
        multiply_values<STEPS>(key);
    }

    __device__ __forceinline__ void run(const WindowProblem& p, u32 shared) {
        lane = threadIdx.x & 31;
        depth = p.depth;
        keys = p.window * p.window;
        rows = (keys + 15) & ~15;
        alone = p.together > 1 || blockDim.x == 32;
        int warp = threadIdx.x >> 5, warps = alone ? 1 : blockDim.x >> 5, place = alone ? warp : 0;
        warp -= place;
        int group = blockIdx.x / p.heads, head = blockIdx.x - group * p.heads, all = p.side * p.side;
        int part = 0;
        for (; p.together == 1 && group >= all; part++) group -= all;
        // A window too many in the last block repeats the last one and stores nothing.
        int index = group * p.together + place;
        bool stored = index < all;
        index = stored ? index : all - 1;
        // Whole windows first, then the right edge, then the lower one with its corner.
        int down, across, edge = index - p.whole * p.whole;
        if (edge < 0) down = index / p.whole, across = index - down * p.whole;
        else if (edge < p.whole) down = edge, across = p.whole;
        else down = p.whole, across = edge - p.whole;

        int reciprocal = reciprocal_of(Asked(p, down, across).width), tile = (part * warps + warp) * QUERIES;
        dependent_wait();
        dependent_launch();
        // The whole block goes: none of its warps waits for another.
        if (part > 0 && part * warps * QUERIES >= Asked(p, down, across).count) return;
        load_queries(p, Asked(p, down, across), reciprocal, tile, head);

        u32 shared_keys = shared + place * (2 * rows * PITCH), shared_values = shared_keys + rows * PITCH;
        fetch(p, head, down * p.window, across * p.window, warp * 32 + lane, warps * 32, shared_keys);
        key_rows = shared_keys + ((lane & 7) + ((lane >> 4) << 3)) * PITCH + ((lane >> 3) & 1) * 16;
        value_rows = shared_values + (lane & 15) * PITCH + (lane >> 4) * 16;
        last_keys = shared_keys + lane * PITCH + (UNITS - 1) * 16;
        arrived = 0;
        // The count is recomputed each time: in the loop over the keys every register counts.
        while (tile < Asked(p, down, across).count) {
            place_queries();
#pragma unroll
            for (int t = 0; t < TILES; t++) {
#pragma unroll
                for (int h = 0; h < 2; h++) row_max[t][h] = NOTHING, row_sum[t][h] = 0.0f;
#pragma unroll
                for (int j = 0; j < UNITS; j++)
#pragma unroll
                    for (int i = 0; i < 4; i++) acc_o[t][j][i] = 0.0f;
            }
            int key = 0;
            for (; key + KEYS <= rows; key += KEYS) walk<KEYS / 16>(key);
            for (; key < rows; key += 16) walk<1>(key);
            forget(down), forget(across);
            Asked asked(p, down, across);
#pragma unroll
            for (int t = 0; t < TILES; t++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    int query = tile + t * 16 + h * 8 + (lane >> 2);
                    int2 at = asked.token(query, reciprocal);
                    int token = at.y * (p.pooled ? p.grid / 2 : p.grid) + at.x;
                    int to = token * p.heads * depth + head * depth;
                    to = query < asked.count && stored ? to : -1;
                    store_window_row<UNITS>(p.out, to, depth, lane, row_sum[t][h],
                                            [&](int unit, int i) { return acc_o[t][unit][2 * h + i]; });
                }
            tile += (alone ? 1 : blockDim.x >> 5) * QUERIES * p.parts;
            if (tile < asked.count) load_queries(p, asked, reciprocal, tile, head);
        }
        while (arrived < rows) land();
    }
};

// ---- instances ----

/// THREADS bounds the registers. Constants: for the host (scripts/kernels.py).
#define WINDOW_ATTENTION(NAME, COLUMNS, QUERIES, KEYS, THREADS)                                              \
    [[maybe_unused]] constexpr int NAME##_head = COLUMNS, NAME##_queries = QUERIES;                          \
    [[maybe_unused]] constexpr int NAME##_pitch = Windows<COLUMNS, QUERIES, KEYS>::PITCH;                    \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                    \
        NAME(const f16* qkv, const f16* bias, f16* out, int grid, int window, int whole, int side,           \
             int heads, int depth, int pooled, int together, int parts) {                                    \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        Windows<COLUMNS, QUERIES, KEYS> windows;                                                             \
        windows.run(WindowProblem{qkv, bias, out, grid, window, whole, side, heads, depth, pooled,           \
                                  together, parts}, shared_address(memory));                                 \
    }

WINDOW_ATTENTION(window_attention_56, 56, 16, 32, 512)
WINDOW_ATTENTION(window_attention_72, 72, 16, 16, 512)
WINDOW_ATTENTION(window_attention_96, 96, 16, 16, 512)
WINDOW_ATTENTION(window_attention_56_wide, 56, 32, 16, 384)
WINDOW_ATTENTION(window_attention_72_wide, 72, 32, 32, 256)
WINDOW_ATTENTION(window_attention_96_wide, 96, 32, 32, 256)
