/*!
The memory attention's norm and projections for Hopper (sm_90a), as memory_attention_project of
memory_attention.cu has them: y = norm(x); then R(Wq y + q), R(Wk y + k) and Wv y + v, or
R(Wq y + q) alone. What x is, which sums are stored, and how R turns columns c and c + 128, stands
there.

| kernel                          | M, N, K            | tile of T | cluster | threads | shared bytes |
|---------------------------------|--------------------|-----------|---------|---------|--------------|
| memory_attention_project_hopper | T, 768 or 256, 256 | 64        | 2       | 512     | 231 424      |

A unit is 64 columns and their partners 128 behind: its 128 rows of weights are N of `wgmma`, 64
tokens its M. A block has up to three units, a warpgroup each, and all of their weights in shared
memory at once. So barriers have one phase, and nobody waits for room. Launches of fewer units take
65 536 bytes less for each.

The two blocks of a cluster have neighbouring tokens and the same units. One loads the rows of the
columns, the other those of the partners, each to both blocks. No kernel writes weights: they are
asked for before the wait for the previous kernel, as are biases and the norm's weights. Then each
warp normalises four tokens, in registers: a lane has eight columns of each. Features come channel
by channel, and are transposed in the place of the tokens.

Behind the norm warpgroups without a unit, the fourth always, give their registers to the others.
These ask for angles once all of their products are under way. Results go through the place of the
unit's weights, and are stored as lines of 128 bytes.

For 4096 tokens, 768 columns and 128 blocks, by counting: 3072 cycles of the tensor cores; a block
loads 98 KB of weights, its peer as many for both, and 32 or 64 KB of tokens.

Tokens past the last are the last one, or the last four of features; they are not stored.

Grid: ceil(T / 128) clusters of 2 blocks x parts of the units, of which each has as many.
*/
#include "ptx.cuh"
#include "common.cuh"
#include "f16x2.cuh"
#include "wgmma.cuh"
#include "tiles.cuh"

// ---- primitives (PTX ISA 8.0, sm_90) ----

__device__ __forceinline__ void block_barrier() { __syncthreads(); }
/// Waits for all threads of a warpgroup: named barrier 0 is the block's.
__device__ __forceinline__ void group_barrier(int group) {
    asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
}
// Of weights alone. Asked for where they stand, so that they are there when they are used.
__device__ __forceinline__ float weight_float(const float* from) {
    float r;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(r) : "l"(from));
    return r;
}
__device__ __forceinline__ float4 weight_floats(const float* from) {
    float4 r;
    asm volatile("ld.global.nc.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(r.x), "=f"(r.y), "=f"(r.z), "=f"(r.w)
                 : "l"(from));
    return r;
}
__device__ __forceinline__ uint2 weight_halves(const u16* from) {
    uint2 r;
    asm volatile("ld.global.nc.v2.u32 {%0,%1}, [%2];" : "=r"(r.x), "=r"(r.y) : "l"(from));
    return r;
}
// Halves that an earlier kernel wrote, four or eight.
__device__ __forceinline__ uint2 load_halves(const u16* from) {
    uint2 r;
    asm volatile("ld.global.v2.u32 {%0,%1}, [%2];" : "=r"(r.x), "=r"(r.y) : "l"(from) : "memory");
    return r;
}
__device__ __forceinline__ uint4 load_unit(const u16* from) {
    uint4 r;
    asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(from) : "memory");
    return r;
}
__device__ __forceinline__ uint2 shared_halves(u32 address) {
    uint2 r;
    asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(r.x), "=r"(r.y) : "r"(address) : "memory");
    return r;
}
__device__ __forceinline__ void store_shared_halves(u32 address, uint2 x) {
    asm volatile("st.shared.v2.u32 [%0], {%1,%2};" ::"r"(address), "r"(x.x), "r"(x.y) : "memory");
}

// ---- projection ----

