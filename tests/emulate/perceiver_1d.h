// cuda/perceiver_1d.cu for the CPU: after machine.h, the primitives and the sections of the source.
static float load_shared_float(u32 a) { return shared_value<float>(a); }
// Of some lanes of a warp.
static float2 load_shared_pair(u32 a) { return shared_value<float2>(a, false); }
static void store_shared_pair(u32 a, float2 r) { store_shared_value(a, r, false); }
#include "attention.cuh.attention"
#include "../../cuda/gelu.cuh"
#include "perceiver_1d.cuh.attention"
#include "perceiver_1d_latents.cuh.latents"
#include "perceiver_1d.cu.attention"
