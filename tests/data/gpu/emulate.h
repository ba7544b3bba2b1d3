// Stand-ins for what CUDA C++ adds to C++, so that cuda/*.cu run on the host: an emulation, not a GPU.
//
// One block after another; the threads of a block are fibres that take turns at barriers and votes. A thread that waits at
// a barrier that others never reach is an error, as is a vote that not every lane of the warp takes part in. What it
// cannot show: races between barriers, the driver's own compiler, memory errors that stay inside a block.
#pragma once
// Checked jumps refuse to leave a stack for another.
#undef _FORTIFY_SOURCE
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "half.h"

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)

struct uint3 {
    unsigned x, y, z;
};
static uint3 threadIdx, blockIdx, blockDim, gridDim;
struct float2 {
    float x, y;
};
struct float4 {
    float x, y, z, w;
};
struct uint2 {
    unsigned x, y;
};
struct uint4 {
    unsigned x, y, z, w;
};

namespace emulation {

enum State { READY, BARRIER, VOTE, DONE };
struct Fibre {
    // Where it waits; without system calls, unlike a context.
    jmp_buf at;
    State state;
    bool vote;
    unsigned result;
    // What it shows the other lanes, and the lane whose own it gets, where lanes exchange values.
    float value;
    size_t from;
};
static std::vector<Fibre> fibres;
static std::vector<char> stacks;
static jmp_buf scheduler;
static ucontext_t creator;
static size_t running;
static void (*body)(void**);
static void** arguments;
const size_t STACK = 64 << 10;

[[noreturn]] inline void fail(const char* what) {
    fprintf(stderr, "emulation: %s (block %u %u %u)\n", what, blockIdx.x, blockIdx.y, blockIdx.z);
    abort();
}
// Gives the turn back, until the scheduler finds this fibre ready again.
inline void wait(State state) {
    fibres[running].state = state;
    if (!_setjmp(fibres[running].at)) _longjmp(scheduler, 1);
}
// What a fibre does: one thread of one block after another.
inline void thread() {
    if (!_setjmp(fibres[running].at)) setcontext(&creator);
    for (;;) {
        body(arguments);
        wait(DONE);
    }
}
inline void make_fibres(size_t threads) {
    if (fibres.size() >= threads) return;
    fibres.resize(threads);
    stacks = std::vector<char>(threads * STACK);
    for (running = 0; running < threads; running++) {
        ucontext_t context;
        getcontext(&context);
        context.uc_stack.ss_sp = stacks.data() + running * STACK;
        context.uc_stack.ss_size = STACK;
        context.uc_link = nullptr;
        makecontext(&context, thread, 0);
        swapcontext(&creator, &context);
    }
}

// Lets every fibre of [from, to) go on until it waits or is done.
inline void resume(size_t from, size_t to) {
    // `running` counts, since what a jump comes back to keeps no other variable.
    for (running = from; running < to; running++) {
        if (fibres[running].state != READY) continue;
        threadIdx = {(unsigned)running, 0, 0};
        if (!_setjmp(scheduler)) _longjmp(fibres[running].at, 1);
    }
}
// How many fibres of [from, to) are in that state.
inline size_t count(size_t from, size_t to, State state) {
    size_t found = 0;
    for (size_t i = from; i < to; i++) found += fibres[i].state == state;
    return found;
}
inline void set(size_t from, size_t to, State state) {
    for (size_t i = from; i < to; i++) fibres[i].state = state;
}

inline void run_block() {
    const size_t threads = blockDim.x;
    set(0, threads, READY);
    while (count(0, threads, DONE) < threads) {
        for (size_t warp = 0; warp < threads; warp += 32) {
            const size_t end = warp + 32 < threads ? warp + 32 : threads;
            resume(warp, end);
            while (size_t voters = count(warp, end, VOTE)) {
                if (voters != end - warp) fail("a vote without every lane of the warp");
                unsigned result = 0;
                for (size_t i = warp; i < end; i++) result |= (unsigned)fibres[i].vote << (i - warp);
                float values[32];
                for (size_t i = warp; i < end; i++) values[i - warp] = fibres[i].value;
                for (size_t i = warp; i < end; i++) {
                    fibres[i].result = result;
                    fibres[i].value = values[fibres[i].from];
                }
                set(warp, end, READY);
                resume(warp, end);
            }
        }
        const size_t waiting = count(0, threads, BARRIER);
        if (waiting != 0 && waiting != threads) fail("a barrier that some threads never reach");
        if (waiting != 0) set(0, threads, READY);
    }
}

inline void launch(void (*call)(void**), const unsigned grid[3], unsigned threads, void** values) {
    body = call, arguments = values;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {threads, 1, 1};
    make_fibres(threads);
    for (blockIdx.z = 0; blockIdx.z < grid[2]; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < grid[1]; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < grid[0]; blockIdx.x++) run_block();
}

}  // namespace emulation

inline void __syncthreads() { emulation::wait(emulation::BARRIER); }
inline unsigned __ballot_sync(unsigned lanes, bool vote) {
    if (lanes != 0xffffffffu) emulation::fail("a vote of some lanes only");
    emulation::fibres[emulation::running].vote = vote;
    emulation::wait(emulation::VOTE);
    return emulation::fibres[emulation::running].result;
}
inline float __shfl_xor_sync(unsigned lanes, float value, int mask) {
    const size_t running = emulation::running;
    emulation::fibres[running].value = value;
    emulation::fibres[running].from = (running & 31) ^ (size_t)mask;
    __ballot_sync(lanes, true);
    return emulation::fibres[running].value;
}
inline unsigned atomicAdd(unsigned* at, unsigned value) {
    const unsigned before = *at;
    *at += value;
    return before;
}
// The host's compiler must not contract either: -ffp-contract=off.
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fmaf(a, b, c); }
inline unsigned __float_as_uint(float value) {
    unsigned bits;
    memcpy(&bits, &value, 4);
    return bits;
}
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline int __popcll(unsigned long long word) { return __builtin_popcountll(word); }
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}
