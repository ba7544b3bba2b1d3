// What the blocks of an encoder's trunk need besides their products and attention: each reads its tensors once and is bound by
// memory. Tokens lie in image order, columns last; columns are a multiple of 8, so that halves move in 16-byte units.
#include "common.cuh"
#include "halves.cuh"
#include "gelu.cuh"

namespace {

// The greater of each half of two words.
__device__ __forceinline__ u32 greater_halves(u32 a, u32 b) {
#ifdef __CUDA_ARCH__
    u32 word;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(word) : "r"(a), "r"(b));
    return word;
#else
    const float2 x = floats_of(a), y = floats_of(b);
    return halves_of(x.x >= y.x ? x.x : y.x, x.y >= y.y ? x.y : y.y);
#endif
}

__device__ __forceinline__ float sum_of_warp(float value) {
#pragma unroll
    for (i32 mask = 16; mask > 0; mask /= 2) value += __shfl_xor_sync(0xffffffffu, value, mask);
    return value;
}

const float EPSILON = 1e-6f;
// Bytes that one prefetch brings.
const u32 LINE = 128;

// Asks for what the next kernels read for the first time, so that it is in the L2 cache when they begin. `ahead` is a whole number of
// lines; it may lie anywhere, and nothing waits for it.
__device__ __forceinline__ void fetch_ahead(const unsigned char* __restrict__ ahead, i32 lines) {
    const u32 threads = gridDim.x * blockDim.x;
    for (u32 line = blockIdx.x * blockDim.x + threadIdx.x; line < (u32)lines; line += threads) {
#ifdef __CUDA_ARCH__
        asm volatile("prefetch.global.L2 [%0];" ::"l"(ahead + (u64)line * LINE));
#else
        // Reads what a GPU would bring, so that what lies outside is found here.
        (void)*(volatile const unsigned char*)(ahead + (u64)line * LINE);
#endif
    }
}

// ROWS rows a warp, so that enough loads are under way where rows are short. A lane has every 32nd group of four columns, UNITS in
// all, in registers: the mean first, then the squares of what differs from it.
template <i32 UNITS, i32 ROWS>
__device__ __forceinline__ void normalize_rows(const float* __restrict__ x, const float* __restrict__ weight,
                                               const float* __restrict__ bias, u16* __restrict__ out, i32 rows, i32 columns,
                                               const unsigned char* __restrict__ ahead, i32 lines) {
    const i32 lane = (i32)threadIdx.x & 31;
    const i32 first = (i32)(blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5)) * ROWS;
    if (first >= rows) return fetch_ahead(ahead, lines);
    const i32 units = columns >> 2;
    // Only the last unit of a lane may lie behind the row.
    const bool last = lane + 32 * (UNITS - 1) < units;
    float4 values[ROWS][UNITS];
#pragma unroll
    for (i32 r = 0; r < ROWS; r++) {
        const float4* row = (const float4*)x + (u64)at_most(first + r, rows - 1) * units + lane;
#pragma unroll
        for (i32 j = 0; j < UNITS; j++) {
            values[r][j] = {0.0f, 0.0f, 0.0f, 0.0f};
            if (j < UNITS - 1 || last) values[r][j] = row[32 * j];
        }
    }
    // Behind this warp's own loads.
    fetch_ahead(ahead, lines);
    const float share = 1.0f / (float)columns;
    float mean[ROWS], scale[ROWS];
#pragma unroll
    for (i32 r = 0; r < ROWS; r++) {
        float sum = 0.0f;
#pragma unroll
        for (i32 j = 0; j < UNITS; j++) sum += (values[r][j].x + values[r][j].y) + (values[r][j].z + values[r][j].w);
        mean[r] = sum_of_warp(sum) * share;
    }
#pragma unroll
    for (i32 r = 0; r < ROWS; r++) {
        float sum = 0.0f;
#pragma unroll
        for (i32 j = 0; j < UNITS; j++) {
            if (j < UNITS - 1 || last) {
                const float a = values[r][j].x - mean[r], b = values[r][j].y - mean[r];
                const float c = values[r][j].z - mean[r], d = values[r][j].w - mean[r];
                sum += (a * a + b * b) + (c * c + d * d);
            }
        }
        scale[r] = rsqrtf(sum_of_warp(sum) * share + EPSILON);
    }
