// A stand-in for libcuda in host memory: enough of the driver to run the door to it, the self-test and the pipeline
// without a GPU. It is stricter than the real one: a call without a current context, a free of a foreign address, a copy
// beyond a block, or a call that a recording thread must not make is an error.
//
// Streams are as lazy as they may be: work runs when somebody waits for it and never before, and then only what that
// needs. Who reads what it never waited for reads what was there before. With FAKE_CUDA_SEED work runs early and in
// random order instead, as far as waits between streams allow: who overwrites what others still read is found by that.
//
// FAKE_CUDA_DEVICES, FAKE_CUDA_MEMORY (bytes), FAKE_CUDA_UNIFIED (1: the host's memory is shared) and FAKE_CUDA_GRAPHS (0:
// recording fails) change it; FAKE_CUDA_LOG names a file that gets a line for each call that costs something. Kernels
// are emulated by libkernels.so.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201,
       INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901 };
enum { BLOCKS = 4096, WORK = 64, STREAMS = 64, PARAMETERS = 24 };
enum kind { HOST, KERNEL, COPY, STAGED, FILL, RECORD, WAIT };

typedef void (*host_fn)(void*);
struct event;
struct op {
    enum kind kind;
    host_fn fn;
    void *arg, *to, *from;
    size_t size;
    unsigned char value;
    struct event* event;
    unsigned long version;
    unsigned grid[3], threads;
    uint64_t words[PARAMETERS];
};
struct graph {
    int count;
    struct op work[WORK];
};
struct stream {
    int capturing;
    pthread_t capturer;
    struct graph recorded;
    struct op* queue;
    size_t first, last, room;
};
struct event {
    double ms;
    int timed, told;
    unsigned long recorded, done;
    struct stream* stream;
};

