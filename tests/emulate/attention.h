// cuda/attention.cu and attention_cluster_hopper.cu for the CPU: after machine.h, the primitives
// and the sections of the source.
#include "attention.cuh.attention"
#ifdef CLUSTERS
#include "attention_hopper.cuh.attention"
#include "attention_cluster_hopper.cu.attention"
#else
template <int THREADS> static void group_barrier(int b) { turn_join(b, THREADS); }
#include "attention_gather.cuh.gather"
#include "attention.cu.attention"
#endif
