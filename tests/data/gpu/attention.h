// What the attention kernels compute, without their source: a stand-in that shows whether launches, arguments and sizes
// are right. The source itself runs on the host in tests/emulate, at a pace that no pipeline could be tested with.
//
// The part of each block, partial results, and that a kernel of its own merges them are the real kernels'. Of large problems only every
// ((m / 64) | 1)th query is computed, which are those that the self-test looks at; the others become NaN.
#pragma once

namespace attention {

/// Elements from one row to the next, and from an object's or a head's first row to that of the next one.
struct Rows {
    long row, batch;
};

// The elements of a tensor as floats, batch by batch, `padded` columns a row with zeros behind its own; converted in the first block of
// a launch: of many thousand keys every query reads all.
struct Floats {
    std::vector<float> values;
    const float* of(const uint16_t* tensor, Rows rows, int count, int columns, int padded) {
        const float* half = host_halves();
        if (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0) {
            values.assign((size_t)gridDim.z * count * padded, 0.0f);
            float* to = values.data();
            for (long batch = 0; batch < (long)gridDim.z; batch++)
                for (long row = 0; row < count; row++, to += padded)
                    for (int c = 0; c < columns; c++) to[c] = half[tensor[batch * rows.batch + row * rows.row + c]];
        }
        return values.data();
    }
};

inline bool looked_at(int row, int m, int n) { return (long long)m * n < 1 << 20 || row % (m / 64 | 1) == 0; }

struct Arguments {
    const uint16_t *q, *k, *v;
    const float* bias;
    uint16_t* out;
    float *partial, *stats;
    int m, n, width, columns;
    Rows queries, keys, values, results;
};

/// Merges all parts of one query.
template <int DV> void merge(const float* partial, const float* stats, uint16_t* out, long batch, int row, int m, int splits, int columns) {
    float top = -INFINITY, total = 0.0f, sums[DV] = {};
    for (int s = 0; s < splits; s++) top = std::fmax(top, stats[2 * ((batch * splits + s) * m + row)]);
    for (int s = 0; s < splits; s++) {
        const long line = (batch * splits + s) * m + row;
        const float scale = std::exp(stats[2 * line] - top);
        total += scale * stats[2 * line + 1];
        for (int c = 0; c < DV; c++) sums[c] += scale * partial[line * DV + c];
    }
    for (int c = 0; c < columns; c++) out[c] = host_half_bits(sums[c] / total);
}

// Eight sums that do not wait for each other; `WIDTH` products of floats, in the order that vectors have.
template <int WIDTH> float product(const float* q, const float* k) {
    float sums[8] = {}, sum = 0.0f;
    for (int c = 0; c < WIDTH; c += 8)
        for (int i = 0; i < 8; i++) sums[i] += q[c + i] * k[c + i];
    for (float part : sums) sum += part;
    return sum;
}

/// The first thread does the work of its block: 128 queries, one part of the keys.
template <int WIDTH, int DV, int TILE> void attend(const Arguments& a) {
    if (threadIdx.x != 0) return;
    if (a.width > WIDTH || a.columns > DV || a.width % 8 != 0) emulation::fail("heads of other columns than the kernel's");
    static Floats keys, values;
    const float* half = host_halves();
    const float* all_keys = keys.of(a.k, a.keys, a.n, a.width, WIDTH);
    const float* all_values = values.of(a.v, a.values, a.n, a.columns, DV);
    const long batch = blockIdx.z, splits = gridDim.y, tiles = (a.n + TILE - 1) / TILE;
    const int first = (int)(tiles * blockIdx.y / splits) * TILE;
    const int end = std::min((int)(tiles * (blockIdx.y + 1) / splits) * TILE, a.n);
    const int last = std::min((int)(blockIdx.x + 1) * 128, a.m);
    std::vector<float> weights(end - first);
    for (int row = blockIdx.x * 128; row < last; row++) {
        float q[WIDTH] = {}, sums[DV] = {}, top = -INFINITY, total = 0.0f;
        const bool skip = !looked_at(row, a.m, a.n);
        for (int c = 0; c < a.width; c++) q[c] = half[a.q[batch * a.queries.batch + row * a.queries.row + c]];
        for (int key = first; key < end && !skip; key++) {
            const float score = (FAULT(attention_has_no_bias, a.bias ? a.bias[key] : 0.0f, 0.0f)) + product<WIDTH>(q, all_keys + (batch * a.n + key) * WIDTH);
            top = std::fmax(top, weights[key - first] = score);
        }
        for (int key = first; key < end && !skip; key++) {
            const float weight = FAULT(attention_weighs_all_keys_alike, std::exp(weights[key - first] - top), 1.0f);
            const float* v = all_values + (batch * a.n + key) * DV;
            total += weight;
            for (int c = 0; c < DV; c++) sums[c] += weight * v[c];
        }
        if (skip) total = NAN;
        const long line = (batch * splits + blockIdx.y) * a.m + row;
        uint16_t* to = a.out + batch * a.results.batch + row * a.results.row;
        for (int c = 0; c < DV; c++) {
            if (splits > 1) a.partial[line * DV + c] = sums[c];
            else if (c < a.columns) to[c] = host_half_bits(sums[c] / total);
        }
        if (splits > 1) a.stats[2 * line] = top, a.stats[2 * line + 1] = total;
    }
}

template <int DV>
void combine(const float* partial, const float* stats, uint16_t* out, int rows, int m, int splits, int columns, Rows results) {
    const int index = blockIdx.x * blockDim.x + threadIdx.x, row = index / (DV / 4);
    if (row >= rows || index % (DV / 4) != 0) return;
    merge<DV>(partial, stats, out + row / m * results.batch + row % m * results.row, row / m, row % m, m, splits, columns);
}

}  // namespace attention

