/*!
The depthwise convolution of the memory encoder's blocks, and the accesses to memory that it shares
with what follows it (memory_encoder_convnext.cu).

A block has 4 rows of 8 pixels and all channels, since the norm sums over them; at 1024 pixels 128
blocks. The tile with three pixels around it, 70 KB, comes to shared memory row by row, and a row of
taps is summed as soon as the rows that it takes are there. A thread has two channels of a row's
eight pixels.

By count, of an H200 at 1024 pixels: 1600 instructions of each of 16 warps, 3.7 us (8.5 were
measured with empty caches), and 120 KB a block of pixels and taps, which come meanwhile. Other
blocks read what a block does: y is not x.

Needs arithmetic.cuh and attention.cuh in front.
*/
#pragma once

// ---- blocks ----

constexpr int WIDTH = 256;            // channels
constexpr u32 ROW = WIDTH * 2;        // bytes of a token
constexpr float BLOCK_EPSILON = 1e-6f;

constexpr int TAPS = 7, REACH = TAPS / 2;
// Pixels of a block.
constexpr int SPREAD_ROWS = 4, SPREAD_COLUMNS = 8;
constexpr int SPREAD_THREADS = SPREAD_ROWS * WIDTH / 2, SPREAD_WARPS = SPREAD_THREADS / 32;
// Pixels that these are made of.
constexpr int FROM_ROWS = SPREAD_ROWS + TAPS - 1, FROM_COLUMNS = SPREAD_COLUMNS + TAPS - 1;
constexpr int SPREAD_SHARED = FROM_ROWS * FROM_COLUMNS * ROW;
static_assert(FROM_COLUMNS <= SPREAD_WARPS, "a warp copies a column");
static_assert(SPREAD_ROWS * SPREAD_COLUMNS * WIDTH * 4 <= (TAPS - 1) * FROM_COLUMNS * ROW,
              "sums take the first rows' place");

/// What a launch of memory_encoder_dwconv7x7 is given.
struct SpreadProblem {
    const f16* x;         // [grid, grid, 256]
    const float* weight;  // [49, 256]
    const float *bias, *norm_weight, *norm_bias;
    f16* y;
    int grid;
};

class Spread {
    int warp, lane, row, channel;  // this thread's row of the tile, and the first of its channels
    int top, left;                 // of the tile
    u32 shared;

    /// Starts the copies of the pixels, a column a warp; zeros around the map. A group ends with
    /// the last row that one row of taps takes: the first has four rows.
    __device__ __forceinline__ void fetch(const SpreadProblem& p) const {
        if (warp >= FROM_COLUMNS) return;
        int x = left + warp - REACH, y = top - REACH;
        bool inside = (u32)x < (u32)p.grid;
        const f16* from = p.x + (y * p.grid + x) * WIDTH + lane * 8;
#pragma unroll
        for (int i = 0; i < FROM_ROWS; i++, from += p.grid * WIDTH) {
            bool there = inside && (u32)(y + i) < (u32)p.grid;
            copy16(shared + (i * FROM_COLUMNS + warp) * ROW + lane * 16, there ? from : p.x, there);
            if (i >= SPREAD_ROWS - 1) copies_commit();
        }
    }
    __device__ __forceinline__ static void load_taps(float2 (&to)[TAPS], const float* row_of) {
#pragma unroll
        for (int i = 0; i < TAPS; i++) to[i] = load_pair(row_of + i * WIDTH);
    }

