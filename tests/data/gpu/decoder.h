// What the mask decoder's kernels compute, without their sources: as attention.h for the attention. The sources themselves run on the host in
// tests/emulate. Each block does the share of the real kernel's. Of many image tokens every ((tokens / 128) | 1)th is upscaled, which are those
// that the self-test looks at; the others' logits become NaN.
#pragma once

#include "attention.h"
#include "dots.h"

namespace decoder {

constexpr int TOKENS = 8, WIDTH = 256, CROSS = 128, HEADS = 8, DEPTH = 16, ROWS = 64, TILE = 64, HIDDEN = 2048;
constexpr int MIDDLE = 64, NARROW = 32;

using attention::product;

inline float rounded(float x) { return host_halves()[host_half_bits(x)]; }
inline void expect(bool fits) {
    if (!fits) emulation::fail("no such division");
}
inline float half(const uint16_t* from, long at) { return host_halves()[from[at]]; }

inline void normalize(const float* x, const float* weight, const float* bias, float epsilon, int columns, float* out) {
    float mean = 0.0f, spread = 0.0f;
    for (int c = 0; c < columns; c++) mean += x[c] / columns;
    for (int c = 0; c < columns; c++) spread += (x[c] - mean) * (x[c] - mean) / columns;
    for (int c = 0; c < columns; c++) out[c] = (x[c] - mean) / std::sqrt(spread + epsilon) * weight[c] + bias[c];
}

struct Reading {
    const uint16_t *folded, *values;
    float *sums, *parts;
};

/// The tokens read a tile: x as floats, `count` of its rows are there.
inline void read(const Reading& a, const float* x, const uint16_t* pe, int count) {
    const std::vector<float> folded = floats_of(a.folded, ROWS * WIDTH), values = floats_of(a.values, CROSS * WIDTH);
    static float scores[TILE][ROWS], of_values[TILE][CROSS];  // too much for a fibre
    for (int n = 0; n < count; n++) {
        float placed[WIDTH];
        for (int c = 0; c < WIDTH; c++) placed[c] = rounded(x[n * WIDTH + c] + half(pe, n * WIDTH + c));
        for (int r = 0; r < ROWS; r++) scores[n][r] = product<WIDTH>(placed, &folded[r * WIDTH]);
        for (int k = 0; k < CROSS; k++) of_values[n][k] = rounded(product<WIDTH>(x + n * WIDTH, &values[k * WIDTH]));
    }
    for (int r = 0; r < ROWS; r++) {
        const int head = r / TOKENS, token = r % TOKENS;
        float most = -INFINITY, sum = 0.0f, part[DEPTH] = {};
        for (int n = 0; n < count; n++) most = std::fmax(most, scores[n][r]);
        for (int n = 0; n < count; n++) {
            const float weight = FAULT(decoder_skips_the_last_token_of_a_tile, std::exp(scores[n][r] - most), n + 1 < count ? std::exp(scores[n][r] - most) : 0.0f);
            sum += weight;
            for (int d = 0; d < DEPTH; d++) part[d] += rounded(weight) * of_values[n][head * DEPTH + d];
        }
        float* to = a.sums + ((long)blockIdx.x * ROWS + r) * 2;
        to[0] = most, to[1] = sum;
        for (int d = 0; d < DEPTH; d++) a.parts[((long)blockIdx.x * TOKENS + token) * CROSS + head * DEPTH + d] = part[d];
    }
}

/// Rows of this block's tile that are there; the first one of all is `blockIdx.x * TILE`.
inline int rows_of_tile(int tokens) {
    expect(gridDim.x == (unsigned)(tokens + TILE - 1) / TILE && blockDim.x == 128);
    return std::min(TILE, tokens - (int)blockIdx.x * TILE);
}

/// Row 8 h + j: a head of token j's row, times that head's rows of a weight [128, 256].
inline void fold(const float* rows, const float* weight, int head, uint16_t* out) {
    for (int token = 0; token < TOKENS; token++)
        for (int c = 0; c < WIDTH; c++) {
            float sum = 0.0f;
            for (int k = head * DEPTH; k < (head + 1) * DEPTH; k++) sum += rows[token * CROSS + k] * weight[k * WIDTH + c];
            out[(head * TOKENS + token) * WIDTH + c] = host_half_bits(sum);
        }
}

/// Eight rows times a weight of halves, [rows of it, 256].
inline std::vector<float> project(const float* x, const uint16_t* weight, const float* bias, int rows) {
    const std::vector<float> w = floats_of(weight, (uint64_t)rows * WIDTH);
    std::vector<float> made((size_t)TOKENS * rows);
    for (int token = 0; token < TOKENS; token++)
        for (int r = 0; r < rows; r++) made[token * rows + r] = product<WIDTH>(x + token * WIDTH, &w[r * WIDTH]) + bias[r];
    return made;
}

inline std::vector<float> plus(const float* a, const float* b) {
    std::vector<float> sum(TOKENS * WIDTH);
    for (int i = 0; i < TOKENS * WIDTH; i++) sum[i] = a[i] + b[i];
    return sum;
}

struct Folding {
    const float *sum, *norm_weight, *norm_bias, *tokens;
    const uint16_t* key_weight;
    const float* key_bias;
    const uint16_t* value_weight;
    const float* value_bias;
    const uint16_t* query_weight;
    const float* query_bias;
    const uint16_t* out_weight;
    float* queries;
    uint16_t* keys;
    float* scores_bias;
    uint16_t* values;
};

/// Behind norm3: what the image reads, a head in each of the first eight blocks.
inline std::vector<float> folded(const Folding& a) {
    expect(gridDim.x == 2 * HEADS && blockDim.x == 256);
    std::vector<float> queries(TOKENS * WIDTH);
    for (int token = 0; token < TOKENS; token++)
        normalize(a.sum + token * WIDTH, a.norm_weight, a.norm_bias, 1e-5f, WIDTH, &queries[token * WIDTH]);
    const int head = (int)blockIdx.x;
    if (head == 0) std::copy(queries.begin(), queries.end(), a.queries);
    if (head >= HEADS) return queries;
    const std::vector<float> key = project(plus(queries.data(), a.tokens).data(), a.key_weight, a.key_bias, CROSS);
    const std::vector<float> value = project(queries.data(), a.value_weight, a.value_bias, CROSS);
    const std::vector<float> weight = floats_of(a.query_weight, CROSS * WIDTH), out = floats_of(a.out_weight, WIDTH * CROSS);
    fold(key.data(), weight.data(), head, a.keys);
    for (int token = 0; token < TOKENS; token++) {
        const int row = head * TOKENS + token, from = head * DEPTH;
        a.scores_bias[row] = product<DEPTH>(&key[token * CROSS + from], a.query_bias + from);
        for (int c = 0; c < WIDTH; c++) a.values[c * ROWS + row] = host_half_bits(product<DEPTH>(&value[token * CROSS + from], &out[c * CROSS + from]));
    }
    return queries;
}

inline float gelu(float x) { return 0.5f * x * (1.0f + FAULT(decoder_has_the_wrong_gelu, std::erf(x * 0.70710678f), -std::erf(x * 0.70710678f))); }

}  // namespace decoder

