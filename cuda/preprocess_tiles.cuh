// Pillow's bicubic resize of tiles whose input fits into shared memory.
//
// A block loads what its tile needs of the frame in units of 16 bytes, each thread all of its units
// at once, and the tile's part of the tables beside them. So a block waits for memory twice, not
// once for each table and chunk of rows.
//
// Weights have 22 bits of fraction and a sign: three bytes. Four taps are three dot products of
// bytes, one for each byte of the weights, instead of four products of a pixel's byte that is
// extracted first. Sums are the same integers.
//
// Outputs of padding have weights of zero, which make a byte of zero: black.
//
// Include preprocess.cuh first.
#pragma once

namespace {

const i32 TALL_Y = 32;  // outputs of a tile are TILE_X x TALL_Y
// The most that a tile may take: rows, units of 16 bytes in a row, groups of four taps.
const i32 MOST_ROWS = 40, ROW_UNITS = 28, MOST_GROUPS = 2;
const i32 TILE_WARPS = THREADS / 32, UNITS_OF_THREAD = MOST_ROWS / TILE_WARPS;
static_assert(ROW_UNITS <= 32 && MOST_ROWS % TILE_WARPS == 0, "a warp loads a row, a lane a unit of it");
static_assert((TILE_X + TALL_Y) * MOST_GROUPS <= THREADS, "each thread loads one group of taps at most");
static_assert(2 * 32 == TILE_X && TALL_Y % TILE_WARPS == 0, "a lane makes two columns, a warp whole rows");

// What a tile takes of an axis of the frame.
struct alignas(8) Span {
    i32 first, count;
};
// Four taps of an output: a byte of each weight in a word, the low bytes first, and the first of
// the positions, counted from the tile's.
struct alignas(16) Taps4 {
    u32 low, middle, high;
    i32 first;
};

struct TileMemory {
    // Rows of the frame, each from a multiple of 16 of the frame's bytes on. Behind the last come words
    // that are read for taps without weight.
    alignas(16) u32 raw[MOST_ROWS * ROW_UNITS * 4 + 16];
    // Resized along x. One word a pixel: red, green, blue, nothing.
    alignas(8) u32 rows[MOST_ROWS + 4 * MOST_GROUPS][TILE_X];
    Taps4 x[MOST_GROUPS * TILE_X], y[MOST_GROUPS * TALL_Y];
    u32 lookup[3 * 256 / 2];
};

// sum + the dot product of four bytes and four bytes of weights; of the high ones, which have a
// sign.
__device__ __forceinline__ u32 dot4(u32 bytes, u32 weights, u32 sum) {
#ifdef __CUDA_ARCH__
    asm("dp4a.u32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(bytes), "r"(weights));
    return sum;
#else
    return sum + host_dot4(bytes, weights, false);
#endif
}
__device__ __forceinline__ u32 dot4_high(u32 bytes, u32 weights, u32 sum) {
#ifdef __CUDA_ARCH__
    asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(bytes), "r"(weights));
    return sum;
#else
    return sum + host_dot4(bytes, weights, true);
#endif
}
// `low` and `second`, each held to 0..255, in the lowest bytes, and above them the lower half of
// `above`.
__device__ __forceinline__ u32 packed_bytes(i32 second, i32 low, u32 above) {
#ifdef __CUDA_ARCH__
    u32 word;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(second), "r"(low), "r"(above));
    return word;
#else
    const u32 a = (u32)at_most(at_least(second, 0), 255), b = (u32)at_most(at_least(low, 0), 255);
    return above << 16 | a << 8 | b;
#endif
}

