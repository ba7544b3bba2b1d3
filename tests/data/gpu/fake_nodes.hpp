// Which node of an ONNX file has an operator: as much of protobuf as that takes.
#pragma once
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

namespace fake {

/// Field by field of a message: `visit(field, begin, end)` of those with a length.
template <class Visit>
void each_field(const char* at, const char* end, Visit visit) {
    const auto number = [&] {
        uint64_t value = 0;
        for (int shift = 0; at < end; shift += 7) {
            const uint8_t byte = static_cast<uint8_t>(*at++);
            value |= static_cast<uint64_t>(byte & 127) << shift;
            if (byte < 128) break;
        }
        return value;
    };
    while (at < end) {
        const uint64_t tag = number();
        if (tag % 8 == 0) number();
        if (tag % 8 == 1) at += 8;
        if (tag % 8 == 5) at += 4;
        if (tag % 8 != 2) continue;
        const uint64_t size = number();
        visit(tag / 8, at, at + size);
        at += size;
    }
}

/// The index of the first node with this operator; -1 without one.
inline int32_t node_of(const std::string& path, const std::string& wanted) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    int32_t index = 0, found = -1;
    // ModelProto.graph is 7, GraphProto.node 1, NodeProto.op_type 4.
    each_field(bytes.data(), bytes.data() + bytes.size(), [&](uint64_t field, const char* at, const char* end) {
        if (field != 7) return;
        each_field(at, end, [&](uint64_t inner, const char* from, const char* to) {
            if (inner != 1) return;
            each_field(from, to, [&](uint64_t innermost, const char* op, const char* stop) {
                if (innermost == 4 && found < 0 && std::string(op, stop) == wanted) found = index;
            });
            ++index;
        });
    });
    return found;
}

}  // namespace fake
