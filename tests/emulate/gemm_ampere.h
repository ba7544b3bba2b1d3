// cuda/gemm.cu for the CPU: after machine.h, the primitives and the sections of the source.
#include "../../cuda/f16x2.cuh"
#include "../../cuda/gelu.cuh"
static void load_shared(u32 (&r)[4], u32 a) { memcpy(r, shared_bytes<16>(a), 16); }
static void store_shared_word(u32 a, u32 x) { store_shared_value(a, x); }
static float2 load_shared_pair(u32 a) { return shared_value<float2>(a); }
// One lane of four.
static void store_shared_pair(u32 a, float2 x) { store_shared_value(a, x, false); }
#include "gemm.cu.gemm"
#include "gemm.cu.norm"
