/* libwattfold_dlb: programs written for DLB/DROM hear of Wattfold's masks. See dlb.h beside this. */
#define _GNU_SOURCE
#include "dlb.h"

#include "wattfold.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define CALLBACK_KINDS 8

static struct {
    pthread_mutex_t lock;
    bool initialised, disabled, attached;
    struct {
        dlb_callback_t function;
        void *arg;
    } callback[CALLBACK_KINDS];
    cpu_set_t enabled; /* as the callbacks were last told */
    wattfold_mask mask;
} dlb = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A cpu_set_t of the C library ends at CPU 1023. */
static void to_set(const wattfold_mask *mask, cpu_set_t *set)
{
    CPU_ZERO(set);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (mask->bits[cpu / 64] >> (cpu % 64) & 1)
            CPU_SET(cpu, set);
}

static int ready(void)
{
    if (!dlb.initialised)
        return DLB_ERR_NOINIT;
    return dlb.disabled ? DLB_ERR_DISBLD : DLB_SUCCESS;
}

EXPORT int DLB_Init(int ncpus, const_dlb_cpu_set_t mask, const char *dlb_args)
{
    (void)ncpus;
    (void)mask;
    (void)dlb_args;
    pthread_mutex_lock(&dlb.lock);
    const bool before = dlb.initialised;
    dlb.initialised = true;
    dlb.disabled = false;
    if (!before && sched_getaffinity(0, sizeof dlb.enabled, &dlb.enabled) != 0)
        CPU_ZERO(&dlb.enabled);
    pthread_mutex_unlock(&dlb.lock);
    return before ? DLB_ERR_INIT : DLB_SUCCESS;
}

EXPORT int DLB_Finalize(void)
{
    pthread_mutex_lock(&dlb.lock);
    const bool before = dlb.initialised;
    dlb.initialised = false;
    memset(dlb.callback, 0, sizeof dlb.callback);
    pthread_mutex_unlock(&dlb.lock);
    return before ? DLB_SUCCESS : DLB_ERR_NOINIT;
}

static int set_disabled(bool disabled)
{
    pthread_mutex_lock(&dlb.lock);
    int answer = DLB_SUCCESS;
    if (!dlb.initialised)
        answer = DLB_ERR_NOINIT;
    else if (dlb.disabled == disabled)
        answer = DLB_NOUPDT;
    else
        dlb.disabled = disabled;
    pthread_mutex_unlock(&dlb.lock);
    return answer;
}

EXPORT int DLB_Disable(void)
{
    return set_disabled(true);
}

EXPORT int DLB_Enable(void)
{
    return set_disabled(false);
}

EXPORT int DLB_CallbackSet(dlb_callbacks_t which, dlb_callback_t callback, void *arg)
{
    if ((int)which < 1 || (int)which >= CALLBACK_KINDS)
        return DLB_ERR_NOCBK;
    pthread_mutex_lock(&dlb.lock);
    dlb.callback[which].function = callback;
    dlb.callback[which].arg = arg;
    pthread_mutex_unlock(&dlb.lock);
    return DLB_SUCCESS;
}

EXPORT int DLB_CallbackGet(dlb_callbacks_t which, dlb_callback_t *callback, void **arg)
{
    if ((int)which < 1 || (int)which >= CALLBACK_KINDS)
        return DLB_ERR_NOCBK;
    pthread_mutex_lock(&dlb.lock);
    *callback = dlb.callback[which].function;
    *arg = dlb.callback[which].arg;
    pthread_mutex_unlock(&dlb.lock);
    return *callback == NULL ? DLB_ERR_NOCBK : DLB_SUCCESS;
}

/* One program, one answer: the first thread that polls takes the change, as with DLB. */
static int poll_locked(void)
{
    static uint64_t seen;
    wattfold_mask mask;
    const int answer = ready();
    if (answer != DLB_SUCCESS)
        return answer;
    (void)wattfold_poll(NULL);
    if (!wattfold_get_mask(&mask) || mask.seq == seen)
        return DLB_NOUPDT;
    seen = mask.seq;
    dlb.mask = mask;
    return DLB_SUCCESS;
}

EXPORT int DLB_PollDROM(int *ncpus, dlb_cpu_set_t mask)
{
    static __thread bool polled;
    /* Nothing new for this thread, so nothing new at all, unless it polls for the first time. */
    if (polled && dlb.initialised && !dlb.disabled && *wattfold_changes_ == wattfold_seen_)
        return DLB_NOUPDT;
    polled = true;
    pthread_mutex_lock(&dlb.lock);
    const int answer = poll_locked();
    if (answer == DLB_SUCCESS && ncpus != NULL)
        *ncpus = (int)dlb.mask.cores;
    if (answer == DLB_SUCCESS && mask != NULL)
        to_set(&dlb.mask, mask);
    pthread_mutex_unlock(&dlb.lock);
    return answer;
}

