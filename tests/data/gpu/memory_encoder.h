// What the memory encoder's kernels compute, without their sources: as attention.h for the attention. The sources themselves run on the host in
// tests/emulate. Each block does the share of the real kernel's; what is halves between the kernels, or as a factor in them, is here.
#pragma once

#include "decoder.h"

namespace memory_encoder {

constexpr int WIDTH = 256, DEPTH = 64, TAPS = 9, HIDDEN = 1024, LATENTS = 256, LATENT_HIDDEN = 256;
// Tiles: pixels or tokens along a row and rows; tokens; latents.
constexpr int MASK_ACROSS = 16, MASK_DOWN = 8, JOIN_ACROSS = 16, JOIN_DOWN = 2, SPREAD_ACROSS = 8, SPREAD_DOWN = 4, MIX_TILE = 32;
constexpr int ATTEND_TILE = 64, SPLIT = 128, LATENT_TILE = 8, WINDOW_TILE = 8;
constexpr unsigned MASK_THREADS = 192, WIDEN_THREADS = 128, JOIN_THREADS = 256, SPREAD_THREADS = 512, MIX_THREADS = 256;
constexpr unsigned ATTEND_THREADS = 256, LATENT_THREADS = 512, WINDOW_THREADS = 256;
constexpr float CHANNELS_EPSILON = 1e-6f, LATENTS_EPSILON = 1e-5f;

using decoder::expect, decoder::gelu, decoder::half, decoder::normalize, decoder::rounded;

/// To the nearest float of a half's eleven digits, as Veltkamp splits one: of a softmax's weights there are millions, and small ones do not count.
inline float share_rounded(float x) {
    const float large = x * 8193.0f;
    return large - (large - x);
}

// The first of a block's threads does its work, if the launch is divided so.
inline bool at_work(unsigned x, unsigned y, unsigned threads) {
    expect(gridDim.x == x && gridDim.y == y && gridDim.z == 1 && blockDim.x == threads);
    return threadIdx.x == 0;
}
inline unsigned tiles(int length, int tile) { return (unsigned)((length + tile - 1) / tile); }

// A weight or an image as floats, converted in the first block of a launch.
struct Floats {
    std::vector<float> values;
    const float* of(const uint16_t* from, uint64_t count) {
        if (blockIdx.x == 0 && blockIdx.y == 0) values = floats_of(from, count);
        return values.data();
    }
};

// A norm of `columns` columns.
struct Norm {
    const float *weight, *bias;
    float epsilon;
    void of(const float* x, int columns, float* out) const { normalize(x, weight, bias, epsilon, columns, out); }
    std::vector<float> halves(const float* x, int columns) const {
        std::vector<float> made(columns);
        of(x, columns, made.data());
        for (float& value : made) value = rounded(value);
        return made;
    }
};

/// `count` rows times a weight [out, columns]: a row of the weight stays at hand while all of them pass it.
inline std::vector<float> times(const float* x, long count, const float* weight, const float* bias, int columns, int out) {
    std::vector<float> made((size_t)count * out);
    for (int c = 0; c < out; c++)
        for (long n = 0; n < count; n++) made[n * out + c] = dot(x + n * columns, weight + (long)c * columns, 0, columns) + (bias ? bias[c] : 0.0f);
    return made;
}

/// x += down GELU(up y), row by row: hidden columns are halves.
inline void add_mlp(const float* y, long count, const float* up, const float* up_bias, const float* down, const float* down_bias, int columns, int hidden,
                    float* x) {
    std::vector<float> inner = times(y, count, up, up_bias, columns, hidden);
    for (float& value : inner) value = rounded(gelu(value));
    const std::vector<float> made = times(inner.data(), count, down, down_bias, hidden, columns);
    for (size_t i = 0; i < made.size(); i++) x[i] += FAULT(memory_mlp_has_the_wrong_sign, made[i], -made[i]);
}

/// x += weight y
inline void add_product(const float* y, const float* weight, float* x) {
    for (int c = 0; c < DEPTH; c++) x[c] += dot(y, weight + c * DEPTH, 0, DEPTH);
}

inline float high_at(const float* low, int side, int y, int x) {
    const auto place = [side](int at, int& first, int& second, float& share) {
        const float source = std::fmax((at + 0.5f) / 4.0f - 0.5f, 0.0f);
        first = (int)source, second = std::min(first + 1, side - 1), share = source - first;
    };
    int y0, y1, x0, x1;
    float down, right;
    place(y, y0, y1, down), place(x, x0, x1, right);
    const auto row = [=](int at) { return (1.0f - right) * low[(long)at * side + x0] + right * low[(long)at * side + x1]; };
    return (1.0f - down) * row(y0) + down * row(y1);
}

/// What lies under a pixel of a 3x3 convolution of stride 2, zeros around; `at(y, x)` gives a pixel's `in` channels.
template <class At> void under(At at, int side, int y, int x, int in, float* to) {
    for (int tap = 0; tap < TAPS; tap++, to += in) {
        const int v = 2 * y - 1 + tap / 3, u = 2 * x - 1 + tap % 3;
        if (v < 0 || u < 0 || v >= side || u >= side) std::fill(to, to + in, 0.0f);
        else std::copy(at(v, u), at(v, u) + in, to);
    }
}
/// A pixel of such a convolution. Weights are (out, tap, in).
template <class At> std::vector<float> convolve(At at, int side, int y, int x, const float* weight, const float* bias, int in, int out) {
    std::vector<float> patch(TAPS * in);
    under(at, side, y, x, in, patch.data());
    return times(patch.data(), 1, weight, bias, TAPS * in, out);
}
inline void activate(std::vector<float>& x, int columns, const Norm& norm) {
    for (size_t row = 0; row < x.size(); row += columns) norm.of(&x[row], columns, &x[row]);
    for (float& value : x) value = gelu(value);
}

struct Mixing {
    const uint16_t *y, *x, *up;
    const float* up_bias;
    const uint16_t* down;
    const float* down_bias;
    int tokens;
    /// Tokens of this block, as floats, behind the MLP.
    std::vector<float> made() const {
        static Floats ups, downs;
        const float *u = ups.of(up, HIDDEN * WIDTH), *d = downs.of(down, WIDTH * HIDDEN);
        const long first = (long)blockIdx.x * MIX_TILE, count = std::min((long)MIX_TILE, tokens - first);
        std::vector<float> sums = floats_of(x + first * WIDTH, count * WIDTH);
        const std::vector<float> rows = floats_of(y + first * WIDTH, count * WIDTH);
        add_mlp(rows.data(), count, u, up_bias, d, down_bias, WIDTH, HIDDEN, sums.data());
        return sums;
    }
};

}  // namespace memory_encoder

