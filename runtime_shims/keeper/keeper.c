/* Keeper: the parent of one job. It starts the job, waits for it and records its end.
 *
 * The agent executes a keeper for each job. A keeper outlives an agent that is killed, so no exit
 * status is lost. It adopts the orphans of the job (subreaper), so all processes of the job are its
 * descendants, whatever sessions they create. When the first process of the job has ended, the keeper
 * kills all others. It exits only when no process of the job is alive. The keeper uses nearly no CPU
 * time and runs outside the mask of the job.
 *
 * Until the job runs, the keeper talks with the agent on its standard input and output, in the
 * messages of fields.h. It reads the order and answers `pid` with the PID, or `error` with an error
 * number, what was tried and its path. It reads one byte, GO, and answers `running` or an error. If
 * the input ends before that, the agent was killed, and the job does not start. SIGUSR1 means that
 * another agent has adopted the job. When the agent dies, the keeper continues the processes that the
 * agent has stopped, but no process that the user has stopped.
 */
#include "become_job.h"
#include "descriptors.h"
#include "end_record.h"
#include "ending.h"
#include "guarding.h"
#include "order.h"
#include "stops.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAME "wattfold-keeper"
#define PAUSE_MS_MIN 20
#define PAUSE_MS_MAX 5000
#define NICE (-10)
#define ANSWER_BYTES 64
#define REPORT_BYTES 16384
#define EXIT_USAGE 2
#define EXIT_SIGNALLED 128

/* Both pipes between the keeper and its child. */
struct pipes {
    int from_child, to_keeper;
    int go, go_writer;
};

/* How the first process of the job has ended. */
struct end {
    bool known;
    int code;
    int killer;
};

static int signals = -1;   /* readable when a child changes or an agent announces itself */
static pid_t stand_in = 0; /* does the work of a killed guard; 0: nobody does */

static void be_keeper(void)
{
    /* First of all, because an early signal of an agent would end this process. */
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD);
    sigaddset(&awaited, SIGUSR1);
    sigprocmask(SIG_SETMASK, &awaited, NULL);
    signal(SIGCHLD, SIG_DFL);
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        signal(ends[i], SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    prctl(PR_SET_NAME, NAME, 0, 0, 0);
    setsid();
}

static void answer(const char *what, const char *value)
{
    char message[ANSWER_BYTES];
    size_t length = fields_add(message, 0, sizeof message, what);
    if (value != NULL)
        length = fields_add(message, length, sizeof message, value);
    /* An agent that has ended is noticed when it is read from. */
    fields_write(STDOUT_FILENO, message, length);
}

static bool open_pipes(struct pipes *pipes)
{
    int child[2], go[2];
    if (pipe2(child, O_CLOEXEC) != 0)
        return false;
    if (pipe2(go, O_CLOEXEC) != 0) {
        close(child[0]);
        close(child[1]);
        return false;
    }
    *pipes = (struct pipes){child[0], child[1], go[0], go[1]};
    return true;
}

/* Prepare for a child. Returns false after telling the agent why not. */
static bool set_up(const struct order *order, struct pipes *pipes)
{
    static const char what[] = "set up its keeper";
    if (!end_path(order->exit_path) || !end_reserve()) {
        report_failure(STDOUT_FILENO, what, order->exit_path, errno);
        return false;
    }
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD);
    sigaddset(&awaited, SIGUSR1);
    signals = signalfd(-1, &awaited, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals >= 0 && open_pipes(pipes))
        return true;
    report_failure(STDOUT_FILENO, what, "", errno);
    end_give_up();
    return false;
}

