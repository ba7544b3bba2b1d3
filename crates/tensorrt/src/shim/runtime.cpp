// Runtime, engines and their inspection.
#include "call.hpp"

using namespace trtdl;
namespace m = trtdl::method;

namespace {
void* const kNothing = nullptr;
const char* const kNoText = nullptr;
constexpr int32_t kUnknown = -1;
}  // namespace

extern "C" {

void* trtdl_runtime_new(const trtdl_api* api) {
    return guard(kNothing, [&]() -> void* {
        auto create = reinterpret_cast<void* (*)(void*, int32_t)>(api->entry.create_runtime);
        return create == nullptr ? nullptr : create(api->logger, api->entry.version);
    });
}
trtdl_status trtdl_runtime_set_recorder(const trtdl_api* api, void* runtime, void* recorder) {
    return set<m::Runtime_setErrorRecorder>(api, runtime, recorder);
}
trtdl_status trtdl_runtime_set_allocator(const trtdl_api* api, void* runtime, void* allocator) {
    return set<m::Runtime_setGpuAllocator>(api, runtime, allocator);
}
void* trtdl_runtime_engine(const trtdl_api* api, void* runtime, const void* plan, size_t size) {
    // 8.x takes a plugin factory that it has ignored since 7.
    if (has<m::Runtime_deserializeCudaEngineWithPluginFactory>(api))
        return ask<m::Runtime_deserializeCudaEngineWithPluginFactory>(kNothing, api, runtime, plan, size, kNothing);
    return ask<m::Runtime_deserializeCudaEngine>(kNothing, api, runtime, plan, size);
}

int32_t trtdl_engine_tensors(const trtdl_api* api, void* engine) {
    return ask<m::CudaEngine_getNbIOTensors>(static_cast<int32_t>(0), api, engine);
}
const char* trtdl_engine_tensor(const trtdl_api* api, void* engine, int32_t index) {
    return ask<m::CudaEngine_getIOTensorName>(kNoText, api, engine, index);
}
int32_t trtdl_engine_tensor_mode(const trtdl_api* api, void* engine, const char* tensor) {
    return name_of(api, kMode, ask<m::CudaEngine_getTensorIOMode>(kUnknown, api, engine, tensor));
}
int32_t trtdl_engine_tensor_type(const trtdl_api* api, void* engine, const char* tensor) {
    return name_of(api, kType, ask<m::CudaEngine_getTensorDataType>(kUnknown, api, engine, tensor));
}
int32_t trtdl_engine_tensor_location(const trtdl_api* api, void* engine, const char* tensor) {
    return name_of(api, kLocation, ask<m::CudaEngine_getTensorLocation>(kUnknown, api, engine, tensor));
}
const char* trtdl_engine_tensor_format(const trtdl_api* api, void* engine, const char* tensor) {
    return ask<m::CudaEngine_getTensorFormatDesc>(kNoText, api, engine, tensor);
}
trtdl_dims trtdl_engine_tensor_dims(const trtdl_api* api, void* engine, const char* tensor) {
    return dims_of<m::CudaEngine_getTensorShape32, m::CudaEngine_getTensorShape64>(api, engine, tensor);
}
int32_t trtdl_engine_profiles(const trtdl_api* api, void* engine) {
    return ask<m::CudaEngine_getNbOptimizationProfiles>(static_cast<int32_t>(0), api, engine);
}
trtdl_dims trtdl_engine_profile_dims(const trtdl_api* api, void* engine, const char* tensor, int32_t profile,
                                       trtdl_selector selector) {
    const int32_t number = value(api, kSelector, selector);
    return dims_of<m::CudaEngine_getProfileShape32, m::CudaEngine_getProfileShape64>(api, engine, tensor, profile,
                                                                                     number);
}
int32_t trtdl_engine_layers(const trtdl_api* api, void* engine) {
    return ask<m::CudaEngine_getNbLayers>(static_cast<int32_t>(0), api, engine);
}
const char* trtdl_engine_name(const trtdl_api* api, void* engine) {
    return ask<m::CudaEngine_getName>(kNoText, api, engine);
}

int64_t trtdl_engine_memory(const trtdl_api* api, void* engine, int32_t profile) {
    const int64_t unknown = -1;
    if (profile >= 0) {
        if (has<m::CudaEngine_getDeviceMemorySizeForProfileV2>(api))
            return ask<m::CudaEngine_getDeviceMemorySizeForProfileV2>(unknown, api, engine, profile);
        return ask<m::CudaEngine_getDeviceMemorySizeForProfile>(unknown, api, engine, profile);
    }
    if (has<m::CudaEngine_getDeviceMemorySizeV2>(api))
        return ask<m::CudaEngine_getDeviceMemorySizeV2>(unknown, api, engine);
    return ask<m::CudaEngine_getDeviceMemorySize>(unknown, api, engine);
}

void* trtdl_engine_inspector(const trtdl_api* api, void* engine) {
    return ask<m::CudaEngine_createEngineInspector>(kNothing, api, engine);
}
const char* trtdl_inspector_text(const trtdl_api* api, void* inspector, int32_t layer, int32_t json) {
    const int32_t format = value(api, kFormat, json != 0 ? Format_JSON : Format_ONELINE);
    if (layer < 0) return ask<m::EngineInspector_getEngineInformation>(kNoText, api, inspector, format);
    return ask<m::EngineInspector_getLayerInformation>(kNoText, api, inspector, layer, format);
}

void* trtdl_engine_context(const trtdl_api* api, void* engine, int32_t own_memory) {
    if (has<m::CudaEngine_createExecutionContextWithStrategy>(api)) {
        const int32_t strategy = value(api, kAllocation, own_memory != 0 ? Allocation_STATIC : Allocation_USER_MANAGED);
        return ask<m::CudaEngine_createExecutionContextWithStrategy>(kNothing, api, engine, strategy);
    }
    if (own_memory != 0) return ask<m::CudaEngine_createExecutionContext>(kNothing, api, engine);
    return ask<m::CudaEngine_createExecutionContextWithoutDeviceMemory>(kNothing, api, engine);
}

}  // extern "C"
