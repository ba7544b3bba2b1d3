// cuda/hiera_stem.cu for the CPU.
#include "repvit_matmul.h"
static void load_shared(u32 (&r)[4], u32 a) { memcpy(r, shared_bytes<16>(a), 16); }
static void prefetch(const void* from) { inside(from, 2); }
#include "hiera_stem.cu.stem"
