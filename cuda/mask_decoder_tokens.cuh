/*!
How the mask decoder's eight tokens are normalized and multiplied (mask_decoder_tokens.cu).

Tokens are f32 and weights halves. The tensor cores multiply both without loss that matters: of the
sixteen rows of A, eight are the tokens rounded to halves and eight are what that left, so that one
instruction has 22 bits of eight tokens. The order of the columns that are summed over is up to the
kernel: a lane has eight in a row, 16 bytes of a weight. A token beyond 65504 becomes a NaN.

Needs arithmetic.cuh and attention.cuh in front.
*/
#pragma once

// ---- tokens ----

constexpr int TOKENS = 8;
constexpr int WIDTH = 256;
constexpr int HIDDEN = 2048;
constexpr int HEADS = 8;
// Of attention between tokens and image; all heads', a head's.
constexpr int INNER = 128, DEPTH = INNER / HEADS;
constexpr int SELF_DEPTH = WIDTH / HEADS;                // of attention among tokens
constexpr int ROWS = HEADS * TOKENS;                     // of K, V and F: a head's tokens side by side
constexpr int WARPS = 8, TOKEN_THREADS = WARPS * 32;
constexpr int QUAD_COLUMNS = 32;                         // columns that the lanes of a quad have, eight each
constexpr float TOKEN_EPSILON = 1e-5f;

/// Eight columns of a token: as a rule 8 lane and the next.
struct Eight {
    float at[8];
    __device__ __forceinline__ void load(const float* from) {
        float4 a = ((const float4*)from)[0], b = ((const float4*)from)[1];
        at[0] = a.x, at[1] = a.y, at[2] = a.z, at[3] = a.w, at[4] = b.x, at[5] = b.y, at[6] = b.z,
        at[7] = b.w;
    }
    __device__ __forceinline__ void store(float* to) const {
        ((float4*)to)[0] = make_float4(at[0], at[1], at[2], at[3]);
        ((float4*)to)[1] = make_float4(at[4], at[5], at[6], at[7]);
    }
    __device__ __forceinline__ void add(const Eight& more) {
#pragma unroll
        for (int i = 0; i < 8; i++) at[i] += more.at[i];
    }
};

/// LayerNorm of a token whose columns a warp's lanes have. Means and squares of halves of it are
/// merged, so that both need five exchanges together.
__device__ __forceinline__ Eight normalized(const Eight& x, const Eight& weight, const Eight& bias) {
    float mean = (((x.at[0] + x.at[1]) + (x.at[2] + x.at[3])) + ((x.at[4] + x.at[5]) + (x.at[6] + x.at[7]))) *
                 0.125f,
          squares = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; i++) squares += (x.at[i] - mean) * (x.at[i] - mean);
    merge_moments<32, 8>(mean, squares);
    float scale = rsqrtf(squares * (1.0f / WIDTH) + TOKEN_EPSILON);
    Eight y;
#pragma unroll
    for (int i = 0; i < 8; i++) y.at[i] = (x.at[i] - mean) * scale * weight.at[i] + bias.at[i];
    return y;
}

/// Two floats as halves, and what these leave as halves.
__device__ __forceinline__ void split(float a, float b, u32& high, u32& rest) {
    high = to_f16x2(a, b);
    float2 rounded = to_float2(high);
    rest = to_f16x2(a - rounded.x, b - rounded.y);
}

/// Eight columns of token lane / 4, as A of two instructions.
struct Fragment {
    uint4 high, rest;
    __device__ __forceinline__ void split_of(const Eight& x) {
        split(x.at[0], x.at[1], high.x, rest.x), split(x.at[2], x.at[3], high.y, rest.y);
        split(x.at[4], x.at[5], high.z, rest.z), split(x.at[6], x.at[7], high.w, rest.w);
    }
    /// The products of the first four columns and of the last four, in sums of their own: neither
    /// waits for the other.
    __device__ __forceinline__ void multiply(float (&sums)[2][4], uint4 weights) const {
        u32 first[4] = {high.x, rest.x, high.y, rest.y}, last[4] = {high.z, rest.z, high.w, rest.w};
        multiply_add(sums[0], first, weights.x, weights.y);
        multiply_add(sums[1], last, weights.z, weights.w);
    }
    /// Token lane / 4 by the rows 2 (lane % 4) of eight and the next one.
    __device__ __forceinline__ static float2 total(const float (&sums)[2][4]) {
        return make_float2((sums[0][0] + sums[1][0]) + (sums[0][2] + sums[1][2]),
                           (sums[0][1] + sums[1][1]) + (sums[0][3] + sums[1][3]));
    }
};

