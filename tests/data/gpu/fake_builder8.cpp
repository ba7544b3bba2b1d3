// A stand-in for TensorRT 8.6, or another release (fake_slots.hpp), that "builds" plans, on the stand-in driver: what a process that builds one plan after another keeps,
// mixes up or survives is seen without a GPU. ONNX parser and library are this one file under both names.
//
// A plan is a text: "plan of GRAPH by process PID, number N of it"; where FAKE_TENSORRT_ONNXRUNTIME names ONNX Runtime's library, one that
// fake_tensorrt8.cpp runs (fake_plan.hpp). A graph is known by its file's name, and FAKE_BUILD says how it
// builds ("memory:kill,prompt:slow"): kill, as by a system without memory; oom and workspace, which fail in TensorRT's words; parse;
// unusable, whose plan gets no execution context; slow, which takes a minute; noise, which goes on printing from a thread of its own; with "later-" before it only in a process that has built a plan before. The encoder takes 256 MiB of the host and 4 MiB of the
// device for a while, the others 1 MiB of the device. As in 8.6, kernels are loaded with the first builder and go with the last.
// Where FAKE_EXIT is set, an ordinary end of the process waits for a minute, as destructors may for threads at work.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "fake_plan.hpp"
#include "fake_slots.hpp"

using namespace fake;

