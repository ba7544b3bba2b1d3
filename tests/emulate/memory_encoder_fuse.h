// cuda/memory_encoder_fuse.cu for the CPU: after machine.h, the primitives and the sections of the source.
static void load_shared(u32 (&r)[4], u32 a) { memcpy(r, shared_bytes<16>(a), 16); }
static float4 load_shared_floats(u32 a) { return shared_value<float4>(a); }
static void store_shared(u32 a, const u32 (&r)[4]) { memcpy(shared_bytes<16>(a), r, 16); }
static void store_shared_pair(u32 a, float first, float second) {
    store_shared_value(a, float2{first, second});
}
static void store_unit(f16* to, const u32 (&r)[4]) { memcpy(stored_at(to, 8), r, 16); }
#include "../../cuda/f16x2.cuh"
#include "../../cuda/gelu.cuh"
#include "memory_encoder_fuse.cu.attention"
