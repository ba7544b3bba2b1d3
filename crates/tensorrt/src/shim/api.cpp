// The opened library as the shim sees it, the tables for the tests, and the objects that TensorRT calls back.
#include <new>

#include "call.hpp"
#include "callbacks.hpp"

using namespace segtrt;

// The generated tables check all other names of shim.h themselves.
static_assert(SEGTRT_FAMILY_RTX15 + 1 == FamilyCount && int{SEGTRT_FAMILY_TRT11} == int{Trt11}, "families");

namespace {

template <class Plain, class Versioned_, class... A>
void* make(bool versioned, A... arguments) noexcept {
    return guard(static_cast<void*>(nullptr), [&]() -> void* {
        return versioned ? static_cast<void*>(new Versioned_(arguments...))
                         : static_cast<void*>(new Plain(arguments...));
    });
}

template <class Plain, class Versioned_>
void unmake(bool versioned, void* object) noexcept {
    if (versioned)
        delete static_cast<Versioned_*>(object);
    else
        delete static_cast<Plain*>(object);
}

}  // namespace

extern "C" {

segtrt_api* segtrt_api_new(const segtrt_entry_points* entry, segtrt_log_fn log, void* user) {
    if (entry == nullptr || entry->family < 0 || entry->family >= FamilyCount) return nullptr;
    void* logger = make<PlainLogger, VersionedLogger>(logger_is_versioned(entry->family), LogTo{log, user});
    if (logger == nullptr) return nullptr;
    auto* api = new (std::nothrow) segtrt_api{*entry, logger};
    if (api == nullptr) unmake<PlainLogger, VersionedLogger>(logger_is_versioned(entry->family), logger);
    return api;
}

int32_t segtrt_method_count(void) { return method::kCount; }
const char* segtrt_method_name(int32_t method) {
    return method >= 0 && method < method::kCount ? kMethodNames[method] : nullptr;
}
int32_t segtrt_method_slot(int32_t family, int32_t minor, int32_t method) {
    return method >= 0 && method < method::kCount ? place(kMethods[method], family, minor) : -1;
}
int32_t segtrt_value_count(void) { return kValueCount; }
const char* segtrt_value_name(int32_t value) {
    return value >= 0 && value < kValueCount ? kValueNames[value] : nullptr;
}
int32_t segtrt_value_number(int32_t family, int32_t minor, int32_t value) {
    if (value < 0 || value >= kValueCount || family < 0 || family >= FamilyCount) return -1;
    const Place& found = kValues[value][family];
    return found.since <= minor ? found.at : -1;
}

void* segtrt_monitor_new(const segtrt_api* api, segtrt_monitor_fns fns) {
    if (!has<method::BuilderConfig_setProgressMonitor>(api)) return nullptr;
    return guard(static_cast<void*>(nullptr), [&]() -> void* { return new Monitor(fns); });
}
void segtrt_monitor_delete(const segtrt_api*, void* monitor) { delete static_cast<Monitor*>(monitor); }

void* segtrt_recorder_new(const segtrt_api* api, segtrt_report_fn report, void* user) {
    return make<PlainRecorder, VersionedRecorder>(others_are_versioned(api->entry.family), ReportTo{report, user});
}

void* segtrt_profiler_new(const segtrt_api* api, segtrt_layer_time_fn report, void* user) {
    return make<PlainProfiler, VersionedProfiler>(logger_is_versioned(api->entry.family), report, user);
}
void segtrt_profiler_delete(const segtrt_api* api, void* profiler) {
    unmake<PlainProfiler, VersionedProfiler>(logger_is_versioned(api->entry.family), profiler);
}

void* segtrt_allocator_new(const segtrt_api* api, segtrt_allocator_fns fns) {
    return make<PlainAllocator, VersionedAllocator>(others_are_versioned(api->entry.family), fns);
}
void segtrt_allocator_delete(const segtrt_api* api, void* allocator) {
    unmake<PlainAllocator, VersionedAllocator>(others_are_versioned(api->entry.family), allocator);
}

void segtrt_object_delete(const segtrt_api* api, void* object) {
    if (object == nullptr) return;
    guard(0, [&] {
        direct<method::NoCopy_deletingDestructor>(api, object);
        return 0;
    });
}
const void* segtrt_memory_data(const segtrt_api* api, void* memory) {
    return ask<method::HostMemory_data>(static_cast<const void*>(nullptr), api, memory);
}
size_t segtrt_memory_size(const segtrt_api* api, void* memory) {
    return ask<method::HostMemory_size>(static_cast<size_t>(0), api, memory);
}

}  // extern "C"
