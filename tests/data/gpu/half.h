// Half-precision numbers (IEEE 754 binary16) on a host whose compiler may not know them.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "faults.h"

inline unsigned host_bits(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline float host_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// Nearest half, ties to even: what the processor's own conversion gives for each of the 2^32 floats.
inline uint16_t host_half_bits(float value) {
    const unsigned sign = host_bits(value) >> 16 & 0x8000u, size = host_bits(value) & 0x7fffffffu;
    if (size > 0x7f800000u) return (uint16_t)(sign | 0x7fffu);
    if (size >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);  // 65520
    // Below 2^-14 a half is a multiple of 2^-24: the last place of floats from 0.5 on.
    if (size < 0x38800000u) return (uint16_t)(sign | (host_bits(host_float(size) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | (size + 0xc8000fffu + (size >> 13 & 1)) >> 13);
}

// Without a branch, so that a compiler does many at a time.
inline float host_from_half(uint16_t bits) {
    const float size = host_float((bits & 0x7fffu) << 13) * 0x1p112f;
    const unsigned special = size >= 65536.0f ? 0x7f800000u : 0;  // infinity, or no number
    return host_float(host_bits(size) | special | (bits & 0x8000u) << 16);
}
// Of all bits, for those who need many.
inline const float* host_halves() {
    static const std::vector<float> table = [] {
        std::vector<float> made;
        for (int bits = 0; bits < 1 << 16; bits++) made.push_back(host_from_half((uint16_t)bits));
        return made;
    }();
    return table.data();
}
