/*!
The memory encoder's mask and features become one: for any GPU from sm 80 on. Of token t of a grid
of g x g

    hidden = GELU(norm(W * wide + b))         256 channels: a 3x3 convolution, stride 2, of 64 channels of
                                              2g x 2g pixels, zeros around them
    x[t]   = M hidden + F feat[t] + s         256 columns; feat comes channels first, s is the sum of both
                                              biases; T = g^2

| kernel                                | M, N, K                     | tile   | threads | stages | shared |
|---------------------------------------|-----------------------------|--------|---------|--------|--------|
| memory_encoder_fuse_mask_and_features | T, 256, 576; then 256 + 256 | 2 x 16 | 256     | 3      | 93 312 |

f16 in and out, sums and norm in f32; `hidden` is rounded to halves as the left factor of the second
product, and both products end in the same sums.

A block has 2 rows of 16 tokens, each the sixteen rows of a fragment: at 1024 pixels 128 blocks, of
which each reads all weights from the L2 cache, 557 of the 599 KB that it reads. That is what bounds
it where there are as many multiprocessors: the products, 4352 instructions of a multiprocessor,
take less than half the time, by count. A tile's tokens read 5 x 33 pixels of `wide`, and of each
channel of feat 32 bytes in a row, a whole sector; of a tile of 4 x 8 it would be fewer pixels and
half sectors.

Eight warps have 32 columns each of both products, so nobody else needs a warp's weights. A lane
even copies to shared memory just what it multiplies itself, three steps of 32 columns ahead, 48 KB
of a block, through all three products without a stop: it waits for its own copies and for no one
else. There are three barriers, for what all warps share: pixels, what the norm needs of others'
columns, and `hidden`. The product with feat, which needs no `hidden`, lies before the last. Loaded
straight to registers weights would not pass shared memory, but a load's end is one of six signals
that a warp has: in a loop ptxas waits for all that are under way, and without one there are 43 KB
of instructions. All of this is counted; measured, it is 14.1 us, and 12.6 with three blocks, on an
H200.

What a thread holds of a product is up to it, as in memory_key_proj.cu: k goes in the order in which
a lane finds eight columns of a weight, a pixel or a row of `hidden` side by side, 16 bytes at a
time, and columns of the result in one where a lane's eight lie side by side. feat is turned by
ldmatrix, whose rows can be any channels.

Grid: `x` = tiles of 16 tokens in a row, `y` = rows of the grid / 2.
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"

// ---- attention ----

constexpr int DOWN = 2, ACROSS = 16;                       // tokens of a block
constexpr int TILE = DOWN * ACROSS;
constexpr int HIGH = 2 * DOWN + 1, WIDE = 2 * ACROSS + 1;  // pixels that they read
constexpr int CHANNELS = 64;                               // of a pixel
constexpr int TAPS = 9;
constexpr int COLUMNS = 256;                               // of feat, hidden and x
constexpr int WARPS = 8, JOIN_THREADS = WARPS * 32;
constexpr int WARP_COLUMNS = COLUMNS / WARPS;
constexpr int STEP = 32;                                   // columns that are multiplied at a time
constexpr int AHEAD = 3;                                   // steps whose weights are under way
constexpr int CONVOLUTION = TAPS * CHANNELS / STEP, PRODUCT = COLUMNS / STEP;  // steps of a matmul
constexpr float NORM_EPSILON = 1e-6f;

// Bytes of a row of pixels, of feat, of hidden.
constexpr u32 PIXEL = CHANNELS * 2, CHANNEL = TILE * 2, ROW = COLUMNS * 2;
constexpr u32 STATISTIC = WARPS * 8 + 16;  // of a token, each warp's; 16 bytes against bank conflicts
// Offsets in shared memory. `hidden` comes where the pixels were.
constexpr u32 FEATURES = HIGH * WIDE * PIXEL;
constexpr u32 STATISTICS = FEATURES + COLUMNS * CHANNEL;
constexpr u32 CONSTANTS = STATISTICS + TILE * STATISTIC;  // rows of 256 floats, as follow:
enum Constants { BIAS, NORM_WEIGHT, NORM_BIAS, SUM_BIAS, CONSTANT_ROWS };
constexpr u32 WEIGHTS = CONSTANTS + CONSTANT_ROWS * COLUMNS * 4;
constexpr u32 LANES = 32 * 16, STEP_BYTES = WARPS * 4 * LANES;  // of a unit of each lane; of a step's weights
[[maybe_unused]] constexpr u32 JOIN_BYTES = WEIGHTS + AHEAD * STEP_BYTES;
static_assert(FEATURES >= TILE * ROW && CONSTANT_ROWS * COLUMNS / 4 == JOIN_THREADS, "shared memory");

/// Everything a launch is given. All begin at multiples of 16 bytes; the grid is even.
struct JoinProblem {
    const f16 *wide, *weight;                       // [2 grid, 2 grid, 64], [256, 9, 64]
    const float *bias, *norm_weight, *norm_bias;    // [256]
    const f16 *mask_weight, *feat, *feature_weight; // [256, 256], [256, grid²], [256, 256]
    const float* sum_bias;                          // [256]
    f16* x;                                         // [grid², 256]
    int grid;
};

class Join {
    u32 shared;
    // The lane's rows of a fragment, `group` and group + 8, and columns 8 part to 8 part + 7 of a step.
    int warp, lane, group, part;
    int column;                   // of the result: this lane's first of eight
    // This lane's first row of each weight; what is fetched next of which, of rows how wide, and
    // how many steps were fetched.
    const f16 *convolution, *feature, *mask, *next;
    int width, fetched;
    // Where this lane's weights lie; of the three steps there the one whose turn it is.
    u32 own, place;
    // Of a row of tokens: the lane's columns 2 i and 2 i + 1, of tokens `group` and group + 8.
    float sums[DOWN][4][4];

    /// Starts the copies of the next step's weights, to where the turn is: a group, an empty one
    /// behind the last. Column n of a fragment's eight is the warp's column 8 (n / 2) + 2 i + n %
    /// 2.
    __device__ __forceinline__ void fetch() {
        if (fetched < CONVOLUTION + 2 * PRODUCT) {
#pragma unroll
            for (int i = 0; i < 4; i++) copy16(own + place + i * LANES, next + i * 2 * width, true);
        }
        copies_commit();
        fetched++, next += STEP;
        if (fetched == CONVOLUTION) next = feature, width = COLUMNS;
        if (fetched == CONVOLUTION + PRODUCT) next = mask;
    }
    __device__ __forceinline__ void turn() {
        place = place == (AHEAD - 1) * STEP_BYTES ? 0 : place + STEP_BYTES;
    }

    /// Starts the copies of the tile's pixels, and of what is added and scaled: a group. Units of
    /// pixels are swapped by fours, so that four units of two tokens side by side, whose pixels lie
    /// two apart, are in eight places.
    __device__ __forceinline__ void fetch_pixels(const JoinProblem& p) const {
        int top = (int)blockIdx.y * 2 * DOWN - 1, left = (int)blockIdx.x * 2 * ACROSS - 1,
            unit = threadIdx.x & 7, at = threadIdx.x >> 3;
        static_assert(JOIN_THREADS / 8 == WIDE - 1, "all but the last pixel of a row");
#pragma unroll
        for (int row = 0; row < HIGH; row++) fetch_pixel(p, top, left, row, at, unit);
        if (at < HIGH) fetch_pixel(p, top, left, at, WIDE - 1, unit);
        int row = threadIdx.x >> 6;
        const float* from = row == BIAS          ? p.bias
                            : row == NORM_WEIGHT ? p.norm_weight
                            : row == NORM_BIAS   ? p.norm_bias
                                                 : p.sum_bias;
        copy16(shared + CONSTANTS + threadIdx.x * 16, from + (threadIdx.x & 63) * 4, true);
        copies_commit();
    }
    __device__ __forceinline__ void fetch_pixel(const JoinProblem& p, int top, int left, int row, int place,
                                                int unit) const {
        int side = 2 * p.grid, y = top + row, x = left + place;
        bool valid = y >= 0 && x >= 0 && x < side;  // no tile ends below the grid, which is even
        u32 to = shared + (row * WIDE + place) * PIXEL + (unit * 16 ^ (place & 2) << 5);
        copy16(to, p.wide + (valid ? (y * side + x) * CHANNELS + unit * 8 : 0), valid);
    }
    /// Where eight tokens of a channel lie: `unit` is 2 (row of tokens) + half of it. Swapped, so
    /// that those of the channels of a matrix are in eight places.
    __device__ __forceinline__ static u32 feature_at(int channel, int unit) {
        return FEATURES + channel * CHANNEL + (unit ^ (channel >> 3 & 3)) * 16;
    }
    /// Starts the copies of the tile's features. Rows of a channel begin at multiples of 16 bytes
    /// if the grid is one of eight, else of four.
    __device__ __forceinline__ void fetch_features(const JoinProblem& p) const {
        int first = (int)blockIdx.y * DOWN * p.grid, left = (int)blockIdx.x * ACROSS,
            tokens = p.grid * p.grid;
        if (p.grid % 8 == 0) {
            int unit = threadIdx.x & 3, x = left + (unit & 1) * 8, token = first + (unit >> 1) * p.grid + x;
#pragma unroll
            for (int i = 0; i < COLUMNS; i += JOIN_THREADS / 4) {
                int channel = i + (threadIdx.x >> 2);
                copy16(shared + feature_at(channel, unit),
                       p.feat + (x < p.grid ? channel * tokens + token : 0), x < p.grid);
            }
        } else {
            int pair = threadIdx.x & 15, x = left + (pair & 7) * 2, token = first + (pair >> 3) * p.grid + x;
#pragma unroll 1
            for (int i = 0; i < COLUMNS; i += JOIN_THREADS / 16) {
                int channel = i + (threadIdx.x >> 4);
                copy4(shared + feature_at(channel, pair >> 2) + (pair & 3) * 4,
                      p.feat + (x < p.grid ? channel * tokens + token : 0), x < p.grid);
            }
        }
    }

    /// The same eight floats for all tokens: this lane's columns of a row of constants.
    __device__ __forceinline__ void constants(float (&to)[8], int row) const {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float4 four = load_shared_floats(shared + CONSTANTS + (row * COLUMNS + column) * 4 + i * 16);
            to[i * 4] = four.x, to[i * 4 + 1] = four.y, to[i * 4 + 2] = four.z, to[i * 4 + 3] = four.w;
        }
    }
    __device__ __forceinline__ void begin(int row) {
        float first[8];
        constants(first, row);
#pragma unroll
        for (int down = 0; down < DOWN; down++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int k = 0; k < 4; k++) sums[down][i][k] = first[i * 2 + (k & 1)];
    }

    /// Two rows' units as the left factor of a step's two products, registers in a row. ptxas would
    /// copy the words of what was loaded for each product anew; that each is the exclusive or with
    /// zero, of which it knows nothing, keeps it from that.
    __device__ __forceinline__ static void left_factor(u32 (&a)[2][4], u32 upper, u32 lower) {
        u32 both[2][4];
        load_shared(both[0], upper);
        load_shared(both[1], lower);
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int k = 0; k < 4; k++) a[half][k] = both[k & 1][half * 2 + (k >> 1)] ^ blockIdx.z;
    }
    /// A step's two products, of all tokens. What a lane multiplies it copied itself: nobody else
    /// need wait, or be waited for.
    template <class Left>
    __device__ __forceinline__ void multiply(Left left) {
        u32 a[DOWN][2][4], b[4][4];
        left(a);
        copies_wait<AHEAD - 1>();
#pragma unroll
        for (int i = 0; i < 4; i++) load_shared(b[i], own + place + i * LANES);
        fetch();
        turn();
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int down = 0; down < DOWN; down++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    multiply_add(sums[down][i], a[down][half], b[i][half * 2], b[i][half * 2 + 1]);
    }

    // All three products are loops: straight on they would be three times the instructions, which
    // come from the L2 cache too.
    __device__ __forceinline__ void convolve() {
        // Of a row's first tap; the third, two pixels further, has its units swapped the other way.
        u32 at = shared + group * 2 * PIXEL + part * 16, swap = (group & 1) << 6;
#pragma unroll 1
        for (int dy = 0; dy < 3; dy++, at += WIDE * PIXEL)
#pragma unroll
            for (int step = 0; step < CONVOLUTION / 3; step++)
                multiply([&](u32 (&a)[DOWN][2][4]) {
                    int dx = step >> 1;
                    u32 first = at + (swap ^ ((step & 1) ^ dx >> 1) << 6) + dx * PIXEL;
#pragma unroll
                    for (int down = 0; down < DOWN; down++)
                        left_factor(a[down], first + down * 2 * WIDE * PIXEL,
                                    first + (down * 2 * WIDE + 16) * PIXEL);
                });
    }

    /// The warp's columns of each token: their mean, and the sum of squares of what they are off
    /// it.
    __device__ __forceinline__ void share_statistics() const {
#pragma unroll
        for (int down = 0; down < DOWN; down++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float(&of)[4][4] = sums[down];
                float mean = 0.0f, squares = 0.0f;
#pragma unroll
                for (int i = 0; i < 4; i++) mean += of[i][half * 2] + of[i][half * 2 + 1];
                mean *= 0.125f;
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    float off = of[i >> 1][half * 2 + (i & 1)] - mean;
                    squares = fmaf(off, off, squares);
                }
                merge_moments<4, 8>(mean, squares);
                // The quad's lanes have the same.
                u32 to = shared + STATISTICS + (down * ACROSS + half * 8 + group) * STATISTIC + warp * 8;
                store_shared_pair(to, make_float2(mean, squares));
            }
    }
    /// Norm and GELU, to shared memory: of a row odd tokens' units are swapped by fours.
    __device__ __forceinline__ void finish_hidden() const {
        float weight[8], bias[8];
        constants(weight, NORM_WEIGHT);
        constants(bias, NORM_BIAS);
#pragma unroll
        for (int down = 0; down < DOWN; down++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int token = down * ACROSS + half * 8 + group;
                float means[WARPS], squares = 0.0f, mean = 0.0f;
#pragma unroll
                for (int i = 0; i < WARPS; i += 2) {
                    float4 two = load_shared_floats(shared + STATISTICS + token * STATISTIC + i * 8);
                    means[i] = two.x, means[i + 1] = two.z, mean += two.x + two.z, squares += two.y + two.w;
                }
                mean *= 1.0f / WARPS;
                float apart = 0.0f;
#pragma unroll
                for (int i = 0; i < WARPS; i++) apart = fmaf(means[i] - mean, means[i] - mean, apart);
                float scale = reciprocal_root(fmaf(apart, (float)WARP_COLUMNS, squares) * (1.0f / COLUMNS) +
                                              NORM_EPSILON);
                u32 unit[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    float first = (sums[down][i][half * 2] - mean) * scale,
                          second = (sums[down][i][half * 2 + 1] - mean) * scale;
                    unit[i] = to_f16x2(gelu(fmaf(first, weight[i * 2], bias[i * 2])),
                                       gelu(fmaf(second, weight[i * 2 + 1], bias[i * 2 + 1])));
                }
                store_shared(shared + token * ROW + (column * 2 ^ (token & 1) << 6), unit);
            }
    }

    __device__ __forceinline__ void add_features() {
        // This lane's row of a matrix: of the eight, two channels side by side of each eight of a
        // step's 32, as a lane of a weight has them.
        int channel = (lane >> 1 & 3) * 8 + (lane & 1) + (lane >> 4) * 2;
#pragma unroll 2
        for (int step = 0; step < PRODUCT; step++)
            multiply([&](u32 (&a)[DOWN][2][4]) {
#pragma unroll
                for (int down = 0; down < DOWN; down++)
#pragma unroll
                    for (int half = 0; half < 2; half++)
                        load_matrices_transposed(a[down][half],
                                                 shared + feature_at(step * STEP + channel + half * 4,
                                                                     down * 2 + (lane >> 3 & 1)));
            });
    }
    __device__ __forceinline__ void add_hidden() {
        u32 at = shared + group * ROW + part * 16, swap = (group & 1) << 6;
#pragma unroll 2
        for (int step = 0; step < PRODUCT; step++)
            multiply([&](u32 (&a)[DOWN][2][4]) {
                u32 first = at + (swap ^ (step & 1) << 6) + (step >> 1) * 128;
#pragma unroll
                for (int down = 0; down < DOWN; down++)
                    left_factor(a[down], first + down * ACROSS * ROW, first + (down * ACROSS + 8) * ROW);
            });
    }
    __device__ __forceinline__ void store(const JoinProblem& p) const {
#pragma unroll
        for (int down = 0; down < DOWN; down++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int x = (int)blockIdx.x * ACROSS + half * 8 + group, y = (int)blockIdx.y * DOWN + down;
                u32 unit[4];
#pragma unroll
                for (int i = 0; i < 4; i++)
                    unit[i] = to_f16x2(sums[down][i][half * 2], sums[down][i][half * 2 + 1]);
                if (x < p.grid)
                    store_unit(p.x + (y * p.grid + x) * COLUMNS + column,
                               make_uint4(unit[0], unit[1], unit[2], unit[3]));
            }
    }

public:
    __device__ __forceinline__ void run(const JoinProblem& p, u32 memory) {
        shared = memory, warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = lane >> 2, part = lane & 3;
        column = warp * WARP_COLUMNS + part * 8;
        int row = warp * WARP_COLUMNS + (group >> 1) * 8 + (group & 1);
        convolution = p.weight + row * TAPS * CHANNELS + part * 8;
        feature = p.feature_weight + row * COLUMNS + part * 8,
        mask = p.mask_weight + row * COLUMNS + part * 8;
        next = convolution, width = TAPS * CHANNELS, fetched = 0, place = 0,
        own = shared + WEIGHTS + warp * 4 * LANES + lane * 16;
        static_assert(AHEAD == 3, "the third step waits for the features");
#pragma unroll
        for (int i = 0; i < AHEAD; i++) fetch(), turn();
        dependent_wait();
        dependent_launch();
        fetch_pixels(p);
        fetch_features(p);
        copies_commit();
        copies_wait<1>();
        block_barrier();  // pixels and constants are there
        begin(BIAS);
        convolve();
        share_statistics();
        block_barrier();  // all columns' statistics and the features are there, and nobody needs pixels
        finish_hidden();
        begin(SUM_BIAS);
        add_features();
        block_barrier();  // `hidden` is there
        add_hidden();
        store(p);
    }
};

// ---- instances ----

/// JOIN_BYTES, 93312 bytes of shared memory.
extern "C" __global__ void __launch_bounds__(JOIN_THREADS, 2)
    memory_encoder_fuse_mask_and_features(const f16* wide, const f16* weight, const float* bias,
                                          const float* norm_weight, const float* norm_bias,
                                          const f16* mask_weight, const f16* feat, const f16* feature_weight,
                                          const float* sum_bias, f16* x, int grid) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Join join;
    join.run(JoinProblem{wide, weight, bias, norm_weight, norm_bias, mask_weight, feat, feature_weight,
                         sum_bias, x, grid},
             shared_address(memory));
}
