// A stand-in for TensorRT 8.6's library with a handful of methods at their real slots, written as real C++ classes: the
// compiler lays out the vtables and chooses the calling convention, so that what the shim does with slots is checked
// against what a compiler does with virtual methods. Extents are 32-bit and travel by value, as in 8.x only.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

struct Dims {
    int32_t nbDims;
    int32_t d[8];
};

#define PAD1(n) virtual void pad##n() {}
#define PAD4(n) PAD1(n##0) PAD1(n##1) PAD1(n##2) PAD1(n##3)

struct Logger {
    virtual void log(int32_t severity, const char* message) noexcept = 0;
    virtual ~Logger() = default;
};
struct ErrorRecorder {
    virtual ~ErrorRecorder() = default;
    virtual int32_t getNbErrors() const noexcept = 0;
    virtual int32_t getErrorCode(int32_t) const noexcept = 0;
    virtual const char* getErrorDesc(int32_t) const noexcept = 0;
    virtual bool hasOverflowed() const noexcept = 0;
    virtual void clear() noexcept = 0;
    virtual bool reportError(int32_t code, const char* description) noexcept = 0;
};
static Logger* logger;
static ErrorRecorder* recorder;

// What users hold: a virtual destructor, and a pointer to the implementation.
template <class V>
struct Public {
    virtual ~Public() { delete implementation; }
    V* implementation = new V;
};

struct VProfile {
    virtual ~VProfile() = default;
    virtual bool setDimensions(const char* input, int32_t selector, Dims dims) noexcept {
        char line[160];
        std::snprintf(line, sizeof line, "%s %d: %d extents, %d %d", input, selector, dims.nbDims, dims.d[0], dims.d[1]);
        logger->log(2, line);
        return dims.d[0] > 0;
    }
};

struct VMemory {
    virtual ~VMemory() = default;
    virtual void* data() const noexcept { return const_cast<char*>(timed); }  // 2
    virtual size_t size() const noexcept { return std::strlen(timed); }       // 3
    const char* timed = "timed";
};

// 8.6.0's words for caches with parts of Myelin's.
struct VTimingCache {
    virtual ~VTimingCache() = default;
    virtual void* serialize() const noexcept { return new Public<VMemory>; }  // 2
    virtual bool combine(const void*, bool) noexcept {                        // 3
        logger->log(1, "[myelinCache.h::deserializeFromBuffer::52] Error Code 1: Myelin (Myelin error from unknown graph)");
        return false;
    }
};

struct VConfig {
    virtual ~VConfig() = default;
    PAD4(a) PAD4(b) PAD4(c) PAD4(d) PAD4(e) PAD4(f) PAD1(g0) PAD1(g1) PAD1(g2)
    virtual int32_t addOptimizationProfile(const void* profile) noexcept { return profile != nullptr ? 0 : -1; }  // 29
    PAD4(h) PAD4(i) PAD4(j) PAD1(k0) PAD1(k1)
    virtual void* createTimingCache(const void*, size_t) const noexcept { return new Public<VTimingCache>; }  // 44
    virtual bool setTimingCache(void* cache, bool) noexcept {                                                 // 45
        used = cache;
        return true;
    }
    virtual void* getTimingCache() const noexcept { return used; }  // 46
    void* used = nullptr;
};

struct VBuilder {
    virtual ~VBuilder() = default;
    PAD4(a) PAD1(b0) PAD1(b1) PAD1(b2)
    virtual void* createBuilderConfig() noexcept { return new Public<VConfig>; }  // 9
    PAD1(c0) PAD1(c1)
    virtual void* createOptimizationProfile() noexcept {  // 12
        static Public<VProfile> profile;
        return &profile;
    }
    virtual void setErrorRecorder(void* r) noexcept { recorder = static_cast<ErrorRecorder*>(r); }  // 13
};

struct VInspector {
    virtual ~VInspector() = default;
    PAD1(a0) PAD1(a1) PAD1(a2)
    virtual const char* getEngineInformation(int32_t) const noexcept {  // 5
        return "{\"Layers\": [{\"Name\": \"{ForeignNode[/a.../b]}\", \"LayerType\": \"Myelin\","
               "\"Outputs\": [{\"Name\": \"y\", \"Format/Datatype\": \"Row major linear FP16 format\"}]}], \"Bindings\": []}";
    }
};

struct VEngine {
    virtual ~VEngine() = default;
    PAD4(a) PAD1(b0) PAD1(b1) PAD1(b2)
    virtual int32_t getNbLayers() const noexcept { return 1; }  // 9
    PAD4(c)
    virtual size_t getDeviceMemorySize() const noexcept { return 4096; }  // 14
    PAD4(d) PAD1(e0) PAD1(e1)
    virtual const char* getName() const noexcept { return "stand-in"; }  // 21
    virtual int32_t getNbOptimizationProfiles() const noexcept { return 2; }  // 22
    PAD4(f) PAD4(g) PAD1(h0) PAD1(h1)
    virtual void* createEngineInspector() const noexcept { return new Public<VInspector>; }  // 33
    virtual Dims getTensorShape(const char*) const noexcept { return {2, {-1, 64}}; }  // 34
    virtual int32_t getTensorDataType(const char*) const noexcept { return 1; }        // 35
    virtual int32_t getTensorLocation(const char*) const noexcept { return 0; }        // 36
    PAD1(i0)
    virtual int32_t getTensorIOMode(const char* name) const noexcept { return *name == 'x' ? 1 : 2; }  // 38
    PAD1(j0) PAD1(j1) PAD1(j2)
    virtual const char* getTensorFormatDesc(const char*) const noexcept { return "rows"; }  // 42
    PAD1(k0)
    virtual Dims getProfileShape(const char*, int32_t profile, int32_t selector) const noexcept {  // 44
        return {2, {profile == 0 ? 1 : 7, 60 + selector}};
    }
    virtual int32_t getNbIOTensors() const noexcept { return 2; }                                     // 45
    virtual const char* getIOTensorName(int32_t index) const noexcept { return index == 0 ? "x" : "y"; }  // 46
};

struct VRuntime {
    virtual ~VRuntime() = default;
    virtual void* deserializeCudaEngine(const void* blob, size_t size, void* factory) noexcept {  // 2
        if (size == 4 && std::memcmp(blob, "plan", 4) == 0 && factory == nullptr) return new Public<VEngine>;
        recorder->reportError(5, "no memory for this plan");
        return nullptr;
    }
    PAD4(a)
    virtual void setErrorRecorder(void* r) noexcept { recorder = static_cast<ErrorRecorder*>(r); }  // 7
};

extern "C" {
int32_t getInferLibVersion() { return 8601; }
void* createInferBuilder_INTERNAL(void* l, int32_t version) {
    logger = static_cast<Logger*>(l);
    return version == 8601 ? new Public<VBuilder> : nullptr;
}
void* createInferRuntime_INTERNAL(void* l, int32_t version) {
    logger = static_cast<Logger*>(l);
    return version == 8601 ? new Public<VRuntime> : nullptr;
}
}
