// LayerNorm of rows, a warp for 1, 2 or 4 of them; and a prefetch of the next kernels' weights into
// the L2 cache.
#pragma once

namespace {

__device__ __forceinline__ float sum_of_warp(float value) {
#pragma unroll
    for (i32 mask = 16; mask > 0; mask /= 2) value += __shfl_xor_sync(0xffffffffu, value, mask);
    return value;
}

const float EPSILON = 1e-6f;
// Bytes of a prefetch.
const u32 LINE = 128;

// Prefetches data that the next kernels read for the first time into the L2 cache. `ahead` is a
// whole number of lines; it may lie anywhere, and nothing waits for it.
__device__ __forceinline__ void fetch_ahead(const unsigned char* __restrict__ ahead, i32 lines) {
    const u32 threads = gridDim.x * blockDim.x;
    for (u32 line = blockIdx.x * blockDim.x + threadIdx.x; line < (u32)lines; line += threads) {
#ifdef __CUDA_ARCH__
        asm volatile("prefetch.global.L2 [%0];" ::"l"(ahead + (u64)line * LINE));
#else
        // Reads what a GPU would prefetch, so that an address outside is found here.
        (void)*(volatile const unsigned char*)(ahead + (u64)line * LINE);
#endif
    }
}

// ROWS rows a warp, so that enough loads are in flight for short rows. A lane has every 32nd group
// of four columns, UNITS in all, in registers: the mean first, then the squares of what differs
// from it.
template <class Begin, i32 UNITS, i32 ROWS>
__device__ __forceinline__ void normalize_rows(const float* x, const float* __restrict__ weight,
                                               const float* __restrict__ bias, u16* __restrict__ out,
                                               i32 rows, i32 columns, const unsigned char* __restrict__ ahead,
                                               i32 lines) {
    const i32 lane = (i32)threadIdx.x & 31;
    const i32 first = (i32)(blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5)) * ROWS;
    if (Begin::EARLY) {
        // Weights, which nothing writes: they are prefetched while the previous kernel ends.
        fetch_ahead(ahead, lines);
        Begin::wait();
        if (first >= rows) return;
    } else if (first >= rows) {
        return fetch_ahead(ahead, lines);
    }
    const i32 units = columns >> 2;
    // Only the last unit of a lane may lie beyond the row.
    const bool last = lane + 32 * (UNITS - 1) < units;
    float4 values[ROWS][UNITS];
#pragma unroll
    for (i32 r = 0; r < ROWS; r++) {
        const float4* row = (const float4*)x + (u64)at_most(first + r, rows - 1) * units + lane;
#pragma unroll
        for (i32 j = 0; j < UNITS; j++) {
            values[r][j] = {0.0f, 0.0f, 0.0f, 0.0f};
            if (j < UNITS - 1 || last) values[r][j] = Begin::token(row + 32 * j);
        }
    }
    // After this warp's own loads.
    if (!Begin::EARLY) fetch_ahead(ahead, lines);
    const float share = 1.0f / (float)columns;
    float mean[ROWS], scale[ROWS];
#pragma unroll
    for (i32 r = 0; r < ROWS; r++) {
        float sum = 0.0f;
#pragma unroll
        for (i32 j = 0; j < UNITS; j++)
            sum += (values[r][j].x + values[r][j].y) + (values[r][j].z + values[r][j].w);
        mean[r] = sum_of_warp(sum) * share;
    }
#pragma unroll
    for (i32 r = 0; r < ROWS; r++) {
        float sum = 0.0f;
#pragma unroll
        for (i32 j = 0; j < UNITS; j++) {
            if (j < UNITS - 1 || last) {
                const float a = values[r][j].x - mean[r], b = values[r][j].y - mean[r];
                const float c = values[r][j].z - mean[r], d = values[r][j].w - mean[r];
                sum += (a * a + b * b) + (c * c + d * d);
            }
        }
        scale[r] = rsqrtf(sum_of_warp(sum) * share + EPSILON);
    }
#pragma unroll
    for (i32 j = 0; j < UNITS; j++) {
        if (j == UNITS - 1 && !last) break;
        const float4 w = ((const float4*)weight)[lane + 32 * j], b = ((const float4*)bias)[lane + 32 * j];
#pragma unroll
        for (i32 r = 0; r < ROWS; r++) {
            if (first + r >= rows) break;
            const float4 v = values[r][j];
            const float m = mean[r], s = scale[r];
            uint2 four;
            four.x = to_f16x2((v.x - m) * s * w.x + b.x, (v.y - m) * s * w.y + b.y);
            four.y = to_f16x2((v.z - m) * s * w.z + b.z, (v.w - m) * s * w.w + b.w);
            ((uint2*)out)[(u64)(first + r) * units + lane + 32 * j] = four;
        }
    }
}

// A row is up to MOST_UNITS units of UNIT_COLUMNS columns. A warp normalizes more than one short row
// at once, so that enough loads are in flight.
constexpr int UNIT_COLUMNS = 128, MOST_UNITS = 9;
constexpr int SHORT_UNITS = 1, SHORT_ROWS = 4;
constexpr int MEDIUM_UNITS = 3, MEDIUM_ROWS = 2;
__device__ constexpr int rows_of_a_warp(int units) {
    return units <= SHORT_UNITS ? SHORT_ROWS : units <= MEDIUM_UNITS ? MEDIUM_ROWS : 1;
}

// `out` f16 [rows, columns] of `x` f32, weight and bias f32 [columns]. A warp has 4, 2 or 1 rows
// (rows_of_a_warp in crates/kernels/src/hiera/kernels.rs); 1152 columns at most. `lines` lines of
// 128 bytes from `ahead` on are prefetched into the L2 cache. `Begin` defines whether it may begin
// before the previous kernel has ended, waits for that one, and loads its output.
template <class Begin>
__device__ __forceinline__ void normalize(const float* x, const float* __restrict__ weight,
                                          const float* __restrict__ bias, u16* __restrict__ out, i32 rows,
                                          i32 columns, const unsigned char* __restrict__ ahead, i32 lines) {
    switch ((columns + UNIT_COLUMNS - 1) / UNIT_COLUMNS) {
#define UNITS(N) \
    return normalize_rows<Begin, N, rows_of_a_warp(N)>(x, weight, bias, out, rows, columns, ahead, lines);
        case 1: UNITS(1)
        case 2: UNITS(2)
        case 3: UNITS(3)
        case 4: UNITS(4)
        case 5: UNITS(5)
        case 6: UNITS(6)
        case 7: UNITS(7)
        case 8: UNITS(8)
        case MOST_UNITS: UNITS(MOST_UNITS)
#undef UNITS
    }
}

}  // namespace
