/*!
A block of RepViT in one launch, for any GPU from sm 80 on: y = depthwise 3x3 of x, times a gate if
the block has squeeze-and-excite, and z = y + D GELU(U y + u) + d. The hidden columns, twice as many
as y's, stay on the multiprocessor. Where columns change (repvit_down_*), the convolution has stride
2 and y is its result times another matrix.

T tokens of z with C columns; sm 80 on. The depthwise convolution is no matmul.

| kernel           | M, N, K                                 | tile of T | threads | stages | shared bytes | registers |
|------------------|-----------------------------------------|-----------|---------|--------|--------------|-----------|
| repvit_block_48  | T, 96, 48; T, 48, 96                    | 16 x 8    | 384     | 1      | 44 320       | 80        |
| repvit_block_96  | T, 192, 96; T, 96, 192                  | 8 x 8     | 384     | 1      | 42 464       | 80        |
| repvit_block_192 | T, 384, 192; T, 192, 384                | 8 x 4     | 384     | 1      | 41 920       | 168       |
| repvit_down_96   | T, 96, 48; T, 192, 96; T, 96, 192       | 8 x 8     | 384     | 1      | 49 536       | 80        |
| repvit_down_192  | T, 192, 96; T, 384, 192; T, 192, 384    | 8 x 4     | 384     | 1      | 50 048       | 168       |

A tile is made of groups of 8 x 4 tokens, and a group has C / 16 warps. A thread convolves two
channels of tokens in a row. Then a warp has 32 hidden columns of its group's tokens, and last
16 columns of z. So each warp has weights of its own (repvit.cuh), which it asks for before the
previous kernel has ended, AHEAD units of 16 bytes a lane in advance; where columns change, behind
that. Groups of a block ask for the same weights, from the L1 cache.

The gate needs the means of y over the map, and so of x (repvit_sums). Whoever writes x adds up its
sums: this kernel for the next block, if that has a gate. Each block of the launch computes the gate
for itself while its pixels come.

Tokens past the map's end are computed from zeros and not stored. Blocks read what others do: z is
not x.

Grid: ceil(grid of z / columns of a tile) x ceil(grid of z / rows of a tile).
*/
#include "ptx.cuh"
#include "attention.cuh"
#include "f16x2.cuh"
#include "gelu.cuh"
#include "repvit.cuh"
#include "repvit_block.cuh"

// ---- blocks ----

constexpr int ACROSS = 8, DOWN = 4;  // tokens of a group

/// What a launch is given.
struct BlockProblem {
    const f16* x;           // [grid, grid, columns of x]
    const float* weight;    // [9, columns of x]
    const float* bias;
    GateProblem gate;
    const f16* point;       // packed, [C, columns of x]: where columns change
    const float* point_bias;
    const f16* up;          // packed, [2 C, C]
    const float* up_bias;
    const f16* down;        // packed, [C, 2 C]
    const float* down_bias;
    f16* z;
    const float* edges;     // of the next block, [9, C]
    long long* next;        // its sums, [COPIES, C], or null
    int grid;
};