// A pixel's sums, by the bytes of the weights.
struct PixelSums {
    u32 low[3], middle[3], high[3];
    __device__ __forceinline__ void begin() {
#pragma unroll
        for (i32 c = 0; c < 3; ++c) low[c] = HALF, middle[c] = high[c] = 0;
    }
    // Four taps' bytes of each channel.
    __device__ __forceinline__ void add(const u32 (&bytes)[3], const Taps4& taps) {
#pragma unroll
        for (i32 c = 0; c < 3; ++c) {
            low[c] = dot4(bytes[c], taps.low, low[c]);
            middle[c] = dot4(bytes[c], taps.middle, middle[c]);
            high[c] = dot4_high(bytes[c], taps.high, high[c]);
        }
    }
    __device__ __forceinline__ i32 sum(i32 c) const {
        return (i32)(low[c] + middle[c] * 256u + high[c] * 65536u);
    }
    __device__ __forceinline__ u32 pixel() const {
        const i32 red = sum(0) >> PRECISION_BITS, green = sum(1) >> PRECISION_BITS,
                  blue = sum(2) >> PRECISION_BITS;
        return packed_bytes(green, red, packed_bytes(0, blue, 0));
    }
};

// Twelve bytes of `raw` from any byte on, four pixels, channel by channel.
__device__ __forceinline__ void pixels_of_row(const u32* raw, i32 start, u32 (&channels)[3]) {
    const u32* words = raw + (start >> 2);
    const u32 shift = 8 * (u32)(start & 3);
    const u32 a = words[0], b = words[1], c = words[2], d = words[3];
    const u32 p = __funnelshift_r(a, b, shift), q = __funnelshift_r(b, c, shift),
              s = __funnelshift_r(c, d, shift);
    channels[0] = __byte_perm(__byte_perm(p, q, 0x0630), s, 0x5210);
    channels[1] = __byte_perm(__byte_perm(p, q, 0x0741), s, 0x6210);
    channels[2] = __byte_perm(__byte_perm(p, q, 0x0052), s, 0x7410);
}
// Four pixels of a column, channel by channel.
__device__ __forceinline__ void pixels_of_column(const u32 (&four)[4], u32 (&channels)[3]) {
    const u32 a = __byte_perm(four[0], four[1], 0x5140), b = __byte_perm(four[2], four[3], 0x5140);
    channels[0] = __byte_perm(a, b, 0x5410);
    channels[1] = __byte_perm(a, b, 0x7632);
    channels[2] =
        __byte_perm(__byte_perm(four[0], four[1], 0x0062), __byte_perm(four[2], four[3], 0x0062), 0x5410);
}