static int context;  // its address is the primary context
static _Thread_local void* current;
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct {
    char* at;
    size_t size;
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
        if (blocks[i].at && blocks[i].on_host && at >= blocks[i].at && at + size <= blocks[i].at + blocks[i].size) return 1;
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
#define LOCKED                                                    \
    pthread_mutex_lock(&lock);                                    \
    int locked __attribute__((cleanup(guard), unused)) = 1
#define NEED_CONTEXT                                              \
    LOCKED;                                                       \
    if (current != &context) return INVALID_CONTEXT

// ---- work

typedef void emulate_fn(const void*, const unsigned*, unsigned, void**);
typedef int parameters_fn(const void*);
static void* kernels(const char* name) {
    static void* library;
    if (!library) library = dlopen("libkernels.so", RTLD_NOW);
    return library ? dlsym(library, name) : NULL;
}
static void perform(struct op* op) {
    void* values[PARAMETERS];
    switch (op->kind) {
        case HOST: op->fn(op->arg); break;
        case KERNEL:
            for (int i = 0; i < PARAMETERS; i++) values[i] = &op->words[i];
            ((emulate_fn*)kernels("emulate"))(op->arg, op->grid, op->threads, values);
            break;
        case STAGED:
        case COPY: memcpy(op->to, op->from, op->size); break;
        case FILL: memset(op->to, op->value, op->size); break;
        case RECORD: op->event->done = op->version, op->event->ms = now(); break;
        case WAIT: break;
    }
    if (op->kind == STAGED) free(op->from);
}
/// Runs the oldest work of a stream; 0 where it must wait for another stream, or has none.
static int step(struct stream* s) {
    if (s->first == s->last) return 0;
    struct op op = s->queue[s->first];
    if (op.kind == WAIT && op.event->done < op.version) return 0;
    s->first++;
    perform(&op);
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
/// Early work in random order, where that is asked for.
static void hurry(void) {
    static long long seed = -1;
    static unsigned state;
    if (seed == -1) seed = number("FAKE_CUDA_SEED", 0), state = (unsigned)seed;
    for (int i = 0; seed && i < 8; i++) {
        state = state * 1664525u + 1013904223u;
        struct stream* s = streams[(state >> 16) % STREAMS];
        if (s && (state >> 8 & 1)) step(s);
    }
}
static int push(struct stream* s, struct op op) {
    if (s == NULL) {
        // The default stream: at once, behind everything.
        drain_all();
        perform(&op);
        return OK;
    }
    if (s->capturing) {
        if (s->capturing < 0 || s->recorded.count == WORK) return CAPTURE_INVALIDATED;
        s->recorded.work[s->recorded.count++] = op;
        return OK;
    }
    if (s->first == s->last) s->first = s->last = 0;
    if (s->last == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->queue = realloc(s->queue, s->room * sizeof(struct op));
    }
    s->queue[s->last++] = op;
    hurry();
    return OK;
}

// ---- device

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : number("FAKE_CUDA_DEVICES", 1) ? OK : NO_DEVICE; }
int cuDriverGetVersion(int* v) { return *v = 13000, OK; }
int cuGetErrorName(int e, const char** s) {
    *s = e == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : e == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE"
       : e == CAPTURE_UNSUPPORTED ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" : "CUDA_ERROR_OTHER";
    return OK;
}
int cuGetErrorString(int e, const char** s) { return *s = e == OUT_OF_MEMORY ? "out of memory" : "as the stand-in says", OK; }
int cuDeviceGet(int* d, int n) { return *d = n, n < number("FAKE_CUDA_DEVICES", 1) ? OK : INVALID_DEVICE; }
int cuDeviceGetCount(int* n) { return *n = (int)number("FAKE_CUDA_DEVICES", 1), OK; }
int cuDeviceGetAttribute(int* v, int a, int d) {
    (void)d;
    // Compute capability 9.0, 132 multiprocessors, no memory pools.
    *v = a == 75 ? 9 : a == 16 ? 132 : a == 18 ? (int)number("FAKE_CUDA_UNIFIED", 0) : 0;
    return OK;
}
int cuDeviceGetName(char* s, int n, int d) { return (void)d, strncpy(s, "NVIDIA H200", n), OK; }
int cuDeviceTotalMem_v2(size_t* n, int d) { return (void)d, *n = number("FAKE_CUDA_MEMORY", 1LL << 32), OK; }
int cuDevicePrimaryCtxRetain(void** c, int d) { return (void)d, *c = &context, OK; }
int cuDevicePrimaryCtxRelease_v2(int d) { return (void)d, OK; }
int cuCtxGetCurrent(void** c) { return *c = current, OK; }
int cuCtxSetCurrent(void* c) { return current = c, OK; }
int cuCtxSynchronize(void) {
    NEED_CONTEXT;
    if (recording()) return CAPTURE_UNSUPPORTED;
    return drain_all(), OK;
}

// ---- memory

int cuMemGetInfo_v2(size_t* free_, size_t* total) {
    NEED_CONTEXT;
    *total = number("FAKE_CUDA_MEMORY", 1LL << 32);
    *free_ = *total - held;
    return OK;
}
static int allocate(void** p, size_t size, int on_host) {
    if (recording()) return CAPTURE_UNSUPPORTED;
    if (size == 0) return INVALID_VALUE;
    if (!on_host && held + size > (size_t)number("FAKE_CUDA_MEMORY", 1LL << 32)) return OUT_OF_MEMORY;
    // 256 beyond a multiple of 512: no more than what the driver promises.
    char* block = aligned_alloc(512, (size + 256 + 511) / 512 * 512);
    if (!block) return OUT_OF_MEMORY;
    memset(block + 256, 0x5A, size);
    int i = 0;
    while (i < BLOCKS && blocks[i].at) i++;
    if (i == BLOCKS) return OUT_OF_MEMORY;
    blocks[i].at = block + 256, blocks[i].size = size, blocks[i].on_host = on_host, held += on_host ? 0 : size;
    say(on_host ? "host_alloc" : "alloc", size);
    return *p = block + 256, OK;
}
static int release(void* p, int on_host) {
    if (recording()) return CAPTURE_UNSUPPORTED;
    drain_all();
    for (int i = 0; i < BLOCKS; i++)
        if (p && blocks[i].at == p && blocks[i].on_host == on_host) {
            held -= on_host ? 0 : blocks[i].size, blocks[i].at = NULL;
            free((char*)p - 256);
            return OK;
        }
    return INVALID_VALUE;
}
int cuMemAlloc_v2(uint64_t* p, size_t size) { NEED_CONTEXT; return allocate((void**)p, size, 0); }
int cuMemFree_v2(uint64_t p) { NEED_CONTEXT; return release((void*)p, 0); }
int cuMemHostAlloc(void** p, size_t size, unsigned flags) {
    NEED_CONTEXT;
    return flags & 4 ? INVALID_VALUE /* write-combined: nobody here may read that fast */ : allocate(p, size, 1);
}
int cuMemFreeHost(void* p) { NEED_CONTEXT; return release(p, 1); }
int cuMemHostGetDevicePointer_v2(uint64_t* d, void* p, unsigned flags) {
    NEED_CONTEXT;
    return flags || !pinned(p, 1) ? INVALID_VALUE : (*d = (uint64_t)p, OK);
}
int cuMemcpyHtoDAsync_v2(uint64_t d, const void* h, size_t n, struct stream* s) {
    NEED_CONTEXT;
    if (!inside((void*)d, n)) return INVALID_VALUE;
    say("h2d", n);
    if (pinned(h, n)) return push(s, (struct op){.kind = COPY, .to = (void*)d, .from = (void*)h, .size = n});
    if (s && s->capturing) return s->capturing = -1, CAPTURE_UNSUPPORTED;
    // Pageable memory is read before the call returns.
    void* staged = memcpy(malloc(n + 1), h, n);
    return push(s, (struct op){.kind = STAGED, .to = (void*)d, .from = staged, .size = n});
}
int cuMemcpyDtoHAsync_v2(void* h, uint64_t d, size_t n, struct stream* s) {
    NEED_CONTEXT;
    if (!inside((void*)d, n)) return INVALID_VALUE;
    say("d2h", n);
    if (!pinned(h, n) && s && s->capturing) return s->capturing = -1, CAPTURE_UNSUPPORTED;
    return push(s, (struct op){.kind = COPY, .to = h, .from = (void*)d, .size = n});
}
int cuMemcpyDtoDAsync_v2(uint64_t a, uint64_t b, size_t n, struct stream* s) {
    NEED_CONTEXT;
    if (!inside((void*)a, n) || !inside((void*)b, n)) return INVALID_VALUE;
    return push(s, (struct op){.kind = COPY, .to = (void*)a, .from = (void*)b, .size = n});
}
int cuMemsetD8Async(uint64_t d, unsigned char v, size_t n, struct stream* s) {
    NEED_CONTEXT;
    if (!inside((void*)d, n)) return INVALID_VALUE;
    return push(s, (struct op){.kind = FILL, .to = (void*)d, .value = v, .size = n});
}

// ---- streams and graphs

int cuStreamCreate(void** s, unsigned flags) {
    NEED_CONTEXT;
    (void)flags;
    for (int i = 0; i < STREAMS; i++)
        if (!streams[i]) return *s = streams[i] = calloc(1, sizeof(struct stream)), OK;
    return OUT_OF_MEMORY;
}
int cuStreamDestroy_v2(struct stream* s) {
    LOCKED;
    drain(s);
    for (int i = 0; i < STREAMS; i++)
        if (streams[i] == s) streams[i] = NULL;
    // Events may still name it.
    return OK;
}
int cuStreamSynchronize(struct stream* s) {
    NEED_CONTEXT;
    if (recording()) return CAPTURE_UNSUPPORTED;
    if (s->first < s->last) say("wait_stream", s->last - s->first);
    return drain(s), OK;
}
int cuStreamWaitEvent(struct stream* s, struct event* e, unsigned f) {
    NEED_CONTEXT;
    (void)f;
    if (s->capturing) return s->capturing = -1, CAPTURE_UNSUPPORTED;
    return push(s, (struct op){.kind = WAIT, .event = e, .version = e->recorded});
}
int cuStreamBeginCapture_v2(struct stream* s, int mode) {
    LOCKED;
    (void)mode;
    if (!number("FAKE_CUDA_GRAPHS", 1)) return CAPTURE_UNSUPPORTED;
    s->capturing = 1, s->capturer = pthread_self(), s->recorded.count = 0;
    return OK;
}
int cuStreamIsCapturing(struct stream* s, int* status) { return *status = s->capturing != 0, OK; }
int cuStreamEndCapture(struct stream* s, void** g) {
    LOCKED;
    int was = s->capturing;
    s->capturing = 0, *g = NULL;
    if (was != 1) return CAPTURE_INVALIDATED;
    *g = malloc(sizeof(struct graph));
    memcpy(*g, &s->recorded, sizeof(struct graph));
    return OK;
}
/// What the stand-in for TensorRT runs its "kernels" with.
int cuLaunchHostFunc(struct stream* s, host_fn fn, void* arg) {
    LOCKED;
    return push(s, (struct op){.kind = HOST, .fn = fn, .arg = arg});
}
int cuGraphInstantiateWithFlags(void** e, void* g, unsigned long long flags) {
    LOCKED;
    (void)flags;
    if (recording()) return CAPTURE_UNSUPPORTED;
    say("instantiate", ((struct graph*)g)->count);
    return *e = memcpy(malloc(sizeof(struct graph)), g, sizeof(struct graph)), OK;
}
int cuGraphUpload(void* e, void* s) { return (void)e, (void)s, OK; }
int cuGraphLaunch(struct graph* e, struct stream* s) {
    LOCKED;
    say("graph", e->count);
    for (int i = 0; i < e->count; i++) push(s, e->work[i]);
    return OK;
}
int cuGraphExecDestroy(void* e) { LOCKED; return drain_all(), free(e), OK; }
int cuGraphDestroy(void* g) { return free(g), OK; }

// ---- events

int cuEventCreate(void** e, unsigned flags) {
    NEED_CONTEXT;
    struct event* made = calloc(1, sizeof(struct event));
    made->timed = !(flags & 2);
    return *e = made, OK;
}
// Streams may still name it.
int cuEventDestroy_v2(void* e) { return (void)e, OK; }
int cuEventRecord(struct event* e, struct stream* s) {
    LOCKED;
    if (s->capturing) return s->capturing = -1, CAPTURE_UNSUPPORTED;
    e->stream = s, e->told = 0;
    return push(s, (struct op){.kind = RECORD, .event = e, .version = ++e->recorded});
}
int cuEventSynchronize(struct event* e) {
    NEED_CONTEXT;
    if (recording()) return CAPTURE_UNSUPPORTED;
    if (e->done < e->recorded) say("wait_event", 1), reach(e, e->recorded);
    // The real one is silent about an event that was never recorded; nobody here means to wait for one.
    return e->recorded || !e->timed ? OK : INVALID_HANDLE;
}
int cuEventQuery(struct event* e) {
    NEED_CONTEXT;
    if (recording()) return CAPTURE_UNSUPPORTED;
    if (e->done == e->recorded) return OK;
    if (!e->told) e->told = 1, say("wait_event", 1);
    if (!step(e->stream) && e->stream->first < e->stream->last) {
        struct op* head = &e->stream->queue[e->stream->first];
        reach(head->event, head->version);
    }
    return NOT_READY;
}
int cuEventElapsedTime(float* ms, struct event* a, struct event* b) {
    LOCKED;
    if (!a->recorded || !b->recorded || !a->timed || !b->timed) return INVALID_HANDLE;
    if (a->done < a->recorded || b->done < b->recorded) return NOT_READY;
    return *ms = (float)(b->ms - a->ms), OK;
}

// ---- kernels

typedef const void* emulated_fn(const char*, const char*);
int cuModuleLoadData(void** m, const char* image) {
    NEED_CONTEXT;
    if (!kernels("emulated") || strncmp(image, "//", 2)) return INVALID_PTX;
    return *m = strdup(image), OK;
}
int cuModuleUnload(void* m) { LOCKED; return drain_all(), free(m), OK; }
int cuModuleGetFunction(void** f, void* m, const char* name) {
    NEED_CONTEXT;
    emulated_fn* emulated = (emulated_fn*)kernels("emulated");
    *f = emulated ? (void*)emulated(m, name) : NULL;
    return *f ? OK : NOT_FOUND;
}
int cuFuncGetAttribute(int* v, int a, void* f) { return (void)a, (void)f, *v = 32, OK; }
// Shared memory beyond 48 KiB a block is there for those who asked for it, and 227 KiB are all there is.
enum { SHARED = 48 << 10, MOST_SHARED = 227 << 10 };
static struct {
    const void* kernel;
    int bytes;
} shared_of[PARAMETERS];
static int allowed(const void* f, int bytes) {
    for (int i = 0; i < PARAMETERS; i++)
        if (shared_of[i].kernel == f) return bytes <= shared_of[i].bytes;
    return bytes <= SHARED;
}
int cuFuncSetAttribute(void* f, int a, int v) {
    NEED_CONTEXT;
    if (a != 8 || v < 0 || v > MOST_SHARED) return INVALID_VALUE;
    int i = 0;
    while (i < PARAMETERS && shared_of[i].kernel && shared_of[i].kernel != f) i++;
    return i < PARAMETERS ? (shared_of[i].kernel = f, shared_of[i].bytes = v, OK) : INVALID_VALUE;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, void* f, int threads, size_t shared, unsigned flags) {
    NEED_CONTEXT;
    (void)flags;
    // As with 168 registers a thread, which is what a block of 384 can have.
    const int fit = 65536 / 168 / threads, room = (int)(shared ? (size_t)MOST_SHARED / shared : 32);
    return *n = allowed(f, (int)shared) ? (fit < room ? fit : room) : 0, OK;
}
int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   struct stream* s, void** values, void** extra) {
    NEED_CONTEXT;
    if (by != 1 || bz != 1 || !allowed(f, (int)shared) || extra || !gx || !gy || !gz || !bx || bx > 1024) return INVALID_VALUE;
    struct op op = {.kind = KERNEL, .arg = f, .grid = {gx, gy, gz}, .threads = bx};
    const int count = ((parameters_fn*)kernels("parameters"))(f);
    if (count > PARAMETERS) return INVALID_VALUE;
    for (int i = 0; i < count; i++) op.words[i] = *(uint64_t*)values[i];
    // The emulation's kernels begin with their name.
    say(*(const char**)f, gx * gy * gz);
    return push(s, op);
}