/// IN columns of x. COLUMNS x LINES groups make a tile. AHEAD: units of weights under way.
template <int IN, int C, int COLUMNS, int LINES, int AHEAD>
class Block {
public:
    static constexpr int GROUP_THREADS = C * 2, THREADS = COLUMNS * LINES * GROUP_THREADS;
    static constexpr int TILE_COLUMNS = COLUMNS * ACROSS, TILE_LINES = LINES * DOWN;

private:
    static constexpr bool CHANGES = IN != C;
    static constexpr int STRIDE = CHANGES ? 2 : 1, STRIP = ACROSS / STRIDE;  // tokens of a thread
    static constexpr int TOKENS = TILE_COLUMNS * TILE_LINES, GROUP_WARPS = GROUP_THREADS / 32;
    static constexpr int PAIRS = IN / 2;
    // Pixels that a tile and a strip are made of.
    static constexpr int FROM_COLUMNS = (TILE_COLUMNS - 1) * STRIDE + 3;
    static constexpr int FROM_LINES = (TILE_LINES - 1) * STRIDE + 3, FROM_STRIP = (STRIP - 1) * STRIDE + 3;
    // Bytes: of a pixel; of a row of pixels, so that lanes of two rows have different banks; of a
    // token of y and of its hidden columns, so that rows of a matrix have.
    static constexpr u32 PIXEL = IN * 2;
    static constexpr u32 FROM_LINE = FROM_COLUMNS * PIXEL + (128 - FROM_COLUMNS * PIXEL % 128 + PIXEL) % 128;
    static constexpr u32 PITCH = C * 2 + 16, HIDDEN_PITCH = C * 4 + 16, POINT_PITCH = PIXEL + 16;
    static constexpr u32 FROM_BYTES = FROM_LINES * FROM_LINE, HIDDEN_BYTES = TOKENS * HIDDEN_PITCH;
    // Behind y: first the pixels, then the hidden columns. Behind those: what the gate takes, or where
    // columns change the convolution's results.
    typedef Excite<C, THREADS> Gate;
    static constexpr u32 BEHIND = TOKENS * PITCH;
    static constexpr u32 APART = BEHIND + (FROM_BYTES > HIDDEN_BYTES ? FROM_BYTES : HIDDEN_BYTES);
    // Steps of the products.
    static constexpr int POINT_STEPS = IN / STEP, UP_STEPS = C / STEP, DOWN_STEPS = C * 2 / STEP;
    static_assert(UP_STEPS * 2 % AHEAD == 0 && DOWN_STEPS % AHEAD == 0, "rounds of the ring");
    static_assert(C % 16 == 0 && GROUP_WARPS * TILE == C, "a warp has a tile of z and two of the hidden columns");
    static_assert(GROUP_THREADS * STRIP == PAIRS * ROWS, "a thread has a strip of a pair of channels");

public:
    static constexpr u32 SHARED = CHANGES ? APART + TOKENS * POINT_PITCH : APART + Gate::BYTES;

private:
    int lane, group, warp;      // this warp of the group
    int strip, channel;         // this thread's strip of the group, and the first of its channels
    int top, left;              // of the tile
    int group_top, group_left;  // in the tile
    int side;                   // of z's map
    u32 shared;
    u32 ring[AHEAD][4];
    const f16 *own_up, *own_down;

    __device__ __forceinline__ void place(const BlockProblem& p, u32 memory) {
        shared = memory, lane = threadIdx.x & 31, side = p.grid / STRIDE;
        group = threadIdx.x / GROUP_THREADS;
        int own = threadIdx.x % GROUP_THREADS;
        warp = own >> 5, strip = own / PAIRS, channel = own % PAIRS * 2;
        top = blockIdx.y * TILE_LINES, left = blockIdx.x * TILE_COLUMNS;
        group_top = group / COLUMNS * DOWN, group_left = group % COLUMNS * ACROSS;
        own_up = p.up + warp * UP_STEPS * 2 * PACKED + lane * 8;
        own_down = p.down + warp * DOWN_STEPS * PACKED + lane * 8;
    }

    /// Asks for the unit of this warp's weights that has place `at` of the ring.
    __device__ __forceinline__ void fetch(int at, const f16* from) {
        load_weights(ring[at], from + at * PACKED);
    }

