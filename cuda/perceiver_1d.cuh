/*!
What the perceiver's latents are multiplied with, and their attention to all tokens of the memory:
what perceiver_1d_cross_attn does (perceiver_1d.cu).

Needs arithmetic.cuh, attention.cuh and gelu.cuh in front.
*/
#pragma once

// ---- attention ----

constexpr int LATENTS = 256;
constexpr int WIDTH = 64;
constexpr int HIDDEN = 256;
constexpr int QKV = 3 * WIDTH;
constexpr float NORM_EPSILON = 1e-5f;

/// Units of 16 bytes change places inside 128 bytes, by their row: a column's units of eight rows
/// are in eight places, those of four units of an even row and the next in eight others, and so are
/// pairs of units of rows 0, 2, 4 and 6, or 1, 3, 5 and 7, in four.
__device__ __forceinline__ u32 turned(int row) {
    return (u32)(((row ^ row >> 2) & 1) << 6 | (row & 2) << 4 | (row & 4) << 2);
}
template <u32 BYTES>
__device__ __forceinline__ u32 unit_at(int row, int unit) {
    return row * BYTES + (((u32)unit * 16) ^ turned(row));
}

/// e to x - top; 1 where both are NOTHING.
__device__ __forceinline__ float share_of(float x, float top) { return power_of_two((x - top) * LOG2E); }

// ---- attention: to all tokens ----

constexpr int SPLIT = 128;          // tokens of a block: a line of `sums` and `parts`
constexpr int TILE = 64;            // latents of a block
constexpr int ATTEND_THREADS = 256;
// In shared memory, behind the weights.
constexpr u32 KEYS = 2 * WIDTH * 128, VALUES = KEYS + SPLIT * 128, ATTEND_BYTES = VALUES + SPLIT * 128;
// What warps exchange lies in the place of weights and keys, behind maxima.
constexpr u32 EXCHANGED = TILE * 8;
constexpr u32 EXCHANGED_BYTES = 4 * 512 + 32 * 8;    // of each warp

struct AttendProblem {
    const f16* memory;                           // [tokens, 64]
    const float *norm_weight, *norm_bias;        // [64]
    const f16 *kv, *positions, *queries;         // [128, 64], [tokens, 64], [256, 64]
    float *sums, *parts;                         // [splits, 256, 2], [splits, 256, 64]
    int tokens;
};

/// Where a lane has rows and columns of a fragment, these are row `group` and the eighth behind it,
/// and columns 8 part to 8 part + 7 of 32.
class Attend {
    int warp, lane, group, part;
    u32 shared;

    /// This lane's two rows, two units each.
    __device__ __forceinline__ void load(u32 (&to)[2][2][4], const f16* from, const int (&rows)[2]) const {
#pragma unroll
        for (int r = 0; r < 2; r++)
#pragma unroll
            for (int step = 0; step < 2; step++)
                load_line(to[r][step], from + rows[r] * WIDTH + step * 32 + part * 8);
    }

