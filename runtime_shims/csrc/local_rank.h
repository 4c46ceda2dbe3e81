/* Which of the ranks of a parallel program on this node the process is. */
#ifndef WATTFOLD_LOCAL_RANK_H
#define WATTFOLD_LOCAL_RANK_H

#include <stdbool.h>
#include <stdint.h>

/* False for a process that is none. The words and rules are the agent's (nodeagent/core/tasks.py): both must
 * take a process for the same rank. */
bool local_rank(uint32_t *rank);

#endif
