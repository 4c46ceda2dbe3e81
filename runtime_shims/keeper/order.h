/* What a keeper is to do, as the agent tells it. */
#ifndef WATTFOLD_KEEPER_ORDER_H
#define WATTFOLD_KEEPER_ORDER_H

#include "fields.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Raised with each change of the messages. Agents refuse a keeper of another version. */
#define KEEPER_VERSION 1

struct order {
    struct texts argv;
    struct texts env; /* NAME=VALUE */
    const char *cwd;
    const char *stdout_path;
    const char *stderr_path;
    const char *script; /* run in place of the first word of argv */
    size_t script_bytes; /* 0: no script */
    struct texts interpreter; /* words of the first line of the script */
    const char *snapshot_path; /* a folder to make; empty: none */
    bool keep_output;
    const char *affinity; /* a list of CPUs: [0, 1] */
    struct texts procs_paths; /* files to enter control groups */
    bool changes_user;
    uid_t uid;
    gid_t gid;
    const char *user;
    const char *exit_path;
    const char *agent_pid_path;
    const char *stopped_path; /* processes that the agent has stopped; empty: it stops none */
    long long files_soft_max;
    long long processes_max; /* 0: no limit by account */
    struct texts groups; /* control groups with exactly the processes of the job */
    mode_t umask;
    struct texts limits; /* number and soft limit in turns; an empty limit is none */
    struct texts inherited; /* descriptors of the job besides 0, 1 and 2, ascending */
    const char *state_dir; /* of the agent, with the record of its guard */
    struct texts stand_in; /* command that does the work of a killed guard */
};

/* Read an order, which stays allocated. Returns 0, -1 at the end of input, or an error number. */
int order_read(int fd, struct order *order);

#endif
