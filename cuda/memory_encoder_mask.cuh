/*!
The mask and the first two of its convolutions: memory_encoder_mask_convs. The head of
memory_encoder_mask.cu explains the computation.

Include memory_encoder_downsample.cuh first.
*/
#pragma once

// ---- convolutions ----

constexpr float FURTHEST = 60.0f;  // power of two in a sigmoid's divisor, two of which have a product

__device__ __forceinline__ int inside(int at, int last) {
    int not_before = at > 0 ? at : 0;
    return not_before < last ? not_before : last;
}

/// The arguments of memory_encoder_mask_convs.
struct MaskProblem {
    const float *low, *binary;                       // [4g, 4g], [1]
    float scale, offset;
    const float *weight1;                            // [4, 9]
    const float *bias1, *norm1_weight, *norm1_bias;  // [4]
    const float *weight2;                            // [16, 9, 4]
    const float *bias2, *norm2_weight, *norm2_bias;  // [16]
    f16* narrow;                                     // [4g, 4g, 16]
    int grid;
};

class Mask {
public:
    static constexpr int THREADS = 192, WARPS = THREADS / 32;

private:
    // Of 4 x 4 pixels of the mask.
    static constexpr int FOURS_ACROSS = ACROSS + 1, FOURS = FOURS_ACROSS * (DOWN + 1);
    // Of the first convolution: with the one above the tile.
    static constexpr int FIRST_ROWS = 2 * DOWN + 1;
    static constexpr int PIXEL = 8;                                                     // bytes of its pixels
    // The last pixel of a row has no weight.
    static constexpr int FIRST_PITCH = (2 * ACROSS + 2) * PIXEL;
    // Bytes of a row of the mask, of which 8 ACROSS + 8 are used: 42 words, so that neither pixels
    // side by side, of two rows, nor pixels two rows apart meet in a bank.
    static constexpr int PITCH = 168;
    // Where the first convolution's results lie, behind the mask.
    static constexpr int FIRST = PITCH * 4 * (DOWN + 1);
    // Two tiles of 16 pixels at a time: a row, but for its first pixel; then all rows' first
    // pixels.
    static constexpr int TURNS = (FIRST_ROWS + 1) / WARPS;
    static_assert(TURNS * WARPS == FIRST_ROWS + 1 && THREADS >= FOURS && FIRST % 16 == 0 &&
                      FIRST_PITCH % 16 == 0,
                  "whole turns, whole units");

    // What all warps need of the weights: the second convolution's, for a row of a window, a lane
    // and both tiles of channels; the first's, for a lane; vectors.
    static constexpr int WEIGHT2 = FIRST + FIRST_ROWS * FIRST_PITCH, WEIGHT1 = WEIGHT2 + 3 * 32 * 16,
                         VECTORS2 = WEIGHT1 + 32 * 16;
    static constexpr int VECTOR2 = 16 * 4, VECTORS1 = VECTORS2 + 3 * VECTOR2, VECTOR1 = 4 * 4;
    static constexpr int FILLING = (FOURS + 31) / 32;  // warps; the next one brings the weights
    static_assert(FILLING == WARPS - 1 && THREADS == 3 * 2 * 32,
                  "a thread has a lane's weights of a row of a window and of a tile");

public:
    static constexpr int SHARED = VECTORS1 + 3 * VECTOR1;

private:
    u32 shared;
    int warp, lane, group, part;

    /// This thread's 3 x 3 logits around place (x, y).
    __device__ __forceinline__ static void load_low(const MaskProblem& p, float (&low)[3][3], int x, int y) {
        int side = p.grid * 4, columns[3];
#pragma unroll
        for (int i = 0; i < 3; i++) columns[i] = inside(x + i - 1, side - 1);
#pragma unroll
        for (int i = 0; i < 3; i++) {
            int row = inside(y + i - 1, side - 1) * side;
#pragma unroll
            for (int k = 0; k < 3; k++) low[i][k] = load_coherent_float(p.low + (u32)(row + columns[k]));
        }
    }