#define STAND_IN(NAME, WIDTH, DV, TILE)                                                                                     \
    void NAME(const uint16_t* q, const uint16_t* k, const uint16_t* v, const float* bias, uint16_t* out, float* partial,    \
              float* stats, int m, int n) {                                                                                 \
        attention::attend<WIDTH, DV, TILE>({q, k, v, bias, out, partial, stats, m, n, WIDTH, DV, {WIDTH, (long)m * WIDTH},  \
                                            {WIDTH, (long)n * WIDTH}, {DV, (long)n * DV}, {DV, (long)m * DV}});             \
    }
STAND_IN(attention_cross, 256, 64, 64)
STAND_IN(attention_self, 256, 256, 64)
STAND_IN(attention_cross_hopper, 256, 64, 128)
STAND_IN(attention_self_hopper, 256, 256, 64)
#define STAND_IN_HEADS(NAME, DEPTH, TILE)                                                                                   \
    void NAME(const uint16_t* q, const uint16_t* k, const uint16_t* v, const float* bias, uint16_t* out, float* partial,    \
              float* stats, int m, int n, int depth, int row, int query_head, int key_head, int out_row, int out_head) {    \
        attention::attend<DEPTH, DEPTH, TILE>({q, k, v, bias, out, partial, stats, m, n, depth, depth, {row, query_head},   \
                                               {row, key_head}, {row, key_head}, {out_row, out_head}});                     \
    }
STAND_IN_HEADS(attention_heads_64, 64, 64)
STAND_IN_HEADS(attention_heads_80, 80, 32)
STAND_IN_HEADS(attention_heads_96, 96, 32)
STAND_IN_HEADS(attention_heads_128, 128, 32)
STAND_IN_HEADS(attention_heads_64_hopper, 64, 128)
STAND_IN_HEADS(attention_heads_80_hopper, 80, 128)
STAND_IN_HEADS(attention_heads_96_hopper, 96, 128)
STAND_IN_HEADS(attention_heads_128_hopper, 128, 128)
#define STAND_IN_COMBINE(NAME, DV)                                                                                          \
    void NAME(const float* partial, const float* stats, uint16_t* out, int rows, int m, int splits, int columns,            \
              int out_row, int out_batch) {                                                                                 \
        attention::combine<DV>(partial, stats, out, rows, m, splits, columns, {out_row, out_batch});                        \
    }
STAND_IN_COMBINE(attention_combine_64, 64)
STAND_IN_COMBINE(attention_combine_80, 80)
STAND_IN_COMBINE(attention_combine_96, 96)
STAND_IN_COMBINE(attention_combine_128, 128)
STAND_IN_COMBINE(attention_combine_256, 256)
