/*!
A GPU's block on the CPU, for the kernels' own sources. Every GPU thread is a fibre; warp-wide and warpgroup-wide instructions
(ldmatrix, mma, wgmma, shuffles, votes) meet all their lanes and follow the fragment layouts and descriptors of the PTX ISA; `cp.async`
lands at once or only when it is waited for, `wgmma` runs at once or only when it is waited for, and warps run in random order, so that a
missing wait, barrier or release shows as a wrong result. Of the proxies of Hopper's memory model it knows that what `cp.async` brought
must be published by the thread that copied before `wgmma` reads it. It says nothing about speed.
*/
#pragma once
#include <setjmp.h>
#include <ucontext.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <vector>
#include <algorithm>
#include "../data/gpu/half.h"
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
typedef unsigned u32;
typedef unsigned short f16;
struct Dim { unsigned x, y, z; } threadIdx, blockIdx, gridDim, blockDim;
struct int2 { int x, y; }; struct float2 { float x, y; }; struct float4 { float x, y, z, w; }; struct uint2 { u32 x, y; }; struct uint4 { u32 x, y, z, w; };
static int2 make_int2(int x, int y) { return {x, y}; }
static float2 make_float2(float x, float y) { return {x, y}; }
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static uint2 make_uint2(u32 x, u32 y) { return {x, y}; }
static uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
static const float* HALVES = host_halves();
static float half(f16 h) { return HALVES[h]; }
static f16 tohalf(float f) { return host_half_bits(f); }

struct Copy { u32 to; const void* from; int bytes; bool valid; };
struct Fiber { int state = 0; unsigned id; std::vector<std::vector<Copy>> groups; std::vector<Copy> open, landed; void* args; };
enum { RUN, WARP, BLOCK, DONE, GROUP };
typedef unsigned long long u64;
#include <map>