namespace {

PlainLogger* logger;
int builders = 0, built = 0;

struct LastWords {
    ~LastWords() {
        if (std::getenv("FAKE_EXIT") != nullptr) sleep(60);
    }
} last_words;

/// Words without a line's end, one of them no UTF-8, as often as the pipe takes them.
void make_noise() {
    for (int i = 0; i < 20000; ++i)
        if (write(STDOUT_FILENO, "noise\xff ", 7) < 0) return;
}

void say(int severity, const std::string& line) { logger->log(severity, line.c_str()); }

/// What is set where FAKE_BUILD_TELLS is in the environment.
void tell(const char* what, int32_t which, size_t value) {
    if (std::getenv("FAKE_BUILD_TELLS") == nullptr) return;
    say(4, std::string(what) + " " + std::to_string(which) + " set to " + std::to_string(value));
}

/// What FAKE_BUILD has for the graph, if it applies in this process.
std::string behaviour(const std::string& graph) {
    const char* given = std::getenv("FAKE_BUILD");
    const std::string all = "," + std::string(given == nullptr ? "" : given) + ",";
    const size_t at = all.find("," + graph + ":");
    if (at == std::string::npos) return "";
    const size_t begin = at + graph.size() + 2;
    const std::string what = all.substr(begin, all.find(',', begin) - begin);
    if (what.rfind("later-", 0) != 0) return what;
    return built > 0 ? what.substr(6) : "";
}

struct Memory : Inner {
    std::string bytes;
};
struct Network : Inner {
    std::string graph, path;
};
struct Parser : Inner {
    Network* network;
};
struct Builder : Inner {
    Allocator* allocator = nullptr;
};
struct Config : Inner {
    void* cache = nullptr;
    std::vector<Shapes> profiles;
};
struct Profile : Inner {
    Shapes shapes;
};
struct Runtime : Inner {
    Allocator* allocator = nullptr;
};
struct Nothing : Inner {};
struct Engine : Inner {
    std::string graph;
};
struct Complaint : Inner {
    int32_t node = -1;
    static const Table table;
    Complaint() { methods = &table; }
} complaint;
const Table Complaint::table =
    Table()
        .with<m::ParserError_code>([](void*) { return 8; })
        .with<m::ParserError_desc>([](void*) {
            return "Assertion failed: creator && \"Plugin not found, are the plugin name, version, and namespace correct?\"";
        })
        .with<m::ParserError_file>([](void*) { return "builtin_op_importers.cpp"; })
        .with<m::ParserError_line>([](void*) { return 4951; })
        .with<m::ParserError_func>([](void*) { return "importFallbackPluginImporter"; })
        .with<m::ParserError_node>([](void* self) { return static_cast<Complaint*>(self)->node; });

template <class T>
void destroy(void* self) {
    auto* outer = static_cast<Outer*>(self);
    delete static_cast<T*>(outer->inner);
    delete outer;
}
template <class T>
Outer* make(const Table& methods, T*& inner) {
    inner = new T;
    inner->methods = &methods;
    return hold<destroy<T>>(inner);
}
template <class T>
Outer* make(const Table& methods) {
    T* inner;
    return make(methods, inner);
}

void* memory(const std::string& bytes) {
    static const Table methods =
        Table()
            .with<m::HostMemory_data>([](void* self) { return static_cast<void*>(&static_cast<Memory*>(self)->bytes[0]); })
            .with<m::HostMemory_size>([](void* self) { return static_cast<Memory*>(self)->bytes.size(); });
    Memory* inner;
    Outer* outer = make(methods, inner);
    inner->bytes = bytes;
    return outer;
}

void* new_config(void*) {
    static const Table cache = Table()
                                   .with<m::TimingCache_serialize>([](void*) { return memory("timed"); })
                                   .with<m::TimingCache_combine>([](void*, void*, bool) { return true; });
    static const Table methods =
        Table()
            .with<m::BuilderConfig_setFlag>([](void*, int32_t flag) { tell("flag", flag, 1); })
            .with<m::BuilderConfig_clearFlag>([](void*, int32_t) {})
            .with<m::BuilderConfig_setMemoryPoolLimit>([](void*, int32_t pool, size_t bytes) { tell("pool", pool, bytes); })
            .with<m::BuilderConfig_setBuilderOptimizationLevel>([](void*, int32_t level) { tell("level", level, 1); })
            .with<m::BuilderConfig_setProgressMonitor>([](void*, void*) {})
            .with<m::BuilderConfig_setHardwareCompatibilityLevel>([](void*, int32_t) {})
            .with<m::BuilderConfig_setAvgTimingIterations>([](void*, int32_t) {})
            .with<m::BuilderConfig_setTacticSources>([](void*, uint32_t) { return true; })
            .with<m::BuilderConfig_setProfilingVerbosity>([](void*, int32_t) {})
            .with<m::BuilderConfig_addOptimizationProfile>([](void* self, void* profile) {
                auto& profiles = static_cast<Config*>(self)->profiles;
                profiles.push_back(static_cast<Profile*>(static_cast<Outer*>(profile)->inner)->shapes);
                return static_cast<int32_t>(profiles.size()) - 1;
            })
            .with<m::BuilderConfig_createTimingCache>(
                [](void*, const void*, size_t) -> void* { return make<Nothing>(cache); })
            .with<m::BuilderConfig_setTimingCache>([](void* self, void* timing, bool) {
                static_cast<Config*>(self)->cache = timing;
                return true;
            })
            .with<m::BuilderConfig_getTimingCache>([](void* self) { return static_cast<Config*>(self)->cache; });
    return make<Config>(methods);
}

void* build(void* self, void* given, void* config) {
    const auto* network = static_cast<Network*>(static_cast<Outer*>(given)->inner);
    const std::string graph = network->graph;
    const std::string how = behaviour(graph);
    const bool large = graph == "encoder";
    say(4, "building " + graph);
    if (large) std::vector<char>(256 << 20, 1);
    auto* allocator = static_cast<Builder*>(self)->allocator;
    void* scratch = allocator->allocate((large ? 4 : 1) << 20, 512, 0);
    if (how == "slow") sleep(60);
    if (how == "kill") std::raise(SIGKILL);
    if (how == "oom") say(1, "Error Code 2: OutOfMemory (no further information)");
    if (how == "workspace") say(1, "Error Code 10: Internal Error (Could not find any implementation for node {x}.)");
    if (scratch == nullptr || !allocator->deallocate(scratch)) std::abort();
    if (how == "noise") std::thread(make_noise).detach();
    if (!how.empty() && how != "slow" && how != "noise" && how != "unusable") return nullptr;
    ++built;
    if (std::getenv("FAKE_TENSORRT_ONNXRUNTIME") != nullptr)
        return memory(plan_of(network->path, static_cast<Config*>(static_cast<Outer*>(config)->inner)->profiles));
    return memory("plan of " + graph + " by process " + std::to_string(getpid()) + ", number " + std::to_string(built) +
                  " of it");
}

void delete_builder(void* self) {
    destroy<Builder>(self);
    if (--builders == 0) say(3, "kernels unloaded");
}

void* new_context(void* self) {
    static const Table methods;
    if (behaviour(static_cast<Engine*>(self)->graph) != "unusable") return make<Nothing>(methods);
    say(1, "[graphContext.h::MyelinGraphContext::34] Error Code 1: Myelin (No Myelin Error exists)");
    return nullptr;
}

void* deserialize(void* self, const void* plan, size_t size, void*) {
    static const Table inspector = Table().with<m::EngineInspector_getEngineInformation>([](void*, int32_t) {
        return "{\"Layers\": [\"one\"], \"Bindings\": []}";
    });
    static const Table methods =
        Table()
            .with<m::CudaEngine_getDeviceMemorySize>([](void*) { return static_cast<size_t>(4096); })
            .with<m::CudaEngine_getDeviceMemorySizeV2>([](void*) { return static_cast<int64_t>(4096); })
            .with<m::CudaEngine_createEngineInspector>([](void*) -> void* { return make<Nothing>(inspector); })
            .with<m::CudaEngine_createExecutionContextWithoutDeviceMemory>(new_context)
            .with<m::CudaEngine_createExecutionContextWithStrategy>([](void* self, int32_t) { return new_context(self); });
    auto* allocator = static_cast<Runtime*>(self)->allocator;
    if (!allocator->deallocate(allocator->allocate(size, 512, 0))) std::abort();
    Engine* engine;
    Outer* outer = make(methods, engine);
    const std::string text(static_cast<const char*>(plan), size), begin = "plan of ";
    if (text.rfind(begin, 0) == 0) engine->graph = text.substr(begin.size(), text.find(' ', begin.size()) - begin.size());
    return outer;
}

}  // namespace

