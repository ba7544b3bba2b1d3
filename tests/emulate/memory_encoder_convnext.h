// cuda/memory_encoder_convnext.cu for the CPU: after machine.h, the primitives and the sections of
// the source.
#include "../../cuda/f16x2.cuh"
#include "../../cuda/gelu.cuh"
static u32 shared_word(u32 a) { return shared_value<u32>(a); }
static float4 shared_floats(u32 a) { return shared_value<float4>(a); }
static void store_shared_word(u32 a, u32 x) { store_shared_value(a, x); }
static void store_shared_pair(u32 a, float2 x) { store_shared_value(a, x); }
static void store_shared_unit(u32 a, uint4 x) { store_shared_value(a, x); }
template <class T>
static T aligned(const void* from) {
    T r;
    memcpy(&r, inside(from, sizeof r), sizeof r);
    return r;
}
static float2 load_pair(const float* from) { return aligned<float2>(read_only(from)); }
static float4 load_floats(const float* from) { return aligned<float4>(read_only(from)); }
static uint4 load_unit(const f16* from) { return aligned<uint4>(from); }
static void store_unit(f16* to, uint4 unit) { aligned<uint4>(to); memcpy(to, &unit, sizeof unit); }
#include "memory_encoder_convnext.cuh.blocks"
#include "memory_encoder_convnext.cu.blocks"
namespace tiles128 {
#include "memory_encoder_convnext_128.cu.blocks"
}
