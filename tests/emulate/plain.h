/*!
What harness.h watches and counts, without: for the stand-in driver, whose launches are checked by
what comes out of them.
*/
#pragma once
#include "machine.h"

/// Approximate instructions are as good as the host's. Their largest errors, all of one sign, would be
/// a thousand times larger in the network of tests/data/fused: it has weights of 1024 after a sine.
static float off_by(float) { return 0.0f; }
static float reciprocal_root(float x) { return 1.0f / sqrtf(x); }
static float reciprocal_root_ftz(float x) { return reciprocal_root(x); }
static float reciprocal(float x) { return 1.0f / x; }

template <int BYTES> static void* shared_bytes(u32 address, bool = true) {
    here(address);
    if (address % BYTES || address + BYTES > memory.size()) stop("bad access to shared memory");
    return &memory[address];
}
template <class T>
static T shared_value(u32 a, bool = true) {
    T r;
    memcpy(&r, shared_bytes<sizeof(T)>(a), sizeof r);
    return r;
}
template <class T>
static void store_shared_value(u32 a, T x, bool = true) {
    memcpy(shared_bytes<sizeof(T)>(a), &x, sizeof x);
}
static const void* inside(const void* from, size_t bytes) {
    if ((size_t)from % bytes) stop("misaligned");
    return from;
}
template <class T> static T* stored_at(T* to, size_t) { return to; }
#include "ptx.h"
