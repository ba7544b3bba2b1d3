// The attention inside windows as Hopper computes it.
#define HOPPER
#include "windows.cpp"
