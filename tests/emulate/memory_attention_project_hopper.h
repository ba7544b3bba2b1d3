// cuda/memory_attention_project_hopper.cu and .cuh for the CPU: after cluster.h.
#define block_barrier barrier_of_block
static void group_barrier(int group) { turn_join(1 + group + 16 * block_of(me->id), 128); }
static uint2 weight_halves(const u16* from) { return aligned<uint2>(read_only(from)); }
/// `wgmma` must not read it until the thread has published it.
static void to_publish(u32 a) {
    unpublished.resize(memory.size()), memset(&unpublished[a], 1, 16);
    my_copies().landed.push_back({a, nullptr, 16, true, false, {}});
}
static void store_shared(u32 a, const u32 (&x)[4]) {
    store_shared_value(a, uint4{x[0], x[1], x[2], x[3]}), to_publish(a);
}
static void store_peer_unit(u32 there, const u32 (&x)[4]) {
    store_peer(there, uint4{x[0], x[1], x[2], x[3]}), to_publish(there);
}
static void copies_publish_to_peers() { copies_publish(); }
#include "memory_attention_project_hopper.cuh.problem"
#include "memory_attention_project_hopper.cuh.parts"
#include "memory_attention_project_hopper.cu.projection"
#undef block_barrier
