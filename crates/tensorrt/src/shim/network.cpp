// The ONNX parser and the network that it fills: inputs, outputs, layers and their precision.
#include "call.hpp"

using namespace segtrt;
namespace m = segtrt::method;

namespace {

void* const kNothing = nullptr;
const char* const kNoText = nullptr;

// The generated table says "Layer_SOFTMAX"; callers want TensorRT's own word.
constexpr int kFirstLayerName = [] {
    for (int i = 0; i < kValueCount; ++i)
        if (kValues[i] == kLayer[0]) return i;
    return -1;
}();

}  // namespace

extern "C" {

void* segtrt_parser_new(const segtrt_api* api, void* network) {
    return guard(kNothing, [&]() -> void* {
        auto create = reinterpret_cast<void* (*)(void*, void*, int)>(api->entry.create_parser);
        return create == nullptr ? nullptr : create(network, api->logger, api->entry.parser_version);
    });
}
void segtrt_parser_delete(const segtrt_api* api, void* parser) {
    if (parser == nullptr) return;
    guard(0, [&] {
        direct<m::Parser_deletingDestructor>(api, parser);
        return 0;
    });
}
int32_t segtrt_parser_parse(const segtrt_api* api, void* parser, const char* path) {
    return guard(static_cast<int32_t>(0), [&]() -> int32_t {
        const int32_t warnings = value(api, kSeverity, Severity_WARNING);
        return direct<m::Parser_parseFromFile>(api, parser, path, warnings) ? 1 : 0;
    });
}
int32_t segtrt_parser_errors(const segtrt_api* api, void* parser) {
    return guard(static_cast<int32_t>(0),
                 [&]() -> int32_t { return direct<m::Parser_getNbErrors>(api, parser); });
}

segtrt_status segtrt_parser_error_at(const segtrt_api* api, void* parser, int32_t index, segtrt_parser_error* out) {
    return guard_status([&]() -> segtrt_status {
        void* error = direct<m::Parser_getError>(api, parser, index);
        if (error == nullptr || out == nullptr) return SEGTRT_REFUSED;
        out->code = direct<m::ParserError_code>(api, error);
        out->node = direct<m::ParserError_node>(api, error);
        out->line = direct<m::ParserError_line>(api, error);
        out->description = direct<m::ParserError_desc>(api, error);
        out->file = direct<m::ParserError_file>(api, error);
        out->function = direct<m::ParserError_func>(api, error);
        const bool named = has<m::ParserError_nodeName>(api);
        out->node_name = named ? direct<m::ParserError_nodeName>(api, error) : nullptr;
        out->node_operator = named ? direct<m::ParserError_nodeOperator>(api, error) : nullptr;
        return SEGTRT_OK;
    });
}

int32_t segtrt_network_inputs(const segtrt_api* api, void* network) {
    return ask<m::NetworkDefinition_getNbInputs>(static_cast<int32_t>(0), api, network);
}
int32_t segtrt_network_outputs(const segtrt_api* api, void* network) {
    return ask<m::NetworkDefinition_getNbOutputs>(static_cast<int32_t>(0), api, network);
}
int32_t segtrt_network_layers(const segtrt_api* api, void* network) {
    return ask<m::NetworkDefinition_getNbLayers>(static_cast<int32_t>(0), api, network);
}
void* segtrt_network_input(const segtrt_api* api, void* network, int32_t index) {
    return ask<m::NetworkDefinition_getInput>(kNothing, api, network, index);
}
void* segtrt_network_output(const segtrt_api* api, void* network, int32_t index) {
    return ask<m::NetworkDefinition_getOutput>(kNothing, api, network, index);
}
void* segtrt_network_layer(const segtrt_api* api, void* network, int32_t index) {
    return ask<m::NetworkDefinition_getLayer>(kNothing, api, network, index);
}

const char* segtrt_tensor_name(const segtrt_api* api, void* tensor) {
    return ask<m::Tensor_getName>(kNoText, api, tensor);
}
segtrt_dims segtrt_tensor_dims(const segtrt_api* api, void* tensor) {
    return dims_of<m::Tensor_getDimensions32, m::Tensor_getDimensions64>(api, tensor);
}
int32_t segtrt_tensor_type(const segtrt_api* api, void* tensor) {
    return name_of(api, kType, ask<m::Tensor_getType>(static_cast<int32_t>(-1), api, tensor));
}

// Layers of every kind share one public base: mImpl of the concrete class comes after ILayer's own mLayer, at offset 8.
const char* segtrt_layer_name(const segtrt_api* api, void* layer) {
    return ask<m::Layer_getName>(kNoText, api, layer);
}
const char* segtrt_layer_kind(const segtrt_api* api, void* layer) {
    const int32_t name = name_of(api, kLayer, ask<m::Layer_getType>(static_cast<int32_t>(-1), api, layer));
    return name < 0 ? nullptr : kValueNames[kFirstLayerName + name] + sizeof("Layer_") - 1;
}
int32_t segtrt_layer_outputs(const segtrt_api* api, void* layer) {
    return ask<m::Layer_getNbOutputs>(static_cast<int32_t>(0), api, layer);
}
int32_t segtrt_layer_output_type(const segtrt_api* api, void* layer, int32_t index) {
    return name_of(api, kType, ask<m::Layer_getOutputType>(static_cast<int32_t>(-1), api, layer, index));
}

segtrt_status segtrt_layer_pin(const segtrt_api* api, void* layer, segtrt_type type) {
    const int32_t number = value(api, kType, type);
    if (number < 0 || !has<m::Layer_setPrecision>(api)) return SEGTRT_UNSUPPORTED;
    return guard_status([&]() -> segtrt_status {
        call<m::Layer_setPrecision>(api, layer, number);
        const int32_t outputs = call<m::Layer_getNbOutputs>(api, layer);
        for (int32_t i = 0; i < outputs; ++i) {
            const int32_t now = name_of(api, kType, call<m::Layer_getOutputType>(api, layer, i));
            // Shapes and indices keep their type: only floating point has a precision to choose.
            if (now == Type_FLOAT || now == Type_HALF || now == Type_BF16)
                call<m::Layer_setOutputType>(api, layer, i, number);
        }
        return SEGTRT_OK;
    });
}

}  // extern "C"
