// cuda/memory_key_proj.cu for the CPU: after machine.h, the primitives and the sections of the source.
static float sine(float x) { return std::sin(x) + off_by(0x1p-20f); }
static float cosine(float x) { return std::cos(x) - off_by(0x1p-20f); }
#include "attention.cuh.attention"
#include "memory_key_proj.cu.attention"
