/* A killed process makes room for another below the limit of its account, so killing the processes
 * found might never end. A stopped process keeps its place and cannot fork once the signal was sent,
 * because the kernel checks for signals before a fork completes. So all processes are stopped in
 * several passes until no new process is found, and then killed. A control group does this at once.
 */
#include "ending.h"

#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEMBERS_MAX 65536
#define PASSES_MAX 64
#define PIDS_MAX (4 * 1024 * 1024) /* the most that the kernel permits */
#define CHUNK_BYTES 4096

struct pids {
    size_t count;
    pid_t items[MEMBERS_MAX];
};

/* Not on the stack, and without memory until they are used. */
static struct pids found, done;
static uint64_t marks[PIDS_MAX / 64];

static bool marked(pid_t pid)
{
    return (marks[pid / 64] >> (pid % 64) & 1) != 0;
}

static void mark(pid_t pid, bool set)
{
    const uint64_t bit = UINT64_C(1) << (pid % 64);
    marks[pid / 64] = set ? marks[pid / 64] | bit : marks[pid / 64] & ~bit;
}

/* Add a process; never one that a signal must not reach, such as 0 for another PID namespace. */
static void add(struct pids *pids, unsigned long pid)
{
    if (pid > 1 && pid < PIDS_MAX && (pid_t)pid != getpid() && pids->count < MEMBERS_MAX)
        pids->items[pids->count++] = (pid_t)pid;
}

/* Add the numbers in a file. Returns false if it cannot be read. */
static bool add_listed(struct pids *pids, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    char chunk[CHUNK_BYTES];
    unsigned long number = 0;
    bool inside = false;
    ssize_t got;
    while ((got = read(fd, chunk, sizeof chunk)) > 0 || (got < 0 && errno == EINTR)) {
        for (ssize_t i = 0; i < got; i++) {
            const bool digit = chunk[i] >= '0' && chunk[i] <= '9';
            if (digit && number < PIDS_MAX)
                number = number * 10 + (unsigned long)(chunk[i] - '0');
            if (!digit && inside) {
                add(pids, number);
                number = 0;
            }
            inside = digit;
        }
    }
    if (inside)
        add(pids, number);
    close(fd);
    return got == 0;
}

/* Add the children of all threads of a process, including zombies. */
static void add_children(struct pids *pids, pid_t pid)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        return;
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;) {
        if (task->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/children", pid, task->d_name);
        add_listed(pids, path);
    }
    closedir(tasks);
}

/* All processes below this one, parents first. */
static void find_descendants(pid_t spared)
{
    found.count = 0;
    add_children(&found, getpid());
    for (size_t i = 0; i < found.count;) {
        if (found.items[i] == spared) {
            found.items[i] = found.items[--found.count];
            continue;
        }
        add_children(&found, found.items[i++]);
    }
}

static void send_all(const struct pids *pids, int number)
{
    for (size_t i = 0; i < pids->count; i++)
        kill(pids->items[i], number);
}

static void forget_marks(void)
{
    for (size_t i = 0; i < done.count; i++)
        mark(done.items[i], false);
    done.count = 0;
}

/* Signal the processes found that have no mark, and mark them. Returns whether there were any. */
static bool send_fresh(int number)
{
    bool fresh = false;
    for (size_t i = 0; i < found.count && done.count < MEMBERS_MAX; i++) {
        const pid_t pid = found.items[i];
        if (marked(pid))
            continue;
        kill(pid, number);
        mark(pid, true);
        done.items[done.count++] = pid;
        fresh = true;
    }
    return fresh;
}

static void end_descendants(pid_t spared)
{
    for (int pass = 0; pass < PASSES_MAX; pass++) {
        find_descendants(spared);
        if (!send_fresh(SIGSTOP))
            break;
    }
    find_descendants(spared);
    send_all(&done, SIGKILL);
    send_all(&found, SIGKILL);
    forget_marks();
}

/* The path of a file of a control group. Returns whether the file exists. */
static bool file_of(char path[PATH_MAX], const char *group, const char *name)
{
    const int bytes = snprintf(path, PATH_MAX, "%s/%s", group, name);
    return bytes > 0 && bytes < PATH_MAX && access(path, F_OK) == 0;
}

/* Kill a whole group: by one write from Linux 5.14 on, or else frozen. In a frozen group no process
 * can fork, and killed processes end when it is thawed. */
static void end_group(const char *group)
{
    char state[PATH_MAX], procs[PATH_MAX];
    if (file_of(state, group, "cgroup.kill")) {
        file_write(state, "1");
        return;
    }
    const bool v2 = file_of(state, group, "cgroup.freeze");
    if (!v2 && !file_of(state, group, "freezer.state"))
        return;
    if (!file_of(procs, group, "cgroup.procs") || !file_write(state, v2 ? "1" : "FROZEN"))
        return;
    bool fresh = true;
    while (fresh) {
        found.count = 0;
        fresh = add_listed(&found, procs) && send_fresh(SIGKILL);
    }
    forget_marks();
    file_write(state, v2 ? "0" : "THAWED");
}

bool others_than(pid_t spared)
{
    find_descendants(spared);
    return found.count > 0;
}

void end_round(const struct texts *groups, pid_t spared)
{
    for (size_t i = 0; i < groups->count; i++)
        end_group(groups->items[i]);
    end_descendants(spared);
}
