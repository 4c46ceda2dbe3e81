/*
 * Plugin of Slurm (SPANK) that hands the steps of jobs to the agent of the node.
 *
 * It registers --wattfold=MODE and --wattfold-app=NAME for srun, sbatch and salloc. In slurmstepd, which runs as root,
 * it reports a new step to the agent and receives the variables for its environment. It then passes the PID of each
 * task before its first instruction, and the status of each task after its end. The agent watches slurmstepd itself for
 * the end of the step.
 *
 * A step never fails or waits long because of Wattfold: all calls before its first task share the time limit, and after
 * the first failure there are no more calls. The step then runs as if this plugin were absent.
 *
 * Line in plugstack.conf:
 *   optional /usr/lib/wattfold/spank_wattfold.so [agent=PATH] [default=MODE] [limit_ms=N]
 *
 * SPANK has no stable binary interface between releases of Slurm: compile this file against the headers of the site,
 *   gcc -shared -fPIC -O2 -o spank_wattfold.so spank_wattfold.c
 *
 * A message is one packet of lines. Request: wattfold-adopt=1, call=..., then name=value. Answer: "ok" and lines
 * name=value for the environment, or "no" and the reason. The contract is in proto/README.md.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <slurm/spank.h>

SPANK_PLUGIN(wattfold, 1)

#define MESSAGE_BYTES_MAX 16384
#define VALUE_BYTES_MAX 4096
#define APP_BYTES_MAX 63
#define LIMIT_MS_DEFAULT 400
#define LIMIT_MS_MAX 60000

static const char *const modes[] = {"off", "fixed", "mask", "team", NULL};

/* Variables of the user that change what the agent sets. */
static const char *const told[] = {
    "OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES",    "OMP_WAIT_POLICY", "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",    "KMP_BLOCKTIME", "KMP_LIBRARY",   "LD_PRELOAD",      "WATTFOLD_SET",
    NULL,
};

static char agent_path[sizeof(((struct sockaddr_un *)0)->sun_path)] = "/run/wattfold-agent/adopt.sock";
static const char *mode = "off";
static char app[APP_BYTES_MAX + 1];
static int limit_ms = LIMIT_MS_DEFAULT;
static int used_ms;
static bool adopted;

struct message {
    char text[MESSAGE_BYTES_MAX + 1];
    size_t length;
    bool too_long;
};

static const char *known_mode(const char *text)
{
    for (int i = 0; text != NULL && modes[i] != NULL; i++)
        if (strcmp(text, modes[i]) == 0)
            return modes[i];
    return NULL;
}

static void add(struct message *message, const char *name, const char *value)
{
    size_t room = sizeof(message->text) - message->length;
    int length = snprintf(message->text + message->length, room, "%s=%s\n", name, value);
    if (length < 0 || (size_t)length >= room)
        message->too_long = true;
    else
        message->length += (size_t)length;
}

static void add_number(struct message *message, const char *name, long long number)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", number);
    add(message, name, text);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Send a request and wait for the answer. Returns the reason of a failure, or NULL. */
static const char *exchange(const struct message *request, struct message *answer, int64_t until_ms)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, agent_path, sizeof(address.sun_path));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return strerror(errno);
    const char *failure = NULL;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    int64_t left_ms;
    ssize_t length = -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        send(fd, request->text, request->length, MSG_NOSIGNAL) < 0) {
        failure = strerror(errno);
    } else {
        do {
            left_ms = until_ms - now_ms();
        } while (left_ms > 0 && poll(&ready, 1, (int)left_ms) < 0 && errno == EINTR);
        length = recv(fd, answer->text, MESSAGE_BYTES_MAX, 0);
        if (length < 0)
            failure = errno == EAGAIN ? "no answer in time" : strerror(errno);
        else if (length == 0)
            failure = "the agent closed the connection";
    }
    close(fd);
    answer->length = failure == NULL ? (size_t)length : 0;
    answer->text[answer->length] = '\0';
    return failure;
}

