/*!
The keys of all layers' attention to the memory bank, for any GPU from sm 80 on: k_l = R(W_l x +
b_l), 256 wide, of x, 64 wide.

R rows of x in all; sm 80 on. Weights stay in registers: one stage.

| kernel          | M, N, K            | tile MxN | threads | shared bytes |
|-----------------|--------------------|----------|---------|--------------|
| memory_key_proj | R, 256 a layer, 64 | 16x256   | 128     | 4 608        |

  - a memory's token: x = memory + (position + age), and R turns pairs of columns by the token's
    place in the map;
  - a quarter of an object pointer: x = pointer + its time's projected sines and cosines, and R
    turns nothing.

One product does both: SAM 2.1 at 1024 pixels has 28736 keys in each of four layers, 59 MB to write
and 4 GFLOP. TensorRT 8.6.0 writes products, turned products and all keys in a row to memory one
after the other.

A warp owns 32 pairs of columns of one layer and keeps their weights in registers; a block's four
warps have all columns. A block takes 16 places of the map at a time and goes through all memories
there, which have the same positions and angles; or 16 quarters of pointers. What a thread holds of
a product is up to it: k goes in the order in which a thread finds its 16 columns of x in a row, and
columns of keys in one where a thread's eight lie side by side, so that rows are read and written 16
bytes at a time and nothing passes through shared memory.
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"

// ---- primitives ----

/// To 2^-20, between 0 and 1.
__device__ __forceinline__ float sine(float x) {
    float r;
    asm("sin.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
__device__ __forceinline__ float cosine(float x) {
    float r;
    asm("cos.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

// ---- attention ----

constexpr int TOKEN = 64;         // columns of x
constexpr int KEY = 256;          // columns of a key: pairs are columns i and i + 128
constexpr int PAIRS = KEY / 2;
constexpr int ROWS = 16;          // of a tile
constexpr int QUARTERS = 4;       // tokens of a pointer
constexpr int WAVES = 256;        // sines and cosines of a pointer's time
constexpr int KEY_THREADS = 128;
constexpr u32 UNTURNED = 0x3c00;  // cosine 1, sine 0

/// Everything a launch is given, of `layers` = gridDim.y layers.
struct KeysProblem {
    const f16* memories;        // [count, tokens, 64]
    const int* ages;            // [count]: rows of age_rows
    const f16* pointers;        // [pointers, 256]
    const float* times;         // [pointers] from 0 to 1; null where pointers have none
    const f16 *weight;          // [layers, 256, 64]
    const float* bias;          // [layers, 256]
    const f16 *positions;       // [tokens, 64]
    const f16 *age_rows;        // [count, 64]
    const u32* turns;           // [tokens, 128]: cosine and sine of each pair as halves
    const float *frequencies;   // [128]
    const float *time_weight;   // [256, 64]: a row for each sine, then for each cosine
    const float *time_bias;     // [64]
    f16* keys;                  // [layers, count * tokens + 4 pointers, 256]
    int count, tokens, pointer_count;
};

/// What the pointers of a tile need: in shared memory.
struct PointerTimes {
    float waves[ROWS / QUARTERS][WAVES];
    alignas(16) f16 projected[ROWS / QUARTERS][TOKEN];
};

class Keys {
    // Of the lower and the upper column of pairs; of four tiles of eight columns; 16 columns of x.
    u32 weights[2][4][8];
    int lane, part, column, layer;

    /// 16 columns of a row of x: this thread's.
    __device__ __forceinline__ void load(u32 (&to)[8], const f16* row) const {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint4 four = ((const uint4*)(row + part * 16))[i];
            to[i * 4] = four.x, to[i * 4 + 1] = four.y, to[i * 4 + 2] = four.z, to[i * 4 + 3] = four.w;
        }
    }
    __device__ __forceinline__ static void add(u32 (&to)[8], const u32 (&what)[8]) {
#pragma unroll
        for (int i = 0; i < 8; i++) to[i] = add_halves(to[i], what[i]);
    }
    /// Angles of this thread's eight pairs at a place of the map.
    __device__ __forceinline__ void load_turns(u32 (&to)[8], const u32* row) const {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint4 four = ((const uint4*)(row + column))[i];
            to[i * 4] = four.x, to[i * 4 + 1] = four.y, to[i * 4 + 2] = four.z, to[i * 4 + 3] = four.w;
        }
    }

    __device__ __forceinline__ void load_weights(const KeysProblem& p) {
#pragma unroll
        for (int side = 0; side < 2; side++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                // Column n = lane / 4 of a tile is the key's column 8 (n / 2) + 2 j + n % 2 of the
                // warp's.
                int n = lane >> 2, of = side * PAIRS + (column - part * 8) + (n >> 1) * 8 + j * 2 + (n & 1);
                load(weights[side][j], p.weight + (layer * KEY + of) * TOKEN);
            }
    }

    /// Both rows' keys: x[0] of row lane / 4 of the tile, x[1] of the eighth one behind it; `to`:
    /// which of the layer's keys they are; none where that is -1.
    __device__ __forceinline__ void multiply(const KeysProblem& p, const u32 (&x)[2][8],
                                             const u32 (&turns)[2][8], const int (&to)[2]) const {
        u32 packed[2][2][4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float sums[2][4];
#pragma unroll
            for (int side = 0; side < 2; side++) {
                float2 first = *(const float2*)(p.bias + layer * KEY + side * PAIRS + column + j * 2);
                sums[side][0] = sums[side][2] = first.x, sums[side][1] = sums[side][3] = first.y;
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    u32 a[4] = {x[0][k * 2], x[1][k * 2], x[0][k * 2 + 1], x[1][k * 2 + 1]};
                    multiply_add(sums[side], a, weights[side][j][k * 2], weights[side][j][k * 2 + 1]);
                }
            }
#pragma unroll
            for (int row = 0; row < 2; row++) {
                float lower[2], upper[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float2 turn = to_float2(turns[row][j * 2 + i]);
                    float a = sums[0][row * 2 + i], b = sums[1][row * 2 + i];
                    lower[i] = a * turn.x - b * turn.y, upper[i] = a * turn.y + b * turn.x;
                }
                packed[row][0][j] = to_f16x2(lower[0], lower[1]);
                packed[row][1][j] = to_f16x2(upper[0], upper[1]);
            }
        }
#pragma unroll
        for (int row = 0; row < 2; row++) {
            if (to[row] < 0) continue;
            f16* key =
                p.keys + (layer * (p.count * p.tokens + p.pointer_count * QUARTERS) + to[row]) * KEY + column;
#pragma unroll
            for (int side = 0; side < 2; side++) {
                const u32(&four)[4] = packed[row][side];
                *(uint4*)(key + side * PAIRS) = make_uint4(four[0], four[1], four[2], four[3]);
            }
        }
    }

    /// All memories at 16 places of the map from `first` on.
    __device__ __forceinline__ void places(const KeysProblem& p, int first) const {
        u32 turns[2][8];
        int place[2];
        bool there[2];
#pragma unroll
        for (int row = 0; row < 2; row++) {
            place[row] = first + row * 8 + (lane >> 2);
            there[row] = place[row] < p.tokens;
            if (!there[row]) place[row] = p.tokens - 1;
            load_turns(turns[row], p.turns + place[row] * PAIRS);
        }
#pragma unroll 1
        for (int memory = 0; memory < p.count; memory++) {
            u32 x[2][8], age[8];
            load(age, p.age_rows + p.ages[memory] * TOKEN);
            int to[2];
#pragma unroll
            for (int row = 0; row < 2; row++) {
                int at = memory * p.tokens + place[row];
                u32 added[8];  // read again for each memory: registers are short, and the L1 cache has it
                load(added, p.positions + place[row] * TOKEN);
                load(x[row], p.memories + at * TOKEN);
                add(added, age);
                add(x[row], added);
                to[row] = there[row] ? at : -1;
            }
            multiply(p, x, turns, to);
        }
    }

    /// 16 quarters of pointers from quarter `first` on.
    __device__ __forceinline__ void pointers(const KeysProblem& p, int first, PointerTimes& shared) const {
        if (p.times) project_times(p, first / QUARTERS, shared);
        u32 x[2][8], turns[2][8];
        int to[2];
#pragma unroll
        for (int row = 0; row < 2; row++) {
            int of_tile = row * 8 + (lane >> 2), quarter = first + of_tile;
            bool there = quarter < p.pointer_count * QUARTERS;
            load(x[row], p.pointers + (there ? quarter : 0) * TOKEN);
            if (p.times) {
                u32 time[8];
                load(time, shared.projected[of_tile / QUARTERS]);
                add(x[row], time);
            }
#pragma unroll
            for (int i = 0; i < 8; i++) turns[row][i] = UNTURNED;
            to[row] = there ? p.count * p.tokens + quarter : -1;
        }
        multiply(p, x, turns, to);
    }

    /// What the times of four pointers add to them. A barrier stands between what one call writes
    /// and the call before reads.
    __device__ __forceinline__ void project_times(const KeysProblem& p, int first,
                                                  PointerTimes& shared) const {
        for (int i = threadIdx.x; i < ROWS / QUARTERS * (WAVES / 2); i += KEY_THREADS) {
            int pointer = i / (WAVES / 2), wave = i % (WAVES / 2);
            float time = first + pointer < p.pointer_count ? p.times[first + pointer] : 0.0f;
            float angle = time * p.frequencies[wave];
            shared.waves[pointer][wave] = sine(angle);
            shared.waves[pointer][wave + WAVES / 2] = cosine(angle);
        }
        block_barrier();
        // A thread has a column of two pointers.
        int of = threadIdx.x % TOKEN, pointer = threadIdx.x / TOKEN * 2;
        float sums[2] = {p.time_bias[of], p.time_bias[of]};
#pragma unroll 16
        for (int wave = 0; wave < WAVES; wave++) {
            float weight = p.time_weight[wave * TOKEN + of];
            sums[0] += shared.waves[pointer][wave] * weight;
            sums[1] += shared.waves[pointer + 1][wave] * weight;
        }
        u32 both = to_f16x2(sums[0], sums[1]);
        shared.projected[pointer][of] = (f16)both, shared.projected[pointer + 1][of] = (f16)(both >> 16);
        block_barrier();
    }

public:
    /// Tiles of pointers first, which take longest to begin with; a block takes every gridDim.x-th
    /// tile.
    __device__ __forceinline__ void run(const KeysProblem& p, PointerTimes& shared) {
        lane = threadIdx.x & 31, part = lane & 3, column = (threadIdx.x >> 5) * 32 + part * 8,
        layer = blockIdx.y;
        load_weights(p);
        int of_pointers = (p.pointer_count * QUARTERS + ROWS - 1) / ROWS,
            all = of_pointers + (p.tokens + ROWS - 1) / ROWS;
        for (int tile = blockIdx.x; tile < all; tile += gridDim.x) {
            if (tile < of_pointers) pointers(p, tile * ROWS, shared);
            else places(p, (tile - of_pointers) * ROWS);
        }
    }
};

// ---- instances ----

extern "C" __global__ void __launch_bounds__(KEY_THREADS, 3)
    memory_key_proj(const f16* memories, const int* ages, const f16* pointers, const float* times,
                    const f16* weight, const float* bias, const f16* positions, const f16* age_rows,
                    const u32* turns, const float* frequencies, const float* time_weight,
                    const float* time_bias, f16* keys, int count, int tokens, int pointer_count) {
    __shared__ PointerTimes shared;
    Keys all;
    all.run(KeysProblem{memories, ages, pointers, times, weight, bias, positions, age_rows, turns,
                        frequencies, time_weight, time_bias, keys, count, tokens, pointer_count},
            shared);
}
