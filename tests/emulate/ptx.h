/*!
cuda/ptx.cuh's accesses to memory on the CPU, for harness.h and plain.h, which say how they are
watched. They are templates, so that a stand-in of a kernel's own, which is none, goes before one of
these: where only a part of a warp's lanes come to an access to shared memory, say.
*/
#pragma once
#include "dependents.h"
#define STAND_IN_FOR template <int = 0> static

// ---- shared memory ----

STAND_IN_FOR u32 shared_word(u32 a) { return shared_value<u32>(a); }
STAND_IN_FOR uint2 shared_halves(u32 a) { return shared_value<uint2>(a); }
STAND_IN_FOR uint4 shared_unit(u32 a) { return shared_value<uint4>(a); }
STAND_IN_FOR float2 load_shared_pair(u32 a) { return shared_value<float2>(a); }
STAND_IN_FOR float4 load_shared_floats(u32 a) { return shared_value<float4>(a); }
STAND_IN_FOR void load_shared(u32 (&r)[4], u32 a) { memcpy(r, shared_bytes<16>(a), 16); }
STAND_IN_FOR void store_shared(u32 a, const u32 (&r)[4]) { memcpy(shared_bytes<16>(a), r, 16); }
STAND_IN_FOR void store_shared_word(u32 a, u32 x) { store_shared_value(a, x); }
STAND_IN_FOR void store_shared_halves(u32 a, uint2 x) { store_shared_value(a, x); }
STAND_IN_FOR void store_shared_pair(u32 a, float2 x) { store_shared_value(a, x); }
STAND_IN_FOR void store_shared_floats(u32 a, float4 x) { store_shared_value(a, x); }
// One float: mostly of some lanes.
STAND_IN_FOR float load_shared_float(u32 a) { return shared_value<float>(a, false); }
STAND_IN_FOR void store_shared_float(u32 a, float x) { store_shared_value(a, x, false); }

// ---- global memory ----

template <class T>
static T aligned(const void* from) {
    T r;
    memcpy(&r, inside(from, sizeof r), sizeof r);
    return r;
}
template <class T>
static void store_aligned(void* to, T x) {
    inside(to, sizeof x), memcpy(to, &x, sizeof x);
}
STAND_IN_FOR float load_float(const float* from) { return aligned<float>(read_only(from)); }
STAND_IN_FOR float2 load_pair(const float* from) { return aligned<float2>(read_only(from)); }
STAND_IN_FOR float4 load_floats(const float* from) { return aligned<float4>(read_only(from)); }
STAND_IN_FOR float2 load_coherent_pair(const float* from) { return aligned<float2>(from); }
STAND_IN_FOR float4 load_coherent_floats(const float* from) { return aligned<float4>(from); }
STAND_IN_FOR uint2 load_halves(const f16* from) { return aligned<uint2>(from); }
STAND_IN_FOR uint4 load_unit(const f16* from) { return aligned<uint4>(from); }
STAND_IN_FOR void load_coherent(u32 (&r)[4], const f16* from) { memcpy(r, inside(from, 16), 16); }
STAND_IN_FOR void load_line(u32 (&r)[4], const f16* from) { memcpy(r, inside(from, 16), 16); }
STAND_IN_FOR void store_pair(float* to, float2 x) { store_aligned(to, x); }
STAND_IN_FOR void store_unit(void* to, uint4 x) { store_aligned(to, x); }
STAND_IN_FOR void prefetch(const void* from) { inside(from, 2); }

// ---- others ----

STAND_IN_FOR int zero_behind_barrier() { block_barrier(); return 0; }
STAND_IN_FOR u32 add_halves(u32 a, u32 b) {
    return tohalf(half(a) + half(b)) | (u32)tohalf(half(a >> 16) + half(b >> 16)) << 16;
}
template <class T> static T either(bool second, T a, T b) { return second ? b : a; }
