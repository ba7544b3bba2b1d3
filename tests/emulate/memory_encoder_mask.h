// cuda/memory_encoder_mask.cuh for the CPU: after machine.h, the primitives and the sections of the source.
static float smaller(float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }
static float exponential_of_two(float x) { return exp2f(x); }
static u32 shared_word(u32 a) { return shared_value<u32>(a); }
static float load_float(const float* from) { return *from; }
static uint4 shared_unit(u32 a) { return shared_value<uint4>(a); }
static float4 shared_floats(u32 a) { return shared_value<float4>(a); }
static float2 shared_pair(u32 a) { return shared_value<float2>(a); }
static void store_word(u32 a, u32 word) { store_shared_value(a, word); }
// These are a part of the lanes' alone.
static void store_float(u32 a, float x) { store_shared_value(a, x, false); }
static void store_words(u32 a, u32 first, u32 second) { store_shared_value(a, uint2{first, second}, false); }
#include "../../cuda/f16x2.cuh"
#include "../../cuda/gelu.cuh"
#include "memory_encoder_downsample.cuh.attention"
#include "memory_encoder_mask.cuh.convolutions"
