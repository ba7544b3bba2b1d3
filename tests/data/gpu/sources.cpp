// Kernels of any GPU whose shipped sources the stand-in driver runs.
#define STAND_IN
#include "sources.h"

namespace keys {
#include "../../emulate/keys.h"
#include "keys.cu.instances"
}  // namespace keys
namespace image {
#include "../../emulate/decoder_image.h"
#include "decoder_image.cu.instances"
}  // namespace image
namespace tokens {
#include "../../emulate/decoder_tokens.h"
#include "decoder_tokens.cu.instances"
namespace heads {
#include "decoder_heads.cu.instances"
}
}  // namespace tokens
namespace masks {
#include "../../emulate/decoder_masks.h"
#include "decoder_masks.cu.instances"
}  // namespace masks
namespace memory_mask {
#include "../../emulate/memory_mask.h"
#include "memory_mask.cu.instances"
}  // namespace memory_mask
namespace join {
#include "../../emulate/memory_join.h"
#include "memory_join.cu.instances"
}  // namespace join
namespace blocks {
#include "../../emulate/memory_blocks.h"
#include "memory_blocks.cu.instances"
}  // namespace blocks
namespace latents {
#include "../../emulate/latents.h"
#include "latents.cu.instances"
}  // namespace latents
namespace latent_windows {
#include "../../emulate/latent_windows.h"
#include "latent_windows.cu.instances"
}  // namespace latent_windows

static const Kernel KERNELS[] = {
    SOURCE(keys, memory_keys),
    SOURCE(image, decoder_read),
    SOURCE(image, decoder_write),
    SOURCE(tokens, decoder_gather),
    SOURCE(tokens, decoder_hidden),
    SOURCE(tokens, decoder_narrow),
    SOURCE(tokens, decoder_fold_attend),
    SOURCE(tokens, decoder_fold_read),
    SOURCE(tokens, decoder_turn),
    SOURCE(tokens::heads, decoder_heads),
    SOURCE(tokens::heads, decoder_answer),
    SOURCE(masks, decoder_masks),
    SOURCE(memory_mask, memory_mask),
    SOURCE(memory_mask, memory_widen),
    SOURCE(join, memory_join),
    SOURCE(blocks, memory_spread),
    SOURCE(blocks, memory_mix),
    SOURCE(blocks, memory_last),
    SOURCE(latents, latents_attend),
    SOURCE(latents, latents_mix),
    SOURCE(latents, latents_self),
    SOURCE(latent_windows, latents_windows),
};
extern const Table SOURCES{KERNELS, sizeof KERNELS / sizeof *KERNELS};
