/*!
The end of the mask decoder: image tokens upscaled by two transposed convolutions, and of each
pixel's features the product with the vector of the mask that was chosen. For any GPU from sm 80 on.

    first  = GELU(LayerNorm(W1[dy, dx] token + b1 + hr1))      64 channels of pixel (2 y + dy, 2 x + dx)
    second = GELU(W2[dy', dx'] first + b2 + hr0)               32 channels of pixel (2 (2 y + dy) + dy',
                                                               2 (2 x + dx) + dx')
    low    = vector . second                                   or -1024 everywhere, where the object's
                                                               score is not above 0

Two matmuls a pixel. T: image tokens; sm 80 on.

| kernel                     | M, N, K of both                 | tile | threads | stages | shared bytes |
|----------------------------|---------------------------------|------|---------|--------|--------------|
| mask_decoder_upscale_masks | T, 4 x 64, 256; 4 T, 4 x 32, 64 | 64   | 128     | 4, all | 49 152       |

Both convolutions have a stride as wide as they are: a pixel comes of one token, and each is four
products side by side. Neither result leaves the registers: of a grid of 64 x 64 they are 2 and 4 MB
of halves, to write and to read again.

A warp has 16 tokens and all 64 channels of one of their four pixels, so that a row of the norm lies
in the four lanes of a quad, and what `mma` gives is what the next one takes. What a thread holds of
a product is up to it, as in cuda/memory_key_proj.cu: k goes in the order in which a thread finds
eight columns of a token or a weight in a row, 16 bytes at a time, and channels in one where its
eight of each 32 lie side by side. Rows lane / 4 and lane / 4 + 8 of a tile are two tokens side by
side in the image: what a thread needs of hr1 and hr0, channels first, is then 8 and 16 bytes in a
row, and what eight lanes read lies in a row too. It comes to registers without a stop in shared
memory, asked for ahead of the products. That takes an even grid, and the encoders have no other:
their deepest map has half its side.

All loads but a few are under way before the first product, which begins with a quarter of its
weights. By count, a grid of 64 x 64 has 256 blocks of two to a multiprocessor, which an H200 runs
at once, and they read 32 MB of the L2 cache: 8 of tokens, 12 of weights and 12 of hr1 and hr0,
whose sectors two blocks share. Blocks with both of a token's pixels side by side would read 20; but
all four kernels over the image together take 8 us more with 4096 tokens than with 16 on an H200.

Grid: `x` = tiles of 64 tokens, `y` = the first convolution's (dy, dx).
*/

#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"

// ---- primitives ----

/// One of two. NVRTC makes branches of `?:`, with shuffles inside them.
__device__ __forceinline__ u32 either(bool second, u32 a, u32 b) {
    u32 r;
    asm("{ .reg .pred p; setp.ne.u32 p, %3, 0; selp.b32 %0, %2, %1, p; }"
        : "=r"(r)
        : "r"(a), "r"(b), "r"((u32)second));
    return r;
}

// ---- attention ----

constexpr int COLUMNS = 256;      // of a token
constexpr int FIRST = 64;         // channels behind the first convolution
constexpr int SECOND = 32;        // and behind the second
constexpr int TILE = 64;          // tokens of a block
constexpr int PART_COLUMNS = 64;  // of weights that come together
constexpr float NORM_EPSILON = 1e-6f;
constexpr float NO_OBJECT = -1024.0f;

/// Everything a launch is given. All but the score begin at multiples of 16 bytes; the grid is
/// even.
struct MasksProblem {
    const f16* tokens;                             // [grid², 256]
    const f16 *hr0, *hr1;                          // [32, 4 grid, 4 grid], [64, 2 grid, 2 grid]
    const f16* weight1;                            // [4 (dy, dx), 64, 256]
    const float *bias1, *norm_weight, *norm_bias;  // [64]
    const f16* weight2;                            // [4 (dy, dx), 32, 64]
    const float *bias2, *vector;                   // [32]
    const float* score;                            // [1]
    float* low;                                    // [4 grid, 4 grid]
    int grid;
};

