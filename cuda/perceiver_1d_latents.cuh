/*!
A block of eight latents after an attention: output projection, feed-forward layer and norms.
perceiver_1d_mlp and perceiver_1d_self_attn (perceiver_1d.cu) share it.

Include perceiver_1d.cuh first.
*/
#pragma once

// ---- latents ----

constexpr int FEW = 8;               // latents of a block
constexpr int FEW_THREADS = 512;
// Of splits, or of columns that are summed over: each has sums of its own.
constexpr int GROUPS = 4;
// Of these sums, in floats: eight rows of two latents are in different banks.
constexpr int PITCH = WIDTH + 4;
constexpr int AT_ONCE = 8;           // splits of a group

// Shared memory.
constexpr u32 NARROW = 0;                                   // a row of 64 halves of each latent
constexpr u32 WIDE = NARROW + FEW * WIDTH * 2;              // a row of 256
constexpr u32 SUMS = WIDE + FEW * HIDDEN * 2;               // [groups, latents] rows of PITCH floats
constexpr u32 STATS = SUMS + GROUPS * FEW * PITCH * 4;      // of groups of splits, or the warps' maxima
constexpr u32 TOTALS = STATS + 16 * FEW * 4;                // the warps' sums of weights
constexpr u32 NORMS = TOTALS + 16 * FEW * 4;                // weight and bias of two norms
constexpr u32 MIX_BYTES = NORMS + 4 * WIDTH * 4;
constexpr u32 SELF_VALUES = MIX_BYTES;                      // v of all latents
constexpr u32 SELF_BYTES = SELF_VALUES + LATENTS * 128;

/// 16 rows of a weight, or of keys, and 32 STEPS of their columns: of each step this lane has a
/// unit of rows 2 group and the next, as left factor.
template <int STEPS>
struct WeightRows {
    u32 at[STEPS][2][4];
    __device__ __forceinline__ void load(const f16* first, int pitch, int group, int part) {
#pragma unroll
        for (int step = 0; step < STEPS; step++)
#pragma unroll
            for (int r = 0; r < 2; r++)
                load_line(at[step][r], first + (2 * group + r) * pitch + step * 32 + part * 8);
    }
};

/// A block's latents, and the steps that follow both attentions.
class Few {
public:
    // `own`: latent whose columns 4 column to 4 column + 3 this lane of the first four warps has.
    int warp, lane, group, part, first, own;
    int column;
    u32 shared;

    __device__ __forceinline__ Few(u32 shared) : shared(shared) {
        warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = lane >> 2, part = lane & 3,
        first = blockIdx.x * FEW;
        own = (warp & 3) * 2 + (lane >> 4), column = lane & 15;
    }

    /// Starts the copies of two norms' weights and biases.
    __device__ __forceinline__ void fetch_norms(const float* weight, const float* bias,
                                                const float* next_weight, const float* next_bias) const {
        int of = threadIdx.x >> 4, unit = threadIdx.x & 15;
        const float* from = of == 0 ? weight : of == 1 ? bias : of == 2 ? next_weight : next_bias;
        if (of < 4) copy16(shared + NORMS + threadIdx.x * 16, from + unit * 4, true);
    }

