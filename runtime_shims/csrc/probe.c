#include "probe.h"

#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SPARE_MIN 2u /* some may go before libzmq makes its own */
#define SPARE_MAX 16u /* it takes time */
#define THREADS_MAX (SHIM_THREADS + SPARE_MAX)
#define PAGE_BYTES 4096u
#define GONE_PAUSES 200u
#define GONE_PAUSE_NS 50000L
#define LINE_BYTES 128
#define NOBODY_LISTENS "\0wattfold-probe" /* an abstract address, so that no file is needed */

static char line[LINE_BYTES];

static const char *refused(const char *call, int error)
{
    snprintf(line, sizeof line, "the kernel refuses %s (%s)", call, strerror(error));
    return line;
}

/* Calls that cannot succeed here: whether they have failed as they would without a filter. */
static bool forbidden(int error)
{
    return error == EPERM || error == ENOSYS || error == EACCES;
}

static const char *try_wakes(int fd)
{
    uint64_t count = 1;
    struct pollfd item = {.fd = fd, .events = POLLIN};
    if (fcntl(fd, F_GETFL) < 0)
        return refused("fcntl", errno);
    if (write(fd, &count, sizeof count) < 0)
        return refused("write", errno);
    if (poll(&item, 1, 0) < 0 && errno != EINTR)
        return refused("poll", errno);
    return read(fd, &count, sizeof count) < 0 ? refused("read", errno) : NULL;
}

static const char *try_epoll_calls(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        return refused("epoll_ctl", errno);
    if (epoll_wait(epoll, &event, 1, 0) < 0 && errno != EINTR)
        return refused("epoll_wait", errno);
    return NULL;
}

static const char *try_epoll(int fd)
{
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        return refused("epoll_create1", errno);
    const char *problem = try_epoll_calls(epoll, fd);
    close(epoll);
    return problem;
}

static const char *try_socket_calls(int fd)
{
    const struct sockaddr_un nobody = {.sun_family = AF_UNIX, .sun_path = NOBODY_LISTENS};
    int error = 0;
    socklen_t bytes = sizeof error;
    char byte = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        return refused("getsockopt", errno);
    if (connect(fd, (const struct sockaddr *)&nobody, sizeof nobody) != 0 && forbidden(errno))
        return refused("connect", errno);
    if (send(fd, &byte, sizeof byte, MSG_NOSIGNAL) < 0 && forbidden(errno))
        return refused("sendto", errno);
    if (recv(fd, &byte, sizeof byte, MSG_DONTWAIT) < 0 && forbidden(errno))
        return refused("recvfrom", errno);
    return NULL;
}

static const char *try_socket(void)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return refused("socket", errno);
    const char *problem = try_socket_calls(fd);
    close(fd);
    return problem;
}

struct crowd {
    pthread_mutex_t gate; /* held until all threads are there */
    const char *call;     /* what one of them was refused, and why */
    int error;
};

static void thread_calls(struct crowd *crowd)
{
    struct sched_param parameters;
    sigset_t none;
    int policy;
    sigemptyset(&none);
    if ((crowd->error = pthread_sigmask(SIG_BLOCK, &none, NULL)) != 0)
        crowd->call = "rt_sigprocmask";
    else if ((crowd->error = pthread_getschedparam(pthread_self(), &policy, &parameters)) != 0)
        crowd->call = "sched_getscheduler or sched_getparam";
    else if ((crowd->error = pthread_setschedparam(pthread_self(), policy, &parameters)) != 0)
        crowd->call = "sched_setscheduler";
}

static void *in_crowd(void *crowd_of_all)
{
    struct crowd *crowd = crowd_of_all;
    pthread_mutex_lock(&crowd->gate);
    if (crowd->call == NULL)
        thread_calls(crowd);
    pthread_mutex_unlock(&crowd->gate);
    return NULL;
}

static nlink_t threads_there(void)
{
    struct stat folder;
    return stat("/proc/self/task", &folder) == 0 ? folder.st_nlink : 0;
}

/* A joined thread counts for the kernel a moment longer, and the program may need its place. */
static void wait_until_gone(nlink_t before)
{
    const struct timespec pause = {.tv_nsec = GONE_PAUSE_NS};
    for (unsigned i = 0; i < GONE_PAUSES && threads_there() > before; i++)
        nanosleep(&pause, NULL);
}

/* With the stacks they have in libzmq, and all at once. */
static const char *try_threads(unsigned wanted)
{
    struct crowd crowd = {.gate = PTHREAD_MUTEX_INITIALIZER};
    const nlink_t before = threads_there();
    pthread_t threads[THREADS_MAX];
    unsigned made = 0;
    int error = 0;
    pthread_mutex_lock(&crowd.gate);
    while (made < wanted && (error = pthread_create(&threads[made], NULL, in_crowd, &crowd)) == 0)
        made++;
    pthread_mutex_unlock(&crowd.gate);
    for (unsigned i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
    wait_until_gone(before);
    if (made < wanted)
        return refused("threads", error);
    return crowd.call == NULL ? NULL : refused(crowd.call, crowd.error);
}

/* The C library itself ends a process that cannot wake or end a thread. */
static const char *try_ends_of_threads(void)
{
    uint32_t word = 0;
    if (syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) < 0)
        return refused("futex", errno);
    void *page = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return refused("mmap", errno);
    return munmap(page, PAGE_BYTES) != 0 ? refused("munmap", errno) : NULL;
}

const char *probe_kernel(int wake_fd, unsigned team)
{
    const unsigned spare = team < SPARE_MIN ? SPARE_MIN : team > SPARE_MAX ? SPARE_MAX : team;
    const char *problem = try_wakes(wake_fd);
    if (problem == NULL)
        problem = try_ends_of_threads();
    if (problem == NULL)
        problem = try_epoll(wake_fd);
    if (problem == NULL)
        problem = try_socket();
    if (problem == NULL)
        problem = try_threads(SHIM_THREADS + spare);
    return problem;
}