void decoder_read(const uint16_t* x, const uint16_t* pe, const uint16_t* folded, const uint16_t* values, float* sums, float* parts, int tokens) {
    using namespace decoder;
    if (threadIdx.x != 0) return;
    const int count = rows_of_tile(tokens);
    const long first = (long)blockIdx.x * TILE * WIDTH;
    read({folded, values, sums, parts}, floats_of(x + first, (uint64_t)count * WIDTH).data(), pe + first, count);
}

void decoder_write(const uint16_t* x, const uint16_t* pe, const uint16_t* keys, const float* key_bias, const uint16_t* values, const float* bias,
                   const float* norm_weight, const float* norm_bias, uint16_t* y, const uint16_t* folded, const uint16_t* read_values, float* sums,
                   float* parts, int tokens) {
    using namespace decoder;
    if (threadIdx.x != 0) return;
    const int count = rows_of_tile(tokens);
    const long first = (long)blockIdx.x * TILE * WIDTH;
    const std::vector<float> k = floats_of(keys, ROWS * WIDTH), v = floats_of(values, WIDTH * ROWS);
    std::vector<float> rows = floats_of(x + first, (uint64_t)count * WIDTH);
    for (int n = 0; n < count; n++) {
        float placed[WIDTH], weights[ROWS], made[WIDTH];
        for (int c = 0; c < WIDTH; c++) placed[c] = rounded(rows[n * WIDTH + c] + half(pe + first, n * WIDTH + c));
        for (int head = 0; head < HEADS; head++) {
            float most = -INFINITY, total = 0.0f, scores[TOKENS];
            for (int j = 0; j < TOKENS; j++) {
                const int row = head * TOKENS + j;
                scores[j] = product<WIDTH>(placed, &k[row * WIDTH]) + key_bias[row];
                most = std::fmax(most, scores[j]);
            }
            for (int j = 0; j < TOKENS; j++) total += scores[j] = std::exp(scores[j] - most);
            for (int j = 0; j < TOKENS; j++) weights[head * TOKENS + j] = rounded(scores[j] / total);
        }
        for (int c = 0; c < WIDTH; c++) made[c] = rows[n * WIDTH + c] + product<ROWS>(weights, &v[c * ROWS]) + bias[c];
        normalize(made, norm_weight, norm_bias, 1e-5f, WIDTH, &rows[n * WIDTH]);
        for (int c = 0; c < WIDTH; c++) {
            y[first + n * WIDTH + c] = host_half_bits(rows[n * WIDTH + c]);
            rows[n * WIDTH + c] = half(y, first + n * WIDTH + c);
        }
    }
    read({folded, read_values, sums, parts}, rows.data(), pe + first, count);
}