extern "C" {
int32_t getInferLibVersion() { return kRelease.version; }

void* createInferBuilder_INTERNAL(void* l, int32_t) {
    static const Table profile =
        Table()
            .with<m::OptimizationProfile_setDimensions32>([](void* self, const char* input, int32_t, Dims32 dims) {
                // Least, usual and most are the same.
                static_cast<Profile*>(self)->shapes[input] = std::vector<int64_t>(dims.d, dims.d + dims.nbDims);
                return true;
            })
            .with<m::OptimizationProfile_setDimensions>([](void* self, const char* input, int32_t, const void* given) {
                const Dims64 dims = *static_cast<const Dims64*>(given);
                static_cast<Profile*>(self)->shapes[input] = std::vector<int64_t>(dims.d, dims.d + dims.nbDims);
                return true;
            });
    // Nothing in it can be pinned.
    static const Table network = Table().with<m::NetworkDefinition_getNbLayers>([](void*) { return 0; });
    static const Table methods =
        Table()
            .with<m::Builder_setErrorRecorder>([](void*, void*) {})
            .with<m::Builder_setGpuAllocator>([](void* self, void* allocator) {
                static_cast<Builder*>(self)->allocator = static_cast<Allocator*>(allocator);
            })
            .with<m::Builder_createNetworkV2>([](void*, uint32_t) -> void* { return make<Network>(network); })
            .with<m::Builder_createBuilderConfig>(new_config)
            .with<m::Builder_createOptimizationProfile>([](void*) -> void* { return make<Profile>(profile); })
            .with<m::Builder_buildSerializedNetwork>(build);
    logger = static_cast<PlainLogger*>(l);
    if (builders++ == 0) say(3, "kernels loaded");
    auto* builder = new Builder;
    builder->methods = &methods;
    return hold<delete_builder>(builder);
}

void* createNvOnnxParser_INTERNAL(void* network, void*, int32_t) {
    static const Table methods =
        Table()
            .with<m::Parser_parseFromFile>([](void* self, const char* path, int32_t) {
                char* whole = realpath(path, nullptr);
                static_cast<Parser*>(self)->network->path = whole == nullptr ? path : whole;
                std::free(whole);
                std::string name = path;
                name = name.substr(name.rfind('/') + 1);
                name = name.substr(0, name.rfind('.'));
                static_cast<Parser*>(self)->network->graph = name;
                say(4, "parsed " + name);
                // The parser of 8.5 has no LayerNormalization.
                const bool old = kRelease.family == Trt8 && kRelease.minor < 6;
                complaint.node = old ? fake::node_of(path, "LayerNormalization") : -1;
                return behaviour(name) != "parse" && complaint.node < 0;
            })
            .with<m::Parser_getNbErrors>([](void*) { return complaint.node < 0 ? 0 : 1; })
            .with<m::Parser_getError>([](void*, int32_t) -> void* { return &complaint; })
            .with<m::Parser_deletingDestructor>([](void* self) { delete static_cast<Parser*>(self); });
    auto* parser = new Parser;
    parser->methods = &methods;
    parser->network = static_cast<Network*>(static_cast<Outer*>(network)->inner);
    return parser;
}

void* createInferRuntime_INTERNAL(void* l, int32_t) {
    static const Table methods = Table()
                                     .with<m::Runtime_deserializeCudaEngineWithPluginFactory>(deserialize)
                                     .with<m::Runtime_deserializeCudaEngine>([](void* self, const void* plan, size_t size) {
                                         return deserialize(self, plan, size, nullptr);
                                     })
                                     .with<m::Runtime_setErrorRecorder>([](void*, void*) {})
                                     .with<m::Runtime_setGpuAllocator>([](void* self, void* allocator) {
                                         static_cast<Runtime*>(self)->allocator = static_cast<Allocator*>(allocator);
                                     });
    logger = static_cast<PlainLogger*>(l);
    return make<Runtime>(methods);
}
}
