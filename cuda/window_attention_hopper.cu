/*!
Window attention for Hopper only (sm_90a): large windows whose queries are not pooled; otherwise as
window_attention.cu.

| instance                   | columns | queries x keys of a step | shared, 16x16, 14x14 |
|----------------------------|---------|--------------------------|----------------------|
| window_attention_56_hopper | to 56   | 64 x 80                  | 90 176, 69 696       |
| window_attention_72_hopper | to 72   | 64 x 64                  | 139 328, 139 328     |
| window_attention_96_hopper | to 96   | 64 x 64                  | 129 088, 104 512     |

A block has a window and head (a "pair"), or part of its queries. Each warpgroup has 64 queries and
multiplies with `wgmma`; scores and O are in registers, and Q, K and V are read from shared memory
through descriptors (128-byte swizzle). All threads copy with `cp.async` from the map: first the
queries with the keys and values of the first step, then the other steps, a group each with its own
barrier. A warp arrives for its share of a step after it has issued the matmuls of the step before,
so that no warpgroup waits for another that is less than a step behind. The values of a step are
multiplied while the softmax of the next step runs, as in FlashAttention-3 (Shah et al., 2024)
within a warpgroup.

Shared memory: chunks of 64 columns, 128 bytes a row. One chunk of keys, one of values; columns
beyond 64 lie together in a third, the values' first, then the keys'. Then a chunk of 64 rows for
each warpgroup's queries; their columns beyond 64 lie side by side, for as many warpgroups as a row
holds.

Grid: `x` = heads, `y` = parts of the queries, `z` = windows: those inside the map first, so that
the longest blocks begin first. Blocks whose part has no needed queries end at once.
*/

#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "window_attention.cuh"
#include "wgmma.cuh"

// ---- attention ----

struct HopperWindowProblem : WindowProblem {
    // Of a window's side, and of the width of those at the right edge that reach beyond the map
    // (`reciprocal_of`).
    int reciprocal, edge;
};

template <int COLUMNS, int KEYS_, int LAST_>
struct HopperWindows {
    // Keys of a step, of which there is one at the least.
    static constexpr int KEYS = KEYS_;
    static constexpr int LAST = LAST_;                    // keys of the last step
    static constexpr int UNITS = COLUMNS / 8;             // 16-byte units of a row of results
    // Columns of Q and K as they are multiplied.
    static constexpr int WIDTH = (COLUMNS + 15) / 16 * 16;
    // Units of Q or K beyond the first chunk.
    static constexpr int REST = WIDTH > CHUNK ? WIDTH / 8 - 8 : 0;
    static constexpr int CHUNKS = REST > 0 ? 3 : 2;       // of keys and values
    // Warpgroups whose units beyond the first chunk share rows.
    static constexpr int BESIDE = REST > 0 ? 8 / REST : 1;
    static constexpr int TILE = 64 * 128;                 // bytes of 64 rows of a chunk
    static constexpr int BARRIERS = 8;                    // room for as many: steps of the largest window
    static_assert(COLUMNS % 8 == 0 && KEYS % 16 == 0 && LAST % 16 == 0 && 8 % (REST > 0 ? REST : 8) == 0,
                  "whole products");

    int thread, lane, depth;
    int keys, rows;         // of the window; in shared memory
    int last;               // the last step
    u32 shared, barriers;
    u64 query_rows, query_rest, key_rows, key_rest, value_rows;  // descriptors

    float acc_o[COLUMNS / 2];
    float row_max[2], row_sum[2], scale[2];  // of rows lane / 4 and lane / 4 + 8 of the warp's 16

    // ---- copies ----

    /// Offset of a 16-byte unit in a row of a chunk, `line` being the row modulo 8.
    static __device__ __forceinline__ u32 swizzle(u32 unit, u32 line) { return ((unit ^ line) & 7) * 16; }
    /// As an address: with offsets in bytes that have no sign a copy takes the fewest instructions.
    static __device__ __forceinline__ const char* behind(const f16* p, u32 elements) {
        return (const char*)p + elements * 2;
    }

