// Builder, its configuration, optimization profiles and timing caches.
#include "call.hpp"

using namespace segtrt;
namespace m = segtrt::method;

namespace {
void* const kNothing = nullptr;
using CreateWithLogger = void* (*)(void*, int32_t);
}  // namespace

extern "C" {

void* segtrt_builder_new(const segtrt_api* api) {
    return guard(kNothing, [&]() -> void* {
        auto create = reinterpret_cast<CreateWithLogger>(api->entry.create_builder);
        return create == nullptr ? nullptr : create(api->logger, api->entry.version);
    });
}

void* segtrt_builder_config(const segtrt_api* api, void* builder) {
    return ask<m::Builder_createBuilderConfig>(kNothing, api, builder);
}

void* segtrt_builder_network(const segtrt_api* api, void* builder, int32_t strongly_typed) {
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

void* segtrt_builder_profile(const segtrt_api* api, void* builder) {
    return ask<m::Builder_createOptimizationProfile>(kNothing, api, builder);
}
segtrt_status segtrt_builder_set_recorder(const segtrt_api* api, void* builder, void* recorder) {
    return set<m::Builder_setErrorRecorder>(api, builder, recorder);
}
segtrt_status segtrt_builder_set_allocator(const segtrt_api* api, void* builder, void* allocator) {
    return set<m::Builder_setGpuAllocator>(api, builder, allocator);
}
void* segtrt_builder_build(const segtrt_api* api, void* builder, void* network, void* config) {
    return ask<m::Builder_buildSerializedNetwork>(kNothing, api, builder, network, config);
}

segtrt_status segtrt_config_set_flag(const segtrt_api* api, void* config, segtrt_flag flag, int32_t on) {
    const int32_t number = value(api, kFlag, flag);
    if (number < 0) return SEGTRT_UNSUPPORTED;
    return on != 0 ? set<m::BuilderConfig_setFlag>(api, config, number)
                   : set<m::BuilderConfig_clearFlag>(api, config, number);
}
int32_t segtrt_config_flag(const segtrt_api* api, void* config, segtrt_flag flag) {
    const int32_t number = value(api, kFlag, flag);
    return number < 0 ? -1 : ask<m::BuilderConfig_getFlag>(static_cast<int32_t>(-1), api, config, number);
}

segtrt_status segtrt_config_set_pool(const segtrt_api* api, void* config, segtrt_pool pool, size_t bytes) {
    const int32_t number = value(api, kPool, pool);
    return number < 0 ? SEGTRT_UNSUPPORTED : set<m::BuilderConfig_setMemoryPoolLimit>(api, config, number, bytes);
}
size_t segtrt_config_pool(const segtrt_api* api, void* config, segtrt_pool pool) {
    const int32_t number = value(api, kPool, pool);
    return number < 0 ? SIZE_MAX : ask<m::BuilderConfig_getMemoryPoolLimit>(SIZE_MAX, api, config, number);
}

segtrt_status segtrt_config_set_level(const segtrt_api* api, void* config, int32_t level) {
    return set<m::BuilderConfig_setBuilderOptimizationLevel>(api, config, level);
}
segtrt_status segtrt_config_set_verbosity(const segtrt_api* api, void* config, segtrt_verbosity verbosity) {
    const int32_t number = value(api, kVerbosity, verbosity);
    return number < 0 ? SEGTRT_UNSUPPORTED : set<m::BuilderConfig_setProfilingVerbosity>(api, config, number);
}

segtrt_status segtrt_config_set_tactics(const segtrt_api* api, void* config, uint32_t sources) {
    uint32_t theirs = 0;
    for (int32_t i = 0; i < Tactic_Count; ++i) {
        const int32_t bit = value(api, kTactic, i);
        if ((sources >> i & 1u) != 0 && bit >= 0) theirs |= 1u << bit;
    }
    return set_checked<m::BuilderConfig_setTacticSources>(api, config, theirs);
}

segtrt_status segtrt_config_set_timing_runs(const segtrt_api* api, void* config, int32_t runs) {
    return set<m::BuilderConfig_setAvgTimingIterations>(api, config, runs);
}
segtrt_status segtrt_config_set_monitor(const segtrt_api* api, void* config, void* monitor) {
    return set<m::BuilderConfig_setProgressMonitor>(api, config, monitor);
}

segtrt_status segtrt_config_set_targets(const segtrt_api* api, void* config, const int32_t* sm, int32_t count) {
    static constexpr int32_t kSm[] = {75, 80, 86, 89, 120, 121};
    static_assert(sizeof kSm / sizeof *kSm == Compute_Count && Compute_SM121 == 5, "order of the generated table");
    return guard_status([&]() -> segtrt_status {
        if (!has<m::BuilderConfig_setComputeCapability>(api)) return SEGTRT_UNSUPPORTED;
        for (int32_t i = 0; i < count; ++i) {
            int32_t number = -1;
            for (int32_t k = 0; k < Compute_Count; ++k)
                if (kSm[k] == sm[i]) number = value(api, kCompute, k);
            if (number < 0) return SEGTRT_UNSUPPORTED;
            // The list is made as long as it will be before its entries are set.
            if (i == 0 && !call<m::BuilderConfig_setNbComputeCapabilities>(api, config, count)) return SEGTRT_REFUSED;
            if (!call<m::BuilderConfig_setComputeCapability>(api, config, number, i)) return SEGTRT_REFUSED;
        }
        return SEGTRT_OK;
    });
}

int32_t segtrt_config_add_profile(const segtrt_api* api, void* config, void* profile) {
    return ask<m::BuilderConfig_addOptimizationProfile>(static_cast<int32_t>(-1), api, config, profile);
}

void* segtrt_config_timing_cache(const segtrt_api* api, void* config, const void* data, size_t size) {
    return ask<m::BuilderConfig_createTimingCache>(kNothing, api, config, data, size);
}
segtrt_status segtrt_config_use_timing_cache(const segtrt_api* api, void* config, void* cache) {
    return set_checked<m::BuilderConfig_setTimingCache>(api, config, cache, false);
}
segtrt_status segtrt_config_combine_timing_cache(const segtrt_api* api, void* config, void* other) {
    void* cache = ask<m::BuilderConfig_getTimingCache>(kNothing, api, config);
    return cache == nullptr ? SEGTRT_REFUSED : set_checked<m::TimingCache_combine>(api, cache, other, false);
}
void* segtrt_config_timing_cache_bytes(const segtrt_api* api, void* config) {
    void* cache = ask<m::BuilderConfig_getTimingCache>(kNothing, api, config);
    return cache == nullptr ? nullptr : ask<m::TimingCache_serialize>(kNothing, api, cache);
}

segtrt_status segtrt_profile_set(const segtrt_api* api, void* profile, const char* input, segtrt_selector selector,
                                 const segtrt_dims* dims) {
    const int32_t number = value(api, kSelector, selector);
    if (number < 0 || dims == nullptr || dims->rank < 0 || dims->rank > 8) return SEGTRT_UNSUPPORTED;
    if (has<m::OptimizationProfile_setDimensions32>(api)) {
        const Dims32 narrowed = narrow<Dims32>(*dims);
        return set_checked<m::OptimizationProfile_setDimensions32>(api, profile, input, number, narrowed);
    }
    const Dims64 wide = narrow<Dims64>(*dims);
    return set_checked<m::OptimizationProfile_setDimensions>(api, profile, input, number, &wide);
}

}  // extern "C"
