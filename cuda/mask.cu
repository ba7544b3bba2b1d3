// Low-resolution logits to a bit-packed mask at the video's size, and what two such masks have in
// common.
//
// Of objects, rows and words of 64 pixels; sm 75 on.
//
// | kernel          | tile of a block     | threads | shared bytes |
// |-----------------|---------------------|---------|--------------|
// | mask_words      | 1 word, 32 rows     | 256     | 0            |
// | mask_boundaries | 256 words           | 256     | 24           |
// | mask_near       | 256 pixels of a row | 256     | 0            |
//
// A mask is rows of 64-bit words: bit x % 64 of word x / 64 is pixel x, and the bits past the width
// are zero (crates/vos/src/mask.rs). The counts are the integers from which crates/vos/src/metrics
// makes its scores.
#include "common.cuh"

namespace {

const i32 WARPS = 8, ROWS_PER_WARP = 4;
const u32 ALL_LANES = 0xffffffffu;
const float LARGEST = 3.402823466e38f;

// The two samples that an output position lies between, and their weights.
struct alignas(16) Tap {
    i32 first, second;
    float keep, weight;
};

// Word `index` of a row whose first and last pixel are repeated beyond its ends.
__device__ __forceinline__ u64 edged(const u64* row, i32 index, i32 width, i32 words) {
    if (index < 0) return row[0] << 63;
    u64 word = index < words ? row[index] : 0;
    if (index == width / 64) word |= (row[(width - 1) / 64] >> ((width - 1) % 64) & 1) << (width % 64);
    return word;
}

__device__ __forceinline__ u64 from_left(const u64 near[3]) { return near[1] << 1 | near[0] >> 63; }
__device__ __forceinline__ u64 from_right(const u64 near[3]) { return near[1] >> 1 | near[2] << 63; }

// 3 x 3 dilation minus 3 x 3 erosion.
__device__ __forceinline__ u64 gradient(const u64* mask, i32 index, i32 y, i32 width, i32 height, i32 words) {
    const u64* above = mask + at_least(y - 1, 0) * words;
    const u64* here = mask + y * words;
    const u64* below = mask + at_most(y + 1, height - 1) * words;
    u64 any[3], all[3];
#pragma unroll
    for (i32 i = 0; i < 3; ++i) {
        const u64 a = edged(above, index + i - 1, width, words), b = edged(here, index + i - 1, width, words),
                  c = edged(below, index + i - 1, width, words);
        any[i] = a | b | c;
        all[i] = a & b & c;
    }
    const u64 wide = any[1] | from_left(any) | from_right(any);
    const u64 narrow = all[1] & from_left(all) & from_right(all);
    return wide & ~narrow;
}

// Pixels that differ from their right, lower or lower right neighbour.
__device__ __forceinline__ u64 half_pixel(const u64* mask, i32 index, i32 y, i32 width, i32 height,
                                          i32 words) {
    const u64* rows[2] = {mask + y * words, mask + at_most(y + 1, height - 1) * words};
    u64 here[3], below[3];
#pragma unroll
    for (i32 i = 0; i < 3; ++i) {
        here[i] = edged(rows[0], index + i - 1, width, words);
        below[i] = edged(rows[1], index + i - 1, width, words);
    }
    return (here[1] ^ from_right(here)) | (here[1] ^ below[1]) | (here[1] ^ from_right(below));
}

// Whether a row has a pixel in [from, to], which lies inside the row.
__device__ __forceinline__ bool any_between(const u64* row, i32 from, i32 to) {
    for (i32 index = from / 64; index <= to / 64; ++index) {
        u64 word = row[index];
        if (index == from / 64) word &= ~0ull << (from % 64);
        if (index == to / 64) word &= ~0ull >> (63 - to % 64);
        if (word != 0) return true;
    }
    return false;
}

}  // namespace

