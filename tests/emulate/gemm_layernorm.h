// cuda/gemm_layernorm_hopper.cu for the CPU: after machine.h, the primitives and the sections of the source.
static float float_from_lane(float x, int mask) { return from_lane(x, mask); }
static void vectors_give() { turn_arrive(1 + 16 * block_of(me->id), 352); }
static void vectors_wait() { turn_join(1 + 16 * block_of(me->id), 352); }
static float2 load_two(const float* from) { inside(from, 8); return {from[0], from[1]}; }
static void store_two(float* to, float2 x) { inside(to, 8), to[0] = x.x, to[1] = x.y; }
#include "gemm_hopper.cuh.gemm"
#include "gemm_layernorm_hopper.cu.gemm"
