/*!
A GPU's block on the CPU, for the kernels' own sources. Every GPU thread is a fibre (fibres.h);
warp-wide and warpgroup-wide instructions (ldmatrix, mma, wgmma, shuffles, votes) meet all their
lanes and follow the fragment layouts and descriptors of the PTX ISA; `cp.async` lands at once or
only when it is waited for, `wgmma` runs at once or only when it is waited for, and warps run in
random order, so that a missing wait, barrier or release shows as a wrong result. Of the proxies of
Hopper's memory model it knows that what `cp.async` brought must be published by the thread that
copied before `wgmma` reads it. It says nothing about speed.
*/
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include "fibres.h"
#include "../data/gpu/half.h"
// Also for processors with wider registers, where the compiler can leave the choice to the start of
// the program.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define WITH_AVX2 __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define WITH_AVX2
#endif
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
typedef unsigned long long u64;
typedef unsigned short f16;
struct int2 { int x, y; };
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct uint2 { u32 x, y; };
struct uint4 { u32 x, y, z, w; };
static int2 make_int2(int x, int y) { return {x, y}; }
static float2 make_float2(float x, float y) { return {x, y}; }
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static uint2 make_uint2(u32 x, u32 y) { return {x, y}; }
static uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
static float half(f16 h) { return host_from_half(h); }
static f16 tohalf(float f) { return host_half_bits(f); }
[[noreturn]] static void stop(const char* what) { printf("%s\n", what), fflush(stdout), exit(1); }
#include "../../cuda/arithmetic.cuh"

/// Shared memory of another block of the cluster takes other instructions.
static void here(u32 address) {
    if (address >> 18 != block_of(me->id)) stop("an address of another block's");
}

// ---- copies ----

static std::vector<unsigned char> memory;
/// Whether copies land only when they are waited for.
static bool late;
struct Copy { u32 to; const void* from; int bytes; bool valid, early; unsigned char then[16]; };
/// What a thread has under way, in groups, and what it has not published.
struct Copies { std::vector<std::vector<Copy>> groups; std::vector<Copy> open, landed; };
static std::vector<Copies> copies;
static Copies& my_copies() {
    if (copies.size() < fibers.size()) copies.resize(fibers.size());
    return copies[me->id];
}
/// Bytes of shared memory that `wgmma` must not read yet; of those of `cp.async` alone.
static std::vector<unsigned char> unpublished;
static void land(const Copy& c) {
    if (c.to % c.bytes || c.to + c.bytes > memory.size() || ((size_t)c.from % c.bytes)) stop("bad copy");
    if (c.valid)
        memcpy(&memory[c.to], c.early ? c.then : c.from, c.bytes);
    else
        memset(&memory[c.to], 0, c.bytes);
#ifdef HOPPER
    unpublished.resize(memory.size()), memset(&unpublished[c.to], 1, c.bytes),
        my_copies().landed.push_back(c);
#endif
}
static void copy(u32 to, const void* from, int bytes, bool valid) {
    // What is copied before the thread has waited for the previous kernel may have been read before
    // that ended.
    Copy c{to, from, bytes, valid, valid && must_wait && !me->waited, {}};
    if (c.early) memcpy(c.then, from, bytes);
    if (late) my_copies().open.push_back(c); else land(c);
}
static void copy16(u32 to, const void* from, bool valid) { copy(to, from, 16, valid); }
static void copy16_if(bool wanted, u32 to, const void* from, bool valid) {
    if (wanted) copy(to, from, 16, valid);
}
static void copy4(u32 to, const void* from, bool valid) { copy(to, from, 4, valid); }
static void copies_commit() {
    if (!late) return;
    Copies& mine = my_copies();
    mine.groups.push_back(mine.open), mine.open.clear();
}
template <int LATEST> static void copies_wait() {
    if (!late) return;
    auto& groups = my_copies().groups;
    while ((int)groups.size() > LATEST) {
        for (const Copy& c : groups[0]) land(c);
        groups.erase(groups.begin());
    }
}
static void forget_copies() { for (Copies& c : copies) c.groups.clear(), c.open.clear(), c.landed.clear(); }

// ---- ldmatrix ----

static long conflicts = 0, loads = 0;
static void load_matrices_of(u32 (&r)[4], u32 address, bool transposed) {
    struct Load { u32* r; u32 address; } own{r, address};
    collective(&own, [=](Fiber* f) {
        for (int i = 0; i < 4; i++) {
            u32 rows[8][4];
            int banks[8] = {0}, most = 1;
            for (int q = 0; q < 8; q++) {
                const u32 a = ((Load*)f[i * 8 + q].args)->address;
                if (a % 16 || a + 16 > memory.size()) stop("bad ldmatrix");
                memcpy(rows[q], &memory[a], 16), most = std::max(most, ++banks[a / 16 % 8]);
            }
            loads++, conflicts += most - 1;
            for (int l = 0; l < 32; l++) {
                u32& to = ((Load*)f[l].args)->r[i];
                // Transposed, a lane has two rows of column l / 4.
                const u32 *two = rows[l % 4 * 2], at = l / 8, low = l / 4 % 2 * 16;
                to =
                    !transposed ? rows[l / 4][l % 4] : (two[at] >> low & 0xffff) | (two[4 + at] >> low) << 16;
            }
        }
    });
}
static void load_matrices(u32 (&r)[4], u32 a) { load_matrices_of(r, a, false); }
static void load_matrices_transposed(u32 (&r)[4], u32 a) { load_matrices_of(r, a, true); }