void memory_mask(const float* low, const float* binary, float scale, float offset, const float* weight1, const float* bias1, const float* norm1_weight,
                 const float* norm1_bias, const float* weight2, const float* bias2, const float* norm2_weight, const float* norm2_bias,
                 uint16_t* narrow, int grid) {
    using namespace memory_encoder;
    const int side = 4 * grid;
    if (!at_work(tiles(side, MASK_ACROSS), tiles(side, MASK_DOWN), MASK_THREADS)) return;
    const Norm norm1{norm1_weight, norm1_bias, CHANNELS_EPSILON}, norm2{norm2_weight, norm2_bias, CHANNELS_EPSILON};
    const int top = (int)blockIdx.y * MASK_DOWN, left = (int)blockIdx.x * MASK_ACROSS;
    // What this block's pixels read: the first convolution's, and the mask's under those.
    constexpr int ACROSS = 2 * MASK_ACROSS + 1, DOWN = 2 * MASK_DOWN + 1, WIDE = 2 * ACROSS + 1, HIGH = 2 * DOWN + 1;
    const int py = 2 * top - 1, px = 2 * left - 1, my = 2 * py - 1, mx = 2 * px - 1;
    std::vector<float> mask((size_t)HIGH * WIDE), pixels((size_t)DOWN * ACROSS * 4);
    for (int y = std::max(my, 0); y < std::min(my + HIGH, 4 * side); y++)
        for (int x = std::max(mx, 0); x < std::min(mx + WIDE, 4 * side); x++) {
            const float high = high_at(low, side, y, x);
            const float value = *binary > FAULT(memory_of_a_soft_mask, 0.5f, 1.5f) ? (float)(high > 0.0f) : 1.0f / (1.0f + std::exp(-high));
            mask[(size_t)(y - my) * WIDE + x - mx] = value * scale + offset;
        }
    for (int y = std::max(py, 0); y < std::min(py + DOWN, 2 * side); y++)
        for (int x = std::max(px, 0); x < std::min(px + ACROSS, 2 * side); x++) {
            const auto at = [&](int v, int u) { return &mask[(size_t)(v - my) * WIDE + u - mx]; };
            std::vector<float> made = convolve(at, 4 * side, y, x, weight1, bias1, 1, 4);
            activate(made, 4, norm1);
            std::copy(made.begin(), made.end(), &pixels[((size_t)(y - py) * ACROSS + x - px) * 4]);
        }
    for (int y = top; y < std::min(top + MASK_DOWN, side); y++)
        for (int x = left; x < std::min(left + MASK_ACROSS, side); x++) {
            const auto at = [&](int v, int u) { return &pixels[((size_t)(v - py) * ACROSS + u - px) * 4]; };
            std::vector<float> made = convolve(at, 2 * side, y, x, weight2, bias2, 4, 16);
            activate(made, 16, norm2);
            for (int c = 0; c < 16; c++) narrow[((long)y * side + x) * 16 + c] = host_half_bits(made[c]);
        }
}

