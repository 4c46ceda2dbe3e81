#include "agent_link.h"

#include "callbacks.h"
#include "probe.h"
#include "session.h"
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HELPER_STACK_BYTES (512u << 10)
#define HELPER_SLICE_NS UINT64_C(100000) /* the least the kernel grants */
#define STOP_WAIT_NS 250000000L
#define SPARE_DESCRIPTORS 16u

_Atomic uint32_t link_changes = LINK_NO_CHANGE;

static struct {
    struct zmq_api zmq;
    const char *runtime;
    pthread_t thread;
    _Atomic int wake_fd;
    _Atomic bool stop;
    pthread_mutex_t mask_lock;
    wattfold_mask mask;
    _Atomic double done, total;
    _Atomic uint32_t request;
    _Atomic bool growth; /* what teams may grow to has changed */
    _Atomic bool news; /* a request or a phase to tell */
    char phase[WATTFOLD_PHASE_CHARS + 1]; /* under mask_lock */
} helper = {.wake_fd = -1, .mask_lock = PTHREAD_MUTEX_INITIALIZER};

static bool stopping(void)
{
    return atomic_load(&helper.stop) || atomic_load(&shim_state) == SHIM_INERT;
}

static void mask_received(const wattfold_mask *mask)
{
    pthread_mutex_lock(&helper.mask_lock);
    helper.mask = *mask;
    pthread_mutex_unlock(&helper.mask_lock);
}

static void mask_in_force(const wattfold_mask *mask)
{
    uint32_t changes = atomic_load_explicit(&link_changes, memory_order_relaxed) + 1;
    if (changes <= LINK_NO_CHANGE) /* has wrapped */
        changes = LINK_NO_CHANGE + 1;
    atomic_store_explicit(&link_changes, changes, memory_order_release);
    callbacks_run(mask);
}

static void report(struct self_report *report)
{
    report->done = atomic_load_explicit(&helper.done, memory_order_relaxed);
    report->total = atomic_load_explicit(&helper.total, memory_order_relaxed);
    report->request = atomic_load_explicit(&helper.request, memory_order_relaxed);
    pthread_mutex_lock(&helper.mask_lock);
    memcpy(report->phase, helper.phase, sizeof report->phase);
    pthread_mutex_unlock(&helper.mask_lock);
}

static bool growth_changed(void)
{
    return atomic_exchange(&helper.growth, false);
}

static bool has_news(void)
{
    return atomic_exchange(&helper.news, false);
}

/* The kernel's struct sched_attr, first version; the C library has none. */
struct slice_attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

/* All cores run busy threads, and the helper must not wait until one of them has used up its turn:
 * asking for short turns lets it be chosen as soon as it wakes (Linux 6.12 and later, EEVDF; earlier
 * kernels ignore it). It gets no more time in all. Inherited by libzmq's threads. */
static void ask_for_short_turns(void)
{
    struct slice_attributes attributes = {.size = sizeof attributes};
    const long known = syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0);
    if (known != 0 || attributes.policy != 0 /* SCHED_OTHER */)
        return;
    attributes.runtime_ns = HELPER_SLICE_NS;
    (void)syscall(SYS_sched_setattr, 0, &attributes, 0); /* without it: later, not wrong */
}

static void *helper_main(void *nothing)
{
    (void)nothing;
    pthread_setname_np(pthread_self(), "wattfold");
    ask_for_short_turns();
    const struct session_ports ports = {
        .wake_fd = atomic_load(&helper.wake_fd),
        .stopping = stopping,
        .mask_received = mask_received,
        .mask_in_force = mask_in_force,
        .report = report,
        .growth_changed = growth_changed,
        .has_news = has_news,
    };
    const char *detail = NULL;
    bool program_over = false;
    const char *problem =
        session_run(&helper.zmq, &shim_config, helper.runtime, &ports, &detail, &program_over);
    if (problem != NULL)
        shim_fail(problem, detail);
    /* As the C library does when the last thread of a program ends. */
    if (program_over)
        exit(0);
    return NULL;
}

