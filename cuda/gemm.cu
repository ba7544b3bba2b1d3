/*!
f16 GEMMs with a fused epilogue, for any GPU from sm 80 on: C[M, N] = A[M, K] B[N, K]^T + bias. A:
tokens, B: weights; sums are f32. The counterparts of gemm_hopper.cu and gemm_layernorm_hopper.cu.

| kernel                 | result, f16                         | tile MxN            | of a warp |
|------------------------|-------------------------------------|---------------------|-----------|
| gemm_128_rows          | C or gelu(C)                        | 128 x 96, 128 x 192 | 64 x 48   |
| gemm_layernorm_64_rows | LayerNorm of residual += C (in f32) | 64 x N, up to 448   | 32 x 48   |

Two warps lie above each other, and as many side by side as the launch has threads for: one kernel
serves all widths. 48 divides the columns of tiny and small, and most of large.

Chunks of 32 of the depth go to shared memory through a ring, 64 bytes a row. Two rows fill all banks:
units of 16 bytes change places by half the row, so that `ldmatrix` has no conflicts.

Where memory is the bound, small blocks share a multiprocessor: one stores while another multiplies.
Tiles of the same rows are neighbours in the grid and find A in the L2 cache.

Lanes assemble 16-byte units in shared memory. GELU reads these: it gives what hiera_gelu gives for a
GEMM's f16 output, and the loop is short.

For the LayerNorm each warp computes mean and squared differences of its columns, and one thread a row
combines them (Chan et al., as in gemm_layernorm_hopper.cu). The residual is added behind the matmul,
so that an offset of a row costs no digits; its lines are prefetched. `out` may lie over A if K equals
N: a block has read all of its rows of A before it writes them.

No programmatic dependent launch: the GPUs that these kernels are for have none.
*/
#include "ptx.cuh"
#include "attention.cuh"
#include "f16x2.cuh"
#include "gelu.cuh"

// ---- primitives ----

/// Prefetches a line of 128 bytes into the L2 cache.
__device__ __forceinline__ void prefetch_far_line(const void* from) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from) : "memory");
}

// ---- gemm ----

constexpr int STAGES = 3, DEPTH = 32, STEP = 16;  // of the ring; depth of a chunk, of an instruction
constexpr u32 CHUNK_ROW = DEPTH * 2;              // bytes of its rows
constexpr int UNITS = DEPTH / 8;                  // of 16 bytes, of such a row
constexpr int WARP_COLUMNS = 48, PAIR = 16;       // columns of a warp, of one ldmatrix
constexpr int PAIRS = WARP_COLUMNS / PAIR, EIGHTS = WARP_COLUMNS / 8;
constexpr int ABOVE = 2;                          // warps above each other
constexpr int COLUMN_THREADS = ABOVE * 32;        // for each WARP_COLUMNS of a tile
constexpr u32 PITCH = WARP_COLUMNS * 2 + 16;      // bytes of a staged row: an odd number of units

struct GemmProblem {
    const f16* a;       // [m, k]
    const f16* weight;  // [n, k]
    int m, n, k;
};

/// The sums of a tile of HIGH x 32 rows; a warp has half of the rows, and 48 columns.
template <int HIGH>
struct GemmTile {
    static constexpr int WARP_ROWS = HIGH * 16, ROWS = ABOVE * WARP_ROWS;

    // Of eight columns [1]: a lane has rows 16 [0] + 8 i + lane / 4 and columns 2 (lane % 4) + e at
    // [2 i + e].
    float sums[HIGH][EIGHTS][4];
    u32 shared;
    int lane, warp;
    int top, left;    // of the tile
    int broad;        // columns of the tile that there are
    int row, column;  // of the warp in the tile
    int own;          // columns of the warp that there are; less than 1: none