// Bilinear in the order of Geometry::upsample: along x, then along y, each operation rounded. A
// warp makes a word of four rows; blockIdx.z is the object. What of its logits is no finite number
// is added to its counter: all of them are looked at, for a small mask is made of some alone, and a
// mask does not show which of its logits were numbers. Eight blocks of a multiprocessor, where that
// has room for so many threads: the count must not cost any.
extern "C" __global__ void __launch_bounds__(256, 8)
    mask_words(const float* __restrict__ low, u64* __restrict__ words, u32* __restrict__ non_finite,
               const Tap* __restrict__ columns, const Tap* __restrict__ rows, i32 low_side, i32 width,
               i32 height, i32 words_per_row) {
    const i32 lane = (i32)threadIdx.x % 32, warp = (i32)threadIdx.x / 32, word = (i32)blockIdx.x;
    const i32 count = low_side * low_side;
    const float* logits = low + (u64)blockIdx.z * (u64)count;
    u64* out = words + (u64)blockIdx.z * (u64)(height * words_per_row);
    const i32 x[2] = {word * 64 + lane, word * 64 + lane + 32};
    Tap column[2];
#pragma unroll
    for (i32 i = 0; i < 2; ++i) column[i] = columns[at_most(x[i], width - 1)];
    const i32 top = ((i32)blockIdx.y * WARPS + warp) * ROWS_PER_WARP;
    for (i32 y = top; y < top + ROWS_PER_WARP && y < height; ++y) {
        const Tap row = rows[y];
        const float* upper = logits + row.first * low_side;
        const float* lower = logits + row.second * low_side;
        u32 halves[2];
#pragma unroll
        for (i32 i = 0; i < 2; ++i) {
            const Tap tap = column[i];
            const float a = blend(tap.keep, upper[tap.first], tap.weight, upper[tap.second]);
            const float b = blend(tap.keep, lower[tap.first], tap.weight, lower[tap.second]);
            const bool on = x[i] < width && blend(row.keep, a, row.weight, b) > 0.0f;
            halves[i] = __ballot_sync(ALL_LANES, on);
        }
        if (lane == 0) out[y * words_per_row + word] = (u64)halves[0] | (u64)halves[1] << 32;
    }
    u32 found = 0;
    const i32 block = (i32)(blockIdx.y * gridDim.x + blockIdx.x),
              step = (i32)(gridDim.x * gridDim.y * blockDim.x);
    for (i32 i = block * (i32)blockDim.x + (i32)threadIdx.x; i < count; i += step)
        found += !(fabsf(logits[i]) <= LARGEST);
    if (found != 0) atomicAdd(&non_finite[blockIdx.z], found);
}

// Boundaries of two masks, and the first six counters: intersection, union, area of truth and
// prediction, boundary of truth and prediction. One thread a word; the counters start at zero.
extern "C" __global__ void __launch_bounds__(256)
    mask_boundaries(const u64* __restrict__ truth, const u64* __restrict__ prediction,
                    u64* __restrict__ truth_edge, u64* __restrict__ prediction_edge,
                    u32* __restrict__ counters, i32 width, i32 height, i32 words_per_row, i32 half_pixels) {
    __shared__ u32 counts[6];
    if (threadIdx.x < 6) counts[threadIdx.x] = 0;
    __syncthreads();
    const i32 at = (i32)(blockIdx.x * blockDim.x + threadIdx.x);
    if (at < height * words_per_row) {
        const i32 y = at / words_per_row, index = at % words_per_row;
        const u64 a = truth[at], b = prediction[at];
        u64 edge_a, edge_b;
        if (half_pixels) {
            edge_a = half_pixel(truth, index, y, width, height, words_per_row);
            edge_b = half_pixel(prediction, index, y, width, height, words_per_row);
        } else {
            edge_a = gradient(truth, index, y, width, height, words_per_row);
            edge_b = gradient(prediction, index, y, width, height, words_per_row);
        }
        // The bits past the width are no pixels.
        if (index == width / 64) {
            edge_a &= (1ull << (width % 64)) - 1;
            edge_b &= (1ull << (width % 64)) - 1;
        }
        truth_edge[at] = edge_a;
        prediction_edge[at] = edge_b;
        const u64 found[6] = {a & b, a | b, a, b, edge_a, edge_b};
#pragma unroll
        for (i32 i = 0; i < 6; ++i) {
            if (found[i] != 0) atomicAdd(&counts[i], (u32)__popcll(found[i]));
        }
    }
    __syncthreads();
    if (threadIdx.x < 6 && counts[threadIdx.x] != 0) atomicAdd(&counters[threadIdx.x], counts[threadIdx.x]);
}

// The last two counters: boundary pixels of the truth near the prediction's boundary (blockIdx.z
// 0), and the other way (1). Near is within an element whose half-width `dy` rows from its centre
// is half_widths[dy]. One thread a pixel.
extern "C" __global__ void __launch_bounds__(256)
    mask_near(const u64* __restrict__ truth_edge, const u64* __restrict__ prediction_edge,
              u32* __restrict__ counters, const i32* __restrict__ half_widths, i32 radius, i32 width,
              i32 height, i32 words_per_row) {
    const u64* of = blockIdx.z == 0 ? truth_edge : prediction_edge;
    const u64* others = blockIdx.z == 0 ? prediction_edge : truth_edge;
    const i32 x = (i32)(blockIdx.x * blockDim.x + threadIdx.x), y = (i32)blockIdx.y;
    bool near = false;
    if (x < width && (of[y * words_per_row + x / 64] >> (x % 64) & 1) != 0) {
        for (i32 dy = 0; dy <= radius && !near; ++dy) {
            const i32 from = at_least(x - half_widths[dy], 0), to = at_most(x + half_widths[dy], width - 1);
            if (y - dy >= 0) near = any_between(others + (y - dy) * words_per_row, from, to);
            if (y + dy < height) near = near || any_between(others + (y + dy) * words_per_row, from, to);
        }
    }
    const u32 lanes = __ballot_sync(ALL_LANES, near);
    if (threadIdx.x % 32 == 0 && lanes != 0) atomicAdd(&counters[6 + blockIdx.z], (u32)__popcll((u64)lanes));
}
