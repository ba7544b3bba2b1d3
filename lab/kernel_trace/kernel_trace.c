/*
Writes every kernel, copy and fill of a CUDA program to a CSV file, also those inside CUDA graphs.
It serves machines without Nsight Systems.

    gcc -O1 -shared -fPIC -I CUPTI_INCLUDE -I CUDA_INCLUDE -o libkernel_trace.so kernel_trace.c \
        LIBCUPTI_SO
    CUDA_INJECTION64_PATH=./libkernel_trace.so KERNEL_TRACE=out segtrt bench …

The driver loads the library that CUDA_INJECTION64_PATH names. Each process writes `out.PID.csv`
when it ends. Times are CUPTI's, in nanoseconds. frames.py summarises the file.

With NVTX_INJECTION64_PATH=./libkernel_trace.so, too, CUPTI hears the program's NVTX ranges. Then
each process also writes `out.PID.calls.csv`, its calls of the CUDA API, and `out.PID.ranges.csv`,
beginnings and ends of its ranges. stages.py projects the ranges of stages onto the GPU.
*/
#include <cupti.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static FILE *out, *calls, *ranges;

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
            fprintf(out, "%llu,%llu,%u,%d,%d,%d,%d,%u,%d,%u,%s\n", (unsigned long long)k->start,
                    (unsigned long long)k->end, k->streamId, k->gridX, k->gridY, k->gridZ,
                    k->blockX * k->blockY * k->blockZ, (unsigned)k->registersPerThread,
                    k->staticSharedMemory + k->dynamicSharedMemory, k->correlationId,
                    k->name ? k->name : "");
        } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
            const CUpti_ActivityMemcpy5 *copy = (const CUpti_ActivityMemcpy5 *)record;
            fprintf(out, "%llu,%llu,%u,0,0,0,0,0,%llu,%u,copy\n", (unsigned long long)copy->start,
                    (unsigned long long)copy->end, copy->streamId, (unsigned long long)copy->bytes,
                    copy->correlationId);
        } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
            const CUpti_ActivityMemset4 *fill = (const CUpti_ActivityMemset4 *)record;
            fprintf(out, "%llu,%llu,%u,0,0,0,0,0,%llu,%u,fill\n", (unsigned long long)fill->start,
                    (unsigned long long)fill->end, fill->streamId, (unsigned long long)fill->bytes,
                    fill->correlationId);
        } else if (record->kind == CUPTI_ACTIVITY_KIND_DRIVER ||
                   record->kind == CUPTI_ACTIVITY_KIND_RUNTIME) {
            const CUpti_ActivityAPI *call = (const CUpti_ActivityAPI *)record;
            fprintf(calls, "%llu,%llu,%u,%u\n", (unsigned long long)call->start,
                    (unsigned long long)call->end, call->threadId, call->correlationId);
        } else if (record->kind == CUPTI_ACTIVITY_KIND_MARKER) {
            const CUpti_ActivityMarker2 *marker = (const CUpti_ActivityMarker2 *)record;
            const int begins = (marker->flags & CUPTI_ACTIVITY_FLAG_MARKER_START) != 0;
            if (begins || (marker->flags & CUPTI_ACTIVITY_FLAG_MARKER_END) != 0)
                fprintf(ranges, "%llu,%s,%u,%u,%s,%s\n", (unsigned long long)marker->timestamp,
                        begins ? "begin" : "end", marker->id, marker->objectId.pt.threadId,
                        marker->domain ? marker->domain : "", marker->name ? marker->name : "");
        }
    }
    free(buffer);
}

static void finish(void)
{
    cuptiActivityFlushAll(1);
    fclose(out);
    if (calls)
        fclose(calls);
    if (ranges)
        fclose(ranges);
}

static FILE *open_file(const char *suffix, const char *header)
{
    const char *prefix = getenv("KERNEL_TRACE");
    char path[4096];
    snprintf(path, sizeof path, "%s.%d%s.csv", prefix ? prefix : "kernel_trace", (int)getpid(), suffix);
    FILE *file = fopen(path, "w");
    if (file)
        fprintf(file, "%s\n", header);
    else
        perror(path);
    return file;
}

/// The driver calls this when it has loaded the library.
int InitializeInjection(void)
{
    out = open_file("", "start_ns,end_ns,stream,grid_x,grid_y,grid_z,threads,registers,"
                        "shared_or_moved_bytes,correlation,name");
    if (!out)
        return 0;
    cuptiActivityRegisterCallbacks(give_buffer, write_buffer);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
    if (getenv("NVTX_INJECTION64_PATH")) {
        calls = open_file(".calls", "start_ns,end_ns,thread,correlation");
        ranges = open_file(".ranges", "time_ns,event,id,thread,domain,name");
        if (calls && ranges) {
            cuptiActivityEnable(CUPTI_ACTIVITY_KIND_DRIVER);
            cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME);
            cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MARKER);
        }
    }
    atexit(finish);
    return 1;
}
