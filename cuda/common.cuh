// Shared by all kernels: integers of exact width, bytes of a frame, and float arithmetic that no
// compiler may contract.
//
// Nothing is included, so that NVRTC needs no headers. The same files are compiled for the host by
// the tests (tests/data/gpu/emulate.cpp), which bring stand-ins for what CUDA C++ adds to C++.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef unsigned long long u64;
static_assert(sizeof(u16) == 2 && sizeof(i32) == 4 && sizeof(u32) == 4 && sizeof(u64) == 8, "exact widths");

// Two products and their sum, each rounded: what the host computes without fused multiply-add.
__device__ __forceinline__ float blend(float keep, float a, float weight, float b) {
    return __fadd_rn(__fmul_rn(keep, a), __fmul_rn(weight, b));
}

__device__ __forceinline__ i32 at_most(i32 a, i32 b) { return a < b ? a : b; }
__device__ __forceinline__ i32 at_least(i32 a, i32 b) { return a > b ? a : b; }

// The bits of the half that is nearest to a float, ties to even.
__device__ __forceinline__ u16 half_bits(float value) {
#ifdef __CUDA_ARCH__
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    return host_half_bits(value);
#endif
}
