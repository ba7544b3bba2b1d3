/*!
Shared by the window attention kernels, in addition to attention.cuh: a few instructions, the
arguments, the needed queries of a window, the exchange between four lanes, and the store of a row.
*/

// ---- primitives ----

/// Asynchronous copy of 16 bytes from global to shared memory if `wanted`; zeros where `valid` is
/// false.
__device__ __forceinline__ void copy16_if(bool wanted, u32 to, const void* from, bool valid) {
    int bytes = valid ? 16 : 0;
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %3, 0; @p cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2; }" ::
            "r"(to),
        "l"(from), "r"(bytes), "r"((int)wanted)
        : "memory");
}

// ---- attention ----

struct WindowProblem {
    const f16 *qkv, *bias;
    f16* out;
    int grid, window;
    int whole, side;     // windows along a side of the map: those that lie in it, all
    int heads, depth, pooled;
    int together;        // windows of a block
    int parts;           // blocks of a window's queries
};

/// Of four lanes' four words each: word i of lane t becomes word t of lane i.
__device__ __forceinline__ void exchange(u32 (&x)[4], int lane) {
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
        bool upper = lane & bit;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & bit) continue;
            u32 got = from_lane(upper ? x[i] : x[i + bit], bit);
            (upper ? x[i] : x[i + bit]) = got;
        }
    }
}

/// n / side for n < 300 and side <= 16.
__device__ __forceinline__ int quotient(int n, int reciprocal) { return n * reciprocal >> 16; }
constexpr int RECIPROCAL_ONE = 65536;
__device__ __forceinline__ int reciprocal_of(int side) { return RECIPROCAL_ONE / side + 1; }

/// The queries of a window that somebody asks for: a rectangle of the map behind.
struct Asked {
    int top, left, width, count;
    __device__ __forceinline__ Asked(const WindowProblem& p, int down, int across) {
        int side = p.pooled ? p.window / 2 : p.window, grid = p.pooled ? p.grid / 2 : p.grid;
        top = down * side, left = across * side;
        width = grid - left < side ? grid - left : side;
        count = (grid - top < side ? grid - top : side) * width;
    }
    /// Where a query lies, `x` and `y`; behind the last one the last.
    __device__ __forceinline__ int2 token(int query, int reciprocal) const {
        query = query < count ? query : count - 1;
        int y = quotient(query, reciprocal), x = query - y * width;
        return make_int2(left + x, top + y);
    }
};

/// Stores a row of results divided by the sum of its weights, from element `to` on; below 0 where
/// nobody asks for it. Each of a quad's lanes holds columns 2 (lane mod 4) and the next one of a
/// 16-byte unit, `at(unit, 0)` and `at(unit, 1)`; `sum` is this lane's share of the weights.
template <int UNITS, class At>
__device__ __forceinline__ void store_window_row(f16* out, int to, int depth, int lane, float sum, At at) {
    int t = lane & 3;
    float share = 1.0f / sum_of_lanes<1, 4>(sum);
#pragma unroll
    for (int i = 0; i < UNITS; i += 4) {
        u32 words[4] = {0, 0, 0, 0};
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k < UNITS)
                words[k] = to_f16x2(at((i + k) % UNITS, 0) * share, at((i + k) % UNITS, 1) * share);
        if (i + 1 == UNITS) {
            if (to >= 0 && i * 8 < depth) *(u32*)(out + to + i * 8 + t * 2) = words[0];
            continue;
        }
        exchange(words, lane);
        if (to >= 0 && i + t < UNITS && (i + t) * 8 < depth)
            *(uint4*)(out + to + (i + t) * 8) = make_uint4(words[0], words[1], words[2], words[3]);
    }
}