    __device__ __forceinline__ void fetch_first() {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) fetch(i, own_up);
    }

    /// Starts the copies of the pixels; zeros around the map.
    __device__ __forceinline__ void fetch_pixels(const BlockProblem& p) const {
        constexpr int UNITS = IN / 8, ALL = FROM_LINES * FROM_COLUMNS * UNITS;
#pragma unroll
        for (int i = 0; i < (ALL + THREADS - 1) / THREADS; i++) {
            int at = i * THREADS + threadIdx.x, pixel = at / UNITS, unit = at % UNITS;
            int row = pixel / FROM_COLUMNS, column = pixel % FROM_COLUMNS;
            int y = top * STRIDE + row - 1, x = left * STRIDE + column - 1;
            bool there = (u32)y < (u32)p.grid && (u32)x < (u32)p.grid;
            if (at < ALL)
                copy16(shared + BEHIND + row * FROM_LINE + column * PIXEL + unit * 16,
                       there ? p.x + (y * p.grid + x) * IN + unit * 8 : p.x, there);
        }
        copies_commit();
    }

    /// The convolution's results of this thread's tokens, to shared memory.
    __device__ __forceinline__ void convolve(const float2 (&taps)[TAPS], float2 bias, float2 gate) const {
        float2 sums[STRIP];
#pragma unroll
        for (int i = 0; i < STRIP; i++) sums[i] = bias;
        int line = strip / STRIDE, first = strip % STRIDE * STRIP;
        u32 from = shared + BEHIND + (group_top + line) * STRIDE * FROM_LINE +
                   (group_left + first) * STRIDE * PIXEL + channel * 2;
#pragma unroll
        for (int dy = 0; dy < 3; dy++) {
            float2 pixels[FROM_STRIP];
#pragma unroll
            for (int i = 0; i < FROM_STRIP; i++)
                pixels[i] = to_float2(shared_word(from + dy * FROM_LINE + i * PIXEL));
#pragma unroll
            for (int dx = 0; dx < 3; dx++)
#pragma unroll
                for (int i = 0; i < STRIP; i++) {
                    float2 pixel = pixels[i * STRIDE + dx], tap = taps[dy * 3 + dx];
                    sums[i].x = fmaf(pixel.x, tap.x, sums[i].x), sums[i].y = fmaf(pixel.y, tap.y, sums[i].y);
                }
        }
        constexpr u32 TO_PITCH = CHANGES ? POINT_PITCH : PITCH;
        u32 to = shared + (CHANGES ? APART : 0) + (group * ROWS + line * ACROSS + first) * TO_PITCH + channel * 2;
#pragma unroll
        for (int i = 0; i < STRIP; i++)
            store_shared_word(to + i * TO_PITCH, to_f16x2(sums[i].x * gate.x, sums[i].y * gate.y));
    }

    /// The warp's columns of y from the convolution's results, where columns change.
    __device__ __forceinline__ void project(const u32 (&weights)[POINT_STEPS][4], float4 bias) const {
        Sums sums;
        begin(sums, bias);
        u32 from = left_of(shared + APART + group * ROWS * POINT_PITCH, POINT_PITCH, lane);
#pragma unroll
        for (int step = 0; step < POINT_STEPS; step++) {
            u32 a[2][4];
            load_left(a, from + step * 32, POINT_PITCH);
            multiply(sums, a, weights[step]);
        }
        u32 to = shared + group * ROWS * PITCH + warp * TILE * 2;
        each_token(sums, lane, [](float x) { return x; }, [&](int token, int column, uint2 halves) {
            store_shared_halves(to + token * PITCH + column * 2, halves);
        });
    }

    /// The warp's hidden columns of its group's tokens, to shared memory.
    __device__ __forceinline__ void expand(const float4 (&bias)[2]) {
        Sums sums[2];
        begin(sums[0], bias[0]), begin(sums[1], bias[1]);
        u32 from = left_of(shared + group * ROWS * PITCH, PITCH, lane);
#pragma unroll 1
        for (int step = 0; step < UP_STEPS; step += AHEAD / 2) {
            bool last = step + AHEAD / 2 == UP_STEPS;
            const f16* next = last ? own_down : own_up + (step * 2 + AHEAD) * PACKED;
#pragma unroll
            for (int i = 0; i < AHEAD / 2; i++) {
                u32 a[2][4];
                load_left(a, from + (step + i) * 32, PITCH);
#pragma unroll
                for (int t = 0; t < 2; t++) {
                    multiply(sums[t], a, ring[i * 2 + t]);
                    fetch(i * 2 + t, next);
                }
            }
        }
        u32 to = shared + BEHIND + group * ROWS * HIDDEN_PITCH + warp * TILE * 4;
#pragma unroll
        for (int t = 0; t < 2; t++)
            each_token(sums[t], lane, gelu, [&](int token, int column, uint2 halves) {
                store_shared_halves(to + token * HIDDEN_PITCH + t * TILE * 2 + column * 2, halves);
            });
    }

    /// The warp's columns of z: of the hidden ones, and y.
    __device__ __forceinline__ void narrow(Sums& sums) {
        u32 from = left_of(shared + BEHIND + group * ROWS * HIDDEN_PITCH, HIDDEN_PITCH, lane);
#pragma unroll 1
        for (int step = 0; step < DOWN_STEPS; step += AHEAD) {
            bool last = step + AHEAD == DOWN_STEPS;
            const f16* next = own_down + (step + AHEAD) * PACKED;
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                u32 a[2][4];
                load_left(a, from + (step + i) * 32, HIDDEN_PITCH);
                multiply(sums, a, ring[i]);
                if (!last) fetch(i, next);
            }
        }
        u32 own = shared + (group * ROWS + (lane >> 2)) * PITCH + warp * 32 + (lane & 3) * 8;
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                add_token(sums, m, i, shared_halves(own + (m * 16 + i * 8) * PITCH));
    }

    /// Stores z, and adds it to the next block's sums.
    __device__ __forceinline__ void store(const BlockProblem& p, const Sums& sums, int column) const {
        float4 own = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        each_token(sums, lane, [](float x) { return x; }, [&](int token, int, uint2 halves) {
            int y = top + group_top + token / ACROSS, x = left + group_left + token % ACROSS;
            if (y >= side || x >= side) return;
            store_halves(p.z + (y * side + x) * C + column, halves);
            if (!p.next) return;
            float4 weight = load_floats(p.edges + edge_of(y, x, side) * C + column);
            float2 low = to_float2(halves.x), high = to_float2(halves.y);
            own.x = fmaf(low.x, weight.x, own.x), own.y = fmaf(low.y, weight.y, own.y);
            own.z = fmaf(high.x, weight.z, own.z), own.w = fmaf(high.y, weight.w, own.w);
        });
        if (!p.next) return;
#pragma unroll
        for (int mask = 4; mask < 32; mask *= 2) {
            own.x += from_lane(own.x, mask), own.y += from_lane(own.y, mask);
            own.z += from_lane(own.z, mask), own.w += from_lane(own.w, mask);
        }
        if (lane >= 4) return;
        long long* to = p.next + (blockIdx.y * gridDim.x + blockIdx.x) % COPIES * C + column;
        add_fixed(to, own.x * SUM_UNIT), add_fixed(to + 1, own.y * SUM_UNIT);
        add_fixed(to + 2, own.z * SUM_UNIT), add_fixed(to + 3, own.w * SUM_UNIT);
    }