    /// Rows by the latents' columns, in two sums that do not wait for each other. `right` gives a
    /// step's unit of latent `group`.
    template <int STEPS, class Right>
    __device__ __forceinline__ static void multiply(float (&c)[4], const WeightRows<STEPS>& rows,
                                                    Right right) {
        float sums[2][4] = {};
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            u32 b[4];
            right(b, step);
#pragma unroll
            for (int half = 0; half < 2; half++)
                multiply_step(sums[half], rows.at[step][0], rows.at[step][1], b, half);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) c[i] = sums[0][i] + sums[1][i];
    }
    template <int STEPS>
    __device__ __forceinline__ void multiply_narrow(float (&c)[4], const WeightRows<STEPS>& rows,
                                                    int step) const {
        multiply(c, rows, [&](u32(&b)[4], int i) {
            load_shared(b, shared + NARROW + unit_at<WIDTH * 2>(group, (step + i) * 4 + part));
        });
    }
    template <int STEPS>
    __device__ __forceinline__ void multiply_wide(float (&c)[4], const WeightRows<STEPS>& rows,
                                                  int step) const {
        multiply(c, rows, [&](u32(&b)[4], int i) {
            load_shared(b, shared + WIDE + unit_at<HIDDEN * 2>(group, (step + i) * 4 + part));
        });
    }
    /// Columns 16 warp + 2 group and the next of the latents 2 part and the next, as halves.
    __device__ __forceinline__ void store_wide(const float (&x)[4]) const {
        u32 to = shared + WIDE + (group & 3) * 4;
        int unit = warp * 2 + (group >> 2);
        store_shared_word(to + unit_at<HIDDEN * 2>(part * 2, unit), to_f16x2(x[0], x[2]));
        store_shared_word(to + unit_at<HIDDEN * 2>(part * 2 + 1, unit), to_f16x2(x[1], x[3]));
    }
    __device__ __forceinline__ u32 sums_at(int of, int latent, int from) const {
        return shared + SUMS + (u32)((of * FEW + latent) * PITCH + from) * 4;
    }
    /// Columns 2 group and the next of 16, of the latents 2 part and the next.
    __device__ __forceinline__ void store_sums(int of, int from, const float (&x)[4]) const {
        store_shared_pair(sums_at(of, part * 2, from + group * 2), make_float2(x[0], x[2]));
        store_shared_pair(sums_at(of, part * 2 + 1, from + group * 2), make_float2(x[1], x[3]));
    }
    /// A latent of each of the first eight warps: its sums of all groups, each by its scale, as a
    /// row of halves.
    __device__ __forceinline__ void merge(const float (&scales)[GROUPS]) const {
        float2 x = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int i = 0; i < GROUPS; i++) {
            float2 more = load_shared_pair(sums_at(i, warp, lane * 2));
            x.x += more.x * scales[i], x.y += more.y * scales[i];
        }
        store_shared_word(shared + NARROW + unit_at<WIDTH * 2>(warp, lane >> 2) + (lane & 3) * 4,
                          to_f16x2(x.x, x.y));
    }
    template <int COUNT>
    __device__ __forceinline__ void add_sums(float4& x) const {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            float4 more = load_shared_floats(sums_at(i, own, column * 4));
            x.x += more.x, x.y += more.y, x.z += more.z, x.w += more.w;
        }
    }
    /// The norm of `own`, of which 16 lanes have all columns: two words of halves.
    __device__ __forceinline__ uint2 normalized(float4 x, int norm) const {
        float mean = sum_of_lanes<1, 16>((x.x + x.y) + (x.z + x.w)) * (1.0f / WIDTH);
        x.x -= mean, x.y -= mean, x.z -= mean, x.w -= mean;
        float scale = reciprocal_root(sum_of_lanes<1, 16>((x.x * x.x + x.y * x.y) + (x.z * x.z + x.w * x.w)) *
                                          (1.0f / WIDTH) +
                                      NORM_EPSILON);
        u32 at = shared + NORMS + norm * 2 * WIDTH * 4 + column * 16;
        float4 weight = load_shared_floats(at), bias = load_shared_floats(at + WIDTH * 4);
        return make_uint2(to_f16x2(fmaf(x.x * scale, weight.x, bias.x), fmaf(x.y * scale, weight.y, bias.y)),
                          to_f16x2(fmaf(x.z * scale, weight.z, bias.z), fmaf(x.w * scale, weight.w, bias.w)));
    }
    __device__ __forceinline__ void store_narrow(uint2 x) const {
        store_shared_halves(shared + NARROW + unit_at<WIDTH * 2>(own, column >> 1) + (column & 1) * 8, x);
    }
    /// The warp's 16 columns of a result behind `rows`, of all latents.
    __device__ __forceinline__ void store(f16* result, int pitch, const WeightRows<2>& rows) const {
        float c[4];
        multiply_narrow(c, rows, 0);
        u32* to = (u32*)(result + (first + part * 2) * pitch + warp * 16) + group;
        to[0] = to_f16x2(c[0], c[2]), to[pitch / 2] = to_f16x2(c[1], c[3]);
    }
};

/// The output projection of an attention and the feed-forward layer.
struct Behind {
    WeightRows<1> out;
    WeightRows<2> up, down;
    float4 latent;  // of the first four warps: what the block's latents were

    __device__ __forceinline__ void load(const Few& of, const f16* out_weight, const f16* up_weight,
                                         const f16* down_weight) {
        int tile = (of.warp & 3) * 16, group = of.warp >> 2;
        if (group < 2) out.load(out_weight + tile * WIDTH + group * 32, WIDTH, of.group, of.part);
        up.load(up_weight + of.warp * 16 * WIDTH, WIDTH, of.group, of.part);
        down.load(down_weight + tile * HIDDEN + group * 64, HIDDEN, of.group, of.part);
    }
    /// What a kernel before this one may have written.
    __device__ __forceinline__ void load_latents(const Few& of, const float* latents) {
        if (of.warp < 4) latent = load_coherent_floats(latents + (of.first + of.own) * WIDTH + of.column * 4);
    }
    /// From the attention's result, a row of f16, to the feed-forward layer's output, which is stored
    /// in `latent`. Returns the next norm of it.
    __device__ __forceinline__ uint2 run(const Few& of, float* to) {
        int tile = (of.warp & 3) * 16, group = of.warp >> 2;
        float c[4];
        block_barrier();  // the attention's result is stored
        if (group < 2) {
            of.multiply_narrow(c, out, group);
            of.store_sums(group, tile, c);
        }
        block_barrier();
        if (group == 0) {
            of.add_sums<2>(latent);
            of.store_narrow(of.normalized(latent, 0));
        }
        block_barrier();
        of.multiply_narrow(c, up, 0);
#pragma unroll
        for (int i = 0; i < 4; i++) c[i] = gelu(c[i]);
        of.store_wide(c);
        block_barrier();
        of.multiply_wide(c, down, group * 2);
        of.store_sums(group, tile, c);
        block_barrier();
        if (group) return make_uint2(0, 0);
        of.add_sums<GROUPS>(latent);
        *(float4*)(to + (of.first + of.own) * WIDTH + of.column * 4) = latent;
        return of.normalized(latent, 1);
    }
};
