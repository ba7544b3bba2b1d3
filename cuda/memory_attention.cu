/*!
The memory attention's norms and projections, for any GPU from sm 80 on: what lies in front of each
attention, and the norm behind the last layer.

  - memory_attention_project: y = norm(x); then R(Wq y + q), R(Wk y + k) and Wv y + v of the
    self-attention, or R(Wq y + q) alone of the attention to the memory bank. x are tokens; tokens
    and the result of an attention; or, at the first layer, features [256, tokens] and positions.
    Sums are stored as tokens.
  - memory_attention_norm: norm(x).

R turns pairs of columns, c and c + 128, by a token's place in the map: the first 64 pairs by its
column, the others by its row.

T tokens; sm 80 on.

| kernel                   | M, N, K            | tile of T | threads | stages | shared bytes |
|--------------------------|--------------------|-----------|---------|--------|--------------|
| memory_attention_project | T, 768 or 256, 256 | 64        | 384     | 4      | 67 584       |
| memory_attention_norm    |                    | 8         | 256     |        | 0            |

A warp normalises two tokens at a time, in place in shared memory. Then it multiplies all tokens of
the block by 32 columns, 16 and their partners 128 behind: so a lane has both of each pair. Packed
weights (repvit.cuh) go from the L2 cache to registers, of which AHEAD steps are under way; the first
of them before anything is read that an earlier launch wrote. A block with few columns, as of queries
alone, would leave warps idle. So two warps share 32 columns there, with half of the tokens each.

By count, of an H200 at 1024 pixels: 128 blocks, each with half of the 768 columns, read 256 KB each,
5 us at 50 bytes a ns and multiprocessor.

Tokens past the last are the last one, and are not stored.

Grid: ceil(T / tile) x parts of the columns; 1 of memory_attention_norm.
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"
#include "repvit.cuh"
#include "memory_attention.cuh"

// ---- norm ----

constexpr int NORM_THREADS = 256, NORM_TOKENS = NORM_THREADS / 32;

/// y = norm(x), [tokens, 256] both. A warp has a token, a lane columns 4 lane to 4 lane + 3 of each
/// half.
__device__ __forceinline__ void normalize_token(const f16* x, const float* weight, const float* bias, f16* y,
                                                int tokens) {
    int token = blockIdx.x * NORM_TOKENS + (threadIdx.x >> 5), column = (threadIdx.x & 31) * 4;
    float2 w[4], b[4], row[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int at = i / 2 * PARTNER + column + i % 2 * 2;
        w[i] = load_pair(weight + at), b[i] = load_pair(bias + at);
    }
    dependent_wait();
    dependent_launch();
    if (token >= tokens) return;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint2 four = load_halves(x + token * COLUMNS + i * PARTNER + column);
        row[i * 2] = to_float2(four.x), row[i * 2 + 1] = to_float2(four.y);
    }
    normalize(row, w, b);
#pragma unroll
    for (int i = 0; i < 2; i++)
        store_halves(y + token * COLUMNS + i * PARTNER + column,
                     make_uint2(to_f16x2(row[i * 2].x, row[i * 2].y),
                                to_f16x2(row[i * 2 + 1].x, row[i * 2 + 1].y)));
}

// ---- projection ----

constexpr int STEPS = COLUMNS / STEP;
constexpr int PAIRED = PARTNER / TILE;     // pairs of tiles of a query, a key or a value
constexpr int PAIR = STEPS * 2 * PACKED;   // halves of a pair's weights
constexpr int TURNING = 64;                // pairs of columns that turn with one coordinate
constexpr int AHEAD = 4;
constexpr u32 PITCH = COLUMNS * 2 + 16;    // of a token in shared memory
constexpr int TURNED = 2;                  // queries and keys; values are not

/// What x is: of memory, tokens, sums of tokens, or sums of features and positions.
enum Source { TOKENS, SUMS, FEATURES };
constexpr int PROJECT_WARPS = 12, PROJECT_THREADS = PROJECT_WARPS * 32;
constexpr int GROUPS = 2, PROJECT_TOKENS = GROUPS * ROWS;
constexpr int TURNS_AHEAD = 3;  // tokens of a lane whose angles are under way
/// Halves of a channel's tokens in shared memory, and two more: an odd number of words.
constexpr int CHANNEL = PROJECT_TOKENS + 2;
constexpr u32 BEHIND = PROJECT_TOKENS * PITCH, PROJECT_SHARED = BEHIND + COLUMNS * CHANNEL * 2;
static_assert(PROJECT_SHARED >= BEHIND + PROJECT_TOKENS * PITCH, "features or tokens");

/// What a launch is given.
struct ProjectProblem {
    const f16* x;           // [tokens, 256]; of FEATURES [256, tokens]
    const f16* added;       // as x; not read of TOKENS
    f16* sum;               // [tokens, 256]; not written of TOKENS
    const float *norm_weight, *norm_bias;
    const f16* weight;      // [256 sections, 256], packed: tiles in pairs, 128 columns apart
    const float* bias;      // [256 sections]
    const float2* turns;    // [grid, 64]: cosine and sine
    f16* out;               // [sections, tokens, 256]
    int grid, sections, source;
};

class Projection {
    int warp, lane, first, tokens;
    int own_first;       // the warp's first token
    u32 shared, behind;  // tokens, and what is added to them or features

    __device__ __forceinline__ static void load_step(u32 (&b)[2][4], const f16* from) {
        load_weights(b[0], from), load_weights(b[1], from + PACKED);
    }

    /// Copies the block's tokens of `from` [tokens, 256], a warp a row.
    __device__ __forceinline__ void fetch_tokens(const f16* from, u32 to) const {
        to += warp * PITCH + lane * 16;
#pragma unroll 1
        for (int row = warp; row < PROJECT_TOKENS; row += PROJECT_WARPS, to += PROJECT_WARPS * PITCH) {
            int token = first + row < tokens ? first + row : tokens - 1;
            copy16(to, from + token * COLUMNS + lane * 8, true);
        }
    }
    /// Sums of features and positions, channel by channel. A thread has four tokens of a channel,
    /// which are all in the map or none.
    __device__ __forceinline__ void add_features(const ProjectProblem& p) const {
        constexpr int FOURS = PROJECT_TOKENS / 4, CHANNELS = PROJECT_THREADS / FOURS;  // channels at once
        int channel = threadIdx.x / FOURS, of = threadIdx.x % FOURS * 4;
        int from = channel * tokens + (first + of < tokens ? first + of : tokens - 4);
        u32 to = behind + (channel * CHANNEL + of) * 2;
#pragma unroll 4
        for (; channel < COLUMNS;
             channel += CHANNELS, from += CHANNELS * tokens, to += CHANNELS * CHANNEL * 2) {
            uint2 a = load_halves(p.x + from), b = load_halves(p.added + from);
            store_shared_word(to, sum_of_halves(a.x, b.x));
            store_shared_word(to + 4, sum_of_halves(a.y, b.y));
        }
    }
    /// Columns 2 lane + 64 i and the next of two tokens, from words of a channel's two tokens. Half
    /// of the lanes read the second column first, so that all read other banks.
    __device__ __forceinline__ void load_features(u32 (&x)[2][4], int row) const {
        u32 at = behind + (lane * 2 * CHANNEL + row) * 2;
        bool last = lane >= 16;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            u32 one = shared_word(at + (i * 64 + last) * CHANNEL * 2);
            u32 other = shared_word(at + (i * 64 + !last) * CHANNEL * 2);
            u32 low = last ? other : one, high = last ? one : other;
            x[0][i] = (low & 0xffff) | high << 16, x[1][i] = low >> 16 | (high & 0xffff0000);
        }
    }
    __device__ __forceinline__ u32 word_of(int row, int i) const { return row * PITCH + lane * 4 + i * 128; }

    /// Two tokens: sums, which the first part of the columns stores, and their norm.
    __device__ __forceinline__ void normalize_rows(const ProjectProblem& p, int row,
                                                   const float2 (&weight)[4], const float2 (&bias)[4]) const {
        u32 x[2][4];
        if (p.source == FEATURES) load_features(x, row);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float2 values[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if (p.source != FEATURES) x[r][i] = shared_word(shared + word_of(row + r, i));
                if (p.source == SUMS)
                    x[r][i] = sum_of_halves(x[r][i], shared_word(behind + word_of(row + r, i)));
                values[i] = to_float2(x[r][i]);
            }
            int token = first + row + r;
            if (p.source != TOKENS && blockIdx.y == 0 && token < tokens)
#pragma unroll
                for (int i = 0; i < 4; i++) *(u32*)(p.sum + token * COLUMNS + lane * 2 + i * 64) = x[r][i];
            normalize(values, weight, bias);
#pragma unroll
            for (int i = 0; i < 4; i++)
                store_shared_word(shared + word_of(row + r, i), to_f16x2(values[i].x, values[i].y));
        }
    }

    /// Stores columns 4 (lane % 4) to 4 (lane % 4) + 3 of a pair of tiles of the warp's tokens, turned.
    /// The angles of TURNS_AHEAD tokens are under way: each load alone would wait for the cache.
    template <int OWN>
    __device__ __forceinline__ void store(const ProjectProblem& p, const Sums (&sums)[OWN][2],
                                          int pair) const {
        constexpr int TOKENS_OF_LANE = OWN * ROWS / 8;
        int section = pair / PAIRED, column = pair % PAIRED * TILE + (lane & 3) * 4;
        f16* out = p.out + section * tokens * COLUMNS + column;
        float4 ring[TURNS_AHEAD][2];
#pragma unroll
        for (int n = 0; n < TURNS_AHEAD; n++)
            if (section < TURNED) load_turns(ring[n], p, n, column);
#pragma unroll
        for (int n = 0; n < TOKENS_OF_LANE; n++) {
            int g = n / 4, m = n / 2 % 2, i = n % 2;
            float low[4], high[4];
#pragma unroll
            for (int c = 0; c < 4; c++)
                low[c] = sums[g][0][m][c / 2][i * 2 + c % 2], high[c] = sums[g][1][m][c / 2][i * 2 + c % 2];
            if (section < TURNED) {
                float4(&turns)[2] = ring[n % TURNS_AHEAD];
#pragma unroll
                for (int c = 0; c < 4; c += 2) {
                    float4 two = turns[c / 2];
                    float a = low[c], b = low[c + 1];
                    low[c] = a * two.x - high[c] * two.y, high[c] = a * two.y + high[c] * two.x;
                    low[c + 1] = b * two.z - high[c + 1] * two.w;
                    high[c + 1] = b * two.w + high[c + 1] * two.z;
                }
                if (n + TURNS_AHEAD < TOKENS_OF_LANE) load_turns(turns, p, n + TURNS_AHEAD, column);
            }
            int token = token_of(n);
            if (token >= tokens) continue;
            f16* to = out + token * COLUMNS;
            store_halves(to, make_uint2(to_f16x2(low[0], low[1]), to_f16x2(low[2], low[3])));
            store_halves(to + PARTNER, make_uint2(to_f16x2(high[0], high[1]), to_f16x2(high[2], high[3])));
        }
    }
    /// The lane's n-th token.
    __device__ __forceinline__ int token_of(int n) const { return own_first + n * 8 + (lane >> 2); }
    /// Cosines and sines of four columns of a token; of the last one if there is no such token.
    __device__ __forceinline__ void load_turns(float4 (&turns)[2], const ProjectProblem& p, int n,
                                               int column) const {
        int token = token_of(n) < tokens ? token_of(n) : tokens - 1;
        int row = (u32)token / (u32)p.grid, place = column < TURNING ? token - row * p.grid : row;
        const float* from = (const float*)(p.turns + place * TURNING + column % TURNING);
        turns[0] = load_floats(from), turns[1] = load_floats(from + 4);
    }

    /// Multiplies OWN groups of tokens by the warp's pairs of tiles, and stores the products. `own`:
    /// the first pair's weights, of which the ring has the first steps.
    template <int OWN>
    __device__ __forceinline__ void multiply_pairs(const ProjectProblem& p, int from, int end, const f16* own,
                                                   u32 (&ring)[AHEAD][2][4]) const {
        u32 left = left_of(shared + (own_first - first) * PITCH, PITCH, lane);
#pragma unroll 1
        for (int pair = from; pair < end; pair += PROJECT_WARPS, own += PROJECT_WARPS * PAIR) {
            Sums sums[OWN][2];
#pragma unroll
            for (int t = 0; t < 2; t++) {
                float4 with = load_floats(p.bias + pair / PAIRED * COLUMNS + t * PARTNER +
                                          pair % PAIRED * TILE + (lane & 3) * 4);
#pragma unroll
                for (int g = 0; g < OWN; g++) begin(sums[g][t], with);
            }
#pragma unroll 1
            for (int step = 0; step < STEPS; step += AHEAD) {
                // The steps that follow: at the end those of the warp's next pair of tiles.
                bool last = step + AHEAD == STEPS, more = !last || pair + PROJECT_WARPS < end;
                const f16* next = own + (last ? (PROJECT_WARPS - 1) * PAIR : 0) + (step + AHEAD) * 2 * PACKED;
#pragma unroll
                for (int i = 0; i < AHEAD; i++) {
#pragma unroll
                    for (int g = 0; g < OWN; g++) {
                        u32 a[2][4];
                        load_left(a, left + g * ROWS * PITCH + (step + i) * 32, PITCH);
                        multiply(sums[g][0], a, ring[i][0]), multiply(sums[g][1], a, ring[i][1]);
                    }
                    if (more) load_step(ring[i], next + i * 2 * PACKED);
                }
            }
            store(p, sums, pair);
        }
    }

public:
    __device__ __forceinline__ void run(const ProjectProblem& p, u32 memory) {
        warp = threadIdx.x >> 5, lane = threadIdx.x & 31, shared = memory, behind = memory + BEHIND;
        first = blockIdx.x * PROJECT_TOKENS, tokens = p.grid * p.grid;
        int pairs = p.sections * PAIRED;
        int from = pairs * blockIdx.y / gridDim.y, end = pairs * (blockIdx.y + 1) / gridDim.y;
        // With few pairs, GROUPS warps share one: each has a group of tokens.
        bool shared_pairs = (end - from) * GROUPS <= PROJECT_WARPS;
        own_first = first + (shared_pairs ? warp % GROUPS * ROWS : 0);
        from += shared_pairs ? warp / GROUPS : warp;
        const f16* own = p.weight + from * PAIR + lane * 8;
        u32 ring[AHEAD][2][4];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (from < end) load_step(ring[i], own + i * 2 * PACKED);
        float2 weight[4], bias[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            weight[i] = load_pair(p.norm_weight + lane * 2 + i * 64),
            bias[i] = load_pair(p.norm_bias + lane * 2 + i * 64);
        dependent_wait();
        dependent_launch();
        if (p.source == FEATURES) {
            add_features(p);
        } else {
            fetch_tokens(p.x, shared);
            if (p.source == SUMS) fetch_tokens(p.added, behind);
            copies_commit();
            copies_wait<0>();
        }
        block_barrier();
#pragma unroll 1
        for (int row = warp * 2; row < PROJECT_TOKENS; row += PROJECT_WARPS * 2)
            normalize_rows(p, row, weight, bias);
        block_barrier();
        if (shared_pairs) multiply_pairs<1>(p, from, end, own, ring);
        else multiply_pairs<GROUPS>(p, from, end, own, ring);
    }
};

// ---- instances ----

extern "C" __global__ void __launch_bounds__(PROJECT_THREADS, 1)
    memory_attention_project(const f16* x, const f16* added, f16* sum, const float* norm_weight,
                             const float* norm_bias, const f16* weight, const float* bias,
                             const float2* turns, f16* out, int grid, int sections, int source) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Projection().run(
        {x, added, sum, norm_weight, norm_bias, weight, bias, turns, out, grid, sections, source},
        shared_address(memory));
}

extern "C" __global__ void __launch_bounds__(NORM_THREADS)
    memory_attention_norm(const f16* x, const float* weight, const float* bias, f16* y, int tokens) {
    normalize_token(x, weight, bias, y, tokens);
}
