/* NVML for a machine without GPUs: the state of two GPUs is in the file that NVML_STATE names, so that
 * an agent, its guard and a test share it. Powers are in mW, energies in mJ, as in NVML. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { GPUS = 2, OK = 0, INVALID = 2, NOT_FOUND = 6, LEAST = 100000, MOST = 300000 };

struct gpu {
    uint32_t limit, persistent, load, hangs;
};

static volatile struct gpu *state;

static int of(void *handle)
{
    int index = (int)(intptr_t)handle - 1;
    /* A GPU that hangs: its calls return when the test permits. */
    while (state[index].hangs)
        usleep(1000);
    return index;
}

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    int fd = open(getenv("NVML_STATE"), O_RDWR);
    if (fd < 0)
        return 9;
    state = mmap(NULL, GPUS * sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return state == MAP_FAILED ? 9 : OK;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == INVALID ? "Invalid Argument" : "Error"; }

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = GPUS;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle)
{
    *handle = (void *)(intptr_t)(index + 1);
    return index < GPUS ? OK : INVALID;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle)
{
    unsigned index = 0;
    if (sscanf(uuid, "GPU-test-%u", &index) != 1 || index >= GPUS)
        return NOT_FOUND;
    return nvmlDeviceGetHandleByIndex_v2(index, handle);
}

int nvmlDeviceGetUUID(void *handle, char *text, unsigned length)
{
    snprintf(text, length, "GPU-test-%d", of(handle));
    return OK;
}

int nvmlDeviceGetName(void *handle, char *text, unsigned length)
{
    of(handle);
    snprintf(text, length, "Tesla V100-PCIE-32GB");
    return OK;
}

int nvmlDeviceGetMinorNumber(void *handle, unsigned *minor)
{
    *minor = of(handle);
    return OK;
}

int nvmlDeviceGetPowerManagementLimitConstraints(void *handle, unsigned *least, unsigned *most)
{
    of(handle);
    *least = LEAST;
    *most = MOST;
    return OK;
}

int nvmlDeviceGetPowerManagementDefaultLimit(void *handle, unsigned *limit)
{
    of(handle);
    *limit = MOST;
    return OK;
}

int nvmlDeviceGetPowerManagementLimit(void *handle, unsigned *limit)
{
    *limit = state[of(handle)].limit;
    return OK;
}

int nvmlDeviceGetEnforcedPowerLimit(void *handle, unsigned *limit)
{
    return nvmlDeviceGetPowerManagementLimit(handle, limit);
}

int nvmlDeviceSetPowerManagementLimit(void *handle, unsigned limit)
{
    int index = of(handle);
    if (limit < LEAST || limit > MOST)
        return INVALID;
    state[index].limit = limit;
    return OK;
}

int nvmlDeviceGetPersistenceMode(void *handle, unsigned *mode)
{
    *mode = state[of(handle)].persistent;
    return OK;
}

int nvmlDeviceSetPersistenceMode(void *handle, unsigned mode)
{
    state[of(handle)].persistent = mode;
    return OK;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned *power)
{
    volatile struct gpu *gpu = &state[of(handle)];
    *power = gpu->load < gpu->limit ? gpu->load : gpu->limit;
    return OK;
}

int nvmlDeviceGetUtilizationRates(void *handle, unsigned rates[2])
{
    rates[0] = of(handle) ? 0 : 83;
    rates[1] = 0;
    return OK;
}

int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long memory[3])
{
    of(handle);
    memory[0] = 32ULL << 30;
    memory[2] = 5ULL << 30;
    memory[1] = memory[0] - memory[2];
    return OK;
}
