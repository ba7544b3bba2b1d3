// cuda/hiera_block.cu for the CPU.
#include "attention.cuh.attention"
#include "repvit_matmul.h"
static float2 load_token(const float* from) { return aligned<float2>(from); }
static void store_token(float* to, float4 x) { store_aligned(to, x); }
#include "hiera_block.cuh.tokens"
#include "hiera_block.cu.block"
