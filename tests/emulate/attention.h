// cuda/attention.cu, attention_hopper.cu and attention_cluster_hopper.cu for the CPU: after machine.h, the primitives and the sections of the source.
#include "attention.cuh.attention"
#ifdef HOPPER
#include "wgmma.cuh.attention"
#include "attention_hopper.cuh.attention"
#ifdef CLUSTERS
#include "attention_cluster_hopper.cu.attention"
#else
#include "attention_hopper.cu.attention"
#endif
#else
#include "attention.cu.attention"
#endif