static int create_thread(void)
{
    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);
    if (error == 0) {
        pthread_attr_setstacksize(&attr, HELPER_STACK_BYTES);
        error = pthread_create(&helper.thread, &attr, helper_main, NULL);
        /* A program with much thread-local data needs the default stack. */
        if (error == EINVAL)
            error = pthread_create(&helper.thread, NULL, helper_main, NULL);
        pthread_attr_destroy(&attr);
    }
    return error;
}

/* The channel takes ten, and libzmq ends the process when it gets some of them and not all. Tried before
 * there is a second thread, so that the program does not lack one either that the helper gives back. */
static bool descriptors_to_spare(int fd)
{
    int copies[SPARE_DESCRIPTORS];
    unsigned made = 0;
    while (made < SPARE_DESCRIPTORS && (copies[made] = fcntl(fd, F_DUPFD_CLOEXEC, 0)) >= 0)
        made++;
    for (unsigned i = 0; i < made; i++)
        close(copies[i]);
    return made == SPARE_DESCRIPTORS;
}

/* The helper, and the threads libzmq starts from it, inherit the blocked signals. */
static const char *start_helper(int fd, unsigned team)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const char *problem = probe_kernel(fd, team);
    if (problem == NULL) {
        atomic_store(&helper.wake_fd, fd);
        if (create_thread() != 0)
            problem = "cannot start its helper thread";
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return problem;
}

const char *link_start(const struct config *config, const char *runtime)
{
    const char *problem = zmq_api_load(&helper.zmq);
    if (problem != NULL)
        return problem;
    helper.runtime = runtime;
    const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0)
        return "cannot create an eventfd";
    const bool crowded = fcntl(fd, F_GETFD) >= 0 && !descriptors_to_spare(fd);
    problem = crowded ? "too few file descriptors are free" : start_helper(fd, config->launch_cpus);
    if (problem != NULL) {
        atomic_store(&helper.wake_fd, -1);
        close(fd);
    }
    return problem;
}

void link_wake(void)
{
    const int fd = atomic_load(&helper.wake_fd);
    const uint64_t one = 1;
    const int saved = errno;
    /* EAGAIN: it is woken already. */
    if (fd >= 0 && write(fd, &one, sizeof one) < 0 && errno != EAGAIN)
        shim_fail("cannot wake its helper thread", strerror(errno));
    errno = saved;
}

void link_stop(void)
{
    struct timespec deadline;
    if (pthread_equal(pthread_self(), helper.thread))
        return;
    atomic_store(&helper.stop, true);
    link_wake();
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_nsec += STOP_WAIT_NS;
    if (deadline.tv_nsec >= 1000000000L) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000L;
    }
    (void)pthread_clockjoin_np(helper.thread, NULL, CLOCK_MONOTONIC, &deadline);
}

void link_after_fork(void)
{
    const int fd = atomic_exchange(&helper.wake_fd, -1);
    if (fd >= 0)
        close(fd);
    pthread_mutex_init(&helper.mask_lock, NULL);
    callbacks_after_fork();
}

void link_mask(wattfold_mask *out)
{
    pthread_mutex_lock(&helper.mask_lock);
    *out = helper.mask;
    pthread_mutex_unlock(&helper.mask_lock);
}

void link_progress(double done, double total)
{
    atomic_store_explicit(&helper.done, done, memory_order_relaxed);
    atomic_store_explicit(&helper.total, total, memory_order_relaxed);
}

static bool plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

static void tell_soon(void)
{
    atomic_store(&helper.news, true);
    link_wake();
}

void link_phase(const char *name)
{
    char kept[WATTFOLD_PHASE_CHARS + 1] = "";
    for (unsigned i = 0; i < WATTFOLD_PHASE_CHARS && name[i] != '\0'; i++)
        kept[i] = plain(name[i]) ? name[i] : '_';
    pthread_mutex_lock(&helper.mask_lock);
    const bool changed = strcmp(kept, helper.phase) != 0;
    memcpy(helper.phase, kept, sizeof kept);
    pthread_mutex_unlock(&helper.mask_lock);
    if (changed)
        tell_soon();
}

void link_growth_changed(void)
{
    atomic_store(&helper.growth, true);
    link_wake();
}

void link_request(unsigned cores)
{
    if (atomic_exchange(&helper.request, cores) != cores)
        tell_soon();
}