    /// This thread's weights of the second convolution: of row `group` of the right factor, of this
    /// warp's row of the windows and tile.
    __device__ __forceinline__ void load_second(const MaskProblem& p, float2 (&weights)[2]) const {
        int channel = (group >> 1) * 4 + (warp & 1) * 2 + (group & 1);
        const float2* of = (const float2*)p.weight2 + (u32)(channel * 18 + (warp >> 1) * 6 + part);
        weights[0] = of[0], weights[1] = make_float2(0.0f, 0.0f);
        if (part < 2) weights[1] = of[4];
    }
    __device__ __forceinline__ void store_second(const float2 (&weights)[2]) const {
        u32 to = shared + WEIGHT2 + (warp >> 1) * 512 + lane * 16 + (warp & 1) * 8;
        store_shared_halves(to, make_uint2(to_f16x2(weights[0].x, weights[0].y),
                                           to_f16x2(weights[1].x, weights[1].y)));
    }
    /// The first convolution's weights and all vectors, by a warp for all, and its own of the
    /// second's. Weights without their mean over the channels give pixels without theirs, which the
    /// norm would subtract.
    __device__ __forceinline__ void bring_weights(const MaskProblem& p) const {
        const float* vector = lane < 4     ? p.bias2
                              : lane < 8   ? p.norm2_weight
                              : lane < 12  ? p.norm2_bias
                              : lane == 12 ? p.norm1_weight
                                           : p.norm1_bias;
        u32 vector_to = shared + (lane < 12 ? VECTORS2 + lane * 16 : VECTORS1 + (lane - 11) * VECTOR1);
        if (lane < 14) copy16(vector_to, vector + (lane < 12 ? lane & 3 : 0) * 4, true);
        copies_commit();
        // Row `group` of the right factor: a channel, twice.
        int channel = group & 3, odd = part & 1;
        const float* row = p.weight1 + channel * 9;
        float weights[4] = {row[(part >> 1) * 3 + odd * 2], 0.0f, 0.0f, 0.0f}, bias = p.bias1[channel];
        if (!odd) weights[1] = row[(part >> 1) * 3 + 1];
        if (part < 2) weights[2] = row[6 + odd * 2];
        if (part == 0) weights[3] = row[7];
        float2 second[2];
        load_second(p, second);
        if (lane < FIRST_ROWS)
            store_shared_halves(shared + FIRST + lane * FIRST_PITCH + (2 * ACROSS + 1) * PIXEL,
                                make_uint2(0, 0));
#pragma unroll
        for (int i = 0; i < 4; i++) weights[i] = of_channels(weights[i]);
        bias = of_channels(bias);
        u32 high[2], low[2];
#pragma unroll
        for (int i = 0; i < 2; i++) split(high[i], low[i], weights[2 * i], weights[2 * i + 1]);
        u32 to = shared + WEIGHT1 + lane * 16;
        store_shared_halves(to, make_uint2(high[0], high[1]));
        store_shared_halves(to + 8, make_uint2(low[0], low[1]));
        if (part == 0 && group < 4) store_shared_float(shared + VECTORS1 + group * 4, bias);
        store_second(second);
        copies_wait<0>();
    }
    /// Without the mean of all channels, which lie four lanes apart.
    __device__ __forceinline__ static float of_channels(float x) {
        float sum = x + from_lane(x, 4);
        return fmaf(sum + from_lane(sum, 8), -0.25f, x);
    }
    __device__ __forceinline__ static void split(u32& high, u32& low, float a, float b) {
        high = to_f16x2(a, b);
        float2 of = to_float2(high);
        low = to_f16x2(a - of.x, b - of.y);
    }