#pragma unroll
    for (i32 j = 0; j < UNITS; j++) {
        if (j == UNITS - 1 && !last) break;
        const float4 w = ((const float4*)weight)[lane + 32 * j], b = ((const float4*)bias)[lane + 32 * j];
#pragma unroll
        for (i32 r = 0; r < ROWS; r++) {
            if (first + r >= rows) break;
            const float4 v = values[r][j];
            const float m = mean[r], s = scale[r];
            uint2 four;
            four.x = halves_of((v.x - m) * s * w.x + b.x, (v.y - m) * s * w.y + b.y);
            four.y = halves_of((v.z - m) * s * w.z + b.z, (v.w - m) * s * w.w + b.w);
            ((uint2*)out)[(u64)(first + r) * units + lane + 32 * j] = four;
        }
    }
}

}  // namespace

// LayerNorm: `out` f16 [rows, columns] of `x` f32, weight and bias f32 [columns]. A warp has 4, 2 or 1 rows (rows_of_a_warp in
// src/gpu/kernels/trunk.rs); 1152 columns at most. On the way `lines` lines of 128 bytes from `ahead` on are brought into the L2 cache.
extern "C" __global__ void __launch_bounds__(256)
    trunk_normalize(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
                    u16* __restrict__ out, i32 rows, i32 columns, const unsigned char* __restrict__ ahead, i32 lines) {
    switch ((columns + 127) / 128) {
        case 1: return normalize_rows<1, 4>(x, weight, bias, out, rows, columns, ahead, lines);
        case 2: return normalize_rows<2, 2>(x, weight, bias, out, rows, columns, ahead, lines);
        case 3: return normalize_rows<3, 2>(x, weight, bias, out, rows, columns, ahead, lines);
        case 4: return normalize_rows<4, 1>(x, weight, bias, out, rows, columns, ahead, lines);
        case 5: return normalize_rows<5, 1>(x, weight, bias, out, rows, columns, ahead, lines);
        case 6: return normalize_rows<6, 1>(x, weight, bias, out, rows, columns, ahead, lines);
        case 7: return normalize_rows<7, 1>(x, weight, bias, out, rows, columns, ahead, lines);
        case 8: return normalize_rows<8, 1>(x, weight, bias, out, rows, columns, ahead, lines);
        case 9: return normalize_rows<9, 1>(x, weight, bias, out, rows, columns, ahead, lines);
    }
}

// The activation, in place, a 16-byte unit a thread.
extern "C" __global__ void __launch_bounds__(256) trunk_gelu(uint4* x, i32 units) {
    const i32 at = (i32)(blockIdx.x * blockDim.x + threadIdx.x);
    if (at >= units) return;
    uint4 eight = x[at];
    eight.x = gelu_halves(eight.x), eight.y = gelu_halves(eight.y);
    eight.z = gelu_halves(eight.z), eight.w = gelu_halves(eight.w);
    x[at] = eight;
}

// The maximum over 2x2 tokens: `x` f32 [side^2, columns] of `s` f16 [4 side^2, columns].
extern "C" __global__ void __launch_bounds__(256)
    trunk_pool(const uint4* __restrict__ s, float4* __restrict__ x, i32 side, i32 columns) {
    const i32 at = (i32)(blockIdx.x * blockDim.x + threadIdx.x), units = columns / 8;
    if (at >= side * side * units) return;
    const i32 token = at / units, unit = at % units, row = token / side, column = token % side;
    // Two rows of 2 `side` tokens for each row of the result.
    const uint4* from = s + ((u64)(row * 4 * side) + column * 2) * units + unit;
    const uint4 a = from[0], b = from[units], c = from[2 * side * units], d = from[(2 * side + 1) * units];
    const float2 first = floats_of(greater_halves(greater_halves(a.x, b.x), greater_halves(c.x, d.x)));
    const float2 second = floats_of(greater_halves(greater_halves(a.y, b.y), greater_halves(c.y, d.y)));
    const float2 third = floats_of(greater_halves(greater_halves(a.z, b.z), greater_halves(c.z, d.z)));
    const float2 fourth = floats_of(greater_halves(greater_halves(a.w, b.w), greater_halves(c.w, d.w)));
    x[2 * (u64)at] = {first.x, first.y, second.x, second.y};
    x[2 * (u64)at + 1] = {third.x, third.y, fourth.x, fourth.y};
}
