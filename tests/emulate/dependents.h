// Blocks of a programmatic dependent launch on the CPU: until the previous kernel has ended (fibres.h), memory that it or this
// kernel writes holds nothing, and what is written there is lost. So a kernel that does not wait gives wrong results.
#pragma once
#include <cstring>
#include "fibres.h"

struct Region { void* at; size_t bytes; };
template <class F> static void run_dependent(const Region* regions, size_t count, F run) {
    std::vector<std::vector<unsigned char>> kept;
    for (size_t i = 0; i < count; i++) kept.emplace_back((unsigned char*)regions[i].at, (unsigned char*)regions[i].at + regions[i].bytes);
    // All ones are no number, as halves and as floats.
    for (size_t i = 0; i < count; i++) memset(regions[i].at, 0xff, regions[i].bytes);
    at_end = [&] { for (size_t i = 0; i < count; i++) memcpy(regions[i].at, kept[i].data(), regions[i].bytes); };
    must_wait = true;
    run();
    must_wait = false, at_end = nullptr;
}
