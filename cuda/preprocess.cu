// A decoded frame to the network's input: resized, padded, normalised, planar, in one launch.
//
// Outputs of 3 channels; sm 75 on. Shared memory and registers: f16, f32.
//
// | kernel               | tile    | threads | input at a time | shared bytes  |
// |----------------------|---------|---------|-----------------|---------------|
// | preprocess_bicubic_* | 64 x 16 | 256     | 32 rows         | 9 728, 11 264 |
// | preprocess_tiles_f16 | 64 x 32 | 256     | all             | 34 880        |
// | preprocess_columns_* | 64 x 16 | 256     | 64 columns      | 5 632, 7 168  |
// | preprocess_linear_*  | 64 x 16 | 256     | 32 rows         | 24 576        |
// | frame_fetch          |         | 256     | 16 KB           | none          |
//
// A block makes a tile of 64 x 16 outputs. It resizes the input rows that the tile needs along x into
// shared memory, a few rows at a time, and adds them up along y in registers: any support fits,
// whatever the sizes. Where the reference resizes the columns first, x and y change places. The tables
// (first input position and weights of each output position) come from the host code that is the
// reference.
//
//   bicubic   Pillow's: 22-bit fixed-point weights, each pass rounded to bytes, then the value of each
//             byte looked up.
//   tiles     the same, where a tile's input fits into shared memory (preprocess_tiles.cuh).
//   columns   the same with the columns first, which gives other bytes.
//   linear    float weights in the reference's order of operations: torchvision's antialiased
//             bilinear, or the plain one.
#include "common.cuh"
#include "preprocess.cuh"
#include "preprocess_tiles.cuh"

