// Hopper's products, of which the stand-in driver runs the shipped sources.
#define STAND_IN
#include "sources.h"

namespace products {
#include "products_hopper.cu.products"
#include "products_hopper.cu.instances"
}  // namespace products
namespace norms {
static void prefetch_far_line(const void* from) { (void)*(volatile const unsigned char*)from; }
#include "../../emulate/norms.h"
#include "norms_hopper.cu.instances"
}  // namespace norms

static const Kernel KERNELS[] = {
    CLUSTER(products, product_gelu_128_by_2, 2),
    CLUSTER(products, product_gelu_192_by_2, 2),
    CLUSTER(products, product_gelu_128_by_4, 4),
    CLUSTER(products, product_gelu_192_by_4, 4),
    CLUSTER(products, product_plain_128_by_2, 2),
    CLUSTER(products, product_plain_192_by_2, 2),
    CLUSTER(norms, product_norm_96, 2),
    CLUSTER(norms, product_norm_112, 2),
    CLUSTER(norms, product_norm_144, 2),
    CLUSTER(norms, product_norm_192, 2),
    CLUSTER(norms, product_norm_224, 2),
    CLUSTER(norms, product_norm_288, 2),
    CLUSTER(norms, product_norm_384_by_3, 3),
    CLUSTER(norms, product_norm_384_by_6, 6),
    CLUSTER(norms, product_norm_448_by_3, 3),
    CLUSTER(norms, product_norm_448_by_6, 6),
    CLUSTER(norms, product_norm_576_by_3, 3),
    CLUSTER(norms, product_norm_576_by_6, 6),
};
extern const Table SOURCES_OF_PRODUCTS{KERNELS, sizeof KERNELS / sizeof *KERNELS};
