// Products of halves as the stand-ins sum them: in float, eight sums side by side.
#pragma once

#include "half.h"

inline std::vector<float> to_float2(const uint16_t* from, uint64_t count) {
    const float* table = host_halves();
    std::vector<float> made(count);
    for (uint64_t i = 0; i < count; i++) made[i] = table[from[i]];
    return made;
}

inline float dot(const float* a, const float* b, uint64_t from, uint64_t to) {
    float sums[8] = {};
    uint64_t at = from;
    for (; at + 8 <= to; at += 8)
        for (int i = 0; i < 8; i++) sums[i] += a[at + i] * b[at + i];
    for (; at < to; at++) sums[0] += a[at] * b[at];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}
