// The opened library as the shim sees it, the tables for the tests, and the objects that TensorRT calls back.
#include <new>

#include "call.hpp"
#include "callbacks.hpp"

using namespace trtdl;

// The generated tables check all other names of shim.h themselves.
static_assert(TRTDL_FAMILY_RTX15 + 1 == FamilyCount && int{TRTDL_FAMILY_TRT11} == int{Trt11}, "families");

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

trtdl_api* trtdl_api_new(const trtdl_entry_points* entry, trtdl_log_fn log, void* user) {
    if (entry == nullptr || entry->family < 0 || entry->family >= FamilyCount) return nullptr;
    void* logger = make<PlainLogger, VersionedLogger>(logger_is_versioned(entry->family), LogTo{log, user});
    if (logger == nullptr) return nullptr;
    auto* api = new (std::nothrow) trtdl_api{*entry, logger};
    if (api == nullptr) unmake<PlainLogger, VersionedLogger>(logger_is_versioned(entry->family), logger);
    return api;
}

int32_t trtdl_method_count(void) { return method::kCount; }
const char* trtdl_method_name(int32_t method) {
    return method >= 0 && method < method::kCount ? kMethodNames[method] : nullptr;
}
int32_t trtdl_method_slot(int32_t family, int32_t minor, int32_t method) {
    return method >= 0 && method < method::kCount ? place(kMethods[method], family, minor) : -1;
}
int32_t trtdl_value_count(void) { return kValueCount; }
const char* trtdl_value_name(int32_t value) {
    return value >= 0 && value < kValueCount ? kValueNames[value] : nullptr;
}
int32_t trtdl_value_number(int32_t family, int32_t minor, int32_t value) {
    if (value < 0 || value >= kValueCount || family < 0 || family >= FamilyCount) return -1;
    const Place& found = kValues[value][family];
    return found.since <= minor ? found.at : -1;
}

void* trtdl_monitor_new(const trtdl_api* api, trtdl_monitor_fns fns) {
    if (!has<method::BuilderConfig_setProgressMonitor>(api)) return nullptr;
    return guard(static_cast<void*>(nullptr), [&]() -> void* { return new Monitor(fns); });
}
void trtdl_monitor_delete(const trtdl_api*, void* monitor) { delete static_cast<Monitor*>(monitor); }

void* trtdl_recorder_new(const trtdl_api* api, trtdl_report_fn report, void* user) {
    return make<PlainRecorder, VersionedRecorder>(others_are_versioned(api->entry.family), ReportTo{report, user});
}

void* trtdl_profiler_new(const trtdl_api* api, trtdl_layer_time_fn report, void* user) {
    return make<PlainProfiler, VersionedProfiler>(logger_is_versioned(api->entry.family), report, user);
}
void trtdl_profiler_delete(const trtdl_api* api, void* profiler) {
    unmake<PlainProfiler, VersionedProfiler>(logger_is_versioned(api->entry.family), profiler);
}

void* trtdl_allocator_new(const trtdl_api* api, trtdl_allocator_fns fns) {
    return make<PlainAllocator, VersionedAllocator>(others_are_versioned(api->entry.family), fns);
}
void trtdl_allocator_delete(const trtdl_api* api, void* allocator) {
    unmake<PlainAllocator, VersionedAllocator>(others_are_versioned(api->entry.family), allocator);
}

void trtdl_object_delete(const trtdl_api* api, void* object) {
    if (object == nullptr) return;
    guard(0, [&] {
        direct<method::NoCopy_deletingDestructor>(api, object);
        return 0;
    });
}
const void* trtdl_memory_data(const trtdl_api* api, void* memory) {
    return ask<method::HostMemory_data>(static_cast<const void*>(nullptr), api, memory);
}
size_t trtdl_memory_size(const trtdl_api* api, void* memory) {
    return ask<method::HostMemory_size>(static_cast<size_t>(0), api, memory);
}

}  // extern "C"
