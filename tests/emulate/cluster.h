/*!
Hopper's copy engine and clusters of blocks on the CPU, beside machine.h: a cluster's blocks run at
once, each with its own shared memory. The copy engine brings each box to each block whenever it
likes, and what one block sends to another lands whenever it likes: at once, or long after; what an
order says it writes is written, zeros and all.
*/
#pragma once
#define HOPPER
#ifdef STAND_IN
#include "plain.h"
#else
#include "harness.h"
#endif
static float __fmul_rn(float a, float b) { return a * b; }
static float __fadd_rn(float a, float b) { return a + b; }
#include "dependents.h"
#include "../../cuda/common.cuh"
#include "../../cuda/gelu.cuh"

/// A matrix of halves and its boxes of 64 columns; or several matrices (an instruction says which it
/// means). `row`, `matrix`: elements from one to the next, 0: all follow each other.
struct TensorMap { const u16* data; int rows, columns, box, matrices; long row, matrix; };
struct Box { u32 to; const TensorMap* map; int column, row, matrix; u32 barrier; };
static std::vector<Box> under_way; static bool slow;

static u32 cluster_size;
static u32 cluster_rank() { return block_of(me->id); }
static void cluster_barrier() { block_barrier(); }
static void cluster_barriers_known() { block_barrier(); }
static void barriers_publish() {}
static int of_warp(int x) { return x; }
static void prefetch_map(const TensorMap*) {}
/// Whether all threads of a block have ended, so that its shared memory is gone.
static bool block_ended(u32 rank) {
    for (int i = block_threads; i-- > 0;) if (!fibers[rank * block_threads + i].done) return false;
    return true;
}
static void barrier_expect(u32 b, u32 bytes) { here(b); barrier_step(barriers.at(b), 1, bytes); }
static void barrier_arrive_at(u32 b, u32 rank) {
    here(b);
    if (rank >= cluster_size || block_ended(rank)) {
        printf("block %u is not there\n", rank);
        exit(1);
    }
    barrier_arrive((b & 0x3ffff) | rank << 18);
}
static void land(const Box& b) {
    if (b.to % 1024) { printf("a box across the swizzle's pattern\n"); exit(1); }
    for (int r = 0; r < b.map->box; r++) for (int c = 0; c < 64; c++) {
        int row = b.row + r, column = b.column + c; u32 at = r * 128 + c * 2;
        const bool inside =
            row >= 0 && column >= 0 && b.matrix >= 0 && row < b.map->rows && column < b.map->columns &&
            b.matrix < std::max(b.map->matrices, 1);
        const long line = b.map->row ? b.map->row : b.map->columns,
                   part = b.map->matrix ? b.map->matrix : b.map->rows * line;
        u16 x = inside ? b.map->data[b.matrix * part + row * line + column] : 0;
        memcpy(&memory.at(b.to + (at ^ ((at >> 7 & 7) << 4))), &x, 2);
    }
    barrier_step(barriers.at(b.barrier), 0, -(long)b.map->box * 128);
}
template <bool SEVERAL>
static void load_box(u32 to, const TensorMap* map, i32 column, i32 row, i32 matrix, u32 barrier, u32 blocks) {
    here(to), here(barrier);
    if (blocks >> cluster_size || !(blocks >> block_of(me->id) & 1) ||
        (!SEVERAL && blocks != 1u << block_of(me->id))) {
        printf("bad mask %x\n", blocks);
        exit(1);
    }
    for (u32 rank = 0; rank < cluster_size; rank++) if (blocks >> rank & 1) {
        Box box{(to & 0x3ffff) | rank << 18, map, column, row, matrix, (barrier & 0x3ffff) | rank << 18};
        if (slow) under_way.push_back(box); else land(box);
    }
}
template <bool SEVERAL>
static void tma_load(u32 to, const TensorMap* map, i32 column, i32 row, u32 barrier, u32 blocks) {
    if (map->matrices) stop("two coordinates of three");
    load_box<SEVERAL>(to, map, column, row, 0, barrier, blocks);
}
template <bool SEVERAL>
static void tma_load(u32 to, const TensorMap* map, i32 column, i32 row, i32 matrix, u32 barrier, u32 blocks) {
    if (!map->matrices) stop("three coordinates of two");
    load_box<SEVERAL>(to, map, column, row, matrix, barrier, blocks);
}
/// Two numbers on their way to a block.
struct Part { u32 to, barrier; float2 x; };
static std::vector<Part> parts_under_way;
static void land(const Part& p) {
    memcpy(&memory.at(p.to), &p.x, 8);
    barrier_step(barriers.at(p.barrier), 0, -8);
}
static void send_two(u32 to, float2 x, u32 barrier, u32 rank) {
    here(to), here(barrier);
    if (to % 8 || rank >= cluster_size || block_ended(rank)) {
        printf("a part for nobody\n");
        exit(1);
    }
    Part part{(to & 0x3ffff) | rank << 18, (barrier & 0x3ffff) | rank << 18, x};
    if (slow) parts_under_way.push_back(part); else land(part);
}
static void barrier_wait_for_peers(u32 b, u32 parity) { barrier_wait(b, parity); }

