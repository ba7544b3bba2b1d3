/*!
RepViT's neck in one launch, for any GPU from sm 80 on: the four matmuls that make planar features
of the tokens behind each stage,

  - hr0 = W m0 + b and hr1 = W m1 + b, of the two finest maps,
  - feat = W m2 + b + upsampled V m3, each token of the coarsest map for 2 x 2 of the next one's.

T tokens, N columns of a result, K of a token. Columns are any multiple of 8.

| kernel      | M, N, K                 | tile of M, N                       | threads | stages | shared bytes      | registers |
|-------------|-------------------------|------------------------------------|---------|--------|-------------------|-----------|
| repvit_neck | T, N, K of each matmul  | 64 G, 128 / G, G = 8 / warps of N  | 256     | 1      | 64 G x (2 K + 16) | 85        |

A block has one of the three results; feat's, which take longest, begin first. A warp has 16 columns
of 64 tokens. Up to eight warps share their tokens; where a result has fewer columns, a block has
more tokens. Tokens of feat are four lines of 16, since they share 8 x 2 tokens of the coarsest map.

The weights are the left factor and the tokens the right one: so a lane has neighbouring tokens of
one column, and stores them as planar features are. Rows of 16 tokens lie in shared memory in the
order in which each lane gets four neighbours (`row_of`).

Weights, packed as left factors (packed.rs), go from the L2 cache to registers, AHEAD units in
advance; feat's are one matrix, [W | V].

Grid: the blocks of all three results (`Share`).
*/
#include "ptx.cuh"
#include "attention.cuh"
#include "f16x2.cuh"
#include "gelu.cuh"
#include "repvit.cuh"

// ---- neck ----

constexpr int WARPS = 8, THREADS = WARPS * 32;
constexpr int LINE = 16, LINES = 4, GROUP = LINE * LINES;  // tokens of a warp
constexpr int COARSE = 16;                                 // those of the coarsest map beside them, 8 x 2
constexpr int AHEAD = 3;

/// One result and what it is made of.
struct Level {
    const f16* tokens;   // [side, side, depth]
    const f16* weight;   // packed, [columns, depth] or [columns, depth | coarse depth]
    const float* bias;   // [columns]
    f16* out;            // [columns, side, side]
    const f16* coarse;   // [side / 2, side / 2, coarse depth], of feat alone
    int side, depth, columns, coarse_depth;
};

/// What a launch is given.
struct NeckProblem {
    Level feat, hr1, hr0;
};

/// How blocks share a result: `across` warps of a block have the same tokens.
struct Share {
    int across, groups, column_blocks, tiles_across, blocks;
    __device__ __forceinline__ Share(const Level& level, bool square) {
        int tiles = (level.columns + TILE - 1) / TILE, side = level.side;
        across = tiles > 4 ? 8 : tiles > 2 ? 4 : tiles, groups = WARPS / across;
        column_blocks = (tiles + across - 1) / across;
        tiles_across = square ? (side + LINE - 1) / LINE : (side * side + GROUP - 1) / GROUP;
        int token_tiles = square ? tiles_across * ((side + LINES - 1) / LINES) : tiles_across;
        blocks = (token_tiles + groups - 1) / groups * column_blocks;
    }
};

class Result {
    Level level;
    Share share;
    bool up;  // of feat, in squares, with the coarsest map
    int lane, group, token_tile, tile;
    int steps, coarse_steps;
    u32 shared, pitch, coarse_shared, coarse_pitch;

    /// Some tokens side by side: the number of the first, and how many of them the map has.
    struct Row {
        int first, count;
    };
    __device__ __forceinline__ Row row(int of_tile, int line) const {
        if (up) {
            int y = of_tile / share.tiles_across * LINES + line, x = of_tile % share.tiles_across * LINE;
            return {y * level.side + x, y < level.side ? level.side - x : 0};
        }
        int first = of_tile * GROUP + line * LINE;
        return {first, level.side * level.side - first};
    }

