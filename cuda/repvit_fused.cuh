/*!
A block of RepViT in one launch, for repvit_block.cu and repvit_block_hopper.cu, which say what it
computes.

Needs repvit_block.cuh in front.
*/
#pragma once

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

/// A block that shares its tile with no other.
struct Alone {
    static constexpr int BLOCKS = 1;
    static constexpr int rank = 0;
    __device__ __forceinline__ void begin(u32) {}
    __device__ __forceinline__ void wait_until_begun() const {}
    __device__ __forceinline__ void send_word(u32, u32) const {}
    __device__ __forceinline__ void send_halves(u32, uint2) const {}
    __device__ __forceinline__ void send_float(u32, float) const {}
    __device__ __forceinline__ void barrier() const { block_barrier(); }
};

/// IN columns of x. COLUMNS x LINES groups make a tile, whose columns Team::BLOCKS blocks share.
/// AHEAD: units of weights under way.
template <class Team, int IN, int C, int COLUMNS, int LINES, int AHEAD>
class Block {
    // Columns that this block has of x, and of y and z; of the hidden ones twice as many.
    static constexpr int OWN_IN = IN / Team::BLOCKS, OWN = C / Team::BLOCKS;

public:
    static constexpr int BLOCKS = Team::BLOCKS;
    static constexpr int GROUP_THREADS = OWN * 2, THREADS = COLUMNS * LINES * GROUP_THREADS;
    static constexpr int TILE_COLUMNS = COLUMNS * ACROSS, TILE_LINES = LINES * DOWN;

private:
    static constexpr bool CHANGES = IN != C, GATED_LAST = C > 96;
    static constexpr int STRIDE = CHANGES ? 2 : 1, STRIP = ACROSS / STRIDE;  // tokens of a thread
    static constexpr int TOKENS = TILE_COLUMNS * TILE_LINES, GROUP_WARPS = GROUP_THREADS / 32;
    static constexpr int PAIRS = OWN_IN / 2;
    // Pixels that a tile and a strip are made of.
    static constexpr int FROM_COLUMNS = (TILE_COLUMNS - 1) * STRIDE + 3;
    static constexpr int FROM_LINES = (TILE_LINES - 1) * STRIDE + 3, FROM_STRIP = (STRIP - 1) * STRIDE + 3;
    // Bytes: of a pixel; of a row of pixels, so that lanes of two rows have different banks; of a
    // token of y and of its hidden columns, so that rows of a matrix have.
    static constexpr u32 PIXEL = OWN_IN * 2;
    static constexpr u32 FROM_LINE = FROM_COLUMNS * PIXEL + (128 - FROM_COLUMNS * PIXEL % 128 + PIXEL) % 128;
    static constexpr u32 PITCH = C * 2 + 16, HIDDEN_PITCH = C * 4 + 16, POINT_PITCH = IN * 2 + 16;
    static constexpr u32 FROM_BYTES = FROM_LINES * FROM_LINE, HIDDEN_BYTES = TOKENS * HIDDEN_PITCH;
    // Behind y: first the pixels, then the hidden columns. Behind those: what the gate takes, or
    // where columns change the convolution's results.
    typedef Excite<Team, C, THREADS> Gate;
    static constexpr u32 BEHIND = TOKENS * PITCH;
    static constexpr u32 APART = BEHIND + (FROM_BYTES > HIDDEN_BYTES ? FROM_BYTES : HIDDEN_BYTES);
    // Steps of the products.
    static constexpr int POINT_STEPS = IN / STEP, UP_STEPS = C / STEP, DOWN_STEPS = C * 2 / STEP;
    static_assert(UP_STEPS * 2 % AHEAD == 0 && DOWN_STEPS % AHEAD == 0, "rounds of the ring");
    static_assert(OWN % 16 == 0 && GROUP_WARPS * TILE == OWN, "a warp has a tile of z, two of hidden columns");
    static_assert(OWN_IN % 8 == 0, "copies of 16 bytes");
    static_assert(GROUP_THREADS * STRIP == PAIRS * ROWS, "a thread has a strip of a pair of channels");

public:
    static constexpr u32 SHARED = CHANGES ? APART + TOKENS * POINT_PITCH : APART + Gate::BYTES;

private:
    Team team;
    int lane, group, warp;      // this warp of all that a group has
    int strip, channel;         // this thread's strip of the group, and the first of its channels
    int top, left;              // of the tile
    int group_top, group_left;  // in the tile
    int side;                   // of z's map
    u32 shared;
    u32 ring[AHEAD][4];
    const f16 *own_up, *own_down;

    __device__ __forceinline__ void place(const BlockProblem& p, u32 memory) {
        team.begin(memory);
        shared = memory, lane = threadIdx.x & 31, side = p.grid / STRIDE;
        group = threadIdx.x / GROUP_THREADS;
        int own = threadIdx.x % GROUP_THREADS;
        warp = team.rank * GROUP_WARPS + (own >> 5);
        strip = own / PAIRS, channel = team.rank * OWN_IN + own % PAIRS * 2;
        top = blockIdx.y * TILE_LINES, left = blockIdx.x / BLOCKS * TILE_COLUMNS;
        group_top = group / COLUMNS * DOWN, group_left = group % COLUMNS * ACROSS;
        own_up = p.up + warp * UP_STEPS * 2 * PACKED + lane * 8;
        own_down = p.down + warp * DOWN_STEPS * PACKED + lane * 8;
    }

