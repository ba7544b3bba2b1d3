// cuda/keys.cu on the CPU, behind machine.h: its primitives, and the rest of the source.
static u32 add_halves(u32 a, u32 b) { return tohalf(half(a) + half(b)) | (u32)tohalf(half(a >> 16) + half(b >> 16)) << 16; }
#include "../../cuda/halves.cuh"
// As far off as the instructions may be.
static float sine(float x) { return std::sin(x) + 0x1p-20f; }
static float cosine(float x) { return std::cos(x) - 0x1p-20f; }
#include "attention.cuh.attention"
#include "keys.cu.attention"
