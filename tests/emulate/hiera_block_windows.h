// cuda/hiera_block_windows.cu for the CPU.
#include "hiera_block.h"
static u32 transposed(u32 matrix) {
    struct Matrix { u32 from, to; } own{matrix, 0};
    collective(&own, [](Fiber* f) {
        for (int l = 0; l < 32; l++) {
            // Rows 2 (l % 4) and the next one of column l / 4.
            const int from = l % 4 * 8 + l / 8, low = l / 4 % 2 * 16;
            const u32 a = ((Matrix*)f[from].args)->from, b = ((Matrix*)f[from + 4].args)->from;
            ((Matrix*)f[l].args)->to = (a >> low & 0xffff) | (b >> low) << 16;
        }
    });
    return own.to;
}
#include "hiera_block_windows.cu.block"
