// cuda/memory_encoder_fuse.cu for the CPU: after machine.h, the primitives and the sections of the source.
static void store_unit(void* to, uint4 x) { memcpy(stored_at((f16*)to, 8), &x, sizeof x); }
#include "../../cuda/gelu.cuh"
#include "memory_encoder_fuse.cu.attention"