static void call_cpu(dlb_callbacks_t which, int cpu)
{
    dlb_callback_t function;
    void *arg;
    if (DLB_CallbackGet(which, &function, &arg) == DLB_SUCCESS)
        ((dlb_callback_enable_cpu_t)function)(cpu, arg);
}

EXPORT int DLB_PollDROM_Update(void)
{
    cpu_set_t set, before;
    int cores;
    dlb_callback_t function;
    void *arg;
    const int answer = DLB_PollDROM(&cores, &set);
    if (answer != DLB_SUCCESS)
        return answer;
    pthread_mutex_lock(&dlb.lock);
    before = dlb.enabled;
    dlb.enabled = set;
    pthread_mutex_unlock(&dlb.lock);
    if (DLB_CallbackGet(dlb_callback_set_process_mask, &function, &arg) == DLB_SUCCESS)
        ((dlb_callback_set_process_mask_t)function)(&set, arg);
    if (DLB_CallbackGet(dlb_callback_set_num_threads, &function, &arg) == DLB_SUCCESS)
        ((dlb_callback_set_num_threads_t)function)(cores, arg);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set) != CPU_ISSET(cpu, &before))
            call_cpu(CPU_ISSET(cpu, &set) ? dlb_callback_enable_cpu : dlb_callback_disable_cpu, cpu);
    return DLB_SUCCESS;
}

EXPORT int DLB_DROM_Attach(void)
{
    dlb.attached = true;
    return DLB_SUCCESS;
}

EXPORT int DLB_DROM_Detach(void)
{
    const bool before = dlb.attached;
    dlb.attached = false;
    return before ? DLB_SUCCESS : DLB_ERR_NOSHMEM;
}

EXPORT int DLB_DROM_GetNumCpus(int *ncpus)
{
    *ncpus = (int)sysconf(_SC_NPROCESSORS_CONF);
    return *ncpus > 0 ? DLB_SUCCESS : DLB_ERR_UNKNOWN;
}

static bool managed(void)
{
    return wattfold_version()[0] != '\0';
}

EXPORT int DLB_DROM_GetPidList(int *pidlist, int *nelems, int max_len)
{
    *nelems = managed() && max_len > 0 ? 1 : 0;
    if (*nelems == 1)
        pidlist[0] = getpid();
    return DLB_SUCCESS;
}

EXPORT int DLB_DROM_GetProcessMask(int pid, dlb_cpu_set_t mask, dlb_drom_flags_t flags)
{
    wattfold_mask now;
    (void)flags;
    if (pid != 0 && pid != getpid())
        return DLB_ERR_NOPROC;
    if (wattfold_get_mask(&now))
        to_set(&now, mask);
    else if (sched_getaffinity(0, sizeof(cpu_set_t), mask) != 0)
        return DLB_ERR_UNKNOWN;
    return DLB_SUCCESS;
}

EXPORT int DLB_DROM_SetProcessMask(int pid, const_dlb_cpu_set_t mask, dlb_drom_flags_t flags)
{
    (void)flags;
    if ((pid != 0 && pid != getpid()) || CPU_COUNT((const cpu_set_t *)mask) == 0)
        return DLB_ERR_PERM;
    return wattfold_request((unsigned)CPU_COUNT((const cpu_set_t *)mask)) ? DLB_NOTED : DLB_ERR_PERM;
}

/* Room for a new process is the coordinator's to make. */
EXPORT int DLB_DROM_PreInit(int pid, const_dlb_cpu_set_t mask, dlb_drom_flags_t flags,
                            char ***next_environ)
{
    (void)pid;
    (void)mask;
    (void)flags;
    (void)next_environ;
    return DLB_ERR_PERM;
}

EXPORT int DLB_DROM_PostFinalize(int pid, dlb_drom_flags_t flags)
{
    (void)pid;
    (void)flags;
    return DLB_ERR_NOPROC;
}

EXPORT int DLB_DROM_RecoverStolenCpus(int pid)
{
    (void)pid;
    return DLB_ERR_NOPROC;
}

EXPORT const char *DLB_Strerror(int errnum)
{
    switch (errnum) {
    case DLB_SUCCESS:
        return "done";
    case DLB_NOTED:
        return "the wish is noted";
    case DLB_NOUPDT:
        return "nothing has changed";
    case DLB_ERR_NOINIT:
        return "DLB_Init was not called";
    case DLB_ERR_INIT:
        return "DLB_Init was called before";
    case DLB_ERR_DISBLD:
        return "disabled by DLB_Disable";
    case DLB_ERR_NOSHMEM:
        return "not attached";
    case DLB_ERR_NOPROC:
        return "not a process this one may ask about";
    case DLB_ERR_PERM:
        return "masks are set by the coordinator alone";
    case DLB_ERR_NOCBK:
        return "no such callback";
    default:
        return "unknown error";
    }
}