    __device__ __forceinline__ void begin(const GemmProblem& p, int tile_top, int tile_left, u32 memory) {
        shared = memory, top = tile_top, left = tile_left;
        lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
        row = warp % ABOVE * WARP_ROWS, column = warp / ABOVE * WARP_COLUMNS;
        broad = min((int)blockDim.x / COLUMN_THREADS * WARP_COLUMNS, p.n - left);
        own = min(WARP_COLUMNS, broad - column);
    }
    /// Whether the warp has these eight columns, for tiles where every warp has some.
    __device__ __forceinline__ bool has(int eight) const { return eight < 2 || eight / 2 * PAIR < own; }
    /// This lane's first column of eight in the result.
    __device__ __forceinline__ int place(int eight) const { return left + column + eight * 8 + (lane & 3) * 2; }

    /// Asks for the chunk that begins at column `from`: rows of A, the last one again past it, then of B.
    __device__ __forceinline__ void fetch(const GemmProblem& p, u32 slot, int from) const {
        int first = (int)(threadIdx.x / UNITS), unit = (int)(threadIdx.x % UNITS), at = from + unit * 8;
        // A thread's rows are a multiple of eight apart.
        int apart = (int)(blockDim.x / UNITS);
        bool valid = at < p.k;
        u32 to = slot + first * CHUNK_ROW + (unit ^ (first >> 1 & 3)) * 16;
#pragma unroll 1
        for (int i = first; i < ROWS + broad; i += apart, to += apart * CHUNK_ROW) {
            int of = i < ROWS ? min(top + i, p.m - 1) : left + i - ROWS;
            copy16(to, (i < ROWS ? p.a : p.weight) + (valid ? (u32)(of * p.k + at) : 0), valid);
        }
    }

    /// Adds the product of a chunk.
    __device__ __forceinline__ void multiply(u32 slot) {
        u32 rows = slot + (row + (lane & 15)) * CHUNK_ROW, half = lane >> 4, turn = lane >> 1 & 3;
        u32 weights = slot + (ROWS + (lane & 7) + half * 8) * CHUNK_ROW;
#pragma unroll(HIGH > 2 ? DEPTH / STEP : 1)
        for (int step = 0; step < DEPTH / STEP; step++) {
            u32 a[HIGH][4], first = ((step * 2 + half) ^ turn) * 16;
#pragma unroll
            for (int m = 0; m < HIGH; m++) load_matrices(a[m], rows + m * 16 * CHUNK_ROW + first);
            u32 second = ((step * 2 + (lane >> 3 & 1)) ^ turn) * 16;
#pragma unroll
            for (int pair = 0; pair < PAIRS; pair++) {
                u32 b[4];
                // Beyond the tile's columns the last ones again.
                load_matrices(b, weights + min(column + pair * PAIR, broad - PAIR) * CHUNK_ROW + second);
#pragma unroll
                for (int m = 0; m < HIGH; m++) {
                    multiply_add(sums[m][pair * 2], a[m], b[0], b[1]);
                    multiply_add(sums[m][pair * 2 + 1], a[m], b[2], b[3]);
                }
            }
        }
    }

    /// All of the depth. The sums of this lane's two columns begin with `first(column)`.
    template <class First>
    __device__ __forceinline__ void run(const GemmProblem& p, First first) {
        u32 stage = (ROWS + broad) * CHUNK_ROW, end = shared + STAGES * stage, slot = shared, next = shared;
        int chunks = (p.k + DEPTH - 1) / DEPTH;
#pragma unroll
        for (int j = 0; j < EIGHTS; j++) {
            float2 with = make_float2(0.0f, 0.0f);
            if (j / 2 * PAIR < own) with = first(place(j));
#pragma unroll
            for (int m = 0; m < HIGH; m++)
#pragma unroll
                for (int i = 0; i < 2; i++) sums[m][j][i * 2] = with.x, sums[m][j][i * 2 + 1] = with.y;
        }
        // Copies are STAGES - 1 chunks ahead.
#pragma unroll 1
        for (int chunk = 1 - STAGES; chunk < chunks; chunk++) {
            if (chunk >= 0) {
                copies_wait<STAGES - 2>();
                block_barrier();
            }
            int later = chunk + STAGES - 1;
            if (later < chunks) fetch(p, next, later * DEPTH), next = next + stage < end ? next + stage : shared;
            copies_commit();  // of nothing at the end: so that the wait above counts
            if (chunk >= 0) multiply(slot), slot = slot + stage < end ? slot + stage : shared;
        }
        block_barrier();
    }

