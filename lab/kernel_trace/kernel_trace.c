/*
Writes every kernel and copy of a CUDA program to a CSV file, also those inside CUDA graphs. It
serves machines without Nsight Systems.

    gcc -O1 -shared -fPIC -I CUPTI_INCLUDE -I CUDA_INCLUDE -o libkernel_trace.so kernel_trace.c \
        LIBCUPTI_SO
    CUDA_INJECTION64_PATH=./libkernel_trace.so KERNEL_TRACE=out segtrt bench …

The driver loads the library that CUDA_INJECTION64_PATH names. Each process writes `out.PID.csv`
when it ends. Times are CUPTI's, in nanoseconds. frames.py summarises the file.
*/
#include <cupti.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static FILE *out;

static void give_buffer(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    *bytes = 16 << 20;
    *buffer = aligned_alloc(64, *bytes);
    *most_records = 0;
}

static void write_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
    (void)context, (void)stream, (void)bytes;
    CUpti_Activity *record = NULL;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
            const CUpti_ActivityKernel9 *k = (const CUpti_ActivityKernel9 *)record;
            fprintf(out, "%llu,%llu,%u,%d,%d,%d,%d,%u,%d,%s\n", (unsigned long long)k->start,
                    (unsigned long long)k->end, k->streamId, k->gridX, k->gridY, k->gridZ,
                    k->blockX * k->blockY * k->blockZ, (unsigned)k->registersPerThread,
                    k->staticSharedMemory + k->dynamicSharedMemory, k->name ? k->name : "");
        } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
            const CUpti_ActivityMemcpy5 *copy = (const CUpti_ActivityMemcpy5 *)record;
            fprintf(out, "%llu,%llu,%u,0,0,0,0,0,%llu,copy\n", (unsigned long long)copy->start,
                    (unsigned long long)copy->end, copy->streamId, (unsigned long long)copy->bytes);
        }
    }
    free(buffer);
}

static void finish(void)
{
    cuptiActivityFlushAll(1);
    fclose(out);
}

/// The driver calls this when it has loaded the library.
int InitializeInjection(void)
{
    const char *prefix = getenv("KERNEL_TRACE");
    char path[4096];
    snprintf(path, sizeof path, "%s.%d.csv", prefix ? prefix : "kernel_trace", (int)getpid());
    out = fopen(path, "w");
    if (!out) {
        perror(path);
        return 0;
    }
    fprintf(out, "start_ns,end_ns,stream,grid_x,grid_y,grid_z,threads,registers,shared_or_copied_bytes,name\n");
    cuptiActivityRegisterCallbacks(give_buffer, write_buffer);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
    atexit(finish);
    return 1;
}
