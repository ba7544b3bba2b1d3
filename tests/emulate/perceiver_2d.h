// cuda/perceiver_2d.cu for the CPU: after machine.h, the primitives and the sections of the source.
static void load_tokens(u32 (&r)[4], const f16* from) { if ((size_t)from % 16) exit(1); memcpy(r, from, 16); }
static float either(bool second, float a, float b) { return second ? b : a; }
static u32 transposed(u32 a) {
    struct Lane { u32 a, r; } own{a, 0};
    collective(&own, [&](Fiber* f) {
        // Row r, column c is half c % 2 of lane 4 r + c / 2.
        auto at = [&](int r, int c) { return ((Lane*)f[4 * r + c / 2].args)->a >> 16 * (c & 1) & 0xffff; };
        for (int l = 0; l < 32; l++)
            ((Lane*)f[l].args)->r = at(l % 4 * 2, l / 4) | at(l % 4 * 2 + 1, l / 4) << 16;
    });
    return own.r;
}
static void load_shared(u32 (&r)[4], u32 a) { memcpy(r, shared_bytes<16>(a), 16); }
static void load_shared(float (&r)[4], u32 a) { memcpy(r, shared_bytes<16>(a), 16); }
static float2 load_shared_pair(u32 a) { return shared_value<float2>(a); }
static void store_shared_word(u32 a, u32 r) { store_shared_value(a, r); }
static void store_shared_float(u32 a, float r) { store_shared_value(a, r); }
#include "../../cuda/f16x2.cuh"
#include "attention.cuh.attention"
#include "../../cuda/gelu.cuh"
#include "perceiver_2d.cuh.attention"
#include "perceiver_2d.cu.attention"
