// The kernels of cuda/ for the stand-in driver, which opens this as libkernels.so.
#include "emulate.h"
#include "kernel.h"

#include "../../../cuda/preprocess.cu"
#include "../../../cuda/mask.cu"
#include "../../../cuda/memory.cu"
#include "../../../cuda/trunk.cu"
#include "attention.h"
#include "windows.h"
#include "decoder.h"
#include "memory_encoder.h"
#include "products.h"

// Hopper's waits for the kernel in front, which has always ended here.
extern "C" void trunk_normalize_hopper(const float* x, const float* weight, const float* bias, u16* out, i32 rows, i32 columns, const unsigned char* ahead, i32 lines) {
    trunk_normalize(x, weight, bias, out, rows, columns, ahead, lines);
}

// Those of sources.cpp.
extern const Kernel SOURCES[];
extern const int SOURCES_COUNT;

namespace {

#define KERNEL(name) {#name, call<name>, count(name), emulation::launch}
const Kernel KERNELS[] = {
    KERNEL(preprocess_bicubic_f16),
    KERNEL(preprocess_bicubic_f32),
    KERNEL(preprocess_columns_f16),
    KERNEL(preprocess_columns_f32),
    KERNEL(preprocess_linear_f16),
    KERNEL(preprocess_linear_f32),
    KERNEL(mask_words),
    KERNEL(mask_boundaries),
    KERNEL(mask_near),
    KERNEL(bank_reset),
    KERNEL(bank_inputs),
    KERNEL(bank_advance),
    KERNEL(attention_cross),
    KERNEL(attention_self),
    KERNEL(attention_heads_64),
    KERNEL(attention_heads_80),
    KERNEL(attention_heads_96),
    KERNEL(attention_heads_128),
    KERNEL(attention_cross_hopper),
    KERNEL(attention_self_hopper),
    KERNEL(attention_heads_64_hopper),
    KERNEL(attention_heads_80_hopper),
    KERNEL(attention_heads_96_hopper),
    KERNEL(attention_heads_128_hopper),
    KERNEL(attention_combine_64),
    KERNEL(attention_combine_80),
    KERNEL(attention_combine_96),
    KERNEL(attention_combine_128),
    KERNEL(attention_combine_256),
    KERNEL(trunk_normalize),
    KERNEL(trunk_normalize_hopper),
    KERNEL(trunk_gelu),
    KERNEL(trunk_pool),
    KERNEL(trunk_windows_56),
    KERNEL(trunk_windows_72),
    KERNEL(trunk_windows_96),
    KERNEL(trunk_windows_56_wide),
    KERNEL(trunk_windows_72_wide),
    KERNEL(trunk_windows_96_wide),
    KERNEL(trunk_windows_56_hopper),
    KERNEL(trunk_windows_72_hopper),
    KERNEL(trunk_windows_96_hopper),
    KERNEL(decoder_read),
    KERNEL(decoder_write),
    KERNEL(decoder_gather),
    KERNEL(decoder_hidden),
    KERNEL(decoder_narrow),
    KERNEL(decoder_fold_attend),
    KERNEL(decoder_fold_read),
    KERNEL(decoder_turn),
    KERNEL(decoder_heads),
    KERNEL(decoder_answer),
    KERNEL(decoder_masks),
    KERNEL(memory_mask),
    KERNEL(memory_widen),
    KERNEL(memory_join),
    KERNEL(memory_spread),
    KERNEL(memory_mix),
    KERNEL(memory_last),
    KERNEL(latents_attend),
    KERNEL(latents_mix),
    KERNEL(latents_self),
    KERNEL(latents_windows),
    KERNEL(product_gelu_128_by_2),
    KERNEL(product_gelu_192_by_2),
    KERNEL(product_gelu_128_by_4),
    KERNEL(product_gelu_192_by_4),
    KERNEL(product_plain_128_by_2),
    KERNEL(product_plain_192_by_2),
    KERNEL(product_norm_96),
    KERNEL(product_norm_112),
    KERNEL(product_norm_144),
    KERNEL(product_norm_192),
    KERNEL(product_norm_224),
    KERNEL(product_norm_288),
    KERNEL(product_norm_384_by_3),
    KERNEL(product_norm_384_by_6),
    KERNEL(product_norm_448_by_3),
    KERNEL(product_norm_448_by_6),
    KERNEL(product_norm_576_by_3),
    KERNEL(product_norm_576_by_6),
};

}  // namespace

// The kernel of that name, if the PTX that was loaded declares it.
extern "C" const void* emulated(const char* ptx, const char* name) {
    char entry[128];
    snprintf(entry, sizeof entry, ".entry %s(", name);
    const auto is = [&](const Kernel& kernel) { return !strcmp(kernel.name, name) && strstr(ptx, entry); };
    for (const Kernel& kernel : KERNELS)
        if (is(kernel)) return &kernel;
    for (int i = 0; i < SOURCES_COUNT; i++)
        if (is(SOURCES[i])) return &SOURCES[i];
    return nullptr;
}
extern "C" void emulate(const Kernel* kernel, const unsigned* grid, unsigned threads, void** values) {
    kernel->launch(kernel->call, grid, threads, values);
}
extern "C" int parameters(const Kernel* kernel) { return kernel->parameters; }
