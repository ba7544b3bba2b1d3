/*!
The neck of an image encoder in one launch, for any GPU from sm 80 on: the four matmuls that make
planar features of the tokens behind each stage,

  - hr0 = W m0 + b and hr1 = W m1 + b, of the two finest maps,
  - feat = W m2 + b + upsampled V m3, each token of the coarsest map for 2 x 2 of the next one's.

Tokens are f16 (RepViT) or f32 (Hiera's residual, rounded to f16 on the way to the tensor cores).
Their columns are any multiple of 8.

T tokens, N columns of a result, K of a token, A = 1, 2 or 4 warps side by side, as N asks for.

| kernel | M, N, K of each matmul | tile of M, N              | threads | stages | registers |
|--------|------------------------|---------------------------|---------|--------|-----------|
| neck   | T, N, K of hr0, hr1    | 256 / A tokens, 32 A      | 256     | 3      | 126       |
|        | T, N, K of feat        | 128 tokens, 128           |         |        |           |

A block has one of the three results; feat's, which take longest, begin first. A warp has 32 columns:
of 32 tokens, or for feat of 64. These are four lines of 16, since they share 8 x 2 tokens of the
coarsest map. Fewer tokens would make the weights most of what comes from the L2 cache.

K comes in chunks through a ring of slots in shared memory, by cp.async. A chunk has some spans of
64 bytes of each token, and the weights beside them. feat has the chunks of W and m2 first, then
those of V and m3. Long K would otherwise not fit, and bytes under way are as many for each K.

The weights are the left factor and the tokens the right one: so a lane has neighbouring tokens of
one column, and stores them as planar features are. Rows of 16 tokens lie in shared memory in the
order in which each lane gets four neighbours (`row_of`). The weights are packed (packed.rs) as a
block takes them; feat's are one matrix, [W | V].

Grid: the blocks of all three results (`Share`).
*/
#include "ptx.cuh"
#include "attention.cuh"
#include "f16x2.cuh"
#include "gelu.cuh"
#include "repvit.cuh"

// ---- neck ----