    /// Where a token of a line lies, so that a lane gets the results of four neighbours: of two
    /// instructions two each.
    __device__ __forceinline__ static int row_of(int token) {
        return (token >> 1 & 1) * 8 + (token >> 2) * 2 + (token & 1);
    }

    /// Starts the copies of the block's tokens, zeros beyond the map and beyond the depth.
    __device__ __forceinline__ void fetch_tokens(int first_tile) const {
        int units = steps * 2;
        for (int at = threadIdx.x; at < share.groups * GROUP * units; at += THREADS) {
            int token = at / units, unit = at - token * units, place = token % LINE;
            Row from = row(first_tile + token / GROUP, token % GROUP / LINE);
            bool there = place < from.count && unit * 8 < level.depth;
            copy16(shared + (token - place + row_of(place)) * pitch + unit * 16,
                   there ? level.tokens + (from.first + place) * level.depth + unit * 8 : level.tokens, there);
        }
        if (up) {
            units = coarse_steps * 2;
            for (int at = threadIdx.x; at < share.groups * COARSE * units; at += THREADS) {
                int token = at / units, unit = at - token * units, of_tile = first_tile + token / COARSE;
                int y = of_tile / share.tiles_across * (LINES / 2) + token % COARSE / 8;
                int x = of_tile % share.tiles_across * (LINE / 2) + token % 8, side = level.side / 2;
                bool there = y < side && x < side && unit * 8 < level.coarse_depth;
                copy16(coarse_shared + token * coarse_pitch + unit * 16,
                       there ? level.coarse + (y * side + x) * level.coarse_depth + unit * 8 : level.coarse,
                       there);
            }
        }
        copies_commit();
    }

    /// A step of 16 tokens as right factor.
    __device__ __forceinline__ static void multiply_line(float (&sums)[2][4], const u32 (&weight)[4], u32 from) {
        u32 b[4];
        load_matrices(b, from);
        multiply_add(sums[0], weight, b[0], b[1]);
        multiply_add(sums[1], weight, b[2], b[3]);
    }

    __device__ __forceinline__ void store(const float (&sums)[LINES][2][4]) const {
        int size = level.side * level.side, column = tile * TILE + (lane >> 2), place = (lane & 3) * 4;
        // Else four tokens of a line are not aligned as one word of 8 bytes must be.
        bool fours = !up || level.side % 4 == 0;
#pragma unroll
        for (int line = 0; line < LINES; line++) {
            Row to = row(token_tile, line);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if (column + i * 8 >= level.columns) continue;
                const float(&of)[2][4] = sums[line];
                uint2 halves = make_uint2(to_f16x2(of[0][i * 2], of[0][i * 2 + 1]),
                                          to_f16x2(of[1][i * 2], of[1][i * 2 + 1]));
                f16* out = level.out + (column + i * 8) * size + to.first + place;
                if (fours) {
                    if (place < to.count) store_halves(out, halves);
                } else {
                    if (place < to.count) *(u32*)out = halves.x;
                    if (place + 2 < to.count) *(u32*)(out + 2) = halves.y;
                }
            }
        }
    }

