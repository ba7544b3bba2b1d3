/*!
A whole block of Hiera's first stage in one launch, for any GPU from sm 80 on: LayerNorm, queries,
keys and values, attention in windows of 8 x 8 tokens, projection, residual, LayerNorm, MLP with
GELU, residual, and the LayerNorm in front of the next block.

Kernel by kernel such a block is bound by memory: 65 536 tokens go through it ten times. Here x is
read twice and written once, and nothing else but weights is read.

| kernel          | columns, heads | threads | shared memory | registers | weights of a block |
|-----------------|----------------|---------|---------------|-----------|--------------------|
| hiera_block_96  | 96, 1          | 128     | 93 504        | 225       | 226 KB             |
| hiera_block_112 | 112, 2         | 128     | 79 680        | 250       | 310 KB             |
| hiera_block_144 | 144, 2         | 128     | 101 184       | 254       | 513 KB             |

A block of threads has two windows, and a warp 32 tokens, four lines of a window. The tensor cores
are fed from shared memory: with 32 tokens a warp each fragment of weights serves four instructions,
with 16 it would serve two, and shared memory would be the limit. Two blocks fit a multiprocessor of
sm 90, so that one multiplies while the other has norms, softmax or GELU. With 144 columns, those of
large, a unit of the MLP loads four of the nine steps of normed tokens from shared memory: the sums
need their registers.

The weights are a stream of units in the order of their use
(crates/kernels/src/hiera/fused/packed.rs), and go through a ring of slots, AHEAD of them on the
way. A unit has 16 rows or 16 columns of a weight, in fragments: for each lane the 16 bytes that it
needs as right factor of a step. So copies and loads are straight, without bank conflicts. Behind
them are the biases of the 16 columns.

The residual is in the accumulators of projection and MLP, which begin as what they are added to. A
lane has four neighbouring columns of each 16: the weights' depth is in that order, too, so that
what a norm or GELU gives is a left factor as it is. A norm's output goes through the warp's own
shared memory, where a lane reads what it wrote. Queries take the same place, and what they attend
to replaces them.

The MLP computes 16 hidden columns while the 16 before go through GELU: the instructions fill each
other's gaps, and one barrier serves two units.

Queries of 56 columns are padded to 64 by weights of zero. A row of keys is followed by its values,
so that the padding meets finite numbers.

By count, an H200 needs 7400 (96 columns) or 10 200 instructions `mma` for each quarter of a
multiprocessor, and a quarter as many loads of weights.

Grid: ceil(windows / 2). The windows must fill the map.
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"
#include "repvit.cuh"
#include "hiera_block.cuh"

// ---- block ----

template <int COLUMNS, int HEADS>
class HieraBlock {
public:
    static constexpr int STEPS = COLUMNS / STEP;  // of the depth, and of 16 columns
    static constexpr int DEPTH = COLUMNS / HEADS;
    // Tiles of 16 columns of a head: queries, padded; keys, then values.
    static constexpr int QUERY_TILES = (DEPTH + TILE - 1) / TILE;
    static constexpr int HEAD_TILES = QUERY_TILES + 2 * DEPTH / TILE;
    static constexpr int CHUNKS = 4 * COLUMNS / TILE;  // of the hidden layer
    // Steps of normed tokens that stay in registers beside the residual; the MLP loads the others
    // from shared memory for each unit.
    static constexpr int HELD = COLUMNS <= 112 ? STEPS : 5;
    static constexpr int UNIT = STEPS * FRAGMENTS + BIASES;
    static constexpr int UNITS = HEADS * HEAD_TILES + STEPS + 2 * CHUNKS;
    // From a token to the next; both an odd number of 16 bytes, for ldmatrix.
    static constexpr int OWN_PITCH = COLUMNS * 2 + 16, KEY_PITCH = DEPTH * 4 + 16;
    static constexpr int SHARED = SLOTS * UNIT + WINDOWS * KEYS * (OWN_PITCH + KEY_PITCH);
    static_assert(COLUMNS % STEP == 0 && 2 * DEPTH % TILE == 0 && OWN_PITCH / 16 % 2 && KEY_PITCH / 16 % 2,
                  "sizes");
    static_assert(2 * STEPS * 32 * 16 <= ROWS * OWN_PITCH && SHARED <= 99 * 1024, "shared memory");

private:
    int lane, warp;
    u32 own, keys;  // the warp's tokens; the window's keys and values
    Ring<UNIT, UNITS> ring;
    WarpTokens<COLUMNS> tokens;

    /// Sums begin as the biases of a unit: of columns 2 (lane % 4) and the next one of each eight.
    __device__ __forceinline__ void begin_with(Sums& sums, u32 unit) const {
#pragma unroll
        for (int n = 0; n < 2; n++) {
            float2 bias = load_shared_pair(unit + STEPS * FRAGMENTS + n * 32 + (lane & 3) * 8);
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int i = 0; i < 2; i++) sums[m][n][i * 2] = bias.x, sums[m][n][i * 2 + 1] = bias.y;
        }
    }
    /// Adds a step to all columns of the residual.
    __device__ __forceinline__ void add_step(Sums (&x)[STEPS], const u32 (&left)[2][4], u32 unit) const {
#pragma unroll
        for (int j = 0; j < STEPS; j++) {
            u32 b[4];
            load_shared(b, unit + j * FRAGMENTS + lane * 16);
            multiply(x[j], left, b);
        }
    }

    /// Adds the products of the normed tokens with a unit's 16 columns; those of steps from IN_HAND
    /// on are loaded.
    template <int IN_HAND>
    __device__ __forceinline__ void multiply_unit(Sums& sums, const u32 (&normed)[STEPS][2][4],
                                                  u32 unit) const {
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            u32 b[4];
            load_shared(b, unit + step * FRAGMENTS + lane * 16);
            if (step < IN_HAND) {
                multiply(sums, normed[step], b);
            } else {
                u32 left[2][4];
                tokens.load_normed(left, step);
                multiply(sums, left, b);
            }
        }
    }

    /// Queries, keys and values of a head to shared memory: queries to the warp's own tokens.
    __device__ __forceinline__ void project(const u32 (&normed)[STEPS][2][4], int head) {
        int half = (warp & 1) * ROWS, row = lane >> 2, pair = (lane & 3) * 4;
        u32 query = own + row * OWN_PITCH + head * (DEPTH * 2) + pair;
        u32 key = keys + (half + row) * KEY_PITCH + pair;
#pragma unroll 1
        for (int tile = 0; tile < HEAD_TILES; tile++) {
            u32 unit = ring.template take<1>();
            Sums sums;
            begin_with(sums, unit);
            multiply_unit<STEPS>(sums, normed, unit);
            bool asks = tile < QUERY_TILES;
            u32 to = asks ? query : key, pitch = asks ? OWN_PITCH : KEY_PITCH;
            (asks ? query : key) += TILE * 2;
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int n = 0; n < 2; n++)
                        store_shared_word(to + (m * 16 + i * 8) * pitch + n * 16,
                                          to_f16x2(sums[m][n][i * 2], sums[m][n][i * 2 + 1]));
        }
    }

    /// softmax(Q K^T) V of a head, in the place of its queries, 16 of them at a time.
    __device__ __forceinline__ void attend(int head) const {
#pragma unroll 1
        for (int m = 0; m < 2; m++) {
            u32 rows = own + m * 16 * OWN_PITCH + head * (DEPTH * 2);
            float scores[KEYS / 8][4];
#pragma unroll
            for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) scores[j][i] = 0.0f;
#pragma unroll 1
            for (int step = 0; step < QUERY_TILES; step++) {
                u32 a[4], b[4];
                load_matrices(a, left_of(rows, OWN_PITCH, lane) + step * 32);
                u32 right = keys + ((lane & 7) + (lane >> 4) * 8) * KEY_PITCH + (lane >> 3 & 1) * 16 +
                            step * 32;
#pragma unroll
                for (int j = 0; j < KEYS / 16; j++) {
                    load_matrices(b, right + j * 16 * KEY_PITCH);
                    multiply_add(scores[2 * j], a, b[0], b[1]);
                    multiply_add(scores[2 * j + 1], a, b[2], b[3]);
                }
            }
            float share[2];
            u32 weights[KEYS / 16][4];
            softmax(scores, weights, share);
            warp_barrier();  // all lanes have read the queries
            u32 to = rows + (lane >> 2) * OWN_PITCH + (lane & 3) * 4;
            u32 right = keys + (lane & 15) * KEY_PITCH + DEPTH * 2 + (lane >> 4) * 16;
#pragma unroll 1
            for (int column = 0; column < DEPTH; column += TILE, to += TILE * 2, right += TILE * 2) {
                float sums[2][2][4];  // of even and odd steps: shorter chains
#pragma unroll
                for (int j = 0; j < KEYS / 16; j++) {
                    u32 b[4];
                    load_matrices_transposed(b, right + j * 16 * KEY_PITCH);
#pragma unroll
                    for (int n = 0; n < 2; n++) {
                        float(&of)[4] = sums[j & 1][n];
                        if (j < 2) of[0] = of[1] = of[2] = of[3] = 0.0f;
                        multiply_add(of, weights[j], b[n * 2], b[n * 2 + 1]);
                    }
                }
#pragma unroll
                for (int n = 0; n < 2; n++)
                    if (column + n * 8 < DEPTH)
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            float low = (sums[0][n][i * 2] + sums[1][n][i * 2]) * share[i];
                            float high = (sums[0][n][i * 2 + 1] + sums[1][n][i * 2 + 1]) * share[i];
                            store_shared_word(to + i * 8 * OWN_PITCH + n * 16, to_f16x2(low, high));
                        }
            }
        }
    }

    /// Adds the projection of the attention (`phase` 0), or the MLP, 16 columns of its hidden layer
    /// at a time. One loop for both: half as much PTX.
    __device__ __forceinline__ void add(Sums (&x)[STEPS], const u32 (&normed)[STEPS][2][4], int phase) {
        u32 from = left_of(own, OWN_PITCH, lane);
        int last = phase == 0 ? STEPS - 1 : CHUNKS;
        Sums hidden;
        begin(hidden, make_float4(0.0f, 0.0f, 0.0f, 0.0f));
#pragma unroll 1
        for (int step = 0; step <= last; step++, from += STEP * 2) {
            forget(phase);  // so that this stays one loop
            u32 left[2][4], unit = ring.template take<2>(), down = unit;
            if (phase == 0) {
                load_left(left, from, OWN_PITCH);
            } else {
                // The next columns and the last ones in one: their instructions fill each other's
                // gaps. At first the last ones are zeros, and at the end nobody needs the next.
                if (step > 0 && step < last) down = ring.take_another();
                Sums next;
                begin_with(next, unit);
                multiply_unit<HELD>(next, normed, unit);
#pragma unroll
                for (int m = 0; m < 2; m++)
#pragma unroll
                    for (int n = 0; n < 2; n++) {
#pragma unroll
                        for (int i = 0; i < 2; i++)
                            left[m][n * 2 + i] =
                                to_f16x2(gelu(hidden[m][n][i * 2]), gelu(hidden[m][n][i * 2 + 1]));
#pragma unroll
                        for (int i = 0; i < 4; i++) hidden[m][n][i] = next[m][n][i];
                    }
            }
            if (phase == 0 || step > 0) add_step(x, left, down);
        }
    }

public:
    __device__ __forceinline__ void run(const BlockProblem& p, u32 memory) {
        warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
        ring.begin(memory, p.units);
        own = memory + SLOTS * UNIT + warp * ROWS * OWN_PITCH;
        tokens.own = own + lane * 16;
        keys = memory + SLOTS * UNIT + WARPS * ROWS * OWN_PITCH + (warp >> 1) * KEYS * KEY_PITCH;
        // A window too many in the last block repeats the last one and stores nothing.
        int side = p.grid / WINDOW, window = (int)blockIdx.x * WINDOWS + (warp >> 1);
        bool stored = window < side * side;
        if (!stored) window = side * side - 1;
        int down = window / side, across = window - down * side, line = p.grid * COLUMNS;
        int top = down * WINDOW + (warp & 1) * (ROWS / WINDOW), left = across * WINDOW + (lane >> 2);
        int first = (top * p.grid + left) * COLUMNS + (lane & 3) * 4;
        dependent_wait();
        dependent_launch();
#pragma unroll 1
        for (int at = (int)blockIdx.x * THREADS + (int)threadIdx.x; at < p.lines;
             at += (int)gridDim.x * THREADS)
            prefetch(p.later + at * LINE);
        // Nothing and the first norm; the projection's bias and the second norm; the MLP's bias and
        // the next block's norm. A loop, so that the norm stands once. Tokens are loaded again behind
        // the attention, as the registers hold other things meanwhile.
        Sums x[STEPS];
        tokens.load(x, p.x + first, line);
#pragma unroll 1
        for (int phase = 0;; phase++) {
            forget(phase);
            tokens.normalize(x, p.vectors + phase * (3 * COLUMNS) + (lane & 3) * 4);
            if (phase == 2) break;
            u32 normed[STEPS][2][4];
#pragma unroll
            for (int step = 0; step < HELD; step++) tokens.load_normed(normed[step], step);
            if (phase == 0) {
#pragma unroll
                for (int step = HELD; step < STEPS; step++) tokens.load_normed(normed[step], step);
                warp_barrier();  // before queries take its place
#pragma unroll 1
                for (int head = 0; head < HEADS; head++) {
                    project(normed, head);
                    block_barrier();  // the other warp's keys and values
                    attend(head);
                }
                warp_barrier();
                forget(first);  // so that no address keeps a register meanwhile
                tokens.load(x, p.x + first, line);
            }
            add(x, normed, phase);
            warp_barrier();  // before a norm takes its place
        }
        if (!stored) return;
        forget(first);
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < STEPS; j++)
                    store_token(p.x + first + (m * 2 + i) * line + j * TILE,
                                make_float4(x[j][m][0][i * 2], x[j][m][0][i * 2 + 1], x[j][m][1][i * 2],
                                            x[j][m][1][i * 2 + 1]));
        if (!p.next) return;
#pragma unroll 1
        for (int step = 0; step < STEPS; step++) {
            u32 words[2][4];
            tokens.load_normed(words, step);
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int i = 0; i < 2; i++)
                    store_halves(p.next + first + (m * 2 + i) * line + step * TILE,
                                 make_uint2(words[m][i], words[m][2 + i]));
        }
    }
};

// ---- instances ----

#define INSTANCE(COLUMNS, HEADS) HIERA_BLOCK(COLUMNS, HEADS, HieraBlock, THREADS, 2)
// A module of cuda/kernels.toml has one of them; without INSTANCES this file has all.
#if !defined(INSTANCES) || INSTANCES == 96
INSTANCE(96, 1)
#endif
#if !defined(INSTANCES) || INSTANCES == 112
INSTANCE(112, 2)
#endif
#if !defined(INSTANCES) || INSTANCES == 144
INSTANCE(144, 2)
#endif
