// What of a trunk can begin before the kernel in front of it has ended, for Hopper alone: the layer normalisation behind a product.
#include "common.cuh"
#include "halves.cuh"
#include "layernorm.cuh"
#include "wgmma.cuh"

namespace {

struct Early {
    static constexpr bool EARLY = true;
    static __device__ __forceinline__ void wait() {
        grid_wait();
        grid_release();
    }
    /// Not by way of the cache for what nothing writes, nor moved in front of the wait, as the compiler may do with constants.
    static __device__ __forceinline__ float4 token(const float4* from) {
        float4 r;
        asm volatile("ld.global.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(r.x), "=f"(r.y), "=f"(r.z), "=f"(r.w) : "l"(from) : "memory");
        return r;
    }
};

}  // namespace

// LayerNorm, as layernorm.cuh says; it waits for the kernel in front before it touches tokens.
extern "C" __global__ void __launch_bounds__(256)
    hiera_layernorm_hopper(const float* x, const float* __restrict__ weight, const float* __restrict__ bias,
                           u16* __restrict__ out, i32 rows, i32 columns, const unsigned char* __restrict__ ahead, i32 lines) {
    normalize<Early>(x, weight, bias, out, rows, columns, ahead, lines);
}
