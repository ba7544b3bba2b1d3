/*!
Hopper's instructions on the CPU, beside machine.h, which includes this: `wgmma` of descriptors, and
barriers in shared memory.
*/
#pragma once

/// `a`: the left factor in registers, else `da` leads to it; `keys`: rows of the right factor are
/// the product's columns; `turned`: those of the left factor are the product's depth.
struct Op { float* d; int n; const u32* a; u64 da, db; int add; bool keys, turned; };
static std::vector<std::vector<Op>> queue[3072];  // a cluster of eight blocks
static std::vector<Op> pending[3072];
static bool late_products;

/// Eight halves that a descriptor leads to.
struct Unit { f16 x[8]; };
/// `block`: where the shared memory of the block begins whose products run; descriptors know 256 KB.
static Unit unit_of(u64 descriptor, u32 block, u32 offset) {
    if (descriptor >> 62 != 1 || (descriptor >> 49 & 7)) stop("bad descriptor");
    u32 a = block + ((u32)(descriptor & 0x3fff) << 4) + offset;
    a ^= (a >> 7 & 7) << 4;
    Unit unit;
    if (a + 16 > memory.size()) stop("a product reads beyond shared memory");
    if (a + 16 <= unpublished.size())
        for (int i = 0; i < 16; i++)
            if (unpublished[a + i]) stop("a product reads what is not published");
    return memcpy(&unit, &memory[a], 16), unit;
}
static u32 stride_of(u64 descriptor, int bit) { return (u32)(descriptor >> bit & 0x3fff) << 4; }
WITH_AVX2 static void multiply_rows(const float (&a)[64][16], const float (&b)[16][256], float (&d)[64][256],
                                    int n) {
    for (int r = 0; r < 64; r++)
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < n; j++) d[r][j] += a[r][k] * b[k][j];
}
static void execute(Op* const (&op)[128], unsigned id) {
    static float A[64][16], B[16][256], D[64][256];
    const u32 block = block_of(id) << 18;
    const Op& first = *op[0];
    const int n = first.n;
    if (n % 8 || n > 256) stop("bad product");
    for (int l = 1; l < 128; l++)
        if (op[l]->db != first.db || op[l]->keys != first.keys || op[l]->da != first.da ||
            op[l]->turned != first.turned || op[l]->add != first.add)
            stop("lanes differ");
    const u32 step_a = stride_of(first.da, 32), step_b = stride_of(first.db, 32),
              next_b = stride_of(first.db, 16);
    for (int k = 0; first.keys && k < 2; k++) {
        for (int j = 0; j < n; j++) {
            const Unit unit = unit_of(first.db, block, j / 8 * step_b + j % 8 * 128 + k * 16);
            for (int i = 0; i < 8; i++) B[k * 8 + i][j] = half(unit.x[i]);
        }
        for (int r = 0; r < 64 && !first.a && !first.turned; r++) {
            const Unit unit = unit_of(first.da, block, r / 8 * step_a + r % 8 * 128 + k * 16);
            for (int i = 0; i < 8; i++) A[r][k * 8 + i] = half(unit.x[i]);
        }
    }
    if (first.turned) {
        for (int k = 0; k < 16; k++)
            for (int r = 0; r < 64; r += 8) {
                const Unit unit = unit_of(first.da, block, k / 8 * step_a + k % 8 * 128 + r * 2);
                for (int i = 0; i < 8; i++) A[r + i][k] = half(unit.x[i]);
            }
    }
    if (!first.keys) {
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < n; j += 8) {
                const Unit unit =
                    unit_of(first.db, block, k / 8 * step_b + k % 8 * 128 + j / 64 * next_b + j % 64 * 2);
                for (int i = 0; i < 8; i++) B[k][j + i] = half(unit.x[i]);
            }
    }
    if (first.a) {
        for (int l = 0; l < 128; l++)
            for (int i = 0; i < 4; i++)
                for (int e = 0; e < 2; e++)
                    A[l / 32 * 16 + l % 32 / 4 + (i & 1) * 8][l % 4 * 2 + e + (i >> 1) * 8] =
                        half(op[l]->a[i] >> (16 * e));
    }
    // A lane has two columns of each eight, of two rows.
    const auto with = [&](auto move) {
        for (int l = 0; l < 128; l++) for (int side = 0; side < 2; side++) {
            float *row = D[l / 32 * 16 + l % 32 / 4 + side * 8] + l % 4 * 2, *d = op[l]->d + side * 2;
            for (int j = 0; j < n / 8; j++) move(row + j * 8, d + j * 4);
        }
    };
    if (first.add) with([](float* row, float* d) { row[0] = d[0], row[1] = d[1]; });
    else memset(D, 0, sizeof D);
    multiply_rows(A, B, D, n);
    with([](float* row, float* d) { d[0] = row[0], d[1] = row[1]; });
}
static void product(Op op) {
    if (late_products) { pending[me->id].push_back(op); return; }
    group_collective(&op, [](Fiber* f) {
        Op* ops[128];
        for (int l = 0; l < 128; l++) ops[l] = (Op*)f[l].args;
        execute(ops, f[0].id);
    });
}
template <int R>
static void wgmma_ss(float (&d)[R], u64 a, u64 b, int add) {
    product({d, R * 2, 0, a, b, add, true});
}
template <int R>
static void wgmma_rs_rows(float (&d)[R], const u32 (&a)[4], u64 b, int add) {
    product({d, R * 2, a, 0, b, add, true});
}
template <int R>
static void wgmma_rs(float (&d)[R], const u32 (&a)[4], u64 b) {
    product({d, R * 2, a, 0, b, 1, false});
}
static void pdl_wait() { wait_for_all(); }
static void pdl_launch_dependents() {}
static void wgmma_fence() {}
static void wgmma_commit() {
    if (late_products) queue[me->id].push_back(pending[me->id]), pending[me->id].clear();
}
template <int LATEST> static void wgmma_wait() {
    if (!late_products) return;
    int dummy;
    group_collective(&dummy, [](Fiber* f) {
        const int base = f[0].id;
        while ((int)queue[base].size() > LATEST) {
            for (size_t i = 0; i < queue[base][0].size(); i++) {
                Op* ops[128];
                for (int l = 0; l < 128; l++) ops[l] = &queue[base + l].at(0).at(i);
                execute(ops, base);
            }
            for (int l = 0; l < 128; l++) queue[base + l].erase(queue[base + l].begin());
        }
    });
}
template <int N> static void settle(float (&)[N]) {}
static void before_waiting(const float (&sum)[2], u32) {
    if (sum[0] < 0 || sum[1] < 0) stop("weights below 0");
}
static void copies_publish() {
    auto& landed = my_copies().landed;
    for (const Copy& c : landed) memset(&unpublished[c.to], 0, c.bytes);
    landed.clear();
}

struct Barrier { int count, left, phase; long bytes; Waiting waiting; };
static std::map<u32, Barrier> barriers;
static void barrier_create(u32 b, int n) {
    if (b % 8) stop("a misaligned barrier");
    barriers[b] = {n, n, 0, 0, {}};
}
static void barrier_step(Barrier& x, int arrivals, long bytes) {
    x.left -= arrivals, x.bytes += bytes;
    if (x.left < 0) stop("more arrivals than a phase has");
    if (x.left == 0 && x.bytes == 0) x.phase++, x.left = x.count, x.waiting.wake();
}
static void barrier_arrive(u32 b) { barrier_step(barriers.at(b), 1, 0), dawdle(); }
static void barrier_wait(u32 b, u32 parity) {
    Barrier& x = barriers.at(b);
    while ((x.phase & 1) == (int)parity) x.waiting.wait();
}
static void named_barrier_arrive(int b) { turn_arrive(b + 16 * block_of(me->id), 256); }
static void named_barrier_sync(int b) { turn_join(b + 16 * block_of(me->id), 256); }
template <int> static void registers_release() {}
template <int> static void registers_claim() {}
#include "wgmma.cuh.matrices"