/* Carry out a call within the remaining time. After the first failure, nothing is called any more. */
static bool call(const struct message *request, struct message *answer)
{
    int64_t began_ms = now_ms();
    const char *failure = request->too_long ? "the message is too long" : NULL;
    if (failure == NULL && used_ms < limit_ms)
        failure = exchange(request, answer, began_ms + limit_ms - used_ms);
    else if (failure == NULL)
        failure = "no time is left";
    used_ms += (int)(now_ms() - began_ms);
    if (failure == NULL && strncmp(answer->text, "ok\n", 3) == 0)
        return true;
    adopted = false;
    if (failure != NULL)
        slurm_info("wattfold: the step runs without Wattfold: %s: %s", agent_path, failure);
    else
        slurm_info("wattfold: the step runs without Wattfold: %s", answer->text);
    return false;
}

static bool begin(spank_t spank, struct message *request, const char *name)
{
    uint32_t job = 0, step = 0;
    if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
        return false;
    request->length = 0;
    request->too_long = false;
    add(request, "wattfold-adopt", "1");
    add(request, "call", name);
    add_number(request, "job", job);
    add_number(request, "step", step);
    return true;
}

static bool plain(const char *value)
{
    for (; *value != '\0'; value++)
        if ((unsigned char)*value < ' ' || *value == 0x7f)
            return false;
    return true;
}

static void add_environment(spank_t spank, struct message *request)
{
    static char value[VALUE_BYTES_MAX];
    for (int i = 0; told[i] != NULL; i++) {
        if (spank_getenv(spank, told[i], value, sizeof(value)) != ESPANK_SUCCESS || !plain(value))
            continue;
        char name[64];
        snprintf(name, sizeof(name), "env.%s", told[i]);
        add(request, name, value);
    }
}

static void set_environment(spank_t spank, struct message *answer)
{
    char *rest = NULL;
    for (char *line = strtok_r(answer->text + 3, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *sign = strchr(line, '=');
        if (sign == NULL)
            continue;
        *sign = '\0';
        if (spank_setenv(spank, line, sign + 1, 1) != ESPANK_SUCCESS)
            slurm_info("wattfold: cannot set %s", line);
    }
}

static int choose_mode(int value, const char *text, int remote)
{
    (void)value;
    const char *chosen = known_mode(text);
    if (chosen == NULL && !remote)
        slurm_error("--wattfold: %s must be off, fixed, mask or team", text == NULL ? "" : text);
    if (chosen == NULL)
        return -1;
    mode = chosen;
    return 0;
}

static int choose_app(int value, const char *text, int remote)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = text == NULL ? 0 : strlen(text);
    (void)value;
    if (length == 0 || length > APP_BYTES_MAX || strspn(text, letters) != length) {
        if (!remote)
            slurm_error("--wattfold-app: expected 1-63 characters of A-Z a-z 0-9 . _ -");
        return -1;
    }
    memcpy(app, text, length + 1);
    return 0;
}

static struct spank_option app_option = {
    .name = (char *)"wattfold-app",
    .arginfo = (char *)"NAME",
    .usage = (char *)"name of the application, for its profile",
    .has_arg = 1,
    .cb = choose_app,
};

static struct spank_option option = {
    .name = (char *)"wattfold",
    .arginfo = (char *)"MODE",
    .usage = (char *)"let Wattfold resize the job on its nodes: off, fixed, mask (cores) or team (cores and threads)",
    .has_arg = 1,
    .cb = choose_mode,
};

/* The name of the node in the path of the socket, for several slurmd on one host. */
static bool put_path(const char *text)
{
    char host[256] = "";
    const char *node = getenv("SLURMD_NODENAME");
    const char *sign = strstr(text, "%n");
    if (sign != NULL && node == NULL) {
        gethostname(host, sizeof(host) - 1);
        node = host;
    }
    int length = sign == NULL ? snprintf(agent_path, sizeof(agent_path), "%s", text)
                              : snprintf(agent_path, sizeof(agent_path), "%.*s%s%s", (int)(sign - text), text,
                                         node, sign + 2);
    return length > 0 && (size_t)length < sizeof(agent_path);
}

