/*!
The memory attention's norm and projections for Hopper (sm_90a), as memory_attention_project of
memory_attention.cu has them: y = norm(x); then R(Wq y + q), R(Wk y + k) and Wv y + v, or
R(Wq y + q) alone. What x is, which sums are stored, and how R turns columns c and c + 128, stands
there.

| kernel                          | M, N, K            | tile of T | cluster | threads | shared bytes |
|---------------------------------|--------------------|-----------|---------|---------|--------------|
| memory_attention_project_hopper | T, 768 or 256, 256 | 64        | 2       | 512     | 231 424      |
| memory_attention_query_hopper   | T, 256, 256        | 64        | 2       | 512     | 100 352      |

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

memory_attention_query_hopper gives R(Wq y + q) of x and an attention's parts, which it joins: the bits
of attention_combine_256 (attention.cu) and of the kernel above behind that.

The blocks of its clusters have the same tokens, and a unit each. A block joins and normalises half of
the tokens, for itself and for its peer. So each part is read once. Its weights are its own, and are
not multicast.

  1. Arrival at the cluster's barrier, and the loads of weights.
  2. The wait for the previous kernel. Loads of x and of all of a warp's tokens in four parts at once.
  3. The wait at the cluster's barrier: the peer runs. Normalised tokens go to both blocks.
  4. Fence, the cluster's barrier again, products. Nobody stores to a peer from here on.

For 4096 tokens in four parts, by counting: a block loads 128 KB of parts, 2.6 us at 50 bytes a ns and
multiprocessor. Neighbouring tokens in a cluster would make 256 KB, and so would both units in a block.

Grid: ceil(T / 64) clusters of 2 blocks.
*/
#include "ptx.cuh"
#include "common.cuh"
#include "arithmetic.cuh"
#include "wgmma.cuh"
#include "cluster.cuh"
#include "tiles.cuh"
#include "memory_attention_project_hopper.cuh"

// ---- projection ----

/// With JOINS, of a query alone: the added tokens are an attention's parts, not yet joined.
template <bool JOINS>
class HopperProjection {
    // Tokens of a warp. Who joins parts shares them with the peer.
    static constexpr int OWN = PROJECT_TOKENS * 32 / PROJECT_THREADS / (JOINS ? PROJECT_CLUSTER : 1);
    typedef float Sums[SPAN];  // of row lane / 4 (+ 8) of a warp's 16, two columns of each eight
    typedef u32 Rows[OWN][4];  // columns 8 lane to 8 lane + 7 of the warp's tokens
    u32 shared, rank;
    int group, warp, lane;           // warp: of the warpgroup
    int first, tokens, from, units;  // the block's first token and unit
    static_assert(JOINS || OWN == 4, "features, chunks of a warp");

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
    /// A half of a stage, to the blocks that need it.
    __device__ __forceinline__ void load_half(const ProjectProblem& p, int unit, int part, u32 half) const {
        int stage = unit * PARTS + part;
        tma_load<!JOINS>(shared + WEIGHTS + stage * STAGE + half * HALF, p.weight, part * SPAN,
                         column_of(unit) + (int)half * PARTNER, shared + FULL + part * 8,
                         JOINS ? 1u << rank : (1u << PROJECT_CLUSTER) - 1);
    }
    /// This block's half of each stage, in the order of use. All barriers of the cluster are known.
    /// With JOINS nobody else needs the block's unit: both halves.
    __device__ __forceinline__ void load_weights(const ProjectProblem& p) const {
        for (int part = 0; part < PARTS; part++)
            if constexpr (JOINS)
                load_half(p, 0, part, 0), load_half(p, 0, part, 1);
            else
                for (int unit = 0; unit < units; unit++) load_half(p, unit, part, rank);
    }
    /// A thread's bias, which goes to shared memory behind the norm: nobody waits for it.
    __device__ __forceinline__ float load_bias(const ProjectProblem& p) const {
        int unit = at_most(group, units - 1);
        return load_float(p.bias + column_of(unit) + warp / 2 * PARTNER + warp % 2 * 32 + lane);
    }

    // ---- norm ----

    __device__ __forceinline__ int row_of(int i) const {
        return (group * 4 + warp) * OWN + i + (JOINS ? (int)rank * (PROJECT_TOKENS / PROJECT_CLUSTER) : 0);
    }

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
                                make_uint2(sum_of_halves(features[i].x, positions[i].x),
                                           sum_of_halves(features[i].y, positions[i].y)));
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
        if constexpr (!JOINS)
            if (p.source == FEATURES) return load_features(x, p);
        pdl_wait();
        pdl_launch_dependents();
        load_tokens(x, p.x);
        if (p.source == TOKENS) return;
        Rows added;
        if constexpr (JOINS) {
            int token[OWN];
#pragma unroll
            for (int i = 0; i < OWN; i++) token[i] = at_most(first + row_of(i), tokens - 1);
            join<OWN>(added, p.partial, p.stats, token, tokens, p.parts, lane);
        } else
            load_tokens(added, p.added);