static std::vector<Fiber> fibers; static Fiber* me;
static std::vector<unsigned char> memory; static bool late; static std::mt19937 rng(1);
static std::function<void()> body;
/// Where a fibre goes on, and its stack: made once, used by one block's thread after another. Contexts only begin a fibre; from turn to turn
/// they are left and entered by jumps, since `swapcontext` asks the system for the signal mask each time.
struct Place { jmp_buf at; char* stack; };
static std::vector<Place> places; static jmp_buf home; static ucontext_t creator;
static void yield(int s) { me->state = s; if (!_setjmp(places[me->id].at)) _longjmp(home, 1); }
static void resume(Fiber& f) { me = &f; if (!_setjmp(home)) _longjmp(places[f.id].at, 1); }
static void entry() {
    if (!_setjmp(places.back().at)) setcontext(&creator);
    for (;;) body(), yield(DONE);
}
static void make_places(unsigned threads) {
    const size_t stack = 1 << 17;
    while (places.size() < threads) {
        places.push_back({{}, (char*)malloc(stack)});
        ucontext_t begun; getcontext(&begun); begun.uc_stack.ss_sp = places.back().stack; begun.uc_stack.ss_size = stack; begun.uc_link = 0;
        makecontext(&begun, entry, 0); swapcontext(&creator, &begun);
    }
}
template <class F> static void collective(void* args, F all) {
    me->args = args; Fiber* f = me; unsigned w = f->id / 32; int waiting = 0;
    for (int l = 0; l < 32; l++) waiting += fibers[w * 32 + l].state == WARP;
    if (waiting == 31) { Fiber* lanes = &fibers[w * 32]; all(lanes); for (int l = 0; l < 32; l++) lanes[l].state = RUN; }
    else yield(WARP);
}
static std::vector<unsigned char> unpublished;  // bytes of shared memory that `wgmma` must not read yet
static void land(const Copy& c) {
    if (c.to % c.bytes || c.to + c.bytes > memory.size() || ((size_t)c.from % c.bytes)) { printf("bad copy\n"); exit(1); }
    if (c.valid) memcpy(&memory[c.to], c.from, c.bytes); else memset(&memory[c.to], 0, c.bytes);
    unpublished.resize(memory.size()); memset(&unpublished[c.to], 1, c.bytes); me->landed.push_back(c);
}
static void copy(u32 to, const void* from, int bytes, bool valid) { Copy c{to, from, bytes, valid}; if (late) me->open.push_back(c); else land(c); }
static void copy16(u32 to, const void* from, bool v) { copy(to, from, 16, v); }
static void copy16_if(bool wanted, u32 to, const void* from, bool v) { if (wanted) copy(to, from, 16, v); }
static void copy4(u32 to, const void* from, bool v) { copy(to, from, 4, v); }
static void copies_commit() { me->groups.push_back(me->open); me->open.clear(); }
template <int L> static void copies_wait() { while ((int)me->groups.size() > L) { for (auto& c : me->groups[0]) land(c); me->groups.erase(me->groups.begin()); } }
struct Ld { u32* r; u32 a; };
static u32 get16(u32 a) { f16 h; if (a + 2 > memory.size()) { printf("bad ldmatrix\n"); exit(1); } memcpy(&h, &memory[a], 2); return h; }
static long conflicts = 0, loads = 0;
static void ld(u32 (&r)[4], u32 a, bool t) {
    Ld x{r, a};
    collective(&x, [&](Fiber* f) {
        for (int i = 0; i < 4; i++) {
            int banks[8] = {0};
            for (int q = 0; q < 8; q++) { u32 ad = ((Ld*)f[i * 8 + q].args)->a; if (ad % 16) { printf("misaligned\n"); exit(1); } banks[(ad / 16) % 8]++; }
            loads++; conflicts += *std::max_element(banks, banks + 8) - 1;
            for (int l = 0; l < 32; l++) {
                u32 lo, hi;
                if (!t) { u32 row = ((Ld*)f[i * 8 + l / 4].args)->a; lo = get16(row + (l % 4) * 4); hi = get16(row + (l % 4) * 4 + 2); }
                else { lo = get16(((Ld*)f[i * 8 + 2 * (l % 4)].args)->a + (l / 4) * 2); hi = get16(((Ld*)f[i * 8 + 2 * (l % 4) + 1].args)->a + (l / 4) * 2); }
                ((Ld*)f[l].args)->r[i] = lo | hi << 16;
            }
        }
    });
}
static void load_matrices(u32 (&r)[4], u32 a) { ld(r, a, false); }
static void load_matrices_transposed(u32 (&r)[4], u32 a) { ld(r, a, true); }
struct Mma { float* c; const u32* a; u32 b0, b1; };
static void multiply_add(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    Mma x{c, a, b0, b1};
    collective(&x, [&](Fiber* f) {
        float A[16][16], B[16][8];
        for (int l = 0; l < 32; l++) {
            Mma* m = (Mma*)f[l].args; int g = l / 4, t = l % 4;
            for (int i = 0; i < 4; i++) for (int e = 0; e < 2; e++) A[g + (i & 1) * 8][t * 2 + e + (i >> 1) * 8] = half(m->a[i] >> (16 * e));
            for (int e = 0; e < 2; e++) B[t * 2 + e][g] = half(m->b0 >> (16 * e)), B[t * 2 + e + 8][g] = half(m->b1 >> (16 * e));
        }
        for (int l = 0; l < 32; l++) {
            Mma* m = (Mma*)f[l].args; int g = l / 4, t = l % 4;
            for (int i = 0; i < 4; i++) { int r = g + (i >> 1) * 8, n = t * 2 + (i & 1); double s = m->c[i]; for (int k = 0; k < 16; k++) s += (double)A[r][k] * B[k][n]; m->c[i] = (float)s; }
        }
    });
}
/// c[16x8] += a[16x8] b[8x8]: the product above with zeros for the rest.
static void multiply_add_eight(float (&c)[4], const u32 (&a)[4], u32 b) { const u32 first[4] = {a[0], a[1], 0, 0}; multiply_add(c, first, b, 0); }
static u32 pack(float lo, float hi) { return tohalf(lo) | (u32)tohalf(hi) << 16; }
static float power_of_two(float x) { return exp2f(x); }
static float shared_float(u32 a) { float r; memcpy(&r, &memory[a], 4); return r; }
template <class T> static T from_lane(T x, int mask) {
    struct Lane { T x, r; } own{x, {}};
    collective(&own, [&](Fiber* f) { for (int l = 0; l < 32; l++) ((Lane*)f[l].args)->r = ((Lane*)f[l ^ mask].args)->x; });
    return own.r;
}
static u32 word_from_lane(u32 x, int mask) { return from_lane(x, mask); }
static u32 greater(u32 a, u32 b) {
    auto of = [](f16 x, f16 y) { return half(x) >= half(y) ? x : y; };
    return of(a, b) | (u32)of(a >> 16, b >> 16) << 16;
}
struct Vote { bool p, *r; };
static bool any_lane(bool p) { bool r; Vote v{p, &r}; collective(&v, [&](Fiber* f) { bool a = false; for (int l = 0; l < 32; l++) a |= ((Vote*)f[l].args)->p; for (int l = 0; l < 32; l++) *((Vote*)f[l].args)->r = a; }); return r; }
static void forget(int&) {}
static void warp_barrier() { any_lane(false); }
static void block_barrier() {
    int waiting = 0; for (auto& f : fibers) waiting += f.state == BLOCK;
    if (waiting == (int)fibers.size() - 1) { for (auto& f : fibers) f.state = RUN; } else yield(BLOCK);
}

