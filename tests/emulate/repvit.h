// cuda/repvit.cu for the CPU.
#include "repvit_matmul.h"
#include "repvit.cu.sums"
#include "repvit.cu.convolution"
#include "repvit.cu.gemm"