    /// The sums of this thread's pixels.
    __device__ __forceinline__ void sum(const SpreadProblem& p, float2 (&sums)[SPREAD_COLUMNS]) const {
        float2 taps[TAPS], first = load_pair(p.bias + channel);
        const float* weight = p.weight + channel;
        load_taps(taps, weight);
        dependent_wait();
        dependent_launch();
        fetch(p);
#pragma unroll
        for (int i = 0; i < SPREAD_COLUMNS; i++) sums[i] = first;
        u32 from = shared + row * FROM_COLUMNS * ROW + channel * 2;
#pragma unroll 1
        for (int dy = 0; dy < TAPS; dy++) {
            float2 next[TAPS], pixels[FROM_COLUMNS];
            if (dy + 1 < TAPS) weight += TAPS * WIDTH;
            load_taps(next, weight);
            copies_wait<TAPS - 1>();
            block_barrier();
#pragma unroll
            for (int i = 0; i < FROM_COLUMNS; i++) pixels[i] = to_float2(shared_word(from + i * ROW));
#pragma unroll
            for (int dx = 0; dx < TAPS; dx++)
#pragma unroll
                for (int i = 0; i < SPREAD_COLUMNS; i++) {
                    sums[i].x = fmaf(pixels[i + dx].x, taps[dx].x, sums[i].x);
                    sums[i].y = fmaf(pixels[i + dx].y, taps[dx].y, sums[i].y);
                }
#pragma unroll
            for (int i = 0; i < TAPS; i++) taps[i] = next[i];
            from += FROM_COLUMNS * ROW;
            copies_commit();  // of nothing: so that the wait above counts
        }
    }

    /// The norm of a pixel whose sums are in shared memory: a lane has channels 4 lane to 4 lane +
    /// 3 of each half.
    __device__ __forceinline__ void normalize(const SpreadProblem& p, int pixel, const float4 (&weight)[2],
                                              const float4 (&bias)[2]) const {
        int y = top + pixel / SPREAD_COLUMNS, x = left + pixel % SPREAD_COLUMNS;
        float4 at[2];
        float mean = 0.0f, square = 0.0f;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            at[i] = load_shared_floats(shared + (pixel * WIDTH + i * (WIDTH / 2) + lane * 4) * 4);
            mean += (at[i].x + at[i].y) + (at[i].z + at[i].w);
        }
        mean = sum_of_lanes<1, 32>(mean);
        mean *= 1.0f / WIDTH;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            at[i].x -= mean, at[i].y -= mean, at[i].z -= mean, at[i].w -= mean;
            square += (at[i].x * at[i].x + at[i].y * at[i].y) + (at[i].z * at[i].z + at[i].w * at[i].w);
        }
        float scale = rsqrtf(sum_of_lanes<1, 32>(square) * (1.0f / WIDTH) + BLOCK_EPSILON);
        if (y >= p.grid || x >= p.grid) return;
#pragma unroll
        for (int i = 0; i < 2; i++)
            *(uint2*)(p.y + (y * p.grid + x) * WIDTH + i * (WIDTH / 2) + lane * 4) =
                make_uint2(to_f16x2(fmaf(at[i].x * scale, weight[i].x, bias[i].x),
                                    fmaf(at[i].y * scale, weight[i].y, bias[i].y)),
                           to_f16x2(fmaf(at[i].z * scale, weight[i].z, bias[i].z),
                                    fmaf(at[i].w * scale, weight[i].w, bias[i].w)));
    }

public:
    __device__ __forceinline__ void run(const SpreadProblem& p, u32 memory) {
        shared = memory, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
        row = threadIdx.x / (WIDTH / 2), channel = threadIdx.x % (WIDTH / 2) * 2;
        top = blockIdx.y * SPREAD_ROWS, left = blockIdx.x * SPREAD_COLUMNS;
        float2 sums[SPREAD_COLUMNS];
        sum(p, sums);
        float4 weight[2], bias[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            weight[i] = load_floats(p.norm_weight + i * (WIDTH / 2) + lane * 4);
            bias[i] = load_floats(p.norm_bias + i * (WIDTH / 2) + lane * 4);
        }
        // To the place of rows that the last row of taps does not take.
#pragma unroll
        for (int i = 0; i < SPREAD_COLUMNS; i++)
            store_shared_pair(shared + ((row * SPREAD_COLUMNS + i) * WIDTH + channel) * 4, sums[i]);
        block_barrier();
#pragma unroll
        for (int i = 0; i < SPREAD_ROWS * SPREAD_COLUMNS / SPREAD_WARPS; i++)
            normalize(p, i * SPREAD_WARPS + warp, weight, bias);
    }
};