void decoder_gather(const float* sums, const float* parts, const float* value_bias, const uint16_t* out_weight, const float* out_bias,
                    const float* queries, const float* norm_weight, const float* norm_bias, float* out, int tiles) {
    using namespace decoder;
    if (threadIdx.x != 0) return;
    expect(gridDim.x == TOKENS && blockDim.x == 256);
    const int token = (int)blockIdx.x;
    float attended[CROSS], made[WIDTH];
    for (int k = 0; k < CROSS; k++) {
        const int row = k / DEPTH * TOKENS + token;
        float most = -INFINITY, total = 0.0f, sum = 0.0f;
        for (int t = 0; t < tiles; t++) most = std::fmax(most, sums[(t * ROWS + row) * 2]);
        for (int t = 0; t < tiles; t++) {
            const float scale = std::exp(sums[(t * ROWS + row) * 2] - most);
            total += scale * sums[(t * ROWS + row) * 2 + 1];
            sum += scale * parts[(t * TOKENS + token) * CROSS + k];
        }
        attended[k] = sum / total + FAULT(decoder_has_no_value_bias, value_bias[k], 0.0f);
    }
    for (int c = 0; c < WIDTH; c++) {
        made[c] = queries[token * WIDTH + c] + out_bias[c];
        for (int k = 0; k < CROSS; k++) made[c] += attended[k] * half(out_weight, k * WIDTH + c);
    }
    normalize(made, norm_weight, norm_bias, 1e-5f, WIDTH, out + token * WIDTH);
}

void decoder_hidden(const float* queries, const uint16_t* weight, const float* bias, float* hidden) {
    using namespace decoder;
    if (threadIdx.x != 0) return;
    expect(gridDim.x == 64 && blockDim.x == 256);
    const int rows = HIDDEN / 64, first = (int)blockIdx.x * rows;
    const std::vector<float> made = project(queries, weight + first * WIDTH, bias + first, rows);
    for (int token = 0; token < TOKENS; token++)
        for (int r = 0; r < rows; r++) hidden[token * HIDDEN + first + r] = std::fmax(made[token * rows + r], 0.0f);
}

void decoder_narrow(const float* hidden, const uint16_t* weight, const float* bias, const float* queries, float* sum) {
    using namespace decoder;
    if (threadIdx.x != 0) return;
    expect(gridDim.x == 32 && blockDim.x == 256);
    const int rows = WIDTH / 32, first = (int)blockIdx.x * rows;
    const std::vector<float> w = floats_of(weight + first * HIDDEN, rows * HIDDEN);
    for (int token = 0; token < TOKENS; token++)
        for (int r = 0; r < rows; r++) {
            const int at = token * WIDTH + first + r;
            sum[at] = queries[at] + product<HIDDEN>(hidden + token * HIDDEN, &w[r * HIDDEN]) + bias[first + r];
        }
}

