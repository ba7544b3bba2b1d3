// The streams of the stand-in driver: queues of work that runs as late as it may, or early in random order. Included
// once, by fake_driver.c, whose first lines say why.
#pragma once
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101,
       INVALID_CONTEXT = 201, INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
       ILLEGAL_ADDRESS = 700, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_UNJOINED = 904,
       CAPTURE_ISOLATION = 905 };
enum { BLOCKS = 4096, WORK = 128, STREAMS = 64, PARAMETERS = 24, RUSHED = 9 };
enum kind { HOST, DEVICE, KERNEL, COPY, STAGED, FILL, RECORD, WAIT, TAKEN_OUT };

typedef void (*host_fn)(void*);
struct event;
struct graph;
struct op {
    enum kind kind;
    struct graph* of;  // a recording's node
    host_fn fn;
    void *arg, *to, *from;
    size_t size;
    unsigned char value;
    struct event* event;
    unsigned long version;
    int aside;  // of a recording's branch
    unsigned grid[3], threads, shared;
    int dependent;  // a programmatic dependent launch
    uint64_t words[PARAMETERS];
};
/// Memory that a kernel writes.
struct region {
    char* at;
    size_t size;
};
enum { REGIONS = 64 };
struct graph {
    int count;
    struct op work[WORK];
};
struct stream {
    int capturing;
    pthread_t capturer;
    unsigned long captures;  // recordings so far
    struct graph recorded;
    // Of a branch: the stream whose recording it takes part in, its work there, and how much of that the stream joined.
    struct stream* origin;
    unsigned long work, joined;
    struct stream* branch;  // where the branches of its graphs run
    struct op* queue;
    size_t first, last, room;
    enum kind pushed;  // the last work, also of a recording
    // Of the kernels of which each but the first was launched as dependent: none need have ended.
    struct region written[REGIONS];
    int regions;
};
struct event {
    double ms;
    int timed, told;
    unsigned long recorded, done;
    struct stream* stream;
    // Recorded last in a recording: where, in which one, behind how much work, and the event of the graphs' own.
    struct stream* captured;
    unsigned long capture, behind;
    struct event* node;
};

static int context;  // its address is the primary context
static _Thread_local void* current;
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct {
    char* at;
    size_t size, mapped;  // mapped: bytes of pages of its own, of a device that is apart
    int on_host;
} blocks[BLOCKS];
static struct stream* streams[STREAMS];
static size_t held;

static long long number(const char* name, long long otherwise) {
    const char* text = getenv(name);
    return text ? atoll(text) : otherwise;
}
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}
static void say(const char* what, size_t size) {
    static FILE* log;
    static int asked;
    if (!asked) asked = 1, log = getenv("FAKE_CUDA_LOG") ? fopen(getenv("FAKE_CUDA_LOG"), "a") : NULL;
    if (log) fprintf(log, "%s %zu\n", what, size), fflush(log);
}
static int inside(const void* from, size_t size) {
    const char* at = from;
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].at && at >= blocks[i].at && at + size <= blocks[i].at + blocks[i].size) return 1;
    return 0;
}
static int pinned(const void* from, size_t size) {
    const char* at = from;
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].on_host && blocks[i].at && at >= blocks[i].at &&
            at + size <= blocks[i].at + blocks[i].size)
            return 1;
    return 0;
}
/// Whether this thread records: then it must not wait, allocate or free.
static int recording(void) {
    for (int i = 0; i < STREAMS; i++)
        if (streams[i] && streams[i]->capturing && pthread_equal(streams[i]->capturer, pthread_self()))
            return streams[i]->capturing = -1, 1;
    return 0;
}
static void guard(int* held_lock) { (void)held_lock, pthread_mutex_unlock(&lock); }
// A fault of the device stays: from then on every call of this process fails.
static int device_is_lost;
#define LOCKED                                                    \
    pthread_mutex_lock(&lock);                                    \
    int locked __attribute__((cleanup(guard), unused)) = 1
#define NEED_CONTEXT                                              \
    LOCKED;                                                       \
    if (device_is_lost) return ILLEGAL_ADDRESS;                   \
    if (current != &context) return INVALID_CONTEXT

/// With all work that was not done.
static int lose_device(void) {
    for (int i = 0; i < STREAMS; i++)
        if (streams[i]) streams[i]->first = streams[i]->last;
    return device_is_lost = 1, ILLEGAL_ADDRESS;
}

// ---- work

typedef void emulate_fn(const void*, const unsigned*, unsigned, unsigned, void**, const struct region*,
                        size_t);
