// What Hopper's products compute, with an activation or a norm behind them or nothing, without their sources, which run on the host in tests/emulate. Clusters, their tiles
// and their boxes are the real kernels'; a cluster's first block has whole rows.
#pragma once

#include "dots.h"

namespace products {

/// What the stand-in driver keeps of a matrix in boxes: as in fake_driver.c.
struct Map {
    const uint16_t* from;
    uint64_t rows, columns;
    unsigned box_rows;
};

/// Output tiles of 128 rows and so many columns; a cluster has down x across of them.
struct Tiles {
    int columns, down, across;

    void check(const Map& tokens, const Map& weights, int m, int n, int k) const {
        if (blockDim.x != 384 || gridDim.x % (unsigned)(down * across)) emulation::fail("no whole clusters");
        if (tokens.rows != (uint64_t)m || weights.rows != (uint64_t)n || tokens.columns != (uint64_t)k || weights.columns != (uint64_t)k)
            emulation::fail("matrices of other sizes");
        if ((int)tokens.box_rows != (across == 3 ? 64 : 128 / across) || (int)weights.box_rows * down != columns) emulation::fail("boxes of other sizes");
        if (m < 1 || k < 64 || k % 16) emulation::fail("no such product");
    }
    /// This block's rows, one after the other: those of its cluster, for the first block of each.
    template <class Row> void each_row(int m, Row row) const {
        const int cluster = down * across, clusters = (int)gridDim.x / cluster, height = 128 * down;
        if (blockIdx.x % (unsigned)cluster) return;
        for (int tile = (int)blockIdx.x / cluster; tile * height < m; tile += clusters)
            for (int at = tile * height; at < (tile + 1) * height && at < m; at++) row(at);
    }
};

inline std::vector<float> floats_of_all(const Map& map) { return floats_of(map.from, map.rows * map.columns); }

inline void multiply(const Map& tokens, const Map& weights, const uint16_t* bias, uint16_t* out, int m, int n, int k, bool activated, Tiles tiles) {
    if (threadIdx.x != 0) return;
    tiles.check(tokens, weights, m, n, k);
    // A cluster has few of many columns, so its number says nothing of rows here: the first does all.
    if (blockIdx.x > 0) return;
    const std::vector<float> a = floats_of_all(tokens), b = floats_of_all(weights);
    for (int row = 0; row < m; row++)
        for (int column = 0; column < n; column++) {
            const float x = dot(&a[(size_t)row * k], &b[(size_t)column * k], 0, k) + host_halves()[bias[column]];
            out[(size_t)row * n + column] = host_half_bits(activated ? gelu(x) : x);
        }
}

struct Norm {
    const float *bias, *weight, *shift;
    float* residual;
    uint16_t* out;
    const unsigned char* ahead;
    int lines;
};

inline void normalize(const Map& tokens, const Map& weights, const Norm& norm, int m, int n, int k, Tiles tiles) {
    if (threadIdx.x != 0) return;
    tiles.check(tokens, weights, m, n, k);
    for (int line = 0; line < norm.lines && blockIdx.x == 0; line++) (void)*(volatile const unsigned char*)(norm.ahead + 128 * (size_t)line);
    std::vector<float> b;
    tiles.each_row(m, [&](int row) {
        if (b.empty()) b = floats_of_all(weights);
        const std::vector<float> a = floats_of(tokens.from + (size_t)row * k, k);
        float* x = norm.residual + (size_t)row * n;
        double mean = 0.0, square = 0.0;
        for (int i = 0; i < n; i++) mean += x[i] = x[i] + (dot(a.data(), &b[(size_t)i * k], 0, k) + norm.bias[i]);
        mean /= n;
        for (int i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
        const double scale = 1.0 / std::sqrt(square / n + 1e-6);
        // Where the tokens are, perhaps: all of this row has been read.
        for (int i = 0; i < n; i++) norm.out[(size_t)row * n + i] = host_half_bits((float)((x[i] - mean) * scale * norm.weight[i] + FAULT(norm_has_no_bias, norm.shift[i], 0.0f)));
    });
}

}  // namespace products

#define STAND_IN_PRODUCT(NAME, ACTIVATED, COLUMNS, DOWN, ACROSS)                                                                      \
    void NAME(const products::Map* tokens, const products::Map* weights, const uint16_t* bias, uint16_t* out, int m, int n, int k) {    \
        products::multiply(*tokens, *weights, bias, out, m, n, k, ACTIVATED, {COLUMNS, DOWN, ACROSS});                                 \
    }
STAND_IN_PRODUCT(product_gelu_128_by_2, true, 128, 2, 1)
STAND_IN_PRODUCT(product_gelu_192_by_2, true, 192, 2, 1)
STAND_IN_PRODUCT(product_gelu_128_by_4, true, 128, 2, 2)
STAND_IN_PRODUCT(product_gelu_192_by_4, true, 192, 2, 2)
STAND_IN_PRODUCT(product_plain_128_by_2, false, 128, 2, 1)
STAND_IN_PRODUCT(product_plain_192_by_2, false, 192, 2, 1)

#define STAND_IN_NORM(NAME, N, COLUMNS, DOWN, ACROSS)                                                                                       \
    void NAME(const products::Map* tokens, const products::Map* weights, const float* bias, float* residual, const float* norm_weight,        \
              const float* norm_bias, uint16_t* out, int m, int k, const unsigned char* ahead, int lines) {                                   \
        products::normalize(*tokens, *weights, {bias, norm_weight, norm_bias, residual, out, ahead, lines}, m, N, k, {COLUMNS, DOWN, ACROSS}); \
    }
STAND_IN_NORM(product_norm_96, 96, 96, 2, 1)
STAND_IN_NORM(product_norm_112, 112, 112, 2, 1)
STAND_IN_NORM(product_norm_144, 144, 144, 2, 1)
STAND_IN_NORM(product_norm_192, 192, 96, 1, 2)
STAND_IN_NORM(product_norm_224, 224, 112, 1, 2)
STAND_IN_NORM(product_norm_288, 288, 144, 1, 2)
STAND_IN_NORM(product_norm_384_by_3, 384, 128, 1, 3)
STAND_IN_NORM(product_norm_384_by_6, 384, 128, 2, 3)
STAND_IN_NORM(product_norm_448_by_3, 448, 160, 1, 3)
STAND_IN_NORM(product_norm_448_by_6, 448, 160, 2, 3)
STAND_IN_NORM(product_norm_576_by_3, 576, 192, 1, 3)
STAND_IN_NORM(product_norm_576_by_6, 576, 192, 2, 3)
