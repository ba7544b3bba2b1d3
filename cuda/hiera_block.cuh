/*!
What Hiera's fused kernels (hiera_block.cu, hiera_block_windows.cu, hiera_transition.cu) do besides
attention and matmuls: the ring of weights, LayerNorm and softmax of rows, a warp's tokens.

Needs ptx.cuh, arithmetic.cuh, attention.cuh, gelu.cuh and repvit.cuh in front.
*/
#pragma once

// ---- primitives ----

/// Two columns of a token, which lie in registers as the tensor cores need them; four would be
/// moved.
__device__ __forceinline__ float2 load_token(const float* from) {
    return *(const float2*)from;
}
__device__ __forceinline__ void store_token(float* to, float4 x) { *(float4*)to = x; }

// ---- tokens ----

constexpr int WARPS = 4, THREADS = WARPS * 32;
constexpr int WINDOW = 8, KEYS = WINDOW * WINDOW;  // side of a window; its tokens
constexpr int WINDOWS = THREADS / KEYS;            // of a block: a thread for each token
constexpr int FRAGMENTS = PACKED * 2;              // bytes of 16 columns of a step, all lanes
constexpr int BIASES = TILE * 4;                   // bytes of a unit's
constexpr int AHEAD = 3, SLOTS = AHEAD + 2;        // units that are on the way; of the ring
constexpr int LINE = 128;                          // bytes of a prefetch
constexpr float NORM_EPSILON = 1e-6f;
static_assert(WARPS * ROWS == WINDOWS * KEYS, "a warp has half a window");

/// What a launch is given.
struct BlockProblem {
    float* x;                    // [grid, grid, columns], in place
    const unsigned char* units;  // of weights
    const float* vectors;        // [3, 3, columns]: bias, then weight and bias of a norm, see `run`
    f16* next;                   // [grid, grid, columns]: the next block's first norm, or none
    const unsigned char* later;  // what the L2 cache is asked for, `lines` of it
    int lines, grid;
};

/// The ring of UNITS units of UNIT bytes: while AHEAD of them are on the way, all warps may read
/// two. A block has THREADS threads, or as many as a launch says (ANY_BLOCK).
template <int UNIT, int UNITS, bool ANY_BLOCK = false>
class Ring {
    u32 first, next;
    int fetched;  // bytes of units that were asked for
    const unsigned char* units;

    /// Starts the copy of a unit, a group; behind the last unit of none.
    __device__ __forceinline__ void fetch(u32 to) {
        if (fetched < UNITS * UNIT) {
            if (ANY_BLOCK) {
#pragma unroll 1
                for (int at = (int)threadIdx.x; at < UNIT / 16; at += (int)blockDim.x)
                    copy16(to + at * 16, units + (u32)(fetched + at * 16), true);
            } else {
#pragma unroll
                for (int i = 0; i < (UNIT / 16 + THREADS - 1) / THREADS; i++) {
                    int at = i * THREADS + (int)threadIdx.x;
                    if ((i + 1) * THREADS <= UNIT / 16 || at < UNIT / 16)
                        copy16(to + at * 16, units + (u32)(fetched + at * 16), true);
                }
            }
        }
        copies_commit();
        fetched += UNIT;
    }

public:
    /// Asks for the first units.
    __device__ __forceinline__ void begin(u32 shared, const unsigned char* weights) {
        first = next = shared, fetched = 0, units = weights;
#pragma unroll 1
        for (int i = 0; i < AHEAD; i++) fetch(shared + i * UNIT);
    }
    /// Waits for the next one or two units, takes the first, and asks for one in the place of that
    /// two before it, which all warps have read by then.
    template <int WAITS_FOR>
    __device__ __forceinline__ u32 take() {
        copies_wait<AHEAD - WAITS_FOR>();
        block_barrier();
        return take_another();
    }
    /// The unit behind it, if `take` has waited for two.
    __device__ __forceinline__ u32 take_another() {
        u32 at = next, to = at + AHEAD * UNIT, end = first + SLOTS * UNIT;
        fetch(to < end ? to : to - SLOTS * UNIT);
        next = at + UNIT < end ? at + UNIT : first;
        return at;
    }
};

/// Adds a bias to eight tokens (EIGHTS is 1) or 16, and gives their LayerNorm. `x(j, n)` has
/// columns 16 j + 4 (lane % 4) + 2 n + e of token 8 i + lane / 4 at [2 i + e], and `store(j, words)`
/// gets those of 16 columns as halves, in the order of a left factor. `vector(of, j)`: four columns
/// of the bias, and of weight and bias of the norm.
template <int STEPS, int EIGHTS, class At, class Vector, class Store>
__device__ __forceinline__ void normalize_rows(At x, Vector vector, Store store) {
    constexpr int COLUMNS = STEPS * STEP;
    float mean[EIGHTS] = {}, scale[EIGHTS] = {};
#pragma unroll
    for (int j = 0; j < STEPS; j++) {
        float4 bias = vector(0, j);
#pragma unroll
        for (int i = 0; i < EIGHTS; i++) {
            float &a = x(j, 0)[i * 2], &b = x(j, 0)[i * 2 + 1];
            float &c = x(j, 1)[i * 2], &d = x(j, 1)[i * 2 + 1];
            a += bias.x, b += bias.y, c += bias.z, d += bias.w;
            mean[i] += (a + b) + (c + d);
        }
    }
#pragma unroll
    for (int i = 0; i < EIGHTS; i++) {
        mean[i] = sum_of_lanes<1, 4>(mean[i]) * (1.0f / COLUMNS);
#pragma unroll
        for (int j = 0; j < STEPS; j++)
#pragma unroll
            for (int n = 0; n < 4; n++) {
                float off = x(j, n / 2)[i * 2 + n % 2] - mean[i];
                scale[i] = fmaf(off, off, scale[i]);
            }
        scale[i] = reciprocal_root(sum_of_lanes<1, 4>(scale[i]) * (1.0f / COLUMNS) + NORM_EPSILON);
        mean[i] *= -scale[i];
    }
#pragma unroll
    for (int j = 0; j < STEPS; j++) {
        float4 weight = vector(1, j);
        float4 bias = vector(2, j);
        u32 words[4];
#pragma unroll
        for (int i = 0; i < EIGHTS; i++) {
            auto of = [&](int n, float times, float plus) {
                return fmaf(fmaf(x(j, n / 2)[i * 2 + n % 2], scale[i], mean[i]), times, plus);
            };
            words[i] = to_f16x2(of(0, weight.x, bias.x), of(1, weight.y, bias.y));
            words[2 + i] = to_f16x2(of(2, weight.z, bias.z), of(3, weight.w, bias.w));
        }
        store(j, words);
    }
}

