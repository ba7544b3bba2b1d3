// The attention's kernels, of which the stand-in driver runs the shipped sources.
#define STAND_IN
#include "sources.h"

namespace any {
template <int THREADS> static void group_barrier(int b) { turn_join(b, THREADS); }
static void store_shared_float(u32 a, float x) { memcpy(&memory[a], &x, 4); }
#include "attention.cuh.attention"
#include "attention_gather.cuh.gather"
#include "attention.cu.attention"
#include "attention.cu.instances"
}  // namespace any
namespace clusters {
#include "attention.cuh.attention"
#include "attention_hopper.cuh.attention"
#include "attention_cluster_hopper.cu.attention"
#include "attention_cluster_hopper.cu.instances"
}  // namespace clusters
namespace windows {
#include "attention.cuh.attention"
#include "window_attention.cuh.attention"
#include "window_attention.cu.attention"
#include "window_attention.cu.instances"
}  // namespace windows
namespace hopper_windows {
#include "attention.cuh.attention"
#include "window_attention.cuh.attention"
#include "window_attention_hopper.cu.attention"
#include "window_attention_hopper.cu.instances"
}  // namespace hopper_windows
static const Kernel KERNELS[] = {
    SOURCE(any, attention_cross),
    SOURCE(any, attention_self),
    SOURCE(any, attention_heads_64),
    SOURCE(any, attention_heads_80),
    SOURCE(any, attention_heads_96),
    SOURCE(any, attention_combine_64),
    SOURCE(any, attention_combine_80),
    SOURCE(any, attention_combine_96),
    SOURCE(any, attention_combine_256),
    CLUSTER(clusters, attention_cross_hopper, 2),
    CLUSTER(clusters, attention_cross_biased_hopper, 2),
    CLUSTER(clusters, attention_self_hopper, 2),
    CLUSTER(clusters, attention_global_64_hopper, 2),
    CLUSTER(clusters, attention_global_80_hopper, 2),
    CLUSTER(clusters, attention_global_96_hopper, 2),
    SOURCE(windows, window_attention_56),
    SOURCE(windows, window_attention_72),
    SOURCE(windows, window_attention_96),
    SOURCE(windows, window_attention_56_wide),
    SOURCE(windows, window_attention_72_wide),
    SOURCE(windows, window_attention_96_wide),
    SOURCE(hopper_windows, window_attention_56_hopper),
    SOURCE(hopper_windows, window_attention_72_hopper),
    SOURCE(hopper_windows, window_attention_96_hopper),
};
extern const Table SOURCES_OF_ATTENTION{KERNELS, sizeof KERNELS / sizeof *KERNELS};
