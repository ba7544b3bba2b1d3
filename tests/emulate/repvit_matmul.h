// What cuda/repvit.cu and cuda/repvit_block.cu share, for the CPU: after machine.h, the primitives
// and cuda/repvit.cuh's matmul.
#include "../../cuda/f16x2.cuh"
#include "../../cuda/gelu.cuh"
template <class T>
static T aligned(const void* from) {
    T r;
    memcpy(&r, inside(from, sizeof r), sizeof r);
    return r;
}
static float2 load_pair(const float* from) { return aligned<float2>(read_only(from)); }
static float4 load_floats(const float* from) { return aligned<float4>(read_only(from)); }
static float load_float(const float* from) { return aligned<float>(read_only(from)); }
static u32 load_word(const f16* from) { return aligned<u32>(read_only(from)); }
static void load_weights(u32 (&r)[4], const f16* from) { memcpy(r, inside(read_only(from), 16), 16); }
static void load_weights_early(u32 (&r)[4], const f16* from) { memcpy(r, inside(from, 16), 16); }
static uint2 load_halves(const f16* from) { return aligned<uint2>(from); }
static void store_halves(f16* to, uint2 halves) { aligned<uint2>(to); memcpy(to, &halves, sizeof halves); }
static u32 shared_word(u32 a) { return shared_value<u32>(a); }
static void store_shared_word(u32 a, u32 x) { store_shared_value(a, x); }
static float2 load_shared_pair(u32 a) { return shared_value<float2>(a); }
static void store_shared_pair(u32 a, float2 x) { store_shared_value(a, x); }
// One lane of a warp.
static void store_shared_float(u32 a, float x) { store_shared_value(a, x, false); }
static uint2 shared_halves(u32 a) { return shared_value<uint2>(a); }
static void store_shared_halves(u32 a, uint2 x) { store_shared_value(a, x); }
static float4 load_shared_floats(u32 a) { return shared_value<float4>(a); }
static void store_shared_floats(u32 a, float4 x) { store_shared_value(a, x); }
static void add_fixed(long long* to, float units) { *to += llrintf(units); }
static float exponential(float x) { return expf(x); }
#include "repvit.cuh.matmul"