    /// Rounds 16 rows of the warp to f16, in its own part of shared memory.
    template <class Value>
    __device__ __forceinline__ void stage_rows(u32 to, Value value) const {
        u32 at = to + (lane >> 2) * PITCH + (lane & 3) * 4;
#pragma unroll
        for (int j = 0; j < EIGHTS; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) store_shared_word(at + i * 8 * PITCH + j * 16, value(j, i));
    }

    /// Stores unit `at` of those that lanes have staged from row `first` of the warp on. Eight lanes
    /// have eight rows, so that no bank is asked twice; pairs of units fill a sector.
    template <class Act>
    __device__ __forceinline__ void store_unit(const GemmProblem& p, u32 from, int at, int first, f16* out,
                                               Act act) const {
        int of = at / (8 * EIGHTS) * 8 + at % 8, unit = at / 8 % EIGHTS, token = top + row + first + of;
        u32 words[4];
        load_shared(words, from + of * PITCH + unit * 16);
        if (token < p.m && unit * 8 < own)
            *(uint4*)(out + (long long)token * p.n + left + column + unit * 8) =
                make_uint4(act(words[0]), act(words[1]), act(words[2]), act(words[3]));
    }
};

constexpr int HIGH = 4, TILE_ROWS = GemmTile<HIGH>::ROWS;

/// The block's tile of out = C or gelu(C).
__device__ __forceinline__ void gemm(const GemmProblem& p, const f16* bias, f16* out, bool activated, u32 memory) {
    GemmTile<HIGH> tile;
    int columns = (int)blockDim.x / COLUMN_THREADS * WARP_COLUMNS, across = (p.n + columns - 1) / columns;
    tile.begin(p, (int)blockIdx.x / across * TILE_ROWS, (int)blockIdx.x % across * columns, memory);
    tile.run(p, [&](int column) { return to_float2(*(const u32*)(bias + column)); });
    u32 staging = memory + tile.warp * (tile.WARP_ROWS * PITCH);
#pragma unroll
    for (int m = 0; m < HIGH; m++)
        tile.stage_rows(staging + m * 16 * PITCH, [&](int j, int i) {
            return to_f16x2(tile.sums[m][j][i * 2], tile.sums[m][j][i * 2 + 1]);
        });
    warp_barrier();
#pragma unroll 1
    for (int at = tile.lane; at < tile.WARP_ROWS * EIGHTS; at += 32)
        tile.store_unit(p, staging, at, 0, out,
                        [&](u32 word) { return activated ? gelu_halves(word) : word; });
}

// ---- norm ----

struct NormProblem {
    const float *bias, *weight, *shift;  // [n]: of the GEMM, of the norm
    float* residual;                     // [m, n]
    f16* out;                            // [m, n]
    const unsigned char* ahead;          // lines to prefetch
    int lines;
};

constexpr u32 LINE = 128;
constexpr int NORM_HIGH = 2, NORM_ROWS = ABOVE * NORM_HIGH * 16;
/// Bytes of a row's mean and squared differences, or mean and scale, for all rows of a tile.
constexpr u32 STATISTICS = NORM_ROWS * 8;

