// Pairs of halves and the floats that they stand for.
#pragma once

namespace {

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

}  // namespace
