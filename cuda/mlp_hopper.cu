/*!
An MLP in one launch for Hopper (sm_90a): r + D act(U x + u) + d of tokens of 256 columns, where act
is ReLU (memory attention, 2048 hidden columns) or GELU (the memory encoder's ConvNeXt blocks,
1024). Behind it, where asked for, the projection of that sum to the 64 columns of a memory, plus
what a memory has of an object that is not there; the sum itself is not stored then.

| kernel     | M, N, K                                       | tile of T | cluster | threads | stages | shared bytes |
|------------|-----------------------------------------------|-----------|---------|---------|--------|--------------|
| mlp_hopper | T, hidden, 256; T, 256, hidden; or T, 64, 256 | 144       | 4       | 512     | 13     | 225 560      |

A cluster has 144 tokens, a block a quarter of the hidden columns. So a block reads a quarter of the
weights, once, and x comes to all four blocks by multicast. All matmuls are transposed: rows of
weights are M of `wgmma` (64), tokens its N. N may be any multiple of 8, and 144 is the least for
which 4096 tokens are 29 clusters: of clusters of four an H200 runs 30 at once.

Warpgroups have roles, and hand over by barriers in shared memory:
  - up (120 registers a thread): hidden columns in chunks of 64, from x and U; activates them in
    registers, and stores them as halves in one of two places.
  - down 0 and 1 (176): add a chunk's product with D to sums that stay in registers, each those of
    128 columns. While they multiply chunk i, chunk i + 1 is activated.
  - loader (40): three of its threads bring stages of 64 x 64 weights by TMA, each to the ring of
    one of the other three. A stage has one reader, so that nobody waits for a phase of a barrier
    whose phase before it has not seen complete.

The sums of four blocks are added in a fixed order, so that all runs give the same bits: of D's four
tiles of 64 rows, block b takes tile p ^ b as its p-th, keeps the first, and sends the others to
blocks b ^ p. It sends them as halves, which is half the traffic between multiprocessors. Each block
then adds bias and residual to 64 columns of all tokens, and rounds them once. In shared memory they
have the layout of the projection's right factor. The projection's sums are exchanged in the same
way, 16 columns of a memory for each block.

An estimate, not a measurement, for 4096 tokens and 116 blocks: 75 MFLOP a block with ReLU, 18 400
cycles at 4096 FLOP a cycle, half of that with GELU. A chunk's 2300 cycles of the tensor cores need
as many of shared memory: 1660 to read factors, 510 for 64 KB of weights, 140 for hidden columns.
The L2 cache gives 0.53 MB a block, 10 us at 50 bytes a ns and multiprocessor. Beside these: x and
the first weights, the first chunk's up and the last one's down alone (1150 cycles each), and 55 KB
of sums a block.

Tokens past the last are zeros, and are not stored. A block reads no residual but what it writes:
the residual may be where the sum goes.

Grid: ceil(T / 144) clusters of 4 blocks; hidden columns are a multiple of 256, 512 at least.
*/
#include "ptx.cuh"
#include "common.cuh"
#include "arithmetic.cuh"
#include "gelu.cuh"
#include "wgmma.cuh"
#include "cluster.cuh"
#include "tiles.cuh"
#include "mlp_hopper.cuh"

// ---- mlp ----

class Mlp : MlpBlock {
    // ---- up ----

    /// A chunk is handed over behind the next chunk's matmul: the tensor cores multiply it while
    /// the next one is activated. At once, both matmuls would share the tensor cores, which would
    /// then be idle during the activation.
    __device__ __forceinline__ void make_hidden(const MlpProblem& p) const {
        Cursor at;
        at.begin(0);
        barrier_wait(shared + X_FULL, 0);
#pragma unroll 1
        for (int chunk = 0; chunk < p.chunks; chunk++) {
            const float* from = p.up_bias + hidden_of(p, chunk) + warp * 16 + (lane >> 2);
            float bias[2] = {load_float(from), load_float(from + 8)};
            Sums sums;
            await(at);
            multiply<0>(sums, stage_at(at), shared);
            int before = at.slot;
            at.next(0);
#pragma unroll 1
            for (int part = 1; part < MLP_WIDTH / 64; part++) {
                await(at);
                multiply<1>(sums, stage_at(at), shared + part * TILE);
                wgmma_wait<1>();
                announce(EMPTY + before * 8);
                before = at.slot;
                at.next(0);
            }
            wgmma_wait<0>();
            settle(sums);
            announce(EMPTY + before * 8);
            if (chunk > 0) announce(HIDDEN_FULL + (~chunk & 1) * 8);
            // The first two chunks wait for nobody.
            barrier_wait(shared + HIDDEN_EMPTY + (chunk & 1) * 8, ((u32)(chunk >> 1) & 1) ^ 1);
            u32 tile = tile_of_chunk(chunk);
            if (p.gelu) store_hidden(tile, sums, bias, [](float x) { return gelu(x); });
            else store_hidden(tile, sums, bias, [](float x) { return fmaxf(x, 0.0f); });
            copies_publish();
        }
        announce(HIDDEN_FULL + (~p.chunks & 1) * 8);
    }
    template <class Act>
    __device__ __forceinline__ void store_hidden(u32 tile, const Sums& sums, const float (&bias)[2],
                                                 Act act) const {
        store_sums(tile, sums, [&](u32 (&words)[4], const float* sum, u32) {
#pragma unroll
            for (int j = 0; j < 4; j++)
                words[j] = to_f16x2(act(sum[j * 2] + bias[j & 1]), act(sum[j * 2 + 1] + bias[j & 1]));
        });
    }

