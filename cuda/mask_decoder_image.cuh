/*!
A tile of image tokens of the mask decoder, as a block has it, and the tokens' attention to it: what
mask_decoder_token_to_image_attn does and mask_decoder_image_to_token_attn ends with
(mask_decoder_image.cu).
*/
#pragma once

// ---- primitives ----

/// 16 bytes of weights, which this multiprocessor needs once. As if others could write them (no
/// `.nc`): so no load moves behind a barrier, to where it is used.
__device__ __forceinline__ void load_weights(u32 (&r)[4], const f16* from) {
    asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "l"(from) : "memory");
}

// ---- attention ----

constexpr int IMAGE_TILE = 64;            // image tokens of a block: one line of `sums` and `parts`
constexpr int IMAGE_THREADS = 128;
constexpr int IMAGE_WIDTH = 256;          // columns of an image token
constexpr int HEAD = 16;                  // columns of a head
constexpr int TOKENS = 8;                 // that read and are read: as many as heads
constexpr int INSIDE = TOKENS * HEAD;
constexpr int STEPS = IMAGE_WIDTH / 32;   // a lane has eight of a step's columns
constexpr u32 ROW = IMAGE_WIDTH * 2;      // bytes of a row in shared memory
// Of shared memory: x + pe, or K and then the norm's weight and bias.
constexpr u32 SECOND = IMAGE_TILE * ROW;
constexpr u32 THIRD = 2 * SECOND;         // V, then y + pe
// Shared memory of a block that reads the image, and of one that writes it.
constexpr u32 READ_SHARED = THIRD, WRITE_SHARED = THIRD + SECOND;

/// What a launch is given for its read.
struct ReadProblem {
    const f16 *folded, *values;  // F [64, 256], Wv [128, 256]
    float *sums, *parts;         // [tiles, 64, 2], [tiles, 8, 128]
    int tokens;
};

/// Units of 16 bytes change places inside 128 bytes, by their row: eight rows' units of a column
/// are in eight places, and so are four units of two rows, an even one and the next.
__device__ __forceinline__ u32 turned(int row) { return ((row & 1) << 6) | ((row & 6) << 3); }
/// Of 128-byte pieces of rows of BYTES, where a unit is.
template <u32 BYTES>
__device__ __forceinline__ u32 unit_at(int row, int unit) {
    return row * BYTES + (((u32)unit * 16) ^ turned(row));
}

/// A tile of image tokens and a lane's place in it. Where a lane has rows and columns of a
/// fragment, these are row `group` and the eighth behind it, and columns 8 part to 8 part + 7 of a
/// step's 32.
struct ImageLane {
    int warp, lane, group, part;
    u32 shared, line;  // of row `group`, unit `part`, in rows of ROW bytes

    __device__ __forceinline__ ImageLane(u32 shared) : shared(shared) {
        warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = lane >> 2, part = lane & 3;
        line = shared + unit_at<ROW>(group, part);
    }
    /// Of this lane's unit in row `row` + group, a multiple of eight, of a step.
    __device__ __forceinline__ u32 at(int row, int step) const {
        return (line ^ ((step & 1) << 6)) + row * ROW + (step >> 1) * 128;
    }

