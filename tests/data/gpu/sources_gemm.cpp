// Hopper's kernels of clusters, of which the stand-in driver runs the shipped sources.
#define STAND_IN
#include "sources.h"

namespace products {
#include "../../emulate/gemm.h"
#include "gemm_hopper.cuh.instances"
#include "gemm_bias_hopper.cu.instances"
#include "gemm_gelu_hopper.cu.instances"
}  // namespace products
namespace norms {
static void prefetch(const void* from) { (void)*(volatile const unsigned char*)from; }
#include "../../emulate/gemm_layernorm.h"
#include "gemm_layernorm_hopper.cu.instances"
}  // namespace norms
namespace mlps {
#include "../../emulate/mlp_hopper.h"
#include "mlp_hopper.cu.instances"
}  // namespace mlps
namespace projections {
#include "../../emulate/memory_attention_project_hopper.h"
#include "memory_attention_project_hopper.cu.instances"
}  // namespace projections
namespace fuses {
#include "../../emulate/memory_encoder_fuse_hopper.h"
#include "memory_encoder_fuse_hopper.cu.instances"
}  // namespace fuses
namespace repvit_clusters {
#include "../../emulate/repvit_block_hopper.h"
#include "repvit_block_hopper.cu.instances"
}  // namespace repvit_clusters

static const Kernel KERNELS[] = {
    CLUSTER(mlps, mlp_hopper, 4),
    CLUSTER(projections, memory_attention_project_hopper, 2),
    CLUSTER(fuses, memory_encoder_fuse_hopper, 2),
    CLUSTER(projections, memory_attention_query_hopper, 2),
    CLUSTER(repvit_clusters, repvit_block_384_by_6, 6),
    CLUSTER(repvit_clusters, repvit_down_384_by_6, 6),
    CLUSTER(products, gemm_bias_gelu_128_two_groups, 2),
    CLUSTER(products, gemm_bias_gelu_128_three_groups, 2),
    CLUSTER(products, gemm_bias_gelu_192_two_groups, 2),
    CLUSTER(products, gemm_bias_128_by_2, 2),
    CLUSTER(products, gemm_bias_192_by_2, 2),
    CLUSTER(norms, gemm_residual_layernorm_144, 2),
    CLUSTER(norms, gemm_residual_layernorm_192, 2),
    CLUSTER(norms, gemm_residual_layernorm_224, 2),
    CLUSTER(norms, gemm_residual_layernorm_288, 2),
    CLUSTER(norms, gemm_residual_layernorm_384_by_6, 6),
    CLUSTER(norms, gemm_residual_layernorm_448_by_6, 6),
};
extern const Table SOURCES_OF_PRODUCTS{KERNELS, sizeof KERNELS / sizeof *KERNELS};