typedef int parameters_fn(const void*);
typedef unsigned written_fn(const void*);
static void* kernels(const char* name) {
    static void* library;
    if (!library) library = dlopen("libkernels.so", RTLD_NOW);
    return library ? dlsym(library, name) : NULL;
}
static int is_apart(void) { return (int)number("FAKE_CUDA_APART", 0); }
/// Where the device is apart, its memory can be touched while it works, and at no other time.
static void let_in(int open) {
    for (int i = 0; i < BLOCKS && is_apart(); i++)
        if (blocks[i].at && blocks[i].mapped)
            mprotect(blocks[i].at - 256, blocks[i].mapped, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}
/// Adds what a kernel writes: from where its argument points on to the end of that memory.
static void add_written(struct stream* s, const struct op* op) {
    const unsigned bits = ((written_fn*)kernels("written_parameters"))(op->arg);
    for (int i = 0; i < PARAMETERS; i++) {
        char* at = (char*)op->words[i];
        for (int b = 0; bits >> i & 1 && b < BLOCKS; b++) {
            if (!blocks[b].at || blocks[b].on_host || at < blocks[b].at ||
                at >= blocks[b].at + blocks[b].size)
                continue;
            const struct region found = {at, (size_t)(blocks[b].at + blocks[b].size - at)};
            int of = 0;
            while (of < s->regions && s->written[of].at != at) of++;
            if (of == REGIONS) abort();
            s->written[of] = found, s->regions += of == s->regions;
        }
    }
}
/// Why a kernel cannot be launched as dependent, or null: it must wait itself, behind a kernel of this stream.
static const char* no_dependent(struct stream* s, int waits) {
    if (!waits) return "its PTX has no wait";
    return !s || (s->pushed != KERNEL && s->pushed != DEVICE) ? "no kernel is in front of it" : NULL;
}
/// The order in which the last kernels of a frame run: a launch says when it was made, and this when it runs.
static void say_run(const char* name) {
    if (!strcmp(name, "mask_words")) say("made_mask", 1);
    if (!strcmp(name, "bank_advance")) say("advanced_bank", 1);
}
static void perform(struct stream* s, struct op* op) {
    void* values[PARAMETERS];
    let_in(op->kind != HOST);
    switch (op->kind) {
        case HOST:
        case DEVICE: op->fn(op->arg); break;
        case KERNEL:
            for (int i = 0; i < PARAMETERS; i++) values[i] = &op->words[i];
            say_run(*(const char**)op->arg);
            if (s && !op->dependent) s->regions = 0;
            if (s) add_written(s, op);
            ((emulate_fn*)kernels("emulate"))(op->arg, op->grid, op->threads, op->shared, values,
                                              op->dependent ? s->written : NULL,
                                              op->dependent ? (size_t)s->regions : 0);
            break;
        case STAGED:
        case COPY: memcpy(op->to, op->from, op->size); break;
        case FILL: memset(op->to, op->value, op->size); break;
        case RECORD: op->event->done = op->version, op->event->ms = now(); break;
        case WAIT:
        case TAKEN_OUT: break;
    }
    let_in(0);
    if (op->kind == STAGED) free(op->from);
}
/// Runs the oldest work of a stream; 0 where it must wait for another stream, or has none.
static int step(struct stream* s) {
    if (s->first == s->last) return 0;
    struct op op = s->queue[s->first];
    if (op.kind == WAIT && op.event->done < op.version) return 0;
    s->first++;
    perform(s, &op);
    return 1;
}
static void reach(struct event* e, unsigned long version);
/// Runs all work of a stream, and what that waits for.
static void drain(struct stream* s) {
    while (s->first < s->last)
        if (!step(s)) reach(s->queue[s->first].event, s->queue[s->first].version);
}
static void reach(struct event* e, unsigned long version) {
    struct stream* s = e->stream;
    while (e->done < version)
        if (!step(s)) {
            // Nothing left that could get there: the program waits for ever.
            if (s->first == s->last) abort();
            reach(s->queue[s->first].event, s->queue[s->first].version);
        }
}
static void drain_all(void) {
    for (int i = 0; i < STREAMS; i++)
        if (streams[i]) drain(streams[i]);
}
/// Early work, where that is asked for: of one stream and what it waits for, or of all in random order.
static void hurry(void) {
    static long long seed = -1;
    static unsigned state;
    if (seed == -1) seed = number("FAKE_CUDA_SEED", 0), state = (unsigned)seed;
    if (seed >= 1 && seed <= RUSHED) {
        if (streams[seed - 1]) drain(streams[seed - 1]);
        return;
    }
    for (int i = 0; seed && i < 8; i++) {
        state = state * 1664525u + 1013904223u;
        struct stream* s = streams[(state >> 16) % STREAMS];
        if (s && (state >> 8 & 1)) step(s);
    }
}
static int push(struct stream* s, struct op op) {
    if (device_is_lost) return ILLEGAL_ADDRESS;
    if (s == NULL) {
        // The default stream: at once, behind everything.
        drain_all();
        perform(NULL, &op);
        return OK;
    }
    s->pushed = op.kind;
    if (s->capturing) {
        struct stream* origin = s->origin ? s->origin : s;
        if (s->capturing < 0 || origin->capturing < 0 || origin->recorded.count == WORK)
            return CAPTURE_INVALIDATED;
        op.aside = s != origin, s->work++;
        origin->recorded.work[origin->recorded.count++] = op;
        return OK;
    }
    if (s->last == s->room && s->first > s->room / 2) {
        s->last -= s->first;
        memmove(s->queue, s->queue + s->first, s->last * sizeof(struct op));
        s->first = 0;
    }
    if (s->last == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->queue = realloc(s->queue, s->room * sizeof(struct op));
    }
    s->queue[s->last++] = op;
    hurry();
    return OK;
}
