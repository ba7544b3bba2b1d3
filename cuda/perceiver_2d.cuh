/*!
A latent's attention to the memory tokens of its square of the map (perceiver_2d.cu): one question a
warp, and each token's norm with it.

Needs arithmetic.cuh and attention.cuh in front.
*/
#pragma once

// ---- attention ----

constexpr int WIDTH = 64;             // columns of a latent and of a token
constexpr int SIDE = 16;              // squares of a row of the map
constexpr float NORM_EPSILON = 1e-5f;

/// Of a row, of which each of 64 / COUNT lanes has COUNT columns: from their sum and the squares of
/// what they are off their mean to the row's mean and 1 / deviation.
template <int COUNT>
__device__ __forceinline__ void merge(float& sum, float& squares) {
#pragma unroll
    for (int mask = 1; mask < WIDTH / COUNT; mask *= 2) {
        float other = from_lane(sum, mask), more = from_lane(squares, mask), apart = other - sum;
        sum += other;
        squares = fmaf(apart * apart, 0.5f / (mask * COUNT), squares + more);
    }
    sum *= 1.0f / WIDTH;
    squares = reciprocal_root_ftz(squares * (1.0f / WIDTH) + NORM_EPSILON);
}

/// The tokens of a warp's latent: a lane has eight columns of each fourth one.
struct Window {
    static constexpr int OWN = 4, CHUNK_TOKENS = OWN * 4;

    const f16* corner;  // this lane's columns of the square's first token
    int side, count, grid, lane;
    float of_side;  // 1 / side
    u32 raw[OWN][4];
    float tokens[OWN][8];           // behind the norm, but for its scale and shift
    float top, sum, columns[8];     // the largest score; sums of weights and of what they weigh

    __device__ __forceinline__ Window(const f16* memory, int latent, int grid, int lane)
        : grid(grid), lane(lane) {
        side = grid / SIDE, count = side * side, of_side = reciprocal((float)side);
        corner = memory + (latent / SIDE * side * grid + latent % SIDE * side) * WIDTH + (lane & 7) * 8;
    }
    /// Of a token past the last the last one, whose weight there is none.
    __device__ __forceinline__ const f16* at(int token) const {
        token = token < count ? token : count - 1;
        // The quotient is off a whole number by 1 / (2 side) at least.
        int row = (int)(((float)token + 0.5f) * of_side);
        return corner + (row * grid + token - row * side) * WIDTH;
    }
    __device__ __forceinline__ u32 fetched(u32 to, int i) const {
        return to + ((threadIdx.x >> 5) * OWN + i) * 512 + lane * 16;
    }
    /// Starts the copies of the first tokens to shared memory, 512 OWN bytes a warp, from where the
    /// lane that copies them loads them.
    __device__ __forceinline__ void fetch(u32 to) const {
#pragma unroll
        for (int i = 0; i < OWN; i++) copy16(fetched(to, i), at(i * 4 + (lane >> 3)), true);
    }
    __device__ __forceinline__ void load_fetched(u32 from) {
#pragma unroll
        for (int i = 0; i < OWN; i++) load_shared(raw[i], fetched(from, i));
    }
    __device__ __forceinline__ void load(int first) {
#pragma unroll
        for (int i = 0; i < OWN; i++) load_coherent(raw[i], at(first + i * 4 + (lane >> 3)));
    }
    __device__ __forceinline__ void normalize() {
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            float(&x)[8] = tokens[i], squares = 0.0f;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                float2 pair = to_float2(raw[i][k]);
                x[2 * k] = pair.x, x[2 * k + 1] = pair.y;
            }
            float mean = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7])),
                  own = mean * 0.125f;
#pragma unroll
            for (int k = 0; k < 8; k++) squares = fmaf(x[k] - own, x[k] - own, squares);
            merge<8>(mean, squares);
#pragma unroll
            for (int k = 0; k < 8; k++) x[k] = (x[k] - mean) * squares;
        }
    }
    /// The tokens that are here; `asked` is of this lane's columns. Each eight lanes have a sum of
    /// their own.
    __device__ __forceinline__ void attend(const float (&asked)[8], int first) {
        float scores[OWN], high = top;
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            float even = 0.0f, odd = 0.0f;
#pragma unroll
            for (int k = 0; k < 8; k += 2)
                even = fmaf(tokens[i][k], asked[k], even), odd = fmaf(tokens[i][k + 1], asked[k + 1], odd);
            scores[i] = even + odd;
        }
#pragma unroll
        for (int mask = 1; mask < 8; mask *= 2)
#pragma unroll
            for (int i = 0; i < OWN; i++) scores[i] += from_lane(scores[i], mask);
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            if (first + i * 4 + (lane >> 3) >= count) scores[i] = NEVER;
            high = fmaxf(high, scores[i]);
        }
        float kept = power_of_two(top - high);
        top = high, sum *= kept;
#pragma unroll
        for (int k = 0; k < 8; k++) columns[k] *= kept;
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            float weight = power_of_two(scores[i] - high);
            sum += weight;
#pragma unroll
            for (int k = 0; k < 8; k++) columns[k] = fmaf(weight, tokens[i][k], columns[k]);
        }
    }
    /// Merges what the four lanes of the same columns have: columns 8 (lane % 8) + `own_column` and
    /// the next one.
    __device__ __forceinline__ float2 finish() {
        float kept = power_of_two(top - most_of_lanes<8, 32>(top));
        sum *= kept;
#pragma unroll
        for (int k = 0; k < 8; k++) columns[k] *= kept;
        sum = sum_of_lanes<8, 32>(sum);
#pragma unroll
        for (int keep = 4; keep > 1; keep /= 2) {
            bool upper = lane & keep * 4;
#pragma unroll
            for (int k = 0; k < keep; k++) {
                float mine = either(upper, columns[k], columns[k + keep]),
                      other = either(upper, columns[k + keep], columns[k]);
                columns[k] = mine + from_lane(other, keep * 4);
            }
        }
        float share = reciprocal(sum);
        return make_float2(columns[0] * share, columns[1] * share);
    }
    __device__ __forceinline__ int own_column() const { return (lane & 16) / 4 + (lane & 8) / 4; }
    /// The first tokens are here and normalized, and so they are behind it.
    __device__ __forceinline__ float2 run(const float (&asked)[8]) {
        top = NOTHING, sum = 0.0f;
#pragma unroll
        for (int k = 0; k < 8; k++) columns[k] = 0.0f;
#pragma unroll 1
        for (int first = 0;;) {
            attend(asked, first);
            if (count <= CHUNK_TOKENS) break;
            first = first + CHUNK_TOKENS < count ? first + CHUNK_TOKENS : 0;
            load(first);
            normalize();
            if (first == 0) break;
        }
        return finish();
    }
};
