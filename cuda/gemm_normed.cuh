/*!
A matmul of LayerNorm(x), where x comes as f16 and a kernel before has measured its f32 rows
(gemm_moments_hopper.cu). The norm's weight g and bias h are folded into weights W' = W g and biases
b' = b + W h on the host, and so is c, the sum of each row of W'. With mean u and deviation d of a
row of tokens: LayerNorm(x) W^T + b = (x W'^T - u c) / d + b' = (x W'^T + (b' d - u c)) / d.

So sums begin as b' d - u c, while a warpgroup waits for its turn, and are divided by d at the end.
The sums of c are of the rounded W', so that what a common offset of a row adds is taken off again.
Needs gemm_hopper.cuh in front.
*/
#pragma once

// ---- gemm ----

/// Of four rows of a lane: l / 4, and 8, 64 and 72 further.
struct RowNorms {
    float mean[4], deviation[4];
};

/// Prefetches the vectors of each warpgroup's first tile, which no kernel writes, into the L1 cache: by
/// as many warps behind the loading one.
template <int GROUPS, class Gemm>
__device__ __forceinline__ void prefetch_norm(const Gemm& gemm) {
    constexpr int LINES = Gemm::TILE_N / 32;
    const int group = (int)(threadIdx.x >> 5) - 1, lane = (int)threadIdx.x & 31;
    const int tile = gemm.first + group * gemm.step, column = gemm.column_of(tile) + lane % LINES * 32;
    if (group >= 0 && group < GROUPS && tile < gemm.tiles && lane < 2 * LINES && column < gemm.n)
        prefetch_line((lane < LINES ? gemm.bias.bias : gemm.bias.column_sums) + column);
}

/// Combines the parts of each row in their order (Chan, Golub and LeVeque, 1979), less the mean of the
/// first: a common offset of a row costs no digits. Rows beyond the last one repeat it.
template <class Gemm>
__device__ __forceinline__ void measure_rows(const Gemm& gemm, int top, RowNorms& rows) {
    const FoldedNorm& norm = gemm.bias;
    const int parts = norm.parts, own = gemm.warp * 16 + (gemm.lane >> 2);
    const float share = 1.0f / (float)parts, columns = (float)gemm.k * share;
    float mean[4], squares[4], away[4], apart[4];
#pragma unroll
    for (int r = 0; r < 4; r++) squares[r] = away[r] = apart[r] = 0.0f;
#pragma unroll 1
    for (int at = 0; at < parts; at += 4) {
        // Four loads at a time for each row.
        float2 part[4][4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const int row = at_most(top + own + (r & 1) * 8 + r / 2 * 64, gemm.m - 1);
                part[i][r] = load_two(norm.moments +
                                      ((long long)at_most(at + i, parts - 1) * gemm.m + row) * 2);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (at + i >= parts) break;
#pragma unroll
            for (int r = 0; r < 4; r++) {
                if (at + i == 0) mean[r] = part[0][r].x;
                const float further = part[i][r].x - mean[r];
                squares[r] += part[i][r].y, away[r] += further, apart[r] += further * further;
            }
        }
    }
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const float further = away[r] * share;
        const float all = squares[r] + columns * (apart[r] - away[r] * further);
        const float variance = all / (float)gemm.k + 1e-6f;
        rows.mean[r] = mean[r] + further, rows.deviation[r] = variance * reciprocal_root(variance);
    }
}

/// Sums of a tile before its matmul, and zeros beyond the last column; and what they are multiplied by
/// after it.
template <class Gemm, class Sums>
__device__ __forceinline__ void begin_with_norm(const Gemm& gemm, Sums& sums, int top, int column,
                                                float (&scale)[4]) {
    RowNorms rows;
    measure_rows(gemm, top, rows);
    const int own = column + (gemm.lane & 3) * 2;
#pragma unroll
    for (int j = 0; j < Gemm::TILE_N / 8; j++) {
        float2 bias = {0.0f, 0.0f}, all = {0.0f, 0.0f};
        if (column + j / 8 * 64 < gemm.n) {
            bias = load_two(gemm.bias.bias + own + j * 8);
            all = load_two(gemm.bias.column_sums + own + j * 8);
        }
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float* sum = sums[r / 2] + j * 4 + r % 2 * 2;
            sum[0] = fmaf(bias.x, rows.deviation[r], -rows.mean[r] * all.x);
            sum[1] = fmaf(bias.y, rows.deviation[r], -rows.mean[r] * all.y);
        }
    }
    // Last: registers are few until the sums' parts are used up.
#pragma unroll
    for (int r = 0; r < 4; r++) scale[r] = reciprocal(rows.deviation[r]);
}