__device__ __forceinline__ void bicubic_tile(const u32* __restrict__ frame, u16* __restrict__ image,
                                             const u32* __restrict__ values, const Span* __restrict__ spans_x,
                                             const Taps4* __restrict__ taps_x, i32 groups_x,
                                             const Span* __restrict__ spans_y,
                                             const Taps4* __restrict__ taps_y, i32 groups_y, i32 width,
                                             i32 height, i32 side) {
    __shared__ TileMemory memory;
    const i32 thread = (i32)threadIdx.x, lane = thread % 32, warp = thread / 32;
    const i32 left = (i32)blockIdx.x * TILE_X, top = (i32)blockIdx.y * TALL_Y;
    const Span columns = spans_x[blockIdx.x], lines = spans_y[blockIdx.y];
    const i32 of_x = TILE_X * groups_x, of_y = thread - of_x;
    if (of_y < 0)
        memory.x[thread] = taps_x[thread / TILE_X * ((i32)gridDim.x * TILE_X) + left + thread % TILE_X];
    else if (of_y < TALL_Y * groups_y)
        memory.y[of_y] = taps_y[of_y / TALL_Y * ((i32)gridDim.y * TALL_Y) + top + of_y % TALL_Y];
    for (i32 i = thread; i < 3 * 256 / 2; i += THREADS) memory.lookup[i] = values[i];

    // `corner`: the first byte of the first row, in the frame, which has so many whole units.
    const i32 frame_bytes = 3 * width * height, row_bytes = 3 * width, whole = frame_bytes / 16;
    const i32 corner = 3 * (lines.first * width + columns.first), units = (15 + 3 * columns.count + 15) / 16;
    // A row's unit of this lane; none where the row has no such unit, or the frame no whole one.
    auto unit_of = [&](i32 row) {
        const i32 unit = row < lines.count && lane < units ? (corner + row * row_bytes) / 16 + lane : whole;
        return unit < whole ? unit : -1;
    };
    uint4 held[UNITS_OF_THREAD];
#pragma unroll
    for (i32 i = 0; i < UNITS_OF_THREAD; ++i) {
        const i32 unit = unit_of(warp + TILE_WARPS * i);
        if (unit >= 0) held[i] = reinterpret_cast<const uint4*>(frame)[unit];
    }
#pragma unroll
    for (i32 i = 0; i < UNITS_OF_THREAD; ++i) {
        const i32 row = warp + TILE_WARPS * i;
        if (unit_of(row) >= 0) reinterpret_cast<uint4*>(memory.raw)[row * ROW_UNITS + lane] = held[i];
    }
    // The unit that the frame's last bytes do not fill, by words. Rows of a narrow frame share it.
    if ((corner + (lines.count - 1) * row_bytes) / 16 + units > whole) {
#pragma unroll 1
        for (i32 i = thread; i < 4 * lines.count; i += THREADS) {
            const i32 row = i / 4, of = whole - (corner + row * row_bytes) / 16;
            if (of < units)
                memory.raw[(row * ROW_UNITS + of) * 4 + i % 4] =
                    frame_word(frame, 4 * whole + i % 4, frame_bytes);
        }
    }
    __syncthreads();

    // Along x: two rows at a time, for which each group of taps is read once.
    const i32 column = thread % TILE_X;
#pragma unroll 1
    for (i32 row = 2 * (thread / TILE_X); row < lines.count; row += 2 * (THREADS / TILE_X)) {
        PixelSums sums[2];
        sums[0].begin(), sums[1].begin();
        const i32 begin = corner + row * row_bytes;
#pragma unroll 1
        for (i32 group = 0; group < groups_x; ++group) {
            const Taps4 taps = memory.x[group * TILE_X + column];
#pragma unroll
            for (i32 r = 0; r < 2; ++r) {
                u32 channels[3];
                pixels_of_row(memory.raw + (row + r) * (4 * ROW_UNITS),
                              ((begin + r * row_bytes) & 15) + 3 * taps.first, channels);
                sums[r].add(channels, taps);
            }
        }
        memory.rows[row][column] = sums[0].pixel();
        memory.rows[row + 1][column] = sums[1].pixel();
    }
    __syncthreads();

    // Along y.
    const u16* lookup = reinterpret_cast<const u16*>(memory.lookup);
    const i32 x = 2 * lane;
#pragma unroll 1
    for (i32 row = warp * (TALL_Y / TILE_WARPS); row < (warp + 1) * (TALL_Y / TILE_WARPS); ++row) {
        PixelSums sums[2];
        sums[0].begin(), sums[1].begin();
#pragma unroll 1
        for (i32 group = 0; group < groups_y; ++group) {
            const Taps4 taps = memory.y[group * TALL_Y + row];
            u32 four[2][4], channels[3];
#pragma unroll
            for (i32 tap = 0; tap < 4; ++tap) {
                const uint2 two = *reinterpret_cast<const uint2*>(&memory.rows[taps.first + tap][x]);
                four[0][tap] = two.x, four[1][tap] = two.y;
            }
#pragma unroll
            for (i32 i = 0; i < 2; ++i) {
                pixels_of_column(four[i], channels);
                sums[i].add(channels, taps);
            }
        }
        if (top + row >= side || left + x >= side) continue;
#pragma unroll
        for (i32 c = 0; c < 3; ++c) {
            const u16 a = lookup[256 * c + to_byte(sums[0].sum(c))];
            const u16 b = lookup[256 * c + to_byte(sums[1].sum(c))];
            store_pair(image + ((u64)c * (u64)side + (u64)(top + row)) * (u64)side, left + x, side, a, b);
        }
    }
}

}  // namespace