void memory_widen(const uint16_t* narrow, const uint16_t* weight, const float* bias, const float* norm_weight, const float* norm_bias, uint16_t* wide,
                  int grid) {
    using namespace memory_encoder;
    const int side = 2 * grid;
    if (!at_work(tiles(side, MASK_ACROSS), tiles(side, MASK_DOWN), WIDEN_THREADS)) return;
    static Floats weights, pixels;
    const float *w = weights.of(weight, 64 * TAPS * 16), *from = pixels.of(narrow, 4L * side * side * 16);
    const auto at = [&](int v, int u) { return from + ((long)v * 2 * side + u) * 16; };
    const int top = (int)blockIdx.y * MASK_DOWN, left = (int)blockIdx.x * MASK_ACROSS;
    for (int y = top; y < std::min(top + MASK_DOWN, side); y++)
        for (int x = left; x < std::min(left + MASK_ACROSS, side); x++) {
            std::vector<float> made = convolve(at, 2 * side, y, x, w, bias, 16, 64);
            activate(made, 64, {norm_weight, norm_bias, CHANNELS_EPSILON});
            for (int c = 0; c < 64; c++) wide[((long)y * side + x) * 64 + c] = host_half_bits(made[c]);
        }
}

void memory_join(const uint16_t* wide, const uint16_t* weight, const float* bias, const float* norm_weight, const float* norm_bias,
                 const uint16_t* mask_weight, const uint16_t* feat, const uint16_t* feature_weight, const float* sum_bias, uint16_t* x, int grid) {
    using namespace memory_encoder;
    if (!at_work(tiles(grid, JOIN_ACROSS), tiles(grid, JOIN_DOWN), JOIN_THREADS)) return;
    static Floats weights, masks, features, pixels;
    const float *w = weights.of(weight, (uint64_t)WIDTH * TAPS * 64), *from = pixels.of(wide, 4L * grid * grid * 64);
    const float *m = masks.of(mask_weight, WIDTH * WIDTH), *f = features.of(feature_weight, WIDTH * WIDTH);
    const auto at = [&](int v, int u) { return from + ((long)v * 2 * grid + u) * 64; };
    std::vector<long> places;
    for (int row = (int)blockIdx.y * JOIN_DOWN; row < std::min(((int)blockIdx.y + 1) * JOIN_DOWN, grid); row++)
        for (int column = (int)blockIdx.x * JOIN_ACROSS; column < std::min(((int)blockIdx.x + 1) * JOIN_ACROSS, grid); column++)
            places.push_back((long)row * grid + column);
    const long count = (long)places.size();
    std::vector<float> patches(count * TAPS * 64), tokens(count * WIDTH);
    for (long n = 0; n < count; n++) {
        under(at, 2 * grid, (int)(places[n] / grid), (int)(places[n] % grid), 64, &patches[n * TAPS * 64]);
        for (long c = 0; c < WIDTH; c++) tokens[n * WIDTH + c] = half(feat, c * grid * grid + places[n]);
    }
    std::vector<float> hidden = times(patches.data(), count, w, bias, TAPS * 64, WIDTH);
    activate(hidden, WIDTH, {norm_weight, norm_bias, CHANNELS_EPSILON});
    for (float& value : hidden) value = rounded(value);
    const std::vector<float> of_mask = times(hidden.data(), count, m, sum_bias, WIDTH, WIDTH), of_features = times(tokens.data(), count, f, nullptr, WIDTH, WIDTH);
    for (long n = 0; n < count; n++)
        for (int c = 0; c < WIDTH; c++) x[places[n] * WIDTH + c] = host_half_bits(of_mask[n * WIDTH + c] + of_features[n * WIDTH + c]);
}

