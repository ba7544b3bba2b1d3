/*!
The end of a layer's attention to the memory bank, for any GPU from sm 80 on: in place of
attention_combine_64, memory_attention_residual and memory_attention_norm.

  - memory_attention_cross_tail: m, the attention's parts together; s = r + m Wᵀ + b; y = norm(s).

| kernel                      | M, N, K    | tile of T | threads | shared bytes |
|-----------------------------|------------|-----------|---------|--------------|
| memory_attention_cross_tail | T, 256, 64 | 32        | 512     | 22 016       |

T tokens. A block has all columns of its tokens, a warp 16 columns. Packed weights (repvit.cuh) of a
warp are 16 registers a lane. They and all biases are asked for before anything is read that an earlier
launch wrote.

  1. A thread joins four columns of a token, in the order of attention_combine_64, to shared memory.
     Loads of the first PARTS_AHEAD parts and of the residual are under way at once.
  2. A warp multiplies all tokens of the block by its columns, and adds the residual. Sums are rounded
     to halves, in shared memory.
  3. A warp normalises two tokens of these halves, and stores both.

Sums and orders are those of the three kernels. An H200 gives the same bits.

By count, of an H200 at 1024 pixels with four parts: 128 blocks read 32 KB of parts, 32 KB of weights
and 16 KB of residuals each, 1.6 us at 50 bytes a ns and multiprocessor. A launch takes 4.7 us.

An attention in one part has divided its sums itself: its halves are read.

Tokens past the last are the last one, and are not stored.

Grid: ceil(T / tile).
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "repvit.cuh"
#include "memory_attention.cuh"

// ---- tail ----

constexpr int MEMORY = 64;  // columns of what was attended to
constexpr int STEPS = MEMORY / STEP;
constexpr int TAIL_TOKENS = ROWS;
constexpr int TAIL_WARPS = COLUMNS / TILE, TAIL_THREADS = TAIL_WARPS * 32;
constexpr int OWN = TAIL_TOKENS / TAIL_WARPS;  // tokens that a warp normalises
constexpr int PARTS_AHEAD = 8;
static_assert(TAIL_THREADS * 4 == TAIL_TOKENS * MEMORY, "a thread joins four columns of a token");
static_assert(OWN * TAIL_WARPS == TAIL_TOKENS, "a warp normalises whole tokens");
// Rows in shared memory, of joined parts and of sums: eight and four of them lie in other banks.
constexpr u32 JOINED_PITCH = MEMORY * 2 + 16, SUM_PITCH = COLUMNS * 2 + 32;
constexpr u32 SUMS_BEHIND = TAIL_TOKENS * JOINED_PITCH;
constexpr u32 TAIL_SHARED = SUMS_BEHIND + TAIL_TOKENS * SUM_PITCH;

/// What a launch is given.
struct TailProblem {
    const float* partial;  // [parts, tokens, 64], and [parts, tokens, 2]: maxima in powers of two, sums;
    const float* stats;    // neither with one part
    const f16* whole;      // [tokens, 64]; with one part alone
    const f16* weight;     // [256, 64], packed: one tile after the other
    const float* bias;     // [256]
    const f16* residual;   // [tokens, 256]
    const float *norm_weight, *norm_bias;
    f16 *sum, *normed;  // [tokens, 256]
    int tokens, parts;
};

class Tail {
    int warp, lane, first;
    u32 shared;

    __device__ __forceinline__ static int within(const TailProblem& p, int token) {
        return token < p.tokens ? token : p.tokens - 1;
    }

    /// Four columns of a token's parts together, as `combine` has them (attention.cuh).
    __device__ __forceinline__ static uint2 join(const TailProblem& p, int token, int column) {
        const float4* values = (const float4*)(p.partial + (long long)token * MEMORY + column);
        const float2* stats = (const float2*)p.stats + token;
        const long long apart = p.tokens;  // from a part to the next, in tokens
        float4 value[PARTS_AHEAD];
        float2 stat[PARTS_AHEAD];
        auto load = [&](int from) {
#pragma unroll
            for (int i = 0; i < PARTS_AHEAD; i++) {
                // Parts past the last weigh nothing.
                bool is = from + i < p.parts;
                stat[i] = is ? __ldcg(stats + (from + i) * apart) : make_float2(NOTHING, 0.0f);
                value[i] = is ? __ldcg(values + (from + i) * apart * (MEMORY / 4))
                              : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
        };
        load(0);
        // The later parts' maxima, while those loads are under way.
        float top = NOTHING, total = 0.0f;
#pragma unroll 8
        for (int part = PARTS_AHEAD; part < p.parts; part++) top = fmaxf(top, __ldcg(stats + part * apart).x);
#pragma unroll
        for (int i = 0; i < PARTS_AHEAD; i++) top = fmaxf(top, stat[i].x);
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
        for (int from = 0;; load(from)) {
#pragma unroll
            for (int i = 0; i < PARTS_AHEAD; i++) {
                float scale = power_of_two(stat[i].x - top);
                total += stat[i].y * scale;
                add_scaled(sum, value[i], scale);
            }
            from += PARTS_AHEAD;
            if (from >= p.parts) break;
        }
        float share = 1.0f / total;
        return make_uint2(to_f16x2(sum.x * share, sum.y * share), to_f16x2(sum.z * share, sum.w * share));
    }

    /// The warp's tokens: their sums, and norms of these. A lane has columns 4 lane to 4 lane + 3 of
    /// each half.
    __device__ __forceinline__ void normalize_rows(const TailProblem& p, const float2 (&weight)[4],
                                                   const float2 (&bias)[4]) const {
        uint2 halves[OWN][2];
        float2 values[OWN][4];
        u32 from = shared + SUMS_BEHIND + warp * OWN * SUM_PITCH + lane * 8;
#pragma unroll
        for (int r = 0; r < OWN; r++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                halves[r][i] = shared_halves(from + r * SUM_PITCH + i * PARTNER * 2);
                values[r][i * 2] = to_float2(halves[r][i].x);
                values[r][i * 2 + 1] = to_float2(halves[r][i].y);
            }
#pragma unroll
        for (int r = 0; r < OWN; r++) normalize(values[r], weight, bias);
#pragma unroll
        for (int r = 0; r < OWN; r++) {
            int token = first + warp * OWN + r, at = token * COLUMNS + lane * 4;
            if (token >= p.tokens) break;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float2 low = values[r][i * 2], high = values[r][i * 2 + 1];
                store_halves(p.sum + at + i * PARTNER, halves[r][i]);
                store_halves(p.normed + at + i * PARTNER,
                             make_uint2(to_f16x2(low.x, low.y), to_f16x2(high.x, high.y)));
            }
        }
    }

public:
    __device__ __forceinline__ void run(const TailProblem& p, u32 memory) {
        warp = threadIdx.x >> 5, lane = threadIdx.x & 31, shared = memory;
        first = blockIdx.x * TAIL_TOKENS;
        int own = warp * TILE + (lane & 3) * 4;  // of the lane's columns, the first
        // What no launch writes, first.
        u32 weights[STEPS][4];
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            load_coherent(weights[i], p.weight + (warp * STEPS + i) * PACKED + lane * 8);
        float4 bias = load_coherent_floats(p.bias + own);
        float2 norm_weight[4], norm_bias[4];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float4 w = load_coherent_floats(p.norm_weight + i * PARTNER + lane * 4);
            float4 b = load_coherent_floats(p.norm_bias + i * PARTNER + lane * 4);
            norm_weight[i * 2] = make_float2(w.x, w.y), norm_weight[i * 2 + 1] = make_float2(w.z, w.w);
            norm_bias[i * 2] = make_float2(b.x, b.y), norm_bias[i * 2 + 1] = make_float2(b.z, b.w);
        }
        dependent_wait();
        dependent_launch();
        uint2 residual[4];
#pragma unroll
        for (int n = 0; n < 4; n++)
            residual[n] =
                load_halves(p.residual + within(p, first + n * 8 + (lane >> 2)) * COLUMNS + own);
        int row = threadIdx.x / (MEMORY / 4), column = threadIdx.x % (MEMORY / 4) * 4;
        int token = within(p, first + row);
        uint2 joined =
            p.parts > 1 ? join(p, token, column) : load_halves(p.whole + token * MEMORY + column);
        store_shared_halves(shared + row * JOINED_PITCH + column * 2, joined);
        block_barrier();
        Sums sums;
        begin(sums, bias);
        u32 left = left_of(shared, JOINED_PITCH, lane);
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            u32 a[2][4];
            load_left(a, left + step * STEP * 2, JOINED_PITCH);
            multiply(sums, a, weights[step]);
        }
#pragma unroll
        for (int n = 0; n < 4; n++) add_token(sums, n / 2, n % 2, residual[n]);
        u32 to = shared + SUMS_BEHIND + warp * TILE * 2;
        each_token(sums, lane, [](float x) { return x; }, [&](int token, int column, uint2 halves) {
            store_shared_halves(to + token * SUM_PITCH + column * 2, halves);
        });
        block_barrier();
        normalize_rows(p, norm_weight, norm_bias);
    }
};

// ---- instances ----

extern "C" __global__ void __launch_bounds__(TAIL_THREADS, 1)
    memory_attention_cross_tail(const float* partial, const float* stats, const f16* whole, const f16* weight,
                                const float* bias, const f16* residual, const float* norm_weight,
                                const float* norm_bias, f16* sum, f16* normed, int tokens, int parts) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Tail().run({partial, stats, whole, weight, bias, residual, norm_weight, norm_bias, sum, normed, tokens,
                parts},
               shared_address(memory));
}
