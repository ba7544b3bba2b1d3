// Plans of the stand-in builder that the stand-in runtime runs: the graph itself, with the ports that ONNX Runtime finds in it and
// their shapes in each profile. Included once, by fake_builder8.cpp.
//
// Engines have the types of their graphs. Where FAKE_BUILD_FLOATS is set, ports of fp32 graphs are halves, converted on their way, but
// for those that it names ("low,iou"): as those of an fp16 bundle, for graphs that were never written in fp16.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "fake_nodes.hpp"
#include "fake_onnx.hpp"

namespace {

using Shapes = std::map<std::string, std::vector<int64_t>>;

std::string words_of(const std::vector<int64_t>& dims) {
    std::string text;
    for (const int64_t extent : dims) text += " " + std::to_string(extent);
    return text;
}
/// "NUMBER-IN-TENSORRT f16|-".
std::string type_of(const Port& port) {
    const char* floats = std::getenv("FAKE_BUILD_FLOATS");
    const bool stays = floats == nullptr || ("," + std::string(floats) + ",").find("," + port.name + ",") != std::string::npos;
    switch (port.type) {
        case ONNX_FLOAT: return stays ? "0 -" : "1 -";
        case ONNX_HALF: return "1 f16";
        case ONNX_INT32: return "3 -";
    }
    std::fprintf(stderr, "the stand-in for TensorRT: %s has ONNX's type %d, expected 1, 6 or 10\n", port.name.c_str(), port.type);
    std::abort();
}
std::string plan_of(const std::string& path, const std::vector<Shapes>& profiles) {
    void* session = open_session(path, 0);
    const std::vector<Port> ports = ports_of(session);
    release(ReleaseSession, session);
    const size_t count = profiles.empty() ? 1 : profiles.size();
    std::string text = "memory 4096\nprofiles " + std::to_string(count) + "\nbehave ok\nonnx " + path + "\n";
    for (const Port& port : ports)
        text += (port.input ? "in " : "out ") + port.name + " " + type_of(port) + words_of(port.dims) + "\n";
    for (size_t at = 0; at < profiles.size(); ++at) {
        // What each symbol stands for in this profile.
        std::map<std::string, int64_t> known;
        for (const Port& port : ports) {
            const auto shape = profiles[at].find(port.name);
            if (shape == profiles[at].end()) continue;
            for (size_t i = 0; i < port.dims.size() && i < shape->second.size(); ++i)
                if (port.dims[i] < 0) known[port.symbols[i]] = shape->second[i];
        }
        for (const Port& port : ports) {
            std::vector<int64_t> dims = port.dims;
            for (size_t i = 0; i < dims.size(); ++i)
                if (dims[i] < 0 && known.count(port.symbols[i]) != 0) dims[i] = known[port.symbols[i]];
            text += "shape " + std::to_string(at) + " " + port.name + words_of(dims) + "\n";
        }
    }
    return text;
}

}  // namespace