constexpr int PROJECT_CLUSTER = 2, PROJECT_GROUPS = 4, PROJECT_THREADS = PROJECT_GROUPS * 128;
constexpr int PROJECT_TOKENS = 64, PROJECT_WIDTH = 256;  // of a block, columns of a token
constexpr int PARTNER = PROJECT_WIDTH / 2;               // from a column to the other of its pair
constexpr int SPAN = 64;  // columns of a unit, beside their partners; and of a stage's depth
constexpr int UNITS_OF_SECTION = PARTNER / SPAN, MOST_UNITS = PROJECT_GROUPS - 1;
constexpr int PARTS = PROJECT_WIDTH / SPAN;  // stages of a unit
constexpr int TURNED = 2;                    // queries and keys; values are not
constexpr int OWN = PROJECT_TOKENS * 32 / PROJECT_THREADS;  // tokens of a warp
constexpr float NORM_EPSILON = 1e-5f;
/// What x is: of memory, tokens, sums of tokens, or sums of features and positions.
enum Source { TOKENS, SUMS, FEATURES };

constexpr u32 TILE = PROJECT_TOKENS * 128;     // bytes of 64 columns of all tokens
constexpr u32 HALF = SPAN * 128, STAGE = 2 * HALF;  // rows of the columns; and those of their partners
constexpr u32 UNIT = PARTS * STAGE, UNIT_BIASES = 2 * SPAN * 4;
// Offsets in shared memory: tokens, barriers, then biases and weights of each unit.
constexpr u32 FULL = PARTS * TILE, BIASES = FULL + PARTS * 8;
constexpr u32 WEIGHTS = FULL + 2048;
static_assert(BIASES + MOST_UNITS * UNIT_BIASES <= WEIGHTS && WEIGHTS % 1024 == 0, "swizzled stages");
constexpr u32 memory_attention_project_hopper_shared = WEIGHTS + MOST_UNITS * UNIT;
static_assert(memory_attention_project_hopper_shared <= 232448, "shared memory of a block");
static_assert(PARTS * TILE == PROJECT_WIDTH * PROJECT_TOKENS * 2 && OWN == 4, "features, chunks of a warp");

/// What a launch is given.
struct ProjectProblem {
    const TensorMap* weight;  // [256 sections, 256], in boxes of 64 rows
    const u16* x;             // [tokens, 256]; of FEATURES [256, tokens]
    const u16* added;         // as x; not read of TOKENS
    u16* sum;                 // [tokens, 256]; not written of TOKENS
    const float *norm_weight, *norm_bias, *bias;  // [256], [256], [256 sections]
    const float* turns;       // [grid, 64, 2]: cosine and sine
    u16* out;                 // [sections, tokens, 256]
    int grid, sections, source;
};

class HopperProjection {
    typedef float Sums[SPAN];  // of row lane / 4 (+ 8) of a warp's 16, two columns of each eight
    typedef u32 Rows[OWN][4];  // columns 8 lane to 8 lane + 7 of the warp's tokens
    u32 shared, rank;
    int group, warp, lane;           // warp: of the warpgroup
    int first, tokens, from, units;  // the block's first token and unit

    /// The first column of one of the block's units in all sections.
    __device__ __forceinline__ int column_of(int unit) const {
        int of = from + unit;
        return of / UNITS_OF_SECTION * PROJECT_WIDTH + of % UNITS_OF_SECTION * SPAN;
    }

    // ---- in front of the wait ----

    __device__ __forceinline__ void create_barriers() const {
        for (int i = 0; i < PARTS; i++) {
            barrier_create(shared + FULL + i * 8, 1);
            barrier_expect(shared + FULL + i * 8, units * STAGE);
        }
        barriers_publish();
    }
    /// This block's half of each stage, in the order of use. All barriers of the cluster are known.
    __device__ __forceinline__ void load_weights(const ProjectProblem& p) const {
        for (int part = 0; part < PARTS; part++)
            for (int unit = 0; unit < units; unit++) {
                int stage = unit * PARTS + part;
                tma_load<true>(shared + WEIGHTS + stage * STAGE + rank * HALF, p.weight, part * SPAN,
                               column_of(unit) + (int)rank * PARTNER, shared + FULL + part * 8,
                               (1u << PROJECT_CLUSTER) - 1);
            }
    }
    /// A thread's bias, which goes to shared memory behind the norm: nobody waits for it.
    __device__ __forceinline__ float load_bias(const ProjectProblem& p) const {
        int unit = at_most(group, units - 1);
        return weight_float(p.bias + column_of(unit) + warp / 2 * PARTNER + warp % 2 * 32 + lane);
    }

