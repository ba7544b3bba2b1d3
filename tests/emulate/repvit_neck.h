// cuda/repvit_neck.cu for the CPU.
#include "repvit_matmul.h"
#include "repvit_neck.cu.neck"
