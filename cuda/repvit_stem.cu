/*!
RepViT's stem in one launch, for any GPU from sm 80 on: a 3x3 convolution with stride 2 of the
image's three channels, GELU, and a second such convolution to the tokens of the first block.

Both convolutions are matmuls over their taps. T tokens; at most MIDDLE columns between the two and
WIDTH columns of a token: a stem of fewer has zeros there.

| kernel      | M, N, K                     | tile of T | threads | stages | shared bytes |
|-------------|-----------------------------|-----------|---------|--------|--------------|
| repvit_stem | 4 T, 24, 36; T, 48, 216     | 16 x 8    | 128     | 1      | 48 960       |

A block copies its part of the image, 67 x 35 pixels, to shared memory. A lane of the first matmul
needs two neighbours of a row in one register. So a row of the kernel has four taps, of which the
first has no weight: the pairs then begin at even columns. The convolution's results stay in shared
memory, even columns apart from odd ones: the second convolution takes every other column, and so
finds its rows side by side. A warp has two lines of tokens, in all columns.

Weights go from the L2 cache to registers (repvit.cuh), those of the second convolution AHEAD units
in advance. Where the first block has squeeze-and-excite, the stem adds up its sums, as the kernels of
blocks do for each other.

Grid: ceil(grid of tokens / 16) x ceil(grid of tokens / 8).
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"
#include "repvit.cuh"

// ---- stem ----

constexpr int CHANNELS = 3, MIDDLE = 24, WIDTH = 48;
constexpr int WARPS = 4, THREADS = WARPS * 32;
constexpr int COLUMNS = 16, LINES = 8;  // tokens of a block
constexpr int FIRST_WORDS = 20;         // of a lane's weights of the first convolution, packed (packed.rs)

/// What a launch is given.
struct StemProblem {
    const f16* image;          // [3, side, side]
    const f16* first;          // packed, [MIDDLE, 48]
    const float* first_bias;   // [MIDDLE]
    const f16* second;         // packed, [WIDTH, 9 MIDDLE]
    const float* second_bias;  // [WIDTH]
    f16* tokens;               // [side / 4, side / 4, columns]
    const float* edges;        // of the first block, [9, columns]
    long long* next;           // its sums, [COPIES, columns], or null
    int side, columns;
};

class Stem {
    static constexpr int FIRST_STEPS = 3, FIRST_EIGHTS = MIDDLE / 8;  // of the first matmul
    static constexpr int PAIRS = CHANNELS * 3 * 2;                    // of taps, the weightless ones included
    static constexpr int STEPS = (TAPS * MIDDLE + STEP - 1) / STEP, UNITS = WIDTH / TILE;
    static constexpr int ROUND = 2, AHEAD = ROUND * UNITS;  // steps of a round, and their units under way
    static constexpr int CHUNKS = MIDDLE / 8,
                         OF_TAPS = TAPS * CHUNKS;  // 16 bytes of a pixel, and of all its taps
    // Results of the first convolution, and pixels of the image, that a tile is made of. The image's
    // begin with eight, of which the first convolution takes the last three.
    static constexpr int MAP_COLUMNS = COLUMNS * 2 + 1, MAP_LINES = LINES * 2 + 1;
    static constexpr int MAP_PIXELS = MAP_COLUMNS * MAP_LINES;
    static constexpr int IMAGE_UNITS = (COLUMNS * 4 + 8) / 8, IMAGE_LINES = LINES * 4 + 3;
    // Bytes. Lanes of a step read nine words of one row and nine of the next: those have other banks.
    // Stored pixels of even and of odd columns have other banks, too.
    static constexpr u32 IMAGE_LINE = 192, PLANE = IMAGE_LINES * IMAGE_LINE;
    static constexpr u32 PIXEL = MIDDLE * 2, ODD = 832, MAP_LINE = ODD + COLUMNS * PIXEL;
    static constexpr u32 MAP = CHANNELS * PLANE;
    static_assert(IMAGE_UNITS * 16 <= IMAGE_LINE && IMAGE_LINE / 4 % 32 == 16, "banks of the image's rows");
    static_assert((PLANE - 2 * IMAGE_LINE) / 4 % 32 == 16, "banks of the image's channels");
    static_assert((COLUMNS + 1) * PIXEL <= ODD && ODD % 128 == 64,
                  "banks of the first convolution's results");
    static_assert(FIRST_STEPS * FIRST_EIGHTS * 2 <= FIRST_WORDS && PAIRS <= FIRST_STEPS * 8, "all weights");
    static_assert(STEPS % ROUND == 0, "whole rounds");
    static_assert(LINES == WARPS * 2 && COLUMNS == 16, "a warp has 32 tokens");
    static_assert((MAP_PIXELS + 15) / 16 * 16 <= MAP_PIXELS + MAP_COLUMNS, "one more line");

public:
    // One more line for what a warp computes beyond the last pixel.
    static constexpr u32 SHARED = MAP + (MAP_LINES + 1) * MAP_LINE;

private:
    int lane, warp, top, left;  // of the tile, tokens
    u32 shared;

    /// Starts the copies of the pixels; zeros around the image.
    __device__ __forceinline__ void fetch_pixels(const StemProblem& p) const {
        constexpr int OF_PLANE = IMAGE_LINES * IMAGE_UNITS, ALL = CHANNELS * OF_PLANE;
#pragma unroll 2
        for (int at = threadIdx.x; at < ALL; at += THREADS) {
            int plane = at / OF_PLANE, in_plane = at % OF_PLANE;
            int line = in_plane / IMAGE_UNITS, unit = in_plane % IMAGE_UNITS;
            int y = top * 4 - 3 + line, x = left * 4 - 8 + unit * 8;
            bool there = (u32)y < (u32)p.side && (u32)x < (u32)p.side;
            copy16(shared + plane * PLANE + line * IMAGE_LINE + unit * 16,
                   there ? p.image + (plane * p.side + y) * p.side + x : p.image, there);
        }
        copies_commit();
    }

    /// The first convolution's results that the tile takes; zeros where the second one has its border.
    __device__ __forceinline__ void convolve(const u32 (&weights)[FIRST_WORDS / 4][4],
                                             const float2 (&bias)[FIRST_EIGHTS], int side) const {
        int group = lane >> 2, quarter = lane & 3;
        // From a pixel's first pair of taps to those of this lane.
        u32 pairs[5];
#pragma unroll
        for (int j = 0; j < 5; j++) {
            // The weightless ones of the last step are those before them.
            int pair = quarter + j * 4 < PAIRS ? quarter + j * 4 : quarter + j * 4 - 2, row = pair >> 1;
            pairs[j] = shared + row / 3 * PLANE + row % 3 * IMAGE_LINE + (pair & 1) * 4 + 8;
        }
#pragma unroll 1
        for (int first = warp * 16; first < MAP_PIXELS; first += WARPS * 16) {
            u32 a[FIRST_STEPS][4], to[2];
            bool inside[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int pixel = first + i * 8 + group, line = pixel / MAP_COLUMNS, column = pixel % MAP_COLUMNS;
                int y = top * 2 - 1 + line, x = left * 2 - 1 + column;
                inside[i] = (u32)y < (u32)side && (u32)x < (u32)side;
                to[i] =
                    shared + MAP + line * MAP_LINE + (column & 1) * ODD + (column >> 1) * PIXEL + quarter * 4;
                u32 from = (line < MAP_LINES ? line : 0) * 2 * IMAGE_LINE + column * 4;
#pragma unroll
                for (int j = 0; j < FIRST_STEPS * 2; j++)
                    a[j / 2][j % 2 * 2 + i] = j < 5 ? shared_word(pairs[j < 5 ? j : 0] + from) : 0;
            }
#pragma unroll
            for (int n = 0; n < FIRST_EIGHTS; n++) {
                float sums[4] = {bias[n].x, bias[n].y, bias[n].x, bias[n].y};
#pragma unroll
                for (int step = 0; step < FIRST_STEPS; step++) {
                    constexpr int OF_STEP = FIRST_EIGHTS * 2;
                    int at = step * OF_STEP + n * 2;
                    multiply_add(sums, a[step], weights[at / 4][at % 4], weights[(at + 1) / 4][(at + 1) % 4]);
                }
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    u32 word = to_f16x2(gelu(sums[i * 2]), gelu(sums[i * 2 + 1]));
                    store_shared_word(to[i] + n * 16, inside[i] ? word : 0);
                }
            }
        }
    }

    /// From a token's first pixel to 16 bytes of its taps. Not a table: the loop over steps stays short.
    __device__ __forceinline__ static u32 place(u32 unit) {
        u32 of = unit < OF_TAPS ? unit : OF_TAPS - 1;  // beyond the depth are no weights
        u32 tap = of / CHUNKS, dx = tap % 3;
        return tap / 3 * MAP_LINE + (dx == 1 ? ODD : dx / 2 * PIXEL) + of % CHUNKS * 16;
    }

    /// The warp's tokens in all columns; `ring` has the first weights.
    __device__ __forceinline__ void project(Sums (&sums)[UNITS], u32 (&ring)[AHEAD][4],
                                            const f16* weights) const {
        u32 from = shared + MAP + warp * 4 * MAP_LINE + (lane & 15) * PIXEL;
        u32 high = lane >> 4;
#pragma unroll 1
        for (int first = 0; first < STEPS; first += ROUND) {
            bool last = first + ROUND == STEPS;
            weights += AHEAD * PACKED;
#pragma unroll
            for (int i = 0; i < ROUND; i++) {
                u32 a[2][4], at = from + place((first + i) * 2 + high);
                load_matrices(a[0], at);
                load_matrices(a[1], at + 2 * MAP_LINE);
#pragma unroll
                for (int t = 0; t < UNITS; t++) {
                    int unit = i * UNITS + t;
                    multiply(sums[t], a, ring[unit]);
                    if (!last) load_weights(ring[unit], weights + unit * PACKED);
                }
            }
        }
    }

    /// Stores four columns of the warp's tokens, and adds them to the first block's sums.
    __device__ __forceinline__ void store(const StemProblem& p, const Sums& sums, int column) const {
        int grid = p.side / 4;
        bool there = column < p.columns;
        float4 own = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        each_token(sums, lane, [](float x) { return x; }, [&](int token, int, uint2 halves) {
            int y = top + warp * 2 + token / COLUMNS, x = left + token % COLUMNS;
            if (y >= grid || x >= grid || !there) return;
            store_halves(p.tokens + (y * grid + x) * p.columns + column, halves);
            if (!p.next) return;
            add_weighted(own, halves, load_floats(p.edges + edge_of(y, x, grid) * p.columns + column));
        });
        if (!p.next) return;
        sum_of_tokens(own);
        if (lane >= 4 || !there) return;
        long long* to = p.next + (blockIdx.y * gridDim.x + blockIdx.x) % COPIES * p.columns + column;
        add_fixed(to, own);
    }

public:
    __device__ __forceinline__ void run(const StemProblem& p, u32 memory) {
        shared = memory, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
        top = blockIdx.y * LINES, left = blockIdx.x * COLUMNS;
        u32 first[FIRST_WORDS / 4][4], ring[AHEAD][4];
        const f16* second = p.second + lane * 8;
#pragma unroll
        for (int i = 0; i < FIRST_WORDS / 4; i++)
            load_coherent(first[i], p.first + i * PACKED + lane * 8);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) load_coherent(ring[i], second + i * PACKED);
        float2 first_bias[FIRST_EIGHTS];
#pragma unroll
        for (int n = 0; n < FIRST_EIGHTS; n++)
            first_bias[n] = load_pair(p.first_bias + n * 8 + (lane & 3) * 2);
        dependent_wait();
        dependent_launch();
        fetch_pixels(p);
        copies_wait<0>();
        block_barrier();
        convolve(first, first_bias, p.side / 2);
        Sums sums[UNITS];
#pragma unroll
        for (int t = 0; t < UNITS; t++)
            begin(sums[t], load_floats(p.second_bias + t * TILE + (lane & 3) * 4));
        block_barrier();
        project(sums, ring, second);
#pragma unroll
        for (int t = 0; t < UNITS; t++) store(p, sums[t], t * TILE + (lane & 3) * 4);
    }
};
constexpr u32 repvit_stem_shared = Stem::SHARED;
static_assert(repvit_stem_shared == 48960, "of launches");

// ---- instances ----

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    repvit_stem(const f16* image, const f16* first, const float* first_bias, const f16* second,
                const float* second_bias, f16* tokens, const float* edges, long long* next, int side,
                int columns) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Stem().run({image, first, first_bias, second, second_bias, tokens, edges, next, side, columns},
               shared_address(memory));
}
