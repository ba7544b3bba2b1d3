// A stand-in for libcuda in host memory: enough of the driver to run the door to it, and the self-test, without a GPU.
// It is stricter than the real one: a call without a current context, a free of a foreign address, or a copy beyond a
// block is an error, and what was written around a block stops the process when it is freed. Kernels run on the host
// (emulate.h) where libkernels.so is beside this. FAKE_CUDA_DEVICES, FAKE_CUDA_MEMORY (bytes) and FAKE_CUDA_GRAPHS (0: recording fails) change it.
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201,
       INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901 };
enum { BLOCKS = 4096, WORK = 64 };

typedef void (*host_fn)(void*);
struct graph {
    int count;
    struct {
        host_fn fn;
        void* arg;
    } work[WORK];
};
struct stream {
    int capturing;
    struct graph recorded;
};
struct event {
    double ms;
    int recorded;
};

static int context;  // its address is the primary context
static _Thread_local void* current;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char* at;
    size_t size;
} blocks[BLOCKS];
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
static int inside(const char* at, size_t size) {
    int found = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BLOCKS && !found; i++)
        found = blocks[i].at && at >= blocks[i].at && at + size <= blocks[i].at + blocks[i].size;
    pthread_mutex_unlock(&lock);
    return found;
}
#define NEED_CONTEXT \
    if (current != &context) return INVALID_CONTEXT

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
    *v = a == 75 ? 9 : 0;  // compute capability 9.0, not integrated, no memory pools
    return OK;
}
int cuDeviceGetName(char* s, int n, int d) { return (void)d, strncpy(s, "NVIDIA H200", n), OK; }
int cuDeviceTotalMem_v2(size_t* n, int d) { return (void)d, *n = number("FAKE_CUDA_MEMORY", 1LL << 32), OK; }
int cuDevicePrimaryCtxRetain(void** c, int d) { return (void)d, *c = &context, OK; }
int cuDevicePrimaryCtxRelease_v2(int d) { return (void)d, OK; }
int cuCtxGetCurrent(void** c) { return *c = current, OK; }
int cuCtxSetCurrent(void* c) { return current = c, OK; }
int cuCtxSynchronize(void) { NEED_CONTEXT; return OK; }

int cuMemGetInfo_v2(size_t* free_, size_t* total) {
    NEED_CONTEXT;
    *total = number("FAKE_CUDA_MEMORY", 1LL << 32);
    *free_ = *total - held;
    return OK;
}
int cuMemAlloc_v2(uint64_t* p, size_t size) {
    NEED_CONTEXT;
    if (size == 0) return INVALID_VALUE;
    if (held + size > (size_t)number("FAKE_CUDA_MEMORY", 1LL << 32)) return OUT_OF_MEMORY;
    // 256 beyond a multiple of 512: no more than what the driver promises.
    char* block = aligned_alloc(512, (size + 512 + 511) / 512 * 512);
    if (!block) return OUT_OF_MEMORY;
    memset(block, 0x5A, size + 512);
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < BLOCKS && blocks[i].at) i++;
    if (i < BLOCKS) blocks[i].at = block + 256, blocks[i].size = size, held += size;
    pthread_mutex_unlock(&lock);
    return *p = (uint64_t)(block + 256), i < BLOCKS ? OK : OUT_OF_MEMORY;
}
int cuMemFree_v2(uint64_t p) {
    NEED_CONTEXT;
    int found = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BLOCKS && !found; i++)
        if (p && blocks[i].at == (char*)p) {
            for (size_t rim = 0; rim < 256; rim++)
                if (blocks[i].at[-1 - (long)rim] != 0x5A || blocks[i].at[blocks[i].size + rim] != 0x5A) {
                    fprintf(stderr, "fake driver: written outside a block of %zu bytes\n", blocks[i].size);
                    abort();
                }
            found = 1, held -= blocks[i].size, blocks[i].at = NULL;
        }
    pthread_mutex_unlock(&lock);
    if (found) free((char*)p - 256);
    return found ? OK : INVALID_VALUE;
}
static int move(void* to, const void* from, size_t size, const void* device, struct stream* s) {
    NEED_CONTEXT;
    if (!inside(device, size)) return INVALID_VALUE;
    if (s && s->capturing) return s->capturing = -1, CAPTURE_UNSUPPORTED;
    memcpy(to, from, size);
    return OK;
}
int cuMemcpyHtoDAsync_v2(uint64_t d, const void* h, size_t n, void* s) { return move((void*)d, h, n, (void*)d, s); }
int cuMemcpyDtoHAsync_v2(void* h, uint64_t d, size_t n, void* s) { return move(h, (void*)d, n, (void*)d, s); }
int cuMemcpyDtoDAsync_v2(uint64_t a, uint64_t b, size_t n, void* s) {
    return inside((void*)b, n) ? move((void*)a, (void*)b, n, (void*)a, s) : INVALID_VALUE;
}
int cuMemsetD8Async(uint64_t d, unsigned char v, size_t n, void* s) {
    (void)s;
    NEED_CONTEXT;
    return inside((char*)d, n) ? (memset((void*)d, v, n), OK) : INVALID_VALUE;
}

