/*!
Attention inside windows of an encoder's map, head by head: O = softmax(Q Kᵀ) V.

qkv `[grid², 3 heads depth]` f16, rows `[q|k|v][head][depth]`, q scaled; bias `[3 heads depth]` f16; O `[grid_out², heads depth]` f16;
tokens in image order. The map is cut into windows from the top left. What a window holds beyond the map are padding tokens: their
products are the bias alone. They take part as keys; as queries nobody asks for them. Pooled: a query is the maximum over
2x2 tokens of the window, and the map behind has half the side.

All keys and values of a window and head (a "pair") lie in shared memory, copied by `cp.async` straight from the map; rows have 16
bytes more than the padded columns, an odd number of 16-byte units, so that `ldmatrix` meets no bank conflict. A warp has 16
queries at a time and walks over the keys with the online softmax of cuda/attention.cu. Its queries come from memory in 16-byte
units, which four lanes exchange for the fragments of `mma`, and results go back the same way: of queries nothing is in
shared memory, where the largest window leaves no room (sm 86: 100 KB).

What limits it: small windows read all of qkv once and are bound by memory; large ones by what 16 queries a warp read from
shared memory.

Grid: `x` = blocks of blockDim / (32 warps) pairs. `warps` is at most the number of tiles of 16 queries.
No header but its own is needed, so that NVRTC compiles it.
*/

#include "attention.cuh"

// ---- primitives ----

/// The greater of each half.
__device__ __forceinline__ u32 greater(u32 a, u32 b) {
    u32 r;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
__device__ __forceinline__ u32 word_from_lane(u32 x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }

// ---- attention ----

struct WindowProblem {
    const f16 *qkv, *bias;
    f16* out;
    int grid, window, heads, depth, pooled, warps, pairs;
};

/// Of four lanes' four words each: word i of lane t becomes word t of lane i.
__device__ __forceinline__ void exchange(u32 (&x)[4], int lane) {
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
        bool upper = lane & bit;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & bit) continue;
            u32 got = word_from_lane(upper ? x[i] : x[i + bit], bit);
            (upper ? x[i] : x[i + bit]) = got;
        }
    }
}

template <int DEPTH_, int KEYS_>
struct Windows {
    static constexpr int DEPTH = DEPTH_;         // columns of a head, padded
    static constexpr int KEYS = KEYS_;           // keys of a tile
    static constexpr int UNITS = DEPTH / 8;      // 16-byte units of a row
    static constexpr int GROUPS = (UNITS + 3) / 4;  // of four, as four lanes have
    static constexpr int PITCH = DEPTH * 2 + 16;
    static_assert(DEPTH % 16 == 0 && KEYS % 16 == 0 && PITCH / 16 % 2 == 1, "whole products, no bank conflict");

    int lane, depth;
    int keys;                    // of the window
    u32 key_rows, value_rows;    // this lane's addresses for ldmatrix, at the first keys
    bool landed;                 // values are there; keys are by then

    float scores[KEYS / 8][4];
    float result[UNITS][4];
    float top[2], sum[2];        // of rows lane / 4 and lane / 4 + 8
    u32 weights[KEYS / 16][4];
    u32 queries[DEPTH / 16][4];

    /// n / side for n < 272 and side <= 16.
    static __device__ __forceinline__ int quotient(int n, int reciprocal) { return n * reciprocal >> 16; }
    static __device__ __forceinline__ int reciprocal_of(int side) { return 65536 / side + 1; }

    /// Starts the copies of part `part` (1: keys, 2: values) of every row; zeros behind the last key and behind `depth`.
    __device__ __forceinline__ void fetch(const WindowProblem& p, int part, int head, int top_row, int left, int first, int step,
                                          int rows, u32 to) const {
        int columns = p.heads * depth, reciprocal = reciprocal_of(p.window);
        int start = part * columns + head * depth;
        for (int row = first; row < rows; row += step) {
            int y = quotient(row, reciprocal), x = row - y * p.window;
            y += top_row, x += left;
            bool inside = y < p.grid && x < p.grid;
            const f16* from = inside ? p.qkv + (long long)(y * p.grid + x) * (3 * columns) : p.bias;
#pragma unroll
            for (int i = 0; i < GROUPS; i++) {
                int unit = i * 4 + (lane & 3);
                if (UNITS % 4 != 0 && unit >= UNITS) break;
                bool valid = row < keys && unit * 8 < depth;
                copy16(to + row * PITCH + unit * 16, valid ? from + start + unit * 8 : p.bias, valid);
            }
        }
    }