namespace {

struct alignas(16) Unit {
    u32 words[4];
};
constexpr i32 FETCHED = 4;  // units of a thread

// Two rows at once, so that each weight is read once for both. Weights are padded with zeros to
// groups of four.
__device__ __forceinline__ void resize_two_rows(const u32* frame, i32 frame_bytes, const i32 starts[2],
                                                const Weights4* weights, i32 stride, i32 groups, u32 out[2]) {
    i32 sums[2][3], word[2], shift[2];
    u32 held[2];
#pragma unroll
    for (i32 r = 0; r < 2; ++r) {
        sums[r][0] = sums[r][1] = sums[r][2] = HALF;
        word[r] = starts[r] / 4;
        shift[r] = 8 * (starts[r] % 4);
        held[r] = frame_word(frame, word[r], frame_bytes);
    }
    for (i32 group = 0; group < groups; ++group) {
        const Weights4 four = weights[group * stride];
#pragma unroll
        for (i32 r = 0; r < 2; ++r) {
            u32 a = frame_word(frame, word[r] + 1, frame_bytes);
            u32 b = frame_word(frame, word[r] + 2, frame_bytes);
            u32 c = frame_word(frame, word[r] + 3, frame_bytes);
            // Twelve bytes, four pixels, from any byte on.
            u32 p = __funnelshift_r(held[r], a, shift[r]);
            u32 q = __funnelshift_r(a, b, shift[r]);
            u32 s = __funnelshift_r(b, c, shift[r]);
            held[r] = c;
            word[r] += 3;
            sums[r][0] += byte_of(p, 0) * four.w[0] + byte_of(p, 3) * four.w[1] + byte_of(q, 2) * four.w[2] +
                          byte_of(s, 1) * four.w[3];
            sums[r][1] += byte_of(p, 1) * four.w[0] + byte_of(q, 0) * four.w[1] + byte_of(q, 3) * four.w[2] +
                          byte_of(s, 2) * four.w[3];
            sums[r][2] += byte_of(p, 2) * four.w[0] + byte_of(q, 1) * four.w[1] + byte_of(s, 0) * four.w[2] +
                          byte_of(s, 3) * four.w[3];
        }
    }
#pragma unroll
    for (i32 r = 0; r < 2; ++r)
        out[r] = to_byte(sums[r][0]) | to_byte(sums[r][1]) << 8 | to_byte(sums[r][2]) << 16;
}

template <class T>
__device__ __forceinline__ void bicubic(const u32* __restrict__ frame, T* __restrict__ image,
                                        const T* __restrict__ values, const i32* __restrict__ first_x,
                                        const Weights4* __restrict__ weights_x, i32 groups_x,
                                        const i32* __restrict__ first_y, const i32* __restrict__ count_y,
                                        const i32* __restrict__ weights_y, i32 longest_y, Place place) {
    // One word a pixel: red, green, blue, nothing.
    alignas(8) __shared__ u32 rows[CHUNK][TILE_X];
    __shared__ T lookup[3 * 256];
    const i32 thread = (i32)threadIdx.x;
    for (i32 i = thread; i < 3 * 256; i += THREADS) lookup[i] = values[i];

    const i32 left = (i32)blockIdx.x * TILE_X, top = (i32)blockIdx.y * TILE_Y;
    const i32 frame_bytes = 3 * place.width * place.height;
    const i32 column = thread % TILE_X, source_x = left + column - place.x;
    const bool shows = source_x >= 0 && source_x < place.content_width;
    const i32 x = 2 * (thread % 32), lane_row = thread / 32;

    i32 sums[2][2][3];
#pragma unroll
    for (i32 i = 0; i < 12; ++i) sums[i / 6][i / 3 % 2][i % 3] = HALF;
    i32 begin, end;
    inputs_of_tile(top, TILE_Y, place.y, place.content_height, first_y, count_y, &begin, &end);
    for (i32 chunk = begin; chunk < end; chunk += CHUNK) {
        const i32 height = at_most(CHUNK, end - chunk);
        for (i32 row = 2 * (thread / TILE_X); row < height; row += 2 * (THREADS / TILE_X)) {
            u32 pixels[2] = {0, 0};
            if (shows) {
                const i32 start = 3 * ((chunk + row) * place.width + first_x[source_x]);
                const i32 starts[2] = {start, start + 3 * place.width};
                resize_two_rows(frame, frame_bytes, starts, weights_x + source_x, place.content_width,
                                groups_x, pixels);
            }
            rows[row][column] = pixels[0];
            rows[row + 1][column] = pixels[1];
        }
        __syncthreads();
#pragma unroll
        for (i32 r = 0; r < 2; ++r) {
            const i32 y = top + lane_row + 8 * r - place.y;
            if (y < 0 || y >= place.content_height) continue;
            const i32 first = first_y[y];
            const i32 from = at_least(first, chunk), to = at_most(first + count_y[y], chunk + height);
            for (i32 row = from; row < to; ++row) {
                const i32 weight = weights_y[y * longest_y + row - first];
                const u32 a = rows[row - chunk][x], b = rows[row - chunk][x + 1];
#pragma unroll
                for (i32 c = 0; c < 3; ++c) {
                    sums[r][0][c] += byte_of(a, c) * weight;
                    sums[r][1][c] += byte_of(b, c) * weight;
                }
            }
        }
        __syncthreads();
    }
    // Where a tile has no rows, nothing has waited for the lookup table yet.
    if (begin >= end) __syncthreads();
    store_values(image, lookup, sums, left + x, top + lane_row, place);
}

// Four pixels of one row of the frame resized along y, the first of them at byte `start` of its
// uppermost row.
__device__ __forceinline__ Pixels4 resize_columns(const u32* frame, i32 frame_bytes, i32 start, i32 stride,
                                                  const i32* weights, i32 count) {
    i32 sums[3 * PIXELS];
#pragma unroll
    for (i32 i = 0; i < 3 * PIXELS; ++i) sums[i] = HALF;
    for (i32 tap = 0; tap < count; ++tap) {
        const i32 at = start + tap * stride, weight = weights[tap], shift = 8 * (at % 4);
        u32 word = frame_word<4>(frame, at / 4, frame_bytes);
#pragma unroll
        for (i32 i = 0; i < 3; ++i) {
            const u32 next = frame_word<4>(frame, at / 4 + i + 1, frame_bytes);
            const u32 four = __funnelshift_r(word, next, shift);
            word = next;
#pragma unroll
            for (i32 b = 0; b < 4; ++b) sums[4 * i + b] += byte_of(four, b) * weight;
        }
    }
    Pixels4 out;
#pragma unroll
    for (i32 i = 0; i < PIXELS; ++i)
        out.p[i] = to_byte(sums[3 * i]) | to_byte(sums[3 * i + 1]) << 8 | to_byte(sums[3 * i + 2]) << 16;
    return out;
}

template <class T>
__device__ __forceinline__ void columns_first(const u32* __restrict__ frame, T* __restrict__ image,
                                              const T* __restrict__ values, const i32* __restrict__ first_x,
                                              const i32* __restrict__ count_x,
                                              const i32* __restrict__ weights_x,
                                              const i32* __restrict__ first_y,
                                              const i32* __restrict__ count_y,
                                              const i32* __restrict__ weights_y, i32 longest_y, Place place) {
    __shared__ Pixels4 pixels[TILE_Y][WIDE / PIXELS];
    __shared__ T lookup[3 * 256];
    const i32 thread = (i32)threadIdx.x;
    for (i32 i = thread; i < 3 * 256; i += THREADS) lookup[i] = values[i];

    const i32 left = (i32)blockIdx.x * TILE_X, top = (i32)blockIdx.y * TILE_Y;
    const i32 frame_bytes = 3 * place.width * place.height;
    // The pixels that the thread makes in the first pass, and the outputs that it adds up in the
    // second.
    const i32 group = thread % (WIDE / PIXELS), row = thread / (WIDE / PIXELS),
              source_y = top + row - place.y;
    const bool shows = source_y >= 0 && source_y < place.content_height;
    const i32 x = 2 * (thread % 32), lane_row = thread / 32;

    i32 sums[2][2][3];
#pragma unroll
    for (i32 i = 0; i < 12; ++i) sums[i / 6][i / 3 % 2][i % 3] = HALF;
    i32 begin, end;
    inputs_of_tile(left, TILE_X, place.x, place.content_width, first_x, count_x, &begin, &end);
    for (i32 chunk = begin; chunk < end; chunk += WIDE) {
        const i32 width = at_most(WIDE, end - chunk);
        if (shows && PIXELS * group < width) {
            const i32 start = 3 * (first_y[source_y] * place.width + chunk + PIXELS * group);
            pixels[row][group] = resize_columns(frame, frame_bytes, start, 3 * place.width,
                                                weights_y + source_y * longest_y, count_y[source_y]);
        }
        __syncthreads();
#pragma unroll
        for (i32 i = 0; i < 2; ++i) {
            const i32 at = left + x + i - place.x;
            if (at < 0 || at >= place.content_width) continue;
            const i32 first = first_x[at];
            const i32 from = at_least(first, chunk), to = at_most(first + count_x[at], chunk + width);
            for (i32 column = from; column < to; ++column) {
                const i32 weight = weights_x[(column - first) * place.content_width + at],
                          seen = column - chunk;
#pragma unroll
                for (i32 r = 0; r < 2; ++r) {
                    const u32 pixel = pixels[lane_row + 8 * r][seen / PIXELS].p[seen % PIXELS];
#pragma unroll
                    for (i32 c = 0; c < 3; ++c) sums[r][i][c] += byte_of(pixel, c) * weight;
                }
            }
        }
        __syncthreads();
    }
    // Where a tile has no columns, nothing has waited for the lookup table yet.
    if (begin >= end) __syncthreads();
    store_values(image, lookup, sums, left + x, top + lane_row, place);
}

// byte / 255, correctly rounded: the product is corrected by its exact remainder.
__device__ __forceinline__ float unit(u32 byte) {
    const float value = (float)byte, inverse = 1.0f / 255.0f;
    const float product = __fmul_rn(value, inverse);
    return __fmaf_rn(__fmaf_rn(-product, 255.0f, value), inverse, product);
}

__device__ __forceinline__ u16 as_element(float value, u16) { return half_bits(value); }
__device__ __forceinline__ u32 as_element(float value, u32) { return __float_as_uint(value); }

template <class T>
__device__ __forceinline__ void linear(const u8* __restrict__ frame, T* __restrict__ image,
                                       const i32* __restrict__ first_x, const i32* __restrict__ count_x,
                                       const float* __restrict__ weights_x, const i32* __restrict__ first_y,
                                       const i32* __restrict__ count_y, const float* __restrict__ weights_y,
                                       i32 longest_y, const float* __restrict__ mean_std, Place place) {
    __shared__ float rows[3][CHUNK][TILE_X];
    const i32 thread = (i32)threadIdx.x;
    const i32 left = (i32)blockIdx.x * TILE_X, top = (i32)blockIdx.y * TILE_Y;
    const i32 column = thread % TILE_X, source_x = left + column - place.x;
    const bool shows = source_x >= 0 && source_x < place.content_width;
    const i32 x = 2 * (thread % 32), lane_row = thread / 32;

    float sums[2][2][3];
#pragma unroll
    for (i32 i = 0; i < 12; ++i) sums[i / 6][i / 3 % 2][i % 3] = 0.0f;
    i32 begin, end;
    inputs_of_tile(top, TILE_Y, place.y, place.content_height, first_y, count_y, &begin, &end);
    for (i32 chunk = begin; chunk < end; chunk += CHUNK) {
        const i32 height = at_most(CHUNK, end - chunk);
        for (i32 row = thread / TILE_X; row < height; row += THREADS / TILE_X) {
            float sum[3] = {0.0f, 0.0f, 0.0f};
            if (shows) {
                const u8* pixel = frame + 3 * ((chunk + row) * place.width + first_x[source_x]);
                const float* weight = weights_x + source_x;
                for (i32 tap = 0; tap < count_x[source_x]; ++tap) {
#pragma unroll
                    for (i32 c = 0; c < 3; ++c)
                        sum[c] = __fadd_rn(sum[c], __fmul_rn(*weight, unit(pixel[c])));
                    pixel += 3;
                    weight += place.content_width;
                }
            }
#pragma unroll
            for (i32 c = 0; c < 3; ++c) rows[c][row][column] = sum[c];
        }
        __syncthreads();
#pragma unroll
        for (i32 r = 0; r < 2; ++r) {
            const i32 y = top + lane_row + 8 * r - place.y;
            if (y < 0 || y >= place.content_height) continue;
            const i32 first = first_y[y];
            const i32 from = at_least(first, chunk), to = at_most(first + count_y[y], chunk + height);
            for (i32 row = from; row < to; ++row) {
                const float weight = weights_y[y * longest_y + row - first];
#pragma unroll
                for (i32 c = 0; c < 3; ++c) {
                    sums[r][0][c] = __fadd_rn(sums[r][0][c], __fmul_rn(weight, rows[c][row - chunk][x]));
                    sums[r][1][c] = __fadd_rn(sums[r][1][c], __fmul_rn(weight, rows[c][row - chunk][x + 1]));
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (i32 r = 0; r < 2; ++r) {
        const i32 y = top + lane_row + 8 * r;
        if (y >= place.side || left + x >= place.side) continue;
#pragma unroll
        for (i32 c = 0; c < 3; ++c) {
            const float mean = mean_std[c], deviation = mean_std[3 + c];
            // Outside the content nothing was added up: black.
            const T a = as_element(__fdiv_rn(__fsub_rn(sums[r][0][c], mean), deviation), T());
            const T b = as_element(__fdiv_rn(__fsub_rn(sums[r][1][c], mean), deviation), T());
            store_pair(image + ((u64)c * (u64)place.side + (u64)y) * (u64)place.side, left + x, place.side, a,
                       b);
        }
    }
}

}  // namespace

// Of four blocks on a multiprocessor: with no such number ptxas spills on sm 80 for a fifth.
#define BICUBIC(NAME, T)                                                                                     \
    extern "C" __global__ void __launch_bounds__(256, 4)                                                     \
        NAME(const u32* frame, T* image, const T* values, const i32* first_x, const Weights4* weights_x,     \
             i32 groups_x, const i32* first_y, const i32* count_y, const i32* weights_y, i32 longest_y,      \
             i32 width, i32 height, i32 side, i32 x, i32 y, i32 content_width, i32 content_height) {         \
        const Place place = {width, height, side, x, y, content_width, content_height};                      \
        bicubic<T>(frame, image, values, first_x, weights_x, groups_x, first_y, count_y, weights_y,          \
                   longest_y, place);                                                                        \
    }
BICUBIC(preprocess_bicubic_f16, u16)
BICUBIC(preprocess_bicubic_f32, u32)

// A frame out of pinned host memory, which the device reads over its bus, to device memory. Reads of
// a thread are under way together. Both begin at a multiple of 16 bytes.
extern "C" __global__ void __launch_bounds__(256)
    frame_fetch(const Unit* host, Unit* frame, i32 units, i32 bytes) {
    const i32 first = i32(blockIdx.x) * FETCHED * 256 + i32(threadIdx.x);
    Unit held[FETCHED];
#pragma unroll
    for (i32 i = 0; i < FETCHED; ++i) {
        if (first + i * 256 < units) held[i] = host[first + i * 256];
    }
#pragma unroll
    for (i32 i = 0; i < FETCHED; ++i) {
        if (first + i * 256 < units) frame[first + i * 256] = held[i];
    }
    // Bytes behind the last whole unit.
    const i32 behind = units * 16 + i32(threadIdx.x);
    if (blockIdx.x == 0 && behind < bytes) ((u8*)frame)[behind] = ((const u8*)host)[behind];
}

extern "C" __global__ void __launch_bounds__(256, 4)
    preprocess_tiles_f16(const u32* frame, u16* image, const u32* values, const Span* spans_x,
                         const Taps4* taps_x, i32 groups_x, const Span* spans_y, const Taps4* taps_y,
                         i32 groups_y, i32 width, i32 height, i32 side) {
    bicubic_tile(frame, image, values, spans_x, taps_x, groups_x, spans_y, taps_y, groups_y, width, height,
                 side);
}

#define COLUMNS(NAME, T)                                                                                     \
    extern "C" __global__ void __launch_bounds__(256)                                                        \
        NAME(const u32* frame, T* image, const T* values, const i32* first_x, const i32* count_x,            \
             const i32* weights_x, const i32* first_y, const i32* count_y, const i32* weights_y,             \
             i32 longest_y, i32 width, i32 height, i32 side, i32 x, i32 y, i32 content_width,                \
             i32 content_height) {                                                                           \
        const Place place = {width, height, side, x, y, content_width, content_height};                      \
        columns_first<T>(frame, image, values, first_x, count_x, weights_x, first_y, count_y, weights_y,     \
                         longest_y, place);                                                                  \
    }
COLUMNS(preprocess_columns_f16, u16)
COLUMNS(preprocess_columns_f32, u32)

#define LINEAR(NAME, T)                                                                                      \
    extern "C" __global__ void __launch_bounds__(256)                                                        \
        NAME(const u8* frame, T* image, const i32* first_x, const i32* count_x, const float* weights_x,      \
             const i32* first_y, const i32* count_y, const float* weights_y, i32 longest_y,                  \
             const float* mean_std, i32 width, i32 height, i32 side, i32 x, i32 y, i32 content_width,        \
             i32 content_height) {                                                                           \
        const Place place = {width, height, side, x, y, content_width, content_height};                      \
        linear<T>(frame, image, first_x, count_x, weights_x, first_y, count_y, weights_y, longest_y,         \
                  mean_std, place);                                                                          \
    }
LINEAR(preprocess_linear_f16, u16)
LINEAR(preprocess_linear_f32, u32)