    /// Where a row of the tile lies in memory; of one past the last token the last one, whose
    /// weight there is none.
    __device__ __forceinline__ static int offset(int row, int tokens) {
        int token = blockIdx.x * IMAGE_TILE + row;
        return (token < tokens ? token : tokens - 1) * IMAGE_WIDTH;
    }
    /// The warp's 16 tokens as fragments: what is at 2 step + i is of row group + 8 i. x + pe in
    /// registers, x in shared memory. Positions come first, then `before` is done, and `meanwhile`
    /// while x comes.
    template <class Before, class Meanwhile>
    __device__ __forceinline__ void fetch(const f16* x, const f16* pe, int tokens,
                                          u32 (&placed)[2 * STEPS][4], Before before,
                                          Meanwhile meanwhile) const {
        u32 own[2 * STEPS][4];
        int upper = offset(warp * 16 + group, tokens) + part * 8,
            lower = offset(warp * 16 + 8 + group, tokens) + part * 8;
#pragma unroll
        for (int i = 0; i < 2 * STEPS; i++)
            load_line(placed[i], pe + (i & 1 ? lower : upper) + (i >> 1) * 32);
        before();
#pragma unroll
        for (int i = 0; i < 2 * STEPS; i++)
            load_line(own[i], x + (i & 1 ? lower : upper) + (i >> 1) * 32);
        meanwhile();
        // Nothing that was asked for above is asked for later.
        warp_barrier();
#pragma unroll
        for (int i = 0; i < 2 * STEPS; i++) {
            store_shared(at(warp * 16 + (i & 1) * 8, i >> 1), own[i]);
#pragma unroll
            for (int k = 0; k < 4; k++) placed[i][k] = add_halves(own[i][k], placed[i][k]);
        }
    }
};

/// Two rows' units as the left factor of a step's two products, registers in a row. ptxas would
/// copy the words of what was loaded for each product anew; that each is the exclusive or with
/// `zero`, of which it knows nothing, keeps it from that.
__device__ __forceinline__ void left_factor(u32 (&a)[2][4], const u32 (&upper)[4], const u32 (&lower)[4],
                                            u32 zero) {
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int k = 0; k < 2; k++)
            a[half][2 * k] = upper[half * 2 + k] ^ zero, a[half][2 * k + 1] = lower[half * 2 + k] ^ zero;
}

/// The tokens' attention to a tile in shared memory: x, and PLACED bytes behind it x + pe. A warp
/// has heads 2 warp and 2 warp + 1.
template <u32 PLACED>
struct ImageRead {
    static constexpr int AHEAD = 2;  // steps
    static constexpr int ROWS = 6;   // units of weights a step and lane: two of F, four of Wv
    static constexpr int EIGHTS = IMAGE_TILE / 8;

    u32 weights[AHEAD][ROWS][4];
    const f16 *folded, *values;     // this lane's first rows
    // Of tokens 8 i + 2 part and the next, of row `group` of the first head, then of the second.
    float scores[EIGHTS][4];
    // Of each head, the same tokens' values of column `group`, then of the eighth behind it.
    float projected[2][EIGHTS][4];

    __device__ __forceinline__ void fetch(u32 (&to)[ROWS][4], int step) const {
#pragma unroll
        for (int i = 0; i < 2; i++) load_weights(to[i], folded + i * 8 * IMAGE_WIDTH + step * 32);
#pragma unroll
        for (int i = 0; i < 4; i++) load_weights(to[i + 2], values + i * 8 * IMAGE_WIDTH + step * 32);
    }
    /// Starts the first loads of weights: they are under way while the tile comes to be.
    __device__ __forceinline__ void start(const ReadProblem& p, const ImageLane& of) {
        folded = p.folded + (of.warp * 2 * TOKENS + of.group) * IMAGE_WIDTH + of.part * 8;
        values = p.values + (of.warp * 2 * HEAD + of.group) * IMAGE_WIDTH + of.part * 8;
#pragma unroll
        for (int i = 0; i < AHEAD; i++) fetch(weights[i], i);
    }

