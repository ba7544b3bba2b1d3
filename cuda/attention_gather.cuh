/*!
For attention blocks of two groups of warps that share their queries and take the tiles of keys in
turn (attention.cu): a barrier of one group, and how the first group adds what the second has found
to its own. Needs ptx.cuh and attention.cuh in front.
*/
#pragma once

// ---- primitives ----

/// Waits for THREADS threads, those that call it with the same `barrier`: 0 is the block's.
template <int THREADS>
__device__ __forceinline__ void group_barrier(int barrier) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}

// ---- gather ----

/// What each thread of two groups has found about ROWS blocks of 16 queries (unnormalised O,
/// maximum and its share of the sum of two rows each) comes together in the first group, through
/// `place`: 4 ROWS (4 + DV / 2) bytes of shared memory a thread, which the barrier in here frees.
/// `thread` of its group. A group without a tile has found nothing, and weighs nothing.
template <int THREADS, int ROWS, int EIGHTS>
__device__ __forceinline__ void gather(float (&acc_o)[ROWS][EIGHTS][4], float (&row_max)[ROWS][2],
                                       float (&row_sum)[ROWS][2], u32 place, int thread, bool second) {
    auto at = [&](int r, int i) { return place + (u32)((r * (4 + EIGHTS * 4) + i) * THREADS + thread) * 4; };
    block_barrier();
    if (second) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                store_shared_float(at(r, h), row_max[r][h]);
                store_shared_float(at(r, 2 + h), row_sum[r][h]);
            }
#pragma unroll
            for (int i = 0; i < EIGHTS * 4; i++) store_shared_float(at(r, 4 + i), acc_o[r][i / 4][i % 4]);
        }
    }
    block_barrier();
    if (second) return;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float own[2], other[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float found = load_shared_float(at(r, h)), top = fmaxf(row_max[r][h], found);
            own[h] = power_of_two(row_max[r][h] - top), other[h] = power_of_two(found - top);
            row_max[r][h] = top;
            row_sum[r][h] = row_sum[r][h] * own[h] + load_shared_float(at(r, 2 + h)) * other[h];
        }
#pragma unroll
        for (int i = 0; i < EIGHTS * 4; i++) {
            float& sum = acc_o[r][i / 4][i % 4];
            sum = sum * own[i / 2 & 1] + load_shared_float(at(r, 4 + i)) * other[i / 2 & 1];
        }
    }
}