public:
    __device__ __forceinline__ Result(const Level& of, bool square) : level(of), share(of, square), up(square) {}

    __device__ __forceinline__ void run(int block, u32 memory) {
        lane = threadIdx.x & 31;
        int warp = threadIdx.x >> 5, first_tile = block / share.column_blocks * share.groups;
        tile = block % share.column_blocks * share.across + warp % share.across;
        group = warp / share.across, token_tile = first_tile + group;
        steps = (level.depth + STEP - 1) / STEP, coarse_steps = up ? (level.coarse_depth + STEP - 1) / STEP : 0;
        shared = memory, pitch = steps * 32 + 16;
        coarse_shared = shared + share.groups * GROUP * pitch, coarse_pitch = coarse_steps * 32 + 16;
        int all = steps + coarse_steps, column = tile * TILE + (lane >> 2);
        // Warps beyond the last column compute the first ones, and store nothing.
        const f16* weight = level.weight + (tile * TILE < level.columns ? tile : 0) * all * PACKED + lane * 8;
        u32 ring[AHEAD][4];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (i < all) load_weights_early(ring[i], weight + i * PACKED);
        float bias[2] = {0.0f, 0.0f}, sums[LINES][2][4], coarse[2][4];
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (column + i * 8 < level.columns) bias[i] = load_float(level.bias + column + i * 8);
        dependent_wait();
        dependent_launch();
        fetch_tokens(first_tile);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            coarse[i / 4][i % 4] = 0.0f;
#pragma unroll
            for (int line = 0; line < LINES; line++) sums[line][i / 4][i % 4] = bias[i % 4 / 2];
        }
        copies_wait<0>();
        block_barrier();
        u32 own = (lane >> 4) * 8 + (lane & 7), half = (lane >> 3 & 1) * 16;
        u32 from = shared + (group * GROUP + own) * pitch + half;
        u32 coarse_from = coarse_shared + (group * COARSE + own) * coarse_pitch + half;
        for (int first = 0; first < all; first += AHEAD)
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                int step = first + i;
                if (step >= all) break;
                if (step < steps) {
#pragma unroll
                    for (int line = 0; line < LINES; line++)
                        multiply_line(sums[line], ring[i], from + line * LINE * pitch + step * 32);
                } else {
                    multiply_line(coarse, ring[i], coarse_from + (step - steps) * 32);
                }
                if (step + AHEAD < all) load_weights(ring[i], weight + (step + AHEAD) * PACKED);
            }
        if (up) {
            // Two lines have one of the coarsest map, and two neighbours one token of it.
#pragma unroll
            for (int line = 0; line < LINES; line++)
#pragma unroll
                for (int i = 0; i < 8; i++) sums[line][i / 4][i % 4] += coarse[line / 2][i % 4 / 2 * 2 + i / 4];
        }
        store(sums);
    }
};

/// One of two, field by field: a choice of addresses would keep both in local memory.
__device__ __forceinline__ Level either_level(bool second, const Level& a, const Level& b) {
    return {second ? b.tokens : a.tokens, second ? b.weight : a.weight, second ? b.bias : a.bias,
            second ? b.out : a.out, second ? b.coarse : a.coarse, second ? b.side : a.side,
            second ? b.depth : a.depth, second ? b.columns : a.columns,
            second ? b.coarse_depth : a.coarse_depth};
}

__device__ __forceinline__ void make_features(const NeckProblem& p, u32 memory) {
    int block = blockIdx.x, of_feat = Share(p.feat, true).blocks, of_hr1 = Share(p.hr1, false).blocks;
    bool fine = block >= of_feat, finest = block >= of_feat + of_hr1;
    Level level = either_level(fine, p.feat, either_level(finest, p.hr1, p.hr0));
    Result(level, !fine).run(block - (finest ? of_feat + of_hr1 : fine ? of_feat : 0), memory);
}

// ---- instances ----

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    repvit_neck(const f16* m0, const f16* weight0, const float* bias0, f16* hr0, const f16* m1,
                const f16* weight1, const float* bias1, f16* hr1, const f16* m2, const f16* m3,
                const f16* weight, const float* bias, f16* feat, int grid, int depth0, int columns0,
                int depth1, int columns1, int depth2, int depth3, int columns) {
    extern __shared__ __align__(1024) unsigned char memory[];
    make_features({{m2, weight, bias, feat, m3, grid, depth2, columns, depth3},
                   {m1, weight1, bias1, hr1, nullptr, grid * 2, depth1, columns1, 0},
                   {m0, weight0, bias0, hr0, nullptr, grid * 4, depth0, columns0, 0}},
                  shared_address(memory));
}