// ---- mma ----

/// Fragments of all lanes, in rows of eight lanes' words; the floats of their lower and upper halves.
struct Fragments {
    alignas(64) u32 a[4][32], b[2][32];
    alignas(64) float a_low[4][32], a_high[4][32], b_low[2][32], b_high[2][32], c[16][8];
};
static void to_floats(const u32* from, float* low, float* high, int count) {
    for (int i = 0; i < count; i++)
        low[i] = host_from_half((uint16_t)from[i]), high[i] = host_from_half((uint16_t)(from[i] >> 16));
}
/// Products of halves are exact in floats, so that a fused multiplication changes nothing.
WITH_AVX2 static void multiply_fragments(Fragments& x) {
    to_floats(x.a[0], x.a_low[0], x.a_high[0], 4 * 32), to_floats(x.b[0], x.b_low[0], x.b_high[0], 2 * 32);
    for (int r = 0; r < 16; r++) {
        float sums[8];
        for (int n = 0; n < 8; n++) sums[n] = x.c[r][n];
        for (int side = 0; side < 2; side++) for (int t = 0; t < 4; t++) {
            const int of = side * 2 + r / 8, at = r % 8 * 4 + t;
            const float low = x.a_low[of][at], high = x.a_high[of][at];
            for (int n = 0; n < 8; n++) sums[n] += low * x.b_low[side][t * 8 + n];
            for (int n = 0; n < 8; n++) sums[n] += high * x.b_high[side][t * 8 + n];
        }
        for (int n = 0; n < 8; n++) x.c[r][n] = sums[n];
    }
}
static void multiply_add(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    struct Mma { float* c; const u32* a; u32 b0, b1; } own{c, a, b0, b1};
    collective(&own, [](Fiber* f) {
        static Fragments x;
        for (int l = 0; l < 32; l++) {
            const Mma& m = *(Mma*)f[l].args;
            const int group = l / 4, t = l % 4;
            for (int i = 0; i < 4; i++) x.a[i][l] = m.a[i];
            x.b[0][t * 8 + group] = m.b0, x.b[1][t * 8 + group] = m.b1;
            memcpy(&x.c[group][t * 2], m.c, 8), memcpy(&x.c[group + 8][t * 2], m.c + 2, 8);
        }
        multiply_fragments(x);
        for (int l = 0; l < 32; l++) {
            float* to = ((Mma*)f[l].args)->c;
            memcpy(to, &x.c[l / 4][l % 4 * 2], 8), memcpy(to + 2, &x.c[l / 4 + 8][l % 4 * 2], 8);
        }
    });
}
/// c[16x8] += a[16x8] b[8x8]: the product above with zeros for the rest.
static void multiply_add_eight(float (&c)[4], const u32 (&a)[4], u32 b) {
    const u32 first[4] = {a[0], a[1], 0, 0};
    multiply_add(c, first, b, 0);
}

/// An 8 x 8 matrix, of which lane l has columns 2 (l % 4) and the next one of row l / 4, transposed.
static u32 transposed(u32 matrix) {
    struct Matrix { u32 from, to; } own{matrix, 0};
    collective(&own, [](Fiber* f) {
        for (int l = 0; l < 32; l++) {
            // Rows 2 (l % 4) and the next one of column l / 4.
            const int from = l % 4 * 8 + l / 8, low = l / 4 % 2 * 16;
            const u32 a = ((Matrix*)f[from].args)->from, b = ((Matrix*)f[from + 4].args)->from;
            ((Matrix*)f[l].args)->to = (a >> low & 0xffff) | (b >> low) << 16;
        }
    });
    return own.to;
}

// ---- lanes and barriers ----

template <class T> static T from_lane(T x, int mask) {
    struct Lane { T x, r; } own{x, {}};
    collective(&own, [&](Fiber* f) {
        for (int l = 0; l < 32; l++) ((Lane*)f[l].args)->r = ((Lane*)f[l ^ mask].args)->x;
    });
    return own.r;
}
#include "ptx.cuh.lanes"
/// A fault (sections.sh): two weights of a softmax that are 1 whatever their scores are.
static u32 alike(float& sum) { return sum += 2.0f, 0x3c003c00; }
static bool any_lane(bool p) {
    struct Vote { bool p, r; } own{p, false};
    collective(&own, [](Fiber* f) {
        bool any = false;
        for (int l = 0; l < 32; l++) any |= ((Vote*)f[l].args)->p;
        for (int l = 0; l < 32; l++) ((Vote*)f[l].args)->r = any;
    });
    return own.r;
}
static void forget(int&) {}
static void warp_barrier() { collective(nullptr, [](Fiber*) {}); }

using std::max;
using std::min;
template <class T> static T __ldcg(const T* p) { return *p; }
struct Turn { int arrived = 0, generation = 0; Waiting waiting; };
static Turn turns[128];
static void turn_arrive(int b, int count) {
    if (++turns[b].arrived == count) turns[b].arrived = 0, turns[b].generation++, turns[b].waiting.wake();
}
static void turn_join(int b, int count) {
    const int g = turns[b].generation;
    turn_arrive(b, count);
    while (turns[b].generation == g) turns[b].waiting.wait();
}
static void forget_turns() { for (Turn& t : turns) t.arrived = t.generation = 0, t.waiting.threads.clear(); }
#ifdef HOPPER
#include "wgmma.h"
#endif
