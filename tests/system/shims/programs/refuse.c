/* Run a program to which the kernel refuses one system call: refuse NAME ERRNO PROGRAM ARGUMENTS. NAME may be
 * one command of a call ("membarrier:8" is PRIVATE_EXPEDITED, by its first argument). Exits with 77 if
 * filters are unavailable, and with 2 for an unknown name. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CANNOT 77
#define CALL(name) {#name, SYS_##name}

static const struct {
    const char *name;
    long number;
} calls[] = {
    CALL(accept4),         CALL(bind),
    CALL(clock_gettime),   CALL(clock_nanosleep),
    CALL(clone),           CALL(clone3),
    CALL(close),           CALL(connect),
    CALL(dup),             CALL(epoll_create1),
    CALL(epoll_ctl),       CALL(eventfd2),
    CALL(fcntl),           CALL(futex),
    CALL(getdents64),      CALL(getpeername),
    CALL(getpid),          CALL(getrandom),
    CALL(getsockname),     CALL(getsockopt),
    CALL(gettid),          CALL(getuid),
    CALL(listen),          CALL(madvise),
    CALL(membarrier),      CALL(mmap),
    CALL(mprotect),        CALL(munmap),
    CALL(newfstatat),      CALL(openat),
    CALL(pipe2),           CALL(prctl),
    CALL(pread64),         CALL(prlimit64),
    CALL(read),            CALL(recvfrom),
    CALL(recvmsg),         CALL(rseq),
    CALL(rt_sigaction),    CALL(rt_sigprocmask),
    CALL(sched_getaffinity), CALL(sched_getattr),
    CALL(sched_getparam),  CALL(sched_getscheduler),
    CALL(sched_setaffinity), CALL(sched_setattr),
    CALL(sched_setscheduler), CALL(sched_yield),
    CALL(sendmsg),         CALL(sendto),
    CALL(set_robust_list), CALL(setsockopt),
    CALL(shutdown),        CALL(socket),
    CALL(socketpair),      CALL(sysinfo),
    CALL(uname),           CALL(write),
#ifdef SYS_poll
    CALL(poll),            CALL(epoll_wait),
    CALL(pipe),            CALL(select),
#endif
    CALL(epoll_pwait),     CALL(ppoll),
    CALL(pselect6),
};

static long number_of(const char *name, size_t chars)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strlen(calls[i].name) == chars && strncmp(calls[i].name, name, chars) == 0)
            return calls[i].number;
    return -1;
}

static int refuse(unsigned number, int error, const char *first)
{
    const unsigned command = first == NULL ? 0 : (unsigned)strtoul(first, NULL, 10);
    /* Without a command both branches of the second comparison are equal, so every command matches. */
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, command, 0, first == NULL ? 0 : 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    const char *first = strchr(argv[1], ':');
    const size_t chars = first == NULL ? strlen(argv[1]) : (size_t)(first - argv[1]);
    const long number = number_of(argv[1], chars);
    if (number < 0)
        return 2;
    if (refuse((unsigned)number, atoi(argv[2]), first == NULL ? NULL : first + 1) != 0) {
        fprintf(stderr, "no seccomp filters here: %s\n", strerror(errno));
        return CANNOT;
    }
    execv(argv[3], argv + 3);
    return errno == EPERM ? 3 : 4;
}
