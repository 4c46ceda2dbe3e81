#include "binding.h"

#include "state.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define THREADS_MAX 4096 /* more are left where they are */
#define MASK_BYTES (WATTFOLD_MASK_CPUS / 8)

static pid_t bound[THREADS_MAX]; /* ascending */
static unsigned bound_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static wattfold_mask allowed; /* cores 0: any */

static bool says(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0';
}

bool binding_wanted(void)
{
    const char *bind = getenv("OMP_PROC_BIND");
    if (bind != NULL)
        return strcasecmp(bind, "false") != 0;
    const char *intel = getenv("KMP_AFFINITY");
    if (intel != NULL && (strcasecmp(intel, "none") == 0 || strcasecmp(intel, "disabled") == 0))
        intel = NULL;
    return says("GOMP_CPU_AFFINITY") || says("OMP_PLACES") || (intel != NULL && intel[0] != '\0');
}

/* The shim's own threads inherit the binding of the one that started them, and are not meant. */
static bool is_ours(pid_t thread)
{
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)thread);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true; /* it has ended */
    const ssize_t bytes = read(fd, name, sizeof name - 1);
    close(fd);
    return bytes <= 0 || strncmp(name, "ZMQbg/", 6) == 0 || strncmp(name, "wattfold\n", 9) == 0;
}

static bool is_known(pid_t thread)
{
    for (unsigned i = 0; i < bound_count; i++)
        if (bound[i] == thread)
            return true;
    return false;
}

static bool is_bound(pid_t thread)
{
    uint64_t cpus[WATTFOLD_MASK_WORDS] = {0};
    unsigned count = 0;
    if (sched_getaffinity(thread, MASK_BYTES, (cpu_set_t *)cpus) < 0)
        return false;
    for (unsigned i = 0; i < WATTFOLD_MASK_WORDS; i++)
        count += (unsigned)__builtin_popcountll(cpus[i]);
    return count == 1;
}

static int by_number(const void *a, const void *b)
{
    const pid_t left = *(const pid_t *)a, right = *(const pid_t *)b;
    return (left > right) - (left < right);
}

void binding_learn(void)
{
    pid_t now[THREADS_MAX];
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL)
        return;
    for (const struct dirent *task = readdir(tasks); task != NULL && count < THREADS_MAX;
         task = readdir(tasks)) {
        const pid_t thread = (pid_t)strtol(task->d_name, NULL, 10);
        if (thread > 0 && (is_known(thread) || (is_bound(thread) && !is_ours(thread))))
            now[count++] = thread;
    }
    closedir(tasks);
    qsort(now, count, sizeof now[0], by_number);
    memcpy(bound, now, count * sizeof now[0]);
    bound_count = count;
}

void binding_apply(const wattfold_mask *mask)
{
    unsigned cpu = WATTFOLD_MASK_CPUS - 1;
    for (unsigned i = 0; mask->cores > 0 && i < bound_count; i++) {
        uint64_t one[WATTFOLD_MASK_WORDS] = {0};
        do
            cpu = (cpu + 1) % WATTFOLD_MASK_CPUS;
        while ((mask->bits[cpu / 64] >> (cpu % 64) & 1) == 0);
        one[cpu / 64] = UINT64_C(1) << (cpu % 64);
        /* Fails for a thread that has ended, and for a core the agent has not opened yet: next time. */
        (void)sched_setaffinity(bound[i], MASK_BYTES, (const cpu_set_t *)one);
    }
}

void binding_set_mask(const wattfold_mask *mask)
{
    pthread_mutex_lock(&lock);
    allowed = *mask;
    pthread_mutex_unlock(&lock);
}

/* GNU's runtime gives a new thread its core this way; one outside the mask makes its creation fail, which
 * ends the program, or takes another job's core. The whole mask instead: the helper binds it soon. */
EXPORT int pthread_attr_setaffinity_np(pthread_attr_t *attr, size_t bytes, const cpu_set_t *cpus)
{
    static int (*real)(pthread_attr_t *, size_t, const cpu_set_t *);
    if (__atomic_load_n(&real, __ATOMIC_ACQUIRE) == NULL) {
        void *found = dlsym(RTLD_NEXT, "pthread_attr_setaffinity_np");
        __atomic_store_n((void **)&real, found, __ATOMIC_RELEASE);
    }
    if (atomic_load(&shim_state) != SHIM_RUNNING || bytes > MASK_BYTES || !binding_wanted())
        return real(attr, bytes, cpus);
    uint64_t wanted[WATTFOLD_MASK_WORDS] = {0}, inside = 0;
    memcpy(wanted, cpus, bytes);
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < WATTFOLD_MASK_WORDS; i++)
        inside |= allowed.cores == 0 ? 1 : (wanted[i] & allowed.bits[i]);
    const wattfold_mask mask = allowed;
    pthread_mutex_unlock(&lock);
    return inside != 0 ? real(attr, bytes, cpus)
                       : real(attr, MASK_BYTES, (const cpu_set_t *)mask.bits);
}
