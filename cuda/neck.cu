/*!
The neck of an image encoder in one launch, for any GPU from sm 80 on: the four matmuls that make
planar features of the tokens behind each stage,

  - hr0 = W m0 + b and hr1 = W m1 + b, of the two finest maps,
  - feat = W m2 + b + upsampled V m3, each token of the coarsest map for 2 x 2 of the next one's.

Tokens are f16 (RepViT) or f32 (Hiera's residual, rounded to f16 on the way to the tensor cores).
Their columns are any multiple of 8.

T tokens, N columns of a result, K of a token, A = 1, 2 or 4 warps side by side, as N asks for.

| kernel | M, N, K of each matmul | tile of M, N              | threads | stages |
|--------|------------------------|---------------------------|---------|--------|
| neck   | T, N, K of hr0, hr1    | 256 / A tokens, 32 A      | 256     | 3      |
|        | T, N, K of feat        | 64 tokens, 64             |         |        |

A block has one of the three results; feat's, which have the longest K, begin first. A warp has 32
columns: of 32 tokens, or for feat of 64. These are four lines of 16, since they share 8 x 2 tokens
of the coarsest map.

A small map has few blocks of feat, and each of them goes through all of K. So feat's tile is small,
and four pairs of warps take the steps of K in turn. Their sums are added up in shared memory,
always in the same order, and each warp stores one line.

K comes in chunks through a ring of slots in shared memory, by cp.async. A chunk has some spans of
64 bytes of each token, and the weights beside them. feat has the chunks of W and m2 first, then
those of V and m3. So shared memory, and the bytes under way, do not depend on K.

The weights are the left factor and the tokens the right one: so a lane has neighbouring tokens of
one column, and stores them as planar features are. Rows of 16 tokens lie in shared memory in the
order in which each lane gets four neighbours (`row_of`). The weights are packed (packed.rs) as a
block takes them; feat's are one matrix, [W | V].

Grid: the blocks of all three results (`Share`).
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"
#include "repvit.cuh"
#include "neck.cuh"

// ---- neck ----

/// UP: feat, in squares, with the coarsest map.
template <bool UP>
class Result {
    static constexpr int OWN = UP ? SQUARE_LINES : LINES, GROUP = OWN * LINE;
    // Rounds of copies that a span of a block's tokens takes, at most.
    static constexpr int ROUNDS = UP ? 1 : WARPS * GROUP / COPIED;
    // Parts of K, and lines that a warp stores.
    static constexpr int SHARED_BY = UP ? PARTS : 1, STORED = OWN / SHARED_BY;

    Level level;
    Share share;
    Part fine, coarse;
    int lane, warp, warp_group, warp_part, first_tile;
    // Of this thread's copies: where they begin in the maps, and in a slot's tokens.
    int from[ROUNDS], coarse_from;
    u32 to, coarse_to, memory;
    // What comes next: its weights, steps of its part that are left, bytes of a token before it.
    const f16* weight;
    int left, at;
    // The place of feat's tokens among all squares.
    int square_y, square_x;

    /// Some tokens side by side: the number of the first, and how many of them the map has.
    struct Row {
        int first, count;
    };
    __device__ __forceinline__ Row row(int group, int line) const {
        if (UP) {
            int y = square_y * OWN + line, x = square_x * LINE;
            return {y * level.side + x, y < level.side ? level.side - x : 0};
        }
        int first = (first_tile + group) * GROUP + line * LINE;
        return {first, level.side * level.side - first};
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
            // All 16 tokens again for each span that is copied at once.
            int y = square_y * (OWN / 2) + token % COARSE / 8, x = square_x * (LINE / 2) + token % 8;
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
        for (int span = 0; span < part.spans && at < part.bytes; span += part.at_once) {
            bool there = at < inside;
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                // The map begins where a copy beyond the depth would not.
                int offset = there ? from[i] + at : 0;
                if (i * COPIED + (int)threadIdx.x / SPAN_UNITS < part.rows * part.at_once)
                    copy16(slot + i * COPIED * SPAN, part.tokens + offset, there);
            }
            slot += part.at_once * part.rows * SPAN, at += part.at_once * SPAN;
        }
    }
    __device__ __forceinline__ void fetch_tokens(int chunk, u32 slot) {
        if (UP && chunk == fine.chunks) at = (int)threadIdx.x / (COARSE * SPAN_UNITS) * SPAN;
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
            b[0] = to_f16x2(low.x, low.y), b[1] = to_f16x2(low.z, low.w);
            b[2] = to_f16x2(high.x, high.y), b[3] = to_f16x2(high.z, high.w);
        } else {
            load_matrices(b, from ^ step % SPAN_STEPS<T>() * (STEP * 2));
        }
    }

    /// Adds the products of this warp's steps of a chunk: of COUNT lines of 16 tokens, from row
    /// `first` on.
    template <class T, int COUNT>
    __device__ __forceinline__ void multiply(float (&sums)[TILES][COUNT][2][4], const Part& part, int chunk,
                                             u32 slot, int first) const {
        u32 weight = slot + (warp_part * share.across + (warp & share.across - 1)) * WARP_STEP + lane * 16;
        u32 tokens = slot + part.begin + first * SPAN + right_of<T>();
        int count = part.count(chunk);
#pragma unroll 1
        for (int step = warp_part; step < count; step += SHARED_BY) {
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
            weight += SHARED_BY * share.across * WARP_STEP;
        }
    }
    template <class T>
    __device__ __forceinline__ void multiply(float (&sums)[TILES][OWN][2][4], float (&above)[TILES][1][2][4],
                                             int chunk, u32 slot) const {
        if (!UP || chunk < fine.chunks) multiply<T>(sums, fine, chunk, slot, warp_group * GROUP);
        else multiply<T>(above, coarse, chunk - fine.chunks, slot, warp_group * COARSE);
    }

    /// Adds up the sums of all parts of K, of the line that this warp stores.
    __device__ __forceinline__ void add_parts(float (&total)[TILES][STORED][2][4],
                                              const float (&sums)[TILES][OWN][2][4]) const {
        u32 to = memory + warp * (OWN * SUMS) + lane * 16;
        // None reads the last chunk any more.
        block_barrier();
#pragma unroll
        for (int i = 0; i < OWN * TILES * 2; i++) {
            const float(&of)[4] = sums[i / 2 % TILES][i / (TILES * 2)][i % 2];
            store_shared_floats(to + i * 512, make_float4(of[0], of[1], of[2], of[3]));
        }
        block_barrier();
        u32 from = memory + (warp & SQUARE_ACROSS - 1) * (OWN * SUMS) + warp_part * SUMS + lane * 16;
#pragma unroll
        for (int i = 0; i < TILES * 2; i++) {
            float(&to)[4] = total[i / 2][0][i % 2];
#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                float4 of = load_shared_floats(from + part * (SQUARE_ACROSS * OWN * SUMS) + i * 512);
                to[0] = part > 0 ? to[0] + of.x : of.x, to[1] = part > 0 ? to[1] + of.y : of.y;
                to[2] = part > 0 ? to[2] + of.z : of.z, to[3] = part > 0 ? to[3] + of.w : of.w;
            }
        }
    }

    /// Stores this warp's lines, from `first_line` on.
    __device__ __forceinline__ void store(const float (&sums)[TILES][STORED][2][4], int column,
                                          int first_line) const {
        int size = level.side * level.side, place = (lane & 3) * 4;
        // Else four tokens of a line are not aligned as one word of 8 bytes must be.
        bool fours = !UP || level.side % 4 == 0;
        f16* out = level.out + column * size + place;
#pragma unroll
        for (int line = 0; line < STORED; line++) {
            Row to = row(warp_group, first_line + line);
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
          fine(of.tokens, of.depth, of.size, share.groups * GROUP, share.across, 1),
          coarse(of.coarse, of.coarse_depth, of.size, share.groups * COARSE, share.across, COPIED / COARSE) {}

    __device__ __forceinline__ void run(int block, u32 shared) {
        lane = threadIdx.x & 31, warp = threadIdx.x >> 5, memory = shared;
        first_tile = block / share.column_blocks * share.groups;
        warp_group = UP ? 0 : warp >> 3 - share.shift, warp_part = UP ? warp / SQUARE_ACROSS : 0;
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
            bool biased = column + i * 8 < level.columns && warp_part == 0;
            float bias = biased ? load_float(level.bias + column + i * 8) : 0.0f;
#pragma unroll
            for (int at = 0; at < 4; at++) {
                above[i / 2][0][at / 2][i % 2 * 2 + at % 2] = 0.0f;
#pragma unroll
                for (int line = 0; line < OWN; line++) sums[i / 2][line][at / 2][i % 2 * 2 + at % 2] = bias;
            }
        }
        if (UP) square_y = first_tile / share.tiles_across, square_x = first_tile % share.tiles_across;
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
        if constexpr (UP) {
            // Two lines have one of the coarsest map, and two neighbours one token of it.
#pragma unroll
            for (int line = 0; line < OWN; line++)
#pragma unroll
                for (int i = 0; i < TILES * 8; i++)
                    sums[i / 8][line][i / 4 % 2][i % 4] +=
                        above[i / 8][0][line / 2][i % 4 / 2 * 2 + i / 4 % 2];
            float total[TILES][STORED][2][4];
            add_parts(total, sums);
            store(total, column, warp_part);
        } else {
            store(sums, column, 0);
        }
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