    // ---- norm ----

    __device__ __forceinline__ static u32 sum_of(u32 a, u32 b) {
        float2 one = to_float2(a), other = to_float2(b);
        return to_f16x2(one.x + other.x, one.y + other.y);
    }
    __device__ __forceinline__ int row_of(int i) const { return (group * 4 + warp) * OWN + i; }

    __device__ __forceinline__ void load_tokens(Rows& x, const u16* of) const {
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            uint4 unit = load_unit(of + at_most(first + row_of(i), tokens - 1) * PROJECT_WIDTH + lane * 8);
            x[i][0] = unit.x, x[i][1] = unit.y, x[i][2] = unit.z, x[i][3] = unit.w;
        }
    }
    /// Sums of features and positions: a thread has four tokens of a channel, which are all in the
    /// map or none; in the end eight channels of four tokens. Chunks of four tokens are swizzled
    /// by eights of channels, so that lanes find each in another bank.
    __device__ __forceinline__ void load_features(Rows& x, const ProjectProblem& p) const {
        constexpr int FOURS = PROJECT_TOKENS / 4, AT_ONCE = PROJECT_THREADS / FOURS;
        constexpr int TIMES = PROJECT_WIDTH / AT_ONCE;
        int channel = (int)threadIdx.x / FOURS, chunk = (int)threadIdx.x % FOURS;
        int at = channel * tokens + at_most(first + chunk * 4, tokens - 4);
        uint2 features[TIMES], positions[TIMES];
#pragma unroll
        for (int i = 0; i < TIMES; i++) positions[i] = weight_halves(p.added + at + i * AT_ONCE * tokens);
        pdl_wait();
        pdl_launch_dependents();
#pragma unroll
        for (int i = 0; i < TIMES; i++) features[i] = load_halves(p.x + at + i * AT_ONCE * tokens);
#pragma unroll
        for (int i = 0; i < TIMES; i++, channel += AT_ONCE)
            store_shared_halves(shared + channel * 128 + (chunk ^ (channel / 8 & 15)) * 8,
                                make_uint2(sum_of(features[i].x, positions[i].x),
                                           sum_of(features[i].y, positions[i].y)));
        block_barrier();
#pragma unroll
        for (int j = 0; j < 4; j++) {
            u32 place = shared + (lane * 8 + j * 2) * 128 + (((group * 4 + warp) ^ (lane & 15)) * 8);
            uint2 a = shared_halves(place), b = shared_halves(place + 128);
            x[0][j] = (a.x & 0xffff) | b.x << 16, x[1][j] = a.x >> 16 | (b.x & 0xffff0000);
            x[2][j] = (a.y & 0xffff) | b.y << 16, x[3][j] = a.y >> 16 | (b.y & 0xffff0000);
        }
        block_barrier();  // normalised tokens go where features were
    }
    __device__ __forceinline__ void load_rows(Rows& x, const ProjectProblem& p) const {
        if (p.source == FEATURES) return load_features(x, p);
        pdl_wait();
        pdl_launch_dependents();
        load_tokens(x, p.x);
        if (p.source == TOKENS) return;
        Rows added;
        load_tokens(added, p.added);
#pragma unroll
        for (int i = 0; i < OWN; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) x[i][j] = sum_of(x[i][j], added[i][j]);
    }

    /// Adds up each number over the lanes; all of them at a time, for a shuffle takes long.
    __device__ __forceinline__ static void add_lanes(float (&x)[OWN]) {
#pragma unroll
        for (int mask = 1; mask < 32; mask *= 2)
#pragma unroll
            for (int i = 0; i < OWN; i++) x[i] += float_from_lane(x[i], mask);
    }
    /// Stores normalised tokens as left factors; and sums, which the first part does.
    __device__ __forceinline__ void normalize(const ProjectProblem& p) const {
        float weight[8], bias[8];
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
            float4 w = weight_floats(p.norm_weight + lane * 8 + j);
            float4 b = weight_floats(p.norm_bias + lane * 8 + j);
            weight[j] = w.x, weight[j + 1] = w.y, weight[j + 2] = w.z, weight[j + 3] = w.w;
            bias[j] = b.x, bias[j + 1] = b.y, bias[j + 2] = b.z, bias[j + 3] = b.w;
        }
        Rows x;
        load_rows(x, p);
        float2 values[OWN][4];
        float mean[OWN], square[OWN];
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            mean[i] = 0.0f, square[i] = 0.0f;
#pragma unroll
            for (int j = 0; j < 4; j++)
                values[i][j] = to_float2(x[i][j]), mean[i] += values[i][j].x + values[i][j].y;
        }
        add_lanes(mean);
