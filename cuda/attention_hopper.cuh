/*!
The warpgroups that multiply in Hopper's attention (attention_cluster_hopper.cu): the ring of chunks
from their side, `wgmma`, the online softmax.

Scores and O are in registers; K and V, and Q unless a kernel holds it in registers, are read from
shared memory through descriptors (128-byte swizzle, the layout of attention.cu). Chunks of 64
columns pass through a ring with a pair of barriers each ("full", "empty"), in the order of their
use: K of tile 0, then K of tile j and V of tile j - 1. The warpgroups alternate to issue matmuls by
named barriers, so that one computes its softmax while the other multiplies, as FlashAttention-3
(Shah et al., 2024) does.
*/
#pragma once

// ---- attention ----

/// Bytes of a block's queries in chunks of 64 columns.
__device__ constexpr int query_bytes(int width, int consumers) {
    return consumers * 64 * ((width + CHUNK - 1) / CHUNK) * 128;
}

/// A kernel (KERNEL) has what differs: `take_queries(group)` waits for Q; `begin_tile` waits for K
/// and for the warpgroup's turn, and issues the scores; `finish_scores(tile)` adds what they do not
/// have yet; `release(from, count)` gives slots back; `leave()` comes when all but the last V's are.
/// EAGER: weights are computed before the products with the values before them are awaited. The ring
/// begins at RING_; BETWEEN bytes lie between it and its barriers.
template <class KERNEL, int WIDTH_, int CONSUMERS_, int KEYS_, int DV_, int STAGES_, int RING_, int BETWEEN>
struct AttentionWarpgroup {
    static constexpr int WIDTH = WIDTH_;          // columns of Q and K
    static constexpr int CONSUMERS = CONSUMERS_;  // warpgroups that multiply
    static constexpr int KEYS = KEYS_;            // keys of a tile
    static constexpr int DV = DV_;                // columns of V
    static constexpr bool PACKED = WIDTH == PACKED_WIDTH;
    static constexpr int STAGES = STAGES_;  // chunks the ring holds

    static constexpr int THREADS = (1 + CONSUMERS) * 128;
    static constexpr int QUERIES = CONSUMERS * 64;
    static constexpr int K_CHUNKS = (WIDTH + CHUNK - 1) / CHUNK;
    static constexpr int V_CHUNKS = (DV + CHUNK - 1) / CHUNK;
    static constexpr int STAGE_BYTES = KEYS * 128;
    static constexpr int RING = RING_;                           // offset of the ring
    static constexpr int BEHIND = RING + STAGES * STAGE_BYTES;  // offset of what a kernel has there
    static constexpr int FULL = BEHIND + BETWEEN;               // offsets of the barriers
    static constexpr int EMPTY = FULL + STAGES * 8;
    static constexpr int RING_END = EMPTY + STAGES * 8;
    // Before a K slot is free again its reader may need all of that K and the V before it.
    static_assert(STAGES >= K_CHUNKS + V_CHUNKS, "ring");
    // One product reads all of V, DV columns wide: of the last chunk, which is not always whole,
    // the first ones (the descriptor's leading offset leads from 64 columns to the next ones,
    // wherever N ends). Its chunks must follow each other in the ring. With as many chunks of K
    // they do.
    static_assert(V_CHUNKS == 1 || (V_CHUNKS == K_CHUNKS && STAGES % V_CHUNKS == 0), "chunks of V in a row");
    static_assert(WIDTH % 16 == 0 && DV % 16 == 0 && KEYS % 16 == 0 && STAGES <= THREADS,
                  "columns, keys, barriers");

    /// A place in the ring and how often (modulo 2) it was passed.
    struct Cursor {
        int slot;
        u32 turn;
        __device__ __forceinline__ void next() {
            if (++slot == STAGES) slot = 0, turn ^= 1;
        }
    };

    u32 shared;
    int thread, lane;  // of the warpgroup, of the warp
    int n, first, end;

    float scores[KEYS / 2];
    float acc_o[DV / 2];
    u32 weights[KEYS / 16][4];
    float row_max[2], row_sum[2], scale[2];  // of rows lane / 4 and lane / 4 + 8 of the warp's 16
    Cursor at;

    __device__ __forceinline__ KERNEL& kernel() { return *static_cast<KERNEL*>(this); }

    __device__ __forceinline__ void await(const Cursor& c) const {
        barrier_wait(shared + FULL + c.slot * 8, c.turn);
    }

    /// Waits for the chunks of a tile of K.
    __device__ __forceinline__ void await_keys(u64 (&b)[K_CHUNKS]) {
#pragma unroll
        for (int part = 0; part < K_CHUNKS; part++) {
            await(at);
            b[part] = descriptor(shared + RING + at.slot * STAGE_BYTES);
            at.next();
        }
    }

