/*!
Squeeze-and-excite in each block of a launch (repvit_block.cu): a factor for each channel of y, from
sums of y over the map.

All weights are asked for at once. By count the slowest way from there is the sums', then two
products of a few numbers a thread.

Needs repvit.cuh in front.
*/
#pragma once

// ---- gate ----

/// What a launch is given for its gate.
struct GateProblem {
    const long long* sums;  // of y without its bias, [COPIES, C], or null: there is no gate
    const f16* squeeze;     // [SQUEEZED, C]
    const float* squeeze_bias;
    const f16* excite;      // [SQUEEZED, C], transposed
    const float* excite_bias;
};

template <int C, int THREADS>
struct Excite {
    static constexpr int SQUEEZED = (C / 4 + 4) / 8 * 8;  // a quarter of the columns, in eights
    static constexpr int PAIRS = C / 2, SHARERS = THREADS / PAIRS;  // threads with the same channels
    static constexpr int WARPS = THREADS / 32, OWN_ROWS = (SQUEEZED + WARPS - 1) / WARPS;
    static constexpr int WORDS = (PAIRS + 31) / 32, OWN_EXCITES = (SQUEEZED + SHARERS - 1) / SHARERS;
    // Bytes: means of all channels, the squeezed ones, parts of each channel's sum.
    static constexpr u32 SQUEEZES = C * 4, EXCITED = SQUEEZES + SQUEEZED * 4, BYTES = EXCITED + SHARERS * C * 4;
    int lane, channel;  // this thread's first channel
    u32 shared;
    u32 squeeze[OWN_ROWS][WORDS] = {}, excite[OWN_EXCITES] = {};
    float bias[OWN_ROWS] = {};

    __device__ __forceinline__ Excite(int lane, int channel, u32 shared)
        : lane(lane), channel(channel), shared(shared) {}

    /// Asks for all weights but the last bias: a warp has rows of the squeeze, and threads with the
    /// same channels a part of the excite each.
    __device__ __forceinline__ void load(const GateProblem& p) {
        int first = threadIdx.x >> 5, sharer = threadIdx.x / PAIRS;
#pragma unroll
        for (int i = 0; i < OWN_ROWS; i++) {
            int row = first + i * WARPS < SQUEEZED ? first + i * WARPS : 0;
            bias[i] = load_float(p.squeeze_bias + row);
#pragma unroll
            for (int j = 0; j < WORDS; j++) {
                squeeze[i][j] = 0;
                if (lane + j * 32 < PAIRS) squeeze[i][j] = load_word(p.squeeze + row * C + (lane + j * 32) * 2);
            }
        }
#pragma unroll
        for (int i = 0; i < OWN_EXCITES; i++) {
            int row = sharer + i * SHARERS;
            excite[i] = row < SQUEEZED ? load_word(p.excite + row * C + channel) : 0;
        }
    }

    /// The gate of this thread's channels; a thread has a channel's mean.
    __device__ __forceinline__ float2 gate(const GateProblem& p, const float* y_bias, int tokens) const {
        int first = threadIdx.x >> 5, sharer = threadIdx.x / PAIRS;
        float2 of = load_pair(p.excite_bias + channel);
        if (threadIdx.x < C) {
            long long sum = 0;
#pragma unroll
            for (int i = 0; i < COPIES; i++) sum += p.sums[i * C + threadIdx.x];
            store_shared_float(shared + threadIdx.x * 4,
                               (float)sum / (SUM_UNIT * (float)tokens) + y_bias[threadIdx.x]);
        }
        block_barrier();
#pragma unroll
        for (int i = 0; i < OWN_ROWS; i++) {
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < WORDS; j++) {
                int word = lane + j * 32 < PAIRS ? lane + j * 32 : 0;
                float2 weights = to_float2(squeeze[i][j]), means = load_shared_pair(shared + word * 8);
                sum = fmaf(weights.x, means.x, fmaf(weights.y, means.y, sum));
            }
#pragma unroll
            for (int mask = 1; mask < 32; mask *= 2) sum += from_lane(sum, mask);
            int row = first + i * WARPS;
            if (lane == 0 && row < SQUEEZED)
                store_shared_float(shared + SQUEEZES + row * 4, fmaxf(sum + bias[i], 0.0f));
        }
        block_barrier();
        float2 part = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int i = 0; i < OWN_EXCITES; i++) {
            int row = sharer + i * SHARERS < SQUEEZED ? sharer + i * SHARERS : 0;
            float2 weights = to_float2(excite[i]);
            float by = shared_float(shared + SQUEEZES + row * 4);
            part.x = fmaf(weights.x, by, part.x), part.y = fmaf(weights.y, by, part.y);
        }
        u32 parts = shared + EXCITED + channel * 4;
        store_shared_pair(parts + sharer * C * 4, part);
        block_barrier();
#pragma unroll
        for (int i = 0; i < SHARERS; i++) {
            float2 other = load_shared_pair(parts + i * C * 4);
            of.x += other.x, of.y += other.y;
        }
        return make_float2(1.0f / (1.0f + exponential(-of.x)), 1.0f / (1.0f + exponential(-of.y)));
    }
};
