/*!
The attention half of the block that begins Hiera's second stage, in one launch, for any GPU from
sm 80 on: queries, keys, values and the shortcut from C to 2 C columns, both pooled over 2 x 2
tokens, attention in windows of 8 x 8 tokens, projection, residual, and the LayerNorm in front of the
MLP. It takes the tokens behind the first LayerNorm.

Kernel by kernel this half is bound by memory: queries, keys and values of 65 536 tokens have six
times the bytes of what they are made of. Here those are read once, and nothing but the result is
written.

| kernel               | columns, heads | threads | shared memory | weights |
|----------------------|----------------|---------|---------------|---------|
| hiera_transition_96  | 96 to 192, 2   | 128     | 64 832        | 229 KB  |
| hiera_transition_112 | 112 to 224, 4  | 128     | 75 584        | 317 KB  |
| hiera_transition_144 | 144 to 288, 4  | 128     | 97 088        | 519 KB  |

A warp has a whole window, in registers: 64 tokens by C columns as left factors. So each fragment of
weights in shared memory serves eight instructions of `mma`, and warps share nothing but the weights.

Row r of the four left factors is one of the four tokens that pooled token r is made of. Pooling is a
maximum over a lane's own sums, without a shuffle.

Nothing of an attention leaves the registers:

- 16 columns of queries, pooled, are a left factor as they lie in the sums.
- 16 columns of keys are right factors as they lie there. They are multiplied at once, and only the
  scores stay.
- Values are computed transposed: weights are the left factor and tokens the right one, from the same
  registers. So they lie as the right factors of the weighted sum.

A bias of keys changes no softmax, so keys have none. That of values is added to their weighted sum,
those of queries and shortcut behind the pooling. A maximum here loses a NaN, but a window's keys and
values bring it to all of its results.

The pooled shortcut and what was attended to go through shared memory, where a lane reads what it
wrote. The shortcut is rounded to halves, as in the kernels one by one.

Heads of 56 or 72 columns have tiles of 16 and a half. The last unit of queries has the last eight
columns of the keys, too; that of values is padded. Two heads share a step of the projection.

The weights are a stream of units as in hiera_block.cu, in the order of their use
(crates/kernels/src/hiera/fused/transition_packed.rs). The last unit has the projection's bias and the
norm's vectors.

By count, an H200 needs 5600 (96 columns), 7800 or 12 600 instructions `mma` for each quarter of a
multiprocessor, and a sixth as many loads of weights. At 1024 pixels there are 256 blocks of four
windows, which run there at once.

Grid: ceil(windows / 4). The windows must fill the map.
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"
#include "repvit.cuh"
#include "hiera_block.cuh"

// ---- transition ----

constexpr int TRANSITION_WINDOWS = WARPS;          // of a block: a warp has one
constexpr int POOLED = 2, CELL = POOLED * POOLED;  // a pooled token is the maximum of so many
constexpr int POOLED_WINDOW = WINDOW / POOLED;
static_assert(POOLED_WINDOW * POOLED_WINDOW == STEP, "a window's pooled tokens are one left factor");

/// What a launch is given.
struct TransitionProblem {
    const f16* normed;           // [grid, grid, columns]: tokens behind the first norm
    const unsigned char* units;  // of weights
    float* x;                    // [grid / 2, grid / 2, 2 columns]: the residual
    f16* next;                   // of the same shape: the norm in front of the MLP
    const unsigned char* later;  // what the L2 cache is asked for, `lines` of it
    int lines, grid;
};

template <int COLUMNS, int HEADS>
class HieraTransition {
public:
    static constexpr int STEPS = COLUMNS / STEP;  // of the depth; tiles of a unit of the projection
    static constexpr int WIDE = 2 * COLUMNS, TILES = WIDE / TILE;  // columns of the result
    static constexpr int DEPTH = WIDE / HEADS;
    static constexpr int WHOLE = DEPTH / TILE;       // tiles of a head
    static constexpr bool HALF = DEPTH % TILE != 0;  // and eight columns more
    static constexpr int UNIT = STEPS * FRAGMENTS + BIASES;
    static constexpr int UNITS = HEADS * (3 * WHOLE + 2 * HALF) + TILES + 2 * TILES + 1;
    static constexpr int OWN = 2 * TILES * FRAGMENTS;  // bytes of a warp: shortcut, attended
    static constexpr int SHARED = SLOTS * UNIT + WARPS * OWN;
    static_assert(COLUMNS % STEP == 0 && (!HALF || (DEPTH % TILE == 8 && HEADS % 2 == 0)), "sizes");
    static_assert(3 * WIDE * 4 <= UNIT, "vectors");
    static_assert(SHARED <= 99 * 1024, "shared memory");

private:
    int lane;
    u32 shortcut, attended;  // this lane's 16 bytes of the first step
    Ring<UNIT, UNITS> ring;
    /// [step][m]: tokens of the cells, as left factors.
    typedef u32 Tokens[STEPS][CELL][4];
    /// [m][n][2 i + e]: of token m of cell 8 i + lane / 4, column 8 n + 2 (lane % 4) + e of a tile.
    typedef float Products[CELL][2][4];

    /// The bias of a lane's columns of eight.
    __device__ __forceinline__ float2 bias_of(u32 unit, int n) const {
        return load_shared_pair(unit + STEPS * FRAGMENTS + n * 32 + (lane & 3) * 8);
    }

    /// The products of all tokens with a unit's 16 columns, without their bias.
    __device__ __forceinline__ void multiply_unit(Products& sums, const Tokens& tokens, u32 unit) const {
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            u32 b[4];
            load_shared(b, unit + step * FRAGMENTS + lane * 16);
#pragma unroll
            for (int m = 0; m < CELL; m++)
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    float(&of)[4] = sums[m][n];
                    if (step == 0) of[0] = of[1] = of[2] = of[3] = 0.0f;
                    multiply_add(of, tokens[step][m], b[n * 2], b[n * 2 + 1]);
                }
        }
    }

    /// The maximum of each cell and its bias, as a left factor.
    __device__ __forceinline__ void pool(u32 (&words)[4], const Products& sums, u32 unit) const {
#pragma unroll
        for (int n = 0; n < 2; n++) {
            float2 bias = bias_of(unit, n);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float most[2];
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    int at = i * 2 + e;
                    most[e] = fmaxf(fmaxf(sums[0][n][at], sums[1][n][at]),
                                    fmaxf(sums[2][n][at], sums[3][n][at]));
                }
                words[n * 2 + i] = to_f16x2(most[0] + bias.x, most[1] + bias.y);
            }
        }
    }

    /// softmax(Q K^T) V of a head; behind the last head the pooled shortcut. One function for both,
    /// and one loop for queries and keys: half as much PTX.
    __device__ __forceinline__ void attend(const Tokens& tokens, int head) {
        float scores[KEYS / 8][4];
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) scores[j][i] = 0.0f;
        bool attends = head < HEADS;
        u32 words[4], to = shortcut;
        // Queries and keys in turn; at the end half a tile of both.
#pragma unroll 1
        for (int at = 0; at < (attends ? 2 * WHOLE + HALF : TILES); at++) {
            bool both = at == 2 * WHOLE, keys = attends && (at & 1);
            u32 unit = ring.template take<1>();
            Products sums;
            multiply_unit(sums, tokens, unit);
            if (!keys) {
                pool(words, sums, unit);
                if (!attends) {
                    store_shared(to, words);
                    to += FRAGMENTS;
                    continue;
                }
                if (!HALF || !both) continue;
                words[2] = words[3] = 0;
            }
#pragma unroll
            for (int m = 0; m < CELL; m++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    u32 low = to_f16x2(sums[m][0][i * 2], sums[m][0][i * 2 + 1]);
                    u32 high = to_f16x2(sums[m][1][i * 2], sums[m][1][i * 2 + 1]);
                    // The keys of both are the second eight columns; the rest is 0.
                    if (HALF) low = both ? high : low, high = both ? 0 : high;
                    multiply_add(scores[m * 2 + i], words, low, high);
                }
        }
        if (!attends) return;
        to = attended + head * WHOLE * FRAGMENTS;
        float share[2];
        u32 weights[KEYS / 16][4];
        softmax(scores, weights, share);
#pragma unroll 1
        for (int tile = 0; tile < WHOLE + HALF; tile++, to += FRAGMENTS) {
            u32 unit = ring.template take<1>();
            // Values of columns lane / 4 and lane / 4 + 8, at [m][i][2 n + e]; their tokens are the
            // keys in the scores' order.
            float values[CELL][2][4];
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                u32 b[4];
                load_shared(b, unit + step * FRAGMENTS + lane * 16);
                u32 left[4] = {b[0], b[2], b[1], b[3]};
#pragma unroll
                for (int m = 0; m < CELL; m++)
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        float(&of)[4] = values[m][i];
                        if (step == 0) of[0] = of[1] = of[2] = of[3] = 0.0f;
                        multiply_add(of, left, tokens[step][m][i], tokens[step][m][2 + i]);
                    }
            }
#pragma unroll
            for (int n = 0; n < 2; n++) {
                float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
                for (int m = 0; m < CELL; m++)
                    multiply_add(sums, weights[m], to_f16x2(values[m][0][n * 2], values[m][0][n * 2 + 1]),
                                 to_f16x2(values[m][1][n * 2], values[m][1][n * 2 + 1]));
                float2 bias = bias_of(unit, n);
#pragma unroll
                for (int i = 0; i < 2; i++)
                    words[n * 2 + i] =
                        to_f16x2(fmaf(sums[i * 2], share[i], bias.x),
                                 fmaf(sums[i * 2 + 1], share[i], bias.y));
            }
            if (HALF && tile == WHOLE) {  // half of a step, which two heads share
                to = attended + (HEADS * WHOLE + head / 2) * FRAGMENTS;
                if (head & 1) {
                    u32 other[4];
                    load_shared(other, to);
                    words[2] = words[0], words[3] = words[1];
                    words[0] = other[0], words[1] = other[1];
                }
            }
            store_shared(to, words);
        }
    }

public:
    __device__ __forceinline__ void run(const TransitionProblem& p, u32 memory) {
        int warp = threadIdx.x >> 5;
        lane = threadIdx.x & 31;
        ring.begin(memory, p.units);
        shortcut = memory + SLOTS * UNIT + warp * OWN + lane * 16;
        attended = shortcut + TILES * FRAGMENTS;
        // A window too many in the last block repeats the last one and stores nothing.
        int side = p.grid / WINDOW, window = (int)blockIdx.x * TRANSITION_WINDOWS + warp;
        bool stored = window < side * side;
        if (!stored) window = side * side - 1;
        int top = window / side, left = window - top * side;
        // The lane's pooled tokens are this one and the one two lines below.
        top = top * POOLED_WINDOW + (lane >> 4), left = left * POOLED_WINDOW + (lane >> 2) % POOLED_WINDOW;
        dependent_wait();
        dependent_launch();
        {
            Tokens tokens;
            const f16* from = p.normed + (top * p.grid + left) * POOLED * COLUMNS + (lane & 3) * 4;
            int line = p.grid * COLUMNS;
#pragma unroll
            for (int m = 0; m < CELL; m++)
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int step = 0; step < STEPS; step++) {
                        uint2 four = load_halves(from + (i * 2 * POOLED + m / POOLED) * line +
                                                 m % POOLED * COLUMNS + step * STEP);
                        tokens[step][m][i] = four.x, tokens[step][m][2 + i] = four.y;
                    }
#pragma unroll 1
            for (int at = (int)blockIdx.x * THREADS + (int)threadIdx.x; at < p.lines;
                 at += (int)gridDim.x * THREADS)
                prefetch(p.later + at * LINE);
#pragma unroll 1
            for (int head = 0; head <= HEADS; head++) attend(tokens, head);
        }
        // [tile][n][2 i + e]: of pooled token 8 i + lane / 4, column 4 (lane % 4) + 2 n + e of a
        // tile.
        float x[TILES][2][4];
#pragma unroll
        for (int tile = 0; tile < TILES; tile++) {
            u32 words[4];
            load_shared(words, shortcut + tile * FRAGMENTS);
#pragma unroll
            for (int at = 0; at < 4; at++) {
                float2 two = to_float2(words[at]);
                x[tile][at / 2][at % 2 * 2] = two.x, x[tile][at / 2][at % 2 * 2 + 1] = two.y;
            }
        }
#pragma unroll 1
        for (int step = 0; step < TILES; step++) {
            u32 factor[4], unit = ring.template take<2>();
            load_shared(factor, attended + step * FRAGMENTS);
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                if (tile == STEPS) unit = ring.take_another();
                u32 b[4];
                load_shared(b, unit + tile % STEPS * FRAGMENTS + lane * 16);
#pragma unroll
                for (int n = 0; n < 2; n++) multiply_add(x[tile][n], factor, b[n * 2], b[n * 2 + 1]);
            }
        }
        u32 vectors = ring.template take<1>() + (lane & 3) * 16;
        if (!stored) return;
        int to = (top * (p.grid / POOLED) + left) * WIDE + (lane & 3) * 4;
        // A loop, of which each turn has eight tokens: half as much PTX.
#pragma unroll 1
        for (int i = 0; i < 2; i++, to += p.grid * WIDE) {
            float* x_row = p.x + to;
            f16* next_row = p.next + to;
            normalize_rows<TILES, 1>(
                [&](int j, int n) -> float(&)[4] { return x[j][n]; },
                [&](int of, int j) { return load_shared_floats(vectors + (of * WIDE + j * TILE) * 4); },
                [&](int j, const u32(&words)[4]) {
                    float(&of)[2][4] = x[j];
                    store_token(x_row + j * TILE, make_float4(of[0][0], of[0][1], of[1][0], of[1][1]));
                    store_halves(next_row + j * TILE, make_uint2(words[0], words[2]));
                });
#pragma unroll
            for (int j = 0; j < TILES; j++)
#pragma unroll
                for (int n = 0; n < 2; n++)
#pragma unroll
                    for (int e = 0; e < 2; e++) x[j][n][e] = x[j][n][2 + e];
        }
    }
};

// ---- instances ----

#define INSTANCE(COLUMNS, HEADS)                                                                          \
    constexpr u32 hiera_transition_##COLUMNS##_shared = HieraTransition<COLUMNS, HEADS>::SHARED;          \
    extern "C" __global__ void __launch_bounds__(THREADS, 2)                                              \
        hiera_transition_##COLUMNS(const f16* normed, const unsigned char* units, float* x, f16* next,    \
                                   const unsigned char* later, int lines, int grid) {                     \
        extern __shared__ __align__(1024) unsigned char memory[];                                         \
        HieraTransition<COLUMNS, HEADS>().run({normed, units, x, next, later, lines, grid},               \
                                              shared_address(memory));                                    \
    }
// A module of cuda/kernels.toml has one of them; without INSTANCES this file has all.
#if !defined(INSTANCES) || INSTANCES == 96
INSTANCE(96, 2)
#endif
#if !defined(INSTANCES) || INSTANCES == 112
INSTANCE(112, 4)
#endif
#if !defined(INSTANCES) || INSTANCES == 144
INSTANCE(144, 4)
#endif
