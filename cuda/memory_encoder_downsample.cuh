/*!
The third of the mask's convolutions (memory_encoder_mask.cu, whose head says how), and what it has
in common with the first two.
*/
#pragma once

// ---- attention ----

constexpr float NORM_EPSILON = 1e-6f;
// Pixels of a block's result, of both kernels: 16 are the rows of an `mma`.
constexpr int ACROSS = 16, DOWN = 8;

__device__ __forceinline__ int lane_of() { return threadIdx.x & 31; }

/// Everything a launch of memory_encoder_mask_downsample is given.
struct WidenProblem {
    const f16 *narrow, *weight;                   // [4g, 4g, 16], [64, 9, 16]
    const float *bias, *norm_weight, *norm_bias;  // [64]
    f16* wide;                                    // [2g, 2g, 64]
    int grid;
};

class Widen {
public:
    static constexpr int THREADS = 128;

private:
    // Of the result; of `narrow`, with the one above.
    static constexpr int CHANNELS = 64, ROWS = 2 * DOWN + 1;
    // Bytes of a pixel of `narrow`, of a tap's weights.
    static constexpr u32 PIXEL = 32, TAP = 32;
    // An odd number of units: eight rows' units are in eight places.
    static constexpr u32 WEIGHT_PITCH = 9 * TAP + 16;
    // Where `narrow` lies, behind the weights.
    static constexpr u32 TILE = CHANNELS * WEIGHT_PITCH;
    // Of its rows, with the column to the left.
    static constexpr u32 PITCH = (2 * ACROSS + 1) * PIXEL;
    // Of which odd columns lie behind the even ones.
    static constexpr u32 ODD = (ACROSS + 1) * PIXEL;
    // Threads that copy a row, but for that column; rows at a time.
    static constexpr int LINE = 4 * ACROSS, LINES = THREADS / LINE;
    static constexpr u32 VECTORS = TILE + ROWS * PITCH;

public:
    static constexpr u32 SHARED = VECTORS + 3 * CHANNELS * 4;

private:
    u32 shared;
    // Of two rows of pixels; at i, of channels 32 (i / 4) + 8 (lane % 4) + 2 (i % 4) and the next;
    // of pixel lane / 4, then of the eighth behind it.
    float sums[2][8][4];

    /// Where half of a pixel lies: halves change places with every fourth pixel, so that eight
    /// pixels' halves are in eight places.
    __device__ __forceinline__ static u32 half_at(int pixel, int half) {
        return pixel * PIXEL + (half ^ (pixel >> 2 & 1)) * 16;
    }

    /// Starts the copies of the rows FIRST, FIRST + 2, ... of the tile, but for its first column.
    /// Zeros around what is convolved.
    template <int FIRST>
    __device__ __forceinline__ void fetch_rows(const WidenProblem& p) const {
        int side = p.grid * 4, top = blockIdx.y * (2 * DOWN) - 1, line = threadIdx.x / LINE,
            half = threadIdx.x & 1;
        int column = (threadIdx.x % LINE >> 1) + 1, x = blockIdx.x * (2 * ACROSS) - 1 + column;
        u32 to = shared + TILE + (column & 1) * ODD + half_at(column >> 1, half);
#pragma unroll
        for (int i = 0; i < (ROWS - FIRST + 1) / 2; i += LINES) {
            int row = FIRST + 2 * (i + line), y = top + row;
            bool there = x < side && y >= 0 && y < side;
            const f16* from = p.narrow + (there ? (y * side + x) * 16 + half * 8 : 0);
            if (i + LINES <= (ROWS - FIRST + 1) / 2 || row < ROWS) copy16(to + row * PITCH, from, there);
        }
    }
    /// The same of the tile's first column, of all rows.
    __device__ __forceinline__ void fetch_column(const WidenProblem& p) const {
        int side = p.grid * 4, row = threadIdx.x >> 1, half = threadIdx.x & 1;
        int x = blockIdx.x * (2 * ACROSS) - 1, y = blockIdx.y * (2 * DOWN) - 1 + row;
        bool there = x >= 0 && y >= 0 && y < side;
        const f16* from = p.narrow + (there ? (y * side + x) * 16 + half * 8 : 0);
        if (row < ROWS) copy16(shared + TILE + row * PITCH + half_at(0, half), from, there);
    }
    /// Starts the copies of the weights of a row of the windows. Rows of weights lie in the order
    /// in which sums have channels.
    template <int ROW>
    __device__ __forceinline__ void fetch_weights(const WidenProblem& p) const {
        int channel = threadIdx.x >> 1,
            row = (channel & 32) + (channel & 6) * 4 + (channel >> 3 & 3) * 2 + (channel & 1);
        u32 to = shared + row * WEIGHT_PITCH + ROW * 3 * TAP + (threadIdx.x & 1) * 16;
        const f16* from = p.weight + channel * 144 + ROW * 48 + (threadIdx.x & 1) * 8;
#pragma unroll
        for (int i = 0; i < 3; i++) copy16(to + i * TAP, from + i * 16, true);
    }
    __device__ __forceinline__ void fetch_vectors(const WidenProblem& p) const {
        int vector = threadIdx.x >> 4, unit = threadIdx.x & 15;
        const float* from = vector == 0 ? p.bias : vector == 1 ? p.norm_weight : p.norm_bias;
        if (vector < 3) copy16(shared + VECTORS + threadIdx.x * 16, from + unit * 4, true);
    }