    /// Nothing but `wgmma` between fence and commit: control flow there makes the compiler
    /// serialise them.
    __device__ __forceinline__ void issue_scores(u32 queries, const u64 (&b)[K_CHUNKS]) {
        settle(scores);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < WIDTH / 16; step++) {
            u64 a = descriptor(queries + step / 4 * QUERIES * 128);
            wgmma_ss(scores, a + step % 4 * 2, b[step / 4] + step % 4 * 2, step > 0);
        }
        wgmma_commit();
    }

    __device__ __forceinline__ void issue_values() {
        u64 b = descriptor(shared + RING + at.slot * STAGE_BYTES, STAGE_BYTES);
#pragma unroll
        for (int part = 0; part < V_CHUNKS; part++) {
            await(at);
            at.next();
        }
        settle(acc_o);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < KEYS / 16; step++) wgmma_rs(acc_o, weights[step], b + step * 128);
        wgmma_commit();
    }

    /// Scores to weights 2^(s log2 e - row_max), still f32 and in place; true if results must be
    /// rescaled by `scale`.
    __device__ __forceinline__ bool online_softmax() {
        float high[2] = {NOTHING, NOTHING};
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++) {
            high[0] = fmaxf(high[0], fmaxf(scores[j * 4], scores[j * 4 + 1]));
            high[1] = fmaxf(high[1], fmaxf(scores[j * 4 + 2], scores[j * 4 + 3]));
        }
#pragma unroll
        for (int h = 0; h < 2; h++) high[h] = most_of_lanes<1, 4>(high[h]) * LOG2E;
        bool rescale = raise_maxima(high, row_max, row_sum, scale);
#pragma unroll
        for (int j = 0; j < KEYS / 2; j++) {
            int h = j / 2 & 1;
            scores[j] = power_of_two(fmaf(scores[j], LOG2E, -row_max[h]));
            row_sum[h] += scores[j];
        }
        return rescale;
    }

    __device__ __forceinline__ void pack_weights(bool rescale) {
        if (rescale) {
#pragma unroll
            for (int j = 0; j < DV / 2; j++) acc_o[j] *= scale[j / 2 & 1];
        }
#pragma unroll
        for (int step = 0; step < KEYS / 16; step++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                weights[step][i] = to_f16x2(scores[step * 8 + i * 2], scores[step * 8 + i * 2 + 1]);
    }

    __device__ __forceinline__ void multiply_all(int group) {
        u32 queries = shared + group * 64 * 128;
        bool closes = group + 1 == CONSUMERS;
        int mine = 1 + group, other = closes ? 1 : mine + 1;  // named barrier 0 is the block's
        if (first >= end) {
            kernel().leave();
            return;
        }
        if (closes) named_barrier_arrive(other);
        // The first tile has no code of its own: self-attention has too few registers for both.
        for (int tile = first; tile < end; tile++) {
            bool weighed = tile > first;  // weights of a tile before this one
            Cursor keys = at;
            kernel().begin_tile(tile, queries, mine);
            Cursor values = at;
            if (weighed) issue_values();
            else wgmma_commit();  // of nothing, in their place
            if (!closes || tile + 1 < end) named_barrier_arrive(other);
            wgmma_wait<1>();
            settle(scores);
            kernel().release(keys, K_CHUNKS);
            kernel().finish_scores(tile);
            bool rescale = online_softmax();
            if constexpr (KERNEL::EAGER) before_waiting(row_sum, shared);
            wgmma_wait<0>();
            settle(acc_o);
            if (weighed) kernel().release(values, V_CHUNKS);
            pack_weights(rescale);
        }
        issue_values();
        kernel().leave();
        wgmma_wait<0>();
        settle(acc_o);
    }

    /// Sets the place of this thread and the block's share of the keys.
    __device__ __forceinline__ void begin(const Problem& p, u32 shared_base) {
        shared = shared_base;
        thread = threadIdx.x & 127;
        lane = threadIdx.x & 31;
        n = p.n;
        Tiles tiles(n, KEYS, blockIdx.y, gridDim.y);
        first = tiles.first, end = tiles.end;
    }

    /// Results of no keys yet, for warpgroup `group` of those that multiply; then of all.
    __device__ __forceinline__ void attend(int group) {
#pragma unroll
        for (int h = 0; h < 2; h++) row_max[h] = NOTHING, row_sum[h] = 0.0f, scale[h] = 1.0f;
#pragma unroll
        for (int j = 0; j < DV / 2; j++) acc_o[j] = 0.0f;
        at = Cursor{0, 0};
        kernel().take_queries(group);
        multiply_all(group);
    }

    __device__ __forceinline__ void store(const Problem& p, int group) const {
        int row = blockIdx.x * QUERIES + group * 64 + (thread >> 5) * 16 + (lane >> 2);
#pragma unroll
        for (int h = 0; h < 2; h++)
            store_row<DV, PACKED>(p, row + h * 8, lane, row_max[h], row_sum[h],
                                  [&](int j, int i) { return acc_o[j * 4 + 2 * h + i]; });
    }
};
