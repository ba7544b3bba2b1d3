// cuda/hiera_block.cu for the CPU.
#include "attention.cuh.attention"
#include "repvit_matmul.h"
static void load_shared(u32 (&r)[4], u32 a) { memcpy(r, shared_bytes<16>(a), 16); }
static void store_shared(u32 a, const u32 (&r)[4]) { memcpy(shared_bytes<16>(a), r, 16); }
static void prefetch(const void* from) { inside(from, 2); }
static float2 load_token(const float* from) { return aligned<float2>(from); }
static void store_token(float* to, float4 x) { aligned<float4>(to), memcpy(to, &x, sizeof x); }
static float4 load_behind_barrier(const float* from) { return load_floats(from); }
#include "hiera_block.cuh.tokens"
#include "hiera_block.cu.block"
