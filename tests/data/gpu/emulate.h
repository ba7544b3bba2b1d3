// Stand-ins for what CUDA C++ adds to C++, so that cuda/*.cu run on the host: an emulation, not a GPU.
//
// One block after another, a fibre a thread (fibres.h). Threads that wait at a barrier that others never
// reach are an error, as is a vote that not every lane of the warp takes part in. What it cannot show:
// races between barriers, the driver's own compiler, memory errors that stay inside a block.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>

#include "../../emulate/fibres.h"
#include "half.h"

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)

struct float2 {
    float x, y;
};
struct float4 {
    float x, y, z, w;
};
struct uint2 {
    unsigned x, y;
};
struct uint4 {
    unsigned x, y, z, w;
};

inline void __syncthreads() { block_barrier(); }
// What a lane shows the others of its warp, and what it gets.
struct Shown {
    bool vote;
    unsigned votes;
    float value, got;
    int mask;
};
inline void show(unsigned lanes, Shown& own) {
    if (lanes != 0xffffffffu) printf("a vote of some lanes only\n"), exit(1);
    collective(&own, [](Fiber* lane) {
        const unsigned all = warps[lane->id / 32].all, count = __builtin_popcount(all);
        unsigned votes = 0;
        for (unsigned i = 0; i < count; i++) votes |= (unsigned)((Shown*)lane[i].args)->vote << i;
        for (unsigned i = 0; i < count; i++) {
            Shown& of = *(Shown*)lane[i].args;
            of.votes = votes, of.got = ((Shown*)lane[(i ^ of.mask) % count].args)->value;
        }
    });
}
inline unsigned __ballot_sync(unsigned lanes, bool vote) {
    Shown own{vote, 0, 0, 0, 0};
    return show(lanes, own), own.votes;
}
inline float __shfl_xor_sync(unsigned lanes, float value, int mask) {
    Shown own{false, 0, value, 0, mask};
    return show(lanes, own), own.got;
}
inline unsigned atomicAdd(unsigned* at, unsigned value) {
    const unsigned before = *at;
    *at += value;
    return before;
}
// The host's compiler must not contract either: -ffp-contract=off.
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fmaf(a, b, c); }
inline unsigned __float_as_uint(float value) {
    unsigned bits;
    memcpy(&bits, &value, 4);
    return bits;
}
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline int __popcll(unsigned long long word) { return __builtin_popcountll(word); }
// Four of the eight bytes of two words, lower ones first, each named by three bits.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned names) {
    const uint64_t both = (uint64_t)high << 32 | low;
    unsigned word = 0;
    for (int i = 0; i < 4; i++) word |= (unsigned)(both >> 8 * (names >> 4 * i & 7) & 255) << 8 * i;
    return word;
}
// The dot product of four bytes and four bytes of weights, which may have a sign.
inline unsigned host_dot4(unsigned bytes, unsigned weights, bool with_sign) {
    int sum = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned weight = weights >> 8 * i & 255;
        sum += (int)(bytes >> 8 * i & 255) * (with_sign ? (int)(signed char)weight : (int)weight);
    }
    return (unsigned)sum;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}