static ssize_t read_whole(int fd, char *text, size_t size)
{
    size_t have = 0;
    while (have < size) {
        const ssize_t got = read(fd, text + have, size - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

/* Pass on the report of the child, which starts with these bytes. Returns whether there was one. */
static bool pass_on(int from_child, char first, bool begun)
{
    char report[REPORT_BYTES];
    report[0] = first;
    const ssize_t more = read_whole(from_child, report + begun, sizeof report - begun);
    const size_t bytes = (size_t)more + begun;
    if (bytes == 0)
        return false;
    for (size_t sent = 0; sent < bytes;) {
        const ssize_t put = write(STDOUT_FILENO, report + sent, bytes - sent);
        if (put <= 0 && errno != EINTR)
            break;
        sent += put > 0 ? (size_t)put : 0;
    }
    return true;
}

static bool told_to_go(void)
{
    char said = 0;
    ssize_t got;
    do {
        got = read(STDIN_FILENO, &said, 1);
    } while (got < 0 && errno == EINTR);
    return got == 1 && said == GO;
}

/* Perform the handshake. Returns whether the program runs. */
static bool start(pid_t pid, struct pipes *pipes)
{
    char first = 0, text[16];
    const bool begun = read_whole(pipes->from_child, &first, 1) == 1;
    if (first != READY) {
        if (!pass_on(pipes->from_child, first, begun))
            report_failure(STDOUT_FILENO, "start", "", EIO);
        close(pipes->go_writer);
        return false;
    }
    snprintf(text, sizeof text, "%d", pid);
    answer("pid", text);
    const char go = GO;
    const bool goes = told_to_go() && write(pipes->go_writer, &go, 1) == 1;
    close(pipes->go_writer);
    if (!goes || pass_on(pipes->from_child, 0, false))
        return false;
    answer("running", NULL);
    return true;
}

/* Leave everything that belongs to the agent or to the job. */
static void leave(const struct order *order, const struct pipes *pipes)
{
    leave_standard();
    close(pipes->from_child);
    close_all(&order->inherited);
}

static void close_if_open(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Read the signals that have come. Returns whether one of them is SIGUSR1. */
static bool drain_signals(void)
{
    struct signalfd_siginfo come[16];
    bool adopted = false;
    ssize_t got;
    while ((got = read(signals, come, sizeof come)) > 0)
        for (size_t i = 0; i < (size_t)got / sizeof come[0]; i++)
            adopted = adopted || come[i].ssi_signo == SIGUSR1;
    return adopted;
}

/* Reap the children that have ended, also those that send no SIGCHLD. Returns whether there are
 * others. */
static bool reap(pid_t first, struct end *end)
{
    for (;;) {
        int status;
        const pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid <= 0)
            return pid == 0;
        if (pid == stand_in)
            stand_in = 0;
        if (pid != first)
            continue;
        end->known = true;
        end->killer = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        end->code = end->killer != 0 ? EXIT_SIGNALLED + end->killer : WEXITSTATUS(status);
    }
}

/* The guard of a node without agent; -1 without a guard. In that case another process brings the node
 * to its floor, unless this is done. */
static int guarded(const struct order *order)
{
    const int guard = guard_in_charge(order->state_dir);
    if (guard < 0 && stand_in == 0) {
        const pid_t pid = stand_in_start(&order->stand_in);
        stand_in = pid > 0 ? pid : 0;
    }
    return guard;
}

/* Wait for the end of the first process of the job, and reap its orphans. */
static struct end wait_for(pid_t first, const struct order *order)
{
    struct end end = {.known = false};
    int agent = agent_of(order->agent_pid_path), guard = -1;
    for (;;) {
        reap(first, &end);
        if (end.known)
            break;
        struct pollfd ready[] = {{.fd = signals, .events = POLLIN},
                                 {.fd = agent, .events = POLLIN},
                                 {.fd = guard, .events = POLLIN}};
        if (poll(ready, 3, -1) < 0)
            continue;
        if (ready[0].revents != 0 && drain_signals()) {
            close_if_open(&agent);
            close_if_open(&guard);
            agent = agent_of(order->agent_pid_path);
        } else if (ready[1].revents != 0) {
            /* Its throttle may have stopped the job, and no other process would continue it. */
            continue_all(order->stopped_path);
            close_if_open(&agent);
            guard = guarded(order);
        } else if (ready[2].revents != 0) {
            close_if_open(&guard);
            guard = guarded(order);
        }
    }
    close_if_open(&agent);
    close_if_open(&guard);
    return end;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reap children. Returns whether processes of the job are left. */
static bool job_left(void)
{
    struct end none;
    return reap(0, &none) && (stand_in == 0 || others_than(stand_in));
}

/* Returns whether no process of the job is left within this time. */
static bool ended_within(int pause_ms)
{
    const int64_t deadline_ms = now_ms() + pause_ms;
    while (job_left()) {
        const int64_t left_ms = deadline_ms - now_ms();
        if (left_ms <= 0)
            return false;
        struct pollfd ready = {.fd = signals, .events = POLLIN};
        poll(&ready, 1, (int)left_ms);
        drain_signals();
    }
    return true;
}

/* Kill all remaining processes of the job, and return when none is alive. A process that does the
 * work of the guard outlives the keeper: a device that hangs must not hide the end of the job. */
static void end_leftovers(const struct texts *groups)
{
    if (!job_left())
        return;
    /* Processes that fork without end must not starve the keeper. */
    setpriority(PRIO_PROCESS, 0, NICE);
    int pause_ms = PAUSE_MS_MIN;
    for (;;) {
        end_round(groups, stand_in);
        if (ended_within(pause_ms))
            return;
        pause_ms = 2 * pause_ms < PAUSE_MS_MAX ? 2 * pause_ms : PAUSE_MS_MAX;
    }
}

/* Run one job from its order to its end. */
static int keep(void)
{
    be_keeper();
    struct order order;
    const int refused = order_read(STDIN_FILENO, &order);
    if (refused != 0) {
        if (refused > 0)
            report_failure(STDOUT_FILENO, "set up its keeper", "", refused);
        return refused > 0;
    }
    /* The agent may have left others open by mistake. */
    close_others(&order.inherited);
    struct pipes pipes;
    if (!set_up(&order, &pipes))
        return 0;
    const pid_t pid = fork();
    if (pid == 0) {
        close(pipes.from_child);
        close(pipes.go_writer);
        become_job(&order, pipes.to_keeper, pipes.go);
    }
    const int error = errno;
    close(pipes.to_keeper);
    close(pipes.go);
    if (pid < 0) {
        report_failure(STDOUT_FILENO, "set up its keeper", "", error);
        end_give_up();
        return 0;
    }
    if (!start(pid, &pipes)) {
        waitpid(pid, NULL, 0);
        end_give_up();
        return 0;
    }
    leave(&order, &pipes);
    const struct end end = wait_for(pid, &order);
    end_leftovers(&order.groups);
    end_write(end.code, end.killer);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 1 && chdir("/") == 0)
        return keep();
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("%s %d\n", NAME, KEEPER_VERSION);
        return 0;
    }
    fprintf(stderr, "%s: the agent of Wattfold starts this program; see wattfold-agent(8)\n", NAME);
    return EXIT_USAGE;
}
