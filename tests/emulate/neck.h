// cuda/neck.cu for the CPU.
#include "repvit_matmul.h"
#include "neck.cuh.shares"
#include "neck.cu.neck"
