// cuda/memory_attention_tail.cu for the CPU.
#include "attention.cuh.attention"
#include "repvit_matmul.h"
#include "memory_attention.cuh.norm"
static float4 load_floats_early(const float* from) { return aligned<float4>(from); }
#include "memory_attention_tail.cu.tail"
