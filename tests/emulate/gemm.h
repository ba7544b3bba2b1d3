// cuda/gemm_bias_hopper.cu and gemm_gelu_hopper.cu for the CPU: after cluster.h.
static void last_group_barrier() { turn_join(4 + 16 * block_of(me->id), 128); }
#include "gemm_hopper.cuh.gemm"
#include "gemm_bias_hopper.cu.gemm"
#include "gemm_gelu_hopper.cu.gemm"
