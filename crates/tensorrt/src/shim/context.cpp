// Execution contexts: shapes, addresses, memory, and the enqueue.
#include "call.hpp"

using namespace segtrt;
namespace m = segtrt::method;

extern "C" {

segtrt_status segtrt_context_set_profiler(const segtrt_api* api, void* context, void* profiler) {
    return set<m::ExecutionContext_setProfiler>(api, context, profiler);
}
segtrt_status segtrt_context_report(const segtrt_api* api, void* context) {
    return set_checked<m::ExecutionContext_reportToProfiler>(api, context);
}
segtrt_status segtrt_context_emit_profile(const segtrt_api* api, void* context, int32_t on) {
    return set<m::ExecutionContext_setEnqueueEmitsProfile>(api, context, on != 0);
}
segtrt_status segtrt_context_set_profile(const segtrt_api* api, void* context, int32_t profile, void* stream) {
    return set_checked<m::ExecutionContext_setOptimizationProfileAsync>(api, context, profile, stream);
}
int32_t segtrt_context_profile(const segtrt_api* api, void* context) {
    return ask<m::ExecutionContext_getOptimizationProfile>(static_cast<int32_t>(-1), api, context);
}

segtrt_status segtrt_context_set_shape(const segtrt_api* api, void* context, const char* tensor,
                                       const segtrt_dims* dims) {
    if (dims == nullptr || dims->rank < 0 || dims->rank > 8) return SEGTRT_UNSUPPORTED;
    // By reference in every release, but to extents of another width.
    if (api->entry.family == Trt8) {
        const Dims32 narrowed = narrow<Dims32>(*dims);
        return set_checked<m::ExecutionContext_setInputShape>(api, context, tensor, &narrowed);
    }
    const Dims64 wide = narrow<Dims64>(*dims);
    return set_checked<m::ExecutionContext_setInputShape>(api, context, tensor, &wide);
}
segtrt_dims segtrt_context_shape(const segtrt_api* api, void* context, const char* tensor) {
    return dims_of<m::ExecutionContext_getTensorShape32, m::ExecutionContext_getTensorShape64>(api, context, tensor);
}
segtrt_status segtrt_context_set_address(const segtrt_api* api, void* context, const char* tensor, void* address) {
    return set_checked<m::ExecutionContext_setTensorAddress>(api, context, tensor, address);
}
segtrt_status segtrt_context_set_memory(const segtrt_api* api, void* context, void* memory, int64_t size) {
    if (has<m::ExecutionContext_setDeviceMemoryV2>(api))
        return set<m::ExecutionContext_setDeviceMemoryV2>(api, context, memory, size);
    return set<m::ExecutionContext_setDeviceMemory>(api, context, memory);
}
int32_t segtrt_context_missing(const segtrt_api* api, void* context, const char** names, int32_t capacity) {
    return ask<m::ExecutionContext_inferShapes>(static_cast<int32_t>(-1), api, context, capacity,
                                                static_cast<void*>(names));
}
segtrt_status segtrt_context_enqueue(const segtrt_api* api, void* context, void* stream) {
    return set_checked<m::ExecutionContext_enqueueV3>(api, context, stream);
}

}  // extern "C"
