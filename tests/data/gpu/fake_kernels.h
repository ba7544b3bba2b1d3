// The modules, kernels and launches of the stand-in driver. Included once, by fake_driver.c, behind fake_streams.h.
#pragma once
#include "fake_streams.h"

static long long masks;
__attribute__((destructor)) static void end(void) {
    if (masks && number("FAKE_CUDA_EXIT", 0)) abort();
}

typedef const void* emulated_fn(const char*, const char*);
typedef int waits_fn(const char*, const char*);
enum { KERNELS = 256 };
static const void* waiting[KERNELS];  // those that wait for the previous kernel themselves
static int waiting_count;
// Whether FAKE_REFUSES names a kernel of this module.
static int refused(const char* ptx) {
    char entry[128];
    const char* name = getenv("FAKE_REFUSES");
    snprintf(entry, sizeof entry, ".entry %s(", name ? name : "");
    return name && strstr(ptx, entry);
}
int cuModuleLoadData(void** m, const char* image) {
    NEED_CONTEXT;
    if (!kernels("emulate") || strncmp(image, "//", 2) || refused(image)) return INVALID_PTX;
    say("module", strlen(image));
    return *m = strdup(image), OK;
}
int cuModuleUnload(void* m) { LOCKED; return drain_all(), free(m), OK; }
int cuModuleGetFunction(void** f, void* m, const char* name) {
    NEED_CONTEXT;
    emulated_fn* emulated = (emulated_fn*)kernels("emulated");
    *f = emulated ? (void*)emulated(m, name) : NULL;
    if (*f && ((waits_fn*)kernels("waits"))(m, name)) waiting[waiting_count++ % KERNELS] = *f;
    return *f ? OK : NOT_FOUND;
}
int cuFuncGetAttribute(int* v, int a, void* f) { return (void)a, (void)f, *v = 32, OK; }
// Shared memory beyond 48 KiB a block is there for those who asked for it, and 227 KiB are all there is.
enum { SHARED = 48 << 10, MOST_SHARED = 227 << 10, WITH_SHARED = 96 };
static struct {
    const void* kernel;
    int bytes;
} shared_of[WITH_SHARED];
static int allowed(const void* f, int bytes) {
    for (int i = 0; i < WITH_SHARED; i++)
        if (shared_of[i].kernel == f) return bytes <= shared_of[i].bytes;
    return bytes <= SHARED;
}
int cuFuncSetAttribute(void* f, int a, int v) {
    NEED_CONTEXT;
    if (a != 8 || v < 0 || v > MOST_SHARED) return INVALID_VALUE;
    int i = 0;
    while (i < WITH_SHARED && shared_of[i].kernel && shared_of[i].kernel != f) i++;
    return i < WITH_SHARED ? (shared_of[i].kernel = f, shared_of[i].bytes = v, OK) : INVALID_VALUE;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, void* f, int threads, size_t shared,
                                                         unsigned flags) {
    NEED_CONTEXT;
    (void)flags;
    // As with 168 registers a thread, which is what a block of 384 can have; a larger one has fewer.
    const int fit = 65536 / (threads > 384 ? 65536 / threads : 168) / threads,
              room = (int)(shared ? (size_t)MOST_SHARED / shared : 32);
    return *n = allowed(f, (int)shared) ? (fit < room ? fit : room) : 0, OK;
}
// A kernel's clusters are said by an attribute, of kind 4.
struct launch {
    unsigned grid[3], block[3], shared;
    void* stream;
    struct { int kind, pad, cluster[16]; }* attributes;
    unsigned count;
};
int cuOccupancyMaxActiveClusters(int* n, void* f, const struct launch* of) {
    NEED_CONTEXT;
    if (of->count != 1 || of->attributes->kind != 4 || of->attributes->cluster[0] < 1) return INVALID_VALUE;
    return *n = allowed(f, (int)of->shared) ? 132 / of->attributes->cluster[0] : 0, OK;
}
// Halves (6) in boxes of 64 columns, swizzled by 128 bytes (3), of one matrix or (rank 3) several. Of a map a launch keeps the first word, as of all arguments: it says where the rest
// is, which nothing gives back, for a recording may come to it at any time. The emulation's kernels read it (TensorMap of tests/emulate/cluster.h).
struct map { uint64_t from; int rows, columns, box_rows, matrices; int64_t row, matrix; };
int cuTensorMapEncodeTiled(struct map** made, int type, unsigned rank, void* from, const uint64_t* sizes,
                           const uint64_t* strides, const unsigned* box, const unsigned* steps,
                           int interleave, int swizzle, int promotion, int outside) {
    NEED_CONTEXT;
    (void)promotion;
    const int several = rank == 3;
    if (type != 6 || (rank != 2 && !several) || interleave || swizzle != 3 || outside || steps[0] != 1 ||
        steps[1] != 1)
        return INVALID_VALUE;
    if ((uint64_t)made % 64 || (uint64_t)from % 16 || strides[0] % 16 || strides[0] < 2 * sizes[0])
        return INVALID_VALUE;
    if (several && (steps[2] != 1 || box[2] != 1 || strides[1] % 16)) return INVALID_VALUE;
    const uint64_t last = strides[0] * (sizes[1] - 1) + (several ? strides[1] * (sizes[2] - 1) : 0);
    if (box[0] != 64 || box[1] < 1 || box[1] > 256 || !inside(from, last + 2 * sizes[0]))
        return INVALID_VALUE;
    struct map* kept = malloc(sizeof *kept);
    *kept = (struct map){(uint64_t)from, (int)sizes[1], (int)sizes[0], (int)box[1], several ? (int)sizes[2] : 0, (int64_t)strides[0] / 2, several ? (int64_t)strides[1] / 2 : 0};
    return *made = kept, OK;
}
static int launch_kernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                         unsigned bz, unsigned shared, struct stream* s, void** values, void** extra,
                         int dependent) {
    if (by != 1 || bz != 1 || !allowed(f, (int)shared) || extra || !gx || !gy || !gz || !bx || bx > 1024)
        return INVALID_VALUE;
    struct op op = {.kind = KERNEL, .arg = f, .grid = {gx, gy, gz}, .threads = bx, .shared = shared,
                    .dependent = dependent};
    const int count = ((parameters_fn*)kernels("parameters"))(f);
    if (count > PARAMETERS) return INVALID_VALUE;
    for (int i = 0; i < count; i++) op.words[i] = *(uint64_t*)values[i];
    // The emulation's kernels begin with their name.
    const char *name = *(const char**)f, *fault = getenv("FAKE_CUDA_FAULT");
    say(name, gx * gy * gz);
    masks += !strcmp(name, "mask_words");
    if (fault && masks == number("FAKE_CUDA_FAULT_AT", 1) && !unlink(fault)) return lose_device();
    return push(s, op);
}
int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, struct stream* s, void** values, void** extra) {
    NEED_CONTEXT;
    return launch_kernel(f, gx, gy, gz, bx, by, bz, shared, s, values, extra, 0);
}
// With one attribute, a programmatic dependent launch (6).
int cuLaunchKernelEx(const struct launch* of, void* f, void** values, void** extra) {
    NEED_CONTEXT;
    int waits = 0;
    for (int i = 0; i < KERNELS; i++) waits |= waiting[i] == f;
    const char* why = no_dependent(of->stream, waits);
    if (of->count != 1 || of->attributes->kind != 6 || of->attributes->cluster[0] != 1)
        why = "another attribute";
    if (why)
        return fprintf(stderr, "%s is launched as dependent: %s\n", *(const char**)f, why), INVALID_VALUE;
    say("dependent", 1);
    return launch_kernel(f, of->grid[0], of->grid[1], of->grid[2], of->block[0], of->block[1], of->block[2],
                         of->shared, of->stream, values, extra, 1);
}
// That a driver has it says that it records such launches: none does so here.
int cuGraphGetEdges_v2(void) { return INVALID_VALUE; }
