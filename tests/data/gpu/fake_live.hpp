// Runs of "onnx FILE" plans. Included once, by fake_tensorrt8.cpp, inside its namespace and behind its types.
/// One run as it was enqueued.
struct Live {
    Context* context;
    std::map<std::string, void*> addresses;
    std::map<std::string, Dims32> shapes;
};
/// With the scratch memory that was set then.
struct LiveAt : Live {
    void* memory;
};
size_t elements(const Dims32& dims) {
    size_t count = 1;
    for (int32_t i = 0; i < dims.nbDims; ++i) count *= dims.d[i];
    return count;
}
/// Cuts a padded bank of one object to the slots whose keys are not masked.
void cut_bank(const Live& run, std::map<std::string, Dims32>& shapes) {
    const auto* bias = static_cast<const float*>(run.addresses.at("bias"));
    Dims32 &mem = shapes.at("mem"), &ptrs = shapes.at("ptrs");
    const size_t keys = elements(shapes.at("bias")), memory_keys = static_cast<size_t>(mem.d[1]) * mem.d[2];
    const size_t split = (keys - memory_keys) / ptrs.d[1];
    size_t memories = 0, pointers = 0;
    for (size_t key = 0; key < keys; ++key) (key < memory_keys ? memories : pointers) += bias[key] == 0.0f;
    mem.d[1] = shapes.at("tidx").d[0] = static_cast<int32_t>(memories / mem.d[2]);
    ptrs.d[1] = static_cast<int32_t>(pointers / split);
    if (shapes.count("ptr_t") != 0) shapes.at("ptr_t").d[0] = ptrs.d[1];
    shapes.erase("bias");
}
/// Runs the graph on addresses of the host.
void compute(const Live& given) {
    const Live* run = &given;
    Engine* engine = run->context->engine;
    static void* info = nullptr;
    if (info == nullptr) ask(CreateCpuMemoryInfo, 0, 0, &info);
    if (engine->session == nullptr) {
        engine->session = open_session(engine->onnx, 99);
        for (const Port& port : ports_of(engine->session)) engine->takes_bias = engine->takes_bias || port.name == "bias";
    }
    auto shapes = run->shapes;
    if (shapes.count("bias") != 0 && !engine->takes_bias) cut_bank(*run, shapes);
    std::vector<const char*> names[2];
    std::vector<void*> tensors[2];
    // Most graphs' numbers are floats; what an engine's ports have as halves is converted on its way in and out, unless the graph
    // has halves there too ("f16").
    std::map<std::string, std::vector<float>> floats;
    for (auto& [name, dims] : shapes) {
        const Tensor& tensor = engine->tensors.at(name);
        int64_t shape[8];
        for (int32_t i = 0; i < dims.nbDims; ++i) shape[i] = dims.d[i];
        void *value = nullptr, *at = run->addresses.at(name);
        const bool half = tensor.file == "f16";
        if (tensor.type == 1 && !half) {
            const auto* halves = static_cast<const uint16_t*>(at);
            auto& own = floats[name];
            for (size_t i = 0; i < elements(dims); ++i) own.push_back(tensor.input ? host_halves()[halves[i]] : 0.0f);
            at = own.data();
        }
        ask(CreateTensorWithData, info, at, (half ? 2 : 4) * elements(dims), static_cast<const int64_t*>(shape),
            static_cast<size_t>(dims.nbDims), tensor.type == 3 ? ONNX_INT32 : half ? ONNX_HALF : ONNX_FLOAT, &value);
        const int side = tensor.input ? 0 : 1;
        names[side].push_back(engine->tensors.find(name)->first.c_str());
        tensors[side].push_back(value);
    }
    ask(Run, engine->session, static_cast<void*>(nullptr), names[0].data(), tensors[0].data(), names[0].size(),
        names[1].data(), names[1].size(), tensors[1].data());
    for (auto& [name, own] : floats)
        for (size_t i = 0; i < own.size() && !engine->tensors.at(name).input; ++i)
            static_cast<uint16_t*>(run->addresses.at(name))[i] = host_half_bits(own[i]);
    for (auto& side : tensors)
        for (void* value : side) release(ReleaseValue, value);
    if (engine->behave == "nan") *static_cast<float*>(run->addresses.at("score")) = __builtin_nanf("");
    if (engine->behave == "nan_logits") {
        auto* logits = static_cast<float*>(run->addresses.at("low"));
        logits[0] = __builtin_nanf(""), logits[elements(shapes.at("low")) - 1] = -__builtin_inff();
    }
}
/// The "kernel" on the stand-in driver, whose device has the host's memory: runs when the stream, or a graph, comes to it.
void live(void* argument) {
    auto* run = static_cast<LiveAt*>(argument);
    std::memset(run->memory, 0x77, run->context->engine->memory);
    compute(*run);
}
