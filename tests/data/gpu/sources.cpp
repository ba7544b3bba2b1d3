// Kernels of any GPU whose shipped sources the stand-in driver runs.
#define STAND_IN
#include "sources.h"

namespace keys {
#include "../../emulate/memory_key_proj.h"
#include "memory_key_proj.cu.instances"
}  // namespace keys
namespace image {
#include "../../emulate/mask_decoder_image.h"
#include "mask_decoder_image.cu.instances"
}  // namespace image
namespace tokens {
#include "../../emulate/mask_decoder_tokens.h"
#include "mask_decoder_tokens.cu.instances"
namespace heads {
#include "mask_decoder_heads.cu.instances"
}
}  // namespace tokens
namespace masks {
#include "../../emulate/mask_decoder_upscale.h"
#include "mask_decoder_upscale.cu.instances"
}  // namespace masks
namespace memory_encoder_mask_convs {
#include "../../emulate/memory_encoder_mask.h"
#include "memory_encoder_mask.cu.instances"
}  // namespace memory_encoder_mask_convs
namespace join {
#include "../../emulate/memory_encoder_fuse.h"
#include "memory_encoder_fuse.cu.instances"
}  // namespace join
namespace blocks {
#include "../../emulate/memory_encoder_convnext.h"
#include "memory_encoder_convnext.cu.instances"
namespace tiles128 {
#include "memory_encoder_convnext_128.cu.instances"
}
}  // namespace blocks
namespace latents {
#include "../../emulate/perceiver_1d.h"
#include "perceiver_1d.cu.instances"
}  // namespace latents
namespace latent_windows {
#include "../../emulate/perceiver_2d.h"
#include "perceiver_2d.cu.instances"
}  // namespace latent_windows

namespace memory_attention {
#include "../../emulate/memory_attention.h"
#include "memory_attention.cu.instances"
}  // namespace memory_attention
namespace memory_attention_tail {
#include "../../emulate/memory_attention_tail.h"
#include "memory_attention_tail.cu.instances"
}  // namespace memory_attention_tail
namespace memory_attention_mlp {
#include "../../emulate/memory_attention_mlp.h"
#include "memory_attention_mlp.cu.instances"
}  // namespace memory_attention_mlp
namespace repvit {
#include "../../emulate/repvit.h"
#include "repvit.cu.instances"
}  // namespace repvit
namespace repvit_blocks {
#include "../../emulate/repvit_block.h"
#include "repvit_block.cu.instances"
}  // namespace repvit_blocks
namespace repvit_stems {
#include "../../emulate/repvit_stem.h"
#include "repvit_stem.cu.instances"
}  // namespace repvit_stems
namespace hiera_stems {
#include "../../emulate/hiera_stem.h"
#include "hiera_stem.cu.instances"
}  // namespace hiera_stems
namespace hiera_blocks {
#include "../../emulate/hiera_block.h"
#include "hiera_block.cuh.instances"
#include "hiera_block.cu.instances"
#include "../../emulate/hiera_transition.h"
#include "hiera_transition.cu.instances"
}  // namespace hiera_blocks
namespace hiera_windows {
#include "../../emulate/hiera_block_windows.h"
#include "hiera_block_windows.cu.instances"
}  // namespace hiera_windows
namespace necks {
#include "../../emulate/neck.h"
#include "neck.cu.instances"
}  // namespace necks

static const Kernel KERNELS[] = {
    SOURCE(keys, memory_key_proj),
    SOURCE(image, mask_decoder_token_to_image_attn),
    SOURCE(image, mask_decoder_image_to_token_attn),
    SOURCE(tokens, mask_decoder_combine_splits),
    SOURCE(tokens, mask_decoder_join_splits),
    SOURCE(tokens, mask_decoder_token_proj_mlp_up),
    SOURCE(tokens, mask_decoder_token_mlp_up),
    SOURCE(tokens, mask_decoder_token_mlp_down),
    SOURCE(tokens, mask_decoder_fold_self_attn),
    SOURCE(tokens, mask_decoder_fold_token_to_image),
    SOURCE(tokens, mask_decoder_token_self_attn),
    SOURCE(tokens::heads, mask_decoder_head_mlps),
    SOURCE(tokens::heads, mask_decoder_proj_head_mlps),
    SOURCE(tokens::heads, mask_decoder_head_outputs),
    SOURCE(masks, mask_decoder_upscale_masks),
    SOURCE(memory_encoder_mask_convs, memory_encoder_mask_convs),
    SOURCE(memory_encoder_mask_convs, memory_encoder_mask_downsample),
    SOURCE(join, memory_encoder_fuse_mask_and_features),
    SOURCE(blocks, memory_encoder_dwconv7x7),
    SOURCE(blocks, memory_encoder_convnext_mlp),
    SOURCE(blocks, memory_encoder_convnext_mlp_proj),
    SOURCE(blocks::tiles128, memory_encoder_convnext_mlp_128),
    SOURCE(latents, perceiver_1d_cross_attn),
    SOURCE(latents, perceiver_1d_mlp),
    SOURCE(latents, perceiver_1d_self_attn),
    SOURCE(latent_windows, perceiver_2d_window_attn),
    SOURCE(memory_attention, memory_attention_project),
    SOURCE(memory_attention, memory_attention_norm),
    SOURCE(memory_attention_tail, memory_attention_cross_tail),
    SOURCE(memory_attention_mlp, memory_attention_mlp_up),
    SOURCE(memory_attention_mlp, memory_attention_residual),
    SOURCE(repvit, repvit_sums),
    SOURCE(repvit, repvit_gate),
    SOURCE(repvit, repvit_dwconv),
    SOURCE(repvit, repvit_dwconv_stride2),
    SOURCE(repvit, repvit_gemm_bias),
    SOURCE(repvit, repvit_gemm_gelu),
    SOURCE(repvit, repvit_gemm_residual),
    SOURCE(repvit_blocks, repvit_block_48),
    SOURCE(repvit_blocks, repvit_block_96),
    SOURCE(repvit_blocks, repvit_block_192),
    SOURCE(repvit_blocks, repvit_down_96),
    SOURCE(repvit_blocks, repvit_down_192),
    SOURCE(repvit_stems, repvit_stem),
    SOURCE(hiera_stems, hiera_stem),
    SOURCE(hiera_blocks, hiera_block_96),
    SOURCE(hiera_blocks, hiera_block_112),
    SOURCE(hiera_blocks, hiera_block_144),
    SOURCE(hiera_blocks, hiera_transition_96),
    SOURCE(hiera_blocks, hiera_transition_112),
    SOURCE(hiera_blocks, hiera_transition_144),
    SOURCE(hiera_windows, hiera_block_192),
    SOURCE(hiera_windows, hiera_block_224),
    SOURCE(necks, neck),
};
extern const Table SOURCES{KERNELS, sizeof KERNELS / sizeof *KERNELS};
