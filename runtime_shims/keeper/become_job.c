#include "become_job.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REPORT_BYTES 12288
#define OUTPUTS 2
#define SCRIPT_PATH_BYTES 32
#define SIGACTION_BYTES_MAX 64

/* A step that failed. */
struct failure {
    const char *what;
    const char *path;
    int error;
};

/* What the child has made so far. */
struct made {
    const char *paths[OUTPUTS];
    size_t count;
    int outputs[OUTPUTS];
    char **argv;
    char script_path[SCRIPT_PATH_BYTES];
};

static bool failed(struct failure *failure, const char *what, const char *path, int error)
{
    *failure = (struct failure){.what = what, .path = path, .error = error};
    return false;
}

static void default_signals(void)
{
    /* The C library refuses to change two signals of its own, which posix_spawn ignores. All zero is
     * the default action in the structure of every architecture. */
    static const char defaults[SIGACTION_BYTES_MAX];
    for (int number = 1; number < NSIG; number++)
        syscall(SYS_rt_sigaction, number, defaults, NULL, NSIG / 8);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Restrict this process to the CPUs of a list like [0, 1]. */
static bool set_affinity(const char *list)
{
    unsigned long most = 0;
    for (const char *at = list; *at != '\0';) {
        char *end;
        const unsigned long cpu = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : 0;
        at = *at >= '0' && *at <= '9' ? end : at + 1;
        most = cpu > most ? cpu : most;
    }
    if (most > INT_MAX - 1) {
        errno = EINVAL;
        return false;
    }
    cpu_set_t *cpus = CPU_ALLOC(most + 1);
    const size_t bytes = CPU_ALLOC_SIZE(most + 1);
    if (cpus == NULL)
        return false;
    CPU_ZERO_S(bytes, cpus);
    for (const char *at = list; *at != '\0';) {
        if (*at < '0' || *at > '9') {
            at++;
            continue;
        }
        char *end;
        CPU_SET_S(strtoul(at, &end, 10), bytes, cpus);
        at = end;
    }
    const bool set = sched_setaffinity(0, bytes, cpus) == 0;
    CPU_FREE(cpus);
    return set;
}

static bool write_file(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool written = write(fd, text, strlen(text)) >= 0;
    const int error = errno;
    close(fd);
    errno = error;
    return written;
}

static bool confine(const struct order *order, struct failure *failure)
{
    /* The affinity comes first: inside a cpuset a mask outside it would be refused. */
    if (!set_affinity(order->affinity))
        return failed(failure, "set the affinity", order->affinity, errno);
    for (size_t i = 0; i < order->procs_paths.count; i++)
        if (!write_file(order->procs_paths.items[i], "0"))
            return failed(failure, "enter the cgroup", order->procs_paths.items[i], errno);
    return true;
}

static rlim_t least(rlim_t value, rlim_t limit)
{
    return limit == RLIM_INFINITY || value < limit ? value : limit;
}

/* Set a soft limit, at most the hard limit here; RLIM_INFINITY: none. */
static bool set_soft(int which, rlim_t soft)
{
    struct rlimit limit;
    if (getrlimit(which, &limit) != 0)
        return false;
    limit.rlim_cur = soft == RLIM_INFINITY ? limit.rlim_max : least(soft, limit.rlim_max);
    return setrlimit(which, &limit) == 0;
}

static rlim_t limit_of(const char *text)
{
    return *text == '\0' ? RLIM_INFINITY : (rlim_t)strtoull(text, NULL, 10);
}

static bool set_limits(const struct order *order, struct failure *failure)
{
    /* The agent has raised its own limit. Jobs get the usual limit, or the limit of their shell. */
    const long long files = order->files_soft_max;
    if (!set_soft(RLIMIT_NOFILE, files < 0 ? RLIM_INFINITY : (rlim_t)files))
        return failed(failure, "limit", "open files", errno);
    for (size_t i = 0; i + 1 < order->limits.count; i += 2) {
        char **pair = order->limits.items + i;
        if (!set_soft((int)strtol(pair[0], NULL, 10), limit_of(pair[1])))
            return failed(failure, "limit", pair[0], errno);
    }
    if (order->processes_max == 0)
        return true;
    struct rlimit limit;
    bool set = getrlimit(RLIMIT_NPROC, &limit) == 0;
    limit.rlim_max = least((rlim_t)order->processes_max, limit.rlim_max);
    limit.rlim_cur = least(limit.rlim_max, limit.rlim_cur);
    set = set && setrlimit(RLIMIT_NPROC, &limit) == 0;
    return set || failed(failure, "limit", "processes", errno);
}

static void be_killable(void)
{
    /* A service manager may protect the agent from the out-of-memory killer, but not its jobs. */
    static const char path[] = "/proc/self/oom_score_adj";
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    char first = '0';
    if (read(fd, &first, 1) == 1 && first == '-')
        write_file(path, "0");
    close(fd);
}

static bool become_user(const struct order *order, struct failure *failure)
{
    umask(order->umask);
    if (!order->changes_user)
        return true;
    if (initgroups(order->user, order->gid) != 0 || setgid(order->gid) != 0 ||
        setuid(order->uid) != 0)
        return failed(failure, "become the user", order->user, errno);
    return true;
}

/* Open an output file in append mode, so that two descriptors of one file do not overwrite each
 * other. */
static int open_output(const char *path, struct made *made)
{
    const int flags = O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
    int fd = open(path, flags | O_CREAT | O_EXCL, 0666);
    if (fd >= 0)
        made->paths[made->count++] = path;
    else if (errno == EEXIST)
        fd = open(path, flags);
    if (fd < 0)
        return -1;
    const int status = fcntl(fd, F_GETFL);
    return status >= 0 && fcntl(fd, F_SETFL, status & ~O_NONBLOCK) == 0 ? fd : -1;
}

static bool open_files(const struct order *order, struct made *made, struct failure *failure)
{
    if (chdir(order->cwd) != 0)
        return failed(failure, "enter the directory", order->cwd, errno);
    const char *const paths[OUTPUTS] = {order->stdout_path, order->stderr_path};
    for (size_t i = 0; i < OUTPUTS; i++) {
        made->outputs[i] = open_output(paths[i], made);
        if (made->outputs[i] < 0)
            return failed(failure, "open the output", paths[i], errno);
    }
    return true;
}

static bool is_folder(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

/* Make the folders above a path. */
static bool make_parents(const char *path)
{
    char above[PATH_MAX];
    const size_t length = strlen(path);
    if (length >= sizeof above) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(above, path, length + 1);
    for (char *at = above + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        if (mkdir(above, 0777) != 0) {
            const int error = errno;
            if (!is_folder(above)) {
                errno = error;
                return false;
            }
        }
        *at = '/';
    }
    return true;
}

static bool make_folder(const char *path, struct failure *failure)
{
    if (*path == '\0' || mkdir(path, 0700) == 0)
        return true;
    if (errno == ENOENT && make_parents(path) && mkdir(path, 0700) == 0)
        return true;
    const int error = errno;
    return is_folder(path) || failed(failure, "make the snapshot folder", path, error);
}

/* Store the script of the job in memory, and let the program of its first line run it. */
static bool store_script(const struct order *order, struct made *made, struct failure *failure)
{
    made->argv = order->argv.items;
    if (order->script_bytes == 0)
        return true;
    /* Inherited by the job: only its own account can open it through /proc. */
    const int fd = memfd_create("wattfold-script", 0);
    if (fd < 0)
        return failed(failure, "store the script", "", errno);
    for (size_t done = 0; done < order->script_bytes;) {
        const ssize_t put = write(fd, order->script + done, order->script_bytes - done);
        if (put < 0)
            return failed(failure, "store the script", "", errno);
        done += (size_t)put;
    }
    snprintf(made->script_path, sizeof made->script_path, "/proc/self/fd/%d", fd);
    const size_t before = order->interpreter.count, words = order->argv.count;
    made->argv = calloc(before + words + 1, sizeof *made->argv);
    if (made->argv == NULL)
        return failed(failure, "store the script", "", ENOMEM);
    memcpy(made->argv, order->interpreter.items, before * sizeof *made->argv);
    made->argv[before] = made->script_path;
    memcpy(made->argv + before + 1, order->argv.items + 1, (words - 1) * sizeof *made->argv);
    return true;
}

static const char *search_path(const struct order *order)
{
    for (size_t i = 0; i < order->env.count; i++)
        if (strncmp(order->env.items[i], "PATH=", 5) == 0)
            return order->env.items[i] + 5;
    return "";
}

/* Whether this is a file that this account may execute; otherwise says why, if the file is there. */
static bool executable(const char *path, int *why)
{
    struct stat found;
    if (stat(path, &found) != 0 || !S_ISREG(found.st_mode))
        return false;
    if (access(path, X_OK) == 0)
        return true;
    *why = EACCES;
    return false;
}

static bool find_program(const struct order *order, const char *name, char *path,
                         struct failure *failure)
{
    int why = ENOENT;
    const char *folder = strchr(name, '/') != NULL ? "" : search_path(order);
    for (;;) {
        const size_t length = strcspn(folder, ":");
        const char *slash = length > 0 && folder[length - 1] != '/' ? "/" : "";
        const int bytes =
            snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, folder, slash, name);
        if (bytes > 0 && bytes < PATH_MAX && executable(path, &why))
            return true;
        if (folder[length] == '\0')
            return failed(failure, "find the command", name, why);
        folder += length + 1;
    }
}

/* Empty the output files, and make them and no input the standard descriptors. */
static bool redirect(const struct order *order, const struct made *made, struct failure *failure)
{
    for (size_t i = 0; i < OUTPUTS; i++) {
        struct stat found;
        if (order->keep_output || fstat(made->outputs[i], &found) != 0 || !S_ISREG(found.st_mode))
            continue;
        if (ftruncate(made->outputs[i], 0) != 0)
            return failed(failure, "empty the output", "", errno);
    }
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(made->outputs[0], 1) < 0 ||
        dup2(made->outputs[1], 2) < 0)
        return failed(failure, "open", "/dev/null", errno);
    return true;
}

