// A stand-in for the driver's libnvidia-ml.so.1: every answer comes from a control file that is read at each call.
//
// The file is named by AISP_FAKE_NVML and holds lines "name value", or "name value..." for texts. For a call of NVML
// named nvmlX, the line "error.X CODE" makes it fail with that code, "error.X.INDEX CODE" for one GPU alone. Other
// names are listed beside the functions that look for them. What is not in the file has a healthy H100's value.
// With "children BYTES" the children of the asking process are on the GPU too, each with that much memory.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int find(const char* wanted, char* into, size_t size) {
    const char* path = getenv("AISP_FAKE_NVML");
    FILE* file = path ? fopen(path, "r") : NULL;
    if (!file) return 0;
    char line[512];
    int found = 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char* space = strchr(line, ' ');
        if (!space) continue;
        *space = 0;
        if (strcmp(line, wanted) == 0) {
            snprintf(into, size, "%s", space + 1);
            found = 1;
        }
    }
    fclose(file);
    return found;
}

static unsigned long long number(const char* name, unsigned long long otherwise) {
    char text[512];
    return find(name, text, sizeof text) ? strtoull(text, NULL, 0) : otherwise;
}

static void text_of(const char* name, const char* otherwise, char* into, unsigned size) {
    char text[512];
    snprintf(into, size, "%s", find(name, text, sizeof text) ? text : otherwise);
}

static int error_of(const char* call) {
    char name[128];
    snprintf(name, sizeof name, "error.%s", call);
    return (int)number(name, 0);
}

// A handle is the GPU's index plus one, so that none is a null pointer.
static int error_for(const char* call, void* device) {
    char name[128];
    snprintf(name, sizeof name, "error.%s.%ld", call, (long)device - 1);
    int own = (int)number(name, 0);
    return own ? own : error_of(call);
}

const char* nvmlErrorString(int code) {  // words
    static char text[512];
    if (find("words", text, sizeof text)) return text;
    switch (code) {
        case 3: return "Not Supported";
        case 4: return "Insufficient Permissions";
        case 9: return "Driver Not Loaded";
        case 12: return "NVML Shared Library Not Found";
        case 15: return "GPU is lost";
        case 16: return "GPU requires restart";
        case 18: return "Driver/library version mismatch";
        default: return "Unknown Error";
    }
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    return error_of("Init");
}

int nvmlSystemGetDriverVersion(char* version, unsigned size) {
    text_of("driver", "580.65.06", version, size);
    return error_of("SystemGetDriverVersion");
}

int nvmlDeviceGetCount_v2(unsigned* count) {  // count
    *count = (unsigned)number("count", 1);
    return error_of("DeviceGetCount");
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    *device = (void*)(long)(index + 1);
    return error_for("DeviceGetHandleByIndex", *device);
}

int nvmlDeviceGetName(void* device, char* name, unsigned size) {  // name
    text_of("name", "NVIDIA H100 80GB HBM3", name, size);
    return error_for("DeviceGetName", device);
}

int nvmlDeviceGetUUID(void* device, char* uuid, unsigned size) {
    char text[512];  // uuid
    snprintf(uuid, size, "%s-%ld", find("uuid", text, sizeof text) ? text : "GPU", (long)device - 1);
    return error_for("DeviceGetUUID", device);
}

int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {  // sm
    unsigned long long sm = number("sm", 90);
    *major = (int)(sm / 10);
    *minor = (int)(sm % 10);
    return error_for("DeviceGetCudaComputeCapability", device);
}

static unsigned children(unsigned* into, unsigned room) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", getpid(), getpid());
    FILE* file = number("children", 0) ? fopen(path, "r") : NULL;
    unsigned found = 0, pid;
    while (file && fscanf(file, "%u", &pid) == 1) {
        if (found < room) into[found] = pid;
        found++;
    }
    if (file) fclose(file);
    return found;
}

typedef struct {
    unsigned long long total, free, used;
} Memory;

int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {  // memory; memory.nobodys, beside that of processes
    memory->total = number("memory", 85520809984ULL);
    memory->used = number("memory.nobodys", 1 << 20) + (number("processes", 0) << 20);
    memory->used += children(NULL, 0) * number("children", 0);
    memory->free = memory->total - memory->used;
    return error_for("DeviceGetMemoryInfo", device);
}

int nvmlDeviceGetClockInfo(void* device, int domain, unsigned* clock) {  // clock.sm, clock.memory
    *clock = (unsigned)(domain == 1 ? number("clock.sm", 1980) : number("clock.memory", 2619));
    return error_for(domain == 1 ? "DeviceGetClockInfo.sm" : "DeviceGetClockInfo.memory", device);
}

int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* temperature) {  // temperature
    (void)sensor;
    *temperature = (unsigned)number("temperature", 41);
    return error_for("DeviceGetTemperature", device);
}

int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {  // power, in mW
    *milliwatts = (unsigned)number("power", 350500);
    return error_for("DeviceGetPowerUsage", device);
}

#ifndef OLD_DRIVER
int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {  // throttle
    *reasons = number("throttle", 0);
    return error_for("DeviceGetCurrentClocksEventReasons", device);
}
#endif

