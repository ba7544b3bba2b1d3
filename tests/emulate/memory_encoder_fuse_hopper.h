// cuda/memory_encoder_fuse_hopper.cu for the CPU: after cluster.h.
/// As parts, which land in any order.
static void send_bytes(u32 from, u32 bytes, u32 barrier, u32 rank) {
    if (from % 16 || bytes % 16) stop("a bad copy");
    for (u32 i = 0; i < bytes; i += 8) {
        if (from + i < unpublished.size() && unpublished[from + i]) stop("a copy of what is not published");
        here(from), here(barrier);
        if (rank >= cluster_size || rank == cluster_rank() || block_ended(rank)) stop("a copy to nobody");
        Part part{((from + i) & 0x3ffff) | rank << 18, (barrier & 0x3ffff) | rank << 18, {}};
        memcpy(&part.x, &memory.at(from + i), 8);
        if (slow) parts_under_way.push_back(part);
        else land(part);
    }
}
static void wgmma_transposed(float (&d)[64], u64 a, u64 b) { product({d, 128, 0, a, b, 1, true, true}); }
#include "memory_encoder_fuse_hopper.cu.fuse"