/// All tokens in shared memory, split. Rows lie so that a quad's units and those of the next one
/// are in different banks.
struct SplitTokens {
    static constexpr int PITCH = WIDTH / 2 + 16;
    alignas(16) u32 high[TOKENS][PITCH], rest[TOKENS][PITCH];

    __device__ __forceinline__ void store(int token, int lane, const Eight& x) {
        Fragment f;
        f.split_of(x);
        ((uint4*)high[token])[lane] = f.high, ((uint4*)rest[token])[lane] = f.rest;
    }
    __device__ __forceinline__ Fragment load(int lane, int group) const {
        int unit = group * 4 + (lane & 3);
        return {((const uint4*)high[lane >> 2])[unit], ((const uint4*)rest[lane >> 2])[unit]};
    }
};

/// Eight rows of a weight, GROUPS * 32 columns of them: this lane has its eight columns of each
/// group, of row lane / 4.
template <int GROUPS>
struct WeightRows {
    uint4 at[GROUPS];
    __device__ __forceinline__ void load(const f16* first, int pitch, int lane) {
        const uint4* from = (const uint4*)(first + (lane >> 2) * pitch) + (lane & 3);
#pragma unroll
        for (int i = 0; i < GROUPS; i++) at[i] = from[i * 4];
    }
    __device__ __forceinline__ float2 multiply(const SplitTokens& x, int lane, int first_group) const {
        float sums[2][4] = {};
#pragma unroll
        for (int i = 0; i < GROUPS; i++) x.load(lane, first_group + i).multiply(sums, at[i]);
        return Fragment::total(sums);
    }
};

/// All tokens by the rows of a linear layer, 8 TILES rows a block. Each warp has an eighth of the
/// columns.
template <int GROUPS, int TILES>
struct Layer {
    static constexpr int COLUMNS = WARPS * GROUPS * QUAD_COLUMNS, BLOCK_ROWS = TILES * 8,
                         PITCH = TILES > 1 ? BLOCK_ROWS + 8 : BLOCK_ROWS;
    alignas(16) float sums[WARPS][TOKENS][PITCH];

    /// Of threads below 8 BLOCK_ROWS: row threadIdx.x % BLOCK_ROWS of token threadIdx.x /
    /// BLOCK_ROWS. It waits for the previous kernel; `behind` is done behind that.
    template <class Behind>
    __device__ __forceinline__ float run(const float* x, const f16* weight, Behind behind) {
        int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, first = warp * GROUPS * QUAD_COLUMNS;
        Eight values[GROUPS];
        WeightRows<GROUPS> rows[TILES];
#pragma unroll
        for (int t = 0; t < TILES; t++)
            rows[t].load(weight + (blockIdx.x * BLOCK_ROWS + t * 8) * COLUMNS + first, COLUMNS, lane);
        dependent_wait();
        dependent_launch();
#pragma unroll
        for (int i = 0; i < GROUPS; i++)
            values[i].load(x + (lane >> 2) * COLUMNS + first + i * QUAD_COLUMNS + (lane & 3) * 8);
        behind();
        float all[TILES][2][4] = {};
#pragma unroll
        for (int i = 0; i < GROUPS; i++) {
            Fragment f;
            f.split_of(values[i]);
#pragma unroll
            for (int t = 0; t < TILES; t++) f.multiply(all[t], rows[t].at[i]);
        }
#pragma unroll
        for (int t = 0; t < TILES; t++)
            *(float2*)&sums[warp][lane >> 2][t * 8 + (lane & 3) * 2] = Fragment::total(all[t]);
        block_barrier();
        if (threadIdx.x >= TOKENS * BLOCK_ROWS) return 0.0f;
        int token = threadIdx.x / BLOCK_ROWS, row = threadIdx.x % BLOCK_ROWS;
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < WARPS; i++) sum += sums[i][token][row];
        return sum;
    }
};
using Up = Layer<WIDTH / (WARPS * QUAD_COLUMNS), 4>;
using Down = Layer<HIDDEN / (WARPS * QUAD_COLUMNS), 1>;
constexpr int MLP_UP_BLOCKS = HIDDEN / Up::BLOCK_ROWS, MLP_DOWN_BLOCKS = WIDTH / Down::BLOCK_ROWS;

