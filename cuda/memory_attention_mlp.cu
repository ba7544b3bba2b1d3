/*!
The memory attention's MLP, for any GPU from sm 80 on: matmuls of many rows.

  - memory_attention_mlp_up: ReLU(x Wᵀ + b).
  - memory_attention_residual: r + x Wᵀ + b; the MLP's second matmul. The self-test also multiplies a
    memory's columns with it, to compare it with memory_attention_tail.cu.

R rows, C columns, depth D; sm 80 on.

| kernel                    | M, N, K                     | tile MxN | threads | stages | shared bytes |
|---------------------------|-----------------------------|----------|---------|--------|--------------|
| memory_attention_mlp_up   | R, 2048, 256                | 128x128  | 256     | 3      | 98 304       |
| memory_attention_residual | R, 256, 2048 and R, 256, 64 | 128x64   | 256     | 4      | 98 304       |

Chunks of 64 of the depth go to shared memory through a ring of three or four; 128 bytes a row, whose
units of 16 bytes change places by their row. The rows of W, too, are read in an order in which a lane
has four neighbours of the result (repvit.cuh).

By count, of an H200 at 1024 pixels: 512 tiles of memory_attention_mlp_up for twice 132
multiprocessors, 4.3 GFLOP, 14 us at 300 TFLOP/s; 128 tiles of the second matmul, as many FLOPs.

Rows past the last are zeros, and are not stored. Columns are whole tiles, the depth whole chunks.

Grid: ceil(R / 128) x C / tile.
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"
#include "repvit.cuh"

// ---- gemm ----

constexpr int DEPTH = 64;              // of a chunk
constexpr u32 CHUNK_ROW = DEPTH * 2;   // bytes of its rows
constexpr int TALL = 128;              // rows of a tile
constexpr int GEMM_WARPS = 8, GEMM_THREADS = GEMM_WARPS * 32;
constexpr int UNITS = DEPTH / 8, AT_ONCE = GEMM_THREADS / UNITS;  // units of a row, rows of a copy

enum Epilogue { RELU, RESIDUAL };

/// What a launch is given.
struct GemmProblem {
    const f16* x;         // [rows, depth]
    const f16* weight;    // [columns, depth]
    const float* bias;    // [columns]
    const f16* residual;  // [rows, columns]; RESIDUAL alone
    f16* out;             // [rows, columns]
    int rows, columns, depth;
};

/// A warp has 32 GROUPS rows and 32 columns of a tile. STAGES: places of the ring.
template <int BROAD, int GROUPS, int STAGES, Epilogue EPILOGUE>
class Gemm {
    static constexpr int ACROSS = BROAD / 32;  // warps side by side
    static constexpr u32 STAGE = (TALL + BROAD) * CHUNK_ROW;
    static_assert(ACROSS * (TALL / ROWS / GROUPS) == GEMM_WARPS, "warps");
    int lane, row, column;  // of the warp in the tile
    u32 shared;

    /// Where eight rows of W that one instruction reads lie in other banks: 0, 1, 4, 5, 8, 9, 12 and
    /// 13, and those two behind.
    __device__ __forceinline__ static int turn(int row) { return (row >> 2 & 3) * 2 + (row & 1); }

    /// A thread's unit of every 32nd row of both factors, of the next chunk in the depth.
    const f16 *own_rows, *own_weights;
    u32 to_rows, to_weights;
    int there;  // rows from the thread's first to the last

    __device__ __forceinline__ void fetch_weights(const GemmProblem& p, u32 stage) {
#pragma unroll
        for (int i = 0; i < BROAD / AT_ONCE; i++)
            copy16(stage + to_weights + i * AT_ONCE * CHUNK_ROW, own_weights + i * AT_ONCE * p.depth, true);
        own_weights += DEPTH;
    }
    __device__ __forceinline__ void fetch_rows(const GemmProblem& p, u32 stage) {
#pragma unroll
        for (int i = 0; i < TALL / AT_ONCE; i++) {
            bool valid = i * AT_ONCE < there;
            copy16(stage + to_rows + i * AT_ONCE * CHUNK_ROW, valid ? own_rows + i * AT_ONCE * p.depth : p.x,
                   valid);
        }
        own_rows += DEPTH;
    }

    __device__ __forceinline__ void multiply_chunk(Sums (&sums)[GROUPS][2], u32 stage) const {
        u32 weights = stage + TALL * CHUNK_ROW;
        // Lanes' rows of both factors; of W, those of the two instructions' columns by turns.
        int of = row + (lane & 15), n = lane & 7, half = lane >> 4;
        int of_weight = column + (n >> 1) * 4 + half * 2 + (n & 1);
#pragma unroll 2
        for (int step = 0; step < DEPTH / STEP; step++) {
            u32 b[2][4];
#pragma unroll
            for (int t = 0; t < 2; t++)
                load_matrices(b[t], weights + (of_weight + t * TILE) * CHUNK_ROW +
                                        ((step * 2 + (lane >> 3 & 1)) ^ turn(of_weight)) * 16);
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                u32 a[2][4];
                load_left(a, stage + (of + g * ROWS) * CHUNK_ROW + ((step * 2 + half) ^ (lane & 7)) * 16,
                          CHUNK_ROW);
                multiply(sums[g][0], a, b[0]), multiply(sums[g][1], a, b[1]);
            }
        }
    }

public:
    static constexpr u32 BYTES = STAGES * STAGE;

    __device__ __forceinline__ void run(const GemmProblem& p, u32 memory) {
        int warp = threadIdx.x >> 5, chunks = p.depth / DEPTH;
        lane = threadIdx.x & 31, shared = memory;
        row = warp / ACROSS * GROUPS * ROWS, column = warp % ACROSS * 32;
        int own = blockIdx.y * BROAD + column + (lane & 3) * 4, top = blockIdx.x * TALL + row;
        int of = threadIdx.x / UNITS, unit = threadIdx.x % UNITS;
        own_weights = p.weight + (blockIdx.y * BROAD + of) * p.depth + unit * 8;
        to_weights = TALL * CHUNK_ROW + of * CHUNK_ROW + (unit ^ turn(of)) * 16;
        own_rows = p.x + (blockIdx.x * TALL + of) * p.depth + unit * 8;
        to_rows = of * CHUNK_ROW + ((unit ^ of) & 7) * 16;
        there = p.rows - blockIdx.x * TALL - of;
        // Weights, which no launch writes, first.
#pragma unroll
        for (int i = 0; i < STAGES - 1; i++)
            if (i < chunks) fetch_weights(p, shared + i * STAGE);
        Sums sums[GROUPS][2];
#pragma unroll
        for (int t = 0; t < 2; t++) {
            float4 with = load_floats(p.bias + own + t * TILE);
#pragma unroll
            for (int g = 0; g < GROUPS; g++) begin(sums[g][t], with);
        }
        dependent_wait();
        dependent_launch();
#pragma unroll
        for (int i = 0; i < STAGES - 1; i++) {
            if (i < chunks) fetch_rows(p, shared + i * STAGE);
            copies_commit();
        }
        // Load the residual now: behind the matmul each load would wait for the cache.
        uint2 residual[GROUPS][2][4];
        auto token_of = [&](int g, int n) { return top + g * ROWS + n * 8 + (lane >> 2); };
        if (EPILOGUE == RESIDUAL)
#pragma unroll
            for (int g = 0; g < GROUPS; g++)
#pragma unroll
                for (int t = 0; t < 2; t++)
#pragma unroll
                    for (int n = 0; n < 4; n++) {
                        int token = token_of(g, n) < p.rows ? token_of(g, n) : p.rows - 1;
                        residual[g][t][n] = load_halves(p.residual + token * p.columns + own + t * TILE);
                    }
        u32 stage = shared, next = shared + (STAGES - 1) * STAGE, end = shared + STAGES * STAGE;
#pragma unroll 1
        for (int chunk = 0; chunk < chunks; chunk++) {
            copies_wait<STAGES - 2>();
            block_barrier();
            if (chunk + STAGES - 1 < chunks) fetch_weights(p, next), fetch_rows(p, next);
            copies_commit();  // of nothing at the end: so that the wait above counts
            if (top < p.rows) multiply_chunk(sums, stage);
            stage = stage + STAGE < end ? stage + STAGE : shared,
            next = next + STAGE < end ? next + STAGE : shared;
        }
        auto act = [](float x) { return EPILOGUE == RELU ? fmaxf(x, 0.0f) : x; };
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
#pragma unroll
            for (int t = 0; t < 2; t++) {
                int from = top + g * ROWS, at = own + t * TILE;
                if (EPILOGUE == RESIDUAL)
#pragma unroll
                    for (int n = 0; n < 4; n++) add_token(sums[g][t], n / 2, n % 2, residual[g][t][n]);
                each_token(sums[g][t], lane, act, [&](int token, int, uint2 halves) {
                    if (from + token < p.rows) store_halves(p.out + (from + token) * p.columns + at, halves);
                });
            }
    }
};
typedef Gemm<128, 2, 3, RELU> GemmUp;
typedef Gemm<64, 1, 4, RESIDUAL> GemmResidual;
constexpr int UP_COLUMNS = 128, RESIDUAL_COLUMNS = 64;
constexpr u32 UP_SHARED = 98304, RESIDUAL_SHARED = 98304;
static_assert(GemmUp::BYTES == UP_SHARED && GemmResidual::BYTES == RESIDUAL_SHARED, "what launches ask for");

// ---- instances ----

extern "C" __global__ void __launch_bounds__(GEMM_THREADS, 2)
    memory_attention_mlp_up(const f16* x, const f16* weight, const float* bias, f16* out, int rows,
                            int columns, int depth) {
    extern __shared__ __align__(1024) unsigned char memory[];
    GemmUp().run({x, weight, bias, nullptr, out, rows, columns, depth}, shared_address(memory));
}

extern "C" __global__ void __launch_bounds__(GEMM_THREADS, 2)
    memory_attention_residual(const f16* x, const f16* weight, const float* bias, const f16* residual,
                              f16* out, int rows, int columns, int depth) {
    extern __shared__ __align__(1024) unsigned char memory[];
    GemmResidual().run({x, weight, bias, residual, out, rows, columns, depth}, shared_address(memory));
}