    // ---- down ----

    __device__ __forceinline__ void sum_up(const MlpProblem& p, Sums (&sums)[2], int group) const {
        Cursor at;
        at.begin(1 + group);
#pragma unroll
        for (int t = 0; t < 2; t++)
#pragma unroll
            for (int i = 0; i < SUMS; i++) sums[t][i] = 0.0f;
#pragma unroll 1
        for (int chunk = 0; chunk < p.chunks; chunk++) {
            barrier_wait(shared + HIDDEN_FULL + (chunk & 1) * 8, (u32)(chunk >> 1) & 1);
            u32 tile = tile_of_chunk(chunk);
            await(at);
            multiply<1>(sums[0], stage_at(at), tile);
            int before = at.slot;
            at.next(1 + group);
            await(at);
            multiply<1>(sums[1], stage_at(at), tile);
            wgmma_wait<1>();
            announce(EMPTY + before * 8);
            wgmma_wait<0>();
            settle(sums[0]);
            settle(sums[1]);
            announce(HIDDEN_EMPTY + (chunk & 1) * 8);
            announce(EMPTY + at.slot * 8);
            at.next(1 + group);
        }
    }

    // ---- sums of the cluster ----

    /// Sends sums as halves.
    __device__ __forceinline__ static void send(const Sums& sums, u32 there, u32 barrier, u32 apart) {
#pragma unroll
        for (int i = 0; i < EIGHTS; i++) {
            u32 words[4];
#pragma unroll
            for (int j = 0; j < 4; j++) words[j] = to_f16x2(sums[i * 8 + j * 2], sums[i * 8 + j * 2 + 1]);
            send_unit(there + i * apart, words, barrier);
        }
    }
    /// Adds what came from the three others; eight of a thread and the next eight are `apart` bytes
    /// apart.
    __device__ __forceinline__ static void add_peers(Sums& sums, u32 from, u32 apart) {
#pragma unroll 1
        for (int distance = 1; distance < MLP_CLUSTER; distance++, from += EIGHTS * apart)
#pragma unroll
            for (int i = 0; i < EIGHTS; i++) {
                uint4 unit = shared_unit(from + i * apart);
                u32 words[4] = {unit.x, unit.y, unit.z, unit.w};
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    float2 pair = to_float2(words[j]);
                    sums[i * 8 + j * 2] += pair.x, sums[i * 8 + j * 2 + 1] += pair.y;
                }
            }
    }

    /// Where sums go to a peer and come from peers, in the one pass or in two: 64 columns of the
    /// tokens, then a memory's 16 of a warp. Both take the same instructions, so they stand once.
    struct Pass {
        bool last, sends;
        u32 peer, to, from, apart, barrier;
    };
    __device__ __forceinline__ Pass sums_pass(int distance, bool sends) const {
        u32 from = shared + CAME + thread * 16;
        return {false, sends, rank ^ distance, from + (distance - 1) * SUMS_BYTES, from, OF_GROUP,
                shared + SUMS_FULL};
    }
    __device__ __forceinline__ Pass memory_pass() const {
        u32 from = shared + MEMORY_CAME + lane * 16, distance = rank ^ warp;
        return {true, distance != 0, (u32)warp, from + (distance - 1) * MEMORY_BYTES, from, OF_WARP,
                shared + MEMORY_FULL};
    }
    __device__ __forceinline__ static void send_pass(const Pass& pass, const Sums& sums) {
        if (pass.sends)
            send(sums, peer_address(pass.to, pass.peer), peer_address(pass.barrier, pass.peer), pass.apart);
    }

    /// Biases of this lane's two rows: of the sum's columns, or of a memory's.
    __device__ __forceinline__ void load_bias(float (&bias)[2], const MlpProblem& p, bool memory) const {
        int row = warp * 16 + (lane >> 2);
        const float* from = memory ? p.memory_bias + row : p.down_bias + rank * PART + row;
        bias[0] = load_float(from), bias[1] = load_float(from + 8);
        if (memory && *p.score <= 0.0f)
            bias[0] += load_float(p.absent + row), bias[1] += load_float(p.absent + row + 8);
    }

    /// Adds all blocks' sums of this block's tile, biases and residual. The 64 columns of all
    /// tokens go to memory, or to the projection, whose 16 columns then go there. By warpgroup 0;
    /// warpgroup 1 only sends.
    __device__ __forceinline__ void finish(const MlpProblem& p, Sums& sums, int role) const {
        Pass pass = sums_pass(2, role == 1);
        u32 tile = tile_of_chunk(p.chunks);
#pragma unroll 1
        for (;;) {
            send_pass(pass, sums);
            if (role == 1) return;
            float bias[2];
            load_bias(bias, p, pass.last);
            barrier_wait_for_peers(pass.barrier, 0);
            if (pass.last && warp != (int)rank) return;
            add_peers(sums, pass.from, pass.apart);
            if (!pass.last) barrier_wait(shared + RESIDUAL_FULL, 0);
            store_sums(tile, sums, [&](u32 (&words)[4], const float* sum, u32 place) {
                load_matrices_transposed(words, place);
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    // A memory has no residual.
                    float2 residual = to_float2(pass.last ? 0 : words[j]);
                    words[j] = to_f16x2(sum[j * 2] + bias[j & 1] + residual.x,
                                        sum[j * 2 + 1] + bias[j & 1] + residual.y);
                }
            });
            if (pass.last || !p.memory_bias) break;
            // A memory's columns, of this block's 64 of the sum.
            copies_publish();
            first_group_barrier();
            barrier_wait(shared + PROJECTION_FULL, 0);
            multiply<0>(sums, shared + PROJECTION, tile);
            wgmma_wait<0>();
            settle(sums);
            pass = memory_pass();
            // Other warps may still read the tile. What came to this place has been read.
            tile = shared + CAME;
        }
        if (pass.last) warp_barrier();
        else first_group_barrier();
        int unit = pass.last ? warp * 2 + (lane & 1) : thread & 7, row = pass.last ? lane >> 1 : thread >> 3;
        int columns = pass.last ? MLP_MEMORY : MLP_WIDTH;
        int column = unit * 8 + (pass.last ? 0 : (int)rank * PART);
