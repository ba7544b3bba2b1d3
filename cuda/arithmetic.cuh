// Arithmetic of few instructions: pairs of halves, powers of two, and extremes that do not hide a NaN.
// The host runs the same sources in tests, with functions in place of instructions (half.h). Needs
// ptx.cuh or common.cuh in front.
#pragma once

namespace {

constexpr float LOG2E = 1.4426950408889634f;

// Two halves of a word: the float in each, and the word made of two floats.
__device__ __forceinline__ float2 to_float2(u32 word) {
    float2 pair;
#ifdef __CUDA_ARCH__
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
        : "=f"(pair.x), "=f"(pair.y) : "r"(word));
#else
    pair = {host_halves()[word & 0xffff], host_halves()[word >> 16]};
#endif
    return pair;
}
__device__ __forceinline__ u32 to_f16x2(float low, float high) {
#ifdef __CUDA_ARCH__
    u32 word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    return host_half_bits(low) | (u32)host_half_bits(high) << 16;
#endif
}
// The sum of two words' halves, added as floats.
__device__ __forceinline__ u32 sum_of_halves(u32 a, u32 b) {
    const float2 one = to_float2(a), other = to_float2(b);
    return to_f16x2(one.x + other.x, one.y + other.y);
}
// The greater of each half of two words; a NaN where either is one.
__device__ __forceinline__ u32 greater_halves(u32 a, u32 b) {
#ifdef __CUDA_ARCH__
    u32 word;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(word) : "r"(a), "r"(b));
    return word;
#else
    const float2 x = to_float2(a), y = to_float2(b);
    auto of = [](float one, float other) { return one != one || one >= other ? one : other; };
    return to_f16x2(of(x.x, y.x), of(x.y, y.y));
#endif
}
// The smaller of two; a NaN where either is one.
__device__ __forceinline__ float smaller(float a, float b) {
#ifdef __CUDA_ARCH__
    float least;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
    return least;
#else
    return a != a ? a : b != b ? b : fminf(a, b);
#endif
}
// 2 to the x, to some 2^-22 of it. On a GPU results below 2^-126 are 0.
__device__ __forceinline__ float power_of_two(float x) {
#ifdef __CUDA_ARCH__
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
#else
    return exp2f(x);
#endif
}
// e to the x, by a power of two.
__device__ __forceinline__ float exponential(float x) { return power_of_two(x * LOG2E); }
__device__ __forceinline__ void add_scaled(float4& sum, float4 x, float scale) {
    sum.x += x.x * scale, sum.y += x.y * scale, sum.z += x.z * scale, sum.w += x.w * scale;
}

}  // namespace
