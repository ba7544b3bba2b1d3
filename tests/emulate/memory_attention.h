// cuda/memory_attention.cu for the CPU.
#include "repvit_matmul.h"
#include "memory_attention.cuh.norm"
#include "memory_attention.cu.norm"
#include "memory_attention.cu.projection"
