// cuda/memory_attention_mlp.cu for the CPU.
#include "repvit_matmul.h"
#include "memory_attention_mlp.cu.gemm"