    /// From 1/8 behind a logit to the same behind the next: where the four pixels lie that begin
    /// with a logit's second.
    __device__ __forceinline__ static void between(float (&to)[4], float before, float own, float next) {
        float behind = next - own;
        to[0] = fmaf(own - before, -0.125f, own);
        to[1] = fmaf(behind, 0.125f, own), to[2] = fmaf(behind, 0.375f, own),
        to[3] = fmaf(behind, 0.625f, own);
    }
    /// Two pixels of the mask from their logits, which for a sigmoid are powers of two, -log2 e
    /// times as large.
    template <bool BINARY>
    __device__ __forceinline__ static u32 masked(const MaskProblem& p, float a, float b) {
        float scale = p.scale;
        if (BINARY) {
            a = a > 0.0f ? 1.0f : 0.0f, b = b > 0.0f ? 1.0f : 0.0f;
        } else {
            float c = power_of_two(smaller(a, FURTHEST)) + 1.0f,
                  d = power_of_two(smaller(b, FURTHEST)) + 1.0f;
            scale *= reciprocal(c * d);
            a = d, b = c;
        }
        return to_f16x2(fmaf(a, scale, p.offset), fmaf(b, scale, p.offset));
    }
    /// This thread's 4 x 4 pixels of the mask. Those above and left of the first one are zeros: of
    /// places (-1, y) and (x, -1) all but the last.
    template <bool BINARY>
    __device__ __forceinline__ static void fill(const MaskProblem& p, const float (&low)[3][3], int x, int y,
                                                u32 to) {
        float rows[3][4], high[4][4];
#pragma unroll
        for (int i = 0; i < 3; i++) {
            float by = BINARY ? 1.0f : -LOG2E;
            between(rows[i], low[i][0] * by, low[i][1] * by, low[i][2] * by);
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float column[4];
            between(column, rows[0][k], rows[1][k], rows[2][k]);
#pragma unroll
            for (int i = 0; i < 4; i++) high[i][k] = column[i];
        }
        u32 first = x < 0 ? 0u : 0xffffffffu, second = x < 0 ? 0xffff0000u : 0xffffffffu;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            u32 upper = i < 3 && y < 0 ? 0u : 0xffffffffu;
            store_shared_halves(to + i * PITCH,
                                make_uint2(masked<BINARY>(p, high[i][0], high[i][1]) & first & upper,
                                           masked<BINARY>(p, high[i][2], high[i][3]) & second & upper));
        }
    }

    /// The first convolution. Of turn `row` pixel n is in column n + 1 of row `row`; behind the
    /// last row, column 0 of row n.
    __device__ __forceinline__ void multiply_first() const {
        u32 near = shared + (part >> 1) * PITCH + (part & 1) * 4, far = shared + 2 * PITCH + (part & 1) * 4;
        u32 a[TURNS][2][4];
#pragma unroll
        for (int turn = 0; turn < TURNS; turn++) {
            int row = turn * WARPS + warp;
            bool edge = turn == TURNS - 1 && row == FIRST_ROWS;
            int step = edge ? 2 * PITCH : 4, start = edge ? 0 : 2 * row * PITCH + 4;
#pragma unroll
            for (int tile = 0; tile < 2; tile++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    u32 at = start + pixel(edge, tile, i) * step;
                    a[turn][tile][i] = shared_word(near + at), a[turn][tile][i + 2] = shared_word(far + at);
                }
        }
        uint4 weights = shared_unit(shared + WEIGHT1 + lane * 16);
        u32 high[2] = {weights.x, weights.y}, low[2] = {weights.z, weights.w};
        // Those that a tile of pixels has.
        u32 columns[2] = {group < 4 ? 0xffffffffu : 0u, group < 4 ? 0u : 0xffffffffu};
        float2 bias = vector1(0), norm_weight = vector1(1), norm_bias = vector1(2);
        float sums[TURNS][4];
#pragma unroll
        for (int turn = 0; turn < TURNS; turn++)
            sums[turn][0] = sums[turn][2] = bias.x, sums[turn][1] = sums[turn][3] = bias.y;
#pragma unroll
        for (int tile = 0; tile < 2; tile++) {
#pragma unroll
            for (int turn = 0; turn < TURNS; turn++)
                multiply_add(sums[turn], a[turn][tile], low[0] & columns[tile], low[1] & columns[tile]);
#pragma unroll
            for (int turn = 0; turn < TURNS; turn++)
                multiply_add(sums[turn], a[turn][tile], high[0] & columns[tile], high[1] & columns[tile]);
        }
#pragma unroll
        for (int turn = 0; turn < TURNS; turn++)
            finish_first(turn * WARPS + warp, turn == TURNS - 1, sums[turn], norm_weight, norm_bias);
    }
    /// Of a vector of the first convolution, channels 2 (part % 2) and the next.
    __device__ __forceinline__ float2 vector1(int at) const {
        return load_shared_pair(shared + VECTORS1 + at * VECTOR1 + (part & 1) * 8);
    }
    /// Which pixel of a turn a lane's row of a tile is. The second tile's halves are swapped: else
    /// both tiles' results would meet in a bank.
    __device__ __forceinline__ int pixel(bool edge, int tile, int half) const {
        int n = tile * 16 + (half ^ tile) * 8 + group;
        return edge && n >= FIRST_ROWS ? FIRST_ROWS - 1 : n;
    }
    /// Norm and activation of two pixels, two channels each: the lane beside this one has the other
    /// two. Their mean is 0.
    __device__ __forceinline__ void finish_first(int row, bool last, const float (&sums)[4], float2 weight,
                                                 float2 bias) const {
        bool edge = last && row == FIRST_ROWS;
        int step = edge ? FIRST_PITCH : PIXEL;
        u32 start = shared + FIRST + (edge ? 0 : row * FIRST_PITCH + PIXEL) + (part & 1) * 4;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float a = sums[2 * i], b = sums[2 * i + 1], squares = fmaf(a, a, b * b);
            squares += from_lane(squares, 1);
            float root = reciprocal_root_ftz(fmaf(squares, 0.25f, NORM_EPSILON));
            u32 both = to_f16x2(gelu(fmaf(a * root, weight.x, bias.x)),
                                gelu(fmaf(b * root, weight.y, bias.y)));
            int n = pixel(edge, part >> 1, i);
            // Zeros around what is convolved.
            bool above = blockIdx.y == 0 && (edge ? n == 0 : row == 0), left = blockIdx.x == 0 && edge;
            store_shared_word(start + n * step, above || left ? 0u : both);
        }
    }

    /// The second convolution: rows of the tile. The last warps have less of the mask, and so the
    /// rows beyond one for each.
    __device__ __forceinline__ void multiply_second(const MaskProblem& p) const {
        uint4 weights[3];
#pragma unroll
        for (int dy = 0; dy < 3; dy++) weights[dy] = shared_unit(shared + WEIGHT2 + dy * 512 + lane * 16);
        float4 bias = vector2(0), norm_weight = vector2(1), norm_bias = vector2(2);
#pragma unroll 1
        for (int row = WARPS - 1 - warp; row < DOWN; row += WARPS)
            multiply_row(p, row, weights, bias, norm_weight, norm_bias);
    }
    /// Of a vector of the second convolution, channels 4 part to 4 part + 3.
    __device__ __forceinline__ float4 vector2(int at) const {
        return load_shared_floats(shared + VECTORS2 + at * VECTOR2 + part * 16);
    }
    __device__ __forceinline__ void multiply_row(const MaskProblem& p, int row, const uint4 (&weights)[3],
                                                 float4 bias, float4 norm_weight, float4 norm_bias) const {
        u32 from = shared + FIRST + row * 2 * FIRST_PITCH + ((lane & 15) + (lane >> 4)) * (2 * PIXEL);
        float sums[2][4] = {{bias.x, bias.y, bias.x, bias.y}, {bias.z, bias.w, bias.z, bias.w}};
#pragma unroll
        for (int dy = 0; dy < 3; dy++) {
            u32 a[4];
            load_matrices(a, from + dy * FIRST_PITCH);
            multiply_add(sums[0], a, weights[dy].x, weights[dy].y);
            multiply_add(sums[1], a, weights[dy].z, weights[dy].w);
        }
        int side = p.grid * 4, y = blockIdx.y * DOWN + row, x = blockIdx.x * ACROSS + group;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float of[4] = {sums[0][2 * i], sums[0][2 * i + 1], sums[1][2 * i], sums[1][2 * i + 1]},
                  squares = 0.0f;
            float mean = sum_of_lanes<1, 4>((of[0] + of[1]) + (of[2] + of[3])) * (1.0f / 16);
#pragma unroll
            for (int k = 0; k < 4; k++) of[k] -= mean, squares = fmaf(of[k], of[k], squares);
            float root = reciprocal_root_ftz(fmaf(sum_of_lanes<1, 4>(squares), 1.0f / 16, NORM_EPSILON));
            u32 first = to_f16x2(gelu(fmaf(of[0] * root, norm_weight.x, norm_bias.x)),
                                 gelu(fmaf(of[1] * root, norm_weight.y, norm_bias.y)));
            u32 second = to_f16x2(gelu(fmaf(of[2] * root, norm_weight.z, norm_bias.z)),
                                  gelu(fmaf(of[3] * root, norm_weight.w, norm_bias.w)));
            if (y < side && x + i * 8 < side)
                *(uint2*)(p.narrow + (y * side + x + i * 8) * 16 + part * 4) = make_uint2(first, second);
        }
    }

public:
    __device__ __forceinline__ void run(const MaskProblem& p, u32 shared_base) {
        shared = shared_base, warp = threadIdx.x >> 5, lane = lane_of(), group = lane >> 2, part = lane & 3;
        dependent_wait();
        dependent_launch();
        if (warp < FILLING) {
            int thread = threadIdx.x, down = thread / FOURS_ACROSS, across = thread - down * FOURS_ACROSS;
            int x = blockIdx.x * ACROSS + across - 1, y = blockIdx.y * DOWN + down - 1;
            float low[3][3];
            load_low(p, low, x, y);
            float binary = load_coherent_float(p.binary);
            float2 second[2];
            load_second(p, second);
            // Nothing that was asked for above is asked for later.
            warp_barrier();
            u32 to = shared + down * 4 * PITCH + across * 8;
            if (thread < FOURS) {
                if (binary > 0.5f) fill<true>(p, low, x, y, to);
                else fill<false>(p, low, x, y, to);
            }
            store_second(second);
        } else {
            bring_weights(p);
        }
        block_barrier();
        multiply_first();
        block_barrier();
        multiply_second(p);
    }
};
