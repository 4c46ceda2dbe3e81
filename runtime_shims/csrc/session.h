/* The conversation with the agent, run by the helper thread: HELLO at every (re)connection, MASK in,
 * ACK when it holds, STATUS twice a second while something changes, BYE at the end. */
#ifndef WATTFOLD_SESSION_H
#define WATTFOLD_SESSION_H

#include "config.h"
#include "wattfold.h"
#include "zmq_api.h"

#include <stdbool.h>

/* What the program says of itself. */
struct self_report {
    double done, total;
    uint32_t request; /* cores it would like, 0: no wish */
    char phase[WATTFOLD_PHASE_CHARS + 1];
};

/* What the helper shares with the threads of the program. */
struct session_ports {
    int wake_fd;
    bool (*stopping)(void);
    void (*mask_received)(const wattfold_mask *mask);
    void (*mask_in_force)(const wattfold_mask *mask); /* the teams have been told */
    void (*report)(struct self_report *report);
    bool (*growth_changed)(void); /* since the last call, how large teams may grow */
    bool (*has_news)(void); /* since the last call, something that should not wait long */
};

/* Runs until told to stop, or until the program has no thread of its own left. NULL on a normal end,
 * else what failed; *detail may then say more. *program_over: only threads of the shim are left. */
const char *session_run(const struct zmq_api *zmq, const struct config *config, const char *runtime,
                        const struct session_ports *ports, const char **detail, bool *program_over);

#endif
