// A weight [columns, depth] in the order of cuda/repvit.cuh, as crates/kernels/src/repvit/packed.rs
// makes it: `tiles` tiles of 16 columns follow each other step by step. Zeros beyond.
#pragma once
static Halves packed(Halves& weight, int columns, int depth, int tiles) {
    const int warps = (columns + 16 * tiles - 1) / (16 * tiles), steps = (depth + 15) / 16;
    Halves all((size_t)warps * tiles * steps * 256);
    all.fill([&](size_t at) {
        const int e = at % 2, pair = at / 2 % 4, lane = at / 8 % 32, tile = at / 256 % tiles,
                  step = at / 256 / tiles % steps, warp = at / 256 / tiles / steps;
        // The mma's column n of half `pair / 2` belongs to lane n / 2 of a quad, whose columns are
        // four in a row.
        const int n = lane / 4, column = (warp * tiles + tile) * 16 + n / 2 * 4 + pair / 2 * 2 + n % 2,
                  k = step * 16 + pair % 2 * 8 + lane % 4 * 2 + e;
        return column < columns && k < depth ? weight[(size_t)column * depth + k] : (f16)0;
    });
    return all;
}
/// The same as left factor: a lane has two pairs of columns 8 apart, and `four` neighbours of K
/// where tokens are floats.
static Halves packed_left(Halves& weight, int columns, int depth, int tiles, bool four) {
    const int blocks = (columns + 16 * tiles - 1) / (16 * tiles), steps = (depth + 15) / 16;
    Halves all((size_t)blocks * tiles * steps * 256);
    all.fill([&](size_t at) {
        const int e = at % 2, pair = at / 2 % 4, lane = at / 8 % 32, tile = at / 256 % tiles,
                  step = at / 256 / tiles % steps, block = at / 256 / tiles / steps;
        const int column = (block * tiles + tile) * 16 + pair % 2 * 8 + lane / 4;
        const int k = step * 16 + (four ? lane % 4 * 4 + pair / 2 * 2 : pair / 2 * 8 + lane % 4 * 2) + e;
        return column < columns && k < depth ? weight[(size_t)column * depth + k] : (f16)0;
    });
    return all;
}