    /// Asks for the unit of this warp's weights that has place `at` of the ring.
    __device__ __forceinline__ void fetch(int at, const f16* from) {
        load_weights(ring[at], from + at * PACKED);
    }

    /// Asks for the first units. In a cluster these loads must stay in front of the wait.
    __device__ __forceinline__ void fetch_first() {
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (BLOCKS > 1) load_coherent(ring[i], own_up + i * PACKED);
            else fetch(i, own_up);
    }

    /// Starts the copies of the pixels; zeros around the map.
    __device__ __forceinline__ void fetch_pixels(const BlockProblem& p) const {
        constexpr int UNITS = OWN_IN / 8, ALL = FROM_LINES * FROM_COLUMNS * UNITS;
#pragma unroll
        for (int i = 0; i < (ALL + THREADS - 1) / THREADS; i++) {
            int at = i * THREADS + threadIdx.x, pixel = at / UNITS, unit = at % UNITS;
            int row = pixel / FROM_COLUMNS, column = pixel % FROM_COLUMNS;
            int y = top * STRIDE + row - 1, x = left * STRIDE + column - 1;
            bool there = (u32)y < (u32)p.grid && (u32)x < (u32)p.grid;
            if (at < ALL)
                copy16(shared + BEHIND + row * FROM_LINE + column * PIXEL + unit * 16,
                       there ? p.x + (y * p.grid + x) * IN + team.rank * OWN_IN + unit * 8 : p.x, there);
        }
        copies_commit();
    }

    /// A word for the tokens of all blocks that share the tile.
    __device__ __forceinline__ void share_word(u32 to, u32 word) const {
        store_shared_word(to, word);
        team.send_word(to, word);
    }
    __device__ __forceinline__ void share_halves(u32 to, uint2 halves) const {
        store_shared_halves(to, halves);
        team.send_halves(to, halves);
    }

    /// The convolution's results of this thread's tokens.
    __device__ __forceinline__ void convolve(float2 (&sums)[STRIP], const float2 (&taps)[TAPS],
                                             float2 bias) const {
#pragma unroll
        for (int i = 0; i < STRIP; i++) sums[i] = bias;
        int line = strip / STRIDE, first = strip % STRIDE * STRIP;
        u32 from = shared + BEHIND + (group_top + line) * STRIDE * FROM_LINE +
                   (group_left + first) * STRIDE * PIXEL + (channel - team.rank * OWN_IN) * 2;
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
    }

    /// Stores them in shared memory, times the gate.
    __device__ __forceinline__ void store_convolved(const float2 (&sums)[STRIP], float2 gate) const {
        constexpr u32 TO_PITCH = CHANGES ? POINT_PITCH : PITCH;
        int line = strip / STRIDE, first = strip % STRIDE * STRIP;
        int token = group * ROWS + line * ACROSS + first;
        u32 to = shared + (CHANGES ? APART : 0) + token * TO_PITCH + channel * 2;
#pragma unroll
        for (int i = 0; i < STRIP; i++)
            share_word(to + i * TO_PITCH, to_f16x2(sums[i].x * gate.x, sums[i].y * gate.y));
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
            share_halves(to + token * PITCH + column * 2, halves);
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
                share_halves(to + token * HIDDEN_PITCH + t * TILE * 2 + column * 2, halves);
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
            add_weighted(own, halves, load_floats(p.edges + edge_of(y, x, side) * C + column));
        });
        if (!p.next) return;
        sum_of_tokens(own);
        if (lane >= 4) return;
        long long* to = p.next + (blockIdx.y * gridDim.x + blockIdx.x) / BLOCKS % COPIES * C + column;
        add_fixed(to, own);
    }

public:
    __device__ __forceinline__ void run(const BlockProblem& p, u32 memory) {
        place(p, memory);
        float2 bias = load_pair(p.bias + channel), factors = make_float2(1.0f, 1.0f), taps[TAPS];
        Gate gate(team, lane, channel, shared + APART);
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
        // With registers for both, the gate is computed beside the convolution.
        if (gated && !GATED_LAST) {
            gate.take_means(p.gate, p.bias, p.grid * p.grid);
            block_barrier();
            gate.squeeze_means();
            factors = gate.factors(p.gate);
        }
#pragma unroll
        for (int i = 0; i < TAPS; i++) taps[i] = load_pair(p.weight + i * IN + channel);
        if (gated && GATED_LAST) gate.take_means(p.gate, p.bias, p.grid * p.grid);
        float4 up_bias[2] = {load_floats(p.up_bias + column + warp * TILE),
                             load_floats(p.up_bias + column + warp * TILE + TILE)};
        float4 down_bias = load_floats(p.down_bias + column);
        copies_wait<0>();
        block_barrier();
        team.wait_until_begun();
        if (gated && GATED_LAST) gate.squeeze_means();
        float2 convolved[STRIP];
        convolve(convolved, taps, bias);
        if (gated && GATED_LAST) factors = gate.factors(p.gate);
        store_convolved(convolved, factors);
        team.barrier();
        if (CHANGES) {
            project(point, point_bias);
            team.barrier();
        }
        expand(up_bias);
        team.barrier();
        Sums sums;
        begin(sums, down_bias);
        narrow(sums);
        store(p, sums, column);
    }
};
