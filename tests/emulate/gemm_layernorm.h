// cuda/gemm_layernorm_hopper.cu and gemm_moments_hopper.cu for the CPU: after cluster.h, gemm_hopper.cuh and prefetch_far_line, the
// primitives and the sections of the sources.
static void vectors_give() { turn_arrive(1 + 16 * block_of(me->id), 352); }
static void vectors_wait() { turn_join(1 + 16 * block_of(me->id), 352); }
#include "gemm_residual.cuh.gemm"
#include "gemm_layernorm_hopper.cu.gemm"
#include "gemm_moments_hopper.cu.gemm"