    /// This lane's 16 of a value for each channel.
    __device__ __forceinline__ void load_vector(float (&to)[16], int vector) const {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float4 four = load_shared_floats(shared + VECTORS + vector * (CHANNELS * 4) + (i >> 1) * 128 +
                                             (lane_of() & 3) * 32 + (i & 1) * 16);
            to[i * 4] = four.x, to[i * 4 + 1] = four.y, to[i * 4 + 2] = four.z, to[i * 4 + 3] = four.w;
        }
    }

    /// A row of the windows.
    template <int ROW>
    __device__ __forceinline__ void multiply() {
        int lane = lane_of(), pixel = lane & 15, half = lane >> 4;
        u32 rows = shared + TILE + ((threadIdx.x >> 5) * 4 + ROW) * PITCH;
        u32 weights =
            shared + ((lane >> 4) * 8 + (lane & 7)) * WEIGHT_PITCH + ROW * 3 * TAP + (lane >> 3 & 1) * 16;
#pragma unroll
        for (int dx = 0; dx < 3; dx++) {
            u32 a[2][4], b[4][4];
#pragma unroll
            for (int i = 0; i < 2; i++)
                load_matrices(a[i], rows + i * 2 * PITCH + (dx & 1) * ODD + half_at(pixel + (dx >> 1), half));
#pragma unroll
            for (int i = 0; i < 4; i++) load_matrices(b[i], weights + i * 16 * WEIGHT_PITCH + dx * TAP);
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int k = 0; k < 2; k++)
                    multiply_add(sums[k][i], a[k], b[i >> 1][(i & 1) * 2], b[i >> 1][(i & 1) * 2 + 1]);
        }
    }

    /// Subtracts the means of this lane's four pixels and finds their norms' factors: all at once,
    /// since a scheduler has one warp here and no other to fill its pauses.
    __device__ __forceinline__ void find_norms(float (&roots)[2][2]) {
        float means[2][2] = {}, squares[2][2] = {};
#pragma unroll
        for (int i = 0; i < 16; i++)
#pragma unroll
            for (int k = 0; k < 4; k++) means[k >> 1][k & 1] += sums[k >> 1][i >> 1][(k & 1) * 2 + (i & 1)];
#pragma unroll
        for (int k = 0; k < 4; k++)
            means[k >> 1][k & 1] = sum_of_lanes<1, 4>(means[k >> 1][k & 1]) * (1.0f / CHANNELS);
#pragma unroll
        for (int i = 0; i < 16; i++)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                float& x = sums[k >> 1][i >> 1][(k & 1) * 2 + (i & 1)];
                x -= means[k >> 1][k & 1];
                squares[k >> 1][k & 1] = fmaf(x, x, squares[k >> 1][k & 1]);
            }
#pragma unroll
        for (int k = 0; k < 4; k++)
            roots[k >> 1][k & 1] =
                reciprocal_root_ftz(fmaf(sum_of_lanes<1, 4>(squares[k >> 1][k & 1]), 1.0f / CHANNELS,
                                         NORM_EPSILON));
    }
    /// Norm, activation and store of a pixel.
    __device__ __forceinline__ void finish(const WidenProblem& p, const float (&weight)[16],
                                           const float (&bias)[16], float root, int row, int half) const {
        int side = p.grid * 2, y = blockIdx.y * DOWN + (threadIdx.x >> 5) * 2 + row,
            x = blockIdx.x * ACROSS + half * 8 + (lane_of() >> 2);
        u32 words[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float* of = &sums[row][i][half * 2];
            float first = fmaf(of[0] * root, weight[2 * i], bias[2 * i]),
                  second = fmaf(of[1] * root, weight[2 * i + 1], bias[2 * i + 1]);
            words[i] = to_f16x2(gelu(first), gelu(second));
        }
        if (x >= side || y >= side) return;
        uint4* to = (uint4*)(p.wide + (y * side + x) * CHANNELS) + (lane_of() & 3);
        to[0] = make_uint4(words[0], words[1], words[2], words[3]),
        to[4] = make_uint4(words[4], words[5], words[6], words[7]);
    }

public:
    __device__ __forceinline__ void run(const WidenProblem& p, u32 shared_base) {
        shared = shared_base;
        // The first row of windows is in even rows of the tile, the second in odd ones, the third
        // in even ones once more. A group of copies for each; the weights come before that.
        fetch_weights<0>(p), fetch_weights<1>(p), fetch_weights<2>(p), fetch_vectors(p);
        dependent_wait();
        dependent_launch();
        fetch_rows<0>(p), fetch_column(p);
        copies_commit();
        fetch_rows<1>(p);
        copies_commit();
        float weight[16], bias[16];
        copies_wait<1>();
        block_barrier();
        load_vector(bias, 0);
#pragma unroll
        for (int i = 0; i < 16; i++)
#pragma unroll
            for (int k = 0; k < 4; k++) sums[k >> 1][i >> 1][(k & 1) * 2 + (i & 1)] = bias[i];
        multiply<0>();
        copies_wait<0>();
        block_barrier();
        multiply<1>();
        multiply<2>();
        load_vector(weight, 1), load_vector(bias, 2);
        float roots[2][2];
        find_norms(roots);
#pragma unroll
        for (int i = 0; i < 4; i++) finish(p, weight, bias, roots[i >> 1][i & 1], i >> 1, i & 1);
    }
};
