// The interfaces that TensorRT calls and the shim implements, laid out as each family of releases expects.
//
// "Plain" ones start with their own methods, "Versioned" ones (10 on, for loggers and profilers 11 and RTX 1.5 on) with
// those of IVersionedInterface. The order of the virtual methods is the vtable: it must not change.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "shim.h"

namespace trtdl {

struct InterfaceInfo {
    const char* kind;
    int32_t major;
    int32_t minor;
};

class Versioned {
  public:
    virtual int32_t getAPILanguage() const noexcept { return 0; }  // C++
    virtual InterfaceInfo getInterfaceInfo() const noexcept = 0;
    virtual ~Versioned() noexcept = default;
};

struct LogTo {
    trtdl_log_fn fn;
    void* user;
    void say(int32_t severity, const char* message) const noexcept {
        if (fn != nullptr) fn(user, severity, message);
    }
};

class PlainLogger {
  public:
    explicit PlainLogger(LogTo to) : to_(to) {}
    virtual void log(int32_t severity, const char* message) noexcept { to_.say(severity, message); }
    virtual ~PlainLogger() noexcept = default;

  private:
    LogTo to_;
};

class VersionedLogger : public Versioned {
  public:
    explicit VersionedLogger(LogTo to) : to_(to) {}
    InterfaceInfo getInterfaceInfo() const noexcept override { return {"ILogger", 1, 0}; }
    virtual void log(int32_t severity, const char* message) noexcept { to_.say(severity, message); }

  private:
    LogTo to_;
};

class Monitor : public Versioned {
  public:
    explicit Monitor(trtdl_monitor_fns fns) : fns_(fns) {}
    InterfaceInfo getInterfaceInfo() const noexcept override { return {"IProgressMonitor", 1, 0}; }
    virtual void phaseStart(const char* phase, const char* parent, int32_t steps) noexcept {
        fns_.start(fns_.user, phase, parent, steps);
    }
    virtual bool stepComplete(const char* phase, int32_t step) noexcept {
        return fns_.step(fns_.user, phase, step) != 0;
    }
    virtual void phaseFinish(const char* phase) noexcept { fns_.finish(fns_.user, phase); }

  private:
    trtdl_monitor_fns fns_;
};

struct PlainProfiler {
    PlainProfiler(trtdl_layer_time_fn fn, void* user) : fn_(fn), user_(user) {}
    virtual void reportLayerTime(const char* layer, float milliseconds) noexcept { fn_(user_, layer, milliseconds); }
    virtual ~PlainProfiler() noexcept = default;
    trtdl_layer_time_fn fn_;
    void* user_;
};

class VersionedProfiler : public Versioned {
  public:
    VersionedProfiler(trtdl_layer_time_fn fn, void* user) : fn_(fn), user_(user) {}
    InterfaceInfo getInterfaceInfo() const noexcept override { return {"IProfiler", 1, 0}; }
    virtual void reportLayerTime(const char* layer, float milliseconds) noexcept { fn_(user_, layer, milliseconds); }

  private:
    trtdl_layer_time_fn fn_;
    void* user_;
};

/// Hands every error on and keeps none: the caller's side collects them, under its own lock.
struct ReportTo {
    trtdl_report_fn fn;
    void* user;
};

class PlainRecorder {
  public:
    explicit PlainRecorder(ReportTo to) : to_(to) {}
    virtual ~PlainRecorder() noexcept = default;
    virtual int32_t getNbErrors() const noexcept { return 0; }
    virtual int32_t getErrorCode(int32_t) const noexcept { return 0; }
    virtual const char* getErrorDesc(int32_t) const noexcept { return ""; }
    virtual bool hasOverflowed() const noexcept { return false; }
    virtual void clear() noexcept {}
    virtual bool reportError(int32_t code, const char* description) noexcept {
        to_.fn(to_.user, code, description);
        return false;  // the error is not critical to the recorder: TensorRT goes on as it would have
    }
    virtual int32_t incRefCount() noexcept { return ++references_; }
    virtual int32_t decRefCount() noexcept { return --references_; }

  private:
    ReportTo to_;
    std::atomic<int32_t> references_{0};
};

class VersionedRecorder : public Versioned {
  public:
    explicit VersionedRecorder(ReportTo to) : to_(to) {}
    InterfaceInfo getInterfaceInfo() const noexcept override { return {"IErrorRecorder", 1, 0}; }
    virtual int32_t getNbErrors() const noexcept { return 0; }
    virtual int32_t getErrorCode(int32_t) const noexcept { return 0; }
    virtual const char* getErrorDesc(int32_t) const noexcept { return ""; }
    virtual bool hasOverflowed() const noexcept { return false; }
    virtual void clear() noexcept {}
    virtual bool reportError(int32_t code, const char* description) noexcept {
        to_.fn(to_.user, code, description);
        return false;
    }
    virtual int32_t incRefCount() noexcept { return ++references_; }
    virtual int32_t decRefCount() noexcept { return --references_; }

  private:
    ReportTo to_;
    std::atomic<int32_t> references_{0};
};

class PlainAllocator {
  public:
    explicit PlainAllocator(trtdl_allocator_fns fns) : fns_(fns) {}
    virtual void* allocate(uint64_t size, uint64_t alignment, uint32_t) noexcept {
        return fns_.allocate(fns_.user, size, alignment);
    }
    virtual void free(void* memory) noexcept { fns_.release(fns_.user, memory); }
    virtual ~PlainAllocator() noexcept = default;
    virtual void* reallocate(void*, uint64_t, uint64_t) noexcept { return nullptr; }
    virtual bool deallocate(void* memory) noexcept { return fns_.release(fns_.user, memory) != 0; }

  private:
    trtdl_allocator_fns fns_;
};

class VersionedAllocator : public Versioned {
  public:
    explicit VersionedAllocator(trtdl_allocator_fns fns) : fns_(fns) {}
    InterfaceInfo getInterfaceInfo() const noexcept override { return {"IGpuAllocator", 1, 0}; }
    virtual void* allocate(uint64_t size, uint64_t alignment, uint32_t) noexcept {
        return fns_.allocate(fns_.user, size, alignment);
    }
    virtual void* reallocate(void*, uint64_t, uint64_t) noexcept { return nullptr; }
    virtual bool deallocate(void* memory) noexcept { return fns_.release(fns_.user, memory) != 0; }
    virtual void* allocateAsync(uint64_t size, uint64_t alignment, uint32_t flags, void*) noexcept {
        return allocate(size, alignment, flags);
    }
    virtual bool deallocateAsync(void* memory, void*) noexcept { return deallocate(memory); }

  private:
    trtdl_allocator_fns fns_;
};

/// Loggers and profilers are versioned in fewer families than recorders and allocators.
inline bool logger_is_versioned(int32_t family) {
    return family == TRTDL_FAMILY_TRT11 || family == TRTDL_FAMILY_RTX15;
}
inline bool others_are_versioned(int32_t family) { return family != TRTDL_FAMILY_TRT8; }

}  // namespace trtdl
