// A stand-in for libnvidia-ml: two GPUs, of which the second is the one to be watched. What its sensors say stands in
// nvml.conf beside this library, one `name number` a line, and is read at each call, so that a test can turn the heat up;
// a sensor without a line is not supported. `process PID BYTES` lines are the processes on the GPU. The first GPU
// answers every sensor with 1: whoever reads it has mistaken the order of CUDA for NVML's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
typedef struct {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
} process;

static int initialised;
static int gpus[2];
static const char* const addresses[2] = {"00000000:0a:00.0", "00000000:1b:00.0"};

static FILE* conf(void) {
    Dl_info self;
    char path[4096];
    if (!dladdr((void*)conf, &self)) return NULL;
    const char* slash = strrchr(self.dli_fname, '/');
    snprintf(path, sizeof path, "%.*s/nvml.conf", slash ? (int)(slash - self.dli_fname) : 1, slash ? self.dli_fname : ".");
    return fopen(path, "r");
}
static int sensor(void* gpu, const char* name, unsigned long long* value) {
    if (!initialised) return UNINITIALIZED;
    if (gpu == &gpus[0]) return *value = 1, OK;
    if (gpu != &gpus[1]) return INVALID_ARGUMENT;
    FILE* file = conf();
    if (!file) return NOT_SUPPORTED;
    char line[256], word[64];
    int found = NOT_SUPPORTED;
    while (found != OK && fgets(line, sizeof line, file))
        if (sscanf(line, "%63s %llu", word, value) == 2 && !strcmp(word, name)) found = OK;
    fclose(file);
    return found;
}
static int sensor32(void* gpu, const char* name, unsigned* value) {
    unsigned long long wide = 0;
    int code = sensor(gpu, name, &wide);
    return *value = (unsigned)wide, code;
}
static int say(const char* text, char* to, unsigned size) {
    return snprintf(to, size, "%s", text) < (int)size ? OK : INSUFFICIENT_SIZE;
}

int nvmlInit_v2(void) { return initialised = 1, OK; }
int nvmlShutdown(void) { return initialised = 0, OK; }
const char* nvmlErrorString(int code) { return code == NOT_FOUND ? "Not Found" : "as the stand-in says"; }
int nvmlSystemGetDriverVersion(char* to, unsigned size) { return say("580.95.05", to, size); }
int nvmlSystemGetNVMLVersion(char* to, unsigned size) { return say("13.580.95.05", to, size); }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** gpu) {
    if (!initialised) return UNINITIALIZED;
    return index < 2 ? (*gpu = &gpus[index], OK) : INVALID_ARGUMENT;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** gpu) {
    for (int i = 0; i < 2; i++)
        if (!strcasecmp(address, addresses[i])) return *gpu = &gpus[i], OK;
    return NOT_FOUND;
}
int nvmlDeviceGetIndex(void* gpu, unsigned* index) { return *index = (unsigned)((int*)gpu - gpus), OK; }
int nvmlDeviceGetName(void* gpu, char* to, unsigned size) {
    return say(gpu == &gpus[1] ? "NVIDIA H200" : "another GPU", to, size);
}
int nvmlDeviceGetUUID(void* gpu, char* to, unsigned size) { return (void)gpu, say("GPU-0123", to, size); }
int nvmlDeviceGetPowerUsage(void* gpu, unsigned* v) { return sensor32(gpu, "power_mw", v); }
int nvmlDeviceGetTotalEnergyConsumption(void* gpu, unsigned long long* v) { return sensor(gpu, "energy_mj", v); }
int nvmlDeviceGetClockInfo(void* gpu, int clock, unsigned* v) {
    return sensor32(gpu, clock == 1 ? "sm_mhz" : clock == 2 ? "memory_mhz" : "none", v);
}
int nvmlDeviceGetMaxClockInfo(void* gpu, int clock, unsigned* v) { return sensor32(gpu, clock == 1 ? "sm_max_mhz" : "none", v); }
int nvmlDeviceGetTemperature(void* gpu, int which, unsigned* v) { return sensor32(gpu, which == 0 ? "temperature_c" : "none", v); }
int nvmlDeviceGetUtilizationRates(void* gpu, unsigned rates[2]) {
    return rates[1] = 0, sensor32(gpu, "utilisation", &rates[0]);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* gpu, unsigned long long* v) { return sensor(gpu, "reasons", v); }
int nvmlDeviceGetEnforcedPowerLimit(void* gpu, unsigned* v) { return sensor32(gpu, "power_limit_mw", v); }
int nvmlDeviceGetPersistenceMode(void* gpu, unsigned* v) { return sensor32(gpu, "persistence", v); }
int nvmlDeviceGetMigMode(void* gpu, unsigned* now, unsigned* later) { return *later = 0, sensor32(gpu, "mig", now); }
int nvmlDeviceGetMemoryInfo_v2(void* gpu, unsigned long long* memory) {
    // version and padding, total, reserved, free, used
    if ((unsigned)memory[0] != (40 | 2u << 24)) return INVALID_ARGUMENT;
    memory[1] = memory[2] = memory[3] = 0;
    sensor(gpu, "memory_total", &memory[1]);
    return sensor(gpu, "memory_used", &memory[4]);
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* gpu, unsigned* count, process* to) {
    FILE* file = gpu == &gpus[1] ? conf() : NULL;
    unsigned room = *count, found = 0, pid;
    unsigned long long bytes;
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "process %u %llu", &pid, &bytes) != 2) continue;
        if (to && found < room) to[found] = (process){pid, bytes, ~0u, ~0u};
        found++;
    }
    if (file) fclose(file);
    return *count = found, found > room ? INSUFFICIENT_SIZE : OK;
}