void memory_spread(const uint16_t* x, const float* weight, const float* bias, const float* norm_weight, const float* norm_bias, uint16_t* y, int grid) {
    using namespace memory_encoder;
    if (!at_work(tiles(grid, SPREAD_ACROSS), tiles(grid, SPREAD_DOWN), SPREAD_THREADS)) return;
    static Floats tokens;
    const float* from = tokens.of(x, (uint64_t)grid * grid * WIDTH);
    const int top = (int)blockIdx.y * SPREAD_DOWN, left = (int)blockIdx.x * SPREAD_ACROSS;
    for (int row = top; row < std::min(top + SPREAD_DOWN, grid); row++)
        for (int column = left; column < std::min(left + SPREAD_ACROSS, grid); column++) {
            std::vector<float> made(bias, bias + WIDTH);
            for (int tap = 0; tap < 49; tap++) {
                const long v = row - 3 + tap / 7, u = column - FAULT(memory_is_shifted_by_a_column, 3, 2) + tap % 7;
                if (v < 0 || u < 0 || v >= grid || u >= grid) continue;
                for (int c = 0; c < WIDTH; c++) made[c] += from[(v * grid + u) * WIDTH + c] * weight[tap * WIDTH + c];
            }
            normalize(made.data(), norm_weight, norm_bias, CHANNELS_EPSILON, WIDTH, made.data());
            for (int c = 0; c < WIDTH; c++) y[((long)row * grid + column) * WIDTH + c] = host_half_bits(made[c]);
        }
}

void memory_mix(const uint16_t* y, const uint16_t* x, const uint16_t* up, const float* up_bias, const uint16_t* down, const float* down_bias, uint16_t* out,
                int tokens) {
    using namespace memory_encoder;
    if (!at_work(tiles(tokens, MIX_TILE), 1, MIX_THREADS)) return;
    const std::vector<float> made = Mixing{y, x, up, up_bias, down, down_bias, tokens}.made();
    for (size_t i = 0; i < made.size(); i++) out[(size_t)blockIdx.x * MIX_TILE * WIDTH + i] = host_half_bits(made[i]);
}