    /// The block's queries from `first` on; zeros behind the last one and behind `depth`. Eight
    /// threads copy a row: a unit each of the first chunk, then what is beyond it. What does not
    /// change from row to row is worked out before: copies take more time for their instructions
    /// than for what they bring.
    __device__ __forceinline__ void fetch_queries(const HopperWindowProblem& p, const Asked& asked, int first,
                                                  int reciprocal, int head, u32 to) const {
        u32 groups = blockDim.x >> 7, token = 3 * p.heads * depth, unit = threadIdx.x & 7,
            line = threadIdx.x >> 3;
        bool fits = (int)unit * 8 < depth, rest_fits = CHUNK + (int)unit * 8 < depth;
        const char* from =
            behind(p.qkv, (asked.top * p.grid + asked.left) * token + head * depth + (fits ? unit * 8 : 0));
        u32 rest = rest_fits ? CHUNK * 2 : 0;
        for (u32 row = line; row < groups * 64; row += groups * 16) {
            int query = first + row, y = quotient(query, reciprocal), x = query - y * asked.width;
            bool valid = query < asked.count;
            const char* source = from + (valid ? (u32)(y * p.grid + x) * token * 2 : 0);
            copy16(to + row * 128 + swizzle(unit, line), source, valid && fits);
            if constexpr (REST > 0) {
                u32 group = row >> 6, at = to + (groups + group / BESIDE) * TILE + (row & 63) * 128;
                copy16_if(unit < REST, at + swizzle(group % BESIDE * REST + unit, line), source + rest,
                          valid && rest_fits);
            }
        }
    }

    /// The keys and values of rows `begin` to `end`, in the same way. `token` and `bias`: the
    /// head's keys of the window's first token and of a padding token; `high` and `wide`: what the
    /// map has of the window.
    __device__ __forceinline__ void fetch(const HopperWindowProblem& p, const f16* token, const f16* bias,
                                          int high, int wide, u32 begin, u32 end) const {
        u32 columns = p.heads * depth * 2, unit = threadIdx.x & 7, line = threadIdx.x >> 3,
            beyond = CHUNK + unit % (REST > 0 ? REST : 8) * 8;
        bool fits = (int)unit * 8 < depth, rest_fits = (int)beyond < depth;
        u32 column = fits ? unit * 8 : 0,
            rest = ((rest_fits ? beyond : 0) - column) * 2 + ((int)unit < REST ? columns : 0);
        const char *inner = behind(token, column), *outer = behind(bias, column);
        // `begin` and the rows between two copies are multiples of 8.
        u32 place = shared + swizzle(unit, line);
        for (u32 row = begin + line; row < end; row += blockDim.x >> 3) {
            int y = quotient(row, p.reciprocal), x = row - y * p.window;
            bool there = (int)row < keys, inside = y < high && x < wide && there;
            const char* from = (inside ? inner : outer) + (inside ? (u32)(y * p.grid + x) * columns * 3 : 0);
            u32 to = place + row * 128;
            copy16(to, from, there && fits);
            copy16(to + rows * 128, from + columns, there && fits);
            if constexpr (REST > 0)
                copy16_if(unit < 2 * REST, to + 2 * rows * 128, from + (long long)(int)rest,
                          there && rest_fits);
        }
    }

    /// Waits until this warp's copies for a step have landed, and says so.
    __device__ __forceinline__ void hand_over(int step) const {
        int behind = last - step;
        if (behind == 0) copies_wait<0>();
        else if (behind == 1) copies_wait<1>();
        else if (behind == 2) copies_wait<2>();
        else if (behind == 3) copies_wait<3>();
        else copies_wait<4>();
        copies_publish();
        warp_barrier();
        if (lane == 0) barrier_arrive(barriers + step * 8);
    }

    // ---- products ----

