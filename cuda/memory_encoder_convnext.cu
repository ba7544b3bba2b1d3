/*!
The two blocks of the memory encoder's fuser (ConvNeXt's), and the projection to memories behind the
second, for any GPU from sm 80 on:

  - memory_encoder_dwconv7x7 (memory_encoder_convnext.cuh): y = norm(depthwise 7x7 of x), 256
    channels.
  - memory_encoder_convnext_mlp: x + D GELU(U y + u) + d, 1024 hidden columns.
    memory_encoder_convnext_mlp_proj: of that sum, which it does not store, the 64 columns of a
    memory, and what a memory has of an object that is not there.

T tokens; sm 80 on. The depthwise convolution is no matmul.

| kernel                           | M, N, K                    | tile  | threads | stages  | shared bytes |
|----------------------------------|----------------------------|-------|---------|---------|--------------|
| memory_encoder_dwconv7x7         | T, 256 channels, 49 taps   | 8 x 4 | 512     | 10 rows | 71 680       |
| memory_encoder_convnext_mlp      | T, 1024, 256; T, 256, 1024 | 32    | 256     | 5       | 98 304       |
| memory_encoder_convnext_mlp_proj | as above; T, 64, 256       | 32    | 256     | 5       | 98 304       |

A block of the latter two has 32 tokens and reads all weights, 1 MB, whatever its tile is; what
counts is that they never stop coming. The hidden columns are made in chunks of 64, of which a warp
has 8, with y as the left factor in its registers, and go through shared memory, to be multiplied by
a warp's 32 rows of D. So each row of U and D is one warp's alone: it copies them to a ring of its
own, 2 KB a step, four steps (64 KB a block) ahead, and waits for no other warp's. Warps meet once a
chunk, for the hidden columns, which have two places: while one chunk is multiplied by D, the next
is made.

A warp takes D's rows in an order in which a lane's columns of the result are eight side by side: x,
D's bias and the sum are read and written 16 bytes at a time. The memories' product is one more of
U's kind, of the sums as halves.

By count, of an H200 at 1024 pixels: 128 blocks read 128 MB of the L2 cache a launch, 20 us at 50
bytes a ns and multiprocessor; the tensor cores need 8 us of it, shared memory 10. Measured, it is
27 us, and 27 with two blocks in all: not the cache, which 128 blocks share, but what a block does
by itself bounds it. Tiles of 64 tokens would have half the bytes, of half the multiprocessors;
their y is beyond the registers, and reading it again for each chunk beyond what shared memory gives
in that time.

Tokens past the last are the last one, and are not stored. A block reads its own tokens of x alone,
before it stores any: x may be where the sum goes.

Grid: memory_encoder_dwconv7x7 ceil(grid / 8) x ceil(grid / 4); the others ceil(tokens / 32).
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"
#include "memory_encoder_convnext.cuh"

// ---- blocks ----

constexpr int HIDDEN = 1024, PART = 64, CHUNKS = HIDDEN / PART;  // hidden columns, those of a chunk
constexpr int MEMORY = 64;                        // columns of a memory
constexpr int MIX_TOKENS = 32, MIX_WARPS = 8, MIX_THREADS = MIX_WARPS * 32;
// Hidden columns of a chunk, or columns of a memory, that a warp makes.
constexpr int EIGHT = PART / MIX_WARPS;
constexpr int OWN = WIDTH / MIX_WARPS;            // columns of the sum that a warp makes
constexpr int SLOTS = 5, AHEAD = SLOTS - 1;       // steps: two of U, then two of D
// Of a warp: half a row's columns of its eight rows of U, or half of its rows' 64 columns of D.
constexpr u32 STEP_BYTES = 2048;
constexpr u32 HIDDEN_BYTES = MIX_TOKENS * PART * 2;
// Behind y, then two chunks of hidden columns, then the sums.
constexpr u32 RING = MIX_TOKENS * ROW;
constexpr u32 MIX_SHARED = RING + MIX_WARPS * SLOTS * STEP_BYTES;
static_assert(EIGHT == 8 && OWN == 32, "fragments");
static_assert(MIX_SHARED == 98304 && SPREAD_SHARED == 71680, "what launches ask for");

/// What a launch of memory_encoder_convnext_mlp is given; `out` is null for
/// memory_encoder_convnext_mlp_proj, which has the rest.
struct MixProblem {
    const f16 *y, *x;          // [tokens, 256]
    const f16* up;             // U [1024, 256]
    const float* up_bias;
    const f16* down;           // D [256, 1024]
    const float* down_bias;
    f16* out;                  // [tokens, 256]; may be x
    int tokens;
    const f16* out_weight;     // [64, 256]
    const float *out_bias, *score, *absent;
    f16* memory;               // [tokens, 64]
};

/// Units of 16 bytes change places inside 128 bytes, by their row: eight rows' units of a column
/// are in eight places, and so are four units of two rows, an even one and the next.
__device__ __forceinline__ u32 turned(int row) { return ((row & 1) << 6) | ((row & 6) << 3); }

/// LAST: memory_encoder_convnext_mlp_proj. A lane's rows of a fragment are `group` and the eighth
/// behind it.
template <bool LAST>
class Mix {
    int warp, lane, group, part, first;  // `first` token of the block
    // Where the step's weights are, and those of the step before were: the warp's.
    u32 shared, slot, spare;
    u32 left[2][WIDTH / 16][4];          // y of the block's tokens, as left factor
    float sums[2][OWN / 8][4];           // of columns OWN warp + 8 part + 2 i and the next

    // Lanes' places in a step of U: sixteen lanes copy half a row. And of D: eight lanes copy a
    // row's 64 columns.
    const f16 *own_up, *own_down;
    u32 copy_up, copy_down, read_up, read_down;

    __device__ __forceinline__ u32 ring() const { return shared + RING + warp * (SLOTS * STEP_BYTES); }
    __device__ __forceinline__ int token(int row) const { return first + row; }

    __device__ __forceinline__ void place(const MixProblem& p, u32 memory) {
        shared = memory, warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = lane >> 2, part = lane & 3;
        first = blockIdx.x * MIX_TOKENS;
        slot = ring(), spare = slot + AHEAD * STEP_BYTES;
        int row = lane >> 4, unit = lane & 15;
        own_up = p.up + (warp * EIGHT + row) * WIDTH + unit * 8;
        copy_up = row * (ROW / 2) + (unit >> 3) * 128 + ((unit & 7) * 16 ^ turned(row));
        row = lane >> 3, unit = lane & 7;
        // Row 8 n + 2 i + e of a warp's 32, as products know it, is row 8 i + 2 n + e of D's.
        own_down = p.down + (warp * OWN + (row >> 1) * 8 + (row & 1)) * HIDDEN + unit * 8;
        copy_down = row * 128 + (unit * 16 ^ turned(row));
        row = lane & 7, unit = lane >> 3;
        read_up = row * (ROW / 2) + (unit * 16 ^ turned(row));
        read_down = row * 128 + (unit * 16 ^ turned(row));
    }

    /// Starts the copies of `half` of the columns of eight rows [256], of which `rows` is this
    /// lane's unit in the first.
    __device__ __forceinline__ void fetch_up(u32 to, const f16* rows, int half) const {
#pragma unroll
        for (int i = 0; i < 4; i++)
            copy16(to + i * ROW + (copy_up ^ (i * 16)), rows + i * 2 * WIDTH + half * (WIDTH / 2), true);
    }
    /// Starts the copies of `half` of the warp's rows of a chunk of D.
    __device__ __forceinline__ void fetch_down(u32 to, int chunk, int half) const {
        const f16* rows = own_down + chunk * PART + half * 4 * HIDDEN;
#pragma unroll
        for (int i = 0; i < 4; i++)
            copy16(to + i * 512 + (copy_down ^ ((i & 1) * 32)), rows + ((i & 1) * 16 + (i >> 1) * 2) * HIDDEN,
                   true);
    }
    /// Waits for a step's weights. All lanes are behind the step before: its slot may be filled.
    __device__ __forceinline__ void step_begin() const {
        copies_wait<AHEAD - 1>();
        warp_barrier();
    }
    __device__ __forceinline__ void step_end() {
        spare = slot;
        slot += STEP_BYTES;
        if (slot == ring() + SLOTS * STEP_BYTES) slot = ring();
    }

    /// Two steps: eight columns of all tokens, 2 part and the next of them. `next` is what the same
    /// steps of the next chunk multiply with, or null.
    __device__ __forceinline__ void expand(float (&result)[2][4], float2 bias, const f16* next) {
        float even[2][4], odd[2][4] = {};
#pragma unroll
        for (int m = 0; m < 2; m++) even[m][0] = even[m][2] = bias.x, even[m][1] = even[m][3] = bias.y;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            step_begin();
            if (next) fetch_up(spare, next, half);
            copies_commit();
            u32 b[4][4];
#pragma unroll
            for (int k = 0; k < 4; k++)
                load_matrices(b[k], slot + (k >> 1) * 128 + (read_up ^ ((k & 1) * 64)));
#pragma unroll
            for (int k = 0; k < 4; k++)
#pragma unroll
                for (int m = 0; m < 2; m++) {
                    multiply_add(even[m], left[m][half * 8 + k * 2], b[k][0], b[k][1]);
                    multiply_add(odd[m], left[m][half * 8 + k * 2 + 1], b[k][2], b[k][3]);
                }
            step_end();
        }
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) result[m][i] = even[m][i] + odd[m][i];
    }

    /// A chunk of the hidden columns: the warp's eight, to shared memory.
    __device__ __forceinline__ void activate(const float (&hidden)[2][4], int chunk) const {
        u32 to = shared + (chunk & 1) * HIDDEN_BYTES + group * 128 + ((warp * 16) ^ turned(group)) + part * 4;
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                store_shared_word(to + (m * 16 + i * 8) * 128,
                                  to_f16x2(gelu(hidden[m][i * 2]), gelu(hidden[m][i * 2 + 1])));
    }

    /// Two steps: a chunk of the hidden columns by the warp's rows of D.
    __device__ __forceinline__ void narrow(int chunk) {
        int row = lane & 15, unit = lane >> 4;
        u32 from = shared + (chunk & 1) * HIDDEN_BYTES + row * 128 + (unit * 16 ^ turned(row));
#pragma unroll
        for (int half = 0; half < 2; half++) {
            step_begin();
            if (chunk + 1 < CHUNKS) fetch_down(spare, chunk + 1, half);
            copies_commit();
#pragma unroll
            for (int k = 0; k < 2; k++) {
                u32 a[2][2][4], b[2][4];
#pragma unroll
                for (int n = 0; n < 2; n++) load_matrices(b[n], slot + n * 1024 + (read_down ^ (k * 64)));
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int m = 0; m < 2; m++) load_matrices(a[i][m], (from ^ (k * 64 + i * 32)) + m * 2048);
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int m = 0; m < 2; m++)
#pragma unroll
                        for (int n = 0; n < 2; n++)
                            multiply_add(sums[m][half * 2 + n], a[i][m], b[n][i * 2], b[n][i * 2 + 1]);
            }
            step_end();
        }
    }

    /// All of the tokens' columns in shared memory, as left factor.
    __device__ __forceinline__ void load_left() {
        int row = lane & 15, unit = lane >> 4;
        u32 from = shared + row * ROW + (unit * 16 ^ turned(row));
#pragma unroll
        for (int k = 0; k < WIDTH / 16; k++)
#pragma unroll
            for (int m = 0; m < 2; m++)
                load_matrices(left[m][k], (from ^ ((k & 3) * 32)) + (k >> 2) * 128 + m * 16 * ROW);
    }

    /// The sums begin with x and D's bias, and y becomes the left factor, while the first weights
    /// come.
    __device__ __forceinline__ void begin(const MixProblem& p) {
        auto from = [&](int row) { return (token(row) < p.tokens ? token(row) : p.tokens - 1) * WIDTH; };
#pragma unroll
        for (int half = 0; half < 2; half++)
            fetch_up(slot + half * STEP_BYTES, own_up, half), copies_commit();
#pragma unroll
        for (int half = 0; half < 2; half++)
            fetch_down(slot + (2 + half) * STEP_BYTES, 0, half), copies_commit();
        int column = warp * OWN + part * 8;
        float4 bias[2] = {load_floats(p.down_bias + column), load_floats(p.down_bias + column + 4)};
        dependent_wait();
        dependent_launch();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int row = i * 8 + warp;
            copy16(shared + row * ROW + (lane >> 3) * 128 + ((lane & 7) * 16 ^ turned(row)),
                   p.y + from(row) + lane * 8, true);
        }
        copies_commit();
        uint4 own[2][2];
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 2; i++) own[m][i] = load_unit(p.x + from(m * 16 + i * 8 + group) + column);
        copies_wait<0>();
        block_barrier();
        load_left();
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                u32 words[4] = {own[m][i].x, own[m][i].y, own[m][i].z, own[m][i].w};
                float of[8] = {bias[0].x, bias[0].y, bias[0].z, bias[0].w,
                               bias[1].x, bias[1].y, bias[1].z, bias[1].w};
#pragma unroll
                for (int n = 0; n < 4; n++) {
                    float2 pair = to_float2(words[n]);
                    sums[m][n][i * 2] = pair.x + of[n * 2], sums[m][n][i * 2 + 1] = pair.y + of[n * 2 + 1];
                }
            }
    }

    /// What becomes of a unit of the sums, in row `row`, column OWN warp + 8 part.
    template <class Store>
    __device__ __forceinline__ void each_unit(Store store) const {
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                store(m * 16 + i * 8 + group, make_uint4(to_f16x2(sums[m][0][i * 2], sums[m][0][i * 2 + 1]),
                                                         to_f16x2(sums[m][1][i * 2], sums[m][1][i * 2 + 1]),
                                                         to_f16x2(sums[m][2][i * 2], sums[m][2][i * 2 + 1]),
                                                         to_f16x2(sums[m][3][i * 2], sums[m][3][i * 2 + 1])));
    }

    /// The sums' product with the memories' weight, whose two steps are the last of the ring.
    __device__ __forceinline__ void project(const MixProblem& p) {
        int column = warp * EIGHT + part * 2;
        float2 bias = load_pair(p.out_bias + column), absent = load_pair(p.absent + column);
        if (*p.score <= 0.0f) bias.x += absent.x, bias.y += absent.y;
        block_barrier();  // nobody needs the hidden columns
        u32 to = shared + (warp >> 1) * 128;
        each_unit([&](int row, uint4 unit) {
            u32 words[4] = {unit.x, unit.y, unit.z, unit.w};
            store_shared(to + row * ROW + (((warp & 1) * 64 + part * 16) ^ turned(row)), words);
        });
        block_barrier();
        load_left();
        float result[2][4];
        expand(result, bias, nullptr);
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int at = token(m * 16 + i * 8 + group);
                if (at < p.tokens)
                    *(u32*)(p.memory + at * MEMORY + column) =
                        to_f16x2(result[m][i * 2], result[m][i * 2 + 1]);
            }
    }

public:
    __device__ __forceinline__ void run(const MixProblem& p, u32 memory) {
        place(p, memory);
        float2 bias = load_pair(p.up_bias + warp * EIGHT + part * 2);
        begin(p);
        float hidden[2][4];
        expand(hidden, bias, own_up + PART * WIDTH);
        block_barrier();  // nobody needs y in shared memory
        activate(hidden, 0);
        block_barrier();
#pragma unroll 1
        for (int chunk = 1; chunk < CHUNKS; chunk++) {
            bias = load_pair(p.up_bias + chunk * PART + warp * EIGHT + part * 2);
            narrow(chunk - 1);
            const f16* behind = LAST ? p.out_weight + (own_up - p.up) : nullptr;
            expand(hidden, bias, chunk + 1 < CHUNKS ? own_up + (chunk + 1) * PART * WIDTH : behind);
            activate(hidden, chunk);
            block_barrier();
        }
        narrow(CHUNKS - 1);
        if (LAST) project(p);
        else
            each_unit([&](int row, uint4 unit) {
                if (token(row) < p.tokens)
                    store_unit(p.out + token(row) * WIDTH + warp * OWN + part * 8, unit);
            });
    }
};

// ---- instances ----

/// 71680 bytes of shared memory.
extern "C" __global__ void __launch_bounds__(SPREAD_THREADS, 2)
    memory_encoder_dwconv7x7(const f16* x, const float* weight, const float* bias, const float* norm_weight,
                             const float* norm_bias, f16* y, int grid) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Spread().run({x, weight, bias, norm_weight, norm_bias, y, grid}, shared_address(memory));
}

/// 98304 bytes of shared memory.
extern "C" __global__ void __launch_bounds__(MIX_THREADS, 1)
    memory_encoder_convnext_mlp(const f16* y, const f16* x, const f16* up, const float* up_bias,
                                const f16* down, const float* down_bias, f16* out, int tokens) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Mix<false>().run({y, x, up, up_bias, down, down_bias, out, tokens}, shared_address(memory));
}

/// 98304 bytes of shared memory.
extern "C" __global__ void __launch_bounds__(MIX_THREADS, 1)
    memory_encoder_convnext_mlp_proj(const f16* y, const f16* x, const f16* up, const float* up_bias,
                                     const f16* down, const float* down_bias, const f16* out_weight,
                                     const float* out_bias, const float* score, const float* absent,
                                     f16* result, int tokens) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Mix<true>().run(
        {y, x, up, up_bias, down, down_bias, nullptr, tokens, out_weight, out_bias, score, absent, result},
        shared_address(memory));
}