void memory_last(const uint16_t* y, const uint16_t* x, const uint16_t* up, const float* up_bias, const uint16_t* down, const float* down_bias,
                 const uint16_t* out_weight, const float* out_bias, const float* score, const float* absent, uint16_t* memory, int tokens) {
    using namespace memory_encoder;
    if (!at_work(tiles(tokens, MIX_TILE), 1, MIX_THREADS)) return;
    static Floats weights;
    const float* w = weights.of(out_weight, DEPTH * WIDTH);
    std::vector<float> made = Mixing{y, x, up, up_bias, down, down_bias, tokens}.made();
    for (float& value : made) value = rounded(value);
    const std::vector<float> projected = times(made.data(), (long)made.size() / WIDTH, w, out_bias, WIDTH, DEPTH);
    for (size_t i = 0; i < projected.size(); i++)
        memory[(size_t)blockIdx.x * MIX_TILE * DEPTH + i] = host_half_bits(projected[i] + (FAULT(memory_of_score_0_is_present, score[0] <= 0.0f, score[0] < 0.0f) ? absent[i % DEPTH] : 0.0f));
}

void latents_attend(const uint16_t* memory, const float* norm_weight, const float* norm_bias, const uint16_t* kv, const uint16_t* positions,
                    const uint16_t* queries, float* sums, float* parts, int tokens) {
    using namespace memory_encoder;
    if (!at_work(LATENTS / ATTEND_TILE, tiles(tokens, SPLIT), ATTEND_THREADS)) return;
    const int first = (int)blockIdx.y * SPLIT, count = std::min(SPLIT, tokens - first), latent = (int)blockIdx.x * ATTEND_TILE;
    const std::vector<float> weight = floats_of(kv, 2 * DEPTH * DEPTH), asked = floats_of(queries + latent * DEPTH, ATTEND_TILE * DEPTH);
    // Keys and values, made by the first of a split's blocks.
    static std::vector<float> both[2];
    std::vector<float> scores(count);
    for (int part = 0; part < 2 && blockIdx.x == 0; part++) both[part].resize(count * DEPTH);
    for (int n = 0; n < count && blockIdx.x == 0; n++) {
        const std::vector<float> token = floats_of(memory + (first + n) * DEPTH, DEPTH);
        const std::vector<float> normed = Norm{norm_weight, norm_bias, LATENTS_EPSILON}.halves(token.data(), DEPTH);
        for (int part = 0; part < 2; part++)
            for (int c = 0; c < DEPTH; c++) {
                const float made = dot(normed.data(), &weight[(part * DEPTH + c) * DEPTH], 0, DEPTH);
                both[part][n * DEPTH + c] = rounded(made + half(positions, (first + n) * DEPTH + c));
            }
    }
    for (int at = 0; at < ATTEND_TILE; at++) {
        float most = -INFINITY, total = 0.0f, part[DEPTH] = {};
        for (int n = 0; n < count; n++) most = std::fmax(most, scores[n] = dot(&asked[at * DEPTH], &both[0][n * DEPTH], 0, DEPTH));
        for (int n = 0; n < count; n++) {
            const float share = std::exp(scores[n] - most);
            total += share;
            for (int c = 0; c < DEPTH; c++) part[c] += share_rounded(share) * both[1][n * DEPTH + c];
        }
        const long line = (long)blockIdx.y * LATENTS + latent + at;
        sums[line * 2] = most, sums[line * 2 + 1] = total;
        std::copy(part, part + DEPTH, parts + line * DEPTH);
    }
}