    /// The norm of this lane's two rows, of which a quad has all columns.
    __device__ __forceinline__ void normalize(u32 (&rows)[2][2][4], const float4 (&weight)[4],
                                              const float4 (&bias)[4]) const {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float2 x[8];
            float sum = 0.0f, squares = 0.0f;
#pragma unroll
            for (int i = 0; i < 8; i++) x[i] = to_float2(rows[r][i >> 2][i & 3]), sum += x[i].x + x[i].y;
            float mean = sum_of_lanes<1, 4>(sum) * (1.0f / WIDTH);
#pragma unroll
            for (int i = 0; i < 8; i++)
                x[i].x -= mean, x[i].y -= mean, squares += x[i].x * x[i].x + x[i].y * x[i].y;
            float scale = reciprocal_root(sum_of_lanes<1, 4>(squares) * (1.0f / WIDTH) + NORM_EPSILON);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                rows[r][i >> 1][(i & 1) * 2] = to_f16x2(fmaf(x[2 * i].x * scale, weight[i].x, bias[i].x),
                                                        fmaf(x[2 * i].y * scale, weight[i].y, bias[i].y));
                rows[r][i >> 1][(i & 1) * 2 + 1] =
                    to_f16x2(fmaf(x[2 * i + 1].x * scale, weight[i].z, bias[i].z),
                             fmaf(x[2 * i + 1].y * scale, weight[i].w, bias[i].w));
            }
        }
    }

    /// k and v of the warp's 16 tokens, to shared memory. Rows of weights are taken in an order in
    /// which a lane's eight columns of 32 lie side by side.
    __device__ __forceinline__ void project(const u32 (&rows)[2][2][4], const u32 (&places)[2][2][4]) const {
        int row = (group >> 1) * 8 + (group & 1);
#pragma unroll
        for (int of = 0; of < 4; of++) {
            float sums[4][4] = {};
            u32 b[4][2][4];
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int step = 0; step < 2; step++)
                    load_shared(b[j][step], shared + unit_at<128>(of * 32 + row + 2 * j, step * 4 + part));
#pragma unroll
            for (int k = 0; k < 4; k++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    multiply_step(sums[j], rows[0][k >> 1], rows[1][k >> 1], b[j][k >> 1], k & 1);
#pragma unroll
            for (int r = 0; r < 2; r++) {
                u32 unit[4];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    float2 place = to_float2(places[r][of & 1][j]);
                    unit[j] = to_f16x2(sums[j][2 * r] + place.x, sums[j][2 * r + 1] + place.y);
                }
                store_shared(shared + (of < 2 ? KEYS : VALUES) +
                                 unit_at<128>(warp * 16 + r * 8 + group, (of & 1) * 4 + part),
                             unit);
            }
        }
    }

public:
    __device__ __forceinline__ void run(const AttendProblem& p, u32 shared_base) {
        shared = shared_base, warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = lane >> 2,
        part = lane & 3;
        // Latent, half of the tokens.
        int first = blockIdx.y * SPLIT, of = (warp & 3) * 16 + group, half = warp >> 2;
        u32 rows[2][2][4], places[2][2][4], queries[2][2][4];
        float4 weight[4], bias[4];
        int tokens[2], latents[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            // A token beyond the last is the last one, without weight.
            int token = first + warp * 16 + r * 8 + group;
            tokens[r] = token < p.tokens ? token : p.tokens - 1;
            latents[r] = blockIdx.x * TILE + of + r * 8;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int column = (i >> 1) * 32 + part * 8 + (i & 1) * 4;
            weight[i] = load_coherent_floats(p.norm_weight + column);
            bias[i] = load_coherent_floats(p.norm_bias + column);
        }
#pragma unroll
        for (int i = 0; i < 2 * WIDTH; i += ATTEND_THREADS / 8) {
            int row = i + (threadIdx.x >> 3), unit = threadIdx.x & 7;
            copy16(shared + unit_at<128>(row, unit), p.kv + row * WIDTH + unit * 8, true);
        }
        copies_commit();
        load(places, p.positions, tokens);
        dependent_wait();
        dependent_launch();
        load(rows, p.memory, tokens);
        load(queries, p.queries, latents);
        // All of it is to be on its way before anything waits for the first.
        u32 zero = zero_behind_barrier();
#pragma unroll
        for (int i = 0; i < 16; i++) rows[i >> 3][i >> 2 & 1][i & 3] ^= zero;
        normalize(rows, weight, bias);
        copies_wait<0>();
        block_barrier();  // weights are there
        project(rows, places);
        block_barrier();  // k and v are there, and nobody needs the weights

        float scores[8][4] = {};
#pragma unroll
        for (int i = 0; i < 8; i += 4) {
            u32 b[4][2][4];
#pragma unroll
            for (int n = 0; n < 4; n++)
#pragma unroll
                for (int step = 0; step < 2; step++)
                    load_shared(
                        b[n][step],
                        shared + KEYS + unit_at<128>(half * 64 + (i + n) * 8 + group, step * 4 + part));
#pragma unroll
            for (int k = 0; k < 4; k++)
#pragma unroll
                for (int n = 0; n < 4; n++)
                    multiply_step(scores[i + n], queries[0][k >> 1], queries[1][k >> 1], b[n][k >> 1], k & 1);
        }
        int left = p.tokens - first - half * 64;
        if (left < 64) {
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int k = 0; k < 4; k++)
                    if (i * 8 + part * 2 + (k & 1) >= left) scores[i][k] = NEVER;
        }
        float top[2], sum[2] = {};
