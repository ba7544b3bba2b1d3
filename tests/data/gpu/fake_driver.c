// A stand-in for libcuda in host memory: enough of the driver to run the door to it, the self-test and the pipeline
// without a GPU. It is stricter than the real one: a call without a current context, a free of a foreign address, a copy
// beyond a block, or a call that a recording thread must not make is an error.
//
// Streams are as lazy as they may be: work runs when somebody waits for it and never before, and then only what that
// needs. Who reads what it never waited for reads what was there before. FAKE_CUDA_SEED=1 to 9 lets the first to ninth
// stream rush ahead of the lazy others, as far as its waits allow: who overwrites what others still read is found by that.
// Greater seeds run all streams early, in random order. A branch of a graph is a stream of its own, as lazy as the others:
// who reads its work before the join reads what was there before.
//
// FAKE_CUDA_APART=1: device memory is not the host's; a host that touches it crashes. 2: and the stand-in for TensorRT is told that it is. FAKE_CUDA_DEVICES, FAKE_CUDA_MEMORY (bytes), FAKE_CUDA_SM (90), FAKE_CUDA_NAME (NVIDIA H200), FAKE_CUDA_UNIFIED (1: the host's memory is shared), FAKE_CUDA_REGISTER (0: no read-only memory is registered), FAKE_CUDA_JOINS (0: graphs forget the joins of their branches) and FAKE_CUDA_GRAPHS (0:
// recording fails) change it; FAKE_CUDA_FAULT names a file: the process that first makes FAKE_CUDA_FAULT_AT masks while it is
// there takes it away and loses its device; FAKE_CUDA_EXIT (1) crashes a process that made masks when it ends; FAKE_CUDA_LOG
// names a file that gets a line for each call that costs something. Kernels are emulated by libkernels.so.
#include "fake_streams.h"

/// What the stand-in for TensorRT asks before it works on device addresses; no real driver has it.
int stand_in_shares_memory(void) { return number("FAKE_CUDA_APART", 0) != 1; }