static bool read_argument(const char *text)
{
    if (strncmp(text, "agent=", 6) == 0)
        return put_path(text + 6);
    if (strncmp(text, "default=", 8) == 0) {
        mode = known_mode(text + 8);
        return mode != NULL;
    }
    if (strncmp(text, "limit_ms=", 9) == 0) {
        char *end = NULL;
        long number = strtol(text + 9, &end, 10);
        limit_ms = (int)number;
        return end != text + 9 && *end == '\0' && number > 0 && number <= LIMIT_MS_MAX;
    }
    return false;
}

int slurm_spank_init(spank_t spank, int count, char **arguments)
{
    if (spank_remote(spank) == 1) {
        for (int i = 0; i < count; i++) {
            if (!read_argument(arguments[i])) {
                slurm_error("wattfold: argument %s in plugstack.conf is wrong; jobs run without Wattfold",
                            arguments[i]);
                limit_ms = 0;
                break;
            }
        }
    }
    if (mode == NULL)
        mode = "off";
    spank_err_t first = spank_option_register(spank, &option);
    spank_err_t second = spank_option_register(spank, &app_option);
    return first == ESPANK_SUCCESS && second == ESPANK_SUCCESS ? ESPANK_SUCCESS : -1;
}

int slurm_spank_init_post_opt(spank_t spank, int count, char **arguments)
{
    (void)count;
    (void)arguments;
    if (spank_remote(spank) != 1 || strcmp(mode, "off") == 0 || limit_ms == 0)
        return ESPANK_SUCCESS;
    static struct message request, answer;
    uid_t uid = 0;
    uint32_t tasks = 1;
    uint16_t cpus = 1;
    if (!begin(spank, &request, "open") || spank_get_item(spank, S_JOB_UID, &uid) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_NCPUS, &cpus) != ESPANK_SUCCESS)
        return ESPANK_SUCCESS;
    add_number(&request, "uid", uid);
    add_number(&request, "tasks", tasks);
    add_number(&request, "cpus", cpus);
    add(&request, "mode", mode);
    if (app[0] != '\0')
        add(&request, "app", app);
    add_environment(spank, &request);
    adopted = call(&request, &answer);
    if (adopted)
        set_environment(spank, &answer);
    return ESPANK_SUCCESS;
}

int slurm_spank_task_post_fork(spank_t spank, int count, char **arguments)
{
    (void)count;
    (void)arguments;
    static struct message request, answer;
    pid_t pid = 0;
    int task = 0;
    if (adopted && begin(spank, &request, "task") && spank_get_item(spank, S_TASK_PID, &pid) == ESPANK_SUCCESS &&
        spank_get_item(spank, S_TASK_ID, &task) == ESPANK_SUCCESS) {
        add_number(&request, "task", task);
        add_number(&request, "pid", pid);
        call(&request, &answer);
    }
    return ESPANK_SUCCESS;
}

int slurm_spank_task_exit(spank_t spank, int count, char **arguments)
{
    (void)count;
    (void)arguments;
    static struct message request, answer;
    int task = 0, status = 0;
    /* All tasks run: this call delays none of them, and has a time limit of its own. */
    used_ms = 0;
    if (adopted && begin(spank, &request, "exit") && spank_get_item(spank, S_TASK_ID, &task) == ESPANK_SUCCESS &&
        spank_get_item(spank, S_TASK_EXIT_STATUS, &status) == ESPANK_SUCCESS) {
        add_number(&request, "task", task);
        add_number(&request, "code", WIFEXITED(status) ? WEXITSTATUS(status) : 0);
        add_number(&request, "signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        call(&request, &answer);
    }
    return ESPANK_SUCCESS;
}
