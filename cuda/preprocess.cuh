// Tiles, frame access and stores that all kernels of preprocess.cu share.
//
// Include common.cuh first.
#pragma once

namespace {

const i32 TILE_X = 64, TILE_Y = 16, THREADS = 256;
// Input rows in shared memory at a time.
const i32 CHUNK = 32;
// Pillow's fixed point: 8 bits of result and 2 of headroom leave these for the fraction.
const i32 PRECISION_BITS = 22, HALF = 1 << (PRECISION_BITS - 1);

// Input columns in shared memory at a time, where the columns are resized first: a thread makes
// PIXELS of one row.
const i32 WIDE = 64, PIXELS = 4;
static_assert(TILE_Y * WIDE == PIXELS * THREADS, "each thread makes the same number of pixels");

// Four weights of one output position.
struct alignas(16) Weights4 {
    i32 w[4];
};
// Four pixels, one word each: red, green, blue, nothing.
struct alignas(16) Pixels4 {
    u32 p[4];
};

// Where the content lies in the square, and the size of the frame.
struct Place {
    i32 width, height, side, x, y, content_width, content_height;
};

template <class T> struct Pair;
template <> struct Pair<u16> { typedef u32 type; };
template <> struct Pair<u32> { typedef u64 type; };

// Two neighbours of a row: one store where both are aligned, which an even side makes sure of.
template <class T> __device__ __forceinline__ void store_pair(T* row, i32 x, i32 side, T first, T second) {
    typedef typename Pair<T>::type Both;
    if (side % 2 == 0) {
        *reinterpret_cast<Both*>(row + x) = (Both)first | (Both)second << (8 * sizeof(T));
    } else {
        row[x] = first;
        if (x + 1 < side) row[x + 1] = second;
    }
}

// The input positions [begin, end) that the `tile` outputs from `at` on need, of an axis whose
// content begins at `origin` and has `length` outputs; empty for a tile of padding.
__device__ __forceinline__ void inputs_of_tile(i32 at, i32 tile, i32 origin, i32 length, const i32* first,
                                               const i32* count, i32* begin, i32* end) {
    i32 from = at_least(at - origin, 0);
    i32 to = at_most(at + tile - origin, length);
    bool some = from < to;
    *begin = some ? first[from] : 0;
    *end = some ? first[to - 1] + count[to - 1] : 0;
}

// Word `index` of the frame, whose last bytes may be no whole word; nothing beyond them is read. As a
// loop those bytes take little code; UNROLL them where that would take more registers.
template <i32 UNROLL = 1>
__device__ __forceinline__ u32 frame_word(const u32* frame, i32 index, i32 bytes) {
    if (4 * index + 4 <= bytes) return frame[index];
    u32 word = 0;
    const u8* tail = reinterpret_cast<const u8*>(frame);
#pragma unroll UNROLL
    for (i32 at = 4 * index; at < bytes; ++at) word |= (u32)tail[at] << (8 * (at % 4));
    return word;
}

__device__ __forceinline__ i32 byte_of(u32 word, i32 place) { return (i32)(word >> (8 * place) & 255u); }

__device__ __forceinline__ u32 to_byte(i32 sum) {
    return (u32)at_most(at_least(sum >> PRECISION_BITS, 0), 255);
}

// The values of the sums of a thread's outputs: at `x` and its right neighbour, in row `y` and
// eight rows below.
template <class T>
__device__ __forceinline__ void store_values(T* image, const T* lookup, const i32 sums[2][2][3], i32 x, i32 y,
                                             const Place& place) {
#pragma unroll
    for (i32 r = 0; r < 2; ++r, y += 8) {
        if (y >= place.side || x >= place.side) continue;
        const bool row_shows = y >= place.y && y < place.y + place.content_height;
        const bool one = row_shows && x >= place.x && x < place.x + place.content_width;
        const bool two = row_shows && x + 1 >= place.x && x + 1 < place.x + place.content_width;
#pragma unroll
        for (i32 c = 0; c < 3; ++c) {
            // Padding is black.
            const T a = lookup[256 * c + (one ? to_byte(sums[r][0][c]) : 0u)];
            const T b = lookup[256 * c + (two ? to_byte(sums[r][1][c]) : 0u)];
            store_pair(image + ((u64)c * (u64)place.side + (u64)y) * (u64)place.side, x, place.side, a, b);
        }
    }
}

}  // namespace
