// cuda/mask_decoder_image.cu for the CPU: after machine.h, the primitives and the sections of the source.
static void load_weights(u32 (&r)[4], const f16* from) {
    if ((size_t)from % 16) exit(1);
    memcpy(r, from, 16);
}
#include "attention.cuh.attention"
#include "mask_decoder_image.cuh.attention"
#include "mask_decoder_image.cu.attention"