#pragma unroll
        for (int i = 0; i < OWN; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float2& pair = values[i][j];
                pair.x -= mean[i] * (1.0f / PROJECT_WIDTH), pair.y -= mean[i] * (1.0f / PROJECT_WIDTH);
                square[i] += pair.x * pair.x + pair.y * pair.y;
            }
        add_lanes(square);
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            float scale = reciprocal_root(square[i] * (1.0f / PROJECT_WIDTH) + NORM_EPSILON);
            u32 words[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                words[j] = to_f16x2(fmaf(values[i][j].x * scale, weight[j * 2], bias[j * 2]),
                                    fmaf(values[i][j].y * scale, weight[j * 2 + 1], bias[j * 2 + 1]));
            store_shared(shared + lane / 8 * TILE + row_of(i) * 128 + (lane ^ row_of(i)) % 8 * 16, words);
        }
        copies_publish();
        if (p.source == TOKENS || blockIdx.y != 0) return;
#pragma unroll
        for (int i = 0; i < OWN; i++)  // behind the fence, which would wait for stores
            if (first + row_of(i) < tokens)
                store_unit(p.sum + (first + row_of(i)) * PROJECT_WIDTH + lane * 8,
                           make_uint4(x[i][0], x[i][1], x[i][2], x[i][3]));
    }

    // ---- products ----

    /// Issues 64 columns of tokens times those of the unit's weights. Nothing but `wgmma` between
    /// fence and commit: control flow there makes the compiler serialise them.
    template <int ADD>
    __device__ __forceinline__ void multiply(Sums& sums, int part) const {
        int stage = group * PARTS + part;
        barrier_wait(shared + FULL + part * 8, 0);
        u64 a = descriptor(shared + part * TILE), b = descriptor(shared + WEIGHTS + stage * STAGE);
        settle(sums);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < 4; i++) wgmma_ss(sums, a + i * 2, b + i * 2, i > 0 ? 1 : ADD);
        wgmma_commit();
    }
    /// Cosines and sines of this lane's columns of two tokens: all columns of a unit turn with the
    /// same coordinate.
    __device__ __forceinline__ void load_turns(float4 (&turns)[2][SPAN / 8], const ProjectProblem& p) const {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int token = at_most(first + warp * 16 + h * 8 + (lane >> 2), tokens - 1);
            int row = (u32)token / (u32)p.grid;
            int place = (from + group) % UNITS_OF_SECTION == 0 ? token - row * p.grid : row;
            const float* of = p.turns + place * SPAN * 2 + (lane & 3) * 4;
#pragma unroll
            for (int j = 0; j < SPAN / 8; j++) turns[h][j] = weight_floats(of + j * 16);
        }
    }
    __device__ __forceinline__ static void turn(float& low, float& high, float cosine, float sine) {
        float a = low;
        low = a * cosine - high * sine, high = a * sine + high * cosine;
    }
    /// Adds biases, turns, and stores the warp's 16 tokens in two tiles: columns, partners.
    __device__ __forceinline__ void finish(const Sums& sums, const float4 (&turns)[2][SPAN / 8], bool turned,
                                           u32 to) const {
        u32 biases = shared + BIASES + group * UNIT_BIASES + (lane & 3) * 8;
        to += (u32)(warp * 16 + (lane & 15)) * 128 + (u32)((lane >> 4) ^ (lane & 7)) * 16;
#pragma unroll
        for (int j = 0; j < SPAN / 8; j += 2) {
            u32 words[2][4];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float2 one = shared_two(biases + (j + e) * 32);
                float2 other = shared_two(biases + (j + e) * 32 + SPAN * 4);
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const float *of = sums + (j + e) * 4 + h * 2, *partner = of + SPAN / 2;
                    float low[2] = {of[0] + one.x, of[1] + one.y};
                    float high[2] = {partner[0] + other.x, partner[1] + other.y};
                    if (turned) {
                        float4 two = turns[h][j + e];
                        turn(low[0], high[0], two.x, two.y), turn(low[1], high[1], two.z, two.w);
                    }
                    words[0][e * 2 + h] = to_f16x2(low[0], low[1]);
                    words[1][e * 2 + h] = to_f16x2(high[0], high[1]);
                }
            }
            store_matrices(to ^ (u32)j * 16, words[0]);
            store_matrices((to ^ (u32)j * 16) + TILE, words[1]);
        }
    }
    __device__ __forceinline__ void store(const ProjectProblem& p, u32 tile) const {
        int unit = lane & 7, column = (from + group) % UNITS_OF_SECTION * SPAN + unit * 8;
        u16* out = p.out + (from + group) / UNITS_OF_SECTION * tokens * PROJECT_WIDTH + column;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int row = warp * 16 + i * 4 + (lane >> 3), token = first + row;
            u32 place = tile + row * 128 + (u32)(unit ^ (row & 7)) * 16;
            uint4 low = shared_unit(place), high = shared_unit(place + TILE);
            if (token >= tokens) continue;
            store_unit(out + token * PROJECT_WIDTH, low);
            store_unit(out + token * PROJECT_WIDTH + PARTNER, high);
        }
    }

