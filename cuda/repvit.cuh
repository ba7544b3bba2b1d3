/*!
Shared by the kernels of RepViT's blocks and others: the order of packed weights, matmuls of 32 tokens
in shared memory, and the sums of squeeze-and-excite.

A matmul's weight [columns, depth] is packed in tiles of 16 columns (crates/kernels/src/repvit/
packed.rs). A tile has 512 bytes for each 16 of the depth: for each lane the 16 bytes that it needs
as right factor. Tiles that one warp has follow each other step by step. So weights go from the L2
cache to registers, past shared memory: no two warps of 32 tokens need the same. A lane's columns of
the result are 4 (lane % 4) to 4 (lane % 4) + 3 of the tile's.

Needs ptx.cuh, arithmetic.cuh, attention.cuh and gelu.cuh in front.
*/
#pragma once

// ---- primitives ----

/// Two weights.
__device__ __forceinline__ u32 load_word(const f16* from) {
    u32 r;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(r) : "l"(from));
    return r;
}
/// Eight packed weights.
__device__ __forceinline__ void load_weights(u32 (&r)[4], const f16* from) {
    asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "l"(from));
}
__device__ __forceinline__ void store_halves(f16* to, uint2 halves) {
    asm volatile("st.global.v2.u32 [%0], {%1,%2};" ::"l"(to), "r"(halves.x), "r"(halves.y) : "memory");
}
/// Adds a number in fixed point, so that the order of additions changes no bit of the sum.
__device__ __forceinline__ void add_fixed(long long* to, float units) {
    asm volatile("{ .reg .s64 fixed; cvt.rni.s64.f32 fixed, %1; red.global.add.u64 [%0], fixed; }" ::"l"(to),
                 "f"(units)
                 : "memory");
}

// ---- matmul ----

constexpr int ROWS = 32;     // tokens of a warp's product
constexpr int TILE = 16;     // columns of a tile of packed weights
constexpr int STEP = 16;     // of the depth, that one instruction sums over
constexpr int PACKED = 256;  // halves of a step of a tile
constexpr int TAPS = 9;      // of a depthwise convolution, row by row

/// Sums of channels are in fixed point, in several copies that blocks add to in turn.
constexpr int COPIES = 8;
constexpr float SUM_UNIT = 1048576.0f;

/// A token's row of `edges` [9, channels], what its channels count in the sums of a depthwise
/// convolution: first, inner or last row, and so of its column.
__device__ __forceinline__ int edge_of(int y, int x, int grid) {
    return (y == 0 ? 0 : y == grid - 1 ? 6 : 3) + (x == 0 ? 0 : x == grid - 1 ? 2 : 1);
}

/// Sums of 32 tokens and a tile's columns. A lane has tokens 16 m + 8 i + lane / 4 and columns
/// 4 (lane % 4) + 2 n + e at [m][n][2 i + e].
typedef float Sums[2][2][4];

/// A step of 32 tokens as left factor. `from`: this lane's address of the step, as `left_of` gives
/// it for the first.
__device__ __forceinline__ void load_left(u32 (&a)[2][4], u32 from, u32 pitch) {
    load_matrices(a[0], from);
    load_matrices(a[1], from + 16 * pitch);
}
__device__ __forceinline__ u32 left_of(u32 tokens, u32 pitch, int lane) {
    return tokens + (lane & 15) * pitch + (lane >> 4) * 16;
}
__device__ __forceinline__ void multiply(Sums& sums, const u32 (&a)[2][4], const u32 (&b)[4]) {
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 2; n++) multiply_add(sums[m][n], a[m], b[n * 2], b[n * 2 + 1]);
}
/// All sums of a lane's columns begin with these.
__device__ __forceinline__ void begin(Sums& sums, float4 with) {
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            sums[m][0][i * 2] = with.x, sums[m][0][i * 2 + 1] = with.y;
            sums[m][1][i * 2] = with.z, sums[m][1][i * 2 + 1] = with.w;
        }
}
/// Calls `store(token, column, four halves)` for all tokens of a lane; `act` is applied before.
template <class Act, class Store>
__device__ __forceinline__ void each_token(const Sums& sums, int lane, Act act, Store store) {
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            store(m * 16 + i * 8 + (lane >> 2), (lane & 3) * 4,
                  make_uint2(to_f16x2(act(sums[m][0][i * 2]), act(sums[m][0][i * 2 + 1])),
                             to_f16x2(act(sums[m][1][i * 2]), act(sums[m][1][i * 2 + 1]))));
}
/// Adds four halves to the sums of a token, 16 m + 8 i + lane / 4.
__device__ __forceinline__ void add_token(Sums& sums, int m, int i, uint2 halves) {
    float2 low = to_float2(halves.x), high = to_float2(halves.y);
    sums[m][0][i * 2] += low.x, sums[m][0][i * 2 + 1] += low.y;
    sums[m][1][i * 2] += high.x, sums[m][1][i * 2 + 1] += high.y;
}

// What a block adds to the sums of squeeze-and-excite: four columns of its tokens.

/// Adds a token's columns, times the weights of its place.
__device__ __forceinline__ void add_weighted(float4& sum, uint2 halves, float4 weight) {
    float2 low = to_float2(halves.x), high = to_float2(halves.y);
    sum.x = fmaf(low.x, weight.x, sum.x), sum.y = fmaf(low.y, weight.y, sum.y);
    sum.z = fmaf(high.x, weight.z, sum.z), sum.w = fmaf(high.y, weight.w, sum.w);
}
/// Adds up the lanes that have the same columns.
__device__ __forceinline__ void sum_of_tokens(float4& sum) {
#pragma unroll
    for (int mask = 4; mask < 32; mask *= 2) {
        sum.x += from_lane(sum.x, mask), sum.y += from_lane(sum.y, mask);
        sum.z += from_lane(sum.z, mask), sum.w += from_lane(sum.w, mask);
    }
}
__device__ __forceinline__ void add_fixed(long long* to, float4 sum) {
    add_fixed(to, sum.x * SUM_UNIT), add_fixed(to + 1, sum.y * SUM_UNIT);
    add_fixed(to + 2, sum.z * SUM_UNIT), add_fixed(to + 3, sum.w * SUM_UNIT);
}