// ---- device

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : number("FAKE_CUDA_DEVICES", 1) ? OK : NO_DEVICE; }
int cuDriverGetVersion(int* v) { return *v = 13000, OK; }
int cuGetErrorName(int e, const char** s) {
    *s = e == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
       : e == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : e == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE"
       : e == CAPTURE_UNSUPPORTED ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" : "CUDA_ERROR_OTHER";
    return OK;
}
int cuGetErrorString(int e, const char** s) { return *s = e == OUT_OF_MEMORY ? "out of memory" : "as the stand-in says", OK; }
int cuDeviceGet(int* d, int n) { return *d = n, n < number("FAKE_CUDA_DEVICES", 1) ? OK : INVALID_DEVICE; }
int cuDeviceGetCount(int* n) { return *n = (int)number("FAKE_CUDA_DEVICES", 1), OK; }
int cuDeviceGetAttribute(int* v, int a, int d) {
    (void)d;
    // Compute capability 9.0 unless it is told another, 132 multiprocessors, no memory pools.
    int sm = (int)number("FAKE_CUDA_SM", 90);
    *v = a == 75 ? sm / 10 : a == 76 ? sm % 10 : a == 16 ? 132 : a == 18 ? (int)number("FAKE_CUDA_UNIFIED", 0) : a == 113 ? (int)number("FAKE_CUDA_REGISTER", 1) : 0;
    return OK;
}
int cuDeviceGetName(char* s, int n, int d) {
    const char* name = getenv("FAKE_CUDA_NAME");
    return (void)d, strncpy(s, name ? name : "NVIDIA H200", n), OK;
}
int cuDeviceTotalMem_v2(size_t* n, int d) { return (void)d, *n = number("FAKE_CUDA_MEMORY", 1LL << 32), OK; }
int cuDevicePrimaryCtxRetain(void** c, int d) { return (void)d, *c = &context, OK; }
int cuDevicePrimaryCtxRelease_v2(int d) { return (void)d, OK; }
int cuCtxGetCurrent(void** c) { return *c = current, OK; }
int cuCtxSetCurrent(void* c) { return current = c, OK; }
int cuCtxSynchronize(void) {
    NEED_CONTEXT;
    // Whoever records, in whatever mode: the recording is lost.
    int lost = 0;
    for (int i = 0; i < STREAMS; i++)
        if (streams[i] && streams[i]->capturing) lost = 1, streams[i]->capturing = -1;
    if (lost) return CAPTURE_UNSUPPORTED;
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
    const size_t whole = (size + 256 + 511) / 512 * 512, mapped = is_apart() && !on_host ? (whole + 4095) / 4096 * 4096 : 0;
    char* block = mapped ? mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : aligned_alloc(512, whole);
    if (!block || block == MAP_FAILED) return OUT_OF_MEMORY;
    memset(block + 256, 0x5A, size);
    int i = 0;
    while (i < BLOCKS && blocks[i].at) i++;
    if (i == BLOCKS) return OUT_OF_MEMORY;
    blocks[i].at = block + 256, blocks[i].size = size, blocks[i].mapped = mapped, blocks[i].on_host = on_host;
    held += on_host ? 0 : size;
    let_in(0);
    say(on_host ? "host_alloc" : "alloc", size);
    return *p = block + 256, OK;
}
static int release(void* p, int on_host) {
    if (recording()) return CAPTURE_UNSUPPORTED;
    drain_all();
    for (int i = 0; i < BLOCKS; i++)
        if (p && blocks[i].at == p && blocks[i].on_host == on_host) {
            held -= on_host ? 0 : blocks[i].size, blocks[i].at = NULL;
            if (blocks[i].mapped) munmap((char*)p - 256, blocks[i].mapped);
            else free((char*)p - 256);
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
// Memory of the host's is pinned in place; read-only memory (8) may not be written.
int cuMemHostRegister_v2(void* p, size_t size, unsigned flags) {
    NEED_CONTEXT;
    int i = 0;
    while (i < BLOCKS && blocks[i].at) i++;
    if (!p || !size || !(flags & 8) || (uintptr_t)p % 4096 || i == BLOCKS) return INVALID_VALUE;
    blocks[i].at = p, blocks[i].size = size, blocks[i].mapped = 0, blocks[i].on_host = 2;
    say("register", size);
    return OK;
}
int cuMemHostUnregister(void* p) {
    NEED_CONTEXT;
    drain_all();
    for (int i = 0; i < BLOCKS; i++)
        if (p && blocks[i].at == p && blocks[i].on_host == 2) return blocks[i].at = NULL, say("unregister", blocks[i].size), OK;
    return INVALID_VALUE;
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

static struct stream* new_stream(void) {
    for (int i = 0; i < STREAMS; i++)
        if (!streams[i]) return streams[i] = calloc(1, sizeof(struct stream));
    return NULL;
}
int cuStreamCreate(void** s, unsigned flags) {
    NEED_CONTEXT;
    (void)flags;
    return (*s = new_stream()) ? OK : OUT_OF_MEMORY;
}
int cuStreamDestroy_v2(struct stream* s) {
    LOCKED;
    drain(s);
    if (s->branch) drain(s->branch);
    for (int i = 0; i < STREAMS; i++)
        if (streams[i] && (streams[i] == s || streams[i] == s->branch)) streams[i] = NULL;
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
    if (!e->captured) {
        if (s->capturing) return s->capturing = -1, CAPTURE_ISOLATION;
        return push(s, (struct op){.kind = WAIT, .event = e, .version = e->recorded});
    }
    struct stream *of = e->captured, *origin = of->origin ? of->origin : of;
    if (!origin->capturing || origin->captures != e->capture) return CAPTURE_ISOLATION;
    // A stream that waits for a recording's event takes part in the recording.
    if (!s->capturing) s->capturing = 1, s->capturer = origin->capturer, s->origin = origin, s->work = s->joined = 0, s->pushed = HOST;
    if (s != origin && s->origin != origin) return s->capturing = -1, CAPTURE_ISOLATION;
    if (s == origin && of != s && of->joined < e->behind) of->joined = e->behind;
    return push(s, (struct op){.kind = WAIT, .event = e->node});
}
int cuStreamBeginCapture_v2(struct stream* s, int mode) {
    LOCKED;
    (void)mode;
    if (!number("FAKE_CUDA_GRAPHS", 1)) return CAPTURE_UNSUPPORTED;
    s->capturing = 1, s->capturer = pthread_self(), s->recorded.count = 0, s->pushed = HOST, s->captures++;
    return OK;
}
int cuStreamIsCapturing(struct stream* s, int* status) { return *status = s->capturing != 0, OK; }
int cuStreamEndCapture(struct stream* s, void** g) {
    LOCKED;
    int was = s->capturing, unjoined = 0;
    s->capturing = 0, s->pushed = HOST, *g = NULL;
    for (int i = 0; i < STREAMS; i++) {
        struct stream* side = streams[i];
        if (!side || side->origin != s) continue;
        was = side->capturing == 1 ? was : -1, unjoined |= side->joined < side->work;
        side->capturing = 0, side->pushed = HOST, side->origin = NULL;
    }
    if (was != 1) return CAPTURE_INVALIDATED;
    if (unjoined) return CAPTURE_UNJOINED;
    *g = malloc(sizeof(struct graph));
    struct graph* made = memcpy(*g, &s->recorded, sizeof(struct graph));
    for (int i = 0; i < made->count; i++) made->work[i].of = made;
    return OK;
}
// A recording may be changed until it is instantiated: one piece of work behind the other, each a node. Nobody here changes
// one with branches.
static int one(struct op** to, size_t* count, struct op* node) {
    if (to && node) *to = node;
    return *count = node != NULL, OK;
}
static struct op* beside(struct op* node, int step) {
    struct op *first = node->of->work, *end = first + node->of->count, *at = node + step;
    while (at >= first && at < end && at->kind == TAKEN_OUT) at += step;
    return at >= first && at < end ? at : NULL;
}
int cuGraphGetNodes(struct graph* g, struct op** to, size_t* count) {
    for (int i = 0; to && i < g->count; i++) to[i] = &g->work[i];
    return *count = g->count, OK;
}
// The driver's numbers: kernel 0, copy 1, fill 2, host function 3, nothing 5.
int cuGraphNodeGetType(struct op* node, int* type) {
    static const int types[] = {[HOST] = 3, [DEVICE] = 0, [KERNEL] = 0, [COPY] = 1, [STAGED] = 1, [FILL] = 2,
                                [RECORD] = 5, [WAIT] = 5, [TAKEN_OUT] = 5};
    return *type = types[node->kind], OK;
}
// Nothing here records graphs inside graphs.
int cuGraphChildGraphNodeGetGraph(struct op* node, void** graph) { return (void)node, (void)graph, INVALID_VALUE; }
struct fill { uint64_t to; size_t pitch; unsigned value, bytes; size_t width, height; };
int cuGraphMemsetNodeGetParams(struct op* node, struct fill* of) {
    if (node->kind != FILL) return INVALID_VALUE;
    return *of = (struct fill){(uint64_t)node->to, node->size, node->value, 1, node->size, 1}, OK;
}
int cuGraphNodeGetDependencies(struct op* node, struct op** to, size_t* count) { return one(to, count, beside(node, -1)); }
int cuGraphNodeGetDependentNodes(struct op* node, struct op** to, size_t* count) { return one(to, count, beside(node, 1)); }
int cuGraphAddDependencies(struct graph* g, struct op** from, struct op** to, size_t count) {
    return count != 1 || (*from)->of != g || (*to)->of != g || *from >= *to ? INVALID_VALUE : OK;
}
int cuGraphDestroyNode(struct op* node) { return node->kind = TAKEN_OUT, OK; }
/// What the stand-in for TensorRT runs its "kernels" with.
int cuLaunchHostFunc(struct stream* s, host_fn fn, void* arg) {
    LOCKED;
    return push(s, (struct op){.kind = HOST, .fn = fn, .arg = arg});
}
/// What the stand-in for cuBLASLt runs its own with: unlike a host function it touches device memory.
int stand_in_device_work(struct stream* s, host_fn fn, void* arg) {
    NEED_CONTEXT;
    say("product", 1);
    return push(s, (struct op){.kind = DEVICE, .fn = fn, .arg = arg});
}
/// Whether all these bytes are of one block.
int stand_in_has(const void* from, size_t size) {
    LOCKED;
    return inside(from, size);
}
int cuGraphInstantiateWithFlags(void** e, void* g, unsigned long long flags) {
    LOCKED;
    (void)flags;
    if (recording()) return CAPTURE_UNSUPPORTED;
    struct graph *from = g, *made = calloc(1, sizeof(struct graph));
    for (int i = 0; i < from->count; i++)
        if (from->work[i].kind != TAKEN_OUT) made->work[made->count++] = from->work[i];
    say("instantiate", made->count);
    return *e = made, OK;
}
int cuGraphUpload(void* e, void* s) { return (void)e, (void)s, OK; }
int cuGraphLaunch(struct graph* e, struct stream* s) {
    LOCKED;
    say("graph", e->count);
    for (int i = 0; i < e->count; i++) {
        struct op op = e->work[i];
        if (op.aside && !s->branch && !(s->branch = new_stream())) return OUT_OF_MEMORY;
        struct stream* to = op.aside ? s->branch : s;
        if (op.kind == RECORD) op.event->stream = to, op.event->recorded++;
        if (op.kind == RECORD || op.kind == WAIT) op.version = op.event->recorded;
        // The fault of a graph that forgets its joins.
        if (op.kind == WAIT && !op.aside && !number("FAKE_CUDA_JOINS", 1)) continue;
        push(to, op);
    }
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
    if (s->capturing) {
        // Only an order among the work of the recording: the event itself happens never.
        const struct stream* origin = s->origin ? s->origin : s;
        struct event* node = calloc(1, sizeof(struct event));
        const int pushed = push(s, (struct op){.kind = RECORD, .event = node});
        e->captured = s, e->capture = origin->captures, e->behind = s->work, e->node = node;
        return pushed;
    }
    e->stream = s, e->told = 0, e->captured = NULL;
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

#include "fake_kernels.h"
