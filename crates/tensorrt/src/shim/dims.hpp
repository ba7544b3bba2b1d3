// TensorRT's tensor extents as they lie in memory: 32-bit in 8.x, 64-bit from 10 on.
#pragma once
#include <cstdint>
#include <type_traits>

namespace trtdl {

struct Dims32 {
    int32_t nbDims;
    int32_t d[8];
};
struct Dims64 {
    int32_t nbDims;
    int64_t d[8];
};
// Both are trivial and larger than 16 bytes: they travel in memory, by value as through a hidden result pointer.
static_assert(sizeof(Dims32) == 36 && std::is_trivial<Dims32>::value, "Dims of TensorRT 8");
static_assert(sizeof(Dims64) == 72 && std::is_trivial<Dims64>::value, "Dims of TensorRT 10 and later");

}  // namespace trtdl
