// cuda/gemm_layernorm_hopper.cu for the CPU: after machine.h, the primitives and the sections of the source.
static void vectors_give() { turn_arrive(1 + 16 * block_of(me->id), 352); }
static void vectors_wait() { turn_join(1 + 16 * block_of(me->id), 352); }
// Not counted: rows whose units meet in a bank are known.
static uint4 shared_unit(u32 a) { return shared_value<uint4>(a, false); }
#include "gemm_hopper.cuh.gemm"
#include "gemm_layernorm_hopper.cu.gemm"