static bool prepare(const struct order *order, struct made *made, char *program,
                    struct failure *failure)
{
    return confine(order, failure) && set_limits(order, failure) &&
           (be_killable(), become_user(order, failure)) && open_files(order, made, failure) &&
           make_folder(order->snapshot_path, failure) && store_script(order, made, failure) &&
           find_program(order, made->argv[0], program, failure);
}

static bool may_go(int to_keeper, int go, struct failure *failure)
{
    const char ready = READY;
    char said = 0;
    if (write(to_keeper, &ready, 1) == 1 && read(go, &said, 1) == 1 && said == GO)
        return true;
    return failed(failure, "start", "", 0);
}

void become_job(const struct order *order, int to_keeper, int go)
{
    struct made made = {.count = 0};
    struct failure failure = {.what = "", .path = "", .error = 0};
    char program[PATH_MAX];
    setsid();
    default_signals();
    if (prepare(order, &made, program, &failure) && may_go(to_keeper, go, &failure) &&
        redirect(order, &made, &failure)) {
        execve(program, made.argv, order->env.items);
        failed(&failure, "execute", program, errno);
    }
    for (size_t i = 0; i < made.count; i++)
        unlink(made.paths[i]);
    report_failure(to_keeper, failure.what, failure.path, failure.error);
    _exit(127);
}

void report_failure(int fd, const char *what, const char *path, int error)
{
    char message[REPORT_BYTES], number[16];
    snprintf(number, sizeof number, "%d", error);
    size_t length = fields_add(message, 0, sizeof message, "error");
    length = fields_add(message, length, sizeof message, number);
    length = fields_add(message, length, sizeof message, what);
    length = fields_add(message, length, sizeof message, path);
    fields_write(fd, message, length);
}
