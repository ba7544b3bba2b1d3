// cuda/hiera_transition.cu for the CPU, behind hiera_block.h.
#include "hiera_transition.cu.transition"
