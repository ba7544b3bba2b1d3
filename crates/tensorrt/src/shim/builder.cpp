// Builder, its configuration, optimization profiles and timing caches.
#include "call.hpp"

using namespace trtdl;
namespace m = trtdl::method;

namespace {
void* const kNothing = nullptr;
using CreateWithLogger = void* (*)(void*, int32_t);
}  // namespace

extern "C" {

void* trtdl_builder_new(const trtdl_api* api) {
    return guard(kNothing, [&]() -> void* {
        auto create = reinterpret_cast<CreateWithLogger>(api->entry.create_builder);
        return create == nullptr ? nullptr : create(api->logger, api->entry.version);
    });
}

void* trtdl_builder_config(const trtdl_api* api, void* builder) {
    return ask<m::Builder_createBuilderConfig>(kNothing, api, builder);
}

void* trtdl_builder_network(const trtdl_api* api, void* builder, int32_t strongly_typed) {
    uint32_t flags = 0;
    // 8.x makes networks with an implicit batch unless told otherwise; later releases know no other kind.
    const int32_t batch = value(api, kCreation, Creation_EXPLICIT_BATCH);
    if (batch >= 0) flags |= 1u << batch;
    if (strongly_typed != 0) {
        const int32_t typed = value(api, kCreation, Creation_STRONGLY_TYPED);
        if (typed < 0) return nullptr;
        flags |= 1u << typed;
    }
    return ask<m::Builder_createNetworkV2>(kNothing, api, builder, flags);
}

void* trtdl_builder_profile(const trtdl_api* api, void* builder) {
    return ask<m::Builder_createOptimizationProfile>(kNothing, api, builder);
}
trtdl_status trtdl_builder_set_recorder(const trtdl_api* api, void* builder, void* recorder) {
    return set<m::Builder_setErrorRecorder>(api, builder, recorder);
}
trtdl_status trtdl_builder_set_allocator(const trtdl_api* api, void* builder, void* allocator) {
    return set<m::Builder_setGpuAllocator>(api, builder, allocator);
}
void* trtdl_builder_build(const trtdl_api* api, void* builder, void* network, void* config) {
    return ask<m::Builder_buildSerializedNetwork>(kNothing, api, builder, network, config);
}

trtdl_status trtdl_config_set_flag(const trtdl_api* api, void* config, trtdl_flag flag, int32_t on) {
    const int32_t number = value(api, kFlag, flag);
    if (number < 0) return TRTDL_UNSUPPORTED;
    return on != 0 ? set<m::BuilderConfig_setFlag>(api, config, number)
                   : set<m::BuilderConfig_clearFlag>(api, config, number);
}
int32_t trtdl_config_flag(const trtdl_api* api, void* config, trtdl_flag flag) {
    const int32_t number = value(api, kFlag, flag);
    return number < 0 ? -1 : ask<m::BuilderConfig_getFlag>(static_cast<int32_t>(-1), api, config, number);
}

trtdl_status trtdl_config_set_pool(const trtdl_api* api, void* config, trtdl_pool pool, size_t bytes) {
    const int32_t number = value(api, kPool, pool);
    return number < 0 ? TRTDL_UNSUPPORTED : set<m::BuilderConfig_setMemoryPoolLimit>(api, config, number, bytes);
}
size_t trtdl_config_pool(const trtdl_api* api, void* config, trtdl_pool pool) {
    const int32_t number = value(api, kPool, pool);
    return number < 0 ? SIZE_MAX : ask<m::BuilderConfig_getMemoryPoolLimit>(SIZE_MAX, api, config, number);
}

trtdl_status trtdl_config_set_level(const trtdl_api* api, void* config, int32_t level) {
    return set<m::BuilderConfig_setBuilderOptimizationLevel>(api, config, level);
}
trtdl_status trtdl_config_set_ampere_plus(const trtdl_api* api, void* config, int32_t on) {
    // HardwareCompatibilityLevel in every release: kNONE 0, kAMPERE_PLUS 1.
    return set<m::BuilderConfig_setHardwareCompatibilityLevel>(api, config, on != 0 ? 1 : 0);
}
trtdl_status trtdl_config_set_verbosity(const trtdl_api* api, void* config, trtdl_verbosity verbosity) {
    const int32_t number = value(api, kVerbosity, verbosity);
    return number < 0 ? TRTDL_UNSUPPORTED : set<m::BuilderConfig_setProfilingVerbosity>(api, config, number);
}

trtdl_status trtdl_config_set_tactics(const trtdl_api* api, void* config, uint32_t sources) {
    uint32_t theirs = 0;
    for (int32_t i = 0; i < Tactic_Count; ++i) {
        const int32_t bit = value(api, kTactic, i);
        if ((sources >> i & 1u) != 0 && bit >= 0) theirs |= 1u << bit;
    }
    return set_checked<m::BuilderConfig_setTacticSources>(api, config, theirs);
}

trtdl_status trtdl_config_set_timing_runs(const trtdl_api* api, void* config, int32_t runs) {
    return set<m::BuilderConfig_setAvgTimingIterations>(api, config, runs);
}
trtdl_status trtdl_config_set_monitor(const trtdl_api* api, void* config, void* monitor) {
    return set<m::BuilderConfig_setProgressMonitor>(api, config, monitor);
}

trtdl_status trtdl_config_set_targets(const trtdl_api* api, void* config, const int32_t* sm, int32_t count) {
    static constexpr int32_t kSm[] = {75, 80, 86, 89, 120, 121};
    static_assert(sizeof kSm / sizeof *kSm == Compute_Count && Compute_SM121 == 5, "order of the generated table");
    return guard_status([&]() -> trtdl_status {
        if (!has<m::BuilderConfig_setComputeCapability>(api)) return TRTDL_UNSUPPORTED;
        for (int32_t i = 0; i < count; ++i) {
            int32_t number = -1;
            for (int32_t k = 0; k < Compute_Count; ++k)
                if (kSm[k] == sm[i]) number = value(api, kCompute, k);
            if (number < 0) return TRTDL_UNSUPPORTED;
            // The list is made as long as it will be before its entries are set.
            if (i == 0 && !call<m::BuilderConfig_setNbComputeCapabilities>(api, config, count)) return TRTDL_REFUSED;
            if (!call<m::BuilderConfig_setComputeCapability>(api, config, number, i)) return TRTDL_REFUSED;
        }
        return TRTDL_OK;
    });
}

int32_t trtdl_config_add_profile(const trtdl_api* api, void* config, void* profile) {
    return ask<m::BuilderConfig_addOptimizationProfile>(static_cast<int32_t>(-1), api, config, profile);
}

void* trtdl_config_timing_cache(const trtdl_api* api, void* config, const void* data, size_t size) {
    return ask<m::BuilderConfig_createTimingCache>(kNothing, api, config, data, size);
}
trtdl_status trtdl_config_use_timing_cache(const trtdl_api* api, void* config, void* cache) {
    return set_checked<m::BuilderConfig_setTimingCache>(api, config, cache, false);
}
trtdl_status trtdl_config_combine_timing_cache(const trtdl_api* api, void* config, void* other) {
    void* cache = ask<m::BuilderConfig_getTimingCache>(kNothing, api, config);
    return cache == nullptr ? TRTDL_REFUSED : set_checked<m::TimingCache_combine>(api, cache, other, false);
}
void* trtdl_config_timing_cache_bytes(const trtdl_api* api, void* config) {
    void* cache = ask<m::BuilderConfig_getTimingCache>(kNothing, api, config);
    return cache == nullptr ? nullptr : ask<m::TimingCache_serialize>(kNothing, api, cache);
}

trtdl_status trtdl_profile_set(const trtdl_api* api, void* profile, const char* input, trtdl_selector selector,
                                 const trtdl_dims* dims) {
    const int32_t number = value(api, kSelector, selector);
    if (number < 0 || dims == nullptr || dims->rank < 0 || dims->rank > 8) return TRTDL_UNSUPPORTED;
    if (has<m::OptimizationProfile_setDimensions32>(api)) {
        const Dims32 narrowed = narrow<Dims32>(*dims);
        return set_checked<m::OptimizationProfile_setDimensions32>(api, profile, input, number, narrowed);
    }
    const Dims64 wide = narrow<Dims64>(*dims);
    return set_checked<m::OptimizationProfile_setDimensions>(api, profile, input, number, &wide);
}

}  // extern "C"
