/*!
How blocks, warps and chunks of K share the neck's matmuls (neck.cu).

Needs repvit.cuh in front.
*/
#pragma once

// ---- shares ----

constexpr int WARPS = 8, THREADS = WARPS * 32;  // 2^3 warps (`Share`)
constexpr int TILES = 2;                        // of a warp, 16 columns each
constexpr int LINE = 16;                        // tokens side by side
constexpr int LINES = 2, SQUARE_LINES = 4;      // of a warp: hr0 and hr1, feat
constexpr int SQUARE_ACROSS = 2;                // warps of a feat block that share tokens and K
constexpr int PARTS = WARPS / SQUARE_ACROSS;    // of feat's K
constexpr int COARSE = 16;                      // tokens of the coarsest map beside a square, 8 x 2
constexpr int SPAN = 64;                        // bytes of a token that lie side by side
constexpr int SPAN_UNITS = SPAN / 16;           // copies of 16 bytes
constexpr int COPIED = THREADS / SPAN_UNITS;    // tokens whose spans all threads copy at once
constexpr int WARP_STEP = TILES * PACKED * 2;   // bytes of a warp's weights for a step
constexpr int STAGES = 3, SLOT = 24 * 1024;     // of the ring, and their bytes
constexpr int SUMS = TILES * 2 * 32 * 16;       // bytes of a warp's sums of a line

static_assert(PARTS == SQUARE_LINES && COPIED == SQUARE_LINES * LINE, "a line of each part's warps");
static_assert(WARPS * SQUARE_LINES * SUMS <= STAGES * SLOT, "the ring holds all parts' sums");

/// One result and what it is made of.
struct Level {
    const unsigned char* tokens;  // [side, side, depth]
    const f16* weight;            // packed, [columns, depth] or [columns, depth | coarse depth]
    const float* bias;            // [columns]
    f16* out;                     // [columns, side, side]
    const unsigned char* coarse;  // [side / 2, side / 2, coarse depth], of feat alone
    int side, depth, columns, coarse_depth;
    int size;  // bytes of a token's element: 2, or 4 of floats
};

/// What a launch is given.
struct NeckProblem {
    Level feat, hr1, hr0;
};

/// How blocks share a result: `across` warps of a block have the same tokens, and it has 2^shift
/// groups of these, of which feat has one. Nothing is divided by a variable: that would delay each
/// block's first copies.
struct Share {
    int shift, across, groups, column_blocks, tiles_across, blocks;
    __device__ __forceinline__ Share(const Level& level, bool square) {
        int wide = (level.columns + TILES * TILE - 1) / (TILES * TILE), side = level.side;
        shift = square ? 0 : wide > 2 ? 1 : wide == 2 ? 2 : 3, groups = 1 << shift;
        across = square ? SQUARE_ACROSS : WARPS >> shift;
        column_blocks = square       ? (wide + SQUARE_ACROSS - 1) / SQUARE_ACROSS
                        : shift == 1 ? (wide + WARPS / 2 - 1) / (WARPS / 2)
                                     : 1;
        tiles_across = square ? (side + LINE - 1) / LINE : (side * side + LINES * LINE - 1) / (LINES * LINE);
        int token_tiles = square ? tiles_across * ((side + SQUARE_LINES - 1) / SQUARE_LINES) : tiles_across;
        blocks = (token_tiles + groups - 1 >> shift) * column_blocks;
    }
};

/// Steps of a span.
template <class T>
__device__ __forceinline__ constexpr int SPAN_STEPS() { return SPAN / (STEP * (int)sizeof(T)); }

/// A part of K: of all a level's tokens, or of the coarsest map's.
struct Part {
    const unsigned char* tokens;
    int bytes;         // of a token
    int rows;          // tokens of a block
    int at_once;       // spans of a token that all threads copy at once
    int steps;         // of its depth
    int spans, taken;  // of a chunk: spans of a token, and steps in these
    int chunks;
    u32 begin;         // of a slot's tokens, behind the weights

    __device__ __forceinline__ Part(const unsigned char* of, int depth, int size, int tokens_of_block,
                                    int across, int spans_at_once) {
        int span_steps = size == 4 ? SPAN_STEPS<float>() : SPAN_STEPS<f16>();
        int span = (tokens_of_block * SPAN + span_steps * across * WARP_STEP) * spans_at_once;
        tokens = of, bytes = depth * size, rows = tokens_of_block, steps = (depth + STEP - 1) / STEP;
        at_once = spans_at_once;
        spans = at_once * (1 + (2 * span <= SLOT) + (3 * span <= SLOT) + (4 * span <= SLOT));
        taken = spans * span_steps;
        begin = taken * across * WARP_STEP;
        // Rounded up. The half is far more than the reciprocal's error.
        chunks = (int)((steps + taken - 0.5f) * reciprocal((float)taken));
    }
    /// Steps of a chunk.
    __device__ __forceinline__ int count(int chunk) const { return min(steps - chunk * taken, taken); }
};

/// Where a token of a line lies, so that a lane gets the results of four neighbours: of two
/// instructions two each.
__device__ __forceinline__ int row_of(int token) {
    return (token >> 1 & 1) * 8 + (token >> 2) * 2 + (token & 1);
}
/// A unit of a row's span lies in another place in each pair of rows, so that no bank has two of a
/// load.
__device__ __forceinline__ int place_of(int row, int unit) { return unit ^ (row >> 1 & 3); }
