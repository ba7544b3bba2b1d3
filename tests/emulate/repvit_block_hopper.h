// cuda/repvit_block_hopper.cu for the CPU, behind cluster.h.
#include "repvit_matmul.h"
#define block_barrier barrier_of_block
#include "repvit_block.cuh.gate"
#include "repvit_fused.cuh.blocks"
#include "repvit_block_hopper.cu.blocks"
#undef block_barrier
