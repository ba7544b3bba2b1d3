/*!
The mask decoder's eight tokens between its passes over the image, for any GPU from sm 80 on: what
the tokens read from the image is gathered, goes through the MLP and, in front of the second layer,
through the self-attention; and what the next pass multiplies the image by is folded from the tokens
and the weights of a head.

8 tokens are rounded to two f16 each, 16 rows of A; sm 80 on. All weights of a thread are one stage.

| kernel                           | M, N, K                  | blocks | threads | shared bytes |
|----------------------------------|--------------------------|--------|---------|--------------|
| mask_decoder_combine_splits      | 8, 256, 128              | 8      | 256     | 8 704        |
| mask_decoder_token_mlp_up        | 8, 2048, 256             | 64     | 256     | 10 240       |
| mask_decoder_token_mlp_down      | 8, 256, 2048             | 32     | 256     | 2 048        |
| mask_decoder_fold_self_attn      | 8, 3 x 128 and 768, 256  | 16     | 256     | 27 392       |
| mask_decoder_token_self_attn     | 8, 256, 256; 8, 128, 256 | 8      | 256     | 19 584       |
| mask_decoder_fold_token_to_image | 8, 4 x 128, 256          | 16     | 256     | 27 392       |

These launches follow one another and each has little to do, so that their time is the time until
memory has answered: a thread asks for all that it needs before it uses any of it, and tokens that a
block needs whole are normalized by each block itself. `__launch_bounds__` says that a single block
to a multiprocessor is enough: ptxas, left alone, saves registers, asks for a few words, waits for
them, and asks for the next ones.
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "mask_decoder_tokens.cuh"
#include "mask_decoder_combine.cuh"

// ---- steps ----

/// The MLP's hidden layer with its ReLU, which lets a NaN through.
__device__ __forceinline__ void expand(const float* queries, const f16* weight, const float* bias,
                                       float* hidden, Up& shared) {
    int token = threadIdx.x / Up::BLOCK_ROWS,
        row = blockIdx.x * Up::BLOCK_ROWS + threadIdx.x % Up::BLOCK_ROWS;
    float own = bias[row], y = shared.run(queries, weight, [] {}) + own;
    hidden[token * HIDDEN + row] = y < 0.0f ? 0.0f : y;
}
/// The MLP's second layer, added to what the MLP was given.
__device__ __forceinline__ void narrow(const float* hidden, const f16* weight, const float* bias,
                                       const float* queries, float* sum, Down& shared) {
    int token = threadIdx.x / Down::BLOCK_ROWS,
        row = blockIdx.x * Down::BLOCK_ROWS + threadIdx.x % Down::BLOCK_ROWS;
    float own = 0.0f;
    if (token < TOKENS) own = bias[row];
    float y = shared.run(hidden, weight, [&] {
        if (token < TOKENS) own += queries[token * WIDTH + row];
    });
    if (token < TOKENS) sum[token * WIDTH + row] = y + own;
}

/// What the kernels behind a layer's MLP have in common.
struct FoldProblem {
    const float *sum, *norm_weight, *norm_bias, *tokens;
    const f16* key_weight;
    const float* key_bias;
    const f16* value_weight;
    const float* value_bias;
    const f16* query_weight;
    const float* query_bias;
    const f16* out_weight;
    float* queries;
    f16* keys;
    float* scores_bias;
    f16* values;
};
struct FoldShared {
    static constexpr int PITCH = SELF_DEPTH + 4;
    SplitTokens queries, moved;  // moved: queries + tokens
    HeadParts parts;
    alignas(16) float self[2][3][TOKENS][PITCH];  // halves of the columns; q, k, v
};

class Fold {
    Eight sum, weight, bias, token;
    int lane, warp;

    /// A warp has a token's columns.
    __device__ __forceinline__ void load(const FoldProblem& p) {
        lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
        weight.load(p.norm_weight + lane * 8), bias.load(p.norm_bias + lane * 8);
        token.load(p.tokens + warp * WIDTH + lane * 8);
    }
    /// The queries behind the norm, and these and the tokens, for all warps.
    __device__ __forceinline__ void normalize(const FoldProblem& p, FoldShared& shared) {
        dependent_wait();
        dependent_launch();
        sum.load(p.sum + warp * WIDTH + lane * 8);
        // The weights are to be on their way before anything waits for the sum.
        float zero = (float)zero_behind_barrier();
#pragma unroll
        for (int i = 0; i < 8; i++) sum.at[i] += zero;
        Eight y = normalized(sum, weight, bias);
        shared.queries.store(warp, lane, y);
        if (blockIdx.x == 0) y.store(p.queries + warp * WIDTH + lane * 8);
        y.add(token);
        shared.moved.store(warp, lane, y);
        block_barrier();
    }

public:
    /// K, s and V of a head of the image's attention to the tokens.
    __device__ __forceinline__ void write(const FoldProblem& p, int head, FoldShared& shared) {
        load(p);
        // Of each pair of warps one half of the columns; rows 0 to 7 and 8 to 15 of k, then of v.
        int half = warp & 1, tile = warp >> 1 & 1, part = lane & 3, row = head * DEPTH + tile * 8;
        bool of_values = warp >= WARPS / 2;
        WeightRows<4> rows;
        rows.load((of_values ? p.value_weight : p.key_weight) + row * WIDTH + half * (WIDTH / 2), WIDTH,
                  lane);
        float2 own = make_float2(0.0f, 0.0f);
        if (half == 0) own = ((const float2*)((of_values ? p.value_bias : p.key_bias) + row))[part];
        Folded keys;
        keys.load(p.query_weight, head, warp, lane);
        uint2 out[4];  // rows lane / 4 + 8 i of the warp's 32
#pragma unroll
        for (int i = 0; i < 4; i++)
            out[i] = ((const uint2*)(p.out_weight + (warp * 32 + i * 8 + (lane >> 2)) * INNER +
                                     head * DEPTH))[part];
        float4 b = ((const float4*)(p.query_bias + head * DEPTH))[part];
        normalize(p, shared);
        float2 y = rows.multiply(of_values ? shared.queries : shared.moved, lane, half * 4);
        *(float2*)&shared.parts.at[of_values * 2 + half][lane >> 2][tile * 8 + part * 2] =
            make_float2(y.x + own.x, y.y + own.y);
        block_barrier();
        float4 k = shared.parts.sum<2>(lane, 0), v = shared.parts.sum<2>(lane, 2);
        keys.store(p.keys, head, warp, lane, k);
        float s = sum_of_lanes<1, 4>((k.x * b.x + k.y * b.y) + (k.z * b.z + k.w * b.w));
        if (warp == 0 && part == 0) p.scores_bias[head * TOKENS + (lane >> 2)] = s;
        // Here tokens are B: a token's columns of V lie 128 bytes apart, a column's tokens side by
        // side.
        u32 high[2], rest[2];
        split(v.x, v.y, high[0], rest[0]), split(v.z, v.w, high[1], rest[1]);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float sums[4] = {};
            u32 a[4] = {out[i * 2].x, out[i * 2 + 1].x, out[i * 2].y, out[i * 2 + 1].y};
            multiply_add(sums, a, high[0], high[1]);
            multiply_add(sums, a, rest[0], rest[1]);
            u32* to = (u32*)(p.values + (warp * 32 + i * 16 + (lane >> 2)) * ROWS + head * TOKENS) + part;
            to[0] = to_f16x2(sums[0], sums[1]), to[8 * ROWS / 2] = to_f16x2(sums[2], sums[3]);
        }
    }

    /// A head of the tokens' attention to each other.
    __device__ __forceinline__ void attend(const FoldProblem& p, int head, const f16* self_weight,
                                           const float* self_bias, float* attended, FoldShared& shared) {
        load(p);
        int half = warp & 1, part = lane & 3, of = lane >> 2, row = head * SELF_DEPTH + (warp >> 1) * 8;
        WeightRows<4> rows[3];
        float2 own[3];
#pragma unroll
        for (int i = 0; i < 3; i++) {
            rows[i].load(self_weight + (i * WIDTH + row) * WIDTH + half * (WIDTH / 2), WIDTH, lane);
            own[i] = half ? make_float2(0.0f, 0.0f) : ((const float2*)(self_bias + i * WIDTH + row))[part];
        }
        normalize(p, shared);
#pragma unroll
        for (int i = 0; i < 3; i++) {
            float2 y = rows[i].multiply(i < 2 ? shared.moved : shared.queries, lane, half * 4);
            *(float2*)&shared.self[half][i][of][(warp >> 1) * 8 + part * 2] =
                make_float2(y.x + own[i].x, y.y + own[i].y);
        }
        block_barrier();
        // A warp has a token as query; a quad the token of its number as key, a quarter of the
        // columns each.
        float score = 0.0f;
        Eight q[2], k[2];
#pragma unroll
        for (int i = 0; i < 2; i++)
            q[i].load(&shared.self[i][0][warp][part * 8]), k[i].load(&shared.self[i][1][of][part * 8]);
        q[0].add(q[1]), k[0].add(k[1]);
#pragma unroll
        for (int i = 0; i < 8; i++) score += q[0].at[i] * k[0].at[i];
        score = sum_of_lanes<1, 4>(score);
        float top = most_of_lanes<4, 32>(score);
        float share = power_of_two((score - top) * LOG2E), total = sum_of_lanes<4, 32>(share);
        // The values of this lane's key, columns part, part + 4, ...: then summed over the keys,
        // each lane keeping one column.
        float sums[8];
#pragma unroll
        for (int i = 0; i < 8; i++)
            sums[i] = share * (shared.self[0][2][of][part + i * 4] + shared.self[1][2][of][part + i * 4]);
#pragma unroll
        for (int keep = 4; keep > 0; keep /= 2) {
            bool upper = lane & keep * 4;
#pragma unroll
            for (int i = 0; i < keep; i++) {
                float mine = upper ? sums[i + keep] : sums[i], other = upper ? sums[i] : sums[i + keep];
                sums[i] = mine + from_lane(other, keep * 4);
            }
        }
        attended[warp * WIDTH + head * SELF_DEPTH + lane] = sums[0] / total;
    }

    /// F of a head of the read that follows.
    __device__ __forceinline__ void read(const FoldProblem& p, int head, const f16* query_weight,
                                         const float* query_bias, const f16* key_weight, f16* folded,
                                         FoldShared& shared) {
        load(p);
        ReadFold fold;
        fold.load(query_weight, query_bias, key_weight, head);
        normalize(p, shared);
        fold.run(shared.moved, shared.parts, folded, head);
    }
};

struct TurnShared {
    static constexpr int PITCH = WIDTH + 4;
    SplitTokens x;  // what the heads attended, then queries + tokens
    alignas(16) float projected[TOKENS][PITCH];
    HeadParts parts;
};

struct TurnProblem {
    const float* attended;
    const f16* out_weight;  // [in, out]
    const float *out_bias, *queries, *norm_weight, *norm_bias, *tokens;
    const f16* query_weight;
    const float* query_bias;
    const f16* key_weight;
    float* out;
    f16* folded;
};

/// The second layer's queries behind their self-attention, and F of a head of its read.
__device__ __forceinline__ void turn(const TurnProblem& p, TurnShared& shared) {
    constexpr int GROUPS = WIDTH / QUAD_COLUMNS;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, head = blockIdx.x, part = lane & 3;
    // A warp has 32 columns of the projection: the 128 KB that a block reads of this weight are
    // most of its time.
    uint2 rows[GROUPS][2][4];
    const f16* from = p.out_weight + part * 8 * WIDTH + warp * QUAD_COLUMNS;
#pragma unroll
    for (int i = 0; i < GROUPS; i++)
#pragma unroll
        for (int k = 0; k < 8; k++)
            rows[i][k / 4][k % 4] = ((const uint2*)(from + (i * QUAD_COLUMNS + k) * WIDTH))[lane >> 2];
    // Of what comes behind it, a warp has a token.
    Eight bias, query, weight, shift, token;
    bias.load(p.out_bias + lane * 8), token.load(p.tokens + warp * WIDTH + lane * 8);
    weight.load(p.norm_weight + lane * 8), shift.load(p.norm_bias + lane * 8);
    ReadFold fold;
    fold.load(p.query_weight, p.query_bias, p.key_weight, head);
    dependent_wait();
    dependent_launch();
    Eight x;
    x.load(p.attended + warp * WIDTH + lane * 8), query.load(p.queries + warp * WIDTH + lane * 8);
    shared.x.store(warp, lane, x);
    block_barrier();
    float sums[4][4] = {};
#pragma unroll
    for (int i = 0; i < GROUPS; i++) {
        Fragment f = shared.x.load(lane, i);
        u32 first[4] = {f.high.x, f.rest.x, f.high.y, f.rest.y},
            last[4] = {f.high.z, f.rest.z, f.high.w, f.rest.w};
        multiply_turned(sums, first, rows[i][0]);
        multiply_turned(sums, last, rows[i][1]);
    }
    columns_of(sums).store(&shared.projected[lane >> 2][warp * QUAD_COLUMNS + part * 8]);
    block_barrier();
    x.load(&shared.projected[warp][lane * 8]);
    query.add(bias), query.add(x);
    Eight y = normalized(query, weight, shift);
    if (head == 0) y.store(p.out + warp * WIDTH + lane * 8);
    y.add(token);
    shared.x.store(warp, lane, y);
    block_barrier();
    fold.run(shared.x, shared.parts, p.folded, head);
}

// ---- instances ----

extern "C" __global__ void __launch_bounds__(TOKEN_THREADS, 1)
    mask_decoder_combine_splits(const float* sums, const float* parts, const float* value_bias,
                                const f16* out_weight, const float* out_bias, const float* queries,
                                const float* norm_weight, const float* norm_bias, float* out, int tiles) {
    __shared__ GatherShared shared;
    gather({sums, parts, value_bias, out_weight, out_bias, queries, norm_weight, norm_bias, out, tiles},
           shared);
}

extern "C" __global__ void __launch_bounds__(TOKEN_THREADS, 1)
    mask_decoder_token_mlp_up(const float* queries, const f16* weight, const float* bias, float* hidden) {
    __shared__ Up shared;
    expand(queries, weight, bias, hidden, shared);
}

extern "C" __global__ void __launch_bounds__(TOKEN_THREADS, 1)
    mask_decoder_token_mlp_down(const float* hidden, const f16* weight, const float* bias,
                                const float* queries, float* sum) {
    __shared__ Down shared;
    narrow(hidden, weight, bias, queries, sum, shared);
}

extern "C" __global__ void __launch_bounds__(TOKEN_THREADS, 1)
    mask_decoder_fold_self_attn(const float* sum, const float* norm_weight, const float* norm_bias,
                                const float* tokens, const f16* key_weight, const float* key_bias,
                                const f16* value_weight, const float* value_bias, const f16* query_weight,
                                const float* query_bias, const f16* out_weight, float* queries, f16* keys,
                                float* scores_bias, f16* values, const f16* self_weight,
                                const float* self_bias, float* attended) {
    __shared__ FoldShared shared;
    const FoldProblem p = {sum,        norm_weight,  norm_bias,  tokens,       key_weight,
                           key_bias,   value_weight, value_bias, query_weight, query_bias,
                           out_weight, queries,      keys,       scores_bias,  values};
    if (blockIdx.x < HEADS) Fold().write(p, blockIdx.x, shared);
    else Fold().attend(p, blockIdx.x - HEADS, self_weight, self_bias, attended, shared);
}

extern "C" __global__ void __launch_bounds__(TOKEN_THREADS, 1)
    mask_decoder_fold_token_to_image(const float* sum, const float* norm_weight, const float* norm_bias,
                                     const float* tokens, const f16* key_weight, const float* key_bias,
                                     const f16* value_weight, const float* value_bias,
                                     const f16* query_weight, const float* query_bias, const f16* out_weight,
                                     float* queries, f16* keys, float* scores_bias, f16* values,
                                     const f16* read_query_weight, const float* read_query_bias,
                                     const f16* read_key_weight, f16* folded) {
    __shared__ FoldShared shared;
    const FoldProblem p = {sum,        norm_weight,  norm_bias,  tokens,       key_weight,
                           key_bias,   value_weight, value_bias, query_weight, query_bias,
                           out_weight, queries,      keys,       scores_bias,  values};
    if (blockIdx.x < HEADS) Fold().write(p, blockIdx.x, shared);
    else
        Fold().read(p, blockIdx.x - HEADS, read_query_weight, read_query_bias, read_key_weight, folded,
                    shared);
}

extern "C" __global__ void __launch_bounds__(TOKEN_THREADS, 1)
    mask_decoder_token_self_attn(const float* attended, const f16* out_weight, const float* out_bias,
                                 const float* queries, const float* norm_weight, const float* norm_bias,
                                 const float* tokens, const f16* query_weight, const float* query_bias,
                                 const f16* key_weight, float* out, f16* folded) {
    __shared__ TurnShared shared;
    turn({attended, out_weight, out_bias, queries, norm_weight, norm_bias, tokens, query_weight, query_bias,
          key_weight, out, folded},
         shared);
}
