// Execution contexts: shapes, addresses, memory, and the enqueue.
#include "call.hpp"

using namespace trtdl;
namespace m = trtdl::method;

extern "C" {

trtdl_status trtdl_context_set_profiler(const trtdl_api* api, void* context, void* profiler) {
    return set<m::ExecutionContext_setProfiler>(api, context, profiler);
}
trtdl_status trtdl_context_report(const trtdl_api* api, void* context) {
    return set_checked<m::ExecutionContext_reportToProfiler>(api, context);
}
trtdl_status trtdl_context_emit_profile(const trtdl_api* api, void* context, int32_t on) {
    return set<m::ExecutionContext_setEnqueueEmitsProfile>(api, context, on != 0);
}
trtdl_status trtdl_context_set_profile(const trtdl_api* api, void* context, int32_t profile, void* stream) {
    return set_checked<m::ExecutionContext_setOptimizationProfileAsync>(api, context, profile, stream);
}
int32_t trtdl_context_profile(const trtdl_api* api, void* context) {
    return ask<m::ExecutionContext_getOptimizationProfile>(static_cast<int32_t>(-1), api, context);
}

trtdl_status trtdl_context_set_shape(const trtdl_api* api, void* context, const char* tensor,
                                       const trtdl_dims* dims) {
    if (dims == nullptr || dims->rank < 0 || dims->rank > 8) return TRTDL_UNSUPPORTED;
    // By reference in every release, but to extents of another width.
    if (api->entry.family == Trt8) {
        const Dims32 narrowed = narrow<Dims32>(*dims);
        return set_checked<m::ExecutionContext_setInputShape>(api, context, tensor, &narrowed);
    }
    const Dims64 wide = narrow<Dims64>(*dims);
    return set_checked<m::ExecutionContext_setInputShape>(api, context, tensor, &wide);
}
trtdl_dims trtdl_context_shape(const trtdl_api* api, void* context, const char* tensor) {
    return dims_of<m::ExecutionContext_getTensorShape32, m::ExecutionContext_getTensorShape64>(api, context, tensor);
}
trtdl_status trtdl_context_set_address(const trtdl_api* api, void* context, const char* tensor, void* address) {
    return set_checked<m::ExecutionContext_setTensorAddress>(api, context, tensor, address);
}
trtdl_status trtdl_context_set_memory(const trtdl_api* api, void* context, void* memory, int64_t size) {
    if (has<m::ExecutionContext_setDeviceMemoryV2>(api))
        return set<m::ExecutionContext_setDeviceMemoryV2>(api, context, memory, size);
    return set<m::ExecutionContext_setDeviceMemory>(api, context, memory);
}
int32_t trtdl_context_missing(const trtdl_api* api, void* context, const char** names, int32_t capacity) {
    return ask<m::ExecutionContext_inferShapes>(static_cast<int32_t>(-1), api, context, capacity,
                                                static_cast<void*>(names));
}
trtdl_status trtdl_context_enqueue(const trtdl_api* api, void* context, void* stream) {
    return set_checked<m::ExecutionContext_enqueueV3>(api, context, stream);
}

}  // extern "C"