    /// Nothing but `wgmma` between fence and commit: control flow there makes the compiler
    /// serialise them.
    template <int N>
    __device__ __forceinline__ void issue_scores(float (&scores)[N], int key) {
        settle(scores);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < WIDTH / 16; step++) {
            u64 a = step < 4 ? query_rows + step * 2 : query_rest + (step - 4) * 2;
            u64 b = step < 4 ? key_rows + step * 2 : key_rest + (step - 4) * 2;
            wgmma_ss(scores, a, b + key * 8, step > 0 ? 1 : 0);
        }
        wgmma_commit();
    }

    template <int N>
    __device__ __forceinline__ void issue_values(const u32 (&weights)[N][4], int key) {
        settle(acc_o);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < N; step++)
            wgmma_rs(acc_o, weights[step], value_rows + key * 8 + step * 128);
        wgmma_commit();
    }

    /// Scores of the keys from `key` on to weights 2^(s log2 e - row_max), still f32 and in place;
    /// true if results must be rescaled by `scale`. As attention_hopper.cuh does it.
    template <int N>
    __device__ __forceinline__ bool online_softmax(float (&scores)[N], int key) {
        if (key + 2 * N > keys) {
#pragma unroll
            for (int j = 0; j < N; j++)
                if (key + j / 4 * 8 + (lane & 3) * 2 + (j & 1) >= keys) scores[j] = NEVER;
        }
        float high[2] = {NOTHING, NOTHING};
#pragma unroll
        for (int j = 0; j < N; j++) high[j / 2 & 1] = fmaxf(high[j / 2 & 1], scores[j]);
#pragma unroll
        for (int h = 0; h < 2; h++) high[h] = most_of_lanes<1, 4>(high[h]) * LOG2E;
        bool rescale = raise_maxima(high, row_max, row_sum, scale);
#pragma unroll
        for (int j = 0; j < N; j++) {
            int h = j / 2 & 1;
            scores[j] = power_of_two(fmaf(scores[j], LOG2E, -row_max[h]));
            row_sum[h] += scores[j];
        }
        before_waiting(row_sum, barriers);
        return rescale;
    }

    __device__ __forceinline__ void rescale_result() {
#pragma unroll
        for (int j = 0; j < COLUMNS / 2; j++) acc_o[j] *= scale[j / 2 & 1];
    }

    template <int N>
    __device__ __forceinline__ void pack_weights(const float (&scores)[N], u32 (&weights)[N / 8][4]) const {
#pragma unroll
        for (int step = 0; step < N / 8; step++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                weights[step][i] = to_f16x2(scores[step * 8 + i * 2], scores[step * 8 + i * 2 + 1]);
    }

    /// A warpgroup's queries and all keys.
    __device__ __forceinline__ void attend() {
        float scores[KEYS / 2], ends[LAST / 2];
        u32 weights[KEYS / 16][4], closing[LAST / 16][4];
        hand_over(0);
        barrier_wait(barriers, 0);
        issue_scores(scores, 0);
        hand_over(1);
        wgmma_wait<0>();
        settle(scores);
        online_softmax(scores, 0);  // there is nothing yet to rescale
        pack_weights(scores, weights);
        int key = 0;
        for (int step = 1; step < last; step++) {
            barrier_wait(barriers + step * 8, 0);
            issue_scores(scores, key + KEYS);
            issue_values(weights, key);
            hand_over(step + 1);
            key += KEYS;
            wgmma_wait<1>();
            settle(scores);
            bool rescale = online_softmax(scores, key);
            wgmma_wait<0>();
            settle(acc_o);
            if (rescale) rescale_result();
            pack_weights(scores, weights);
        }
        barrier_wait(barriers + last * 8, 0);
        issue_scores(ends, key + KEYS);
        issue_values(weights, key);
        key += KEYS;
        wgmma_wait<1>();
        settle(ends);
        bool rescale = online_softmax(ends, key);
        wgmma_wait<0>();
        settle(acc_o);
        if (rescale) rescale_result();
        pack_weights(ends, closing);
        issue_values(closing, key);
        wgmma_wait<0>();
        settle(acc_o);
    }

    __device__ __forceinline__ void run(const HopperWindowProblem& p, u32 shared_base) {
        pdl_wait();
        pdl_launch_dependents();
        shared = shared_base;
        thread = threadIdx.x & 127;
        lane = threadIdx.x & 31;
        depth = p.depth;
        keys = p.window * p.window;
        int group = (int)threadIdx.x >> 7, groups = blockDim.x >> 7, head = blockIdx.x;
        // Whole windows first, then the right edge, then the lower one with its corner.
        int index = blockIdx.z, down, across, edge = index - p.whole * p.whole;
        if (edge < 0) down = index / p.whole, across = index - down * p.whole;
        else if (edge < p.whole) down = edge, across = p.whole;
        else down = p.whole, across = edge - p.whole;
        Asked asked(p, down, across);
        int first = (int)blockIdx.y * groups * 64, query = first + group * 64;
        if (first >= asked.count) return;

        last = (keys - LAST + KEYS - 1) / KEYS;
        rows = last * KEYS + LAST;
        u32 queries = shared + CHUNKS * rows * 128, rest = queries + groups * TILE;
        barriers = rest + (REST > 0 ? (groups + BESIDE - 1) / BESIDE * TILE : 0);
        int top_row = down * p.window, left = across * p.window, columns = p.heads * depth,
            reciprocal = across < p.whole ? p.reciprocal : p.edge;
        if ((int)threadIdx.x <= last) barrier_create(barriers + threadIdx.x * 8, blockDim.x >> 5);
        fetch_queries(p, asked, first, reciprocal, head, queries);
        const f16* token = p.qkv + (top_row * p.grid + left) * (3 * columns) + columns + head * depth;
        const f16* bias = p.bias + columns + head * depth;
        for (int step = 0, begin = 0; step <= last; step++, begin += KEYS) {
            fetch(p, token, bias, p.grid - top_row, p.grid - left, begin, step < last ? begin + KEYS : rows);
            copies_commit();
        }
        block_barrier();
        if (query >= asked.count) {
            for (int step = 0; step <= last; step++) hand_over(step);
            return;
        }

        key_rows = descriptor(shared);
        value_rows = descriptor(shared + rows * 128, rows * 128);
        key_rest = descriptor(shared + 2 * rows * 128 + REST * 16);
        query_rows = descriptor(queries + group * TILE);
        query_rest = descriptor(rest + group / BESIDE * TILE + group % BESIDE * REST * 16);
#pragma unroll
        for (int h = 0; h < 2; h++) row_max[h] = NOTHING, row_sum[h] = 0.0f, scale[h] = 1.0f;
#pragma unroll
        for (int j = 0; j < COLUMNS / 2; j++) acc_o[j] = 0.0f;
        attend();
        query += (thread >> 5) * 16 + (lane >> 2);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int2 at = asked.token(query + h * 8, reciprocal);
            int to = ((at.y * p.grid + at.x) * p.heads + head) * depth;
            store_window_row<UNITS>(p.out, query + h * 8 < asked.count ? to : -1, depth, lane, row_sum[h],
                                    [&](int unit, int i) { return acc_o[unit * 4 + 2 * h + i]; });
        }
    }
};