void decoder_fold_attend(const float* sum, const float* norm_weight, const float* norm_bias, const float* tokens, const uint16_t* key_weight,
                         const float* key_bias, const uint16_t* value_weight, const float* value_bias, const uint16_t* query_weight,
                         const float* query_bias, const uint16_t* out_weight, float* queries, uint16_t* keys, float* scores_bias,
                         uint16_t* values, const uint16_t* self_weight, const float* self_bias, float* attended) {
    using namespace decoder;
    if (threadIdx.x != 0) return;
    const std::vector<float> rows = folded({sum, norm_weight, norm_bias, tokens, key_weight, key_bias, value_weight, value_bias, query_weight,
                                            query_bias, out_weight, queries, keys, scores_bias, values});
    if (blockIdx.x < HEADS) return;
    const std::vector<float> placed = plus(rows.data(), tokens);
    const int depth = WIDTH / HEADS, from = ((int)blockIdx.x - HEADS) * depth;
    std::vector<float> qkv[3];
    for (int part = 0; part < 3; part++) {
        const int first = part * WIDTH + from;
        qkv[part] = project(part < 2 ? placed.data() : rows.data(), self_weight + first * WIDTH, self_bias + first, depth);
    }
    for (int i = 0; i < TOKENS; i++) {
        float most = -INFINITY, total = 0.0f, scores[TOKENS];
        for (int j = 0; j < TOKENS; j++) {
            scores[j] = product<WIDTH / HEADS>(&qkv[0][i * depth], &qkv[1][j * depth]);
            most = std::fmax(most, scores[j]);
        }
        for (int j = 0; j < TOKENS; j++) total += scores[j] = std::exp(scores[j] - most);
        for (int d = 0; d < depth; d++) {
            float made = 0.0f;
            for (int j = 0; j < TOKENS; j++) made += scores[j] / total * qkv[2][j * depth + d];
            attended[i * WIDTH + from + d] = made;
        }
    }
}

void decoder_fold_read(const float* sum, const float* norm_weight, const float* norm_bias, const float* tokens, const uint16_t* key_weight,
                       const float* key_bias, const uint16_t* value_weight, const float* value_bias, const uint16_t* query_weight,
                       const float* query_bias, const uint16_t* out_weight, float* queries, uint16_t* keys, float* scores_bias, uint16_t* values,
                       const uint16_t* read_query_weight, const float* read_query_bias, const uint16_t* read_key_weight, uint16_t* to) {
    using namespace decoder;
    if (threadIdx.x != 0) return;
    const std::vector<float> rows = folded({sum, norm_weight, norm_bias, tokens, key_weight, key_bias, value_weight, value_bias, query_weight,
                                            query_bias, out_weight, queries, keys, scores_bias, values});
    if (blockIdx.x < HEADS) return;
    const std::vector<float> query = project(plus(rows.data(), tokens).data(), read_query_weight, read_query_bias, CROSS);
    fold(query.data(), floats_of(read_key_weight, CROSS * WIDTH).data(), (int)blockIdx.x - HEADS, to);
}

void decoder_turn(const float* attended, const uint16_t* out_weight, const float* out_bias, const float* queries, const float* norm_weight,
                  const float* norm_bias, const float* tokens, const uint16_t* query_weight, const float* query_bias, const uint16_t* key_weight,
                  float* out, uint16_t* to) {
    using namespace decoder;
    if (threadIdx.x != 0) return;
    expect(gridDim.x == HEADS && blockDim.x == 256);
    const std::vector<float> weight = floats_of(out_weight, WIDTH * WIDTH);
    std::vector<float> turned(TOKENS * WIDTH);
    for (int token = 0; token < TOKENS; token++) {
        float made[WIDTH];
        for (int c = 0; c < WIDTH; c++) made[c] = queries[token * WIDTH + c] + out_bias[c];
        for (int k = 0; k < WIDTH; k++)
            for (int c = 0; c < WIDTH; c++) made[c] += attended[token * WIDTH + k] * weight[k * WIDTH + c];
        normalize(made, norm_weight, norm_bias, 1e-5f, WIDTH, &turned[token * WIDTH]);
    }
    if (blockIdx.x == 0) std::copy(turned.begin(), turned.end(), out);
    const std::vector<float> query = project(plus(turned.data(), tokens).data(), query_weight, query_bias, CROSS);
    fold(query.data(), floats_of(key_weight, CROSS * WIDTH).data(), (int)blockIdx.x, to);
}

void decoder_heads(const float* rows, const float* weight, const float* bias, float* out, int first) {
    using namespace decoder;
    if (threadIdx.x != 0) return;
    expect(gridDim.x == 8 && gridDim.y == 4 && blockDim.x == 256);
    const int row = (int)blockIdx.x, from = (int)blockIdx.y * 64;
    const int token = first ? (const int[]){0, 1, 3, 4, 5, 3, 4, 5}[row] : row, network = std::min(row, 5);
    for (int c = from; c < from + 64; c++) {
        float sum = bias[network * WIDTH + c];
        for (int k = 0; k < WIDTH; k++) sum += rows[token * WIDTH + k] * weight[((long)network * WIDTH + k) * WIDTH + c];
        out[row * WIDTH + c] = std::fmax(sum, 0.0f);
    }
}

