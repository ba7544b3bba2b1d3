// GELU of an MLP's hidden layer. The kernel that reads it from memory (hiera.cu) and the GEMM's
// epilogue (gemm_gelu_hopper.cu) compute the same.
#pragma once

namespace {

// x Phi(x) = max(x, 0) - |x| Phi(-|x|), and Phi(-a) = 2^P(a): P is smooth, and so is known to 4e-6
// of Phi up to a = 4, to 5e-5 up to 5.6 (f16 has 5e-4), with one polynomial where erf takes two and
// loses the far side's digits. Beyond 6 the second term is nothing in f16.
__device__ __forceinline__ float gelu(float x) {
    const float a = smaller(fabsf(x), 6.0f);
    float p = -1.72471755e-06f;
    p = fmaf(p, a, 5.97912804e-05f);
    p = fmaf(p, a, -0.00091908063f);
    p = fmaf(p, a, 0.00847275276f);
    p = fmaf(p, a, -0.0539062992f);
    p = fmaf(p, a, -0.458501965f);
    p = fmaf(p, a, -1.1512419f);
    p = fmaf(p, a, -0.99999553f);
    // A NaN comes through `a`.
    return fmaf(-a, power_of_two(p), fmaxf(x, 0.0f));
}

__device__ __forceinline__ u32 gelu_halves(u32 word) {
    const float2 pair = to_float2(word);
    return to_f16x2(gelu(pair.x), gelu(pair.y));
}

}  // namespace
