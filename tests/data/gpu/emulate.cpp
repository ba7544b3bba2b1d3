// The kernels of cuda/ for the stand-in driver, which opens this as libkernels.so.
#include "emulate.h"
#include "../../emulate/dependents.h"
#include "kernel.h"

#include "../../../cuda/preprocess.cu"
#include "../../../cuda/mask.cu"
#include "../../../cuda/bank.cu"

// What cuda/ptx.cuh and cuda/wgmma.cuh have for a GPU.
static void pdl_wait() { dependent_wait(); }
static void pdl_launch_dependents() {}
static float4 load_coherent_floats(const float* from) { return *(const float4*)from; }

#include "../../../cuda/hiera.cu"
#include "../../../cuda/hiera_hopper.cu"

// Of sources.cpp, sources_attention.cpp and sources_gemm.cpp.
extern const Table SOURCES, SOURCES_OF_ATTENTION, SOURCES_OF_PRODUCTS;

namespace {

void run(const Kernel& kernel, const Launch& of, void** values) {
    by_chance = false;
    gridDim = {of.grid[0], of.grid[1], of.grid[2]}, blockDim = {of.threads, 1, 1};
    for (unsigned z = 0; z < gridDim.z; z++)
        for (unsigned y = 0; y < gridDim.y; y++)
            for (unsigned x = 0; x < gridDim.x; x++) {
                const auto block = [&] { blockIdx = {x, y, z}, run_block(of.threads, [&] { kernel.call(values); }); };
                if (is_dependent(of, x, y, z)) run_dependent(of.written, of.regions, block);
                else block();
            }
}
#define KERNEL(name) {#name, call<name>, count(name), run, 0, writes(name)}
const Kernel KERNELS[] = {
    KERNEL(preprocess_bicubic_f16),
    KERNEL(preprocess_bicubic_f32),
    KERNEL(preprocess_tiles_f16),
    KERNEL(preprocess_columns_f16),
    KERNEL(preprocess_columns_f32),
    KERNEL(preprocess_linear_f16),
    KERNEL(preprocess_linear_f32),
    KERNEL(mask_words),
    KERNEL(mask_boundaries),
    KERNEL(mask_near),
    KERNEL(bank_reset),
    KERNEL(bank_inputs),
    KERNEL(bank_advance),
    KERNEL(hiera_layernorm),
    KERNEL(hiera_layernorm_hopper),
    KERNEL(hiera_gelu),
    KERNEL(hiera_max_pool),
};

}  // namespace

// The kernel of that name, if the PTX that was loaded declares it and FAKE_LACKS does not name it.
extern "C" const void* emulated(const char* ptx, const char* name) {
    char entry[128];
    snprintf(entry, sizeof entry, ".entry %s(", name);
    const char* lacks = getenv("FAKE_LACKS");
    if (!strstr(ptx, entry) || (lacks && !strcmp(lacks, name))) return nullptr;
    for (const Table& table : {Table{KERNELS, sizeof KERNELS / sizeof *KERNELS}, SOURCES, SOURCES_OF_ATTENTION, SOURCES_OF_PRODUCTS})
        for (size_t i = 0; i < table.count; i++)
            if (!strcmp(table.first[i].name, name)) return &table.first[i];
    return nullptr;
}
// `written`: of a programmatic dependent launch, else null.
extern "C" void emulate(const Kernel* kernel, const unsigned* grid, unsigned threads, unsigned shared, void** values, const Region* written,
                        size_t regions) {
    kernel->run(*kernel, {{grid[0], grid[1], grid[2]}, threads, shared, written, regions}, values);
}
extern "C" unsigned written_parameters(const Kernel* kernel) { return kernel->writes; }
// Whether the PTX has a wait for the previous kernel in that entry: an instruction, no comment.
extern "C" int waits(const char* ptx, const char* name) {
    char entry[128];
    snprintf(entry, sizeof entry, ".entry %s(", name);
    const char *from = strstr(ptx, entry), *end = from ? strstr(from + 1, ".entry ") : nullptr;
    const char* wait = from ? strstr(from, "\ngriddepcontrol.wait;") : nullptr;
    return wait && (!end || wait < end);
}
extern "C" int parameters(const Kernel* kernel) { return kernel->parameters; }