    /// A row of queries (h: lane / 4 or lane / 4 + 8) as fragments of the left factor; `from` is null where nobody asks for it.
    __device__ __forceinline__ void load_row(const f16* from, int h, bool pooled, int right, int below) {
#pragma unroll
        for (int i = 0; i < GROUPS; i++) {
            int unit = i * 4 + (lane & 3);
            uint4 eight = make_uint4(0, 0, 0, 0);
            if (from && unit * 8 < depth) {
                const f16* at = from + unit * 8;
                eight = *(const uint4*)at;
                if (pooled) {
                    uint4 b = *(const uint4*)(at + right), c = *(const uint4*)(at + below), d = *(const uint4*)(at + below + right);
                    eight = make_uint4(greater(greater(eight.x, b.x), greater(c.x, d.x)), greater(greater(eight.y, b.y), greater(c.y, d.y)),
                                       greater(greater(eight.z, b.z), greater(c.z, d.z)), greater(greater(eight.w, b.w), greater(c.w, d.w)));
                }
            }
            u32 words[4] = {eight.x, eight.y, eight.z, eight.w};
            exchange(words, lane);
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (i * 4 + k < UNITS) queries[(i * 4 + k) / 2][(k & 1) * 2 + h] = words[k];
        }
    }

    template <int STEPS>
    __device__ __forceinline__ void multiply_keys(int key) {
#pragma unroll
        for (int j = 0; j < STEPS * 2; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) scores[j][i] = 0.0f;
#pragma unroll
        for (int step = 0; step < DEPTH / 16; step++) {
#pragma unroll
            for (int j = 0; j < STEPS; j++) {
                u32 b[4];
                load_matrices(b, key_rows + (key + j * 16) * PITCH + step * 32);
                multiply_add(scores[2 * j], queries[step], b[0], b[1]);
                multiply_add(scores[2 * j + 1], queries[step], b[2], b[3]);
            }
        }
        if (key + STEPS * 16 > keys) {
#pragma unroll
            for (int j = 0; j < STEPS * 2; j++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if (key + j * 8 + (lane & 3) * 2 + (i & 1) >= keys) scores[j][i] = NEVER;
        }
    }

    /// Scores to weights 2^(s log2 e - top), as cuda/attention.cu does it.
    template <int STEPS>
    __device__ __forceinline__ void weigh() {
        float high[2] = {NOTHING, NOTHING};
#pragma unroll
        for (int j = 0; j < STEPS * 2; j++) {
            high[0] = fmaxf(high[0], fmaxf(scores[j][0], scores[j][1]));
            high[1] = fmaxf(high[1], fmaxf(scores[j][2], scores[j][3]));
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            high[h] = fmaxf(high[h], from_lane(high[h], 1));
            high[h] = fmaxf(high[h], from_lane(high[h], 2)) * LOG2E;
        }
        if (any_lane(high[0] > top[0] + HEADROOM || high[1] > top[1] + HEADROOM)) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float next = fmaxf(top[h], high[h]), scale = power_of_two(top[h] - next);
                top[h] = next;
                sum[h] *= scale;
#pragma unroll
                for (int j = 0; j < UNITS; j++) result[j][2 * h] *= scale, result[j][2 * h + 1] *= scale;
            }
        }
#pragma unroll
        for (int j = 0; j < STEPS * 2; j++) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float low = power_of_two(fmaf(scores[j][2 * h], LOG2E, -top[h]));
                float next = power_of_two(fmaf(scores[j][2 * h + 1], LOG2E, -top[h]));
                sum[h] += low + next;
                weights[j / 2][(j & 1) * 2 + h] = pack(low, next);
            }
        }
    }

    template <int STEPS>
    __device__ __forceinline__ void multiply_values(int key) {
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
#pragma unroll
            for (int j = 0; j < DEPTH / 16; j++) {
                u32 b[4];
                load_matrices_transposed(b, value_rows + (key + step * 16) * PITCH + j * 32);
                multiply_add(result[2 * j], weights[step], b[0], b[1]);
                multiply_add(result[2 * j + 1], weights[step], b[2], b[3]);
            }
        }
    }

    /// STEPS * 16 keys.
    template <int STEPS>
    __device__ __forceinline__ void walk(int key) {
        multiply_keys<STEPS>(key);
        weigh<STEPS>();
        if (!landed) {
            copies_wait<0>();
            block_barrier();
            landed = true;
        }
        multiply_values<STEPS>(key);
    }

    /// A row of results, from element `to` on; below 0 where nobody asks for it.
    __device__ __forceinline__ void store_row(f16* out, int to, int h) {
        float all = sum[h];
        all += from_lane(all, 1);
        all += from_lane(all, 2);
        float share = 1.0f / all;
#pragma unroll
        for (int i = 0; i < GROUPS; i++) {
            u32 words[4] = {0, 0, 0, 0};
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (i * 4 + k < UNITS) words[k] = pack(result[(i * 4 + k) % UNITS][2 * h] * share, result[(i * 4 + k) % UNITS][2 * h + 1] * share);
            exchange(words, lane);
            int unit = i * 4 + (lane & 3);
            if (to >= 0 && unit * 8 < depth) *(uint4*)(out + to + unit * 8) = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }

    __device__ __forceinline__ void run(const WindowProblem& p, u32 shared) {
        lane = threadIdx.x & 31;
        depth = p.depth;
        keys = p.window * p.window;
        int rows = (keys + 15) & ~15, warp = threadIdx.x >> 5, place = warp / p.warps;
        warp -= place * p.warps;
        int wanted = blockIdx.x * ((blockDim.x >> 5) / p.warps) + place;
        // A pair too many in the last block repeats the last one and stores nothing.
        bool asked = wanted < p.pairs;
        int pair = asked ? wanted : p.pairs - 1;
        int head = pair % p.heads, side = (p.grid + p.window - 1) / p.window, across = pair / p.heads % side, down = pair / p.heads / side;
        u32 shared_keys = shared + place * (2 * rows * PITCH), shared_values = shared_keys + rows * PITCH;
        int first = (warp * 32 + lane) >> 2, step = p.warps * 8;
        fetch(p, 1, head, down * p.window, across * p.window, first, step, rows, shared_keys);
        copies_commit();
        fetch(p, 2, head, down * p.window, across * p.window, first, step, rows, shared_values);
        copies_commit();
        key_rows = shared_keys + ((lane & 7) + ((lane >> 4) << 3)) * PITCH + ((lane >> 3) & 1) * 16;
        value_rows = shared_values + (lane & 15) * PITCH + (lane >> 4) * 16;
        landed = false;

        int factor = p.pooled ? 2 : 1, window_out = p.window / factor, grid_out = p.grid / factor;
        int reciprocal = reciprocal_of(window_out), count = window_out * window_out, columns = p.heads * depth;
        for (int tile = warp * 16; tile < count; tile += p.warps * 16) {
            int to[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                int query = tile + (lane >> 2) + h * 8, y = quotient(query, reciprocal), x = query - y * window_out;
                y += down * window_out, x += across * window_out;
                bool stored = query < count && y < grid_out && x < grid_out;
                const f16* from = p.qkv + (long long)(y * factor * p.grid + x * factor) * (3 * columns) + head * depth;
                load_row(stored ? from : nullptr, h, p.pooled, 3 * columns, p.grid * 3 * columns);
                to[h] = stored && asked ? (y * grid_out + x) * columns + head * depth : -1;
                top[h] = NOTHING, sum[h] = 0.0f;
            }
#pragma unroll
            for (int j = 0; j < UNITS; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) result[j][i] = 0.0f;
            if (!landed) {
                copies_wait<1>();
                block_barrier();
            }
            int key = 0;
            for (; key + KEYS <= rows; key += KEYS) walk<KEYS / 16>(key);
            for (; key < rows; key += 16) walk<1>(key);
#pragma unroll
            for (int h = 0; h < 2; h++) store_row(p.out, to[h], h);
        }
    }
};

// ---- instances ----

#define WINDOWS(NAME, DEPTH, KEYS)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(512)                                                                               \
        NAME(const f16* qkv, const f16* bias, f16* out, int grid, int window, int heads, int depth, int pooled, int warps,          \
             int pairs) {                                                                                                           \
        extern __shared__ __align__(1024) unsigned char memory[];                                                                   \
        Windows<DEPTH, KEYS> windows;                                                                                               \
        windows.run(WindowProblem{qkv, bias, out, grid, window, heads, depth, pooled, warps, pairs}, shared_address(memory));       \
    }

WINDOWS(trunk_windows_64, 64, 32)
WINDOWS(trunk_windows_80, 80, 32)
WINDOWS(trunk_windows_96, 96, 32)
