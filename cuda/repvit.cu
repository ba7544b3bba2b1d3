/*!
The parts of a RepViT block as launches of their own, for any GPU from sm 80 on and any number of
columns that is a multiple of 8. repvit_block.cu has blocks of few columns in one launch.

  - repvit_sums: sums of y, the depthwise convolution of x, over the map. They are sums of x with
    weights that depend on a token's edge alone: y is not computed.
  - repvit_gate: squeeze-and-excite of the sums' means, a factor for each channel.
  - repvit_dwconv, _stride2: y, times the gate if there is one.
  - repvit_gemm_bias, _gelu, _residual: a product with its bias, then GELU, or then a sum.

T tokens, C channels; sm 80 on. Only the last three are matmuls.

| kernel                                | M, N, K  | tile of M, N | threads | stages | shared bytes      |
|---------------------------------------|----------|--------------|---------|--------|-------------------|
| repvit_sums                           | T, C     |              | 256     |        | 4 096             |
| repvit_gate                           | 1, C     |              | 1024    |        | 5 120             |
| repvit_dwconv, repvit_dwconv_stride2  | T, C     | 32, 64       | 128     |        | 0                 |
| repvit_gemm_gelu                      | any      | 64, 96       | 384     | 1      | 64 x (2 K + 16)   |
| repvit_gemm_bias, repvit_gemm_residual| any      | 32, 96       | 384     | 1      | 32 x (2 K + 16)   |

repvit_gemm_*: the tokens of a block lie in shared memory, with their whole depth; packed weights
(repvit.cuh) go to registers, of which AHEAD steps are under way. Six warps have 16 columns each.
Twice as many warps share the work: by tokens, or, where tokens are few, by the depth.

Grid: repvit_sums ceil(tokens / chunk); repvit_gate 1; repvit_dwconv ceil(tokens of the result, a
row's rounded up to fours, / 32) x ceil(channels / 64); repvit_gemm_* ceil(rows / 64 or 32) x
ceil(columns / 96).
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"
#include "repvit.cuh"

// ---- sums ----

constexpr int SUM_THREADS = 256, GATE_THREADS = 1024;
constexpr int MOST_CHANNELS = 1024, MOST_SQUEEZED = 256;
constexpr int AT_ONCE = 4;  // tokens of a thread under way

/// What a launch is given.
struct SumProblem {
    const f16* x;        // [tokens, channels]
    const float* edges;  // [9, channels]
    long long* sums;     // [COPIES, channels]
    int grid, channels, chunk;
};

/// A thread has four channels of every so-many-th token of a block's `chunk`.
__device__ __forceinline__ void sum_tokens(const SumProblem& p, float4 (&parts)[SUM_THREADS]) {
    int quads = p.channels / 4, rows = SUM_THREADS / quads;
    int row = threadIdx.x / quads, channel = threadIdx.x % quads * 4;
    int tokens = p.grid * p.grid, first = blockIdx.x * p.chunk;
    int end = first + p.chunk < tokens ? first + p.chunk : tokens;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    dependent_wait();
    dependent_launch();
    for (int token = first + row; row < rows && token < end; token += rows * AT_ONCE) {
        uint2 halves[AT_ONCE];
        float4 weights[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int at = token + i * rows < end ? token + i * rows : token;
            halves[i] = load_halves(p.x + at * p.channels + channel);
            int y = at / p.grid, x = at - y * p.grid;
            weights[i] = load_floats(p.edges + edge_of(y, x, p.grid) * p.channels + channel);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            float2 low = to_float2(halves[i].x), high = to_float2(halves[i].y);
            if (token + i * rows < end) {
                sum.x = fmaf(low.x, weights[i].x, sum.x), sum.y = fmaf(low.y, weights[i].y, sum.y);
                sum.z = fmaf(high.x, weights[i].z, sum.z), sum.w = fmaf(high.y, weights[i].w, sum.w);
            }
        }
    }
    parts[threadIdx.x] = sum;
    block_barrier();
    const float* of = (const float*)parts;
    for (int at = threadIdx.x; at < p.channels; at += SUM_THREADS) {
        float all = 0.0f;
        for (int i = 0; i < rows; i++) all += of[i * p.channels + at];
        add_fixed(p.sums + blockIdx.x % COPIES * p.channels + at, all * SUM_UNIT);
    }
}

/// What a launch is given.
struct GateProblem {
    const long long* sums;  // [COPIES, channels]
    const float* bias;      // of the depthwise convolution
    const f16* squeeze;     // [squeezed, channels]
    const float* squeeze_bias;
    const f16* excite;      // [channels, squeezed]
    const float* excite_bias;
    float* gate;            // [channels]
    int channels, squeezed, tokens;
};

/// A row of eight weights times floats in shared memory.
__device__ __forceinline__ float eight(const u32 (&weights)[4], const float* by) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 pair = to_float2(weights[i]);
        sum = fmaf(pair.x, by[i * 2], sum), sum = fmaf(pair.y, by[i * 2 + 1], sum);
    }
    return sum;
}

/// A thread has a channel's mean, a warp rows of the squeeze, a thread a channel's gate.
__device__ __forceinline__ void gate_channels(const GateProblem& p, float (&means)[MOST_CHANNELS],
                                              float (&squeezed)[MOST_SQUEEZED]) {
    int at = threadIdx.x, warp = at >> 5, lane = at & 31;
    dependent_wait();
    dependent_launch();
    if (at < p.channels) {
        long long sum = 0;
#pragma unroll
        for (int i = 0; i < COPIES; i++) sum += p.sums[i * p.channels + at];
        means[at] = (float)sum / (SUM_UNIT * (float)p.tokens) + p.bias[at];
    }
    block_barrier();
    for (int row = warp; row < p.squeezed; row += GATE_THREADS / 32) {
        float sum = 0.0f;
        for (int channel = lane * 8; channel < p.channels; channel += 256) {
            u32 weights[4];
            load_weights(weights, p.squeeze + row * p.channels + channel);
            sum += eight(weights, means + channel);
        }
        sum = sum_of_lanes<1, 32>(sum);
        if (lane == 0) squeezed[row] = fmaxf(sum + p.squeeze_bias[row], 0.0f);
    }
    block_barrier();
    if (at >= p.channels) return;
    float sum = p.excite_bias[at];
    for (int row = 0; row < p.squeezed; row += 8) {
        u32 weights[4];
        load_weights(weights, p.excite + at * p.squeezed + row);
        sum += eight(weights, squeezed + row);
    }
    p.gate[at] = 1.0f / (1.0f + exponential(-sum));
}

// ---- convolution ----

constexpr int CONV_THREADS = 128;
constexpr int STRIP = 4;                                 // tokens of a row that a thread has
constexpr int SLICE = 64;                                // channels of a block
constexpr int STRIPS = CONV_THREADS / (SLICE / 4);       // of a block

/// What a launch is given.
struct ConvProblem {
    const f16* x;         // [grid, grid, channels]
    const float* weight;  // [9, channels]
    const float* bias;
    const float* gate;    // [channels], or null
    f16* y;               // [ceil(grid / stride), the same, channels]
    int grid, channels;
};

/// Four channels of four tokens in a row.
template <int STRIDE>
__device__ __forceinline__ void convolve(const ConvProblem& p) {
    constexpr int FROM = (STRIP - 1) * STRIDE + 3;
    int grid_out = (p.grid + STRIDE - 1) / STRIDE, of_row = (grid_out + STRIP - 1) / STRIP;
    int channel = blockIdx.y * SLICE + threadIdx.x % (SLICE / 4) * 4;
    int strip = blockIdx.x * STRIPS + threadIdx.x / (SLICE / 4);
    int row = strip / of_row, column = strip % of_row * STRIP;
    dependent_wait();
    dependent_launch();
    if (channel >= p.channels || row >= grid_out) return;
    uint2 pixels[3][FROM];
#pragma unroll
    for (int dy = 0; dy < 3; dy++)
#pragma unroll
        for (int i = 0; i < FROM; i++) {
            int y = row * STRIDE + dy - 1, x = column * STRIDE + i - 1;
            bool there = (u32)y < (u32)p.grid && (u32)x < (u32)p.grid;
            pixels[dy][i] = make_uint2(0, 0);
            if (there) pixels[dy][i] = load_halves(p.x + (y * p.grid + x) * p.channels + channel);
        }
    float4 sums[STRIP], gate = make_float4(1.0f, 1.0f, 1.0f, 1.0f), bias = load_floats(p.bias + channel);
    if (p.gate) gate = *(const float4*)(p.gate + channel);  // by a launch of this frame: no `.nc`
#pragma unroll
    for (int i = 0; i < STRIP; i++) sums[i] = bias;
#pragma unroll
    for (int dy = 0; dy < 3; dy++)
#pragma unroll
        for (int dx = 0; dx < 3; dx++) {
            float4 tap = load_floats(p.weight + (dy * 3 + dx) * p.channels + channel);
#pragma unroll
            for (int i = 0; i < STRIP; i++) {
                uint2 halves = pixels[dy][i * STRIDE + dx];
                float2 low = to_float2(halves.x), high = to_float2(halves.y);
                sums[i].x = fmaf(low.x, tap.x, sums[i].x), sums[i].y = fmaf(low.y, tap.y, sums[i].y);
                sums[i].z = fmaf(high.x, tap.z, sums[i].z), sums[i].w = fmaf(high.y, tap.w, sums[i].w);
            }
        }
#pragma unroll
    for (int i = 0; i < STRIP; i++)
        if (column + i < grid_out)
            store_halves(p.y + (row * grid_out + column + i) * p.channels + channel,
                         make_uint2(to_f16x2(sums[i].x * gate.x, sums[i].y * gate.y),
                                    to_f16x2(sums[i].z * gate.z, sums[i].w * gate.w)));
}

// ---- gemm ----

constexpr int GEMM_WARPS = 12, GEMM_THREADS = GEMM_WARPS * 32;
constexpr int TILES = 6;                       // of columns, of a block
constexpr int GEMM_COLUMNS = TILES * TILE;
constexpr int AHEAD = 8;                       // steps of weights under way
enum Epilogue { BIAS, GELU, RESIDUAL };

/// What a launch is given.
struct GemmProblem {
    const f16* tokens;    // [rows, depth]
    const f16* weight;    // packed, [columns, depth]
    const float* bias;    // [columns]
    const f16* residual;  // [rows, columns], or null
    f16* out;             // [rows, columns]
    int rows, columns, depth;
};

/// GROUPS x 32 tokens of a block; the depth in PARTS, each of other warps.
template <int GROUPS, int PARTS, Epilogue EPILOGUE>
class Gemm {
    static_assert(GROUPS * PARTS * TILES == GEMM_WARPS, "a warp has a tile of columns");
    int lane, tile, group, part;
    u32 shared, pitch;

    /// Starts the copies of the block's tokens, zeros beyond the last and beyond the depth.
    __device__ __forceinline__ void fetch_tokens(const GemmProblem& p, int steps) const {
        int units = steps * 2, first = blockIdx.x * GROUPS * ROWS;
        for (int at = threadIdx.x; at < GROUPS * ROWS * units; at += GEMM_THREADS) {
            int row = at / units, unit = at - row * units;
            bool there = first + row < p.rows && unit * 8 < p.depth;
            copy16(shared + row * pitch + unit * 16,
                   there ? p.tokens + (first + row) * p.depth + unit * 8 : p.tokens, there);
        }
        copies_commit();
    }

    /// The sums of other parts of the depth, in the place of the tokens.
    __device__ __forceinline__ void add_parts(Sums& sums) const {
        block_barrier();
        u32 at = shared + ((group * TILES + tile) * 32 + lane) * 16;
        constexpr u32 NEXT = GROUPS * TILES * 512;
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < 2; n++)
                if (part > 0) {
                    const float(&of)[4] = sums[m][n];
                    store_shared_floats(at + (m * 2 + n) * NEXT, make_float4(of[0], of[1], of[2], of[3]));
                }
        block_barrier();
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < 2; n++)
                if (part == 0) {
                    float4 of = load_shared_floats(at + (m * 2 + n) * NEXT);
                    sums[m][n][0] += of.x, sums[m][n][1] += of.y, sums[m][n][2] += of.z,
                        sums[m][n][3] += of.w;
                }
    }

public:
    static constexpr int TOKENS = GROUPS * ROWS;
    __device__ __forceinline__ void run(const GemmProblem& p, u32 memory) {
        static_assert(PARTS <= 2, "one part stores its sums");
        shared = memory, lane = threadIdx.x & 31;
        int warp = threadIdx.x >> 5;
        tile = warp % TILES, group = warp / TILES % GROUPS, part = warp / TILES / GROUPS;
        int steps = (p.depth + STEP - 1) / STEP, tiles = (p.columns + TILE - 1) / TILE;
        pitch = steps * 32 + 16;
        int own_tile = blockIdx.y * TILES + tile;
        bool there = own_tile < tiles;
        int first = steps * part / PARTS, end = steps * (part + 1) / PARTS;
        const f16* weight = p.weight + (there ? own_tile : 0) * steps * PACKED + lane * 8;
        u32 ring[AHEAD][4];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i < end) load_coherent(ring[i], weight + (first + i) * PACKED);
        int column = own_tile * TILE + (lane & 3) * 4;
        bool stored = there && column < p.columns;
        float4 bias = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (stored && part == 0) bias = load_floats(p.bias + column);
        dependent_wait();
        dependent_launch();
        fetch_tokens(p, steps);
        Sums sums;
        begin(sums, bias);
        int row = blockIdx.x * TOKENS + group * ROWS;
        if (EPILOGUE == RESIDUAL && stored && part == 0)
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    int token = row + m * 16 + i * 8 + (lane >> 2);
                    if (token < p.rows)
                        add_token(sums, m, i, load_halves(p.residual + token * p.columns + column));
                }
        copies_wait<0>();
        block_barrier();
        u32 from = left_of(shared + group * ROWS * pitch, pitch, lane);
        for (int step = first; step < end; step += AHEAD)
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                if (step + i >= end) break;
                u32 a[2][4];
                load_left(a, from + (step + i) * 32, pitch);
                multiply(sums, a, ring[i]);
                if (step + i + AHEAD < end) load_weights(ring[i], weight + (step + i + AHEAD) * PACKED);
            }
        if (PARTS > 1) add_parts(sums);
        if (!stored || part > 0) return;
        auto act = [](float x) { return EPILOGUE == GELU ? gelu(x) : x; };
        each_token(sums, lane, act, [&](int token, int, uint2 halves) {
            if (row + token < p.rows) store_halves(p.out + (row + token) * p.columns + column, halves);
        });
    }
};
constexpr int GEMM_TOKENS = 32, GEMM_GELU_TOKENS = 64;
typedef Gemm<1, 2, BIAS> GemmBias;
typedef Gemm<2, 1, GELU> GemmGelu;
typedef Gemm<1, 2, RESIDUAL> GemmResidual;
static_assert(GemmBias::TOKENS == GEMM_TOKENS && GemmResidual::TOKENS == GEMM_TOKENS, "of launches");
static_assert(GemmGelu::TOKENS == GEMM_GELU_TOKENS, "of launches");
static_assert(GEMM_COLUMNS == 96, "of launches");

// ---- instances ----

extern "C" __global__ void __launch_bounds__(SUM_THREADS)
    repvit_sums(const f16* x, const float* edges, long long* sums, int grid, int channels, int chunk) {
    __shared__ float4 parts[SUM_THREADS];
    sum_tokens({x, edges, sums, grid, channels, chunk}, parts);
}

extern "C" __global__ void __launch_bounds__(GATE_THREADS)
    repvit_gate(const long long* sums, const float* bias, const f16* squeeze, const float* squeeze_bias,
                const f16* excite, const float* excite_bias, float* gate, int channels, int squeezed,
                int tokens) {
    __shared__ float means[MOST_CHANNELS], squeezed_means[MOST_SQUEEZED];
    gate_channels({sums, bias, squeeze, squeeze_bias, excite, excite_bias, gate, channels, squeezed, tokens},
                  means, squeezed_means);
}

#define REPVIT_DWCONV(name, STRIDE)                                                                          \
    extern "C" __global__ void __launch_bounds__(CONV_THREADS)                                               \
        name(const f16* x, const float* weight, const float* bias, const float* gate, f16* y, int grid,      \
             int channels) {                                                                                 \
        convolve<STRIDE>({x, weight, bias, gate, y, grid, channels});                                        \
    }
REPVIT_DWCONV(repvit_dwconv, 1)
REPVIT_DWCONV(repvit_dwconv_stride2, 2)

#define REPVIT_GEMM(name, KIND)                                                                              \
    extern "C" __global__ void __launch_bounds__(GEMM_THREADS, 1)                                            \
        name(const f16* tokens, const f16* weight, const float* bias, const f16* residual, f16* out,         \
             int rows, int columns, int depth) {                                                             \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        KIND().run({tokens, weight, bias, residual, out, rows, columns, depth}, shared_address(memory));     \
    }
REPVIT_GEMM(repvit_gemm_bias, GemmBias)
REPVIT_GEMM(repvit_gemm_gelu, GemmGelu)
REPVIT_GEMM(repvit_gemm_residual, GemmResidual)
