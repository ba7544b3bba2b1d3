/*!
A block of RepViT in one launch, for any GPU from sm 80 on: y = depthwise 3x3 of x, times a gate if
the block has squeeze-and-excite, and z = y + D GELU(U y + u) + d. The hidden columns, twice as many
as y's, stay on the multiprocessor. Where columns change (repvit_down_*), the convolution has stride
2 and y is its result times another matrix.

T tokens of z with C columns; sm 80 on. The depthwise convolution is no matmul.

| kernel           | M, N, K                                 | tile of T | threads | stages | shared bytes |
|------------------|-----------------------------------------|-----------|---------|--------|--------------|
| repvit_block_48  | T, 96, 48; T, 48, 96                    | 16 x 8    | 384     | 1      | 44 288       |
| repvit_block_96  | T, 192, 96; T, 96, 192                  | 8 x 8     | 384     | 1      | 42 464       |
| repvit_block_192 | T, 384, 192; T, 192, 384                | 8 x 4     | 384     | 1      | 41 920       |
| repvit_down_96   | T, 96, 48; T, 192, 96; T, 96, 192       | 8 x 8     | 384     | 1      | 48 224       |
| repvit_down_192  | T, 192, 96; T, 384, 192; T, 192, 384    | 8 x 4     | 384     | 1      | 48 832       |

A tile is made of groups of 8 x 4 tokens, and a group has C / 16 warps. A thread convolves two
channels of tokens in a row. Then a warp has 32 hidden columns of its group's tokens, and last
16 columns of z. So each warp has weights of its own (repvit.cuh), which it asks for before the
previous kernel has ended, AHEAD units of 16 bytes a lane in advance; where columns change, behind
that. Groups of a block ask for the same weights, from the L1 cache.

The gate needs the means of y over the map, and so of x (repvit_sums). Whoever writes x adds up its
sums: this kernel for the next block, if that has a gate. Each block of the launch computes the gate
for itself while its pixels come; of 192 columns, for which there are registers, while it convolves.

Tokens past the map's end are computed from zeros and not stored. Blocks read what others do: z is
not x.

Grid: ceil(grid of z / columns of a tile) x ceil(grid of z / rows of a tile).
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"
#include "repvit.cuh"
#include "repvit_block.cuh"
#include "repvit_fused.cuh"

// ---- blocks ----

typedef Block<Alone, 48, 48, 2, 2, 6> Block48;
typedef Block<Alone, 96, 96, 1, 2, 6> Block96;
typedef Block<Alone, 192, 192, 1, 1, 12> Block192;
typedef Block<Alone, 48, 96, 1, 2, 4> Down96;
typedef Block<Alone, 96, 192, 1, 1, 12> Down192;
constexpr u32 repvit_block_48_shared = Block48::SHARED, repvit_block_96_shared = Block96::SHARED;
constexpr u32 repvit_block_192_shared = Block192::SHARED, repvit_down_96_shared = Down96::SHARED;
constexpr u32 repvit_down_192_shared = Down192::SHARED;
constexpr int COLUMNS_48 = Block48::TILE_COLUMNS, LINES_48 = Block48::TILE_LINES;
constexpr int COLUMNS_96 = Block96::TILE_COLUMNS, LINES_96 = Block96::TILE_LINES;
constexpr int COLUMNS_192 = Block192::TILE_COLUMNS, LINES_192 = Block192::TILE_LINES;
static_assert(repvit_block_48_shared == 44288 && COLUMNS_48 == 16 && LINES_48 == 8, "of launches");
static_assert(repvit_block_96_shared == 42464 && COLUMNS_96 == 8 && LINES_96 == 8, "of launches");
static_assert(repvit_block_192_shared == 41920 && COLUMNS_192 == 8 && LINES_192 == 4, "of launches");
static_assert(repvit_down_96_shared == 48224 && repvit_down_192_shared == 48832, "of launches");

// ---- instances ----

#define REPVIT_BLOCK(name, KIND, BLOCKS)                                                                     \
    extern "C" __global__ void __launch_bounds__(KIND::THREADS, BLOCKS)                                      \
        name(const f16* x, const float* weight, const float* bias, const long long* sums,                    \
             const f16* squeeze, const float* squeeze_bias, const f16* excite, const float* excite_bias,     \
             const f16* up, const float* up_bias, const f16* down, const float* down_bias, f16* z,           \
             const float* edges, long long* next, int grid) {                                                \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        KIND().run({x, weight, bias, {sums, squeeze, squeeze_bias, excite, excite_bias}, nullptr, nullptr,   \
                    up, up_bias, down, down_bias, z, edges, next, grid},                                     \
                   shared_address(memory));                                                                  \
    }
REPVIT_BLOCK(repvit_block_48, Block48, 2)
REPVIT_BLOCK(repvit_block_96, Block96, 2)
REPVIT_BLOCK(repvit_block_192, Block192, 1)

#define REPVIT_DOWN(name, KIND, BLOCKS)                                                                      \
    extern "C" __global__ void __launch_bounds__(KIND::THREADS, BLOCKS)                                      \
        name(const f16* x, const float* weight, const float* bias, const f16* point,                         \
             const float* point_bias, const f16* up, const float* up_bias, const f16* down,                  \
             const float* down_bias, f16* z, const float* edges, long long* next, int grid) {                \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        KIND().run({x, weight, bias, {}, point, point_bias, up,                                              \
                    up_bias, down, down_bias, z, edges, next, grid},                                         \
                   shared_address(memory));                                                                  \
    }
REPVIT_DOWN(repvit_down_96, Down96, 2)
REPVIT_DOWN(repvit_down_192, Down192, 1)
