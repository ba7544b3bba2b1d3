// cuda/memory_attention_project_hopper.cu and .cuh for the CPU: after cluster.h.
#define block_barrier barrier_of_block
static float float_from_lane(float x, int mask) { return from_lane(x, mask); }
static void group_barrier(int group) { turn_join(1 + group + 16 * block_of(me->id), 128); }
static float weight_float(const float* from) { inside(read_only(from), 4); return *from; }
template <class T> static T several(const void* from) {
    T r;
    memcpy(&r, inside(from, sizeof r), sizeof r);
    return r;
}
static float4 weight_floats(const float* from) { return several<float4>(read_only(from)); }
static uint2 weight_halves(const u16* from) { return several<uint2>(read_only(from)); }
static uint2 load_halves(const u16* from) { return several<uint2>(from); }
static uint4 load_unit(const u16* from) { return several<uint4>(from); }
static uint2 shared_halves(u32 a) { here(a); return shared_value<uint2>(a); }
static void store_shared_halves(u32 a, uint2 x) { here(a); store_shared_value(a, x); }
/// `wgmma` must not read it until the thread has published it.
static void to_publish(u32 a) {
    unpublished.resize(memory.size()), memset(&unpublished[a], 1, 16);
    my_copies().landed.push_back({a, nullptr, 16, true, false, {}});
}
static void store_shared(u32 a, const u32 (&x)[4]) {
    here(a), store_shared_value(a, uint4{x[0], x[1], x[2], x[3]}), to_publish(a);
}
static void store_peer_unit(u32 there, const u32 (&x)[4]) {
    store_peer(there, uint4{x[0], x[1], x[2], x[3]}), to_publish(there);
}
#include "wgmma.cuh.attention"
static void copies_publish_to_peers() { copies_publish(); }
#include "memory_attention_project_hopper.cuh.problem"
#include "memory_attention_project_hopper.cuh.parts"
#include "memory_attention_project_hopper.cu.projection"
#undef block_barrier