// ---- instances ----

/// GROUPS: warpgroups of a block, at the most. Constants: for the host (scripts/kernels.py).
#define WINDOW_ATTENTION_HOPPER(NAME, COLUMNS, KEYS, LAST, GROUPS, BLOCKS)                                   \
    [[maybe_unused]] constexpr int NAME##_head = COLUMNS, NAME##_keys = KEYS, NAME##_last = LAST;            \
    [[maybe_unused]] constexpr int NAME##_groups = GROUPS, NAME##_blocks = BLOCKS;                           \
    [[maybe_unused]] constexpr int NAME##_barriers = HopperWindows<COLUMNS, KEYS, LAST>::BARRIERS;           \
    extern "C" __global__ void __launch_bounds__(GROUPS * 128, BLOCKS)                                       \
        NAME(const f16* qkv, const f16* bias, f16* out, int grid, int window, int whole, int side,           \
             int heads, int depth, int reciprocal, int edge) {                                               \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        HopperWindows<COLUMNS, KEYS, LAST> windows;                                                          \
        windows.run(HopperWindowProblem{{qkv, bias, out, grid, window, whole, side, heads, depth, 0, 1, 1},  \
                                        reciprocal, edge}, shared_address(memory));                          \
    }

WINDOW_ATTENTION_HOPPER(window_attention_56_hopper, 56, 80, 48, 2, 2)
WINDOW_ATTENTION_HOPPER(window_attention_72_hopper, 72, 64, 64, 4, 1)
WINDOW_ATTENTION_HOPPER(window_attention_96_hopper, 96, 64, 16, 2, 2)