void decoder_answer(const float* rows, const float* score_weight, const float* iou_weight, const float* hyper_weight, const float* pointer_weight,
                    const float* no_pointer, float* iou, uint16_t* pointer, float* score, float* vector, int probable) {
    using namespace decoder;
    if (threadIdx.x != 0) return;
    expect(gridDim.x == 4 && blockDim.x == 256);
    const float given = product<WIDTH>(rows, score_weight) + score_weight[WIDTH];
    float ious[3];
    int best = 0;
    for (int mask = 0; mask < 3; mask++) {
        const float* weight = iou_weight + (mask + 1) * (WIDTH + 1);
        ious[mask] = product<WIDTH>(rows + WIDTH, weight) + weight[WIDTH];
        if (FAULT(decoder_squashes_the_wrong_ious, probable, !probable)) ious[mask] = 1.0f / (1.0f + std::exp(-ious[mask]));
        if (FAULT(decoder_takes_the_last_of_equal_ious, ious[mask] > ious[best], ious[mask] >= ious[best])) best = mask;
    }
    if (blockIdx.x == 0) {
        *score = given, *iou = ious[best];
        for (int c = 0; c < NARROW; c++) {
            const float* weight = hyper_weight + (best * NARROW + c) * (WIDTH + 1);
            vector[c] = product<WIDTH>(rows + (2 + best) * WIDTH, weight) + weight[WIDTH];
        }
    }
    for (int c = (int)blockIdx.x * 64; c < ((int)blockIdx.x + 1) * 64; c++) {
        float made = given > FAULT(decoder_takes_the_pointer_of_score_3, 0.0f, 3.0f) ? pointer_weight[WIDTH * WIDTH + c] : no_pointer[c];
        for (int k = 0; k < WIDTH && given > 0.0f; k++) made += rows[(5 + best) * WIDTH + k] * pointer_weight[k * WIDTH + c];
        pointer[c] = host_half_bits(made);
    }
}

void decoder_masks(const uint16_t* x, const uint16_t* hr0, const uint16_t* hr1, const uint16_t* weight1, const float* bias1,
                   const float* norm_weight, const float* norm_bias, const uint16_t* weight2, const float* bias2, const float* vector,
                   const float* score, float* low, int grid) {
    using namespace decoder;
    if (threadIdx.x != 0) return;
    const int tokens = grid * grid, count = rows_of_tile(tokens), place = (int)blockIdx.y, step = tokens > 1024 ? tokens / 128 | 1 : 1;
    expect(gridDim.y == 4);
    const std::vector<float> first = floats_of(weight1 + place * MIDDLE * WIDTH, MIDDLE * WIDTH), second = floats_of(weight2, 4 * NARROW * MIDDLE);
    for (int n = (int)blockIdx.x * TILE; n < (int)blockIdx.x * TILE + count; n++) {
        const int y = n / grid * 2 + place / 2, x1 = n % grid * 2 + place % 2;
        const bool looked_at = n % step == 0, there = *score > 0.0f;
        float made[MIDDLE];
        if (looked_at && there) {
            const std::vector<float> token = floats_of(x + (long)n * WIDTH, WIDTH);
            for (int c = 0; c < MIDDLE; c++)
                made[c] = product<WIDTH>(token.data(), &first[c * WIDTH]) + bias1[c] + half(hr1, ((long)c * 2 * grid + y) * 2 * grid + x1);
            normalize(made, norm_weight, norm_bias, 1e-6f, MIDDLE, made);
            for (float& value : made) value = rounded(decoder::gelu(value));
        }
        for (int next = 0; next < 4; next++) {
            const long side = 4 * grid, at = (2 * y + next / 2) * side + 2 * x1 + next % 2;
            low[at] = there ? looked_at ? 0.0f : NAN : FAULT(decoder_fills_with_a_mask, -1024.0f, 1024.0f);
            for (int c = 0; c < NARROW && looked_at && there; c++)
                low[at] += vector[c] * decoder::gelu(product<MIDDLE>(made, &second[(next * NARROW + c) * MIDDLE]) + bias2[c] + half(hr0, c * side * side + at));
        }
    }
}
