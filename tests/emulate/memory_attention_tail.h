// cuda/memory_attention_tail.cu for the CPU.
#include "attention.cuh.attention"
#include "repvit_matmul.h"
#include "memory_attention.cuh.norm"
#include "memory_attention_tail.cu.tail"
