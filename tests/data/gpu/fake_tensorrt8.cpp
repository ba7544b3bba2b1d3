// A stand-in for TensorRT 8.6 that "runs" plans of recorded values on the stand-in driver: what the self-test does with
// engines, contexts, profiles, memory and streams is exercised, and held against TensorRT's rules, without a GPU.
//
// A plan is a text: "memory BYTES", "profiles N", "behave ok|crash|nan|nan_logits|unwritten|unstable|wrong" or "onnx FILE",
// "in NAME TYPE FILE DIMS…" and "out NAME TYPE FILE DIMS…" (TYPE 0 fp32, 1 fp16, 3 int32; -1 in DIMS: open),
// "shape PROFILE NAME DIMS…". FILE.PROFILE.N holds the bytes of an input or output in the Nth recorded run. A run gives
// the outputs of the one whose inputs it was given; zeros for inputs that were never recorded. With "onnx FILE" ONNX
// Runtime (FAKE_TENSORRT_ONNXRUNTIME names its library) runs the graph in place, on the addresses that were set when the
// run was enqueued; a padded bank is cut to the slots that its bias leaves, unless the graph takes the bias itself; FILE is "f16" where
// the graph itself has halves. Such plans run on a real driver, too, with copies between (fake_copies.hpp). Slots and signatures are those of the
// shim's own tables.
#include <dlfcn.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "half.h"
#include "fake_onnx.hpp"
#include "fake_slots.hpp"

using namespace fake;