/// One step of a product with a weight whose rows are summed over: this lane has columns 4 (lane /
/// 4) to 4 (lane / 4) + 3 of 32, of four rows that depend on lane % 4; `a` is the tokens' columns
/// that go with these rows. `sums` come to be what `columns_of` says.
__device__ __forceinline__ void multiply_turned(float (&sums)[4][4], const u32 (&a)[4],
                                                const uint2 (&rows)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        u32 w[4];
#pragma unroll
        for (int k = 0; k < 4; k++) w[k] = i < 2 ? rows[k].x : rows[k].y;
        u32 b0 = i & 1 ? w[0] >> 16 | (w[1] & 0xffff0000u) : (w[0] & 0xffffu) | w[1] << 16;
        u32 b1 = i & 1 ? w[2] >> 16 | (w[3] & 0xffff0000u) : (w[2] & 0xffffu) | w[3] << 16;
        multiply_add(sums[i], a, b0, b1);
    }
}
/// Columns 8 (lane % 4) and the next ones of the 32, of token lane / 4.
__device__ __forceinline__ Eight columns_of(const float (&sums)[4][4]) {
    Eight y;
#pragma unroll
    for (int i = 0; i < 4; i++) y.at[i] = sums[i][0] + sums[i][2], y.at[4 + i] = sums[i][1] + sums[i][3];
    return y;
}

/// Sixteen columns of each token, of one head, as sums over several parts of what they are made of.
struct HeadParts {
    alignas(16) float at[4][TOKENS][DEPTH];
    /// Columns 4 (lane % 4) and the next ones of token lane / 4: COUNT parts from `first` on.
    template <int COUNT>
    __device__ __forceinline__ float4 sum(int lane, int first) const {
        float4 all = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            float4 x = ((const float4*)at[first + i][lane >> 2])[lane & 3];
            all.x += x.x, all.y += x.y, all.z += x.z, all.w += x.w;
        }
        return all;
    }
};

/// What the image is multiplied by, of a head: its 16 columns of each token by the head's 16 rows
/// of a weight [128, 256]. A warp has 32 columns.
struct Folded {
    uint2 rows[4];
    __device__ __forceinline__ void load(const f16* weight, int head, int warp, int lane) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            rows[i] = ((const uint2*)(weight + (head * DEPTH + (lane & 3) * 4 + i) * WIDTH +
                                      warp * QUAD_COLUMNS))[lane >> 2];
    }
    __device__ __forceinline__ void store(f16* to, int head, int warp, int lane, float4 x) const {
        u32 a[4];
        split(x.x, x.y, a[0], a[1]), split(x.z, x.w, a[2], a[3]);
        float sums[4][4] = {};
        multiply_turned(sums, a, rows);
        Eight y = columns_of(sums);
        ((uint4*)(to + (head * TOKENS + (lane >> 2)) * WIDTH + warp * QUAD_COLUMNS))[lane & 3] = make_uint4(
            to_f16x2(y.at[0], y.at[1]), to_f16x2(y.at[2], y.at[3]), to_f16x2(y.at[4], y.at[5]),
            to_f16x2(y.at[6], y.at[7]));
    }
};

/// Queries of a head that reads the image, folded with its keys' weight: F. Eight warps have eight
/// of the 16 rows and a quarter of the columns each.
struct ReadFold {
    WeightRows<2> rows;
    Folded keys;
    float2 bias;
    int lane, warp, tile, quarter;
    __device__ __forceinline__ void load(const f16* query_weight, const float* query_bias,
                                         const f16* key_weight, int head) {
        lane = threadIdx.x & 31, warp = threadIdx.x >> 5, tile = warp >> 2, quarter = warp & 3;
        int row = head * DEPTH + tile * 8;
        rows.load(query_weight + row * WIDTH + quarter * (WIDTH / 4), WIDTH, lane);
        bias = quarter ? make_float2(0.0f, 0.0f) : ((const float2*)(query_bias + row))[lane & 3];
        keys.load(key_weight, head, warp, lane);
    }
    __device__ __forceinline__ void run(const SplitTokens& x, HeadParts& parts, f16* folded, int head) const {
        float2 q = rows.multiply(x, lane, quarter * 2);
        *(float2*)&parts.at[quarter][lane >> 2][tile * 8 + (lane & 3) * 2] =
            make_float2(q.x + bias.x, q.y + bias.y);
        block_barrier();
        keys.store(folded, head, warp, lane, parts.sum<4>(lane, 0));
    }
};
