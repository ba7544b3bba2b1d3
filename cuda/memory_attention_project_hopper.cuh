/*!
What memory_attention_project_hopper.cu reads and tells its peers by, its sizes, and how it joins the
parts of an attention (attention.cuh).

Needs ptx.cuh, common.cuh, arithmetic.cuh, wgmma.cuh, cluster.cuh and tiles.cuh in front.
*/
#pragma once

// ---- primitives (PTX ISA 8.0, sm_90) ----

/// Waits for all threads of a warpgroup: named barrier 0 is the block's.
__device__ __forceinline__ void group_barrier(int group) {
    asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
}
__device__ __forceinline__ uint2 weight_halves(const u16* from) {
    uint2 r;
    asm volatile("ld.global.nc.v2.u32 {%0,%1}, [%2];" : "=r"(r.x), "=r"(r.y) : "l"(from));
    return r;
}
__device__ __forceinline__ void store_peer_unit(u32 there, const u32 (&x)[4]) {
    asm volatile("st.shared::cluster.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(there), "r"(x[0]), "r"(x[1]),
                 "r"(x[2]), "r"(x[3]) : "memory");
}
/// As copies_publish (wgmma.cuh), of stores to peers too.
__device__ __forceinline__ void copies_publish_to_peers() { asm volatile("fence.proxy.async;" ::: "memory"); }

// ---- problem ----

constexpr int PROJECT_CLUSTER = 2, PROJECT_GROUPS = 4, PROJECT_THREADS = PROJECT_GROUPS * 128;
constexpr int PROJECT_TOKENS = 64, PROJECT_WIDTH = 256;  // of a block, columns of a token
constexpr int PARTNER = PROJECT_WIDTH / 2;               // from a column to the other of its pair
constexpr int SPAN = 64;  // columns of a unit, beside their partners; and of a stage's depth
constexpr int UNITS_OF_SECTION = PARTNER / SPAN, MOST_UNITS = PROJECT_GROUPS - 1;
constexpr int PARTS = PROJECT_WIDTH / SPAN;  // stages of a unit
constexpr int TURNED = 2;                    // queries and keys; values are not
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
constexpr u32 memory_attention_query_hopper_shared = WEIGHTS + UNIT;
static_assert(PARTS * TILE == PROJECT_WIDTH * PROJECT_TOKENS * 2, "features in the place of tokens");
static_assert(UNITS_OF_SECTION == PROJECT_CLUSTER, "a unit of a query for each block");

/// What a launch is given.
struct ProjectProblem {
    const TensorMap* weight;  // [256 sections, 256], in boxes of 64 rows
    const u16* x;             // [tokens, 256]; of FEATURES [256, tokens]
    const u16* added;         // as x; not read of TOKENS, nor where parts are joined
    u16* sum;                 // [tokens, 256]; not written of TOKENS
    const float *norm_weight, *norm_bias, *bias;  // [256], [256], [256 sections]
    const float* turns;       // [grid, 64, 2]: cosine and sine
    u16* out;                 // [sections, tokens, 256]
    int grid, sections, source;
    const float *partial, *stats;  // where parts are joined, whose result is added
    int parts;
};

// ---- parts ----

constexpr int PARTS_AHEAD = 4;
constexpr float NO_MAXIMUM = -3e38f;  // of no scores at all

/// Columns 8 lane to 8 lane + 7 of a warp's tokens: their parts together, as `combine` has them
/// (attention.cuh). `partial` [parts, tokens, 256]; `stats` [parts, tokens, 2]: maxima in powers of
/// two, sums. All loads of the first PARTS_AHEAD parts are under way at once.
///
/// Two lanes read 32 bytes that follow each other: no sector is read twice. Of 16 columns they have
/// 4 of the first eight and 4 of the others, and swap halves in the end.
template <int OWN>
__device__ __forceinline__ void join(u32 (&joined)[OWN][4], const float* partial, const float* stats,
                                     const int (&token)[OWN], int tokens, int parts, int lane) {
    const float* values = partial + (lane >> 1) * 16 + (lane & 1) * 4;
    float4 value[PARTS_AHEAD][OWN][2];
    float2 stat[PARTS_AHEAD][OWN];
    auto load = [&](int from) {
#pragma unroll
        for (int i = 0; i < PARTS_AHEAD; i++)
#pragma unroll
            for (int t = 0; t < OWN; t++) {
                // Parts past the last weigh nothing.
                bool is = from + i < parts;
                long long line = (long long)(from + i) * tokens + token[t];
                const float4* at = (const float4*)(values + line * PROJECT_WIDTH);
                stat[i][t] = is ? __ldcg((const float2*)stats + line) : make_float2(NO_MAXIMUM, 0.0f);
#pragma unroll
                for (int j = 0; j < 2; j++)
                    value[i][t][j] = is ? __ldcg(at + j * 2) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
    };
    load(0);
    float top[OWN], total[OWN];
    float4 sum[OWN][2];
#pragma unroll
    for (int t = 0; t < OWN; t++) {
        top[t] = NO_MAXIMUM, total[t] = 0.0f;
        sum[t][0] = sum[t][1] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        // The later parts' maxima, while those loads are under way.
        for (int part = PARTS_AHEAD; part < parts; part++)
            top[t] = fmaxf(top[t], __ldcg((const float2*)stats + (long long)part * tokens + token[t]).x);
#pragma unroll
        for (int i = 0; i < PARTS_AHEAD; i++) top[t] = fmaxf(top[t], stat[i][t].x);
    }
#pragma unroll 1
    for (int from = 0;; load(from)) {
#pragma unroll
        for (int i = 0; i < PARTS_AHEAD; i++)
#pragma unroll
            for (int t = 0; t < OWN; t++) {
                float scale = power_of_two(stat[i][t].x - top[t]);
                total[t] += stat[i][t].y * scale;
#pragma unroll
                for (int j = 0; j < 2; j++) add_scaled(sum[t][j], value[i][t][j], scale);
            }
        from += PARTS_AHEAD;
        if (from >= parts) break;
    }
    bool odd = lane & 1;
#pragma unroll
    for (int t = 0; t < OWN; t++) {
        float share = 1.0f / total[t];
        u32 words[2][2];
#pragma unroll
        for (int j = 0; j < 2; j++)
            words[j][0] = to_f16x2(sum[t][j].x * share, sum[t][j].y * share),
            words[j][1] = to_f16x2(sum[t][j].z * share, sum[t][j].w * share);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            u32 came = from_lane(odd ? words[0][i] : words[1][i], 1);
            joined[t][i] = odd ? came : words[0][i], joined[t][2 + i] = odd ? words[1][i] : came;
        }
    }
}
