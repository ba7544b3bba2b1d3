/*!
What is read from the mask decoder's tokens, for any GPU from sm 80 on: object score, predicted IoUs
of masks 1 to 3, and of the best of these the vector that its pixels are multiplied by and its
pointer. All are MLPs of three layers and a row each, in f32, for they decide about masks; the
pointer leaves as halves, which is what the memory bank keeps.

Vectors times matrices in f32, without tensor cores; sm 80 on. All weights of a thread are one stage.

| kernel                    | M, N, K of a layer          | tile of N | threads | shared bytes |
|---------------------------|-----------------------------|-----------|---------|--------------|
| mask_decoder_head_mlps    | 1 of 8 MLPs, 256, 256       | 64        | 256     | 2 048        |
| mask_decoder_head_outputs | 1 of 8 MLPs, up to 256, 256 | 64        | 256     | 10 256       |

A block has 64 columns of a layer and asks for all of their weights at once, 256 bytes a thread.
(`__launch_bounds__` says that a single block to a multiprocessor is enough: ptxas, left alone,
saves registers, asks for a few words, waits for them, and asks for the next ones.)
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"

// ---- heads ----

constexpr int WIDTH = 256;
// Rows of an inner layer: score, IoU, three vectors, three pointers.
constexpr int NETWORKS = 8;
constexpr int MASKS = 3;                            // that a frame chooses from; mask 0 is not among them
constexpr int VECTOR = 32;
constexpr int WARPS = 8, HEAD_THREADS = WARPS * 32;
constexpr int PART = 64;                            // columns of a block
// That a thread sums over: sixteen threads have a part's columns, four each.
constexpr int ROWS = WIDTH / (HEAD_THREADS / 16);
static_assert(PART == 16 * 4, "columns of sixteen threads");
static_assert(HEAD_THREADS == VECTOR * WARPS && WIDTH == PART * VECTOR / WARPS,
              "a block has a column of the vector for each warp");

/// A row of 256 by 64 columns of a weight [256, 256].
struct Product {
    float4 weights[ROWS];
    __device__ __forceinline__ static int first_row() { return threadIdx.x / 16 * ROWS; }
    __device__ __forceinline__ void load(const float* weight, int column) {
        const float* from = weight + first_row() * WIDTH + column;
#pragma unroll
        for (int i = 0; i < ROWS; i++) weights[i] = ((const float4*)(from + i * WIDTH))[threadIdx.x & 15];
    }
    /// Of threads below 64: the sum of the column of this number. `row`: this thread's rows'
    /// values.
    __device__ __forceinline__ float run(const float4 (&row)[ROWS / 4], float (&shared)[WARPS][PART]) const {
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            float4 four = row[i / 4], w = weights[i];
            float x = i % 4 == 0 ? four.x : i % 4 == 1 ? four.y : i % 4 == 2 ? four.z : four.w;
            sum.x += x * w.x, sum.y += x * w.y, sum.z += x * w.z, sum.w += x * w.w;
        }
        sum.x += from_lane(sum.x, 16), sum.y += from_lane(sum.y, 16), sum.z += from_lane(sum.z, 16),
            sum.w += from_lane(sum.w, 16);
        int lane = threadIdx.x & 31;
        if (lane < 16) ((float4*)shared[threadIdx.x >> 5])[lane] = sum;
        block_barrier();
        float all = 0.0f;
        if (threadIdx.x < PART)
#pragma unroll
            for (int i = 0; i < WARPS; i++) all += shared[i][threadIdx.x];
        return all;
    }
};
/// A thread's values of a row.
__device__ __forceinline__ void load_row(float4 (&to)[ROWS / 4], const float* row) {
#pragma unroll
    for (int i = 0; i < ROWS / 4; i++) to[i] = ((const float4*)(row + Product::first_row()))[i];
}
struct InnerShared {
    alignas(16) float sums[WARPS][PART];
};

/// An inner layer of all MLPs with its ReLU, which lets a NaN through. The three pointers are of
/// one MLP, the last; tokens are score, IoU and masks 0 to 3.
__device__ __forceinline__ void inner_layer(const float* rows, const float* weight, const float* bias,
                                            float* out, int first, InnerShared& shared) {
    int row = blockIdx.x, network = row < 5 ? row : 5, column = blockIdx.y * PART;
    int token = row < 2 ? row : 3 + (row - 2) % MASKS;
    Product product;
    float4 values[ROWS / 4];
    product.load(weight + network * WIDTH * WIDTH, column);
    float own = threadIdx.x < PART ? bias[network * WIDTH + column + threadIdx.x] : 0.0f;
    dependent_wait();
    dependent_launch();
    load_row(values, rows + (first ? token : row) * WIDTH);
    float y = product.run(values, shared.sums) + own;
    if (threadIdx.x < PART) out[row * WIDTH + column + threadIdx.x] = y < 0.0f ? 0.0f : y;
}

/// Eight weights of a row of 257, whose bias is the last: of lane, lane + 32, ...
struct Output {
    float weights[8], bias;
    __device__ __forceinline__ void load(const float* row, int lane) {
#pragma unroll
        for (int i = 0; i < 8; i++) weights[i] = row[lane + i * 32];
        bias = row[WIDTH];
    }
    /// This lane's share of the product, without the bias.
    __device__ __forceinline__ float part(const float* x, int lane) const {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < 8; i++) sum += weights[i] * x[lane + i * 32];
        return sum;
    }
};

struct AnswerProblem {
    const float *rows, *score_weight, *iou_weight, *hyper_weight, *pointer_weight, *no_pointer;
    float *iou, *ious;
    f16* pointer;
    float *score, *vector;
    int probable;
};
struct AnswerShared {
    alignas(16) float rows[NETWORKS][WIDTH];
    alignas(16) float sums[WARPS][PART];
    float ious[MASKS], score;
};

/// The last layers. Each block finds the score and the best mask itself and has a quarter of its
/// pointer and of its vector.
__device__ __forceinline__ void answer(const AnswerProblem& p, AnswerShared& shared) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, column = blockIdx.x * PART,
        of_vector = blockIdx.x * WARPS + warp;
    // Warps 0 to 2 have an IoU, the others the score; which vector it will be is not known yet.
    Output own, vectors[MASKS];
    own.load(warp < MASKS ? p.iou_weight + (1 + warp) * (WIDTH + 1) : p.score_weight, lane);
#pragma unroll
    for (int i = 0; i < MASKS; i++)
        vectors[i].load(p.hyper_weight + (i * VECTOR + of_vector) * (WIDTH + 1), lane);
    Product product;
    product.load(p.pointer_weight, column);
    float pointer_bias = 0.0f, none = 0.0f;
    if (threadIdx.x < PART)
        pointer_bias = p.pointer_weight[WIDTH * WIDTH + column + threadIdx.x],
        none = p.no_pointer[column + threadIdx.x];
    dependent_wait();
    dependent_launch();
    float4 rows[2];
#pragma unroll
    for (int i = 0; i < 2; i++) rows[i] = ((const float4*)p.rows)[threadIdx.x + i * HEAD_THREADS];
#pragma unroll
    for (int i = 0; i < 2; i++) ((float4*)shared.rows[0])[threadIdx.x + i * HEAD_THREADS] = rows[i];
    block_barrier();
    float decides = sum_of_lanes<1, 32>(own.part(shared.rows[warp < MASKS ? 1 : 0], lane)) + own.bias;
    if (warp < MASKS && p.probable) decides = 1.0f / (1.0f + power_of_two(-decides * LOG2E));
    if (lane == 0 && warp <= MASKS) (warp < MASKS ? shared.ious[warp] : shared.score) = decides;
    float shares[MASKS];
#pragma unroll
    for (int i = 0; i < MASKS; i++) shares[i] = vectors[i].part(shared.rows[2 + i], lane);
    block_barrier();
    int best = 0;
    float iou = shared.ious[0], score = shared.score, part = shares[0], bias = vectors[0].bias;
#pragma unroll
    for (int i = 1; i < MASKS; i++) {
        // The first of equals.
        float other = shared.ious[i];
        if (other > iou) best = i, iou = other, part = shares[i], bias = vectors[i].bias;
    }
    part = sum_of_lanes<1, 32>(part) + bias;
    if (lane == 0) p.vector[of_vector] = part;
    if (blockIdx.x == 0 && threadIdx.x == 0) p.iou[0] = iou, p.score[0] = score;
    if (blockIdx.x == 0 && threadIdx.x < MASKS) p.ious[threadIdx.x] = shared.ious[threadIdx.x];
    float4 values[ROWS / 4];
    load_row(values, shared.rows[2 + MASKS + best]);
    float y = product.run(values, shared.sums) + pointer_bias;
    float kept = score > 0.0f ? y : none;
    if (threadIdx.x < PART) p.pointer[column + threadIdx.x] = (f16)to_f16x2(kept, kept);
}

// ---- instances ----

extern "C" __global__ void __launch_bounds__(HEAD_THREADS, 1)
    mask_decoder_head_mlps(const float* rows, const float* weight, const float* bias, float* out, int first) {
    __shared__ InnerShared shared;
    inner_layer(rows, weight, bias, out, first, shared);
}

extern "C" __global__ void __launch_bounds__(HEAD_THREADS, 1)
    mask_decoder_head_outputs(const float* rows, const float* score_weight, const float* iou_weight,
                              const float* hyper_weight, const float* pointer_weight, const float* no_pointer,
                              float* iou, float* ious, f16* pointer, float* score, float* vector,
                              int probable) {
    __shared__ AnswerShared shared;
    answer({rows, score_weight, iou_weight, hyper_weight, pointer_weight, no_pointer, iou, ious, pointer,
            score, vector, probable},
           shared);
}