public:
    /// A block ends when all that is sent to it has come: each unit's group waits for all stages.
    __device__ __forceinline__ void run(const ProjectProblem& p, u32 memory) {
        shared = memory, rank = cluster_rank();
        group = (int)threadIdx.x >> 7, warp = (int)(threadIdx.x >> 5) & 3, lane = (int)threadIdx.x & 31;
        first = (int)blockIdx.x * PROJECT_TOKENS, tokens = p.grid * p.grid;
        units = p.sections * UNITS_OF_SECTION / (int)gridDim.y, from = units * (int)blockIdx.y;
        bool loads = threadIdx.x == (PROJECT_GROUPS - 1) * 128;
        if (loads) prefetch_map(p.weight), create_barriers();
        warp_barrier();  // all of its lanes arrive as one
        cluster_barriers_known();
        if (loads) load_weights(p);
        warp_barrier();
        float bias = load_bias(p);
        normalize(p);
        if (group < units) put_shared(shared + BIASES + (int)threadIdx.x * 4, bias);
        block_barrier();
        // 65536 registers: those of the last warpgroup go to the others.
        if (group >= units) {
            registers_release<24>();
            return;
        }
        registers_claim<160>();
        Sums sums;
        multiply<0>(sums, 0);
#pragma unroll
        for (int part = 1; part < PARTS; part++) multiply<1>(sums, part);
        bool turned = (from + group) / UNITS_OF_SECTION < TURNED;
        float4 turns[2][SPAN / 8];
        if (turned) load_turns(turns, p);
        wgmma_wait<0>();
        settle(sums);
        group_barrier(group);  // the products of all warps have read the weights
        u32 tile = shared + WEIGHTS + group * UNIT;
        finish(sums, turns, turned, tile);
        warp_barrier();
        store(p, tile);
    }
};

// ---- instances ----

extern "C" __global__ void __cluster_dims__(PROJECT_CLUSTER, 1, 1) __launch_bounds__(PROJECT_THREADS, 1)
    memory_attention_project_hopper(const __grid_constant__ TensorMap weight, const u16* x, const u16* added,
                                    u16* sum, const float* norm_weight, const float* norm_bias,
                                    const float* bias, const float2* turns, u16* out, int grid, int sections,
                                    int source) {
    extern __shared__ __align__(1024) unsigned char memory[];
    HopperProjection().run({&weight, x, added, sum, norm_weight, norm_bias, bias, (const float*)turns, out,
                            grid, sections, source}, shared_address(memory));
}