    __device__ __forceinline__ void run(const ReadProblem& p, const ImageLane& of) {
#pragma unroll
        for (int i = 0; i < EIGHTS; i++)
#pragma unroll
            for (int k = 0; k < 4; k++) scores[i][k] = projected[0][i][k] = projected[1][i][k] = 0.0f;
        // As a loop ptxas copies what is loaded for the next turn from register to register, and
        // runs out of them.
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            u32 w[ROWS / 2][2][4];
            u32(&loaded)[ROWS][4] = weights[step % AHEAD];
#pragma unroll
            for (int i = 0; i < ROWS / 2; i++)
                left_factor(w[i], loaded[2 * i], loaded[2 * i + 1], blockIdx.y);
            if (step + AHEAD < STEPS) fetch(loaded, step + AHEAD);
            // Two at a time, so that no product waits for the one before.
#pragma unroll
            for (int i = 0; i < EIGHTS; i += 2) {
                u32 x[2][4], placed[2][4];
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    load_shared(placed[n], of.at((i + n) * 8, step) + PLACED);
                    load_shared(x[n], of.at((i + n) * 8, step));
                }
#pragma unroll
                for (int half = 0; half < 2; half++)
#pragma unroll
                    for (int n = 0; n < 2; n++) {
                        multiply_add(scores[i + n], w[0][half], placed[n][half * 2], placed[n][half * 2 + 1]);
                        multiply_add(projected[0][i + n], w[1][half], x[n][half * 2], x[n][half * 2 + 1]);
                        multiply_add(projected[1][i + n], w[2][half], x[n][half * 2], x[n][half * 2 + 1]);
                    }
            }
        }
        finish(p, of);
    }

    /// From scores and values to what the tile gives.
    __device__ __forceinline__ void finish(const ReadProblem& p, const ImageLane& of) {
        int left = p.tokens - blockIdx.x * IMAGE_TILE;
        if (left < IMAGE_TILE) {
#pragma unroll
            for (int i = 0; i < EIGHTS; i++)
#pragma unroll
                for (int k = 0; k < 4; k++)
                    if (i * 8 + of.part * 2 + (k & 1) >= left) scores[i][k] = NEVER;
        }
        float tops[2][2] = {{NOTHING, NOTHING}, {NOTHING, NOTHING}}, sums[2][2] = {}, products[2][4] = {};
#pragma unroll
        for (int i = 0; i < EIGHTS; i++)
#pragma unroll
            for (int k = 0; k < 4; k++) tops[k >> 1][k & 1] = fmaxf(tops[k >> 1][k & 1], scores[i][k]);
        float top[2], behind[2];
#pragma unroll
        for (int a = 0; a < 2; a++) {
            top[a] = fmaxf(tops[a][0], tops[a][1]);
            top[a] = most_of_lanes<1, 4>(top[a]);
            behind[a] = -top[a] * LOG2E;
        }
#pragma unroll
        for (int i = 0; i < EIGHTS; i += 2)
#pragma unroll
            for (int a = 0; a < 2; a++) {
                const float(&v)[EIGHTS][4] = projected[a];
                u32 shares[2], factor[4];
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    float low = power_of_two(fmaf(scores[i + n][2 * a], LOG2E, behind[a]));
                    float next = power_of_two(fmaf(scores[i + n][2 * a + 1], LOG2E, behind[a]));
                    sums[a][0] += low, sums[a][1] += next;
                    shares[n] = to_f16x2(low, next);
                    factor[2 * n] = to_f16x2(v[i + n][0], v[i + n][1]),
                               factor[2 * n + 1] = to_f16x2(v[i + n][2], v[i + n][3]);
                }
                multiply_add(products[a], factor, shares[0], shares[1]);
            }
#pragma unroll
        for (int a = 0; a < 2; a++) {
            int head = of.warp * 2 + a;
            float sum = sum_of_lanes<1, 4>(sums[a][0] + sums[a][1]);
            if (of.part == 0)
                ((float2*)p.sums)[(blockIdx.x * TOKENS + head) * TOKENS + of.group] =
                    make_float2(top[a], sum);
            // Columns `group` and the eighth behind it; tokens 2 part and the next.
#pragma unroll
            for (int k = 0; k < 4; k++)
                p.parts[(blockIdx.x * TOKENS + of.part * 2 + (k & 1)) * INSIDE + head * HEAD + (k >> 1) * 8 +
                        of.group] = products[a][k];
        }
    }
};
