// cuda/perceiver_2d.cu for the CPU: after machine.h, the primitives and the sections of the source.
static void store_shared_float(u32 a, float r) { store_shared_value(a, r); }
#include "attention.cuh.attention"
#include "../../cuda/gelu.cuh"
#include "perceiver_2d.cuh.attention"
#include "perceiver_2d.cu.attention"
