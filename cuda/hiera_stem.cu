/*!
Hiera's stem in one launch, for any GPU from sm 80 on: the patch embedding, a 7x7 convolution with
stride 4 of the image's three channels, plus the position embedding. The tokens are the residual of
the first block, f32.

The convolution is a matmul over its taps. T tokens, C columns, padded to units of 16.

| kernel     | M, N, K    | tile of T | threads | stages | shared bytes                 | registers |
|------------|------------|-----------|---------|--------|------------------------------|-----------|
| hiera_stem | T, C, 168  | 16 x 8    | 128     | 1      | 15 120 + 5632 x units        | 128       |

A block copies its part of the image, 72 x 35 pixels, and all weights to shared memory. A lane of the
matmul needs two neighbours of a row in one register. So a row of the kernel has eight taps, of which
the first has no weight: the pairs then begin at even columns, and a step of 16 has two rows of the
kernel. Tokens lie four pixels apart: the words of an instruction lie side by side, in other banks.

A warp has two lines of tokens. It goes over the columns in chunks of three units, so that its sums
fit the registers. They begin as bias and position. A chunk's positions are asked for before the
previous chunk's matmul, the first ones before the image is there: no launch writes them.

Grid: ceil(grid of tokens / 16) x ceil(grid of tokens / 8).
*/
#include "ptx.cuh"
#include "attention.cuh"
#include "f16x2.cuh"
#include "gelu.cuh"
#include "repvit.cuh"

// ---- stem ----

constexpr int CHANNELS = 3, KERNEL = 7, STRIDE = 4;
constexpr int WARPS = 4, THREADS = WARPS * 32;
constexpr int COLUMNS = 16, LINES = 8;  // tokens of a block
constexpr int UNITS = 3;                // of 16 columns, of a chunk
constexpr int ROW_TAPS = 8;             // of a row of the kernel, the weightless first one included
constexpr int STEPS = (CHANNELS * KERNEL * ROW_TAPS + STEP - 1) / STEP;

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
};

class Stem {
    int lane, warp, top, left;  // of the tile, tokens
    u32 shared;

    /// Starts the copies of the weights.
    __device__ __forceinline__ void fetch_weights(const StemProblem& p, int units) const {
        int all = units * (int)(UNIT_BYTES / 16);
#pragma unroll 4
        for (int at = threadIdx.x; at < all; at += THREADS)
            copy16(shared + IMAGE + at * 16, p.weights + at * 8, true);
    }

    /// Starts the copies of the pixels; zeros around the image.
    __device__ __forceinline__ void fetch_pixels(const StemProblem& p) const {
        constexpr int OF_PLANE = IMAGE_LINES * IMAGE_UNITS, ALL = CHANNELS * OF_PLANE;
#pragma unroll 2
        for (int at = threadIdx.x; at < ALL; at += THREADS) {
            int plane = at / OF_PLANE, in_plane = at % OF_PLANE;
            int line = in_plane / IMAGE_UNITS, unit = in_plane % IMAGE_UNITS;
            int y = top * STRIDE - 3 + line, x = left * STRIDE - 8 + unit * 8;
            bool there = (u32)y < (u32)p.side && (u32)x < (u32)p.side;
            copy16(shared + at * 16, there ? p.image + (plane * p.side + y) * p.side + x : p.image, there);
        }
    }

    /// This lane's token of a line of the warp and half of it, [line][half], or -1 beyond the map.
    __device__ __forceinline__ void own_tokens(int (&tokens)[2][2], int grid) const {
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int y = top + warp * 2 + m, x = left + i * 8 + (lane >> 2);
                tokens[m][i] = y < grid && x < grid ? y * grid + x : -1;
            }
    }

    /// Asks for the position of this lane's tokens in a chunk; zeros beyond map and columns.
    __device__ __forceinline__ void load_position(uint2 (&position)[UNITS][2][2], const StemProblem& p,
                                                  const int (&tokens)[2][2], int first) const {
#pragma unroll
        for (int t = 0; t < UNITS; t++) {
            int column = (first + t) * TILE + (lane & 3) * 4;
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    bool there = tokens[m][i] >= 0 && column < p.columns;
                    position[t][m][i] = make_uint2(0, 0);
                    if (there) position[t][m][i] = load_halves(p.position + tokens[m][i] * p.columns + column);
                }
        }
    }

    /// From a token's first pixel to those of a row of all channels' kernels; beyond the last row,
    /// which has no weights, to the last one's. Not a table: the loop over steps stays short.
    __device__ __forceinline__ static u32 line_of(int row) {
        int of = row < CHANNELS * KERNEL ? row : CHANNELS * KERNEL - 1;
        return of / KERNEL * PLANE + of % KERNEL * IMAGE_LINE;
    }

    /// Adds the products of the warp's tokens with the weights at these addresses.
    __device__ __forceinline__ void project(Sums (&sums)[UNITS], const u32 (&weights)[UNITS]) const {
        u32 pixels = shared + warp * 2 * TOKEN_LINE + (lane >> 2) * (STRIDE * 2) + (lane & 3) * 4 + 8;
#pragma unroll 1
        for (int step = 0; step < STEPS; step++) {
            u32 a[2][4];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                u32 line = pixels + line_of(step * 2 + half);
#pragma unroll
                for (int m = 0; m < 2; m++)
#pragma unroll
                    for (int i = 0; i < 2; i++)
                        a[m][half * 2 + i] = shared_word(line + m * TOKEN_LINE + i * 8 * STRIDE * 2);
            }
#pragma unroll
            for (int t = 0; t < UNITS; t++) {
                u32 b[4];
                load_shared(b, weights[t] + step * (PACKED * 2));
                multiply(sums[t], a, b);
            }
        }
    }

    /// Stores a unit's columns of the warp's tokens.
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
        shared = memory, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
        top = blockIdx.y * LINES, left = blockIdx.x * COLUMNS;
        int units = (p.columns + TILE - 1) / TILE, own = (lane & 3) * 4, tokens[2][2];
        uint2 position[UNITS][2][2];
        own_tokens(tokens, p.side / STRIDE);
        load_position(position, p, tokens, 0);
        fetch_weights(p, units);
        dependent_wait();
        dependent_launch();
        fetch_pixels(p);
        copies_commit();
        copies_wait<0>();
        block_barrier();
#pragma unroll 1
        for (int first = 0; first < units; first += UNITS) {
            Sums sums[UNITS];
            u32 weights[UNITS];
#pragma unroll
            for (int t = 0; t < UNITS; t++) {
                // The last chunk may have fewer units; nothing is stored of those beyond.
                int unit = first + t < units ? first + t : units - 1;
                weights[t] = shared + IMAGE + unit * UNIT_BYTES + lane * 16;
                begin(sums[t], load_floats(p.bias + unit * TILE + own));
#pragma unroll
                for (int m = 0; m < 2; m++)
#pragma unroll
                    for (int i = 0; i < 2; i++) add_token(sums[t], m, i, position[t][m][i]);
            }
            if (first + UNITS < units) load_position(position, p, tokens, first + UNITS);
            project(sums, weights);
#pragma unroll
            for (int t = 0; t < UNITS; t++) store(sums[t], p, tokens, (first + t) * TILE + own);
        }
    }
};

constexpr u32 hiera_stem_shared = IMAGE + 9 * UNIT_BYTES;  // of 144 columns, those of large

// ---- instances ----

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    hiera_stem(const f16* image, const f16* weights, const float* bias, const f16* position, float* tokens,
               int side, int columns) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Stem().run({image, weights, bias, position, tokens, side, columns}, shared_address(memory));
}
