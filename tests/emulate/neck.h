// cuda/neck.cu for the CPU.
#include "repvit_matmul.h"
static void load_shared(u32 (&r)[4], u32 a) { memcpy(r, shared_bytes<16>(a), 16); }
#include "neck.cuh.shares"
#include "neck.cu.neck"
