// cuda/mlp_hopper.cu and its header for the CPU: after cluster.h.
static void store_matrices_transposed(u32 address, const u32 (&r)[4]) {
    struct St { u32 address; const u32* r; } own{address, r};
    here(address);
    collective(&own, [&](Fiber* f) {
        for (int i = 0; i < 4; i++) {
            int banks[8] = {0};
            for (int q = 0; q < 8; q++) {
                const u32 a = ((St*)f[i * 8 + q].args)->address; loads++;
                if (a % 16 || a + 16 > memory.size()) stop("bad stmatrix");
                conflicts += banks[a / 16 % 8]++ > 0;
                // Row q of the transpose: of eight rows the column of lanes 4 row + q / 2.
                for (int row = 0; row < 8; row++) {
                    const u16 x = ((St*)f[row * 4 + q / 2].args)->r[i] >> (q % 2 * 16);
                    memcpy(&memory[a + row * 2], &x, 2);
                }
            }
        }
    });
}
/// As two parts, which land in any order.
static void send_unit(u32 there, const u32 (&x)[4], u32 barrier) {
    if (there % 16 || there >> 18 != barrier >> 18) stop("a bad part");
    for (u32 i = 0; i < 2; i++) {
        Part part{there + i * 8, barrier, {}};
        memcpy(&part.x, x + i * 2, 8);
        if (slow) parts_under_way.push_back(part); else land(part);
    }
}
static void first_group_barrier() { turn_join(1 + 16 * block_of(me->id), 128); }
// Not counted: rows of memories whose units meet in a bank are known.
static uint4 shared_unit(u32 a) { return shared_value<uint4>(a, false); }
#include "mlp_hopper.cuh.mlp"
#include "mlp_hopper.cu.mlp"
