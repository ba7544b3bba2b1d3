// ONNX Runtime's C interface, as far as the stand-in for TensorRT needs it: no header of it is at hand.
#pragma once
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

/// ONNX Runtime's C interface: a table of functions whose order never changes (OrtApi in onnxruntime_c_api.h).
enum { GetErrorMessage = 2, CreateEnv = 3, CreateSession = 7, Run = 9, CreateSessionOptions = 10,
       SetGraphOptimizationLevel = 23, SetIntraOpNumThreads = 24, GetInputCount = 30, GetOutputCount = 31, GetInputTypeInfo = 33,
       GetOutputTypeInfo = 34, GetInputName = 36, GetOutputName = 37, CreateTensorWithData = 49, CastToTensorInfo = 55,
       GetElementType = 60, GetDimensionsCount = 61, GetDimensions = 62, GetSymbolicDimensions = 63, CreateCpuMemoryInfo = 69,
       GetDefaultAllocator = 78, ReleaseSession = 95, ReleaseValue = 96 };
/// ONNX's numbers of element types.
enum { ONNX_FLOAT = 1, ONNX_INT32 = 6, ONNX_HALF = 10 };
void* const* ort() {
    static void* const* api = [] {
        struct Base {
            void* const* (*get)(uint32_t);
        };
        const char* path = std::getenv("FAKE_TENSORRT_ONNXRUNTIME");
        void* library = path ? dlopen(path, RTLD_NOW) : nullptr;
        auto* base = library ? reinterpret_cast<const Base* (*)()>(dlsym(library, "OrtGetApiBase")) : nullptr;
        if (base == nullptr) std::fprintf(stderr, "no ONNX Runtime in FAKE_TENSORRT_ONNXRUNTIME\n"), std::abort();
        return base()->get(17);
    }();
    return api;
}
template <class... A>
void ask(int method, A... arguments) {
    void* status = reinterpret_cast<void* (*)(A...)>(ort()[method])(arguments...);
    if (status == nullptr) return;
    std::fprintf(stderr, "ONNX Runtime: %s\n", reinterpret_cast<const char* (*)(void*)>(ort()[GetErrorMessage])(status));
    std::abort();
}
/// `level`: 0 takes the graph as it stands, 99 optimizes it. FAKE_TENSORRT_THREADS: of processors, 1 where it is not set.
void* open_session(const std::string& file, int level) {
    static void* env = nullptr;
    void *options = nullptr, *session = nullptr;
    const char* threads = std::getenv("FAKE_TENSORRT_THREADS");
    if (env == nullptr) ask(CreateEnv, 3, "stand-in", &env);
    ask(CreateSessionOptions, &options);
    ask(SetGraphOptimizationLevel, options, level);
    ask(SetIntraOpNumThreads, options, threads == nullptr ? 1 : std::atoi(threads));
    ask(CreateSession, env, file.c_str(), options, &session);
    return session;
}
void release(int method, void* object) { reinterpret_cast<void (*)(void*)>(ort()[method])(object); }

/// An input or output of a graph.
struct Port {
    std::string name;
    bool input = false;
    int type = 0;                      // ONNX's number
    std::vector<int64_t> dims;         // -1: open
    std::vector<std::string> symbols;  // of open ones; empty for the others
};
std::vector<Port> ports_of(void* session) {
    std::vector<Port> found;
    void* allocator = nullptr;
    ask(GetDefaultAllocator, &allocator);
    for (const bool input : {true, false}) {
        size_t count = 0;
        ask(input ? GetInputCount : GetOutputCount, session, &count);
        for (size_t at = 0; at < count; ++at) {
            char* name = nullptr;
            void* type = nullptr;
            const void* tensor = nullptr;
            size_t rank = 0;
            // Neither the name nor the type is given back: a few bytes of a process that ends soon.
            ask(input ? GetInputName : GetOutputName, session, at, allocator, &name);
            ask(input ? GetInputTypeInfo : GetOutputTypeInfo, session, at, &type);
            ask(CastToTensorInfo, type, &tensor);
            Port port;
            port.name = name, port.input = input;
            ask(GetElementType, tensor, &port.type);
            ask(GetDimensionsCount, tensor, &rank);
            port.dims.resize(rank);
            std::vector<const char*> symbols(rank);
            ask(GetDimensions, tensor, port.dims.data(), rank);
            ask(GetSymbolicDimensions, tensor, symbols.data(), rank);
            port.symbols.assign(symbols.begin(), symbols.end());
            found.push_back(port);
        }
    }
    return found;
}

}  // namespace