#pragma unroll
        for (int i = 0; i < MLP_TOKENS / 16; i++) {
            int token = i * 16 + row;
            uint4 eight = shared_unit(tile + token * 128 + (u32)(unit ^ (token & 7)) * 16);
            if (first + token < p.tokens)
                store_unit(p.out + (long long)(first + token) * columns + column, eight);
        }
    }

public:
    /// Between the two barriers of the cluster nobody writes a peer's memory but x, which each
    /// block waits for. The second announces reads alone, and needs no release: behind it, x and
    /// the rings are free in all blocks. A block ends when all that is sent to it has come.
    __device__ __forceinline__ void run(const MlpProblem& p, u32 memory) {
        shared = memory, rank = cluster_rank();
        thread = (int)threadIdx.x & 127, warp = thread >> 5, lane = thread & 31;
        first = (int)(blockIdx.x / MLP_CLUSTER) * MLP_TOKENS;
        int role = (int)threadIdx.x >> 7;
        if (threadIdx.x == 0) create_barriers(p);
        block_barrier();
        Cursor to = {0, 0};
        int ahead = 0;
        bool loads = role == 3 && lane == 0 && warp < 3;
        if (loads) {
            to.begin(warp);
            ahead = load_ahead(p, warp, to);
        }
        warp_barrier();
        cluster_barriers_known();
        // 65536 registers: those that the loader does not need go to the others. All wait for the
        // previous kernel, of which x, the residual and the score are, and stores come after.
        if (role == 3) {
            registers_release<40>();
            pdl_wait();
            if (loads) load_rest(p, warp, to, ahead);
            warp_barrier();
            cluster_barriers_known();
        } else if (role == 2) {
            registers_release<120>();
            pdl_wait();
            make_hidden(p);
            cluster_barriers_known();
        } else {
            registers_claim<176>();
            pdl_wait();
            Sums sums[2];
            sum_up(p, sums, role);
            cluster_barriers_known();
            send_pass(sums_pass(role * 2 + 1, true), sums[1]);
            finish(p, sums[0], role);
        }
    }
};

// ---- instances ----

extern "C" __global__ void __cluster_dims__(MLP_CLUSTER, 1, 1) __launch_bounds__(MLP_THREADS, 1)
    mlp_hopper(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap up,
               const __grid_constant__ TensorMap down, const __grid_constant__ TensorMap projection,
               const __grid_constant__ TensorMap residual, const float* up_bias, const float* down_bias,
               const float* memory_bias, const float* score, const float* absent, u16* out, int tokens,
               int chunks, int gelu) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Mlp().run({&x, &up, &down, &projection, &residual, up_bias, down_bias, memory_bias, score, absent, out,
               tokens, chunks, gelu != 0}, shared_address(memory));
}
