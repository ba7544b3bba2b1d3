// cuda/perceiver_1d.cu for the CPU: after machine.h, the primitives and the sections of the source.
static u32 zero_behind_barrier() { block_barrier(); return 0; }
static void load_unit(u32 (&r)[4], const f16* from) {
    if ((size_t)from % 16) printf("misaligned\n"), exit(1);
    memcpy(r, from, 16);
}
static float4 load_floats(const float* from) {
    if ((size_t)from % 16) printf("misaligned\n"), exit(1);
    return *(const float4*)from;
}
static void load_shared(u32 (&r)[4], u32 a) { memcpy(r, shared_bytes<16>(a), 16); }
static void store_shared(u32 a, const u32 (&r)[4]) { memcpy(shared_bytes<16>(a), r, 16); }
static float4 load_shared_floats(u32 a) { return shared_value<float4>(a); }
static void store_shared_floats(u32 a, float4 r) { store_shared_value(a, r); }
static float load_shared_float(u32 a) { return shared_value<float>(a); }
static void store_shared_word(u32 a, u32 r) { store_shared_value(a, r); }
static void store_shared_words(u32 a, u32 x, u32 y) { store_shared_value(a, uint2{x, y}); }
// Some of these are a part of the lanes' alone.
static float2 load_shared_pair(u32 a) { return shared_value<float2>(a, false); }
static void store_shared_pair(u32 a, float2 r) { store_shared_value(a, r, false); }
static void store_shared_float(u32 a, float r) { store_shared_value(a, r, false); }
#include "attention.cuh.attention"
#include "../../cuda/f16x2.cuh"
#include "../../cuda/gelu.cuh"
#include "perceiver_1d.cuh.attention"
#include "perceiver_1d_latents.cuh.latents"
#include "perceiver_1d.cu.attention"
