// What cuda/repvit.cu and cuda/repvit_block.cu share, for the CPU: after machine.h, the primitives
// and cuda/repvit.cuh's matmul.
#include "../../cuda/gelu.cuh"
static u32 load_word(const f16* from) { return aligned<u32>(read_only(from)); }
static void load_weights(u32 (&r)[4], const f16* from) { memcpy(r, inside(read_only(from), 16), 16); }
static void store_halves(f16* to, uint2 halves) { store_aligned(to, halves); }
static void add_fixed(long long* to, float units) { *to += llrintf(units); }
#include "repvit.cuh.matmul"
