// cuda/repvit_block.cu for the CPU.
#include "repvit_matmul.h"
#include "repvit_block.cuh.gate"
#include "repvit_fused.cuh.blocks"
#include "repvit_block.cu.blocks"