namespace {

PlainLogger* logger;

bool refuse(const std::string& why) {
    logger->log(1, why.c_str());
    return false;
}

struct Tensor {
    bool input = false;
    int32_t type = 0;
    std::string file;
    Dims32 dims{};
    std::map<int32_t, Dims32> shapes;  // of profiles
};
struct Engine : Inner {
    size_t memory = 0;
    int32_t profiles = 1;
    std::string behave = "ok";
    std::string onnx;
    void* session = nullptr;
    bool takes_bias = false;
    std::vector<std::string> names;
    std::map<std::string, Tensor> tensors;
    std::set<int32_t> used;  // profiles that a context has
    PlainAllocator* allocator = nullptr;
    void* weights = nullptr;
};
struct Context : Inner {
    Engine* engine = nullptr;
    int32_t profile = 0;
    int runs = 0;
    void* memory = nullptr;
    PlainProfiler* profiler = nullptr;
    std::map<std::string, Dims32> shapes;
    std::map<std::string, void*> addresses;
};
struct Runtime : Inner {
    PlainAllocator* allocator = nullptr;
};

bool same(const Dims32& a, const Dims32& b) {
    return a.nbDims == b.nbDims && std::memcmp(a.d, b.d, sizeof(int32_t) * a.nbDims) == 0;
}
bool is_open(const Dims32& dims) {
    for (int32_t i = 0; i < dims.nbDims; ++i)
        if (dims.d[i] < 0) return true;
    return false;
}
Dims32 read_dims(std::istream& from) {
    Dims32 dims{};
    for (int32_t extent; dims.nbDims < 8 && from >> extent;) dims.d[dims.nbDims++] = extent;
    return dims;
}
Tensor& of(Engine* engine, const char* name) { return engine->tensors.at(name); }

// ---- running

/// Empty where there is no such run.
std::vector<char> values(const Tensor& tensor, int32_t profile, int run) {
    std::ifstream file(tensor.file + "." + std::to_string(profile) + "." + std::to_string(run),
                       std::ios::binary | std::ios::ate);
    std::vector<char> bytes(file ? static_cast<size_t>(file.tellg()) : 0);
    file.seekg(0);
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
}

/// The recorded run whose inputs lie in the context's memory; -1 for none.
int recorded(const Context& context) {
    for (int run = 0;; ++run) {
        bool all = true;
        for (auto& [name, tensor] : context.engine->tensors) {
            if (!tensor.input) continue;
            const auto wanted = values(tensor, context.profile, run);
            if (wanted.empty()) return -1;
            all = all && std::memcmp(context.addresses.at(name), wanted.data(), wanted.size()) == 0;
        }
        if (all) return run;
    }
}

#include "fake_live.hpp"
#include "fake_copies.hpp"

/// The "kernel": runs when the driver's stream, or a graph, comes to it.
void kernel(void* argument) {
    auto* context = static_cast<Context*>(argument);
    Engine* engine = context->engine;
    std::memset(context->memory, 0x77, engine->memory);
    const int run = recorded(*context);
    ++context->runs;
    for (auto& [name, tensor] : engine->tensors) {
        if (tensor.input) continue;
        auto out = values(tensor, context->profile, run < 0 ? 0 : run);
        if (run < 0 || engine->behave == "wrong") std::fill(out.begin(), out.end(), 0);
        const bool later = engine->behave == "unstable" && context->runs > 1;
        const float bad = later ? 1e3f : engine->behave == "nan" ? __builtin_nanf("") : 0.0f;
        if (bad != 0.0f) std::memcpy(out.data(), &bad, sizeof bad);
        const size_t size = engine->behave == "unwritten" ? out.size() / 2 : out.size();
        std::memcpy(context->addresses[name], out.data(), size);
    }
}

bool enqueue(void* self, void* stream) {
    auto* context = static_cast<Context*>(self);
    Engine* engine = context->engine;
    if (engine->behave == "crash") std::raise(SIGSEGV);
    if (engine->memory > 0 && context->memory == nullptr) return refuse("no device memory was set");
    for (auto& [name, tensor] : engine->tensors) {
        if (context->addresses.count(name) == 0) return refuse("no address was set for " + name);
        if (tensor.input && is_open(tensor.dims) && context->shapes.count(name) == 0)
            return refuse("no shape was set for " + name);
    }
    Live run{context, context->addresses, {}};
    for (auto& [name, tensor] : engine->tensors) {
        const auto given = context->shapes.find(name);
        const auto of_profile = tensor.shapes.find(context->profile);
        run.shapes[name] = given != context->shapes.end()          ? given->second
                           : of_profile != tensor.shapes.end() ? of_profile->second
                                                               : tensor.dims;
    }
    if (on_host()) {
        using host_fn = void(void*);
        static auto* launch = of_driver<int(void*, host_fn*, void*)>("cuLaunchHostFunc");
        // A recorded run may come again as long as the process lives.
        void* work = engine->onnx.empty() ? static_cast<void*>(context) : new LiveAt{run, context->memory};
        if (launch(stream, engine->onnx.empty() ? kernel : live, work) != 0) return refuse("the driver took no work");
    } else if (engine->onnx.empty()) {
        return refuse("a plan of recorded values runs on the stand-in driver alone");
    } else if (!run_copied(run, context->memory, stream)) {
        return false;
    }
    // Two layers of one name, as real engines have: the first takes as many ms as there were runs, the second 8.
    if (context->profiler != nullptr) {
        context->profiler->reportLayerTime("both", static_cast<float>(context->runs));
        context->profiler->reportLayerTime("both", 8.0f);
    }
    return true;
}

// ---- deletion

void delete_runtime(void* self) {
    auto* outer = static_cast<Outer*>(self);
    delete static_cast<Runtime*>(outer->inner);
    delete outer;
}
void delete_engine(void* self) {
    auto* outer = static_cast<Outer*>(self);
    auto* engine = static_cast<Engine*>(outer->inner);
    if (engine->weights != nullptr && !engine->allocator->deallocate(engine->weights)) std::abort();
    delete engine;
    delete outer;
}
/// As 8.x does without profile sharing: a profile belongs to one context.
bool take_profile(Context* context, int32_t profile) {
    Engine* engine = context->engine;
    bool open = false;
    for (auto& [name, tensor] : engine->tensors) open = open || is_open(tensor.dims);
    if (open && profile != context->profile && engine->used.count(profile) != 0) return false;
    engine->used.erase(context->profile);
    engine->used.insert(profile);
    context->profile = profile;
    return true;
}
void delete_context(void* self) {
    auto* outer = static_cast<Outer*>(self);
    auto* context = static_cast<Context*>(outer->inner);
    context->engine->used.erase(context->profile);
    delete static_cast<Context*>(outer->inner);
    delete outer;
}

// ---- methods

void* new_context(void* self) {
    static const Table methods =
        Table()
            .with<m::ExecutionContext_setDeviceMemory>([](void* c, void* memory) {
                if (reinterpret_cast<uintptr_t>(memory) % 256 != 0) std::abort();
                static_cast<Context*>(c)->memory = memory;
            })
            .with<m::ExecutionContext_getOptimizationProfile>([](void* c) { return static_cast<Context*>(c)->profile; })
            .with<m::ExecutionContext_setOptimizationProfileAsync>([](void* c, int32_t profile, void*) {
                auto* context = static_cast<Context*>(c);
                if (profile < 0 || profile >= context->engine->profiles) return refuse("no such profile");
                if (!take_profile(context, profile)) return refuse("another context uses the profile");
                context->shapes.clear();
                return true;
            })
            .with<m::ExecutionContext_setInputShape>([](void* c, const char* name, const void* dims) {
                auto* context = static_cast<Context*>(c);
                const auto& shape = *static_cast<const Dims32*>(dims);
                const auto& shapes = of(context->engine, name).shapes;
                const auto wanted = shapes.find(context->profile);
                if (wanted == shapes.end() || !same(wanted->second, shape))
                    return refuse(std::string("not the profile's shape: ") + name);
                context->shapes[name] = shape;
                return true;
            })
            .with<m::ExecutionContext_getTensorShape32>([](void* c, const char* name) {
                auto* context = static_cast<Context*>(c);
                const auto found = context->shapes.find(name);
                if (found != context->shapes.end()) return found->second;
                const Tensor& tensor = of(context->engine, name);
                // Outputs are known once all inputs are.
                const auto known = tensor.shapes.find(context->profile);
                for (auto& [input, other] : context->engine->tensors)
                    if (other.input && is_open(other.dims) && context->shapes.count(input) == 0) return tensor.dims;
                return known == tensor.shapes.end() ? tensor.dims : known->second;
            })
            .with<m::ExecutionContext_setTensorAddress>([](void* c, const char* name, void* address) {
                auto* context = static_cast<Context*>(c);
                if (context->engine->tensors.count(name) == 0) return refuse("no such tensor");
                if (reinterpret_cast<uintptr_t>(address) % 256 != 0) return refuse("an address is not aligned");
                context->addresses[name] = address;
                return true;
            })
            .with<m::ExecutionContext_inferShapes>([](void* c, int32_t, void*) {
                auto* context = static_cast<Context*>(c);
                int32_t missing = 0;
                for (auto& [name, tensor] : context->engine->tensors)
                    missing += tensor.input && is_open(tensor.dims) && context->shapes.count(name) == 0;
                return missing;
            })
            .with<m::ExecutionContext_setProfiler>([](void* c, void* profiler) {
                static_cast<Context*>(c)->profiler = static_cast<PlainProfiler*>(profiler);
            })
            .with<m::ExecutionContext_setEnqueueEmitsProfile>([](void*, bool at_once) {
                if (!at_once) unexpected();
            })
            .with<m::ExecutionContext_enqueueV3>(enqueue);
    auto* context = new Context;
    context->methods = &methods;
    context->engine = static_cast<Engine*>(self);
    context->profile = -1;
    if (context->engine->used.empty()) take_profile(context, 0);
    return hold<delete_context>(context);
}

void* new_engine(void* self, const void* plan, size_t size, void*) {
    static const Table methods =
        Table()
            .with<m::CudaEngine_getNbIOTensors>(
                [](void* e) { return static_cast<int32_t>(static_cast<Engine*>(e)->names.size()); })
            .with<m::CudaEngine_getIOTensorName>(
                [](void* e, int32_t index) { return static_cast<Engine*>(e)->names.at(index).c_str(); })
            .with<m::CudaEngine_getTensorIOMode>(
                [](void* e, const char* name) { return of(static_cast<Engine*>(e), name).input ? 1 : 2; })
            .with<m::CudaEngine_getTensorDataType>(
                [](void* e, const char* name) { return of(static_cast<Engine*>(e), name).type; })
            .with<m::CudaEngine_getTensorShape32>(
                [](void* e, const char* name) { return of(static_cast<Engine*>(e), name).dims; })
            .with<m::CudaEngine_getTensorLocation>([](void*, const char*) { return 0; })
            .with<m::CudaEngine_getTensorFormatDesc>([](void*, const char*) { return "rows"; })
            .with<m::CudaEngine_getNbOptimizationProfiles>([](void* e) { return static_cast<Engine*>(e)->profiles; })
            .with<m::CudaEngine_getProfileShape32>([](void* e, const char* name, int32_t profile, int32_t) {
                const Tensor& tensor = of(static_cast<Engine*>(e), name);
                const auto found = tensor.shapes.find(profile);
                return found == tensor.shapes.end() ? tensor.dims : found->second;
            })
            .with<m::CudaEngine_getDeviceMemorySize>([](void* e) { return static_cast<Engine*>(e)->memory; })
            .with<m::CudaEngine_createExecutionContextWithoutDeviceMemory>(new_context);
    auto* engine = new Engine;
    engine->methods = &methods;
    engine->allocator = static_cast<Runtime*>(self)->allocator;
    // As 8.6 does: through the allocator, aligned to 512.
    engine->weights = engine->allocator->allocate(size, 512, 0);
    if (engine->weights == nullptr || reinterpret_cast<uintptr_t>(engine->weights) % 512 != 0) std::abort();

    std::istringstream text(std::string(static_cast<const char*>(plan), size));
    for (std::string line; std::getline(text, line);) {
        std::istringstream words(line);
        std::string what, name;
        words >> what;
        if (what == "memory") words >> engine->memory;
        if (what == "profiles") words >> engine->profiles;
        if (what == "behave") words >> engine->behave;
        if (what == "onnx") std::getline(words >> std::ws, engine->onnx);  // blanks and all
        if (what == "in" || what == "out") {
            words >> name;
            Tensor& tensor = engine->tensors[name];
            tensor.input = what == "in";
            words >> tensor.type >> tensor.file;
            tensor.dims = read_dims(words);
            engine->names.push_back(name);
        }
        if (what == "shape") {
            int32_t profile;
            words >> profile >> name;
            engine->tensors.at(name).shapes[profile] = read_dims(words);
        }
    }
    return hold<delete_engine>(engine);
}

}  // namespace

extern "C" {
int32_t getInferLibVersion() { return 8601; }
void* createInferRuntime_INTERNAL(void* l, int32_t) {
    static const Table methods = Table()
                                     .with<m::Runtime_deserializeCudaEngineWithPluginFactory>(new_engine)
                                     .with<m::Runtime_setErrorRecorder>([](void*, void*) {})
                                     .with<m::Runtime_setGpuAllocator>([](void* r, void* allocator) {
                                         static_cast<Runtime*>(r)->allocator = static_cast<PlainAllocator*>(allocator);
                                     });
    logger = static_cast<PlainLogger*>(l);
    auto* runtime = new Runtime;
    runtime->methods = &methods;
    return hold<delete_runtime>(runtime);
}
}