public:
    __device__ __forceinline__ void run(const BlockProblem& p, u32 memory) {
        place(p, memory);
        float2 bias = load_pair(p.bias + channel), factors = make_float2(1.0f, 1.0f), taps[TAPS];
        Gate gate(lane, channel, shared + APART);
        bool gated = !CHANGES && p.gate.sums;
        // Where columns change, weights of two products are under way, and no register is left.
        if (!CHANGES) fetch_first();
        if (gated) gate.load(p.gate);
        dependent_wait();
        dependent_launch();
        fetch_pixels(p);
        if (CHANGES) fetch_first();
        int column = warp * TILE + (lane & 3) * 4;
        u32 point[POINT_STEPS][4];
        float4 point_bias = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (CHANGES) {
            const f16* own = p.point + warp * POINT_STEPS * PACKED + lane * 8;
#pragma unroll
            for (int i = 0; i < POINT_STEPS; i++) load_weights(point[i], own + i * PACKED);
            point_bias = load_floats(p.point_bias + column);
        }
        if (gated) factors = gate.gate(p.gate, p.bias, p.grid * p.grid);
#pragma unroll
        for (int i = 0; i < TAPS; i++) taps[i] = load_pair(p.weight + i * IN + channel);
        float4 up_bias[2] = {load_floats(p.up_bias + column + warp * TILE),
                             load_floats(p.up_bias + column + warp * TILE + TILE)};
        float4 down_bias = load_floats(p.down_bias + column);
        copies_wait<0>();
        block_barrier();
        convolve(taps, bias, factors);
        block_barrier();
        if (CHANGES) {
            project(point, point_bias);
            block_barrier();
        }
        expand(up_bias);
        block_barrier();
        Sums sums;
        begin(sums, down_bias);
        narrow(sums);
        store(p, sums, column);
    }
};
typedef Block<48, 48, 2, 2, 6> Block48;
typedef Block<96, 96, 1, 2, 6> Block96;
typedef Block<192, 192, 1, 1, 12> Block192;
typedef Block<48, 96, 1, 2, 4> Down96;
typedef Block<96, 192, 1, 1, 12> Down192;
constexpr u32 repvit_block_48_shared = Block48::SHARED, repvit_block_96_shared = Block96::SHARED;
constexpr u32 repvit_block_192_shared = Block192::SHARED, repvit_down_96_shared = Down96::SHARED;
constexpr u32 repvit_down_192_shared = Down192::SHARED;
constexpr int COLUMNS_48 = Block48::TILE_COLUMNS, LINES_48 = Block48::TILE_LINES;
constexpr int COLUMNS_96 = Block96::TILE_COLUMNS, LINES_96 = Block96::TILE_LINES;
constexpr int COLUMNS_192 = Block192::TILE_COLUMNS, LINES_192 = Block192::TILE_LINES;
static_assert(repvit_block_48_shared == 44288 && COLUMNS_48 == 16 && LINES_48 == 8, "of launches");
static_assert(repvit_block_96_shared == 42464 && COLUMNS_96 == 8 && LINES_96 == 8, "of launches");
static_assert(repvit_block_192_shared == 41920 && COLUMNS_192 == 8 && LINES_192 == 4, "of launches");
static_assert(repvit_down_96_shared == 48224 && repvit_down_192_shared == 48832, "of launches");