void latents_mix(const float* sums, const float* parts, int splits, const float* latents, const uint16_t* out, const float* ff_norm_weight,
                 const float* ff_norm_bias, const uint16_t* ff_up, const uint16_t* ff_down, const float* self_norm_weight, const float* self_norm_bias,
                 const uint16_t* self_qkv, float* mixed, uint16_t* qkv) {
    using namespace memory_encoder;
    if (!at_work(LATENTS / LATENT_TILE, 1, LATENT_THREADS)) return;
    const std::vector<float> o = floats_of(out, DEPTH * DEPTH), up = floats_of(ff_up, LATENT_HIDDEN * DEPTH), down = floats_of(ff_down, DEPTH * LATENT_HIDDEN);
    const std::vector<float> next = floats_of(self_qkv, 3 * DEPTH * DEPTH);
    const int first = (int)blockIdx.x * LATENT_TILE;
    for (long latent = first; latent < first + LATENT_TILE; latent++) {
        float most = -INFINITY, total = 0.0f, read[DEPTH] = {}, *row = mixed + latent * DEPTH;
        for (int s = 0; s < splits; s++) most = std::fmax(most, sums[(s * LATENTS + latent) * 2]);
        for (int s = 0; s < splits; s++) {
            const float scale = std::exp(sums[(s * LATENTS + latent) * 2] - most);
            total += FAULT(memory_forgets_the_splits_scale, scale, 1.0f) * sums[(s * LATENTS + latent) * 2 + 1];
            for (int c = 0; c < DEPTH; c++) read[c] += scale * parts[(s * LATENTS + latent) * DEPTH + c];
        }
        for (float& value : read) value = rounded(value / total);
        std::copy(latents + latent * DEPTH, latents + (latent + 1) * DEPTH, row);
        add_product(read, o.data(), row);
        const std::vector<float> inner = Norm{ff_norm_weight, ff_norm_bias, LATENTS_EPSILON}.halves(row, DEPTH);
        add_mlp(inner.data(), 1, up.data(), nullptr, down.data(), nullptr, DEPTH, LATENT_HIDDEN, row);
        const std::vector<float> normed = Norm{self_norm_weight, self_norm_bias, LATENTS_EPSILON}.halves(row, DEPTH);
        for (int c = 0; c < 3 * DEPTH; c++) qkv[latent * 3 * DEPTH + c] = host_half_bits(dot(normed.data(), &next[c * DEPTH], 0, DEPTH));
    }
}

void latents_self(const uint16_t* qkv, const float* mixed, const uint16_t* out, const float* ff_norm_weight, const float* ff_norm_bias, const uint16_t* ff_up,
                  const uint16_t* ff_down, const float* next_norm_weight, const float* next_norm_bias, const uint16_t* next_query, float* latents,
                  uint16_t* result) {
    using namespace memory_encoder;
    if (!at_work(LATENTS / LATENT_TILE, 1, LATENT_THREADS)) return;
    const std::vector<float> o = floats_of(out, DEPTH * DEPTH), up = floats_of(ff_up, LATENT_HIDDEN * DEPTH), down = floats_of(ff_down, DEPTH * LATENT_HIDDEN);
    const std::vector<float> all = floats_of(qkv, LATENTS * 3 * DEPTH), query = next_query ? floats_of(next_query, DEPTH * DEPTH) : std::vector<float>();
    const int first = (int)blockIdx.x * LATENT_TILE;
    for (long latent = first; latent < first + LATENT_TILE; latent++) {
        float scores[LATENTS], most = -INFINITY, total = 0.0f, read[DEPTH] = {}, *row = latents + latent * DEPTH;
        for (int n = 0; n < LATENTS; n++) most = std::fmax(most, scores[n] = dot(&all[latent * 3 * DEPTH], &all[n * 3 * DEPTH + DEPTH], 0, DEPTH));
        for (int n = 0; n < LATENTS; n++) {
            const float share = std::exp(scores[n] - most);
            total += share;
            for (int c = 0; c < DEPTH; c++) read[c] += share_rounded(share) * all[n * 3 * DEPTH + 2 * DEPTH + c];
        }
        for (float& value : read) value = rounded(value / total);
        std::copy(mixed + latent * DEPTH, mixed + (latent + 1) * DEPTH, row);
        add_product(read, o.data(), row);
        const std::vector<float> inner = Norm{ff_norm_weight, ff_norm_bias, LATENTS_EPSILON}.halves(row, DEPTH);
        add_mlp(inner.data(), 1, up.data(), nullptr, down.data(), nullptr, DEPTH, LATENT_HIDDEN, row);
        const std::vector<float> normed = Norm{next_norm_weight, next_norm_bias, LATENTS_EPSILON}.halves(row, DEPTH);
        for (int c = 0; c < DEPTH; c++)
            result[latent * DEPTH + c] = host_half_bits(next_query ? dot(normed.data(), &query[c * DEPTH], 0, DEPTH) : normed[c]);
    }
}