/// softmax of 16 queries' scores: weights as left factors, not yet divided by their sums, and the
/// reciprocal sums of queries 8 i + lane / 4. `scores[j]` has keys 8 j + 2 (lane % 4) + e at
/// [2 i + e].
template <int EIGHTHS>
__device__ __forceinline__ void softmax(const float (&scores)[EIGHTHS][4], u32 (&weights)[EIGHTHS / 2][4],
                                        float (&share)[2]) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float top = scores[0][i * 2], sum = 0.0f;
#pragma unroll
        for (int j = 0; j < EIGHTHS; j++) top = fmaxf(top, fmaxf(scores[j][i * 2], scores[j][i * 2 + 1]));
        top = most_of_lanes<1, 4>(top) * LOG2E;
#pragma unroll
        for (int j = 0; j < EIGHTHS; j++)
            weights[j / 2][(j & 1) * 2 + i] = weights_of(scores[j], i, top, sum);
        share[i] = reciprocal(sum_of_lanes<1, 4>(sum));
    }
}

/// A warp's 32 tokens: x[j][m][n][2 i + e] is of token 16 m + 8 i + lane / 4 and column
/// 16 j + 4 (lane % 4) + 2 n + e.
template <int COLUMNS>
class WarpTokens {
public:
    static constexpr int STEPS = COLUMNS / STEP;  // of the depth, and of 16 columns
    // Beside so many sums there are no registers for all of a norm's numbers at once, so that these
    // come in pairs of steps, each behind a barrier.
    static constexpr bool IN_PAIRS = COLUMNS > 112;
    u32 own;  // what this lane has of a norm

    /// The tokens of this lane; lines 2 m + i of the warp's.
    __device__ __forceinline__ void load(Sums (&x)[STEPS], const float* tokens, int line) const {
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < STEPS; j++)
#pragma unroll
                    for (int n = 0; n < 2; n++) {
                        float2 two = load_token(tokens + (m * 2 + i) * line + j * TILE + n * 2);
                        x[j][m][n][i * 2] = two.x, x[j][m][n][i * 2 + 1] = two.y;
                    }
    }

    /// Adds a bias, then writes the LayerNorm to this lane's own shared memory. `vectors`: bias, and
    /// weight and bias of the norm. A loop, of which each turn has 16 tokens: half as much PTX.
    __device__ __forceinline__ void normalize(Sums (&x)[STEPS], const float* vectors) const {
#pragma unroll 1
        for (int m = 0; m < 2; m++) {
            normalize_rows<STEPS, 2>(
                [&](int j, int n) -> float(&)[4] { return x[j][0][n]; },
                [&](int of, int j) {
                    const float* from = vectors + of * COLUMNS + j * TILE;
                    if (!IN_PAIRS) return load_floats(from);
                    if (of == 1 && j % 2 == 0) warp_barrier();
                    return load_coherent_floats(from);
                },
                [&](int j, const u32(&words)[4]) { store_shared(own + (j * 2 + m) * 512, words); });
            // The other 16 come in front.
#pragma unroll
            for (int j = 0; j < STEPS; j++)
#pragma unroll
                for (int n = 0; n < 2; n++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        float front = x[j][0][n][i];
                        x[j][0][n][i] = x[j][1][n][i], x[j][1][n][i] = front;
                    }
        }
    }
    /// What `normalize` wrote, as left factor of a step.
    __device__ __forceinline__ void load_normed(u32 (&left)[2][4], int step) const {
        load_shared(left[0], own + step * 1024);
        load_shared(left[1], own + step * 1024 + 512);
    }
};

// ---- instances ----

// The entry point of class KERNEL, which computes a whole block of Hiera. A thread block has at most
// THREADS threads, and a multiprocessor holds at least BLOCKS of them.
#define HIERA_BLOCK(COLUMNS, HEADS, KERNEL, THREADS, BLOCKS)                                                 \
    constexpr u32 hiera_block_##COLUMNS##_shared = KERNEL<COLUMNS, HEADS>::SHARED;                           \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                                            \
        hiera_block_##COLUMNS(float* x, const unsigned char* units, const float* vectors, f16* next,         \
                              const unsigned char* later, int lines, int grid) {                             \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        KERNEL<COLUMNS, HEADS>().run({x, units, vectors, next, later, lines, grid},                          \
                                    shared_address(memory));                                                 \
    }