class Masks {
public:
    static constexpr int THREADS = 128;
    static constexpr int ROW_BYTES = COLUMNS * 2, ROW2_BYTES = FIRST * 2;
    // Offset of the second convolution's weights: after the first one's.
    static constexpr int WEIGHT2 = FIRST * ROW_BYTES;
    static constexpr int SHARED = WEIGHT2 + 4 * SECOND * ROW2_BYTES;

private:
    // Of the first product, whose weights come one after the other.
    static constexpr int PARTS = COLUMNS / PART_COLUMNS;

    u32 shared;
    int thread, part;           // of the block; in the quad
    int right;                  // this warp's dx
    // The pixel of the first of two tokens as hr0 has them: its topmost row, its leftmost column,
    // and their number.
    int row, column, side;
    u32 rows1, rows2;           // this lane's addresses of weights, of a warp's first tile
    uint4 tokens[PARTS][2][2];  // of 64 columns: of 32, this lane's eight, of both tokens
    uint2 near[8][2];           // hr1: of a tile of channels, of two; two pixels of each token
    // Hr0: of a row of pixels, a tile of channels, of two; four pixels of each token.
    uint4 fine[2][4][2];
    float sums[8][4];

    /// Starts the copies of a part of the first convolution's weights; with the last one come the
    /// second's. 16-byte units of odd rows are swapped by fours, so that two rows' four units meet
    /// no bank conflict.
    template <int AT>
    __device__ __forceinline__ void fetch(const MasksProblem& p) const {
        int unit = thread & 7;
        const f16* from = p.weight1 + (int)blockIdx.y * (FIRST * COLUMNS) + AT * PART_COLUMNS + unit * 8;
#pragma unroll
        for (int i = 0; i < FIRST * 8 / THREADS; i++) {
            int of = i * (THREADS / 8) + (thread >> 3);
            copy16(shared + of * ROW_BYTES + (u32)(AT * 8 + (unit ^ (of & 1) << 2)) * 16, from + of * COLUMNS,
                   true);
        }
        if (AT == PARTS - 1) {
#pragma unroll
            for (int i = 0; i < 4 * SECOND * 8 / THREADS; i++) {
                int of = i * (THREADS / 8) + (thread >> 3);
                copy16(shared + WEIGHT2 + of * ROW2_BYTES + (u32)(unit ^ (of & 1) << 2) * 16,
                       p.weight2 + of * FIRST + unit * 8, true);
            }
        }
        copies_commit();
    }

    __device__ __forceinline__ void load_tokens(const f16* from) {
#pragma unroll
        for (int i = 0; i < PARTS; i++)
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
                for (int of = 0; of < 2; of++)
                    tokens[i][half][of] =
                        *(const uint4*)(from + of * COLUMNS + i * PART_COLUMNS + half * 32 + part * 8);
    }
    /// This lane's channels of a tile of eight columns: two from here on.
    __device__ __forceinline__ int channel(int tile) const {
        return (tile >> 2) * 32 + part * 8 + (tile & 3) * 2;
    }

