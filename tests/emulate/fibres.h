/*!
The threads of a GPU's block as fibres of one host thread. A fibre runs until it waits: for the other
lanes of its warp, for the other threads of its warpgroup or block, or for what some other thread does.
Lanes of a warp follow each other without a scheduler between them, because a tensor-core instruction
has all 32 lanes meet.
*/
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

typedef unsigned u32;
struct Dim { unsigned x, y, z; };
static Dim threadIdx, blockIdx, gridDim, blockDim;

// ---- the change of stacks ----

// Saves what a function must keep on the stack of the caller, keeps that stack's end in *from, and
// goes on where `to` was left. `swapcontext` would ask the system for the signal mask each time.
#if defined(__x86_64__)
#define SAVED 6
asm(R"(
.text
.type emulate_change, @function
emulate_change:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulate_change, . - emulate_change
)");
#elif defined(__aarch64__)
#define SAVED 19
asm(R"(
.text
.type emulate_change, %function
emulate_change:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp d8, d9, [sp, #80]
    stp d10, d11, [sp, #96]
    stp d12, d13, [sp, #112]
    stp d14, d15, [sp, #128]
    stp x29, x30, [sp, #144]
    mov x2, sp
    str x2, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp d8, d9, [sp, #80]
    ldp d10, d11, [sp, #96]
    ldp d12, d13, [sp, #112]
    ldp d14, d15, [sp, #128]
    ldp x29, x30, [sp, #144]
    add sp, sp, #160
    ret
.size emulate_change, . - emulate_change
)");
#else
#error "the emulation of the kernels knows x86-64 and aarch64"
#endif
extern "C" void emulate_change(void** from, void* to);

// ---- fibres ----

/// A GPU thread. `args`: what it brings to where lanes meet.
struct Fiber {
    void *stack, *args;
    unsigned id, thread, block;
    bool done, waited;
};
/// Lanes of a warp, a bit each: that there are, that may go on, that wait for the other lanes.
struct Warp { u32 all, ready, met; };
static std::vector<Fiber> fibers;
static std::vector<Warp> warps;
static Fiber* me;
static std::function<void()> body;
static std::mt19937 rng(1);
/// How many threads of the block, and of each warpgroup, wait for the others.
static unsigned at_barrier, at_group[24];
/// Threads of each block, where a cluster of blocks runs at once: each has its own shared memory,
/// 256 KB apart, and its own named barriers.
static unsigned block_threads = 0;
static unsigned block_of(unsigned id) { return block_threads ? id / block_threads : 0; }
/// Whether warps take turns by chance, which shows a missing barrier, or in order.
static bool by_chance = true;
static void* home;  // the scheduler's stack
static int rounds;  // how often a warp may still go through its lanes

/// Gives the turn to the warp's next lane that may go on, or back to the scheduler.
static void leave() {
    Fiber* from = me;
    Warp& warp = warps[from->id / 32];
    u32 next = warp.ready & (u32)(~0ull << (from->id % 32 + 1));
    if (!next && --rounds > 0) next = warp.ready;
    if (!next) { emulate_change(&from->stack, home); return; }
    Fiber* to = &fibers[from->id / 32 * 32 + __builtin_ctz(next)];
    if (to == from) return;
    me = to, threadIdx.x = to->thread, blockIdx.x = to->block;
    emulate_change(&from->stack, to->stack);
}
/// After a thread has told others something it may be long until it goes on.
static void dawdle() { if (by_chance && rng() % 4 == 0) rounds = 1, leave(); }
static void rest() { warps[me->id / 32].ready &= ~(1u << me->id % 32); }
/// Threads that wait for what another one does.
struct Waiting {
    std::vector<unsigned> threads;
    void wait() { threads.push_back(me->id), rest(), leave(); }
    void wake() {
        for (unsigned id : threads) warps[id / 32].ready |= 1u << id % 32;
        threads.clear();
    }
};

/// The previous kernel of a programmatic dependent launch ends as late as it may: when no thread of
/// the block can go on without it. Then `at_end` does what it did. `must_wait`: the launch is such
/// a one, and its threads must wait.
static Waiting dependents;
static bool ended, must_wait, one_waits;
static std::function<void()> at_end;
/// One thread may wait for all that its block does.
static void wait_for_all() {
    if (!ended) dependents.wait();
    one_waits = true;
}
/// Every thread must wait.
static void dependent_wait() {
    if (!ended) dependents.wait();
    me->waited = true;
}
static void dependent_launch() {}

static void fibre() {
    for (;;) body(), me->done = true, rest(), leave();
}
/// Stacks are not a multiple of 4 KiB apart: the lanes of a warp would share few lines of the cache.
static void make_fibers(unsigned threads) {
    const size_t STACK = (96 << 10) + 128;
    if (fibers.size() == threads) return;
    static std::vector<char*> stacks;
    static char* free_stacks; static unsigned left = 0;
    while (stacks.size() < threads) {
        if (!left) free_stacks = (char*)malloc(STACK * 32), left = 32;
        stacks.push_back(free_stacks), free_stacks += STACK, left--;
    }
    fibers.resize(threads), warps.resize((threads + 31) / 32);
    for (unsigned i = 0; i < threads; i++) {
        void** top = (void**)(((uintptr_t)stacks[i] + STACK) / 64 * 64);
#if defined(__x86_64__)
        top -= 1;  // as after a call: 8 bytes beside a multiple of 16
        *--top = (void*)fibre;
#endif
        top -= SAVED;
#if defined(__aarch64__)
        top -= 1, top[19] = (void*)fibre;
#endif
        fibers[i].stack = top;
    }
}

// ---- where threads meet ----

/// The last lane that comes does `all` for the warp.
template <class F> static void collective(void* args, F all) {
    me->args = args;
    const unsigned first = me->id / 32 * 32;
    Warp& warp = warps[first / 32];
    warp.met |= 1u << me->id % 32;
    if (warp.met != warp.all) { rest(), leave(); return; }
    all(&fibers[first]);
    warp.met = 0, warp.ready = warp.all;
}
/// The same of a warpgroup, 128 threads.
template <class F> static void group_collective(void* args, F all) {
    me->args = args;
    const unsigned first = me->id / 128 * 128;
    if (++at_group[first / 128] != 128) { rest(), leave(); return; }
    all(&fibers[first]);
    at_group[first / 128] = 0;
    for (unsigned w = first / 32; w < first / 32 + 4; w++) warps[w].ready = warps[w].all;
}
static void block_barrier() {
    if (++at_barrier != fibers.size()) { rest(), leave(); return; }
    at_barrier = 0;
    for (Warp& warp : warps) warp.ready = warp.all;
}

// ---- a block ----

/// What happens beside the threads, between their steps; whether more will.
static std::function<bool()> beside;
static void run_block(unsigned threads, std::function<void()> thread) {
    const unsigned first_block = blockIdx.x, count = (threads + 31) / 32;
    body = std::move(thread), make_fibers(threads), at_barrier = 0;
    for (unsigned& group : at_group) group = 0;
    for (unsigned i = 0; i < threads; i++) {
        Fiber& f = fibers[i];
        f.id = i, f.done = f.waited = false, f.thread = block_threads ? i % block_threads : i,
        f.block = first_block + block_of(i);
    }
    for (unsigned w = 0; w < count; w++) {
        const u32 all = threads - w * 32 < 32 ? (1u << (threads - w * 32)) - 1 : ~0u;
        warps[w] = {all, all, 0};
    }
    ended = one_waits = false, dependents.threads.clear();
    unsigned last = count - 1;
    for (long step = 0;; step++) {
        if (step > 3000000) { printf("stuck\n"); exit(1); }
        const bool more = beside && beside();
        unsigned ready[96], found = 0;
        for (unsigned i = 1; i <= count; i++) {
            const unsigned w = last + i < count ? last + i : last + i - count;
            if (warps[w].ready) { ready[found++] = w; if (!by_chance) break; }
        }
        if (!found) {
            bool done = true, waited = true, any = false;
            for (Fiber& f : fibers) done &= f.done, waited &= f.waited, any |= f.waited;
            if (done && (waited || one_waits || (!any && !must_wait))) return;
            if (done) { printf("a thread has ended that did not wait for the previous kernel\n"); exit(1); }
            if (more) continue;
            if (ended || dependents.threads.empty()) { printf("deadlock\n"); exit(1); }
            ended = true;
            if (at_end) at_end();
            dependents.wake();
            continue;
        }
        last = ready[by_chance ? rng() % found : 0];
        rounds = by_chance ? 1 + rng() % 200 : 200;
        Fiber& f = fibers[last * 32 + __builtin_ctz(warps[last].ready)];
        me = &f, threadIdx.x = f.thread, blockIdx.x = f.block;
        emulate_change(&home, f.stack);
    }
}
