/*!
Squeeze-and-excite in each block of a launch (repvit_block.cu): a factor for each channel of y, from
sums of y over the map.

All weights are asked for at once. By count the slowest way from there is the sums', then two
products of a few numbers a thread. A block that shares its tile with others (Team) squeezes a share
of the rows for all of them.

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

/// Of C columns, of which this block of a Team has its share, as of the squeezed ones.
template <class Team, int C, int THREADS>
struct Excite {
    static constexpr int SQUEEZED = (C / 4 + 4) / 8 * 8;  // a quarter of the columns, in eights
    static constexpr int OWN = C / Team::BLOCKS, OWN_SQUEEZED = SQUEEZED / Team::BLOCKS;
    static constexpr int PAIRS = C / 2, OWN_PAIRS = OWN / 2;
    static constexpr int SHARERS = THREADS / OWN_PAIRS;  // threads with the same channels
    static constexpr int WARPS = THREADS / 32, OWN_ROWS = (OWN_SQUEEZED + WARPS - 1) / WARPS;
    static_assert(SQUEEZED % Team::BLOCKS == 0, "a block squeezes as many as the others");
    static constexpr int WORDS = (PAIRS + 31) / 32, OWN_EXCITES = (SQUEEZED + SHARERS - 1) / SHARERS;
    // Bytes: means of all channels, the squeezed ones, parts of each own channel's sum.
    static constexpr u32 SQUEEZES = C * 4, EXCITED = SQUEEZES + SQUEEZED * 4;
    static constexpr u32 BYTES = EXCITED + SHARERS * OWN * 4;
    const Team& team;
    int lane, channel;  // this thread's first channel
    u32 shared;
    u32 squeeze[OWN_ROWS][WORDS] = {}, excite[OWN_EXCITES] = {};
    float bias[OWN_ROWS] = {};

    __device__ __forceinline__ Excite(const Team& team, int lane, int channel, u32 shared)
        : team(team), lane(lane), channel(channel), shared(shared) {}

    /// The i-th row of the squeeze that this warp has, and whether there is one.
    __device__ __forceinline__ int row_of(int i) const {
        return team.rank * OWN_SQUEEZED + (threadIdx.x >> 5) + i * WARPS;
    }
    __device__ __forceinline__ bool has(int i) const { return (threadIdx.x >> 5) + i * WARPS < OWN_SQUEEZED; }

    /// Asks for all weights but the last bias: a warp has rows of the squeeze, and threads with the
    /// same channels a part of the excite each.
    __device__ __forceinline__ void load(const GateProblem& p) {
        int sharer = threadIdx.x / OWN_PAIRS;
#pragma unroll
        for (int i = 0; i < OWN_ROWS; i++) {
            int row = has(i) ? row_of(i) : 0;
            bias[i] = load_float(p.squeeze_bias + row);
#pragma unroll
            for (int j = 0; j < WORDS; j++) {
                squeeze[i][j] = 0;
                int pair = lane + j * 32;
                if (pair < PAIRS) squeeze[i][j] = load_word(p.squeeze + row * C + pair * 2);
            }
        }
#pragma unroll
        for (int i = 0; i < OWN_EXCITES; i++) {
            int row = sharer + i * SHARERS;
            excite[i] = row < SQUEEZED ? load_word(p.excite + row * C + channel) : 0;
        }
    }

    /// The means of all channels: a thread has one or two.
    __device__ __forceinline__ void take_means(const GateProblem& p, const float* y_bias, int tokens) const {
#pragma unroll
        for (int first = 0; first < C; first += THREADS) {
            int at = first + threadIdx.x;
            if (at >= C) break;
            long long sum = 0;
#pragma unroll
            for (int i = 0; i < COPIES; i++) sum += p.sums[i * C + at];
            store_shared_float(shared + at * 4, (float)sum / (SUM_UNIT * (float)tokens) + y_bias[at]);
        }
    }

    /// Behind a barrier: a warp has rows of the squeeze.
    __device__ __forceinline__ void squeeze_means() const {
        float2 means[WORDS];
#pragma unroll
        for (int j = 0; j < WORDS; j++)
            means[j] = load_shared_pair(shared + (lane + j * 32 < PAIRS ? lane + j * 32 : 0) * 8);
#pragma unroll
        for (int i = 0; i < OWN_ROWS; i++) {
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < WORDS; j++) {
                float2 weights = to_float2(squeeze[i][j]);
                sum = fmaf(weights.x, means[j].x, fmaf(weights.y, means[j].y, sum));
            }
            sum = sum_of_lanes<1, 32>(sum);
            if (lane == 0 && has(i)) {
                u32 to = shared + SQUEEZES + row_of(i) * 4;
                float squeezed = fmaxf(sum + bias[i], 0.0f);
                store_shared_float(to, squeezed);
                team.send_float(to, squeezed);
            }
        }
    }

    /// The gate of this thread's channels, once all have squeezed.
    __device__ __forceinline__ float2 factors(const GateProblem& p) const {
        int sharer = threadIdx.x / OWN_PAIRS;
        float2 of = load_pair(p.excite_bias + channel), part = make_float2(0.0f, 0.0f);
        team.barrier();
#pragma unroll
        for (int i = 0; i < OWN_EXCITES; i++) {
            int row = sharer + i * SHARERS < SQUEEZED ? sharer + i * SHARERS : 0;
            float2 weights = to_float2(excite[i]);
            float by = load_shared_float(shared + SQUEEZES + row * 4);
            part.x = fmaf(weights.x, by, part.x), part.y = fmaf(weights.y, by, part.y);
        }
        u32 parts = shared + EXCITED + (channel - team.rank * OWN) * 4;
        store_shared_pair(parts + sharer * OWN * 4, part);
        block_barrier();
#pragma unroll
        for (int i = 0; i < SHARERS; i++) {
            float2 other = load_shared_pair(parts + i * OWN * 4);
            of.x += other.x, of.y += other.y;
        }
        return make_float2(1.0f / (1.0f + exponential(-of.x)), 1.0f / (1.0f + exponential(-of.y)));
    }
};
