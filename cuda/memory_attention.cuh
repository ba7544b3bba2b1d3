/*!
The LayerNorm of the memory attention's kernels: a warp normalises a row of 256 columns.

Needs ptx.cuh, attention.cuh and repvit.cuh in front.
*/
#pragma once

// ---- norm ----

constexpr int COLUMNS = 256;          // of a token
constexpr int PARTNER = COLUMNS / 2;  // from a column to the other of its pair
constexpr float NORM_EPSILON = 1e-5f;

/// A lane's eight columns of a row, normalised.
__device__ __forceinline__ void normalize(float2 (&x)[4], const float2 (&weight)[4],
                                          const float2 (&bias)[4]) {
    float mean = 0.0f, square = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++) mean += x[i].x + x[i].y;
    mean = sum_of_lanes<1, 32>(mean) * (1.0f / COLUMNS);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[i].x -= mean, x[i].y -= mean;
        square += x[i].x * x[i].x + x[i].y * x[i].y;
    }
    float scale = rsqrtf(sum_of_lanes<1, 32>(square) * (1.0f / COLUMNS) + NORM_EPSILON);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[i].x = fmaf(x[i].x * scale, weight[i].x, bias[i].x);
        x[i].y = fmaf(x[i].y * scale, weight[i].y, bias[i].y);
    }
}