constexpr int WARPS = 8, THREADS = WARPS * 32;  // 2^3 warps (`Share`)
constexpr int TILES = 2;                        // of a warp, 16 columns each
constexpr int LINE = 16;                        // tokens side by side
constexpr int LINES = 2, SQUARE_LINES = 4;      // of a warp: hr0 and hr1, feat
constexpr int SQUARE_ACROSS = 4;                // warps of a feat block that share tokens
constexpr int COARSE = 16;                      // tokens of the coarsest map beside a square, 8 x 2
constexpr int SPAN = 64;                        // bytes of a token that lie side by side
constexpr int SPAN_UNITS = SPAN / 16;           // copies of 16 bytes
constexpr int COPIED = THREADS / SPAN_UNITS;    // tokens whose spans all threads copy at once
constexpr int WARP_STEP = TILES * PACKED * 2;   // bytes of a warp's weights for a step
constexpr int STAGES = 3, SLOT = 24 * 1024;     // of the ring, and their bytes

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
/// groups of these. Nothing is divided by a variable: that would delay each block's first copies.
struct Share {
    int shift, across, groups, column_blocks, tiles_across, blocks;
    __device__ __forceinline__ Share(const Level& level, bool square) {
        int wide = (level.columns + TILES * TILE - 1) / (TILES * TILE), side = level.side;
        shift = square || wide > 2 ? 1 : wide == 2 ? 2 : 3, across = WARPS >> shift, groups = 1 << shift;
        column_blocks = shift == 1 ? (wide + WARPS / 2 - 1) / (WARPS / 2) : 1;
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
    int steps;         // of its depth
    int spans, taken;  // of a chunk: spans of a token, and steps in these
    int chunks;
    u32 begin;         // of a slot's tokens, behind the weights

    __device__ __forceinline__ Part(const unsigned char* of, int depth, int size, int tokens_of_block, int across) {
        int span_steps = size == 4 ? SPAN_STEPS<float>() : SPAN_STEPS<f16>();
        int span = tokens_of_block * SPAN + span_steps * across * WARP_STEP;
        tokens = of, bytes = depth * size, rows = tokens_of_block, steps = (depth + STEP - 1) / STEP;
        spans = 1 + (2 * span <= SLOT) + (3 * span <= SLOT) + (4 * span <= SLOT), taken = spans * span_steps;
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

/// UP: feat, in squares, with the coarsest map.
template <bool UP>
class Result {
    static constexpr int OWN = UP ? SQUARE_LINES : LINES, GROUP = OWN * LINE;
    // Rounds of copies that a span of a block's tokens takes, at most.
    static constexpr int ROUNDS = (UP ? WARPS / SQUARE_ACROSS : WARPS) * GROUP / COPIED;

    Level level;
    Share share;
    Part fine, coarse;
    int lane, warp, warp_group, first_tile;
    // Of this thread's copies: where they begin in the maps, and in a slot's tokens.
    int from[ROUNDS], coarse_from;
    u32 to, coarse_to, memory;
    // What comes next: its weights, steps of its part that are left, bytes of a token before it.
    const f16* weight;
    int left, at;

    struct Square {
        int y, x;
    } first_square;

    /// Some tokens side by side: the number of the first, and how many of them the map has.
    struct Row {
        int first, count;
    };
    __device__ __forceinline__ Row row(int group, int line) const {
        if (UP) {
            Square of = square(group);
            int y = of.y * OWN + line, x = of.x * LINE;
            return {y * level.side + x, y < level.side ? level.side - x : 0};
        }
        int first = (first_tile + group) * GROUP + line * LINE;
        return {first, level.side * level.side - first};
    }
    /// The place of a group's square among all: of two groups the second one's is the next.
    __device__ __forceinline__ Square square(int group) const {
        int x = first_square.x + group;
        bool next = x >= share.tiles_across;
        return {first_square.y + next, next ? 0 : x};
    }

    /// What this thread copies. Beyond the map this is the first token: what becomes of it is not
    /// stored.
    __device__ __forceinline__ void find_copies() {
        int unit = threadIdx.x % SPAN_UNITS, token = threadIdx.x / SPAN_UNITS, place = token % LINE;
        int own = token - place + row_of(place);
        to = own * SPAN + place_of(own, unit) * 16;
#pragma unroll
        for (int i = 0; i < ROUNDS; i++) {
            int of_block = token + i * COPIED;
            Row of = row(of_block / GROUP, of_block % GROUP / LINE);
            from[i] = (place < of.count ? of.first + place : 0) * fine.bytes + unit * 16;
        }
        if (UP) {
            Square of = square(token / COARSE % (WARPS / SQUARE_ACROSS));
            int y = of.y * (OWN / 2) + token % COARSE / 8, x = of.x * (LINE / 2) + token % 8;
            int side = level.side / 2;
            coarse_from = (y < side && x < side ? y * side + x : 0) * coarse.bytes + unit * 16;
            coarse_to = token * SPAN + place_of(token, unit) * 16;
        }
    }

    /// Starts the copies of the next chunk's tokens, zeros beyond the depth.
    template <int COUNT>
    __device__ __forceinline__ void fetch_tokens(const Part& part, u32 slot, const int (&from)[COUNT]) {
        int inside = part.bytes - threadIdx.x % SPAN_UNITS * 16;
#pragma unroll 1
        for (int span = 0; span < part.spans && at < part.bytes; span++) {
            bool there = at < inside;
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                // The map begins where a copy beyond the depth would not.
                int offset = there ? from[i] + at : 0;
                if (i * COPIED + (int)threadIdx.x / SPAN_UNITS < part.rows)
                    copy16(slot + i * COPIED * SPAN, part.tokens + offset, there);
            }
            slot += part.rows * SPAN, at += SPAN;
        }
    }
    __device__ __forceinline__ void fetch_tokens(int chunk, u32 slot) {
        if (UP && chunk == fine.chunks) at = 0;
        if (!UP || chunk < fine.chunks) {
            fetch_tokens(fine, slot + fine.begin + to, from);
        } else {
            const int own[1] = {coarse_from};
            fetch_tokens(coarse, slot + coarse.begin + coarse_to, own);
        }
    }
    /// Starts the copies of the next chunk's weights.
    __device__ __forceinline__ void fetch_weights(int chunk, u32 slot) {
        if (UP && chunk == fine.chunks) left = coarse.steps;
        int taken = !UP || chunk < fine.chunks ? fine.taken : coarse.taken;
        int units = min(left, taken) * share.across * (WARP_STEP / 16);
        const f16* from = weight;
        slot += threadIdx.x * 16;
#pragma unroll 1
        for (int unit = threadIdx.x; unit < units; unit += THREADS) {
            copy16(slot, from, true);
            slot += THREADS * 16, from += THREADS * 8;
        }
        weight += units * 8, left -= taken;
    }
    __device__ __forceinline__ u32 slot_after(u32 slot) const {
        return slot + SLOT == memory + STAGES * SLOT ? memory : slot + SLOT;
    }

    /// This lane's address in 16 rows of tokens of type T.
    template <class T>
    __device__ __forceinline__ u32 right_of() const {
        if (sizeof(T) == 4) return (lane >> 2) * SPAN + place_of(lane >> 2, lane & 3) * 16;
        int row = (lane >> 4) * 8 + (lane & 7);
        return row * SPAN + place_of(row, lane >> 3 & 1) * 16;
    }
    /// 16 tokens of a step as right factor. A lane has four neighbours of a float token's columns:
    /// the weights have their order (packed.rs).
    template <class T>
    __device__ __forceinline__ static void load_right(u32 (&b)[4], u32 from, int step) {
        if (sizeof(T) == 4) {
            float4 low = load_shared_floats(from), high = load_shared_floats(from + 8 * SPAN);
            b[0] = pack(low.x, low.y), b[1] = pack(low.z, low.w);
            b[2] = pack(high.x, high.y), b[3] = pack(high.z, high.w);
        } else {
            load_matrices(b, from ^ step % SPAN_STEPS<T>() * (STEP * 2));
        }
    }

    /// Adds a chunk's products: of COUNT lines of 16 tokens, this warp's from row `first` on.
    template <class T, int COUNT>
    __device__ __forceinline__ void multiply(float (&sums)[TILES][COUNT][2][4], const Part& part, int chunk,
                                             u32 slot, int first) const {
        u32 weight = slot + (warp & share.across - 1) * WARP_STEP + lane * 16;
        u32 tokens = slot + part.begin + first * SPAN + right_of<T>();
        int count = part.count(chunk);
#pragma unroll 1
        for (int step = 0; step < count; step++) {
            u32 left[TILES][4], at = tokens + step / SPAN_STEPS<T>() * part.rows * SPAN;
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) load_shared(left[tile], weight + tile * PACKED * 2);
#pragma unroll
            for (int line = 0; line < COUNT; line++) {
                u32 right[4];
                load_right<T>(right, at + line * LINE * SPAN, step);
#pragma unroll
                for (int tile = 0; tile < TILES; tile++)
#pragma unroll
                    for (int n = 0; n < 2; n++)
                        multiply_add(sums[tile][line][n], left[tile], right[n * 2], right[n * 2 + 1]);
            }
            weight += share.across * WARP_STEP;
        }
    }
    template <class T>
    __device__ __forceinline__ void multiply(float (&sums)[TILES][OWN][2][4], float (&above)[TILES][1][2][4],
                                             int chunk, u32 slot) const {
        if (!UP || chunk < fine.chunks) multiply<T>(sums, fine, chunk, slot, warp_group * GROUP);
        else multiply<T>(above, coarse, chunk - fine.chunks, slot, warp_group * COARSE);
    }

    __device__ __forceinline__ void store(const float (&sums)[TILES][OWN][2][4], int column) const {
        int size = level.side * level.side, place = (lane & 3) * 4;
        // Else four tokens of a line are not aligned as one word of 8 bytes must be.
        bool fours = !UP || level.side % 4 == 0;
        f16* out = level.out + column * size + place;
#pragma unroll
        for (int line = 0; line < OWN; line++) {
            Row to = row(warp_group, line);
            bool first = place < to.count, second = place + 2 < to.count;
#pragma unroll
            for (int i = 0; i < TILES * 2; i++) {
                bool there = column + i * 8 < level.columns;
                const float(&of)[2][4] = sums[i / 2][line];
                uint2 halves = make_uint2(to_f16x2(of[0][i % 2 * 2], of[0][i % 2 * 2 + 1]),
                                          to_f16x2(of[1][i % 2 * 2], of[1][i % 2 * 2 + 1]));
                f16* at = out + to.first + i * 8 * size;
                if (there && first && fours) store_halves(at, halves);
                if (there && first && !fours) *(u32*)at = halves.x;
                if (there && second && !fours) *(u32*)(at + 2) = halves.y;
            }
        }
    }

public:
    __device__ __forceinline__ Result(const Level& of)
        : level(of), share(of, UP),
          fine(of.tokens, of.depth, of.size, share.groups * GROUP, share.across),
          coarse(of.coarse, of.coarse_depth, of.size, share.groups * COARSE, share.across) {}

    __device__ __forceinline__ void run(int block, u32 shared) {
        lane = threadIdx.x & 31, warp = threadIdx.x >> 5, memory = shared;
        first_tile = block / share.column_blocks * share.groups;
        warp_group = warp >> 3 - share.shift;
        int column_block = block % share.column_blocks, all = fine.steps + (UP ? coarse.steps : 0);
        weight = level.weight + (column_block * all * share.across * (WARP_STEP / 16) + threadIdx.x) * 8;
        left = fine.steps, at = 0;
        int chunks = fine.chunks + (UP ? coarse.chunks : 0);
        int column = (column_block * share.across + (warp & share.across - 1)) * TILES * TILE + (lane >> 2);
#pragma unroll 1
        for (int i = 0; i < STAGES - 1 && i < chunks; i++) fetch_weights(i, memory + i * SLOT);
        float sums[TILES][OWN][2][4], above[TILES][1][2][4];
#pragma unroll
        for (int i = 0; i < TILES * 2; i++) {
            float bias = column + i * 8 < level.columns ? load_float(level.bias + column + i * 8) : 0.0f;
#pragma unroll
            for (int at = 0; at < 4; at++) {
                above[i / 2][0][at / 2][i % 2 * 2 + at % 2] = 0.0f;
#pragma unroll
                for (int line = 0; line < OWN; line++) sums[i / 2][line][at / 2][i % 2 * 2 + at % 2] = bias;
            }
        }
        if (UP) first_square = {first_tile / share.tiles_across, first_tile % share.tiles_across};
        find_copies();
        dependent_wait();
        dependent_launch();
        u32 filled = memory, slot = memory;
        // The first rounds only fill the ring.
#pragma unroll 1
        for (int chunk = 1 - STAGES; chunk < chunks; chunk++) {
            copies_wait<STAGES - 2>();
            // All have this chunk, and none reads the one before any more.
            if (chunk >= 0) block_barrier();
            int next = chunk + STAGES - 1;
            if (next < chunks) {
                if (chunk >= 0) fetch_weights(next, filled);
                fetch_tokens(next, filled);
                filled = slot_after(filled);
            }
            copies_commit();
            if (chunk < 0) continue;
            if (level.size == 4) multiply<float>(sums, above, chunk, slot);
            else multiply<f16>(sums, above, chunk, slot);
            slot = slot_after(slot);
        }
        if (UP) {
            // Two lines have one of the coarsest map, and two neighbours one token of it.
#pragma unroll
            for (int line = 0; line < OWN; line++)
#pragma unroll
                for (int i = 0; i < TILES * 8; i++)
                    sums[i / 8][line][i / 4 % 2][i % 4] += above[i / 8][0][line / 2][i % 4 / 2 * 2 + i / 4 % 2];
        }
        store(sums, column);
    }
};

/// One of two, field by field: a choice of addresses would keep both in local memory.
__device__ __forceinline__ Level either_level(bool second, const Level& a, const Level& b) {
    return {second ? b.tokens : a.tokens, second ? b.weight : a.weight, second ? b.bias : a.bias,
            second ? b.out : a.out, nullptr, second ? b.side : a.side,
            second ? b.depth : a.depth, second ? b.columns : a.columns, 0, a.size};
}

__device__ __forceinline__ void make_features(const NeckProblem& p, u32 memory) {
    int block = blockIdx.x, of_feat = Share(p.feat, true).blocks;
    if (block < of_feat) {
        Result<true>(p.feat).run(block, memory);
        return;
    }
    int of_hr1 = Share(p.hr1, false).blocks;
    bool finest = block >= of_feat + of_hr1;
    Result<false>(either_level(finest, p.hr1, p.hr0)).run(block - of_feat - (finest ? of_hr1 : 0), memory);
}

constexpr int neck_shared = STAGES * SLOT;

// ---- instances ----

/// Tokens are f16, or floats where `size` is 4.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    neck(const unsigned char* m0, const f16* weight0, const float* bias0, f16* hr0, const unsigned char* m1,
         const f16* weight1, const float* bias1, f16* hr1, const unsigned char* m2, const unsigned char* m3,
         const f16* weight, const float* bias, f16* feat, int grid, int depth0, int columns0, int depth1,
         int columns1, int depth2, int depth3, int columns, int size) {
    extern __shared__ __align__(1024) unsigned char memory[];
    make_features({{m2, weight, bias, feat, m3, grid, depth2, columns, depth3, size},
                   {m1, weight1, bias1, hr1, nullptr, grid * 2, depth1, columns1, 0, size},
                   {m0, weight0, bias0, hr0, nullptr, grid * 4, depth0, columns0, 0, size}},
                  shared_address(memory));
}
