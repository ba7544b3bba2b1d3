/*!
What the tokens read from the image: the tiles' softmax statistics and partial results are merged, the
heads are projected, and the sum with the queries is normalized (mask_decoder_tokens.cu). Either
mask_decoder_combine_splits does all of it, a block a token; or mask_decoder_join_splits merges, a
warp a head and token, and the kernel behind it projects and normalizes.

Include mask_decoder_tokens.cuh first.
*/
#pragma once

// ---- combine ----

/// Columns 4 (lane % 4) and the next ones of a head of a token, without the bias of the values: a warp
/// merges the partial results of all tiles. It waits for the previous kernel in front of this;
/// `behind` is done while the first of them come.
template <int AT_ONCE, class Behind>
__device__ __forceinline__ float4 merged(const float* sums, const float* parts, int tiles, int head,
                                         int token, int lane, Behind behind) {
    constexpr int QUADS = 8;
    int part = lane & 3;
    float2 stats[AT_ONCE];
    float4 values[AT_ONCE];
    // Of the tiles `first` + lane / 4, eight more, ...
    auto load = [&](int first) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int tile = first + i * QUADS + (lane >> 2);
            stats[i] = make_float2(NOTHING, 0.0f), values[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (tile < tiles) {
                stats[i] = ((const float2*)sums)[tile * ROWS + head * TOKENS + token];
                values[i] = ((const float4*)(parts + (tile * TOKENS + token) * INNER + head * DEPTH))[part];
            }
        }
    };
    load(0);
    behind();
    float top = NOTHING, total = 0.0f;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
    for (int next = AT_ONCE * QUADS;; next += AT_ONCE * QUADS) {
        float before = top;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) top = fmaxf(top, stats[i].x);
#pragma unroll
        for (int mask = 4; mask < 32; mask *= 2) top = fmaxf(top, from_lane(top, mask));
        float kept = power_of_two((before - top) * LOG2E);
        total *= kept, sum.x *= kept, sum.y *= kept, sum.z *= kept, sum.w *= kept;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            float scale = power_of_two((stats[i].x - top) * LOG2E);
            total += stats[i].y * scale;
            sum.x += values[i].x * scale, sum.y += values[i].y * scale, sum.z += values[i].z * scale,
                sum.w += values[i].w * scale;
        }
        if (next >= tiles) break;
        load(next);
    }
#pragma unroll
    for (int mask = 4; mask < 32; mask *= 2) {
        total += from_lane(total, mask);
        sum.x += from_lane(sum.x, mask), sum.y += from_lane(sum.y, mask), sum.z += from_lane(sum.z, mask),
            sum.w += from_lane(sum.w, mask);
    }
    float share = 1.0f / total;
    return make_float4(sum.x * share, sum.y * share, sum.z * share, sum.w * share);
}

struct GatherProblem {
    const float *sums, *parts, *value_bias;
    const f16* out_weight;  // [in, out]
    const float *out_bias, *queries, *norm_weight, *norm_bias;
    float* out;
    int tiles;
    int ahead;
};
struct GatherShared {
    alignas(16) float read[HEADS][DEPTH];
    alignas(16) float projected[HEADS][WIDTH];
};

/// A token's queries after its attention to the image. A warp has a head: its partial results of all
/// tiles, and its rows of the output projection.
__device__ __forceinline__ void gather(const GatherProblem& p, GatherShared& shared) {
    int lane = threadIdx.x & 31, head = threadIdx.x >> 5, token = blockIdx.x, part = lane & 3;
    if (p.ahead) dependent_launch();
    uint4 rows[DEPTH];
#pragma unroll
    for (int i = 0; i < DEPTH; i++)
        rows[i] = ((const uint4*)(p.out_weight + (head * DEPTH + i) * WIDTH))[lane];
    float4 bias = ((const float4*)(p.value_bias + head * DEPTH))[part];
    // Only the first warp continues after the barrier: five shuffles take less time than more
    // barriers.
    Eight x = {}, out_bias = {}, weight = {}, shift = {};
    if (head == 0) {
        out_bias.load(p.out_bias + lane * 8);
        weight.load(p.norm_weight + lane * 8), shift.load(p.norm_bias + lane * 8);
    }
    dependent_wait();
    dependent_launch();
    float4 sum = merged<16>(p.sums, p.parts, p.tiles, head, token, lane, [&] {
        if (head == 0) x.load(p.queries + token * WIDTH + lane * 8);
    });
    if (lane < 4)
        ((float4*)shared.read[head])[lane] =
            make_float4(sum.x + bias.x, sum.y + bias.y, sum.z + bias.z, sum.w + bias.w);
    warp_barrier();
    Eight y = {};
#pragma unroll
    for (int i = 0; i < DEPTH; i++) {
        float read = shared.read[head][i];
        const u32 words[4] = {rows[i].x, rows[i].y, rows[i].z, rows[i].w};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float2 w = to_float2(words[k]);
            y.at[k * 2] += read * w.x, y.at[k * 2 + 1] += read * w.y;
        }
    }
    // Units of 16 bytes, the lower ones of all lanes first: no two lanes meet in a bank.
    float4* to = (float4*)shared.projected[head];
    to[lane] = make_float4(y.at[0], y.at[1], y.at[2], y.at[3]),
    to[32 + lane] = make_float4(y.at[4], y.at[5], y.at[6], y.at[7]);
    block_barrier();
    if (head) return;
    x.add(out_bias);
