// ONNX Runtime's C interface, as far as the stand-in for TensorRT needs it: no header of it is at hand.
#pragma once
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

/// ONNX Runtime's C interface: a table of functions whose order never changes (OrtApi in onnxruntime_c_api.h).
enum { GetErrorMessage = 2, CreateEnv = 3, CreateSession = 7, Run = 9, CreateSessionOptions = 10,
       SetGraphOptimizationLevel = 23, SetIntraOpNumThreads = 24, CreateTensorWithData = 49, CreateCpuMemoryInfo = 69,
       ReleaseValue = 96 };
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
void* open_session(const std::string& file) {
    static void* env = nullptr;
    void *options = nullptr, *session = nullptr;
    if (env == nullptr) ask(CreateEnv, 3, "stand-in", &env);
    ask(CreateSessionOptions, &options);
    ask(SetGraphOptimizationLevel, options, 99);
    ask(SetIntraOpNumThreads, options, 1);
    ask(CreateSession, env, file.c_str(), options, &session);
    return session;
}

}  // namespace
