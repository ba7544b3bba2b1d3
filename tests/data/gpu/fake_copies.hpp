// Runs of "onnx FILE" plans on a driver whose device has memory of its own. Included once, by fake_tensorrt8.cpp, behind fake_live.hpp.
//
// All happens while the run is enqueued: a host function of a stream, in which the stand-in driver runs graphs, may not call the driver.
// So the stream is waited for, inputs are copied to the host, the graph runs there, outputs are copied back. What is enqueued on
// other streams meanwhile goes on; what this program's kernels do before and behind is what they do beside TensorRT.

/// A function of the driver that the program has opened already.
template <class Fn>
Fn* of_driver(const char* name) {
    static void* library = [] {
        for (const char* file : {"libcuda.so.1", "libcuda.so"})
            if (void* open = dlopen(file, RTLD_NOW | RTLD_NOLOAD)) return open;
        std::fprintf(stderr, "the stand-in for TensorRT finds no driver that the program has opened\n"), std::abort();
    }();
    return reinterpret_cast<Fn*>(dlsym(library, name));
}
/// Whether device addresses are the host's: only where the driver says so, which no real one does.
bool on_host() {
    static const bool shared = [] {
        auto* shares = of_driver<int()>("stand_in_shares_memory");
        return shares != nullptr && shares() != 0;
    }();
    return shared;
}
size_t bytes_of(const Tensor& tensor, const Dims32& dims) { return (tensor.type == 1 ? 2 : 4) * elements(dims); }

/// Calls a function of the driver by its name; what it says where it fails.
template <class... A>
void call(const char* name, A... arguments) {
    auto* fn = of_driver<int(A...)>(name);
    const int code = fn == nullptr ? -1 : fn(arguments...);
    if (code != 0) throw std::string(name) + (code < 0 ? " is not in the driver" : " gave CUDA error " + std::to_string(code));
}
bool run_copied(const Live& given, void* memory, void* stream) {
    const Engine* engine = given.context->engine;
    Live run = given;
    std::map<std::string, std::vector<char>> host;
    try {
        int capturing = 0;
        call("cuStreamIsCapturing", stream, &capturing);
        if (capturing != 0) return refuse("the stand-in for TensorRT cannot be recorded on this driver; give --no-cuda-graphs");
        for (auto& [name, dims] : run.shapes) {
            const Tensor& tensor = engine->tensors.at(name);
            auto& bytes = host[name];
            bytes.resize(bytes_of(tensor, dims));
            run.addresses[name] = bytes.data();
            const auto device = reinterpret_cast<uint64_t>(given.addresses.at(name));
            if (tensor.input) call("cuMemcpyDtoHAsync_v2", static_cast<void*>(bytes.data()), device, bytes.size(), stream);
        }
        if (engine->memory > 0)
            call("cuMemsetD8Async", reinterpret_cast<uint64_t>(memory), static_cast<unsigned char>(0x77), engine->memory, stream);
        call("cuStreamSynchronize", stream);
        {
            static std::mutex one_at_a_time;
            const std::lock_guard<std::mutex> held(one_at_a_time);
            compute(run);
        }
        for (auto& [name, bytes] : host) {
            if (engine->tensors.at(name).input) continue;
            const auto device = reinterpret_cast<uint64_t>(given.addresses.at(name));
            call("cuMemcpyHtoDAsync_v2", device, static_cast<const void*>(bytes.data()), bytes.size(), stream);
        }
        // Host memory that is not pinned must live until it is copied.
        call("cuStreamSynchronize", stream);
    } catch (const std::string& why) {
        return refuse("the stand-in for TensorRT: " + why);
    }
    return true;
}