int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {  // throttle.old
    *reasons = number("throttle.old", 0);
    return error_for("DeviceGetCurrentClocksThrottleReasons", device);
}

typedef struct {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
} Process;

int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* into) {  // processes N, process.I PID
    int error = error_for("DeviceGetComputeRunningProcesses", device);
    if (error) return error;
    unsigned own[64], owned = children(own, 64);
    unsigned room = *count, listed = (unsigned)number("processes", 0), held = listed + owned;
    *count = held;
    if (held > room || !into) return held ? 7 : 0;
    for (unsigned i = 0; i < owned; i++) into[listed + i] = (Process){own[i], number("children", 0), ~0u, ~0u};
    for (unsigned i = 0; i < listed; i++) {
        char name[64];
        snprintf(name, sizeof name, "process.%u", i);
        into[i].pid = (unsigned)number(name, 1000 + i);
        into[i].used = 1 << 20;
        into[i].gpu_instance = into[i].compute_instance = 0xffffffffu;
    }
    return 0;
}

int nvmlDeviceGetMaxClockInfo(void* device, int domain, unsigned* clock) {  // most.sm, most.memory
    *clock = (unsigned)(domain == 1 ? number("most.sm", 1980) : number("most.memory", 2619));
    return error_for("DeviceGetMaxClockInfo", device);
}

int nvmlDeviceGetApplicationsClock(void* device, int domain, unsigned* clock) {  // application.sm, application.memory
    *clock = (unsigned)(domain == 1 ? number("application.sm", 1980) : number("application.memory", 2619));
    return error_for("DeviceGetApplicationsClock", device);
}

int nvmlDeviceGetPowerManagementLimit(void* device, unsigned* milliwatts) {  // limit, in mW
    *milliwatts = (unsigned)number("limit", 700000);
    return error_for("DeviceGetPowerManagementLimit", device);
}

int nvmlDeviceGetPowerManagementDefaultLimit(void* device, unsigned* milliwatts) {
    *milliwatts = 700000;
    return error_for("DeviceGetPowerManagementDefaultLimit", device);
}

int nvmlDeviceGetEccMode(void* device, int* current, int* pending) {  // ecc
    *current = *pending = (int)number("ecc", 1);
    return error_for("DeviceGetEccMode", device);
}

int nvmlDeviceGetTotalEccErrors(void* device, int kind, int counter, unsigned long long* errors) {  // ecc.errors
    (void)kind, (void)counter;
    *errors = number("ecc.errors", 0);
    return error_for("DeviceGetTotalEccErrors", device);
}

// rows.corrected, rows.uncorrected
int nvmlDeviceGetRemappedRows(void* device, unsigned* corrected, unsigned* uncorrected, unsigned* due, unsigned* failed) {
    *corrected = (unsigned)number("rows.corrected", 0);
    *uncorrected = (unsigned)number("rows.uncorrected", 0);
    *due = *failed = 0;
    return error_for("DeviceGetRemappedRows", device);
}

// Whoever sets anything is seen: the call is written beside the control file, and refused.
int nvmlDeviceSetGpuLockedClocks(void* device, unsigned least, unsigned most) {
    char path[512];
    snprintf(path, sizeof path, "%s.set", getenv("AISP_FAKE_NVML"));
    FILE* file = fopen(path, "a");
    if (file) {
        fprintf(file, "locked clocks %u %u\n", least, most);
        fclose(file);
    }
    int error = error_for("DeviceSetGpuLockedClocks", device);
    return error ? error : 4;
}

int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {  // mig
    *current = *pending = (unsigned)number("mig", 0);
    return error_for("DeviceGetMigMode", device);
}

int nvmlDeviceGetPersistenceMode(void* device, int* mode) {  // persistence
    *mode = (int)number("persistence", 1);
    return error_for("DeviceGetPersistenceMode", device);
}

int nvmlDeviceGetComputeMode(void* device, int* mode) {  // compute_mode
    *mode = (int)number("compute_mode", 0);
    return error_for("DeviceGetComputeMode", device);
}

typedef struct {
    unsigned pid;
    unsigned long long timestamp_us;
    unsigned sm, memory, encoder, decoder;
} Utilisation;

int nvmlDeviceGetProcessUtilization(void* device, Utilisation* into, unsigned* count, unsigned long long since) {
    // used N, used.I PID, used.I.at US, used.I.sm PERCENT
    (void)since;
    int error = error_for("DeviceGetProcessUtilization", device);
    if (error) return error;
    unsigned room = *count, held = (unsigned)number("used", 0);
    *count = held;
    if (!held) return 6;  // not found
    if (held > room || !into) return 7;
    for (unsigned i = 0; i < held; i++) {
        char name[64];
        memset(&into[i], 0, sizeof into[i]);
        snprintf(name, sizeof name, "used.%u", i);
        into[i].pid = (unsigned)number(name, 0);
        snprintf(name, sizeof name, "used.%u.at", i);
        into[i].timestamp_us = number(name, 0);
        snprintf(name, sizeof name, "used.%u.sm", i);
        into[i].sm = (unsigned)number(name, 0);
    }
    return 0;
}
