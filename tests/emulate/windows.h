// cuda/windows.cu and windows_hopper.cu for the CPU: after machine.h, the primitives and the sections of the source.
#include "attention.cuh.attention"
#include "windows.cuh.attention"
#ifdef HOPPER
#include "wgmma.cuh.attention"
#include "windows_hopper.cu.attention"
#else
#include "windows.cu.attention"
#endif
