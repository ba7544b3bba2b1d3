// cuda/mask_decoder_upscale.cu for the CPU: after machine.h, the primitives and the sections of the source.
static uint4 shared_unit(u32 a) { return shared_value<uint4>(a); }
static float4 shared_floats(u32 a) { return shared_value<float4>(a); }
static void store_two(float* to, float first, float second) { stored_at(to, 2)[0] = first, to[1] = second; }
template <class T> static T either(bool second, T a, T b) { return second ? b : a; }
#include "../../cuda/f16x2.cuh"
#include "../../cuda/gelu.cuh"
#include "mask_decoder_upscale.cu.attention"