// ---- instances ----

#define REPVIT_BLOCK(name, KIND, BLOCKS)                                                                     \
    extern "C" __global__ void __launch_bounds__(KIND::THREADS, BLOCKS)                                      \
        name(const f16* x, const float* weight, const float* bias, const long long* sums,                    \
             const f16* squeeze, const float* squeeze_bias, const f16* excite, const float* excite_bias,     \
             const f16* up, const float* up_bias, const f16* down, const float* down_bias, f16* z,           \
             const float* edges, long long* next, int grid) {                                                \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        KIND().run({x, weight, bias, {sums, squeeze, squeeze_bias, excite, excite_bias}, nullptr, nullptr,   \
                    up, up_bias, down, down_bias, z, edges, next, grid},                                     \
                   shared_address(memory));                                                                  \
    }
REPVIT_BLOCK(repvit_block_48, Block48, 2)
REPVIT_BLOCK(repvit_block_96, Block96, 2)
REPVIT_BLOCK(repvit_block_192, Block192, 1)

#define REPVIT_DOWN(name, KIND, BLOCKS)                                                                      \
    extern "C" __global__ void __launch_bounds__(KIND::THREADS, BLOCKS)                                      \
        name(const f16* x, const float* weight, const float* bias, const f16* point,                         \
             const float* point_bias, const f16* up, const float* up_bias, const f16* down,                  \
             const float* down_bias, f16* z, const float* edges, long long* next, int grid) {                \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        KIND().run({x, weight, bias, {}, point, point_bias, up,                                              \
                    up_bias, down, down_bias, z, edges, next, grid},                                         \
                   shared_address(memory));                                                                  \
    }
REPVIT_DOWN(repvit_down_96, Down96, 2)
REPVIT_DOWN(repvit_down_192, Down192, 1)