using std::max;
template <class T> static T __ldcg(const T* p) { return *p; }
struct Turn { int arrived, generation; } turns[128];
/// Threads of each block, where a cluster of blocks runs at once: each has its own shared memory, 256 KB apart, and its own named barriers.
static unsigned block_threads = 0;
static unsigned block_of(unsigned id) { return block_threads ? id / block_threads : 0; }
static void turn_arrive(int b, int count) { if (++turns[b].arrived == count) turns[b].arrived = 0, turns[b].generation++; }
static void turn_join(int b, int count) { int g = turns[b].generation; turn_arrive(b, count); while (turns[b].generation == g) yield(RUN); }
#ifdef HOPPER
template <class F> static void group_collective(void* args, F all) {
    me->args = args; Fiber* f = me; unsigned w = f->id / 128; int waiting = 0;
    for (int l = 0; l < 128; l++) waiting += fibers[w * 128 + l].state == GROUP;
    if (waiting == 127) { Fiber* lanes = &fibers[w * 128]; all(lanes); for (int l = 0; l < 128; l++) lanes[l].state = RUN; }
    else yield(GROUP);
}
struct Op { float* d; int n; const u32* a; u64 da, db; int add; bool keys; };
static std::vector<std::vector<Op>> queue[3072]; static std::vector<Op> pending[3072];  // a cluster of eight blocks
static bool late_products;
static u32 window;  // where the shared memory of the block begins whose products run: descriptors know 256 KB
static u32 product16(u32 a) { if (a < unpublished.size() && unpublished[a]) { printf("a product reads what is not published\n"); exit(1); } return get16(a); }
static u32 swizzled(u64 desc, u32 offset) {
    if (desc >> 62 != 1 || (desc >> 49 & 7)) { printf("bad descriptor\n"); exit(1); }
    u32 a = window + ((u32)(desc & 0x3fff) << 4) + offset; return a ^ ((a >> 7 & 7) << 4);
}
static void execute(Op* const (&op)[128], unsigned id) {
    window = block_of(id) << 18;
    int n = op[0]->n; std::vector<float> A(64 * 16), B(16 * n);
    for (int l = 1; l < 128; l++) if (op[l]->db != op[0]->db || op[l]->keys != op[0]->keys || op[l]->da != op[0]->da || op[l]->add != op[0]->add) { printf("lanes differ\n"); exit(1); }
    u32 stride_a = (u32)(op[0]->da >> 32 & 0x3fff) << 4, stride_b = (u32)(op[0]->db >> 32 & 0x3fff) << 4;
    for (int k = 0; k < 16; k++) for (int j = 0; j < n; j++)
        B[k * n + j] = half(product16(swizzled(op[0]->db, op[0]->keys ? j / 8 * stride_b + j % 8 * 128 + k * 2 : k / 8 * stride_b + k % 8 * 128 + j / 64 * ((u32)(op[0]->db >> 16 & 0x3fff) << 4) + j % 64 * 2)));
    if (op[0]->keys) for (int r = 0; r < 64; r++) for (int k = 0; k < 16; k++) A[r * 16 + k] = half(product16(swizzled(op[0]->da, r / 8 * stride_a + r % 8 * 128 + k * 2)));
    else for (int l = 0; l < 128; l++) for (int i = 0; i < 4; i++) for (int e = 0; e < 2; e++)
        A[(l / 32 * 16 + l % 32 / 4 + (i & 1) * 8) * 16 + l % 4 * 2 + e + (i >> 1) * 8] = half(op[l]->a[i] >> (16 * e));
    for (int l = 0; l < 128; l++) for (int j = 0; j < n / 8; j++) for (int i = 0; i < 4; i++) {
        int r = l / 32 * 16 + l % 32 / 4 + (i >> 1) * 8, c = j * 8 + l % 4 * 2 + (i & 1); float* d = op[l]->d + j * 4 + i; double s = op[l]->add ? *d : 0;
        for (int k = 0; k < 16; k++) s += (double)A[r * 16 + k] * B[k * n + c];
        *d = (float)s;
    }
}
static void product(Op op) {
    if (late_products) { pending[me->id].push_back(op); return; }
    group_collective(&op, [&](Fiber* f) { Op* ops[128]; for (int l = 0; l < 128; l++) ops[l] = (Op*)f[l].args; execute(ops, f[0].id); });
}
template <int R> static void multiply_keys_async(float (&d)[R], u64 a, u64 b, int add) { product({d, R * 2, 0, a, b, add, true}); }
template <int R> static void multiply_values_async(float (&d)[R], const u32 (&a)[4], u64 b) { product({d, R * 2, a, 0, b, 1, false}); }
static void grid_wait() {}
static void grid_release() {}
static void products_begin() {}
static void products_commit() { queue[me->id].push_back(pending[me->id]); pending[me->id].clear(); }
template <int LATEST> static void products_wait() {
    int dummy;
    group_collective(&dummy, [&](Fiber* f) {
        int base = f[0].id;
        while ((int)queue[base].size() > LATEST) {
            for (size_t i = 0; i < queue[base][0].size(); i++) { Op* ops[128]; for (int l = 0; l < 128; l++) ops[l] = &queue[base + l].at(0).at(i); execute(ops, base); }
            for (int l = 0; l < 128; l++) queue[base + l].erase(queue[base + l].begin());
        }
    });
}
template <int N> static void settle(float (&)[N]) {}
static void before_waiting(const float (&sum)[2], u32) { if (sum[0] < 0 || sum[1] < 0) { printf("weights below 0\n"); exit(1); } }
static void copies_publish() { for (auto& c : me->landed) memset(&unpublished[c.to], 0, c.bytes); me->landed.clear(); }
struct Barrier { int count, left, phase; long bytes; };
static std::map<u32, Barrier> barriers;
static void barrier_create(u32 b, int n) { if (b % 8) exit(1); barriers[b] = {n, n, 0, 0}; }
static void barrier_step(Barrier& x, int arrivals, long bytes) {
    x.left -= arrivals, x.bytes += bytes;
    if (x.left < 0) { printf("more arrivals than a phase has\n"); exit(1); }
    if (x.left == 0 && x.bytes == 0) x.phase++, x.left = x.count;
}
static void barrier_arrive(u32 b) { barrier_step(barriers.at(b), 1, 0); }
static void barrier_wait(u32 b, u32 parity) { while ((barriers.at(b).phase & 1) == (int)parity) yield(RUN); }
static void turn_give(int b) { turn_arrive(b + 16 * block_of(me->id), 256); }
static void turn_wait(int b) { turn_join(b + 16 * block_of(me->id), 256); }
static bool barrier_ready(u32 b, u32 parity) { return (barriers.at(b).phase & 1) != (int)parity; }
template <int> static void registers_release() {}
template <int> static void registers_claim() {}
#endif

