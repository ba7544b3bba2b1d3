// cuda/mask_decoder_upscale.cu for the CPU: after machine.h, the primitives and the sections of the source.
static void store_pair(float* to, float2 x) { memcpy(stored_at(to, 2), &x, sizeof x); }
#include "../../cuda/gelu.cuh"
#include "mask_decoder_upscale.cu.attention"
