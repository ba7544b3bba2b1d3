// The attention as Hopper computes it.
#define HOPPER
#include "attention.cpp"
