/*!
Hiera's stem in one launch, for any GPU from sm 80 on: the patch embedding, a 7x7 convolution with
stride 4 of the image's three channels, plus the position embedding. The tokens are the residual of
the first block, f32.

The convolution is a matmul over its taps. T tokens, C columns, padded to units of 16.

| kernel     | M, N, K   | tile of T         | threads | stages | shared bytes          |
|------------|-----------|-------------------|---------|--------|-----------------------|
| hiera_stem | T, C, 168 | 16 x 16 or 16 x 8 | 256     | 1      | 28 944 + 5632 x units |

A block copies its part of the image, 72 x 67 or 72 x 35 pixels, and all weights to shared memory. A
lane of the matmul needs two neighbours of a row in one register. So a row of the kernel has eight
taps, of which the first has no weight: the pairs then begin at even columns, and a step of 16 has
two rows of the kernel. The last step has one row, and is an instruction of half the depth. Tokens
lie four pixels apart: the words that the lanes load at once are neighbours, in different banks.

A warp has two lines of tokens. It loads their pixels once, all steps: 72 registers, as some steps
of the lower line repeat the upper line's. Then it goes over units of 16 columns, and loads only
weights. Sums begin as bias and position. A unit asks for those of the next one before its matmul.
The first ones are asked for before the image is there: no launch writes them. The block also
prefetches the positions of all its tokens into the L2 cache.

16 lines of tokens are for large maps: eight warps share weights, and two blocks fit a
multiprocessor of sm 90. Small maps have eight lines a block, and so more blocks. There two warps
share the lines, and take units in turn.

Grid: ceil(grid of tokens / 16) x ceil(grid of tokens / lines of a block).
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"
#include "repvit.cuh"

// ---- stem ----

constexpr int CHANNELS = 3, KERNEL = 7, STRIDE = 4;
constexpr int WARPS = 8, THREADS = WARPS * 32;
constexpr int COLUMNS = 16, LINES = 16, FEW_LINES = 8;  // tokens of a block
constexpr int FEW_PAIRS = FEW_LINES / 2;                 // of lines, which a warp has
constexpr int ROW_TAPS = 8;  // of a row of the kernel, the weightless first one included
constexpr int ROWS_IN_ALL = CHANNELS * KERNEL, WHOLE_STEPS = ROWS_IN_ALL / 2;
constexpr int STEPS = (ROWS_IN_ALL * ROW_TAPS + STEP - 1) / STEP;
static_assert(STEPS == WHOLE_STEPS + 1 && STEP == ROW_TAPS * 2, "the last step has one row");

// Pixels of the image that a tile is made of. The image's lines begin with eight, of which the
// convolution takes the last three.
constexpr int IMAGE_UNITS = (COLUMNS * STRIDE + 8) / 8, IMAGE_LINES = LINES * STRIDE + 3;
constexpr u32 IMAGE_LINE = IMAGE_UNITS * 16, PLANE = IMAGE_LINES * IMAGE_LINE, IMAGE = CHANNELS * PLANE;
constexpr u32 TOKEN_LINE = STRIDE * IMAGE_LINE;  // from a line of tokens to the next
constexpr u32 UNIT_BYTES = STEPS * PACKED * 2;  // weights of a unit of columns
static_assert(IMAGE % 16 == 0 && LINES == WARPS * 2 && COLUMNS == 16, "a warp has 32 tokens");

/// What a launch is given.
struct StemProblem {
    const f16* image;     // [3, side, side]
    const f16* weights;   // packed, [16 units, 176]
    const float* bias;    // [16 units]
    const f16* position;  // [side / 4, side / 4, columns]
    float* tokens;        // [side / 4, side / 4, columns]
    int side, columns;
    int lines;  // of a block's tokens: LINES or FEW_LINES
};

class Stem {
    int lane, pair, top, left;  // the warp's pair of the tile's lines; of the tile, tokens
    u32 shared;

    /// Starts the copies of the weights.
    __device__ __forceinline__ void fetch_weights(const StemProblem& p, int units) const {
        int all = units * (int)(UNIT_BYTES / 16);
#pragma unroll 2
        for (int at = threadIdx.x; at < all; at += THREADS)
            copy16(shared + IMAGE + at * 16, p.weights + at * 8, true);
    }

    /// Starts the copies of the pixels; zeros around the image.
    __device__ __forceinline__ void fetch_pixels(const StemProblem& p) const {
        constexpr int OF_PLANE = IMAGE_LINES * IMAGE_UNITS, ALL = CHANNELS * OF_PLANE;
#pragma unroll 1
        for (int at = threadIdx.x; at < ALL; at += THREADS) {
            int plane = at / OF_PLANE, in_plane = at % OF_PLANE;
            int line = in_plane / IMAGE_UNITS, unit = in_plane % IMAGE_UNITS;
            int y = top * STRIDE - 3 + line, x = left * STRIDE - 8 + unit * 8;
            bool there = (u32)y < (u32)p.side && (u32)x < (u32)p.side;
            if (line < p.lines * STRIDE + 3)
                copy16(shared + at * 16, there ? p.image + (plane * p.side + y) * p.side + x : p.image,
                       there);
        }
    }

    /// Asks the L2 cache for the positions of all tokens of the tile.
    __device__ __forceinline__ void prefetch_positions(const StemProblem& p, int warp) const {
        constexpr int OF_LINE = 64;  // halves of 128 bytes
        int grid = p.side / STRIDE, width = min(COLUMNS, grid - left) * p.columns;
#pragma unroll 1
        for (int y = top + warp; y < min(top + p.lines, grid); y += WARPS)
#pragma unroll 1
            for (int at = lane * OF_LINE; at < width; at += 32 * OF_LINE)
                prefetch(p.position + (y * grid + left) * p.columns + at);
    }

    /// This lane's token of a line of the warp and half of it, [line][half], or -1 beyond the map.
    __device__ __forceinline__ void own_tokens(int (&tokens)[2][2], int grid) const {
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int y = top + pair * 2 + m, x = left + i * 8 + (lane >> 2);
                tokens[m][i] = y < grid && x < grid ? y * grid + x : -1;
            }
    }

    /// Asks for the bias of four columns; zeros beyond the columns.
    __device__ __forceinline__ static float4 load_bias(const StemProblem& p, int column) {
        return column < p.columns ? load_floats(p.bias + column) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }

    /// Asks for the position of this lane's tokens in four columns; zeros beyond map and columns.
    __device__ __forceinline__ void load_position(uint2 (&position)[2][2], const StemProblem& p,
                                                  const int (&tokens)[2][2], int column) const {
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                bool there = tokens[m][i] >= 0 && column < p.columns;
                position[m][i] = make_uint2(0, 0);
                if (there)
                    position[m][i] = load_halves(p.position + tokens[m][i] * p.columns + column);
            }
    }

    /// Whether the rows that a step takes of the lower line's pixels are those that the step after
    /// the next takes of the upper line's, four lines of pixels above.
    __device__ __forceinline__ static constexpr bool is_repeated(int step) {
        return step * 2 % KERNEL + 1 + STRIDE < KERNEL;
    }

    /// The warp's tokens as left factor, all steps; not those that are repeated.
    __device__ __forceinline__ void load_pixels(u32 (&pixels)[2][STEPS][4]) const {
        u32 from = shared + pair * 2 * TOKEN_LINE + (lane >> 2) * (STRIDE * 2) + (lane & 3) * 4 + 8;
#pragma unroll
        for (int row = 0; row < ROWS_IN_ALL; row++)
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int i = 0; i < 2; i++)
                    if (m == 0 || !is_repeated(row / 2))
                        pixels[m][row / 2][row % 2 * 2 + i] =
                            shared_word(from + row / KERNEL * PLANE + row % KERNEL * IMAGE_LINE +
                                        m * TOKEN_LINE + i * 8 * STRIDE * 2);
    }

    /// Adds the products of the warp's tokens with a unit's weights, at this lane's address.
    __device__ __forceinline__ static void project(Sums& sums, const u32 (&pixels)[2][STEPS][4],
                                                   u32 weights) {
        u32 b[4];
#pragma unroll
        for (int step = 0; step < WHOLE_STEPS; step++) {
            load_shared(b, weights + step * (PACKED * 2));
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    bool above = m == 1 && is_repeated(step);
                    multiply_add(sums[m][n], pixels[above ? 0 : m][above ? step + 2 : step], b[n * 2],
                                 b[n * 2 + 1]);
                }
        }
        load_shared(b, weights + WHOLE_STEPS * (PACKED * 2));
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < 2; n++) multiply_add_eight(sums[m][n], pixels[m][WHOLE_STEPS], b[n * 2]);
    }

    /// Stores four columns of the warp's tokens.
    __device__ __forceinline__ void store(const Sums& sums, const StemProblem& p, const int (&tokens)[2][2],
                                          int column) const {
        if (column >= p.columns) return;
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                if (tokens[m][i] >= 0)
                    *(float4*)(p.tokens + tokens[m][i] * p.columns + column) =
                        make_float4(sums[m][0][i * 2], sums[m][0][i * 2 + 1], sums[m][1][i * 2],
                                    sums[m][1][i * 2 + 1]);
    }

public:
    __device__ __forceinline__ void run(const StemProblem& p, u32 memory) {
        int warp = threadIdx.x >> 5;
        bool few = p.lines == FEW_LINES;
        shared = memory, lane = threadIdx.x & 31, pair = few ? warp % FEW_PAIRS : warp;
        top = blockIdx.y * p.lines, left = blockIdx.x * COLUMNS;
        // Warps of the same lines take units in turn.
        int units = (p.columns + TILE - 1) / TILE, own = (lane & 3) * 4, tokens[2][2];
        int unit = few ? warp / FEW_PAIRS : 0, turn = few ? WARPS / FEW_PAIRS : 1;
        uint2 position[2][2];
        float4 bias = load_bias(p, unit * TILE + own);
        own_tokens(tokens, p.side / STRIDE);
        fetch_weights(p, units);
        load_position(position, p, tokens, unit * TILE + own);
        prefetch_positions(p, warp);
        dependent_wait();
        dependent_launch();
        fetch_pixels(p);
        copies_commit();
        copies_wait<0>();
        block_barrier();
        u32 pixels[2][STEPS][4];
        load_pixels(pixels);
#pragma unroll 1
        for (; unit < units; unit += turn) {
            Sums sums;
            int column = unit * TILE + own;
            begin(sums, bias);
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int i = 0; i < 2; i++) add_token(sums, m, i, position[m][i]);
            bias = load_bias(p, column + turn * TILE);
            load_position(position, p, tokens, column + turn * TILE);
            project(sums, pixels, shared + IMAGE + unit * UNIT_BYTES + lane * 16);
            store(sums, p, tokens, column);
        }
    }
};

constexpr u32 hiera_stem_shared = IMAGE + 9 * UNIT_BYTES;  // of 144 columns, those of large

// ---- instances ----

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    hiera_stem(const f16* image, const f16* weights, const float* bias, const f16* position, float* tokens,
               int side, int columns, int lines) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Stem().run({image, weights, bias, position, tokens, side, columns, lines}, shared_address(memory));
}
