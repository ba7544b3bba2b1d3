/*!
The mask's side of the memory encoder up to 64 channels, for any GPU from sm 80 on: the logits four
times as large, as a mask, and three of its four convolutions, 3 x 3 with stride 2 and zeros around,
each with a norm over the channels of a pixel and GELU behind it.

Convolutions as matmuls. g: side of the grid; sm 80 on.

| kernel                         | M, N, K                         | tile   | threads | stages | shared |
|--------------------------------|---------------------------------|--------|---------|--------|--------|
| memory_encoder_mask_convs      | (8g)^2, 4, 9; (4g)^2, 16, 9 x 4 | 16 x 8 | 192     | 1      | 12 960 |
| memory_encoder_mask_downsample | (2g)^2, 64, 9 x 16              | 16 x 8 | 128     | 2, all | 38 176 |

  - memory_encoder_mask_convs: low [4g, 4g] -> mask [16g, 16g] -> 4 channels [8g, 8g] -> 16
    channels, narrow [4g, 4g, 16];
  - memory_encoder_mask_downsample: narrow -> wide [2g, 2g, 64].

All three are products of `mma` with sums in f32: what a thread holds of a product is up to it, as
in cuda/memory_key_proj.cu, and so k goes in the order in which a window's pixels lie in shared
memory, and channels in one where a thread's lie side by side in the result.

memory_encoder_mask_convs has 16 x 8 pixels of the result a block; nothing between leaves shared
memory, what two blocks need both compute (a fifth of the mask, a tenth of the first convolution).
In a grid of 64 these are 512 blocks, four to a multiprocessor of an H200; by count of instructions,
about 5000 of each scheduler and a third of them GELU, that is what bounds it, 3.5 us; with empty
caches 7.2 were measured, 4.2 of them with six blocks.

  - Mask: a thread has 4 x 4 pixels, of a place whose logits are 3 x 3, read straight from memory.
    The first pixel of the four is the second of the logit's own: so windows begin with the pixels
    of a word. Two sigmoids share a division: `ex2` and `rcp` are slower than all else here.
  - First convolution: k is the words of two pixels each, two of a row, whose last pixel has no
    weight, and six of a window. A result has eight columns and a pixel four channels: products with
    the weights in the lower and in the upper columns, one after the other, fill it with two tiles
    of 16 pixels. Weights are sums of two halves: where the mask is flat its pixels are exact, and
    what all of them lose would stay.
  - Second: of a row of a window k is 32 bytes in a row, four pixels of which the last has no
    weight.

memory_encoder_mask_downsample has 16 x 8 pixels a block, 128 blocks in a grid of 64: an H200 runs
them at once, and each reads 18 KB of weights and as much of `narrow` from the L2 cache. Weights come
first, then `narrow` in two parts: what the first row of the windows needs is multiplied while the
next comes. A warp has 32 pixels
and all channels, since warps of 16 would read twice as many weights from shared memory. Even and
odd columns lie apart: then every other one, which is what windows side by side have, lies beside
the next.

Grid: `x` = tiles across, `y` = tiles down, of each kernel's result.
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"
#include "memory_encoder_downsample.cuh"
#include "memory_encoder_mask.cuh"

// ---- instances ----

extern "C" __global__ void __launch_bounds__(Mask::THREADS, 4)
    memory_encoder_mask_convs(const float* low, const float* binary, float scale, float offset,
                              const float* weight1, const float* bias1, const float* norm1_weight,
                              const float* norm1_bias, const float* weight2, const float* bias2,
                              const float* norm2_weight, const float* norm2_bias, f16* narrow, int grid) {
    __shared__ __align__(128) unsigned char memory[Mask::SHARED];
    Mask mask;
    mask.run(MaskProblem{low, binary, scale, offset, weight1, bias1, norm1_weight, norm1_bias, weight2, bias2,
                         norm2_weight, norm2_bias, narrow, grid},
             shared_address(memory));
}

extern "C" __global__ void __launch_bounds__(Widen::THREADS, 2)
    memory_encoder_mask_downsample(const f16* narrow, const f16* weight, const float* bias,
                                   const float* norm_weight, const float* norm_bias, f16* wide, int grid) {
    __shared__ __align__(128) unsigned char memory[Widen::SHARED];
    Widen widen;
    widen.run(WidenProblem{narrow, weight, bias, norm_weight, norm_bias, wide, grid}, shared_address(memory));
}