    __device__ __forceinline__ void load_near(const f16* hr1) {
        // A token's two pixels of a row, which has half as many as hr0's.
        const f16* from = hr1 + (row >> 1) * (side >> 1) + (column >> 1);
        int plane = (side >> 1) * (side >> 1);
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) near[j][i] = *(const uint2*)(from + (channel(j) + i) * plane);
    }
    template <int DOWN>
    __device__ __forceinline__ void load_fine(const f16* hr0) {
        const f16* from = hr0 + (row + DOWN) * side + column;
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                fine[DOWN][j][i] = *(const uint4*)(from + (channel(j) + i) * (side * side));
    }
    /// The norm's vectors, the second bias and the vector of the mask, to where the first part of
    /// weights was: 32 floats in the first 128 bytes of a row.
    __device__ __forceinline__ void fetch_vectors(const MasksProblem& p) const {
        if (thread < 48) {
            int line = thread >> 3, at = (thread & 7) * 4;
            const float* from = line < 2    ? p.norm_weight + line * 32
                                : line < 4  ? p.norm_bias + (line - 2) * 32
                                : line == 4 ? p.bias2
                                            : p.vector;
            copy16(shared + line * ROW_BYTES + at * 4, from + at, true);
        }
        copies_commit();
    }
    /// Of 32 floats, this lane's eight.
    __device__ __forceinline__ void load_vector(float (&to)[8], int line) const {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float4 four = load_shared_floats(shared + line * ROW_BYTES + part * 32 + i * 16);
            to[i * 4] = four.x, to[i * 4 + 1] = four.y, to[i * 4 + 2] = four.z, to[i * 4 + 3] = four.w;
        }
    }

    /// The first product, part by part. What is loaded on the way takes the registers of tokens
    /// that are multiplied.
    template <int AT>
    __device__ __forceinline__ void multiply_first(const MasksProblem& p) {
        if constexpr (AT < PARTS) {
            copies_wait<AT == 2 ? 2 : PARTS - 1 - AT>();  // the vectors come last
            block_barrier();
            if (AT == 1) fetch_vectors(p);
            if (AT == 2) load_fine<1>(p.hr0), warp_barrier();  // as in front of the first
#pragma unroll
            for (int half = 0; half < 2; half++) {
                // The words of a fragment lie apart in what was loaded. Without an operation on
                // them ptxas 12.9 moves them together anew for every product, 330 moves instead of
                // 64 operations; `zero` it does not see through.
                const uint4 &a = tokens[AT][half][0], &b = tokens[AT][half][1];
                u32 zero = (u32)p.grid >> 31;
                const u32 low[4] = {a.x ^ zero, b.x ^ zero, a.y ^ zero, b.y ^ zero},
                          high[4] = {a.z ^ zero, b.z ^ zero, a.w ^ zero, b.w ^ zero};
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    uint4 weights = shared_unit((rows1 ^ (u32)(half * 64)) + AT * 128 +
                                                ((j >> 2) * 32 + (j & 3) * 2) * ROW_BYTES);
                    multiply_add(sums[j], low, weights.x, weights.y);
                    multiply_add(sums[j], high, weights.z, weights.w);
                }
            }
            multiply_first<AT + 1>(p);
        }
    }

    /// hr1, the norm and the activation, in place.
    __device__ __forceinline__ void finish_first() {
        float roots[2];
#pragma unroll
        for (int of = 0; of < 2; of++) {
            float mean = 0.0f, squares = 0.0f;
#pragma unroll
            for (int j = 0; j < 8; j++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float& x = sums[j][of * 2 + i];
                    x += to_float2((of == 0 ? near[j][i].x : near[j][i].y) >> right * 16).x;
                    mean += x;
                }
            mean = sum_of_lanes<1, 4>(mean) * (1.0f / FIRST);
#pragma unroll
            for (int j = 0; j < 8; j++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float& x = sums[j][of * 2 + i];
                    x -= mean;
                    squares = fmaf(x, x, squares);
                }
            roots[of] = reciprocal_root(fmaf(sum_of_lanes<1, 4>(squares), 1.0f / FIRST, NORM_EPSILON));
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float weight[8], bias[8];
            load_vector(weight, half), load_vector(bias, 2 + half);
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    float& x = sums[half * 4 + j][i];
                    x = gelu(fmaf(x * roots[i >> 1], weight[j * 2 + (i & 1)], bias[j * 2 + (i & 1)]));
                }
        }
    }

