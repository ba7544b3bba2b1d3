// cuda/mask_decoder_image.cu for the CPU: after machine.h, the primitives and the sections of the source.
static u32 add_halves(u32 a, u32 b) {
    return tohalf(half(a) + half(b)) | (u32)tohalf(half(a >> 16) + half(b >> 16)) << 16;
}
static void load_weights(u32 (&r)[4], const f16* from) {
    if ((size_t)from % 16) exit(1);
    memcpy(r, from, 16);
}
static void load_tokens(u32 (&r)[4], const f16* from) { load_weights(r, from); }
static void load_written_pair(float& first, float& second, const float* from) {
    if ((size_t)from % 8) exit(1);
    first = from[0], second = from[1];
}
static void load_pair(float& first, float& second, const float* from) {
    load_written_pair(first, second, read_only(from));
}
static void multiply_add_eight(float (&c)[4], u32 a0, u32 a1, u32 b) {
    const u32 a[4] = {a0, a1, 0, 0};
    multiply_add(c, a, b, 0);
}
static void load_shared(u32 (&r)[4], u32 a) { memcpy(r, shared_bytes<16>(a), 16); }
static void store_shared(u32 a, const u32 (&r)[4]) { memcpy(shared_bytes<16>(a), r, 16); }
static float2 load_shared_pair(u32 a) { return shared_value<float2>(a); }
static void store_shared_pair(u32 a, float2 r) { store_shared_value(a, r); }
static void store_shared_word(u32 a, u32 r) { store_shared_value(a, r); }
#include "attention.cuh.attention"
#include "mask_decoder_image.cuh.attention"
#include "mask_decoder_image.cu.attention"