/// The block's rows of residual += C and out = LayerNorm(residual).
__device__ __forceinline__ void gemm_layernorm(const GemmProblem& p, const NormProblem& norm, u32 memory) {
    typedef GemmTile<NORM_HIGH> Tile;
    Tile tile;
    int across = (int)blockDim.x / COLUMN_THREADS, thread = (int)threadIdx.x;
    tile.begin(p, (int)blockIdx.x * NORM_ROWS, 0, memory);
    // Weights of the next kernels, and the residual behind the matmul.
    for (int line = (int)(blockIdx.x * blockDim.x) + thread; line < norm.lines; line += (int)(gridDim.x * blockDim.x))
        prefetch_far_line(norm.ahead + (long long)line * LINE);
    const unsigned char* kept = (const unsigned char*)(norm.residual + (long long)tile.top * p.n);
    for (u32 at = thread * LINE; at < (u32)(min(NORM_ROWS, p.m - tile.top) * p.n) * 4; at += blockDim.x * LINE)
        prefetch_far_line(kept + at);
    tile.run(p, [&](int column) { return *(const float2*)(norm.bias + column); });

    int first = tile.top + tile.row + (tile.lane >> 2);
    float* own = norm.residual + (u32)(first * p.n + tile.place(0));
#pragma unroll
    for (int m = 0; m < NORM_HIGH; m++) {
        // Loads of two rows are under way at once.
        float2 before[2][EIGHTS];
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (first + m * 16 + i * 8 < p.m)
#pragma unroll
                for (int j = 0; j < EIGHTS; j++)
                    if (tile.has(j)) before[i][j] = *(float2*)(own + (m * 16 + i * 8) * p.n + j * 8);
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (first + m * 16 + i * 8 < p.m)
#pragma unroll
                for (int j = 0; j < EIGHTS; j++)
                    if (tile.has(j)) {
                        float &x = tile.sums[m][j][i * 2], &y = tile.sums[m][j][i * 2 + 1];
                        x += before[i][j].x, y += before[i][j].y;
                        *(float2*)(own + (m * 16 + i * 8) * p.n + j * 8) = make_float2(x, y);
                    }
    }

    // The warp's part of each row.
    u32 parts = memory, all = memory + across * STATISTICS;
    u32 own_rows = (tile.row + (tile.lane >> 2)) * 8;
    float share = 1.0f / (float)tile.own;
#pragma unroll
    for (int m = 0; m < NORM_HIGH; m++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float sum = 0.0f, square = 0.0f;
#pragma unroll
            for (int j = 0; j < EIGHTS; j += 2) {
                const float *x = tile.sums[m][j] + i * 2, *y = tile.sums[m][j + 1] + i * 2;
                if (tile.has(j)) sum += (x[0] + x[1]) + (y[0] + y[1]);
            }
            sum += from_lane(sum, 1);
            sum += from_lane(sum, 2);
            float mean = sum * share;
            auto add = [&](float x) { square = fmaf(x - mean, x - mean, square); };
#pragma unroll
            for (int j = 0; j < EIGHTS; j += 2) {
                const float *x = tile.sums[m][j] + i * 2, *y = tile.sums[m][j + 1] + i * 2;
                if (tile.has(j)) add(x[0]), add(x[1]), add(y[0]), add(y[1]);
            }
            square += from_lane(square, 1);
            square += from_lane(square, 2);
            if ((tile.lane & 3) == 0)
                store_shared_pair(parts + tile.warp / ABOVE * STATISTICS + own_rows + (m * 16 + i * 8) * 8,
                                  make_float2(mean, square));
        }
    block_barrier();
    if (thread < NORM_ROWS) {
        float mean = 0.0f, square = 0.0f, all_share = 1.0f / (float)p.n;
#pragma unroll 1
        for (int w = 0; w < across; w++)
            mean += load_shared_pair(parts + w * STATISTICS + thread * 8).x *
                    ((float)min(WARP_COLUMNS, p.n - w * WARP_COLUMNS) * all_share);
#pragma unroll 1
        for (int w = 0; w < across; w++) {
            float2 part = load_shared_pair(parts + w * STATISTICS + thread * 8);
            square += part.y + (float)min(WARP_COLUMNS, p.n - w * WARP_COLUMNS) * ((part.x - mean) * (part.x - mean));
        }
        store_shared_pair(all + thread * 8, make_float2(mean, reciprocal_root(square * all_share + 1e-6f)));
    }
    block_barrier();

    u32 staging = all + STATISTICS + tile.warp * (16 * PITCH);
    float2 weight[EIGHTS], shift[EIGHTS];
#pragma unroll
    for (int j = 0; j < EIGHTS; j++)
        if (tile.has(j)) {
            weight[j] = *(const float2*)(norm.weight + tile.place(j));
            shift[j] = *(const float2*)(norm.shift + tile.place(j));
        }
#pragma unroll
    for (int m = 0; m < NORM_HIGH; m++) {
        float2 of[2];
#pragma unroll
        for (int i = 0; i < 2; i++) of[i] = load_shared_pair(all + own_rows + (m * 16 + i * 8) * 8);
        warp_barrier();  // the rows before were read
        tile.stage_rows(staging, [&](int j, int i) {
            return to_f16x2((tile.sums[m][j][i * 2] - of[i].x) * of[i].y * weight[j].x + shift[j].x,
                            (tile.sums[m][j][i * 2 + 1] - of[i].x) * of[i].y * weight[j].y + shift[j].y);
        });
        warp_barrier();
#pragma unroll
        for (int i = 0; i < EIGHTS / 2; i++)
            tile.store_unit(p, staging, i * 32 + tile.lane, m * 16, norm.out, [](u32 word) { return word; });
    }
}

