// What the attention inside windows computes, without its source: as attention.h for the attention over whole maps. The source itself
// runs on the host in scripts/attention.
//
// Blocks, their pairs of window and head, and padding tokens are the real kernel's. Of large maps only every ((tokens / 64) | 1)th
// token is computed, which are those that the self-test looks at; the others become NaN.
#pragma once

namespace windows {

struct Arguments {
    const uint16_t *qkv, *bias;
    uint16_t* out;
    int grid, window, heads, depth, pooled, warps, pairs, padded;
};

inline void attend(const Arguments& a, int pair) {
    const float* half = host_halves();
    const int factor = a.pooled ? 2 : 1, side = (a.grid + a.window - 1) / a.window, out_side = a.grid / factor, keys = a.window * a.window;
    const int columns = a.heads * a.depth, head = pair % a.heads, top = pair / a.heads / side * a.window, left = pair / a.heads % side * a.window;
    auto row = [&](int y, int x, int part) {
        const bool inside = y < a.grid && x < a.grid;
        const uint16_t* from = inside ? a.qkv + ((size_t)y * a.grid + x) * 3 * columns : a.bias;
        return from + part * columns + head * a.depth;
    };
    // Keys and values as floats, once a pair; launches run one after another.
    static float k[256][96], v[256][96], weights[256];  // too much for a fibre
    bool converted = false;
    const long all = (long)out_side * out_side;
    for (int query = 0; query < keys / factor / factor; query++) {
        const int y = top / factor + query / (a.window / factor), x = left / factor + query % (a.window / factor);
        if (y >= out_side || x >= out_side) continue;
        uint16_t* to = a.out + ((size_t)y * out_side + x) * columns + head * a.depth;
        const long token = (long)y * out_side + x;
        if (all * keys * a.heads > 1 << 18 && token % (all / 64 | 1) != 0) {
            for (int c = 0; c < a.depth; c++) to[c] = host_half_bits(NAN);
            continue;
        }
        for (int key = 0; key < keys && !converted; key++) {
            const uint16_t *from_k = row(top + key / a.window, left + key % a.window, 1), *from_v = row(top + key / a.window, left + key % a.window, 2);
            for (int c = 0; c < a.depth; c++) k[key][c] = half[from_k[c]], v[key][c] = half[from_v[c]];
        }
        converted = true;
        float q[96], sums[96] = {}, high = -INFINITY, total = 0.0f;
        for (int c = 0; c < a.depth; c++) {
            q[c] = -INFINITY;
            for (int dy = 0; dy < factor; dy++)
                for (int dx = 0; dx < factor; dx++) q[c] = std::fmax(q[c], half[row(y * factor + dy, x * factor + dx, 0)[c]]);
        }
        for (int key = 0; key < keys; key++) {
            float score = 0.0f;
            for (int c = 0; c < a.depth; c++) score += q[c] * k[key][c];
            high = std::fmax(high, weights[key] = score);
        }
        for (int key = 0; key < keys; key++) {
            const float weight = std::exp(weights[key] - high);
            total += weight;
            for (int c = 0; c < a.depth; c++) sums[c] += weight * v[key][c];
        }
        for (int c = 0; c < a.depth; c++) to[c] = host_half_bits(sums[c] / total);
    }
}

/// The first thread does the work of its block.
inline void run(const Arguments& a) {
    if (threadIdx.x != 0) return;
    const int queries = a.window * a.window / (a.pooled ? 4 : 1), block = (int)blockDim.x / 32;
    if (a.depth > a.padded || a.warps < 1 || block % a.warps != 0 || a.warps > (queries + 15) / 16) emulation::fail("warps without queries");
    const int pairs = block / a.warps;
    for (int pair = blockIdx.x * pairs; pair < (int)(blockIdx.x + 1) * pairs && pair < a.pairs; pair++) attend(a, pair);
}

}  // namespace windows

#define STAND_IN_WINDOWS(NAME, DEPTH)                                                                                                    \
    void NAME(const uint16_t* qkv, const uint16_t* bias, uint16_t* out, int grid, int window, int heads, int depth, int pooled, int warps, \
              int pairs) {                                                                                                               \
        windows::run({qkv, bias, out, grid, window, heads, depth, pooled, warps, pairs, DEPTH});                                         \
    }
STAND_IN_WINDOWS(trunk_windows_64, 64)
STAND_IN_WINDOWS(trunk_windows_80, 80)
STAND_IN_WINDOWS(trunk_windows_96, 96)
