// What the attention inside windows computes, without its source: as attention.h for the attention over whole maps. The source itself
// runs on the host in tests/emulate.
//
// Blocks, their pairs of window and head, and padding tokens are the real kernel's. Of large maps only every ((tokens / 64) | 1)th
// token is computed, which are those that the self-test looks at; the others become NaN.
#pragma once

namespace windows {

struct Arguments {
    const uint16_t *qkv, *bias;
    uint16_t* out;
    int grid, window, whole, side, heads, depth, pooled, together, parts, padded, tile;
};

/// Part `part` of the queries of a window, counted as the kernel does: whole windows first, then the right edge, then the lower one.
inline void attend(const Arguments& a, int index, int head, int part, int warps) {
    const float* half = host_halves();
    const int factor = a.pooled ? 2 : 1, out_side = a.grid / factor, keys = a.window * a.window, columns = a.heads * a.depth;
    const int edge = index - a.whole * a.whole;
    const int top = (edge < 0 ? index / a.whole : edge < a.whole ? edge : a.whole) * a.window;
    const int left = (edge < 0 ? index % a.whole : edge < a.whole ? a.whole : edge - a.whole) * a.window;
    auto row = [&](int y, int x, int part) {
        const bool inside = y < a.grid && x < a.grid;
        const uint16_t* from = inside ? a.qkv + ((size_t)y * a.grid + x) * 3 * columns : a.bias;
        return from + part * columns + head * a.depth;
    };
    // Keys and values as floats, once a pair; launches run one after another.
    static float k[256][96], v[256][96], weights[256];  // too much for a fibre
    bool converted = false;
    int asked = 0;
    const long all = (long)out_side * out_side;
    for (int query = 0; query < keys / factor / factor; query++) {
        const int y = top / factor + query / (a.window / factor), x = left / factor + query % (a.window / factor);
        if (y >= out_side || x >= out_side || asked++ / a.tile / warps % a.parts != part) continue;
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
            const float weight = FAULT(windows_weigh_all_keys_alike, std::exp(weights[key] - high), 1.0f);
            total += weight;
            for (int c = 0; c < a.depth; c++) sums[c] += weight * v[key][c];
        }
        for (int c = 0; c < a.depth; c++) to[c] = host_half_bits(sums[c] / total);
    }
}

/// The first thread does the work of its block.
inline void run(const Arguments& a) {
    if (threadIdx.x != 0) return;
    const int warps = (int)blockDim.x / 32, all = a.side * a.side;
    if (a.depth > a.padded || a.together < 1 || a.parts < 1 || (a.together > 1 && (a.together != warps || a.parts > 1))) emulation::fail("no such division");
    if (a.whole != a.grid / a.window || a.side != (a.grid + a.window - 1) / a.window) emulation::fail("windows miscounted");
    int group = (int)blockIdx.x / a.heads, part = 0;
    for (; a.together == 1 && group >= all; part++) group -= all;
    if (part >= a.parts) emulation::fail("blocks without queries");
    for (int index = group * a.together; index < (group + 1) * a.together && index < all; index++)
        attend(a, index, (int)blockIdx.x % a.heads, part, a.together > 1 ? 1 : warps);
}

/// The same of Hopper's kernels: warpgroups of 64 queries, a block's head, part and window in the grid's three dimensions.
inline void run_hopper(const Arguments& a, int reciprocal, int edge) {
    if (threadIdx.x != 0) return;
    const int groups = (int)blockDim.x / 128, beyond = a.grid % a.window, keys = a.window * a.window;
    if (a.depth > a.padded || groups < 1 || (int)blockDim.x % 128 || groups * 64 * a.parts < keys || keys <= 64) emulation::fail("no such division");
    if (a.whole != a.grid / a.window || a.side != (a.grid + a.window - 1) / a.window || (int)gridDim.z != a.side * a.side) emulation::fail("windows miscounted");
    if (reciprocal != 65536 / a.window + 1 || (beyond && edge != 65536 / beyond + 1)) emulation::fail("no such reciprocals");
    attend(a, (int)blockIdx.z, (int)blockIdx.x, (int)blockIdx.y, groups);
}

}  // namespace windows

#define STAND_IN_WINDOWS(NAME, DEPTH, TILE)                                                                                              \
    void NAME(const uint16_t* qkv, const uint16_t* bias, uint16_t* out, int grid, int window, int whole, int side, int heads, int depth, \
              int pooled, int together, int parts) {                                                                                     \
        windows::run({qkv, bias, out, grid, window, whole, side, heads, depth, pooled, together, parts, DEPTH, TILE});                   \
    }
STAND_IN_WINDOWS(trunk_windows_56, 56, 16)
STAND_IN_WINDOWS(trunk_windows_72, 72, 16)
STAND_IN_WINDOWS(trunk_windows_96, 96, 16)
STAND_IN_WINDOWS(trunk_windows_56_wide, 56, 32)
STAND_IN_WINDOWS(trunk_windows_72_wide, 72, 32)
STAND_IN_WINDOWS(trunk_windows_96_wide, 96, 32)

#define STAND_IN_WINDOWS_HOPPER(NAME, DEPTH)                                                                                             \
    void NAME(const uint16_t* qkv, const uint16_t* bias, uint16_t* out, int grid, int window, int whole, int side, int heads, int depth, \
              int reciprocal, int edge) {                                                                                                \
        windows::run_hopper({qkv, bias, out, grid, window, whole, side, heads, depth, 0, 1, (int)gridDim.y, DEPTH, 64}, reciprocal, edge); \
    }
STAND_IN_WINDOWS_HOPPER(trunk_windows_56_hopper, 56)
STAND_IN_WINDOWS_HOPPER(trunk_windows_72_hopper, 72)
STAND_IN_WINDOWS_HOPPER(trunk_windows_96_hopper, 96)
