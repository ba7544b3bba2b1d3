// A stand-in for nvJPEG on the stand-in for the driver. It decodes nothing: in the folder FAKE_NVJPEG_PIXELS lies, for each
// file that a test knows, a file of its pixels, named by a hash of the JPEG's bytes. What it does as the real one does is when:
// the host half fills the pinned buffer, the transfer enqueues a copy of it, the device half enqueues another to the image. So
// a buffer that is used again too early shows in the pixels. Memory comes from the caller's allocators alone.
//
// FAKE_NVJPEG_FAULT: "bgr" mixes colours up, "waits" lets the transfer wait for the stream, "grows" asks for memory each time,
// "new" is a library for a CUDA of the future, "refuses" makes no handle, "damaged" finds every file so.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS, NOT_INITIALIZED, INVALID_PARAMETER, BAD_JPEG, NOT_SUPPORTED, ALLOCATOR_FAILURE, EXECUTION_FAILED, ARCH_MISMATCH };
enum { HYBRID = 1, RGBI = 5, STRICT = 4 };

typedef int give_fn(void*, void**, size_t, void*);
typedef int take_fn(void*, void*, size_t, void*);
struct allocator { give_fn* give; take_fn* take; void* context; };
struct image { unsigned char* channel[4]; size_t pitch[4]; };
struct handle { struct allocator device, pinned; size_t padding[2]; };
struct buffer { struct handle* handle; struct allocator from; int pinned; char* at; size_t size; };
struct parsed { const unsigned char* bytes; size_t length; unsigned width, height; };
struct state { struct buffer *pinned, *device; struct parsed* parsed; unsigned width, height; int phase; };
struct params { int format; };

static int fault(const char* name) {
    const char* asked = getenv("FAKE_NVJPEG_FAULT");
    return asked && !strcmp(asked, name);
}
static void* driver(const char* name) {
    static void* library;
    if (!library) library = dlopen("libcuda.so", RTLD_NOW);
    return library ? dlsym(library, name) : NULL;
}
static int no_context(void) {
    void* current = NULL;
    return ((int (*)(void**))driver("cuCtxGetCurrent"))(&current) || !current;
}

int nvjpegGetProperty(int which, int* value) { return *value = (int[]){12, 4, 1}[which], SUCCESS; }
int nvjpegGetCudartProperty(int which, int* value) { return *value = (int[]){fault("new") ? 99 : 12, 4, 0}[which], SUCCESS; }
int nvjpegCreateExV2(int backend, struct allocator* device, struct allocator* pinned, unsigned flags, struct handle** made) {
    if (no_context()) return NOT_INITIALIZED;
    if (fault("refuses")) return ARCH_MISMATCH;
    if (backend != HYBRID || !device || !pinned || flags != STRICT) return INVALID_PARAMETER;
    *made = calloc(1, sizeof(struct handle));
    (*made)->device = *device, (*made)->pinned = *pinned, (*made)->padding[0] = (*made)->padding[1] = 1;
    return SUCCESS;
}
int nvjpegDestroy(struct handle* handle) { return free(handle), SUCCESS; }
int nvjpegSetDeviceMemoryPadding(size_t padding, struct handle* handle) { return handle->padding[0] = padding, SUCCESS; }
int nvjpegSetPinnedMemoryPadding(size_t padding, struct handle* handle) { return handle->padding[1] = padding, SUCCESS; }

int nvjpegDecoderCreate(struct handle* handle, int backend, void** made) {
    return handle && backend == HYBRID ? (*made = malloc(1), SUCCESS) : INVALID_PARAMETER;
}
int nvjpegDecoderDestroy(void* decoder) { return free(decoder), SUCCESS; }
int nvjpegDecoderStateCreate(struct handle* handle, void* decoder, struct state** made) {
    return handle && decoder ? (*made = calloc(1, sizeof(struct state)), SUCCESS) : INVALID_PARAMETER;
}
int nvjpegJpegStateDestroy(struct state* state) { return free(state), SUCCESS; }
int nvjpegJpegStreamCreate(struct handle* handle, struct parsed** made) {
    return handle ? (*made = calloc(1, sizeof(struct parsed)), SUCCESS) : INVALID_PARAMETER;
}
int nvjpegJpegStreamDestroy(struct parsed* parsed) { return free(parsed), SUCCESS; }
int nvjpegDecodeParamsCreate(struct handle* handle, struct params** made) {
    return handle ? (*made = calloc(1, sizeof(struct params)), SUCCESS) : INVALID_PARAMETER;
}
int nvjpegDecodeParamsDestroy(struct params* params) { return free(params), SUCCESS; }
int nvjpegDecodeParamsSetOutputFormat(struct params* params, int format) { return params->format = format, SUCCESS; }