#pragma unroll
    for (int i = 0; i < HEADS; i++) {
        float4 a = ((const float4*)shared.projected[i])[lane],
               b = ((const float4*)shared.projected[i])[32 + lane];
        x.add({a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w});
    }
    normalized(x, weight, shift).store(p.out + token * WIDTH + lane * 8);
}

struct JoinProblem {
    const float *sums, *parts, *value_bias;
    float* read;  // [8, 128]: a token's heads side by side
    int tiles;
    int ahead;
};

/// A head of a token's attention to the image, by a block of one warp.
__device__ __forceinline__ void join(const JoinProblem& p) {
    int lane = threadIdx.x & 31, head = blockIdx.x % HEADS, token = blockIdx.x / HEADS, part = lane & 3;
    if (p.ahead) dependent_launch();
    float4 bias = ((const float4*)(p.value_bias + head * DEPTH))[part];
    dependent_wait();
    dependent_launch();
    float4 sum = merged<8>(p.sums, p.parts, p.tiles, head, token, lane, [] {});
    if (lane < 4)
        ((float4*)(p.read + token * INNER + head * DEPTH))[lane] =
            make_float4(sum.x + bias.x, sum.y + bias.y, sum.z + bias.z, sum.w + bias.w);
}

/// What projects the heads of all tokens and normalizes the sums with the queries.
struct ProjectProblem {
    const float* read;
    const f16* out_weight;  // [in, out]
    const float *out_bias, *queries, *norm_weight, *norm_bias;
};
struct ProjectShared {
    static constexpr int PITCH = WIDTH + 4;
    SplitTokens x;  // what was read; behind `run` nobody needs it
    alignas(16) float projected[TOKENS][PITCH];
};

/// A warp has 32 columns of the projection, and a token of the norm.
class Project {
    static constexpr int GROUPS = INNER / QUAD_COLUMNS;
    uint2 rows[GROUPS][2][4];
    Eight bias, weight, shift;

public:
    /// Asks for the weights.
    __device__ __forceinline__ void load(const ProjectProblem& p, int lane, int warp) {
        const f16* from = p.out_weight + (lane & 3) * 8 * WIDTH + warp * QUAD_COLUMNS;
#pragma unroll
        for (int i = 0; i < GROUPS; i++)
#pragma unroll
            for (int k = 0; k < 8; k++)
                rows[i][k / 4][k % 4] = ((const uint2*)(from + (i * QUAD_COLUMNS + k) * WIDTH))[lane >> 2];
        bias.load(p.out_bias + lane * 8);
        weight.load(p.norm_weight + lane * 8), shift.load(p.norm_bias + lane * 8);
    }
    /// The normalized queries, of token `warp`: columns 8 lane and the next ones. It waits for the
    /// previous kernel.
    __device__ __forceinline__ Eight run(const ProjectProblem& p, ProjectShared& shared, int lane, int warp) {
        dependent_wait();
        dependent_launch();
        Eight x = {}, query;
        if (lane < INNER / 8) x.load(p.read + warp * INNER + lane * 8);
        query.load(p.queries + warp * WIDTH + lane * 8);
        if (lane < INNER / 8) shared.x.store(warp, lane, x);
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
        columns_of(sums).store(&shared.projected[lane >> 2][warp * QUAD_COLUMNS + (lane & 3) * 8]);
        block_barrier();
        Eight own;
        own.load(&shared.projected[warp][lane * 8]);
        query.add(bias), query.add(own);
        return normalized(query, weight, shift);
    }
};

struct ProjectUpShared {
    ProjectShared project;
    Up up;
};
/// The MLP's hidden layer of queries that each block projects and normalizes itself; the first block
/// stores them in `out`.
__device__ __forceinline__ void project_and_expand(const ProjectProblem& p, float* out, const f16* weight,
                                                   const float* bias, f16* hidden, int ahead,
                                                   ProjectUpShared& shared) {
    if (ahead) dependent_launch();
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, token = threadIdx.x / Up::BLOCK_ROWS,
        row = Up::first_row() + threadIdx.x % Up::BLOCK_ROWS;
    Project project;
    project.load(p, lane, warp);
    WeightRows<1> rows[Up::BLOCK_ROWS / 8];
#pragma unroll
    for (int t = 0; t < Up::BLOCK_ROWS / 8; t++)
        rows[t].load(weight + (Up::first_row() + t * 8) * WIDTH + warp * QUAD_COLUMNS, WIDTH, lane);
    float own = bias[row];
    Eight query = project.run(p, shared.project, lane, warp);
    if (blockIdx.x == 0) query.store(out + warp * WIDTH + lane * 8);
    shared.project.x.store(warp, lane, query);
    block_barrier();
    Fragment f = shared.project.x.load(lane, warp);
    float all[Up::BLOCK_ROWS / 8][2][4] = {};
#pragma unroll
    for (int t = 0; t < Up::BLOCK_ROWS / 8; t++) f.multiply(all[t], rows[t].at[0]);
    float y = shared.up.finish(all) + own;
    HiddenTokens{hidden}.store(token, row, y < 0.0f ? 0.0f : y);
}
