// Half-precision numbers (IEEE 754 binary16) on a host whose compiler may not know them.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "faults.h"

// Nearest half, ties to even: the sum moves the fraction to where a half's ends, and the processor rounds it there.
inline uint16_t host_half_bits(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    const unsigned sign = bits >> 16 & 0x8000u;
    const float size = std::fabs(value);
    if (std::isnan(value)) return (uint16_t)(sign | 0x7fffu);
    if (size == 0.0f) return (uint16_t)sign;
    if (size >= 65520.0f) return (uint16_t)(sign | 0x7c00u);
    int exponent = 0;
    std::frexp(size, &exponent);
    // A half has 11 significant bits, and none below 2^-24.
    const int last = exponent - 11 > -24 ? exponent - 11 : -24;
    const float units = std::nearbyint(std::ldexp(size, -last));
    if (last == -24) return (uint16_t)(sign | (unsigned)units);
    // `units` lies in [1024, 2048]; the leading one is the exponent's.
    return (uint16_t)(sign | ((unsigned)(last + 25 - 1) * 1024u + (unsigned)units));
}

inline float host_from_half(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float size = exponent == 31  ? (fraction ? NAN : INFINITY)
                       : exponent == 0 ? std::ldexp((float)fraction, -24)
                                       : std::ldexp((float)(fraction + 1024), exponent - 25);
    return bits >> 15 ? -size : size;
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
