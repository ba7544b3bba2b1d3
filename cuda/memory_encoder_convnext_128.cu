/*!
The MLP of the memory encoder's ConvNeXt blocks in tiles of 128 tokens, for GPUs of few
multiprocessors from sm 80 on: x + D GELU(U y + u) + d, 1024 hidden columns. With an output
projection it stores of that sum only the 64 columns of a memory, and adds what a memory has of an
object that is not there, as memory_encoder_convnext_mlp_proj does.

| kernel                          | M, N, K                    | tile of T | threads | stages | shared |
|---------------------------------|----------------------------|-----------|---------|--------|--------|
| memory_encoder_convnext_mlp_128 | T, 1024, 256; T, 256, 1024 | 128       | 256     | 3      | 98 304 |

The kernels of memory_encoder_convnext.cu have 32 tokens and read all weights, 1 MB, for each such
tile: a wave of blocks for each 32 tokens of a multiprocessor. By count, of 4096 tokens on Orin's 16
multiprocessors: 8 waves read 8 MB a multiprocessor, here two waves read 2 MB. The tensor cores (sm
80 and 87: 1024 multiply-adds a clock) need 131 072 clocks for a multiprocessor's 256 tokens either
way: 64 bytes a clock are more than an L2 cache gives, 16 are not.

A warp has 16 tokens with all their columns in registers: y as left factor, 64, and the sums, 128.
Its hidden columns come in chunks of 32. What the first matmul leaves in registers is the second
one's left factor, so hidden columns never leave the warp. All warps read the same weights, 32 KB a
chunk, from a ring that two chunks are ahead; they meet once a chunk. A byte of weights in shared
memory serves 8 multiply-adds of each warp: 128 bytes a clock, just the tensor cores' rate.

Tokens past the last are the last one, and are not stored. A lane reads of x what it stores, and
does so first: x may be where the sum goes.

Grid: ceil(tokens / 128).
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"
#include "memory_encoder_convnext.cuh"

// ---- blocks ----

constexpr int HIDDEN = 1024, PART = 32, PARTS = HIDDEN / PART;  // hidden columns, those of a chunk
constexpr int STEP = 16;                                        // those that a warp has at a time
constexpr int MEMORY = 64;                                      // columns of a memory
constexpr int TILE_128_WARPS = 8, TILE_128_TOKENS = TILE_128_WARPS * 16,
              TILE_128_THREADS = TILE_128_WARPS * 32;
// Of a chunk: its rows of U, behind them its columns of D. The memory's weight takes all of it.
constexpr u32 UP_BYTES = PART * ROW, STAGE_BYTES = UP_BYTES + WIDTH * PART * 2;
constexpr int STAGES = 3;
constexpr u32 TILE_128_SHARED = STAGES * STAGE_BYTES;
static_assert(TILE_128_SHARED == 98304 && MEMORY * ROW == STAGE_BYTES, "what launches ask for");

/// What a launch is given; of the projection nothing, or all.
struct Tile128Problem {
    const f16 *y, *x;          // [tokens, 256]
    const f16* up;             // U [1024, 256]
    const float* up_bias;
    const f16* down;           // D [256, 1024]
    const float* down_bias;
    f16* out;                  // [tokens, 256], may be x; of a memory [tokens, 64]
    const f16* out_weight;     // [64, 256], or null
    const float *out_bias, *score, *absent;
    int tokens;
};

class Tile128Mlp {
    int warp, lane, part, first;     // `first` of the lane's tokens, the other is the eighth behind it
    u32 shared, up_rows, down_rows;  // a lane's places for ldmatrix, in the first 16 rows of a stage
    u32 left[WIDTH / 16][4];
    float sums[WIDTH / 8][4];

    /// Starts the copies of 8 COUNT rows [256] in chunks of 64 columns: a warp copies whole rows.
    template <int COUNT>
    __device__ __forceinline__ void fetch_rows(u32 stage, const f16* rows) const {
        u32 to = stage + (u32)(lane >> 3) * (COUNT * 1024) + (u32)warp * 128 + (u32)((lane ^ warp) & 7) * 16;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            copy16(to + i * 1024, rows + (i * 8 + warp) * WIDTH + lane * 8, true);
    }
    /// The same of a chunk: of D two rows lie in 128 bytes, and units change places by such lines.
    __device__ __forceinline__ void fetch(const Tile128Problem& p, u32 stage, int chunk) const {
        fetch_rows<PART / 8>(stage, p.up + chunk * PART * WIDTH);
        int row = threadIdx.x >> 2, unit = threadIdx.x & 3, line = row >> 1;
        u32 to = stage + UP_BYTES + (u32)line * 128 + (u32)((row & 1) * 4 + (unit ^ (line & 3))) * 16;
#pragma unroll
        for (int i = 0; i < 4; i++)
            copy16(to + i * 4096, p.down + (i * 64 + row) * HIDDEN + chunk * PART + unit * 8, true);
    }
    /// result += the left factor by 16 rows [256] of a stage that has ROWS of them. Two sums take
    /// turns, so that fewer products wait for the one before.
    template <int ROWS>
    __device__ __forceinline__ void multiply(float (&result)[2][4], u32 rows) const {
        float odd[2][4] = {};
#pragma unroll
        for (int k = 0; k < WIDTH / 16; k++) {
            u32 b[4];
            load_matrices(b, (up_rows ^ (u32)((k & 3) * 32)) + rows + (u32)(k >> 2) * (ROWS * 128));
#pragma unroll
            for (int i = 0; i < 2; i++)
                multiply_add(k & 1 ? odd[i] : result[i], left[k], b[2 * i], b[2 * i + 1]);
        }
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int c = 0; c < 4; c++) result[i][c] += odd[i][c];
    }

    /// y becomes the left factor, and the sums begin with x and D's bias.
    __device__ __forceinline__ void begin(const Tile128Problem& p) {
        int at[2];
#pragma unroll
        for (int h = 0; h < 2; h++) at[h] = min(first + h * 8, p.tokens - 1) * WIDTH + part * 2;
#pragma unroll
        for (int k = 0; k < WIDTH / 16; k++)
#pragma unroll
            for (int i = 0; i < 4; i++) left[k][i] = *(const u32*)(p.y + at[i & 1] + k * 16 + (i >> 1) * 8);
#pragma unroll
        for (int j = 0; j < WIDTH / 8; j++) {
            float2 bias = *(const float2*)(p.down_bias + j * 8 + part * 2);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float2 pair = to_float2(*(const u32*)(p.x + at[h] + j * 8));
                sums[j][h * 2] = pair.x + bias.x, sums[j][h * 2 + 1] = pair.y + bias.y;
            }
        }
    }

    /// A chunk of the hidden columns, and what it adds to the sums.
    __device__ __forceinline__ void add_chunk(const Tile128Problem& p, u32 stage, int chunk) {
#pragma unroll 1
        for (int step = 0; step < PART / STEP; step++) {
            const float* own = p.up_bias + chunk * PART + step * STEP + part * 2;
            float2 bias[2] = {*(const float2*)own, *(const float2*)(own + 8)};
            float hidden[2][4] = {};
            multiply<PART>(hidden, stage + step * (STEP * 128));
            u32 active[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float* pair = hidden[i >> 1] + (i & 1) * 2;
                active[i] = to_f16x2(gelu(pair[0] + bias[i >> 1].x), gelu(pair[1] + bias[i >> 1].y));
            }
            u32 rows = (down_rows ^ (u32)(step * 32)) + stage + UP_BYTES;
#pragma unroll
            for (int j = 0; j < WIDTH / 16; j++) {
                u32 b[4];
                load_matrices(b, rows + j * 1024);
                multiply_add(sums[2 * j], active, b[0], b[1]);
                multiply_add(sums[2 * j + 1], active, b[2], b[3]);
            }
        }
    }

    /// Stores eight columns of the lane's tokens, of rows of COLUMNS.
    template <int COLUMNS>
    __device__ __forceinline__ void store(const Tile128Problem& p, int column,
                                          const float (&result)[4]) const {
#pragma unroll
        for (int h = 0; h < 2; h++)
            if (first + h * 8 < p.tokens)
                *(u32*)(p.out + (first + h * 8) * COLUMNS + column + part * 2) =
                    to_f16x2(result[h * 2], result[h * 2 + 1]);
    }

    /// The sums' product with the memories' weight, which is in `stage`.
    __device__ __forceinline__ void project(const Tile128Problem& p, u32 stage) {
#pragma unroll
        for (int k = 0; k < WIDTH / 16; k++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float* pair = sums[2 * k + (i >> 1)] + (i & 1) * 2;
                left[k][i] = to_f16x2(pair[0], pair[1]);
            }
        bool there = !(*p.score <= 0.0f);
#pragma unroll 1
        for (int j = 0; j < MEMORY / 16; j++) {
            float result[2][4];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int column = (2 * j + i) * 8 + part * 2;
                float2 bias = load_pair(p.out_bias + column), absent = load_pair(p.absent + column);
                if (!there) bias.x += absent.x, bias.y += absent.y;
#pragma unroll
                for (int h = 0; h < 2; h++) result[i][h * 2] = bias.x, result[i][h * 2 + 1] = bias.y;
            }
            multiply<MEMORY>(result, stage + (u32)j * 2048);
#pragma unroll
            for (int i = 0; i < 2; i++) store<MEMORY>(p, (2 * j + i) * 8, result[i]);
        }
    }

public:
    __device__ __forceinline__ void run(const Tile128Problem& p, u32 memory) {
        shared = memory, warp = threadIdx.x >> 5, lane = threadIdx.x & 31, part = lane & 3;
        first = blockIdx.x * TILE_128_TOKENS + warp * 16 + (lane >> 2);
        u32 low = lane & 7, row = low + ((lane >> 4) << 3), half = (lane >> 3) & 1;
        up_rows = row * 128 + (half ^ low) * 16;
        down_rows = (row >> 1) * 128 + ((row & 1) * 4 + (half ^ ((row >> 1) & 3))) * 16;
#pragma unroll 1
        for (int chunk = 0; chunk < STAGES - 1; chunk++)
            fetch(p, shared + chunk * STAGE_BYTES, chunk), copies_commit();
        dependent_wait();
        dependent_launch();
        begin(p);
        u32 stage = shared, spare = shared + (STAGES - 1) * STAGE_BYTES;
#pragma unroll 1
        for (int chunk = 0; chunk < PARTS; chunk++) {
            copies_wait<STAGES - 2>();
            // This chunk has landed for all warps, and nobody reads the one before it any more.
            block_barrier();
            if (chunk + STAGES - 1 < PARTS) fetch(p, spare, chunk + STAGES - 1);
            else if (p.out_weight && chunk + STAGES - 1 == PARTS) fetch_rows<MEMORY / 8>(spare, p.out_weight);
            copies_commit();
            add_chunk(p, stage, chunk);
            spare = stage;
            stage = stage == shared + (STAGES - 1) * STAGE_BYTES ? shared : stage + STAGE_BYTES;
        }
        if (p.out_weight) {
            copies_wait<0>();
            block_barrier();
            project(p, stage);
        } else {
#pragma unroll
            for (int j = 0; j < WIDTH / 8; j++) store<WIDTH>(p, j * 8, sums[j]);
        }
    }
};

// ---- instances ----

/// 98304 bytes of shared memory.
extern "C" __global__ void __launch_bounds__(TILE_128_THREADS, 1)
    memory_encoder_convnext_mlp_128(const f16* y, const f16* x, const f16* up, const float* up_bias,
                                    const f16* down, const float* down_bias, f16* out,
                                    const f16* out_weight, const float* out_bias, const float* score,
                                    const float* absent, int tokens) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Tile128Mlp().run({y, x, up, up_bias, down, down_bias, out, out_weight, out_bias, score, absent, tokens},
               shared_address(memory));
}
