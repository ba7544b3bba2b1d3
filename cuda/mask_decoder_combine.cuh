/*!
mask_decoder_combine_splits (mask_decoder_tokens.cu): merges the tiles' softmax statistics and
partial results of the tokens' attention to the image, projects them and normalizes the sum.

Include mask_decoder_tokens.cuh first.
*/
#pragma once

// ---- combine ----

struct GatherProblem {
    const float *sums, *parts, *value_bias;
    const f16* out_weight;  // [in, out]
    const float *out_bias, *queries, *norm_weight, *norm_bias;
    float* out;
    int tiles;
};
struct GatherShared {
    alignas(16) float read[HEADS][DEPTH];
    alignas(16) float projected[HEADS][WIDTH];
};

/// A token's queries after its attention to the image. A warp has a head: its partial results of all
/// tiles, and its rows of the output projection.
__device__ __forceinline__ void gather(const GatherProblem& p, GatherShared& shared) {
    constexpr int AT_ONCE = 16, QUADS = 8;
    int lane = threadIdx.x & 31, head = threadIdx.x >> 5, token = blockIdx.x, part = lane & 3;
    float2 stats[AT_ONCE];
    float4 values[AT_ONCE];
    // Columns 4 part and the next ones of the tiles `first` + lane / 4, eight more, ...
    auto load = [&](int first) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int tile = first + i * QUADS + (lane >> 2);
            stats[i] = make_float2(NOTHING, 0.0f), values[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (tile < p.tiles) {
                stats[i] = ((const float2*)p.sums)[tile * ROWS + head * TOKENS + token];
                values[i] = ((const float4*)(p.parts + (tile * TOKENS + token) * INNER + head * DEPTH))[part];
            }
        }
    };
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
    load(0);
    if (head == 0) x.load(p.queries + token * WIDTH + lane * 8);
    float top = NOTHING, total = 0.0f;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
    for (int next = AT_ONCE * QUADS;; next += AT_ONCE * QUADS) {
        float before = top;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) top = fmaxf(top, stats[i].x);
        top = most_of_lanes<4, 32>(top);
        float kept = power_of_two((before - top) * LOG2E);
        total *= kept, sum.x *= kept, sum.y *= kept, sum.z *= kept, sum.w *= kept;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            float scale = power_of_two((stats[i].x - top) * LOG2E);
            total += stats[i].y * scale;
            add_scaled(sum, values[i], scale);
        }
        if (next >= p.tiles) break;
        load(next);
    }
#pragma unroll
    for (int mask = 4; mask < 32; mask *= 2) {
        total += from_lane(total, mask);
        sum.x += from_lane(sum.x, mask), sum.y += from_lane(sum.y, mask), sum.z += from_lane(sum.z, mask),
            sum.w += from_lane(sum.w, mask);
    }
    float share = 1.0f / total;
    if (lane < 4)
        ((float4*)shared.read[head])[lane] = make_float4(sum.x * share + bias.x, sum.y * share + bias.y,
                                                         sum.z * share + bias.z, sum.w * share + bias.w);
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