#pragma unroll
        for (int r = 0; r < 2; r++) {
            top[r] = NOTHING;
#pragma unroll
            for (int i = 0; i < 8; i++) top[r] = fmaxf(top[r], fmaxf(scores[i][2 * r], scores[i][2 * r + 1]));
            top[r] = most_of_lanes<1, 4>(top[r]);
            if (part == 0) store_shared_float(shared + (half * TILE + of + r * 8) * 4, top[r]);
        }
        block_barrier();  // both halves' maxima are there, and nobody needs the keys
        u32 weights[4][4];
#pragma unroll
        for (int r = 0; r < 2; r++)
            top[r] = fmaxf(top[r], load_shared_float(shared + ((half ^ 1) * TILE + of + r * 8) * 4));
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float low = share_of(scores[i][2 * r], top[r]), next = share_of(scores[i][2 * r + 1], top[r]);
                sum[r] += low + next;
                weights[i >> 1][(i & 1) * 2 + r] = to_f16x2(low, next);
            }
        float result[8][4] = {};
#pragma unroll
        for (int step = 0; step < 4; step++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                u32 b[4];
                load_matrices_transposed(
                    b,
                    shared + VALUES + unit_at<128>(half * 64 + step * 16 + (lane & 15), 2 * j + (lane >> 4)));
                multiply_add(result[2 * j], weights[step], b[0], b[1]);
                multiply_add(result[2 * j + 1], weights[step], b[2], b[3]);
            }
        finish(p, half, of, top, sum, result);
    }

private:
    /// Of two warps with the same latents, each adds up half of the columns.
    __device__ __forceinline__ void finish(const AttendProblem& p, int half, int of, const float (&top)[2],
                                           float (&sum)[2], const float (&result)[8][4]) const {
        u32 own = shared + EXCHANGED + warp * EXCHANGED_BYTES + lane * 16,
            other = shared + EXCHANGED + (warp ^ 4) * EXCHANGED_BYTES + lane * 16;
        sum[0] = sum_of_lanes<1, 4>(sum[0]), sum[1] = sum_of_lanes<1, 4>(sum[1]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float(&lower)[4] = result[i], (&upper)[4] = result[4 + i];
            store_shared_floats(own + i * 512, half ? make_float4(lower[0], lower[1], lower[2], lower[3])
                                                    : make_float4(upper[0], upper[1], upper[2], upper[3]));
        }
        store_shared_pair(own - lane * 8 + 4 * 512, make_float2(sum[0], sum[1]));
        block_barrier();
        int line = blockIdx.y * LATENTS + blockIdx.x * TILE + of;
        if (half == 0 && part == 0) {
            float2 more = load_shared_pair(other - lane * 8 + 4 * 512);
            ((float2*)p.sums)[line] = make_float2(top[0], sum[0] + more.x);
            ((float2*)p.sums)[line + 8] = make_float2(top[1], sum[1] + more.y);
        }
        float* to = p.parts + line * WIDTH + half * 32 + part * 2;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float(&lower)[4] = result[i], (&upper)[4] = result[4 + i];
            float4 more = load_shared_floats(other + i * 512);
            *(float2*)(to + i * 8) =
                make_float2((half ? upper[0] : lower[0]) + more.x, (half ? upper[1] : lower[1]) + more.y);
            *(float2*)(to + 8 * WIDTH + i * 8) =
                make_float2((half ? upper[2] : lower[2]) + more.z, (half ? upper[3] : lower[3]) + more.w);
        }
    }
};