/// What happens beside the threads, between their steps.
static std::function<void()> beside;
static void run_block(int threads, std::function<void()> b) {
    const unsigned first_block = blockIdx.x;
    body = b; fibers = std::vector<Fiber>(threads); make_places(threads);
    for (int i = 0; i < threads; i++)  fibers[i].id = i;
    for (long step = 0;; step++) {
        if (step > 3000000) { printf("stuck\n"); exit(1); }
        if (beside) beside();
        std::vector<int> can; bool alive = false;
        for (int w = 0; w < threads / 32; w++) { bool c = false; for (int l = 0; l < 32; l++) { c |= fibers[w * 32 + l].state == RUN; alive |= fibers[w * 32 + l].state != DONE; } if (c) can.push_back(w); }
        if (!alive) return;
        if (can.empty()) { printf("deadlock\n"); exit(1); }
        int w = can[rng() % can.size()];
        for (int times = 1 + rng() % 200; times > 0; times--) {
            bool ran = false;
            for (int l = 0; l < 32; l++) if (fibers[w * 32 + l].state == RUN) { const unsigned id = w * 32 + l; threadIdx.x = block_threads ? id % block_threads : id; blockIdx.x = first_block + block_of(id); ran = true; resume(fibers[id]); }
            if (!ran) break;
        }
    }
}