// ---- instances ----

// m at least 1, n and k multiples of 16; all addresses multiples of 16. Shared memory: STAGES times
// (rows of a tile + its columns) x 64 bytes. Constants: for the host (scripts/kernels.py).

// Widths of tiles, and the shared memory of the widest.
[[maybe_unused]] constexpr int NARROW = 96, WIDE = 192, MOST_NORM_COLUMNS = 448;
[[maybe_unused]] constexpr u32 gemm_128_rows_shared = STAGES * (TILE_ROWS + WIDE) * CHUNK_ROW;
[[maybe_unused]] constexpr u32 gemm_layernorm_64_rows_shared = STAGES * (NORM_ROWS + MOST_NORM_COLUMNS) * CHUNK_ROW;
static_assert(gemm_layernorm_64_rows_shared <= 101376, "shared memory of a block on sm 86");
static_assert(TILE_ROWS == 128 && NORM_ROWS == 64, "the kernels' names");
// What lies there behind the matmul. For the norm shared memory grows faster with the columns.
static_assert(WIDE / WARP_COLUMNS * ABOVE * 64 * PITCH <= gemm_128_rows_shared, "staged rows");
static_assert(2 * STATISTICS + ABOVE * 16 * PITCH <= STAGES * (NORM_ROWS + PAIR) * CHUNK_ROW &&
                  STATISTICS + ABOVE * 16 * PITCH <= STAGES * WARP_COLUMNS * CHUNK_ROW,
              "statistics and staged rows");

// Grid: tiles, those of the same rows side by side. Threads: 64 for each 48 columns of a tile.
extern "C" __global__ void __launch_bounds__(384)
    gemm_128_rows(const f16* a, const f16* weight, const f16* bias, f16* out, int m, int n, int k, int activated) {
    extern __shared__ __align__(1024) unsigned char memory[];
    gemm({a, weight, m, n, k}, bias, out, activated != 0, shared_address(memory));
}

// Grid: ceil(m / 64). Threads: 64 for each 48 columns, or the last part of them.
extern "C" __global__ void __launch_bounds__(640)
    gemm_layernorm_64_rows(const f16* a, const f16* weight, const float* bias, float* residual,
                           const float* norm_weight, const float* norm_bias, f16* out, int m, int n, int k,
                           const unsigned char* ahead, int lines) {
    extern __shared__ __align__(1024) unsigned char memory[];
    gemm_layernorm({a, weight, m, n, k}, {bias, norm_weight, norm_bias, residual, out, ahead, lines},
                   shared_address(memory));
}
