// cuda/attention.cu and attention_hopper.cu for the CPU: after machine.h, the primitives and the sections of the source.
#include "attention.cuh.attention"
#ifdef HOPPER
#include "wgmma.cuh.attention"
#include "attention_hopper.cu.attention"
#else
#include "attention.cu.attention"
#endif
