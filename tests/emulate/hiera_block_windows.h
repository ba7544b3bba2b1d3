// cuda/hiera_block_windows.cu for the CPU.
#include "hiera_block.h"
#include "hiera_block_windows.cu.block"
