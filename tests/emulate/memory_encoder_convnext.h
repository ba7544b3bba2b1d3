// cuda/memory_encoder_convnext.cu for the CPU: after machine.h, the primitives and the sections of
// the source.
#include "../../cuda/gelu.cuh"
#include "memory_encoder_convnext.cuh.blocks"
#include "memory_encoder_convnext.cu.blocks"
namespace tiles128 {
#include "memory_encoder_convnext_128.cu.blocks"
}
