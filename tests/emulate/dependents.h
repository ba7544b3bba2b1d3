// Blocks of a programmatic dependent launch on the CPU: until the previous kernel has ended
// (fibres.h), memory that it or this kernel writes holds nothing, and what is written there is
// lost. So a kernel that does not wait gives wrong results.
#pragma once
#include <cstring>
#include "fibres.h"

struct Region { void* at; size_t bytes; };
static const Region* now_written;
static size_t now_regions;
/// `from`, which a kernel loads through the read-only cache: compilers may move such loads in front
/// of the wait.
template <class T> static const T* read_only(const T* from) {
    for (size_t i = 0; i < now_regions; i++) {
        const char *at = (const char*)now_written[i].at, *of = (const char*)from;
        if (of >= at && of < at + now_written[i].bytes) {
            printf("a read-only load of what kernels write\n");
            exit(1);
        }
    }
    return from;
}
template <class F> static void run_dependent(const Region* regions, size_t count, F run) {
    std::vector<std::vector<unsigned char>> kept;
    for (size_t i = 0; i < count; i++)
        kept.emplace_back((unsigned char*)regions[i].at, (unsigned char*)regions[i].at + regions[i].bytes);
    // All ones are no number, as halves and as floats.
    for (size_t i = 0; i < count; i++) memset(regions[i].at, 0xff, regions[i].bytes);
    at_end = [&] {
        for (size_t i = 0; i < count; i++) memcpy(regions[i].at, kept[i].data(), regions[i].bytes);
    };
    must_wait = true, now_written = regions, now_regions = count;
    run();
    must_wait = false, now_regions = 0, at_end = nullptr;
}