public:
    __device__ __forceinline__ void run(const MasksProblem& p, u32 shared_base) {
        shared = shared_base, thread = threadIdx.x, part = thread & 3;
        int warp = thread >> 5, line = (thread & 31) >> 2, down = (int)blockIdx.y >> 1;
        right = blockIdx.y & 1;
        // Tokens past the end are the last two once more.
        int token = blockIdx.x * TILE + warp * 16 + line * 2, count = p.grid * p.grid;
        bool there = token < count;
        if (!there) token = count - 2;
        int y = token / p.grid;
        row = y * 4 + down * 2, column = (token - y * p.grid) * 4, side = p.grid * 4;
        u32 of = (line >> 1) * 8 + (line & 1), at = (part ^ (line & 1) << 2) * 16;
        rows1 = shared + of * ROW_BYTES + at;
        rows2 = shared + WEIGHT2 + of * ROW2_BYTES + at;

        fetch<0>(p), fetch<1>(p), fetch<2>(p), fetch<3>(p);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float2 bias = *(const float2*)(p.bias1 + channel(j));
            sums[j][0] = sums[j][2] = bias.x, sums[j][1] = sums[j][3] = bias.y;
        }
        dependent_wait();
        dependent_launch();
        load_tokens(p.tokens + token * COLUMNS);
        float score = *p.score;
        load_near(p.hr1);
        load_fine<0>(p.hr0);
        warp_barrier();  // else ptxas moves loads behind the wait that follows
        multiply_first<0>(p);
        finish_first();

        u32 first[4][4];
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                first[k][i] =
                    to_f16x2(sums[k * 2 + (i >> 1)][(i & 1) * 2], sums[k * 2 + (i >> 1)][(i & 1) * 2 + 1]);
        float bias[8], vector[8];
        load_vector(bias, 4), load_vector(vector, 5);
        float logits[2][2][2];  // of a row of pixels, a token, a pixel
#pragma unroll
        for (int down2 = 0; down2 < 2; down2++)
#pragma unroll
            for (int right2 = 0; right2 < 2; right2++) {
                float second[4][4];
#pragma unroll
                for (int j = 0; j < 4; j++)
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        const uint4& eight = fine[down2][j][i];
                        float2 a = to_float2(either(right, eight.x, eight.y)),
                               b = to_float2(either(right, eight.z, eight.w));
                        second[j][i] = bias[j * 2 + i] + (right2 ? a.y : a.x),
                        second[j][i + 2] = bias[j * 2 + i] + (right2 ? b.y : b.x);
                    }
#pragma unroll
                for (int half = 0; half < 2; half++)
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        uint4 weights = shared_unit((rows2 ^ (u32)(half * 64)) +
                                                    ((down2 * 2 + right2) * SECOND + j * 2) * ROW2_BYTES);
                        multiply_add(second[j], first[half * 2], weights.x, weights.y);
                        multiply_add(second[j], first[half * 2 + 1], weights.z, weights.w);
                    }
#pragma unroll
                for (int of = 0; of < 2; of++) {
                    float sum = 0.0f;
#pragma unroll
                    for (int j = 0; j < 4; j++)
#pragma unroll
                        for (int i = 0; i < 2; i++)
                            sum = fmaf(gelu(second[j][of * 2 + i]), vector[j * 2 + i], sum);
                    logits[down2][of][right2] = sum;
                }
            }
        store(p, logits, score > 0.0f, there);
    }

private:
    /// Sums over the quad, each lane of which stores two pixels: of token part % 2, in row part /
    /// 2.
    __device__ __forceinline__ void store(const MasksProblem& p, const float (&logits)[2][2][2], bool present,
                                          bool there) const {
        bool second = part & 1, lower = part & 2;
        float of_token[2][2], own[2];
#pragma unroll
        for (int down = 0; down < 2; down++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float first = logits[down][0][i], other = logits[down][1][i];
                of_token[down][i] = either(second, first, other) + from_lane(either(second, other, first), 1);
            }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float upper = of_token[0][i], other = of_token[1][i];
            own[i] = either(lower, upper, other) + from_lane(either(lower, other, upper), 2);
        }
        if (!there) return;
        float* to = p.low + (row + (lower ? 1 : 0)) * side + column + (second ? 4 : 0) + right * 2;
        store_pair(to, make_float2(either(present, NO_OBJECT, own[0]), either(present, NO_OBJECT, own[1])));
    }
};

// ---- instances ----

extern "C" __global__ void __launch_bounds__(128, 2)
    mask_decoder_upscale_masks(const f16* x, const f16* hr0, const f16* hr1, const f16* weight1,
                               const float* bias1, const float* norm_weight, const float* norm_bias,
                               const f16* weight2, const float* bias2, const float* vector,
                               const float* score, float* low, int grid) {
    __shared__ __align__(128) unsigned char memory[Masks::SHARED];
    Masks masks;
    masks.run(MasksProblem{x, hr0, hr1, weight1, bias1, norm_weight, norm_bias, weight2, bias2, vector, score,
                           low, grid},
              shared_address(memory));
}