#pragma unroll
        for (int i = 0; i < OWN; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) x[i][j] = sum_of_halves(x[i][j], added[i][j]);
    }

    /// Adds up each number over the lanes; all of them at a time, for a shuffle takes long.
    __device__ __forceinline__ static void add_lanes(float (&x)[OWN]) {
#pragma unroll
        for (int mask = 1; mask < 32; mask *= 2)
#pragma unroll
            for (int i = 0; i < OWN; i++) x[i] += from_lane(x[i], mask);
    }
    /// Stores normalised tokens as left factors, with JOINS in the peer too.
    __device__ __forceinline__ void normalize(Rows& x, const ProjectProblem& p) const {
        float weight[8], bias[8];
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
            float4 w = load_floats(p.norm_weight + lane * 8 + j);
            float4 b = load_floats(p.norm_bias + lane * 8 + j);
            weight[j] = w.x, weight[j + 1] = w.y, weight[j + 2] = w.z, weight[j + 3] = w.w;
            bias[j] = b.x, bias[j + 1] = b.y, bias[j + 2] = b.z, bias[j + 3] = b.w;
        }
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
        u32 apart = 0;
        if constexpr (JOINS) {
            cluster_wait();  // the peer runs
            apart = peer_address(shared, rank ^ 1) - shared;
        }
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            float scale = reciprocal_root(square[i] * (1.0f / PROJECT_WIDTH) + NORM_EPSILON);
            u32 words[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                words[j] = to_f16x2(fmaf(values[i][j].x * scale, weight[j * 2], bias[j * 2]),
                                    fmaf(values[i][j].y * scale, weight[j * 2 + 1], bias[j * 2 + 1]));
            u32 place = shared + lane / 8 * TILE + row_of(i) * 128 + (lane ^ row_of(i)) % 8 * 16;
            store_shared(place, words);
            if constexpr (JOINS) store_peer_unit(place + apart, words);
        }
    }
    /// Stores sums, which the first part does. Behind fences, which would wait for stores.
    __device__ __forceinline__ void store_sums(const Rows& x, const ProjectProblem& p) const {
        if (p.source == TOKENS || blockIdx.y != 0) return;
#pragma unroll
        for (int i = 0; i < OWN; i++)
            if (first + row_of(i) < tokens)
                store_unit(p.sum + (first + row_of(i)) * PROJECT_WIDTH + lane * 8,
                           make_uint4(x[i][0], x[i][1], x[i][2], x[i][3]));
    }

    // ---- products ----

    /// Issues 64 columns of tokens times those of the unit's weights.
    template <int ADD>
    __device__ __forceinline__ void multiply(Sums& sums, int part) const {
        int stage = group * PARTS + part;
        barrier_wait(shared + FULL + part * 8, 0);
        wgmma_steps<4, ADD>(sums, descriptor(shared + part * TILE),
                            descriptor(shared + WEIGHTS + stage * STAGE));
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
            for (int j = 0; j < SPAN / 8; j++) turns[h][j] = load_floats(of + j * 16);
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
                float2 one = load_shared_pair(biases + (j + e) * 32);
                float2 other = load_shared_pair(biases + (j + e) * 32 + SPAN * 4);
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
        first = (int)blockIdx.x / (JOINS ? PROJECT_CLUSTER : 1) * PROJECT_TOKENS, tokens = p.grid * p.grid;
        units = JOINS ? 1 : p.sections * UNITS_OF_SECTION / (int)gridDim.y;
        from = JOINS ? (int)rank : units * (int)blockIdx.y;
        bool loads = threadIdx.x == (PROJECT_GROUPS - 1) * 128;
        if (loads) prefetch_map(p.weight), create_barriers();
        warp_barrier();  // all of its lanes arrive as one
        if constexpr (JOINS) cluster_arrive();
        else cluster_barriers_known();
        if (loads) load_weights(p);
        warp_barrier();
        float bias = load_bias(p);
        Rows x;
        normalize(x, p);
        if constexpr (JOINS) {
            if (group < units) store_shared_float(shared + BIASES + (int)threadIdx.x * 4, bias);
            copies_publish_to_peers();
            cluster_release();
            store_sums(x, p);
            cluster_wait();
            copies_publish();
        } else {
            copies_publish();
            store_sums(x, p);
            if (group < units) store_shared_float(shared + BIASES + (int)threadIdx.x * 4, bias);
            block_barrier();
        }
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
    HopperProjection<false>().run({&weight, x, added, sum, norm_weight, norm_bias, bias, (const float*)turns,
                                   out, grid, sections, source, nullptr, nullptr, 0},
                                  shared_address(memory));
}
extern "C" __global__ void __cluster_dims__(PROJECT_CLUSTER, 1, 1) __launch_bounds__(PROJECT_THREADS, 1)
    memory_attention_query_hopper(const __grid_constant__ TensorMap weight, const u16* x,
                                  const float* partial, const float* stats, u16* sum,
                                  const float* norm_weight, const float* norm_bias, const float* bias,
                                  const float2* turns, u16* out, int grid, int parts) {
    extern __shared__ __align__(1024) unsigned char memory[];
    HopperProjection<true>().run({&weight, x, nullptr, sum, norm_weight, norm_bias, bias, (const float*)turns,
                                  out, grid, 1, SUMS, partial, stats, parts},
                                 shared_address(memory));
}
