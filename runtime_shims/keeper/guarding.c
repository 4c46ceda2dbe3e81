#include "guarding.h"

#include "files.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#define RECORD_BYTES 4096

static int pidfd_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

int agent_of(const char *pid_path)
{
    char text[32];
    if (!file_read(pid_path, text, sizeof text))
        return -1;
    const long pid = strtol(text, NULL, 10);
    return pid > 0 && pid <= INT_MAX ? pidfd_open((pid_t)pid) : -1;
}

static bool ended(int pidfd)
{
    struct pollfd ready = {.fd = pidfd, .events = POLLIN};
    return poll(&ready, 1, 0) != 0;
}

int guard_in_charge(const char *state_dir)
{
    char path[PATH_MAX], record[RECORD_BYTES], state;
    const int bytes = snprintf(path, sizeof path, "%s/guard.json", state_dir);
    if (bytes >= (int)sizeof path || !file_read(path, record, sizeof record))
        return -1;
    const long long pid = json_number(record, "pid"), ticks = json_number(record, "start_ticks");
    if (pid <= 0 || pid > INT_MAX || ticks < 0)
        return -1;
    /* Opened first, so that the PID cannot pass to another process meanwhile. */
    const int fd = pidfd_open((pid_t)pid);
    if (fd < 0)
        return -1;
    /* An unreaped guard has ended too, as in a container without an init. */
    if (start_ticks((pid_t)pid, &state) == ticks && !ended(fd))
        return fd;
    close(fd);
    return -1;
}

pid_t stand_in_start(const struct texts *command)
{
    static char *environment[] = {"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", NULL};
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(command->items[0], command->items, environment);
    _exit(127);
}
