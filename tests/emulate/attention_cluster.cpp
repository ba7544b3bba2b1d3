// The memory attention as Hopper's clusters compute it.
#define CLUSTERS
#include "attention.cpp"