int cuStreamCreate(void** s, unsigned flags) { NEED_CONTEXT; return (void)flags, *s = calloc(1, sizeof(struct stream)), OK; }
int cuStreamDestroy_v2(void* s) { return free(s), OK; }
int cuStreamSynchronize(struct stream* s) { NEED_CONTEXT; return s && s->capturing ? CAPTURE_UNSUPPORTED : OK; }
int cuStreamWaitEvent(void* s, void* e, unsigned f) { return (void)s, (void)e, (void)f, OK; }
int cuStreamBeginCapture_v2(struct stream* s, int mode) {
    (void)mode;
    if (!number("FAKE_CUDA_GRAPHS", 1)) return CAPTURE_UNSUPPORTED;
    s->capturing = 1, s->recorded.count = 0;
    return OK;
}
int cuStreamIsCapturing(struct stream* s, int* status) { return *status = s->capturing != 0, OK; }
int cuStreamEndCapture(struct stream* s, void** g) {
    int was = s->capturing;
    s->capturing = 0, *g = NULL;
    if (was != 1) return CAPTURE_INVALIDATED;
    *g = malloc(sizeof(struct graph));
    memcpy(*g, &s->recorded, sizeof(struct graph));
    return OK;
}
/// What the stand-in for TensorRT runs its "kernels" with.
int cuLaunchHostFunc(struct stream* s, host_fn fn, void* arg) {
    if (!s->capturing) return fn(arg), OK;
    if (s->recorded.count == WORK) return CAPTURE_INVALIDATED;
    s->recorded.work[s->recorded.count].fn = fn;
    s->recorded.work[s->recorded.count++].arg = arg;
    return OK;
}
int cuGraphInstantiateWithFlags(void** e, void* g, unsigned long long flags) {
    (void)flags;
    return *e = memcpy(malloc(sizeof(struct graph)), g, sizeof(struct graph)), OK;
}
int cuGraphUpload(void* e, void* s) { return (void)e, (void)s, OK; }
int cuGraphLaunch(struct graph* e, void* s) {
    (void)s;
    for (int i = 0; i < e->count; i++) e->work[i].fn(e->work[i].arg);
    return OK;
}
int cuGraphExecDestroy(void* e) { return free(e), OK; }
int cuGraphDestroy(void* g) { return free(g), OK; }

int cuEventCreate(void** e, unsigned flags) {
    // Without timing, 2, an event has no time to tell.
    NEED_CONTEXT;
    return flags & 2 ? INVALID_VALUE : (*e = calloc(1, sizeof(struct event)), OK);
}
int cuEventDestroy_v2(void* e) { return free(e), OK; }
int cuEventRecord(struct event* e, void* s) { return (void)s, e->ms = now(), e->recorded = 1, OK; }
int cuEventSynchronize(struct event* e) { return e->recorded ? OK : INVALID_HANDLE; }
int cuEventElapsedTime(float* ms, struct event* a, struct event* b) {
    return a->recorded && b->recorded ? (*ms = (float)(b->ms - a->ms), OK) : INVALID_HANDLE;
}

static const void* (*emulated)(const char*, const char*);
static void (*emulate)(const void*, const unsigned*, unsigned, void**);
static int (*parameters)(const void*);
int cuModuleLoadData(void** m, const void* image) {
    NEED_CONTEXT;
    void* kernels = dlopen("libkernels.so", RTLD_NOW);
    if (!kernels || strncmp(image, "//", 2)) return INVALID_PTX;
    emulated = (const void* (*)(const char*, const char*))dlsym(kernels, "emulated");
    emulate = (void (*)(const void*, const unsigned*, unsigned, void**))dlsym(kernels, "emulate");
    parameters = (int (*)(const void*))dlsym(kernels, "parameters");
    return *m = strdup(image), OK;
}
int cuModuleUnload(void* m) { return free(m), OK; }
int cuModuleGetFunction(const void** f, void* m, const char* name) {
    NEED_CONTEXT;
    return (*f = emulated(m, name)) ? OK : NOT_FOUND;
}
int cuFuncGetAttribute(int* v, int a, void* f) { return (void)a, (void)f, *v = 32, OK; }

struct launch {
    const void* kernel;
    unsigned grid[3], threads;
    uint64_t words[24];
};
static void run_launch(void* arg) {
    struct launch* l = arg;
    void* values[24];
    for (int i = 0; i < 24; i++) values[i] = &l->words[i];
    // The emulation has one set of threads.
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one);
    emulate(l->kernel, l->grid, l->threads, values);
    pthread_mutex_unlock(&one);
}
int cuLaunchKernel(const void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, struct stream* s, void** values, void** extra) {
    NEED_CONTEXT;
    if (!gx || gy - 1 > 65534 || gz - 1 > 65534 || bx - 1 > 1023 || by != 1 || bz != 1 || shared || extra)
        return INVALID_VALUE;
    struct launch* l = calloc(1, sizeof *l);
    *l = (struct launch){.kernel = f, .grid = {gx, gy, gz}, .threads = bx};
    for (int i = 0; i < parameters(f); i++) memcpy(&l->words[i], values[i], 8);
    // A recorded launch lives as long as the process.
    int was = s->capturing, e = cuLaunchHostFunc(s, run_launch, l);
    if (!was) free(l);
    return e;
}
