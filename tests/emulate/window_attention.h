// cuda/window_attention.cu and window_attention_hopper.cu for the CPU: after machine.h, the
// primitives and the sections of the source.
#include "attention.cuh.attention"
#include "window_attention.cuh.attention"
#ifdef HOPPER
#include "window_attention_hopper.cu.attention"
#else
#include "window_attention.cu.attention"
#endif
