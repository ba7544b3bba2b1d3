// cuda/mask_decoder_tokens.cu and mask_decoder_heads.cu for the CPU: after machine.h, the
// primitives and the sections of the source.
#include "attention.cuh.attention"
#include "mask_decoder_tokens.cuh.tokens"
#include "mask_decoder_combine.cuh.combine"
#include "mask_decoder_tokens.cu.steps"
namespace heads {
#include "mask_decoder_heads.cu.heads"
}
