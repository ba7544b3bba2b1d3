/*!
EdgeTAM's two-dimensional latents, both layers in one launch, for any GPU from sm 80 on. The map is
cut into 16 x 16 squares of w x w memory tokens, and each has a latent, 64 columns, that knows
nothing of the others. Of both layers:

    a = x + answer y',  y' = sum over the square's tokens of softmax(ask norm(x) . norm(token)) norm(token)
    b = a + ff(a)
    c = b + alone norm(b)
    x = c + self_ff(c),  ff(x) = down GELU(up norm(x)), 256 hidden columns

256 latents, w^2 tokens each; sm 80 on.

| kernel                   | N, K of 256 rows         | tile      | threads | stages   | shared bytes |
|--------------------------|--------------------------|-----------|---------|----------|--------------|
| perceiver_2d_window_attn | 64, 64; 256, 64; 64, 256 | 8 latents | 256     | 9 a warp | 97 792       |

and behind them one more norm. Norms, sums and x are f32, factors of products halves.

By count there is little to do but to read the weights, 311 KB, which every block needs whole: 6 us
at 50 bytes a nanosecond; 11 were measured on an H200. So nothing may hold that stream up, and what
waits for it must be short. A block has eight latents, the right factor of `mma`, and eight warps,
of which each has a latent where norms and softmax are due, and an eighth of each weight where
products are. No two warps need the same weight and no two lanes the same 16 bytes of it: a lane
copies what it will multiply to a queue of its own in shared memory, RING steps ahead and across
layers, and needs no barrier for that. A step is 16 rows of a weight and 32 of their columns, two
instructions. The columns are multiplied in the order in which a lane finds eight of them side by
side, on both sides.

A warp makes 32 of the hidden columns and multiplies them at once with the 32 columns of `down` that
want them: they stay in registers, turned by `movmatrix`. What the eight warps have of the sum is
added by the warp that has the latent. So a product costs two barriers: its factor is there; its
sums are.

A lane has eight columns of each fourth token of its warp's square. The first 16 tokens, all of a
grid of up to 64, stay in registers over both layers. What their norm has of scale goes into what is
asked, its shift changes no softmax; both come back to y'.

Both layers, and both halves of a layer, run the same instructions: as many as fit are fetched once
and not four times.

Of 16 latents to a block there would be half as many blocks, which read half as much together; but
an H200 has a multiprocessor for each of 32, so that a block would take as long to read its weights
and longer for all that is done meanwhile. Nobody has measured that.

Grid: `x` = 32, of 256 threads and 97792 bytes of shared memory.
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"
#include "perceiver_2d.cuh"

// ---- attention ----

constexpr int HIDDEN = 256;           // of a feed-forward layer
constexpr int LATENTS = 8;            // of a block
constexpr int WARPS = 8;
constexpr int WINDOW_THREADS = WARPS * 32;

// A layer's weights, in halves: ask, answer, ff_up, ff_down; alone, self_up, self_down. Each half
// of it is a pass of ten steps: one of ask or alone, one of answer or none, four of up, four of
// down.
constexpr int SQUARE = WIDTH * WIDTH, WIDE = HIDDEN * WIDTH;
constexpr int UP = 2 * SQUARE, DOWN = UP + WIDE;
constexpr int LONG = DOWN + WIDE, SHORT = LONG - SQUARE;
constexpr int PASSES = 4, STEPS = 10, ANSWER_STEP = 1, UP_STEP = 2, DOWN_STEP = 6;
// A layer's norms, and how many floats one has.
enum { NORM_MEMORY, NORM_LATENTS, NORM_FF, NORM_SELF, NORM_SELF_FF, NORMS };
constexpr int NORM = 2 * WIDTH;

// Shared memory, in bytes.
constexpr int RING = 9;         // steps of a warp's queue
constexpr int FIRST_STEPS = 1;  // that are asked for before tokens are
constexpr u32 STEP = 1024, QUEUE = RING * STEP;
constexpr u32 FACTOR = WARPS * QUEUE, FACTOR_ROW = WIDTH * 2;             // the right factor [8, 64], halves
constexpr u32 SUMS = FACTOR + LATENTS * FACTOR_ROW;                       // [8 parts, 8 latents, 64], floats
constexpr u32 SUMS_ROW = (WIDTH + 4) * 4, SUMS_PART = LATENTS * SUMS_ROW;
constexpr u32 FLOATS = SUMS + WARPS * SUMS_PART;                          // the norms
constexpr int ALL_FLOATS = (PASSES / 2 * NORMS + 1) * NORM;
constexpr u32 WINDOWS_SHARED = FLOATS + ALL_FLOATS * 4;
static_assert(ALL_FLOATS / 4 >= WINDOW_THREADS && ALL_FLOATS / 4 <= 2 * WINDOW_THREADS,
              "a thread copies one or two units");
static_assert(RING < STEPS, "a queue is of one pass and the next");
static_assert(LATENTS * FACTOR_ROW + WARPS * SUMS_PART >= WINDOW_THREADS * (8 + Window::OWN * 16),
              "room for latents and tokens");
static_assert(WINDOWS_SHARED <= 98816, "shared memory of the smallest GPU");

struct WindowsProblem {
    const f16* memory;     // [grid², 64]
    const float* latents;  // [256, 64]
    const f16* halves;     // both layers' weights
    const float* floats;   // both layers' norms and the last
    f16* result;           // [256, 64]
    int grid;              // a multiple of 16
};

/// Units of 16 bytes change places inside 128 bytes, so that four units of two rows, an even one
/// and the next, are in eight places.
__device__ __forceinline__ u32 turned(int row) { return (u32)(row & 1) << 6; }
/// Where a column of sums and norms lies: so that eight lanes, each with eight columns, find four
/// of them in eight places.
__device__ __forceinline__ int place_of(int column) { return column ^ ((column & 32) >> 3); }

/// A lane's queue of weights.
class Weights {
    // Of the pass whose steps are fetched: this lane's first row of ask or alone, of `up`, of
    // `down`.
    const f16 *square, *up, *down;
    u32 first, slot;
    int pass;  // that is fetched

    template <int AT>
    __device__ __forceinline__ void fetch(u32 to) const {
        // The even passes have an answer.
        if (pass < PASSES && (AT != ANSWER_STEP || (pass & 1) == 0)) {
            const f16* from = AT >= DOWN_STEP ? down + (AT - DOWN_STEP) * 16 * HIDDEN
                              : AT >= UP_STEP ? up + (AT - UP_STEP) / 2 * 4 * WIDTH + (AT - UP_STEP) % 2 * 32
                                              : square + AT * SQUARE;
            copy16(to, from, true);
            copy16(to + STEP / 2,
                   from + (AT >= DOWN_STEP ? 8 * HIDDEN
                           : AT >= UP_STEP ? 2 * WIDTH
                                           : 8 * WIDTH),
                   true);
        }
        copies_commit();
    }
    __device__ __forceinline__ void next_pass() {
        int after_square = pass & 1 ? SHORT : LONG, after_wide = pass & 1 ? LONG : SHORT;
        square += after_square, up += after_wide, down += after_wide, pass++;
    }

public:
    __device__ __forceinline__ Weights(const f16* halves, u32 shared, int warp, int lane) {
        int group = lane >> 2, part = lane & 3;
        square = halves + ((warp & 3) * 16 + group) * WIDTH + (warp >> 2) * 32 + part * 8;
        up = halves + UP + (warp * 32 + (group >> 1) * 8 + (group & 1)) * WIDTH + part * 8;
        down = halves + DOWN + group * HIDDEN + warp * 32 + part * 8;
        first = shared + warp * QUEUE + lane * 16, slot = 0, pass = 0;
    }
    template <int AT, int END>
    __device__ __forceinline__ void fetch_first() const {
        if constexpr (AT < END) {
            fetch<AT>(first + AT * STEP);
            fetch_first<AT + 1, END>();
        }
    }
    /// Starts the copies of the step that takes the place of step AT; a group.
    template <int AT>
    __device__ __forceinline__ void refill() {
        fetch<(AT + RING) % STEPS>(first + slot);
        if constexpr ((AT + RING) % STEPS == STEPS - 1) next_pass();
        slot = slot == (RING - 1) * STEP ? 0 : slot + STEP;
    }
    /// A step's two rows.
    template <int AT>
    __device__ __forceinline__ void take(u32 (&upper)[4], u32 (&lower)[4]) {
        copies_wait<RING - 1>();
        load_shared(upper, first + slot);
        load_shared(lower, first + slot + STEP / 2);
        refill<AT>();
    }
};

/// One of a step's products.
__device__ __forceinline__ void multiply_step(float (&c)[4], const u32 (&upper)[4], const u32 (&lower)[4],
                                              int half, u32 b0, u32 b1) {
    u32 a[4] = {upper[half * 2], lower[half * 2], upper[half * 2 + 1], lower[half * 2 + 1]};
    multiply_add(c, a, b0, b1);
}

/// A block: eight latents through both layers.
class Windows {
    u32 shared;
    int warp, lane, group, part;
    float2 x;  // columns 2 lane and the next one of the warp's latent

    __device__ __forceinline__ u32 norm_at(int norm) const { return shared + FLOATS + norm * NORM * 4; }
    /// Of two columns.
    __device__ __forceinline__ void load_norm(float2& weight, float2& bias, int norm, int column) const {
        u32 from = norm_at(norm) + place_of(column) * 4;
        weight = load_shared_pair(from), bias = load_shared_pair(from + WIDTH * 4);
    }
    /// LayerNorm of the warp's latent.
    __device__ __forceinline__ float2 normalized(int norm) const {
        float2 weight, bias;
        load_norm(weight, bias, norm, lane * 2);
        float mean = x.x + x.y, scale = (x.x - x.y) * (x.x - x.y) * 0.5f;
        merge<2>(mean, scale);
        return make_float2(fmaf((x.x - mean) * scale, weight.x, bias.x),
                           fmaf((x.y - mean) * scale, weight.y, bias.y));
    }
    /// Two columns of the warp's latent for the next product, from `column` on.
    __device__ __forceinline__ void store_factor(int column, float2 y) const {
        store_shared_word(shared + FACTOR + warp * FACTOR_ROW + ((u32)column * 2 ^ turned(warp)),
                          to_f16x2(y.x, y.y));
    }
    /// The right factor of two steps' products: half `half` of the columns of latent `group`.
    __device__ __forceinline__ void load_factor(u32 (&b)[4], int half) const {
        load_shared(b, shared + FACTOR + group * FACTOR_ROW + ((u32)(half * 4 + part) * 16 ^ turned(group)));
    }
    /// Rows `row` + group and the eighth behind it of a product, of latents 2 part and the next;
    /// `of`: the part of the sum.
    __device__ __forceinline__ void store_sums(int of, int row, const float (&c)[4]) const {
        u32 to = shared + SUMS + of * SUMS_PART + part * 2 * SUMS_ROW;
#pragma unroll
        for (int i = 0; i < 4; i++)
            store_shared_float(to + (i & 1) * SUMS_ROW + place_of(row + (i >> 1) * 8 + group) * 4, c[i]);
    }
    template <int PARTS>
    __device__ __forceinline__ void add_sums() {
        u32 from = shared + SUMS + warp * SUMS_ROW + place_of(lane * 2) * 4;
        float2 sums[PARTS];
#pragma unroll
        for (int i = 0; i < PARTS; i++) sums[i] = load_shared_pair(from + i * SUMS_PART);
#pragma unroll
        for (int left = PARTS / 2; left > 0; left /= 2)
#pragma unroll
            for (int i = 0; i < left; i++) sums[i].x += sums[i + left].x, sums[i].y += sums[i + left].y;
        x.x += sums[0].x, x.y += sums[0].y;
    }

    /// The factor by a 64 x 64 weight: a warp has 16 rows and half of the columns.
    template <int AT>
    __device__ __forceinline__ void multiply(Weights& weights) const {
        block_barrier();  // the factor is there, and nobody needs the sums before
        u32 b[4], upper[4], lower[4];
        float c[2][4] = {};
        load_factor(b, warp >> 2);
        weights.take<AT>(upper, lower);
#pragma unroll
        for (int half = 0; half < 2; half++)
            multiply_step(c[half], upper, lower, half, b[half * 2], b[half * 2 + 1]);
#pragma unroll
        for (int i = 0; i < 4; i++) c[0][i] += c[1][i];
        store_sums(warp >> 2, (warp & 3) * 16, c[0]);
        block_barrier();  // the sums are there, and nobody needs the factor
    }

    /// 16 of the warp's hidden columns, as the right factor of a product.
    template <int AT>
    __device__ __forceinline__ void widen(u32 (&hidden)[2], const u32 (&b)[2][4], Weights& weights) const {
        float c[2][4] = {};
        u32 upper[2][4], lower[2][4];
        weights.take<AT>(upper[0], lower[0]);
        weights.take<AT + 1>(upper[1], lower[1]);
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int q = 0; q < 2; q++)
                multiply_step(c[q], upper[q], lower[q], half, b[q][half * 2], b[q][half * 2 + 1]);
#pragma unroll
        for (int i = 0; i < 2; i++)
            hidden[i] =
                transposed(to_f16x2(gelu(c[0][2 * i] + c[1][2 * i]),
                                    gelu(c[0][2 * i + 1] + c[1][2 * i + 1])));
    }
    template <int AT, int TILE = 0>
    __device__ __forceinline__ void narrow(const u32 (&hidden)[2][2], Weights& weights) const {
        if constexpr (TILE < WIDTH / 16) {
            u32 upper[4], lower[4];
            float c[4] = {};
            weights.take<AT + TILE>(upper, lower);
#pragma unroll
            for (int half = 0; half < 2; half++)
                multiply_step(c, upper, lower, half, hidden[half][0], hidden[half][1]);
            store_sums(warp, TILE * 16, c);
            narrow<AT, TILE + 1>(hidden, weights);
        }
    }
    /// x + down GELU(up norm(x)). The hidden columns of fragments are those that a lane has of
    /// `down`, eight in a row: row `group` of tile t of a product is column 8 (group / 2) + 4 t +
    /// group % 2 of the warp's 32, the eighth row behind it the second column behind that.
    __device__ __forceinline__ void feed_forward(int norm, Weights& weights) {
        store_factor(lane * 2, normalized(norm));
        block_barrier();  // the factor is there, and nobody needs the sums before
        u32 b[2][4], hidden[2][2];
        load_factor(b[0], 0), load_factor(b[1], 1);
        widen<UP_STEP>(hidden[0], b, weights);
        widen<UP_STEP + 2>(hidden[1], b, weights);
        narrow<DOWN_STEP>(hidden, weights);
        block_barrier();  // the sums are there, and nobody needs the factor
        add_sums<WARPS>();
    }

    /// What this lane's columns of raw tokens are multiplied with: what is asked, in powers of two,
    /// and the norm's scale.
    __device__ __forceinline__ void load_asked(float (&asked)[8], int norm) const {
        int column = (lane & 7) * 8;
        u32 from = shared + SUMS + warp * SUMS_ROW;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            u32 at = place_of(column + i * 4) * 4;
            float4 first = load_shared_floats(from + at), second = load_shared_floats(from + at + SUMS_PART),
                   weight = load_shared_floats(norm_at(norm) + at);
            asked[i * 4] = (first.x + second.x) * (weight.x * LOG2E);
            asked[i * 4 + 1] = (first.y + second.y) * (weight.y * LOG2E);
            asked[i * 4 + 2] = (first.z + second.z) * (weight.z * LOG2E);
            asked[i * 4 + 3] = (first.w + second.w) * (weight.w * LOG2E);
        }
    }
    __device__ __forceinline__ void attend(Window& window, int norm) const {
        float asked[8];
        load_asked(asked, norm);
        float2 y = window.run(asked);
        int column = (lane & 7) * 8 + window.own_column();
        float2 weight, bias;
        load_norm(weight, bias, norm, column);
        store_factor(column, make_float2(fmaf(y.x, weight.x, bias.x), fmaf(y.y, weight.y, bias.y)));
    }

    __device__ __forceinline__ void copy_floats(const float* from, int unit) const {
        copy16(shared + FLOATS + place_of(unit * 4) * 4, from + unit * 4, true);
    }

public:
    __device__ __forceinline__ void run(const WindowsProblem& p, u32 shared_base) {
        shared = shared_base, warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = lane >> 2,
        part = lane & 3;
        int latent = blockIdx.x * LATENTS + warp;
        Weights weights(p.halves, shared, warp, lane);
        weights.fetch_first<0, FIRST_STEPS>();
        // Behind all weights these would come late. They pass through shared memory, where factors
        // and sums will be: ptxas puts loads to registers behind all copies.
        u32 own = shared + FACTOR + threadIdx.x * 8, tokens = shared + FACTOR + WINDOW_THREADS * 8;
#pragma unroll
        for (int i = 0; i < 2; i++) copy4(own + i * 4, p.latents + latent * WIDTH + lane * 2 + i, true);
        copy_floats(p.floats, threadIdx.x);
        if (threadIdx.x < ALL_FLOATS / 4 - WINDOW_THREADS)
            copy_floats(p.floats, threadIdx.x + WINDOW_THREADS);
        Window window(p.memory, latent, p.grid, lane);
        dependent_wait();
        dependent_launch();
        window.fetch(tokens);
        copies_commit();
        weights.fetch_first<FIRST_STEPS, RING>();
        copies_wait<RING - FIRST_STEPS>();
        x = load_shared_pair(own);
        window.load_fetched(tokens);
        window.normalize();
        block_barrier();  // the norms are there, and nobody needs what came to the place of factors and sums
#pragma unroll 1
        for (int pass = 0; pass < PASSES; pass++) {
            bool alone = pass & 1;
            int norm = pass / 2 * NORMS + (alone ? NORM_SELF : NORM_LATENTS);
            store_factor(lane * 2, normalized(norm));
            multiply<0>(weights);
            if (alone) {
                weights.refill<ANSWER_STEP>();
            } else {
                attend(window, norm - NORM_LATENTS + NORM_MEMORY);
                multiply<ANSWER_STEP>(weights);
            }
            add_sums<2>();
            feed_forward(norm - NORM_LATENTS + NORM_FF, weights);
        }
        float2 y = normalized(PASSES / 2 * NORMS);
        ((u32*)p.result)[latent * (WIDTH / 2) + lane] = to_f16x2(y.x, y.y);
    }
};

// ---- instances ----

extern "C" __global__ void __launch_bounds__(WINDOW_THREADS, 1)
    perceiver_2d_window_attn(const f16* memory, const float* latents, const f16* halves, const float* floats,
                             f16* result, int grid) {
    extern __shared__ __align__(1024) unsigned char block[];
    Windows().run(WindowsProblem{memory, latents, halves, floats, result, grid}, shared_address(block));
}
