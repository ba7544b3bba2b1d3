// cuda/hiera_stem.cu for the CPU.
#include "repvit_matmul.h"
#include "hiera_stem.cu.stem"