static int buffer(struct handle* handle, struct allocator* from, int pinned, struct buffer** made) {
    if (!handle || !from) return INVALID_PARAMETER;
    *made = calloc(1, sizeof(struct buffer));
    (*made)->handle = handle, (*made)->from = *from, (*made)->pinned = pinned;
    return SUCCESS;
}
int nvjpegBufferPinnedCreateV2(struct handle* h, struct allocator* from, struct buffer** made) { return buffer(h, from, 1, made); }
int nvjpegBufferDeviceCreateV2(struct handle* h, struct allocator* from, struct buffer** made) { return buffer(h, from, 0, made); }
static int release(struct buffer* own) {
    if (own->at && own->from.take(own->from.context, own->at, own->size, NULL)) return ALLOCATOR_FAILURE;
    return own->at = NULL, own->size = 0, SUCCESS;
}
int nvjpegBufferPinnedDestroy(struct buffer* own) { int status = release(own); return free(own), status; }
int nvjpegBufferDeviceDestroy(struct buffer* own) { int status = release(own); return free(own), status; }
static int room(struct buffer* own, size_t size) {
    size_t padding = own->handle->padding[own->pinned];
    if (own->size >= size && !fault("grows")) return SUCCESS;
    if (release(own)) return ALLOCATOR_FAILURE;
    size = (size + padding - 1) / padding * padding;
    if (own->from.give(own->from.context, (void**)&own->at, size, NULL)) return ALLOCATOR_FAILURE;
    return own->size = size, SUCCESS;
}
int nvjpegStateAttachPinnedBuffer(struct state* state, struct buffer* own) { return state->pinned = own, SUCCESS; }
int nvjpegStateAttachDeviceBuffer(struct state* state, struct buffer* own) { return state->device = own, SUCCESS; }

int nvjpegJpegStreamParse(struct handle* handle, const unsigned char* bytes, size_t length, int metadata, int copy, struct parsed* parsed) {
    if (!handle || metadata || copy) return INVALID_PARAMETER;
    if (fault("damaged")) return BAD_JPEG;
    parsed->bytes = bytes, parsed->length = length;
    for (size_t at = 2; at + 9 < length;) {
        const int marker = bytes[at + 1];
        if (bytes[at] != 0xFF) return BAD_JPEG;
        if (marker >= 0xC0 && marker <= 0xC2) {
            parsed->height = bytes[at + 5] << 8 | bytes[at + 6], parsed->width = bytes[at + 7] << 8 | bytes[at + 8];
            return SUCCESS;
        }
        at += 2 + (bytes[at + 2] << 8 | bytes[at + 3]);
    }
    return BAD_JPEG;
}
int nvjpegJpegStreamGetFrameDimensions(struct parsed* parsed, unsigned* width, unsigned* height) {
    return *width = parsed->width, *height = parsed->height, SUCCESS;
}
static FILE* pixels_of(struct parsed* parsed) {
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t at = 0; at < parsed->length; at++) hash = (hash ^ parsed->bytes[at]) * 0x100000001b3;
    char path[4096];
    const char* folder = getenv("FAKE_NVJPEG_PIXELS");
    snprintf(path, sizeof path, "%s/%016llx", folder ? folder : ".", (unsigned long long)hash);
    return fopen(path, "rb");
}
// 0 for yes.
int nvjpegDecoderJpegSupported(void* decoder, struct parsed* parsed, struct params* params, int* answer) {
    if (!decoder || params->format != RGBI) return INVALID_PARAMETER;
    FILE* file = pixels_of(parsed);
    if (file) fclose(file);
    return *answer = !file, SUCCESS;
}

int nvjpegDecodeJpegHost(struct handle* handle, void* decoder, struct state* state, struct params* params, struct parsed* parsed) {
    if (!handle || !decoder || !params || !state->pinned) return INVALID_PARAMETER;
    if (no_context()) return NOT_INITIALIZED;
    const size_t size = 3ul * parsed->width * parsed->height;
    int status = room(state->pinned, size);
    FILE* file = pixels_of(parsed);
    if (!status && (!file || fread(state->pinned->at, 1, size, file) != size)) status = EXECUTION_FAILED;
    if (file) fclose(file);
    char* at = state->pinned->at;
    for (size_t i = 0; !status && fault("bgr") && i < size; i += 3) {
        const char red = at[i];
        at[i] = at[i + 2], at[i + 2] = red;
    }
    state->parsed = parsed, state->width = parsed->width, state->height = parsed->height, state->phase = 1;
    return status;
}
int nvjpegDecodeJpegTransferToDevice(struct handle* handle, void* decoder, struct state* state, struct parsed* parsed, void* stream) {
    if (!handle || !decoder || state->phase != 1 || state->parsed != parsed || !state->device) return INVALID_PARAMETER;
    if (no_context()) return NOT_INITIALIZED;
    const size_t size = 3ul * state->width * state->height;
    if (room(state->device, size)) return ALLOCATOR_FAILURE;
    if (fault("waits")) ((int (*)(void*))driver("cuStreamSynchronize"))(stream);
    int (*copy)(uint64_t, const void*, size_t, void*) = driver("cuMemcpyHtoDAsync_v2");
    state->phase = 2;
    return copy((uint64_t)state->device->at, state->pinned->at, size, stream) ? EXECUTION_FAILED : SUCCESS;
}
int nvjpegDecodeJpegDevice(struct handle* handle, void* decoder, struct state* state, struct image* image, void* stream) {
    if (!handle || !decoder || state->phase != 2 || image->pitch[0] != 3ul * state->width) return INVALID_PARAMETER;
    const size_t size = 3ul * state->width * state->height;
    int (*copy)(uint64_t, uint64_t, size_t, void*) = driver("cuMemcpyDtoDAsync_v2");
    state->phase = 0;
    return copy((uint64_t)image->channel[0], (uint64_t)state->device->at, size, stream) ? EXECUTION_FAILED : SUCCESS;
}
