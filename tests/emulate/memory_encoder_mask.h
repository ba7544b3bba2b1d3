// cuda/memory_encoder_mask.cuh for the CPU: after machine.h, the primitives and the sections of the source.
static float load_coherent_float(const float* from) { return *from; }
// Of some lanes of a warp.
static void store_shared_halves(u32 a, uint2 x) { store_shared_value(a, x, false); }
#include "../../cuda/gelu.cuh"
#include "memory_encoder_downsample.cuh.attention"
#include "memory_encoder_mask.cuh.convolutions"
