// The ONNX parser and the network that it fills: inputs, outputs, layers and their precision.
#include "call.hpp"

using namespace trtdl;
namespace m = trtdl::method;

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

void* trtdl_parser_new(const trtdl_api* api, void* network) {
    return guard(kNothing, [&]() -> void* {
        auto create = reinterpret_cast<void* (*)(void*, void*, int)>(api->entry.create_parser);
        return create == nullptr ? nullptr : create(network, api->logger, api->entry.parser_version);
    });
}
void trtdl_parser_delete(const trtdl_api* api, void* parser) {
    if (parser == nullptr) return;
    guard(0, [&] {
        direct<m::Parser_deletingDestructor>(api, parser);
        return 0;
    });
}
int32_t trtdl_parser_parse(const trtdl_api* api, void* parser, const char* path) {
    return guard(static_cast<int32_t>(0), [&]() -> int32_t {
        const int32_t warnings = value(api, kSeverity, Severity_WARNING);
        return direct<m::Parser_parseFromFile>(api, parser, path, warnings) ? 1 : 0;
    });
}
int32_t trtdl_parser_errors(const trtdl_api* api, void* parser) {
    return guard(static_cast<int32_t>(0),
                 [&]() -> int32_t { return direct<m::Parser_getNbErrors>(api, parser); });
}

trtdl_status trtdl_parser_error_at(const trtdl_api* api, void* parser, int32_t index, trtdl_parser_error* out) {
    return guard_status([&]() -> trtdl_status {
        void* error = direct<m::Parser_getError>(api, parser, index);
        if (error == nullptr || out == nullptr) return TRTDL_REFUSED;
        out->code = direct<m::ParserError_code>(api, error);
        out->node = direct<m::ParserError_node>(api, error);
        out->line = direct<m::ParserError_line>(api, error);
        out->description = direct<m::ParserError_desc>(api, error);
        out->file = direct<m::ParserError_file>(api, error);
        out->function = direct<m::ParserError_func>(api, error);
        const bool named = has<m::ParserError_nodeName>(api);
        out->node_name = named ? direct<m::ParserError_nodeName>(api, error) : nullptr;
        out->node_operator = named ? direct<m::ParserError_nodeOperator>(api, error) : nullptr;
        return TRTDL_OK;
    });
}

int32_t trtdl_network_inputs(const trtdl_api* api, void* network) {
    return ask<m::NetworkDefinition_getNbInputs>(static_cast<int32_t>(0), api, network);
}
int32_t trtdl_network_outputs(const trtdl_api* api, void* network) {
    return ask<m::NetworkDefinition_getNbOutputs>(static_cast<int32_t>(0), api, network);
}
int32_t trtdl_network_layers(const trtdl_api* api, void* network) {
    return ask<m::NetworkDefinition_getNbLayers>(static_cast<int32_t>(0), api, network);
}
void* trtdl_network_input(const trtdl_api* api, void* network, int32_t index) {
    return ask<m::NetworkDefinition_getInput>(kNothing, api, network, index);
}
void* trtdl_network_output(const trtdl_api* api, void* network, int32_t index) {
    return ask<m::NetworkDefinition_getOutput>(kNothing, api, network, index);
}
void* trtdl_network_layer(const trtdl_api* api, void* network, int32_t index) {
    return ask<m::NetworkDefinition_getLayer>(kNothing, api, network, index);
}

const char* trtdl_tensor_name(const trtdl_api* api, void* tensor) {
    return ask<m::Tensor_getName>(kNoText, api, tensor);
}
trtdl_dims trtdl_tensor_dims(const trtdl_api* api, void* tensor) {
    return dims_of<m::Tensor_getDimensions32, m::Tensor_getDimensions64>(api, tensor);
}
int32_t trtdl_tensor_type(const trtdl_api* api, void* tensor) {
    return name_of(api, kType, ask<m::Tensor_getType>(static_cast<int32_t>(-1), api, tensor));
}

// Layers of every kind share one public base: mImpl of the concrete class comes after ILayer's own mLayer, at offset 8.
const char* trtdl_layer_name(const trtdl_api* api, void* layer) {
    return ask<m::Layer_getName>(kNoText, api, layer);
}
const char* trtdl_layer_kind(const trtdl_api* api, void* layer) {
    const int32_t name = name_of(api, kLayer, ask<m::Layer_getType>(static_cast<int32_t>(-1), api, layer));
    return name < 0 ? nullptr : kValueNames[kFirstLayerName + name] + sizeof("Layer_") - 1;
}
int32_t trtdl_layer_outputs(const trtdl_api* api, void* layer) {
    return ask<m::Layer_getNbOutputs>(static_cast<int32_t>(0), api, layer);
}
int32_t trtdl_layer_output_type(const trtdl_api* api, void* layer, int32_t index) {
    return name_of(api, kType, ask<m::Layer_getOutputType>(static_cast<int32_t>(-1), api, layer, index));
}

trtdl_status trtdl_layer_pin(const trtdl_api* api, void* layer, trtdl_type type) {
    const int32_t number = value(api, kType, type);
    if (number < 0 || !has<m::Layer_setPrecision>(api)) return TRTDL_UNSUPPORTED;
    return guard_status([&]() -> trtdl_status {
        call<m::Layer_setPrecision>(api, layer, number);
        const int32_t outputs = call<m::Layer_getNbOutputs>(api, layer);
        for (int32_t i = 0; i < outputs; ++i) {
            const int32_t now = name_of(api, kType, call<m::Layer_getOutputType>(api, layer, i));
            // Shapes and indices keep their type: only floating point has a precision to choose.
            if (now == Type_FLOAT || now == Type_HALF || now == Type_BF16)
                call<m::Layer_setOutputType>(api, layer, i, number);
        }
        return TRTDL_OK;
    });
}

}  // extern "C"
