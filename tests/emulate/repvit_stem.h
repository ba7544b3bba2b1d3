// cuda/repvit_stem.cu for the CPU.
#include "repvit_matmul.h"
#include "repvit_stem.cu.stem"
