/*!
A whole block of Hiera's second stage in one launch, for any GPU from sm 80 on: as hiera_block.cu,
with windows of 4 x 4 tokens.

| kernel          | columns, heads | threads | shared memory | registers | weights of a block |
|-----------------|----------------|---------|---------------|-----------|--------------------|
| hiera_block_192 | 192, 2         | to 128  | 31 040        | 240       | 894 KB             |
| hiera_block_224 | 224, 4         | to 128  | 36 160        | 255       | 1273 KB            |

A warp has one window, so that the warps of a block share nothing but weights. Residual and normed
tokens stay in registers from the first norm to the last, and so does the attention:

- Sums of queries and keys, rounded to halves, are factors of the scores as they are.
- Those of values are transposed first. What the attention gives is a left factor of the projection.

Heads of 56 columns are padded to 64 by weights of zero. With 288 columns, those of large, registers
would spill.

The stream of weights is as in hiera_block.cu: of each head queries and keys of 16 columns in turn,
then values and the projection's 16 columns in turn; then the MLP.

By count, an H200 needs 7000 (192 columns) or 9900 instructions `mma` for each quarter of a
multiprocessor, and half as many loads of weights: shared memory is as busy as the tensor cores. On
a board memory bounds the kernels one by one, as 16 384 tokens go through it ten times.

Grid: ceil(windows / warps of a block), up to 4 warps: fewer on a small map, so that all
multiprocessors have work. A multiprocessor has registers for 8 warps; on an H200 one block of 8 was
not faster than two of 4. The windows must fill the map.
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"
#include "repvit.cuh"
#include "hiera_block.cuh"

// ---- block ----

constexpr int SMALL_WINDOW = 4;  // a warp's, of 16 tokens
constexpr int MOST_WARPS = 4, MOST_THREADS = MOST_WARPS * 32;

/// Sums of a window's 16 tokens and 16 columns. A lane has token 8 i + lane / 4 at [n][2 i + e], of
/// columns 8 n + 2 (lane % 4) + e, or of the residual's 4 (lane % 4) + 2 n + e.
typedef float WindowSums[2][4];

/// They as left factor.
__device__ __forceinline__ void to_left(u32 (&left)[4], const WindowSums& sums) {
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) left[n * 2 + i] = to_f16x2(sums[n][i * 2], sums[n][i * 2 + 1]);
}

/// Where a lane's first four columns of its first token lie, and how far below those of the other.
struct Place {
    int first, below;
    bool stored;  // false of a window too many in the last block, which repeats the last one

    __device__ __forceinline__ Place(int grid, int columns, int thread) {
        int side = grid / SMALL_WINDOW, window = (int)(blockIdx.x * blockDim.x + thread) >> 5;
        stored = window < side * side;
        if (!stored) window = side * side - 1;
        int down = window / side, across = window - down * side;
        int top = down * SMALL_WINDOW + (thread >> 4 & 1), left = across * SMALL_WINDOW + (thread >> 2 & 3);
        first = (top * grid + left) * columns + (thread & 3) * 4, below = 2 * grid * columns;
    }
};

template <int COLUMNS, int HEADS>
class WindowBlock {
public:
    static constexpr int STEPS = COLUMNS / STEP;
    static constexpr int DEPTH = COLUMNS / HEADS;
    static constexpr int HEAD_TILES = (DEPTH + TILE - 1) / TILE;  // of queries, keys, values
    static constexpr int CHUNKS = 4 * COLUMNS / TILE;             // of the hidden layer
    static constexpr int UNIT = STEPS * FRAGMENTS + BIASES;
    static constexpr int UNITS = HEADS * HEAD_TILES * 4 + 2 * CHUNKS;
    static constexpr int SHARED = SLOTS * UNIT;
    static_assert(COLUMNS % STEP == 0 && DEPTH % 8 == 0 && SHARED <= 99 * 1024, "sizes");

private:
    int lane;
    Ring<UNIT, UNITS, true> ring;
    u32 normed[STEPS][4];

    /// The normed tokens by a unit's 16 columns, with their biases. Even and odd steps have sums of
    /// their own: shorter chains.
    __device__ __forceinline__ void multiply_unit(WindowSums& sums, u32 unit) const {
        WindowSums odd;
#pragma unroll
        for (int n = 0; n < 2; n++) {
            float2 bias = load_shared_pair(unit + STEPS * FRAGMENTS + n * 32 + (lane & 3) * 8);
            sums[n][0] = sums[n][2] = bias.x, sums[n][1] = sums[n][3] = bias.y;
#pragma unroll
            for (int i = 0; i < 4; i++) odd[n][i] = 0.0f;
        }
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            u32 b[4];
            load_shared(b, unit + step * FRAGMENTS + lane * 16);
#pragma unroll
            for (int n = 0; n < 2; n++)
                multiply_add((step % 2 ? odd : sums)[n], normed[step], b[n * 2], b[n * 2 + 1]);
        }
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) sums[n][i] += odd[n][i];
    }

    /// What a head's queries attend to: weights of the values, and the reciprocal sums of these.
    __device__ __forceinline__ void attend(u32 (&weights)[1][4], float (&share)[2]) {
        WindowSums scores;
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) scores[n][i] = 0.0f;
#pragma unroll 1
        for (int tile = 0; tile < HEAD_TILES; tile++) {
            u32 unit = ring.template take<2>(), left[4], right[4] = {};
            // One loop for both: less PTX.
#pragma unroll 1
            for (int keys = 0; keys < 2; keys++) {
                WindowSums sums;
#pragma unroll
                for (int i = 0; i < 4; i++) left[i] = right[i];
                multiply_unit(sums, unit);
                to_left(right, sums);
                if (keys == 0) unit = ring.take_another();
            }
            // Of keys 8 n + lane / 4.
            multiply_add(scores[0], left, right[0], right[2]);
            multiply_add(scores[1], left, right[1], right[3]);
        }
        softmax(scores, weights, share);
    }

    /// Adds the projection of a head (`phase` 0), or the MLP, 16 columns of head or hidden layer at
    /// a time. One loop for both: less PTX.
    __device__ __forceinline__ void add(WindowSums (&x)[STEPS], int phase, const u32 (&weights)[4],
                                        const float (&share)[2]) {
        int last = phase == 0 ? HEAD_TILES - 1 : CHUNKS;
        WindowSums hidden = {};
#pragma unroll 1
        for (int step = 0; step <= last; step++) {
            forget(phase);  // so that this stays one loop
            u32 left[4], unit = ring.template take<2>(), down = unit;
            // Of an MLP the next columns, then the last ones. At first these are zeros, and at the
            // end nobody needs the next.
            if (phase == 0 || (step > 0 && step < last)) down = ring.take_another();
            WindowSums next;
            multiply_unit(next, unit);
            if (phase == 0) {
                u32 values[4];
                to_left(values, next);
                WindowSums of;
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    of[n][0] = of[n][1] = of[n][2] = of[n][3] = 0.0f;
                    multiply_add(of[n], weights, transposed(values[n * 2]), transposed(values[n * 2 + 1]));
#pragma unroll
                    for (int i = 0; i < 4; i++) of[n][i] *= share[i / 2];
                }
                to_left(left, of);
            } else {
#pragma unroll
                for (int n = 0; n < 2; n++)
#pragma unroll
                    for (int i = 0; i < 4; i++) hidden[n][i] = gelu(hidden[n][i]);
                to_left(left, hidden);
#pragma unroll
                for (int n = 0; n < 2; n++)
#pragma unroll
                    for (int i = 0; i < 4; i++) hidden[n][i] = next[n][i];
            }
            if (phase == 0 || step > 0)
#pragma unroll
                for (int j = 0; j < STEPS; j++) {
                    u32 b[4];
                    load_shared(b, down + j * FRAGMENTS + lane * 16);
                    multiply_add(x[j][0], left, b[0], b[1]);
                    multiply_add(x[j][1], left, b[2], b[3]);
                }
        }
    }

public:
    __device__ __forceinline__ void run(const BlockProblem& p, u32 memory) {
        lane = threadIdx.x & 31;
        ring.begin(memory, p.units);
        Place place(p.grid, COLUMNS, threadIdx.x);
        const float* from = p.x + place.first;
        dependent_wait();
        dependent_launch();
#pragma unroll 1
        for (int at = (int)(blockIdx.x * blockDim.x + threadIdx.x); at < p.lines;
             at += (int)(gridDim.x * blockDim.x))
            prefetch(p.later + at * LINE);
        WindowSums x[STEPS];
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < STEPS; j++)
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    float2 two = load_token(from + i * place.below + j * TILE + n * 2);
                    x[j][n][i * 2] = two.x, x[j][n][i * 2 + 1] = two.y;
                }
        // Nothing and the first norm; the projection's bias and the second norm; the MLP's bias and
        // the next block's norm. A loop, so that the norm stands once.
#pragma unroll 1
        for (int phase = 0;; phase++) {
            forget(phase);
            const float* vectors = p.vectors + phase * (3 * COLUMNS) + (lane & 3) * 4;
            normalize_rows<STEPS, 2>(
                [&](int j, int n) -> float(&)[4] { return x[j][n]; },
                [&](int of, int j) {
                    // In pairs, each behind a barrier: no registers for all of them at once.
                    if (of == 1 && j % 2 == 0) warp_barrier();
                    return load_coherent_floats(vectors + of * COLUMNS + j * TILE);
                },
                [&](int j, const u32(&words)[4]) {
#pragma unroll
                    for (int i = 0; i < 4; i++) normed[j][i] = words[i];
                });
            if (phase == 2) break;
            int head = phase == 0 ? HEADS : 1;
#pragma unroll 1
            do {
                u32 weights[1][4] = {};
                float share[2] = {};
                if (phase == 0) attend(weights, share);
                add(x, phase, weights[0], share);
            } while (--head);
        }
        // Computed again, so that it keeps no registers meanwhile.
        int thread = threadIdx.x;
        forget(thread);
        Place to(p.grid, COLUMNS, thread);
        if (!to.stored) return;
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < STEPS; j++)
                store_token(p.x + to.first + i * to.below + j * TILE,
                            make_float4(x[j][0][i * 2], x[j][0][i * 2 + 1], x[j][1][i * 2],
                                        x[j][1][i * 2 + 1]));
        if (!p.next) return;
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < STEPS; j++)
                store_halves(p.next + to.first + i * to.below + j * TILE,
                             make_uint2(normed[j][i], normed[j][2 + i]));
    }
};

// ---- instances ----

#define INSTANCE(COLUMNS, HEADS) HIERA_BLOCK(COLUMNS, HEADS, WindowBlock, MOST_THREADS, 1)
// A module of cuda/kernels.toml has one of them; without INSTANCES this file has all.
#if !defined(INSTANCES) || INSTANCES == 192
INSTANCE(192, 2)
#endif
#if !defined(INSTANCES) || INSTANCES == 224
INSTANCE(224, 4)
#endif
