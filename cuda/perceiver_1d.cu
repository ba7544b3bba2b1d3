/*!
EdgeTAM's 256 latents that see the whole memory, for any GPU from sm 80 on: a layer of its perceiver
is three launches.

256 latents, T memory tokens; sm 80 on. Weights of a thread are one stage.

| kernel                  | N, K of 256 rows                  | tile      | threads | shared bytes |
|-------------------------|-----------------------------------|-----------|---------|--------------|
| perceiver_1d_cross_attn | T, 64; 64, T                      | 64 x 128  | 256     | 49 152       |
| perceiver_1d_mlp        | 64, 64; 256, 64; 64, 256; 192, 64 | 8 latents | 512     | 15 872       |
| perceiver_1d_self_attn  | attention 256, 64; then as above  | 8 latents | 512     | 48 640       |

  - perceiver_1d_cross_attn: of each split of 128 tokens the largest score m of every latent, the
    sum of exp(score - m), and the sum of exp(score - m) v, with n = norm(memory), k = Wk n +
    position, v = Wv n + position, score = query . k.
  - perceiver_1d_mlp: the splits merged, the projection, the feed-forward layer, and the q, k and v
    of the latents' attention to each other.
  - perceiver_1d_self_attn: that attention, its projection, the feed-forward layer behind it, and
    the next layer's queries, or the last norm.

Everything is 64 wide, hidden layers 256; f16 between kernels, the latents themselves and the parts
of splits f32. Columns that are summed over are multiplied in the order in which a lane finds eight
of them side by side, the same on both sides: fragments come as 16 bytes of a row, from shared
memory or straight from memory.

perceiver_1d_cross_attn: a block has a split and 64 latents, 256 threads. A warp makes k and v of 16
tokens, which its lanes have as the left factor, then has 16 latents and half of the tokens; two
warps add what they have. k and v are made by each of the four blocks of a split, half of a block's
4 MFLOP; but with one block for all latents a fourth of the multiprocessors would work. A block
reads 56 KB, and writes 16.

perceiver_1d_mlp, perceiver_1d_self_attn: a block has eight latents, which are the right factor, and
512 threads. So every weight, key and partial result is read once a block, by the one lane that
multiplies by it, into registers, and all but the weights of q, k and v is asked for before anything
is used. At 1024 pixels a block of perceiver_1d_mlp reads 64 KB of parts and 96 of weights, one of
perceiver_1d_self_attn 64 of keys and values and 72 or 80 of weights. With sixteen latents
perceiver_1d_mlp would read 224 KB, with four 128, but half of each product would be nothing, and
GPUs of few multiprocessors would read all weights twice as often.

Grids: perceiver_1d_cross_attn `x` = 4 tiles of 64 latents, `y` = splits; the others `x` = 32 tiles
of eight latents.
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"
#include "perceiver_1d.cuh"
#include "perceiver_1d_latents.cuh"

// ---- attention ----

struct MixProblem {
    const float *sums, *parts;                           // [splits, 256, 2], [splits, 256, 64]
    int splits;
    const float* latents;                                // [256, 64]
    const f16* out;                                      // [64, 64]
    const float *ff_norm_weight, *ff_norm_bias;          // [64]
    const f16 *ff_up, *ff_down;                          // [256, 64], [64, 256]
    const float *self_norm_weight, *self_norm_bias;      // [64]
    const f16* self_qkv;                                 // [192, 64]
    float* mixed;                                        // [256, 64]
    f16* qkv;                                            // [256, 192]
};

/// A block of perceiver_1d_mlp. Each four warps merge every fourth split.
__device__ __forceinline__ void mix(const MixProblem& p, u32 shared) {
    Few of(shared);
    Behind behind;
    float2 stats[AT_ONCE];
    float4 values[AT_ONCE];
    int group = of.warp >> 2;
    auto load = [&](int first) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int split = first + i * GROUPS + group, line = split * LATENTS + of.first + of.own;
            stats[i] = make_float2(NOTHING, 0.0f), values[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (split >= p.splits) continue;
            stats[i] = __ldcg((const float2*)p.sums + line),
            values[i] = __ldcg((const float4*)(p.parts + line * WIDTH) + of.column);
        }
    };
    of.fetch_norms(p.ff_norm_weight, p.ff_norm_bias, p.self_norm_weight, p.self_norm_bias);
    copies_commit();
    behind.load(of, p.out, p.ff_up, p.ff_down);
    dependent_wait();
    dependent_launch();
    load(0);
    behind.load_latents(of, p.latents);
    // All of it is to be on its way before anything waits for the first.
    float top = NOTHING + (float)(u32)zero_behind_barrier(), total = 0.0f;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
    for (int next = AT_ONCE * GROUPS;; next += AT_ONCE * GROUPS) {
        float before = top;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) top = fmaxf(top, stats[i].x);
        float kept = share_of(before, top);
        total *= kept, sum.x *= kept, sum.y *= kept, sum.z *= kept, sum.w *= kept;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            float scale = share_of(stats[i].x, top);
            total += stats[i].y * scale;
            add_scaled(sum, values[i], scale);
        }
        if (next >= p.splits) break;
        load(next);
    }
    // Registers are free now: what is needed last comes while the rest is done.
    WeightRows<2> rows;
    if (of.warp < QKV / 16) rows.load(p.self_qkv + of.warp * 16 * WIDTH, WIDTH, of.group, of.part);
    store_shared_floats(of.sums_at(group, of.own, of.column * 4), sum);
    if (of.column == 0)
        store_shared_pair(shared + STATS + (group * FEW + of.own) * 8, make_float2(top, total));
    copies_wait<0>();
    block_barrier();
    if (of.warp < FEW) {
        float scales[GROUPS], all = 0.0f;
        float2 each[GROUPS];
        top = NOTHING;
#pragma unroll
        for (int i = 0; i < GROUPS; i++)
            each[i] = load_shared_pair(shared + STATS + (i * FEW + of.warp) * 8), top = fmaxf(top, each[i].x);
#pragma unroll
        for (int i = 0; i < GROUPS; i++) scales[i] = share_of(each[i].x, top), all += scales[i] * each[i].y;
#pragma unroll
        for (int i = 0; i < GROUPS; i++) scales[i] *= reciprocal(all);
        of.merge(scales);
    }
    uint2 normed = behind.run(of, p.mixed);
    if (group == 0) of.store_narrow(normed);
    block_barrier();
    if (of.warp < QKV / 16) of.store(p.qkv, QKV, rows);
}

struct SelfProblem {
    const f16* qkv;                                      // [256, 192]
    const float* mixed;                                  // [256, 64]
    const f16* out;                                      // [64, 64]
    const float *ff_norm_weight, *ff_norm_bias;          // [64]
    const f16 *ff_up, *ff_down;                          // [256, 64], [64, 256]
    const float *next_norm_weight, *next_norm_bias;      // [64]
    const f16* next_query;                               // [64, 64]; null behind the last layer
    float* latents;                                      // [256, 64]
    f16* result;                                         // [256, 64]
};

/// A block of perceiver_1d_self_attn. A warp has 16 keys, then 16 columns of the values of a
/// quarter of the keys.
__device__ __forceinline__ void self(const SelfProblem& p, u32 shared) {
    Few of(shared);
    Behind behind;
    WeightRows<2> keys, rows;
    u32 queries[2][4];
    behind.load(of, p.out, p.ff_up, p.ff_down);
    bool another = p.next_query, last = of.warp < WIDTH / 16;
    if (another && last) rows.load(p.next_query + of.warp * 16 * WIDTH, WIDTH, of.group, of.part);
    of.fetch_norms(p.ff_norm_weight, p.ff_norm_bias, p.next_norm_weight, p.next_norm_bias);
    dependent_wait();
    dependent_launch();
    keys.load(p.qkv + of.warp * 16 * QKV + WIDTH, QKV, of.group, of.part);
#pragma unroll
    for (int step = 0; step < 2; step++)
        load_line(queries[step], p.qkv + (of.first + of.group) * QKV + step * 32 + of.part * 8);
    // In an order of rows in which those of a fragment are in eight places.
    int row = threadIdx.x >> 3, unit = threadIdx.x & 7;
    u32 to = shared + SELF_VALUES + row * 128 + ((u32)(unit * 16) ^ turned((row >> 2 & 6) | (row & 1)));
#pragma unroll
    for (int i = 0; i < LATENTS; i += FEW_THREADS / 8)
        copy16(to + i * 128, p.qkv + (i + row) * QKV + 2 * WIDTH + unit * 8, true);
    copies_commit();
    behind.load_latents(of, p.mixed);
    u32 zero = zero_behind_barrier();  // all of it is to be on its way before anything waits for the first

    // Of latents 2 part and the next: scores of keys 2 group and the next of the warp's.
    float c[4];
    of.multiply(c, keys, [&](u32(&b)[4], int step) {
#pragma unroll
        for (int i = 0; i < 4; i++) b[i] = queries[step][i] ^ zero;
    });
    u32 maxima = shared + STATS + of.part * 8, totals = shared + TOTALS + of.part * 8;
    float tops[2], sums[2];
#pragma unroll
    for (int i = 0; i < 2; i++) tops[i] = most_of_lanes<4, 32>(fmaxf(c[i], c[2 + i]));
    if (of.group == 0) store_shared_pair(maxima + of.warp * FEW * 4, make_float2(tops[0], tops[1]));
    block_barrier();
#pragma unroll
    for (int i = 0; i < FEW_THREADS / 32; i++) {
        float2 top = load_shared_pair(maxima + i * FEW * 4);
        tops[0] = fmaxf(tops[0], top.x), tops[1] = fmaxf(tops[1], top.y);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        c[i] = share_of(c[i], tops[i]), c[2 + i] = share_of(c[2 + i], tops[i]);
        sums[i] = sum_of_lanes<4, 32>(c[i] + c[2 + i]);
    }
    of.store_wide(c);
    if (of.group == 0) store_shared_pair(totals + of.warp * FEW * 4, make_float2(sums[0], sums[1]));
    copies_wait<0>();
    block_barrier();  // weights and values are there

    float products[2][4] = {};
    int tile = of.warp & 3, quarter = of.warp >> 2, r = of.lane & 7, i = of.lane >> 3;
    // This lane's row of values for ldmatrix: k goes over the keys as the weights' units do.
    u32 from = shared + SELF_VALUES + (quarter * 64 + (r >> 1) * 8 + (i >> 1) * 2 + (r & 1)) * 128 +
               (((u32)(tile * 2 + (i & 1)) * 16) ^ turned(r));
#pragma unroll
    for (int step = 0; step < 2; step++) {
        u32 b[4];
        load_shared(b, shared + WIDE + unit_at<HIDDEN * 2>(of.group, (quarter * 2 + step) * 4 + of.part));
#pragma unroll
        for (int half = 0; half < 2; half++) {
            u32 a[4];
            load_matrices_transposed(a, from + (step * 32 + half * 4) * 128);
            multiply_add(products[half], a, b[half * 2], b[half * 2 + 1]);
        }
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
        store_shared_float(of.sums_at(quarter, of.part * 2 + (k & 1), tile * 16 + (k >> 1) * 8 + of.group),
                           products[0][k] + products[1][k]);
    block_barrier();
    if (of.warp < FEW) {
        float total = 0.0f, scales[GROUPS];
#pragma unroll
        for (int k = 0; k < FEW_THREADS / 32; k++)
            total += load_shared_float(shared + TOTALS + (k * FEW + of.warp) * 4);
        scales[0] = scales[1] = scales[2] = scales[3] = reciprocal(total);
        of.merge(scales);
    }
    uint2 normed = behind.run(of, p.latents);
    if (!another) {
        if (last) *(uint2*)(p.result + (of.first + of.own) * WIDTH + of.column * 4) = normed;
        return;
    }
    if (last) of.store_narrow(normed);
    block_barrier();
    if (last) of.store(p.result, WIDTH, rows);
}

// ---- instances ----

extern "C" __global__ void __launch_bounds__(ATTEND_THREADS, 1)
    perceiver_1d_cross_attn(const f16* memory, const float* norm_weight, const float* norm_bias,
                            const f16* kv, const f16* positions, const f16* queries, float* sums,
                            float* parts, int tokens) {
    __shared__ __align__(1024) unsigned char shared[ATTEND_BYTES];
    Attend().run(AttendProblem{memory, norm_weight, norm_bias, kv, positions, queries, sums, parts, tokens},
                 shared_address(shared));
}

extern "C" __global__ void __launch_bounds__(FEW_THREADS, 1)
    perceiver_1d_mlp(const float* sums, const float* parts, int splits, const float* latents, const f16* out,
                     const float* ff_norm_weight, const float* ff_norm_bias, const f16* ff_up,
                     const f16* ff_down, const float* self_norm_weight, const float* self_norm_bias,
                     const f16* self_qkv, float* mixed, f16* qkv) {
    __shared__ __align__(1024) unsigned char shared[MIX_BYTES];
    mix(MixProblem{sums, parts, splits, latents, out, ff_norm_weight, ff_norm_bias, ff_up, ff_down,
                   self_norm_weight, self_norm_bias, self_qkv, mixed, qkv},
        shared_address(shared));
}

extern "C" __global__ void __launch_bounds__(FEW_THREADS, 1)
    perceiver_1d_self_attn(const f16* qkv, const float* mixed, const f16* out, const float* ff_norm_weight,
                           const float* ff_norm_bias, const f16* ff_up, const f16* ff_down,
                           const float* next_norm_weight, const float* next_norm_bias, const f16* next_query,
                           float* latents, f16* result) {
    __shared__ __align__(1024) unsigned char shared[SELF_BYTES];
    self(SelfProblem{qkv, mixed, out, ff_norm_weight, ff_norm_bias, ff_up, ff_down, next_norm_weight,
                     next_norm_bias, next_query, latents, result},
         shared_address(shared));
}
