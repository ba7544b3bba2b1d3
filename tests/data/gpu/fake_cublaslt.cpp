// A stand-in for cuBLASLt on the stand-in for the driver: D = alpha op(A) B + beta C + bias in host memory, as late as the stream
// runs it, on the operands that it was called with. It is stricter than the real one: whatever is missing, of another type, size or
// address than it must be, comes too early or was not asked for is refused, never repaired.
//
// It names two algorithms that can be used, and one between them that cannot. The first cuts each sum in two, and keeps the parts
// in the workspace. Sums are f32.
//
// FAKE_CUBLASLT_FAULT: "new" is a library for a CUDA of the future, "refuses" makes no handle, "none" names no algorithm, "fails"
// enqueues nothing; sums are wrong with "bias" (left out), "twice" (added twice to what was there), "halves" (rounded to fp16),
// "second" (the second algorithm's), "edge" (the last column's), "unsteady" (now and then). "counts" is no fault: the second
// algorithm alone, which takes a counter in its workspace, clears it before each launch, and is wrong where it finds it used.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "dots.h"

namespace {
enum status { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, ARCH_MISMATCH = 8, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum { R_32F = 0, R_16F = 2, COMPUTE_32F = 68, TRANSA = 3, EPILOGUE = 7, BIAS_POINTER = 8, BIAS = 4, WORKSPACE = 1, SCHEMES = 3 };
enum { FIXED_ORDER = 2, ALIGNMENT = 256 };

struct handle { int alive = 1; };
struct descriptor { int transposed = 0; unsigned epilogue = 1; const void* bias = nullptr; };
struct layout { int type; uint64_t rows, columns; int64_t step; };
struct preference { uint64_t workspace = 0; unsigned schemes = 7; };
// What an algorithm is named for; it serves for nothing else.
struct algorithm { uint32_t magic, which; uint64_t m, n, k, output, workspace, spare[2]; };
struct result { algorithm of; size_t workspace; int state; float waves; int reserved[4]; };
static_assert(sizeof(algorithm) == 64 && sizeof(result) == 96, "as NVIDIA's header has them");
const uint32_t MAGIC = 0xC0B1A517;

struct launch {
    algorithm of;
    const uint16_t *a, *b;
    const void *c, *bias;
    void* d;
    float *parts, alpha, beta;
};

bool fault(const char* name) {
    const char* asked = std::getenv("FAKE_CUBLASLT_FAULT");
    return asked && !std::strcmp(asked, name);
}
template <typename F>
F* of_driver(const char* name) {
    static void* library = dlopen("libcuda.so", RTLD_NOW);
    return library ? reinterpret_cast<F*>(dlsym(library, name)) : nullptr;
}
bool no_context() {
    void* current = nullptr;
    return of_driver<int(void**)>("cuCtxGetCurrent")(&current) || !current;
}
bool lies_at(const void* at, size_t bytes) {
    static auto* inside = of_driver<int(const void*, size_t)>("stand_in_has");
    return at && reinterpret_cast<uintptr_t>(at) % ALIGNMENT == 0 && inside(at, bytes);
}
size_t bytes_of(int type) { return type == R_16F ? 2 : 4; }
// All of a matrix without gaps.
bool is(const layout* own, int type, uint64_t rows, uint64_t columns) {
    return own && own->type == type && own->rows == rows && own->columns == columns && own->step == (int64_t)rows;
}
bool fits(const descriptor* what, const layout* a, const layout* b, const layout* c, const layout* d) {
    if (!what || !a || !b || c != d || !d || what->transposed != 1 || what->epilogue != BIAS) return false;
    const uint64_t m = a->columns, n = b->columns, k = a->rows;
    return is(a, R_16F, k, m) && is(b, R_16F, k, n) && (is(d, R_16F, m, n) || is(d, R_32F, m, n))
           && lies_at(what->bias, m * bytes_of(d->type));
}

float value(const void* from, bool halves, uint64_t at) {
    return halves ? host_halves()[static_cast<const uint16_t*>(from)[at]] : static_cast<const float*>(from)[at];
}
// A recorded launch may come again as long as the process lives: it is never freed.
void multiply(void* argument) {
    static unsigned runs;
    const auto& [of, left, right, c, bias, d, parts, alpha, beta] = *static_cast<launch*>(argument);
    const auto [magic, which, m, n, k, output, workspace, spare] = of;
    const bool halves = output == R_16F;
    const float used = fault("counts") ? (float)(*reinterpret_cast<uint32_t*>(parts))++ : 0.0f;
    const std::vector<float> a = to_float2(left, m * k), b = to_float2(right, n * k);
    const bool rounds = fault("halves"), adds = fault("second") && which != 0, edge = fault("edge"), changes = fault("unsteady"), unbiased = fault("bias");
    const float kept = fault("twice") && beta != 0.0f ? 2.0f : beta;
    runs++;
    for (uint64_t column = 0; column < n; column++)
        for (uint64_t row = 0; row < m; row++) {
            const float *x = &a[row * k], *y = &b[column * k];
            const uint64_t at = column * m + row;
            float sum = which == 0 ? dot(x, y, k / 2, k) : dot(x, y, 0, k);
            if (which == 0) parts[at] = dot(x, y, 0, k / 2), sum += parts[at];
            sum += used;
            if (rounds) sum = host_from_half(host_half_bits(sum));
            if (adds || (edge && row + 1 == m)) sum += 1.0f;
            if (changes && at == 0) sum += (halves ? 2e-3f : 1e-4f) * (float)(runs % 2);
            sum *= alpha;
            if (kept != 0.0f) sum += kept * value(c, halves, at);
            if (!unbiased) sum += value(bias, halves, row);
            if (halves) static_cast<uint16_t*>(d)[at] = host_half_bits(sum);
            else static_cast<float*>(d)[at] = sum;
        }
}
}  // namespace

extern "C" {
int cublasLtGetProperty(int which, int* number) { return *number = (const int[]){13, 1, 2}[which], SUCCESS; }
size_t cublasLtGetCudartVersion() { return fault("new") ? 99000 : 13000; }
int cublasLtCreate(handle** made) {
    if (no_context()) return NOT_INITIALIZED;
    return fault("refuses") ? ARCH_MISMATCH : (*made = new handle, SUCCESS);
}
int cublasLtDestroy(handle* own) { return delete own, no_context() ? NOT_INITIALIZED : SUCCESS; }

int cublasLtMatmulDescCreate(descriptor** made, int compute, int scale) {
    return compute == COMPUTE_32F && scale == R_32F ? (*made = new descriptor, SUCCESS) : INVALID_VALUE;
}
int cublasLtMatmulDescDestroy(descriptor* own) { return delete own, SUCCESS; }
int cublasLtMatmulDescSetAttribute(descriptor* own, int which, const void* from, size_t bytes) {
    if (!own || !from) return INVALID_VALUE;
    if (which == TRANSA && bytes == 4) return std::memcpy(&own->transposed, from, 4), SUCCESS;
    if (which == EPILOGUE && bytes == 4) return std::memcpy(&own->epilogue, from, 4), SUCCESS;
    if (which == BIAS_POINTER && bytes == 8) return std::memcpy(&own->bias, from, 8), SUCCESS;
    return INVALID_VALUE;
}
int cublasLtMatrixLayoutCreate(layout** made, int type, uint64_t rows, uint64_t columns, int64_t step) {
    if ((type != R_16F && type != R_32F) || !rows || !columns || step < (int64_t)rows) return INVALID_VALUE;
    return *made = new layout{type, rows, columns, step}, SUCCESS;
}
int cublasLtMatrixLayoutDestroy(layout* own) { return delete own, SUCCESS; }
int cublasLtMatmulPreferenceCreate(preference** made) { return *made = new preference, SUCCESS; }
int cublasLtMatmulPreferenceDestroy(preference* own) { return delete own, SUCCESS; }
int cublasLtMatmulPreferenceSetAttribute(preference* own, int which, const void* from, size_t bytes) {
    if (!own || !from) return INVALID_VALUE;
    if (which == WORKSPACE && bytes == 8) return std::memcpy(&own->workspace, from, 8), SUCCESS;
    if (which == SCHEMES && bytes == 4) return std::memcpy(&own->schemes, from, 4), SUCCESS;
    return INVALID_VALUE;
}

int cublasLtMatmulAlgoGetHeuristic(handle* library, descriptor* what, layout* a, layout* b, layout* c, layout* d, preference* wish,
                                   int room, result* found, int* count) {
    if (!library || !library->alive || !fits(what, a, b, c, d) || !wish || room < 1 || !found || !count) return INVALID_VALUE;
    // Sums in an order that changes from run to run must not have been allowed.
    if (wish->schemes & ~(unsigned)FIXED_ORDER) return INVALID_VALUE;
    *count = 0;
    if (fault("none")) return NOT_SUPPORTED;
    const bool counts = fault("counts");
    if (counts && wish->workspace < 4) return NOT_SUPPORTED;
    const uint64_t m = a->columns, n = b->columns, parts = 4 * m * n;
    const bool cut = !counts && parts <= wish->workspace && wish->schemes & FIXED_ORDER;
    for (int i = cut ? 0 : 1; i < 3 && *count < room; i++) {
        result& own = found[(*count)++];
        own = result{};
        own.of = algorithm{MAGIC, i == 0 ? 0u : 1u, m, n, a->rows, (uint64_t)d->type, i == 0 ? parts : counts ? 4u : 0u, {}};
        own.workspace = own.of.workspace, own.waves = 0.5f;
        // One that cannot be used is no use, whatever else is said of it.
        own.state = i == 1 ? NOT_SUPPORTED : SUCCESS;
    }
    return SUCCESS;
}
int cublasLtMatmul(handle* library, descriptor* what, const float* alpha, const void* a, layout* la, const void* b, layout* lb,
                   const float* beta, const void* c, layout* lc, void* d, layout* ld, const algorithm* how, void* workspace,
                   size_t bytes, void* stream) {
    if (no_context()) return NOT_INITIALIZED;
    if (!library || !library->alive || !fits(what, la, lb, lc, ld) || !alpha || !beta || !how || !stream) return INVALID_VALUE;
    const uint64_t m = la->columns, n = lb->columns, k = la->rows;
    const auto& [magic, which, own_m, own_n, own_k, output, needs, spare] = *how;
    if (magic != MAGIC || own_m != m || own_n != n || own_k != k || output != (uint64_t)ld->type) return INVALID_VALUE;
    const size_t size = bytes_of(ld->type);
    if (!lies_at(a, 2 * m * k) || !lies_at(b, 2 * n * k) || c != d || !lies_at(d, size * m * n)) return INVALID_VALUE;
    if (bytes < needs || (needs && !lies_at(workspace, needs))) return INVALID_VALUE;
    // A kernel is brought to the device on first use, which nothing that is recorded can do.
    static std::set<std::string> brought;
    const std::string key(reinterpret_cast<const char*>(how), sizeof *how);
    int capturing = 0;
    of_driver<int(void*, int*)>("cuStreamIsCapturing")(stream, &capturing);
    if (capturing && !brought.count(key)) return EXECUTION_FAILED;
    brought.insert(key);
    if (fault("fails")) return EXECUTION_FAILED;
    if (fault("counts")) of_driver<int(void*, unsigned char, size_t, void*)>("cuMemsetD8Async")(workspace, 0, 4, stream);
    auto* work = new launch{*how, static_cast<const uint16_t*>(a), static_cast<const uint16_t*>(b), c, what->bias, d,
                            static_cast<float*>(workspace), *alpha, *beta};
    using work_fn = void(void*);
    return of_driver<int(void*, work_fn*, void*)>("stand_in_device_work")(stream, multiply, work) ? EXECUTION_FAILED : SUCCESS;
}
}
