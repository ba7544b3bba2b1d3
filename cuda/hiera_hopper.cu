// LayerNorm with programmatic dependent launch (PDL), for Hopper only: it begins before the
// previous GEMM has ended. M, N, threads and rows of a warp as hiera_layernorm (hiera.cu).
#ifdef __CUDACC__  // The emulation has its own.
#include "ptx.cuh"
#include "wgmma.cuh"
#endif
#include "common.cuh"
#include "arithmetic.cuh"
#include "layernorm.cuh"

namespace {

struct Early {
    static constexpr bool EARLY = true;
    static __device__ __forceinline__ void wait() {
        pdl_wait();
        pdl_launch_dependents();
    }
    /// No load through the read-only cache, and none before the wait, where the compiler may move
    /// loads of constants.
    static __device__ __forceinline__ float4 token(const float4* from) {
        return load_coherent_floats((const float*)from);
    }
};

}  // namespace

// LayerNorm (layernorm.cuh); it waits for the previous kernel before it touches tokens.
extern "C" __global__ void __launch_bounds__(256)
    hiera_layernorm_hopper(const float* x, const float* __restrict__ weight, const float* __restrict__ bias,
                           u16* __restrict__ out, i32 rows, i32 columns,
                           const unsigned char* __restrict__ ahead, i32 lines) {
    normalize<Early>(x, weight, bias, out, rows, columns, ahead, lines);
}
