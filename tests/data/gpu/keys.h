// What the memory attention's keys are, without their source: as attention.h for the attention. The source itself runs on the host in
// tests/emulate. Blocks and their tiles are the real kernel's. Of many keys every ((keys / 64) | 1)th and the pointers' are computed,
// which are those that the self-test looks at; the others become NaN.
#pragma once

namespace keys {

struct Arguments {
    const uint16_t* memories;
    const int* ages;
    const uint16_t* pointers;
    const float* times;
    const uint16_t* weight;
    const float* bias;
    const uint16_t *positions, *age_rows, *turns;
    const float *frequencies, *time_weight, *time_bias;
    uint16_t* out;
    int count, tokens, pointer_count;
};

inline float rounded(float x) { return host_halves()[host_half_bits(x)]; }

/// One key of a layer: row `row` of all, of x; `turns` null where nothing turns.
inline void key(const Arguments& a, const float* x, long row, const uint16_t* turns) {
    const float* half = host_halves();
    const long all = (long)a.count * a.tokens + 4 * a.pointer_count, layer = blockIdx.y;
    uint16_t* to = a.out + (layer * all + row) * 256;
    if (all > 1 << 10 && row % (all / 64 | 1) != 0 && row < (long)a.count * a.tokens) {
        for (int n = 0; n < 256; n++) to[n] = host_half_bits(NAN);
        return;
    }
    static float sums[256];  // too much for a fibre beside the rest
    for (int n = 0; n < 256; n++) {
        sums[n] = a.bias[layer * 256 + n];
        for (int i = 0; i < 64; i++) sums[n] += x[i] * half[a.weight[(layer * 256 + n) * 64 + i]];
    }
    for (int i = 0; i < 128; i++) {
        const float c = turns ? half[turns[2 * i]] : 1.0f, s = turns ? half[turns[2 * i + 1]] : 0.0f;
        to[i] = host_half_bits(sums[i] * c - sums[i + 128] * s);
        to[i + 128] = host_half_bits(sums[i] * s + sums[i + 128] * c);
    }
}

inline void place(const Arguments& a, int at) {
    const float* half = host_halves();
    for (int memory = 0; memory < a.count; memory++) {
        if (a.ages[memory] < 0 || a.ages[memory] >= a.count) emulation::fail("an age that has no row");
        const long row = (long)memory * a.tokens + at;
        float x[64];
        for (int i = 0; i < 64; i++) {
            const float added = rounded(half[a.positions[at * 64 + i]] + half[a.age_rows[a.ages[memory] * 64 + i]]);
            x[i] = rounded(half[a.memories[row * 64 + i]] + added);
        }
        key(a, x, row, a.turns + at * 256);
    }
}

inline void quarter(const Arguments& a, int at) {
    float x[64];
    for (int i = 0; i < 64; i++) {
        float time = 0.0f;
        if (a.times) {
            time = FAULT(keys_of_one_time, a.time_bias[i], 4.0f);
            for (int wave = 0; wave < 256; wave++) {
                const float angle = a.times[at / 4] * a.frequencies[wave % 128];
                time += (wave < 128 ? std::sin(angle) : std::cos(angle)) * a.time_weight[wave * 64 + i];
            }
        }
        x[i] = rounded(host_halves()[a.pointers[at * 64 + i]] + rounded(time));
    }
    key(a, x, (long)a.count * a.tokens + at, nullptr);
}

/// The first thread does the work of its block.
inline void run(const Arguments& a) {
    if (threadIdx.x != 0) return;
    const int quarters = 4 * a.pointer_count, of_pointers = (quarters + 15) / 16, all = of_pointers + (a.tokens + 15) / 16;
    for (int tile = (int)blockIdx.x; tile < all; tile += (int)gridDim.x)
        for (int row = 0; row < 16; row++) {
            const int at = (tile < of_pointers ? tile : tile - of_pointers) * 16 + row;
            if (tile < of_pointers && at < quarters) quarter(a, at);
            if (tile >= of_pointers && at < a.tokens) place(a, at);
        }
}

}  // namespace keys

void memory_keys(const uint16_t* memories, const int* ages, const uint16_t* pointers, const float* times, const uint16_t* weight,
                 const float* bias, const uint16_t* positions, const uint16_t* age_rows, const uint16_t* turns, const float* frequencies,
                 const float* time_weight, const float* time_bias, uint16_t* keys, int count, int tokens, int pointer_count) {
    keys::run({memories, ages, pointers, times, weight, bias, positions, age_rows, turns, frequencies, time_weight, time_bias, keys, count,
               tokens, pointer_count});
}
