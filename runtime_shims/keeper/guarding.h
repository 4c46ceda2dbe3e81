/* The guard of a node without an agent, and the work that is left if it was killed too. */
#ifndef WATTFOLD_KEEPER_GUARDING_H
#define WATTFOLD_KEEPER_GUARDING_H

#include "fields.h"

#include <sys/types.h>

/* A PID descriptor of the process whose PID is in this file; -1 if there is none. */
int agent_of(const char *pid_path);

/* A PID descriptor of the guard on record in the folder of the agent; -1 if it has ended. */
int guard_in_charge(const char *state_dir);

/* Execute the command that brings the node to its floor. Returns its PID, or -1. It is a process of
 * its own, because a device that hangs may block it. */
pid_t stand_in_start(const struct texts *command);

#endif