void latents_windows(const uint16_t* memory, const float* latents, const uint16_t* halves, const float* floats, uint16_t* result, int grid) {
    using namespace memory_encoder;
    if (!at_work(LATENTS / WINDOW_TILE, 1, WINDOW_THREADS)) return;
    constexpr int SQUARE = DEPTH * DEPTH, MLP = LATENT_HIDDEN * DEPTH, LAYER = 3 * SQUARE + 4 * MLP, NORMS = 5;
    static Floats weights;
    const float* w = weights.of(halves, 2 * LAYER);
    const auto norm = [&](int at) { return Norm{floats + at * 2 * DEPTH, floats + (at * 2 + 1) * DEPTH, LATENTS_EPSILON}; };
    const int first = (int)blockIdx.x * WINDOW_TILE, window = grid / 16;
    for (int latent = first; latent < first + WINDOW_TILE; latent++) {
        std::vector<float> row(latents + latent * DEPTH, latents + (latent + 1) * DEPTH), normed;
        for (int layer = 0; layer < 2; layer++) {
            const float *ask = w + layer * LAYER, *answer = ask + SQUARE, *up = answer + SQUARE, *down = up + MLP;
            const float *alone = down + MLP, *self_up = alone + SQUARE, *self_down = self_up + MLP;
            normed = norm(layer * NORMS + 1).halves(row.data(), DEPTH);
            float asked[DEPTH] = {}, read[DEPTH] = {}, most = -INFINITY, total = 0.0f;
            add_product(normed.data(), ask, asked);
            std::vector<std::vector<float>> tokens;
            std::vector<float> scores;
            for (int n = 0; n < window * window; n++) {
                const long y = FAULT(memory_windows_in_the_wrong_order, latent / 16, latent % 16) * window + n / window, x = latent % 16 * window + n % window;
                const std::vector<float> token = floats_of(memory + (y * grid + x) * DEPTH, DEPTH);
                tokens.push_back(norm(layer * NORMS).halves(token.data(), DEPTH));
                scores.push_back(dot(asked, tokens.back().data(), 0, DEPTH));
                most = std::fmax(most, scores.back());
            }
            for (float& score : scores) total += score = std::exp(score - most);
            for (size_t n = 0; n < scores.size(); n++)
                for (int c = 0; c < DEPTH; c++) read[c] += scores[n] / total * tokens[n][c];
            for (float& value : read) value = rounded(value);
            add_product(read, answer, row.data());
            normed = norm(layer * NORMS + 2).halves(row.data(), DEPTH);
            add_mlp(normed.data(), 1, up, nullptr, down, nullptr, DEPTH, LATENT_HIDDEN, row.data());
            normed = norm(layer * NORMS + 3).halves(row.data(), DEPTH);
            add_product(normed.data(), alone, row.data());
            normed = norm(layer * NORMS + 4).halves(row.data(), DEPTH);
            add_mlp(normed.data(), 1, self_up, nullptr, self_down, nullptr, DEPTH, LATENT_HIDDEN, row.data());
        }
        normed = norm(2 * NORMS).halves(row.data(), DEPTH);
        for (int c = 0; c < DEPTH; c++) result[latent * DEPTH + c] = host_half_bits(normed[c]);
    }
}
