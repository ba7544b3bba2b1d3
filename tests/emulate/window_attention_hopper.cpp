// The attention inside windows as Hopper computes it.
#define HOPPER
#include "window_attention.cpp"
