/*!
Hopper's blocks of RepViT (repvit_fused.cuh). The blocks of a thread block cluster share a tile of
64 tokens, and each has its share of all columns: it convolves those, it computes those of y and z,
and twice as many hidden ones. All get each other's y and hidden columns, by distributed shared
memory.

A cluster reads each weight once from the L2 cache. Blocks of 192 columns, by clusters of two, were
slower than repvit_block_192 on an H200.

T tokens of z with C columns; sm 90 only. Of N a block has its share.

| kernel                | M, N, K                               | tile  | cluster | threads | shared  |
|-----------------------|---------------------------------------|-------|---------|---------|---------|
| repvit_block_384_by_6 | T, 768, 384; T, 384, 768              | 8 x 8 | 6       | 256     | 153 472 |
| repvit_down_384_by_6  | T, 384, 192; T, 768, 384; T, 384, 768 | 8 x 8 | 6       | 256     | 175 104 |

Both groups of a block take the same weights, the second from the L1 cache.

Why no block writes into another's memory too early or too late: first stores to a peer follow its
start (wait_until_begun). Hidden columns lie where pixels were; they come behind the barrier in
front of which all have convolved. None stores to a peer behind the last barrier, so each may end.

Why clusters of six: at 1024 pixels there are 16 clusters of 64 tokens. They are 96 blocks, for 132
multiprocessors of an H200. A GPC has 16 or 18 of these, and some have fewer: clusters of eight
might not all run at once, which nobody has measured.

Grid: blocks of a cluster x ceil(grid of z / 8) x ceil(grid of z / 8).
*/
#include "ptx.cuh"
#include "arithmetic.cuh"
#include "attention.cuh"
#include "gelu.cuh"
#include "cluster.cuh"
#include "repvit.cuh"
#include "repvit_block.cuh"
#include "repvit_fused.cuh"

// ---- primitives (PTX ISA 7.8, sm_90) ----

__device__ __forceinline__ void store_peer_word(u32 there, u32 word) {
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(word) : "memory");
}
__device__ __forceinline__ void store_peer_float(u32 there, float x) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(x) : "memory");
}
__device__ __forceinline__ void store_peer_halves(u32 there, uint2 halves) {
    asm volatile("st.shared::cluster.v2.u32 [%0], {%1,%2};"
                 ::"r"(there), "r"(halves.x), "r"(halves.y) : "memory");
}

// ---- blocks ----

/// The blocks of a cluster, which share a tile.
template <int BLOCKS_>
struct Cluster {
    static constexpr int BLOCKS = BLOCKS_;
    int rank;
    u32 peers[BLOCKS - 1];  // how far off each of the others' memory is

    __device__ __forceinline__ void begin(u32 shared) {
        rank = (int)cluster_rank();
#pragma unroll
        for (int i = 0; i < BLOCKS - 1; i++) {
            int other = rank + 1 + i;
            peers[i] = peer_address(shared, (u32)(other < BLOCKS ? other : other - BLOCKS)) - shared;
        }
        cluster_arrive();
    }
    /// Before the first store to a peer.
    __device__ __forceinline__ void wait_until_begun() const { cluster_wait(); }
    __device__ __forceinline__ void send_word(u32 to, u32 word) const {
#pragma unroll
        for (int i = 0; i < BLOCKS - 1; i++) store_peer_word(to + peers[i], word);
    }
    __device__ __forceinline__ void send_halves(u32 to, uint2 halves) const {
#pragma unroll
        for (int i = 0; i < BLOCKS - 1; i++) store_peer_halves(to + peers[i], halves);
    }
    __device__ __forceinline__ void send_float(u32 to, float x) const {
#pragma unroll
        for (int i = 0; i < BLOCKS - 1; i++) store_peer_float(to + peers[i], x);
    }
    __device__ __forceinline__ void barrier() const { cluster_release(), cluster_wait(); }
};

typedef Block<Cluster<6>, 384, 384, 1, 2, 12> Block384By6;
typedef Block<Cluster<6>, 192, 384, 1, 2, 12> Down384By6;
constexpr u32 repvit_block_384_by_6_shared = Block384By6::SHARED;
constexpr u32 repvit_down_384_by_6_shared = Down384By6::SHARED;
constexpr int CLUSTER_COLUMNS = Block384By6::TILE_COLUMNS, CLUSTER_LINES = Block384By6::TILE_LINES;
constexpr int BLOCKS_384 = Block384By6::BLOCKS;
static_assert(CLUSTER_COLUMNS == 8 && CLUSTER_LINES == 8 && BLOCKS_384 == 6, "of launches");
static_assert(repvit_block_384_by_6_shared == 153472, "of launches");
static_assert(repvit_down_384_by_6_shared == 175104, "of launches");

// ---- instances ----

#define REPVIT_BLOCK(name, KIND, CLUSTER)                                                                    \
    extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(KIND::THREADS, 1)           \
        name(const f16* x, const float* weight, const float* bias, const long long* sums,                    \
             const f16* squeeze, const float* squeeze_bias, const f16* excite, const float* excite_bias,     \
             const f16* up, const float* up_bias, const f16* down, const float* down_bias, f16* z,           \
             const float* edges, long long* next, int grid) {                                                \
        extern __shared__ __align__(1024) unsigned char memory[];                                            \
        KIND().run({x, weight, bias, {sums, squeeze, squeeze_bias, excite, excite_bias}, nullptr, nullptr,   \
                    up, up_bias, down, down_bias, z, edges, next, grid},                                     \
                   shared_address(memory));                                                                  \
    }
REPVIT_BLOCK(repvit_block_384_by_6, Block384By6, 6)

extern "C" __global__ void __cluster_dims__(6, 1, 1) __launch_bounds__(Down384By6::THREADS, 1)
    repvit_down_384_by_6(const f16* x, const float* weight, const float* bias, const f16* point,
                         const float* point_bias, const f16* up, const float* up_bias, const f16* down,
                         const float* down_bias, f16* z, const float* edges, long long* next, int grid) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Down384By6().run({x, weight, bias, {}, point, point_bias, up, up_bias, down, down_bias, z, edges, next,
                      grid},
                     shared_address(memory));
}