/// The cluster's barrier where a kernel has its halves apart, and the barrier of one block of a
/// cluster.
static Turn cluster_turn, block_turns[8];
/// Of a thread: the turn that it waits for, 0 if it has not arrived; how often it has waited.
struct ClusterThread { int turn, waits; };
static std::vector<ClusterThread> cluster_threads;
static void step(Turn& t, u32 count) {
    if (++t.arrived == (int)count) t.arrived = 0, t.generation++, t.waiting.wake();
}
static void barrier_of_block() {
    Turn& t = block_turns[block_of(me->id)]; const int g = t.generation;
    step(t, block_threads);
    while (t.generation == g) t.waiting.wait();
}
static void cluster_arrive() {
    ClusterThread& own = cluster_threads.at(me->id);
    if (own.turn) stop("a thread arrives twice at the cluster's barrier");
    own.turn = cluster_turn.generation + 1, step(cluster_turn, cluster_size * block_threads), dawdle();
}
static void cluster_wait() {
    ClusterThread& own = cluster_threads.at(me->id);
    if (!own.turn) stop("a thread waits at the cluster's barrier and has not arrived");
    while (cluster_turn.generation < own.turn) cluster_turn.waiting.wait();
    own.turn = 0, own.waits++;
}
/// Stores to other blocks' memory, which land at the latest when their thread releases them.
struct Sent { u32 to, bytes, thread; unsigned char x[16]; };
static std::vector<Sent> sent;
static void land(const Sent& s) { memcpy(&memory.at(s.to), s.x, s.bytes); }
static void cluster_release() {
    for (const Sent& s : sent) if (s.thread == me->id) land(s);
    sent.erase(std::remove_if(sent.begin(), sent.end(), [](const Sent& s) { return s.thread == me->id; }),
               sent.end());
    cluster_arrive();
}
static u32 peer_address(u32 address, u32 rank) {
    here(address);
    if (rank >= cluster_size || rank == block_of(me->id)) stop("no other block of the cluster");
    return (address & 0x3ffff) | rank << 18;
}
template <class T> static void store_peer(u32 there, T x) {
    if (there % sizeof x || (there >> 18) >= cluster_size || there >> 18 == block_of(me->id))
        stop("a store to nobody");
    if (!cluster_threads.at(me->id).waits || fibers[(there >> 18) * block_threads].done)
        stop("a store to a block that may not run");
    Sent s{there, sizeof x, me->id, {}};
    memcpy(s.x, &x, sizeof x);
    if (slow) sent.push_back(s); else land(s);
}
static void store_peer_word(u32 there, u32 x) { store_peer(there, x); }
static void store_peer_float(u32 there, float x) { store_peer(there, x); }
static void store_peer_halves(u32 there, uint2 x) { store_peer(there, x); }

static void store_matrices(u32 address, const u32 (&r)[4]) {
    struct St { u32 address; const u32* r; } own{address, r};
    collective(&own, [&](Fiber* f) {
        for (int i = 0; i < 4; i++) {
            int banks[8] = {0};
            for (int q = 0; q < 8; q++) {
                u32 a = ((St*)f[i * 8 + q].args)->address; loads++;
                if (a % 16 || a + 16 > memory.size()) { printf("bad stmatrix\n"); exit(1); }
                conflicts += banks[a / 16 % 8]++ > 0;
                for (int t = 0; t < 4; t++) memcpy(&memory[a + t * 4], &((St*)f[q * 4 + t].args)->r[i], 4);
            }
        }
    });
}
static void prefetch_line(const void* from) { (void)*(volatile const u16*)from; }
/// Whatever is under way lands when it likes, and in any order.
template <class T> static void some_land(std::vector<T>& all, int hurry) {
    for (int times = rng() % 3; times > 0 && !all.empty() && rng() % hurry == 0; times--) {
        size_t i = rng() % all.size(); T one = all[i]; all.erase(all.begin() + i); land(one);
    }
}
/// Runs `clusters` clusters of `size` blocks of `threads` threads a line, one after the other, in
/// `lines` lines of each of `layers` layers; nothing may be left over at the end of any. `written`:
/// of a dependent launch (dependents.h), as which the first, one in the middle and the last run.
static void run_clusters(int clusters, unsigned size, int threads, std::function<void()> block,
                         unsigned lines = 1, const std::vector<Region>& written = {}, unsigned layers = 1) {
    block_threads = threads, cluster_size = size;
    gridDim = {clusters * size, lines, layers}, blockDim = {(unsigned)threads, 1, 1};
    for (unsigned at = 0, all = clusters * lines * layers; at < all; at++) {
        blockIdx = {at % clusters * size, at / clusters % lines, at / clusters / lines},
        memory.assign(size << 18, 0xff), late_products = slow || (by_chance && rng() & 1);
        barriers.clear(), under_way.clear(), parts_under_way.clear(), sent.clear(), unpublished.clear(),
            forget_copies();
        forget_turns();
        for (auto& x : queue) x.clear();
        cluster_threads.assign(size * threads, {0, 0}), cluster_turn = Turn();
        for (Turn& t : block_turns) t = Turn();
        const int hurry = 1 + rng() % 4;
        beside = [=] {
            some_land(under_way, hurry), some_land(parts_under_way, hurry), some_land(sent, hurry);
            return !under_way.empty() || !parts_under_way.empty() || !sent.empty();
        };
        if (!written.empty() && (at == 0 || at == all / 2 || at + 1 == all))
            run_dependent(written.data(), written.size(), [&] { run_block(threads * size, block); });
        else run_block(threads * size, block);
        for (auto& t : turns) if (t.arrived) { printf("a turn is left over\n"); exit(1); }
        if (!under_way.empty() || !parts_under_way.empty() || !sent.empty()) {
            printf("something comes after the end\n");
            exit(1);
        }
        for (auto& t : cluster_threads)
            if (t.turn) stop("a thread ends before the barrier at which it has arrived");
        for (auto& b : barriers)
            if (b.second.bytes || b.second.left != b.second.count) {
                printf("a barrier is left between phases\n");
                exit(1);
            }
    }
}
#include "tiles.cuh.tiles"
