// Kernels of Hiera's blocks besides GEMM and attention. Each reads its tensors once and is bound by
// memory. Tokens lie in image order, columns last; columns are a multiple of 8, so that f16 move in
// 16-byte units. 256 threads a block, no shared memory.
//
// | kernel          | input          | output         | work of a thread              |
// |-----------------|----------------|----------------|-------------------------------|
// | hiera_layernorm | f32 [M, N]     | f16 [M, N]     | 1, 2 or 4 rows a warp         |
// | hiera_gelu      | f16            | f16, in place  | 8 elements                    |
// | hiera_max_pool  | f16 [4 S^2, N] | f32 [S^2, N]   | 8 columns of 2x2 tokens       |
#ifdef __CUDACC__  // The emulation has its own.
#include "ptx.cuh"
#endif
#include "common.cuh"
#include "arithmetic.cuh"
#include "gelu.cuh"
#include "layernorm.cuh"

namespace {

// A launch without PDL: all earlier kernels have ended.
struct Behind {
    static constexpr bool EARLY = false;
    static __device__ __forceinline__ void wait() {}
    static __device__ __forceinline__ float4 token(const float4* from) { return *from; }
};

}  // namespace

// LayerNorm (layernorm.cuh).
extern "C" __global__ void __launch_bounds__(256)
    hiera_layernorm(const float* __restrict__ x, const float* __restrict__ weight,
                    const float* __restrict__ bias, u16* __restrict__ out, i32 rows, i32 columns,
                    const unsigned char* __restrict__ ahead, i32 lines) {
    normalize<Behind>(x, weight, bias, out, rows, columns, ahead, lines);
}

// GELU in place, a 16-byte unit a thread.
extern "C" __global__ void __launch_bounds__(256) hiera_gelu(uint4* x, i32 units) {
    const i32 at = (i32)(blockIdx.x * blockDim.x + threadIdx.x);
    if (at >= units) return;
    uint4 eight = x[at];
    eight.x = gelu_halves(eight.x), eight.y = gelu_halves(eight.y);
    eight.z = gelu_halves(eight.z), eight.w = gelu_halves(eight.w);
    x[at] = eight;
}

// The maximum over 2x2 tokens: `x` f32 [side^2, columns] of `s` f16 [4 side^2, columns].
extern "C" __global__ void __launch_bounds__(256)
    hiera_max_pool(const uint4* s, float4* x, i32 side, i32 columns) {
    dependent_wait();
    dependent_launch();
    const i32 at = (i32)(blockIdx.x * blockDim.x + threadIdx.x), units = columns / 8;
    if (at >= side * side * units) return;
    const i32 token = at / units, unit = at % units, row = token / side, column = token % side;
    // Two rows of 2 `side` tokens for each row of the result.
    const uint4* from = s + ((u64)(row * 4 * side) + column * 2) * units + unit;
    const uint4 a = from[0], b = from[units], c = from[2 * side * units], d = from[(2 * side + 1) * units];
    const float2 first = to_float2(greater_halves(greater_halves(a.x, b.x), greater_halves(c.x, d.x)));
    const float2 second = to_float2(greater_halves(greater_halves(a.y, b.y), greater_halves(c.y, d.y)));
    const float2 third = to_float2(greater_halves(greater_halves(a.z, b.z), greater_halves(c.z, d.z)));
    const float2 fourth = to_float2(greater_halves(greater_halves(a.w, b.w), greater_halves(c.w, d.w)));
    x[2 * (u64)at] = {first.x, first.y, second.x, second.y};
    x[2 * (u64)at + 1] = {third.x, third.y, fourth.x, fourth.y};
}
