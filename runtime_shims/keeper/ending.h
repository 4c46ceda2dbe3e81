/* End of processes that fork faster than they can be found. */
#ifndef WATTFOLD_KEEPER_ENDING_H
#define WATTFOLD_KEEPER_ENDING_H

#include "fields.h"

#include <stdbool.h>
#include <sys/types.h>

/* Kill the processes in these control groups, and all below this process except `spared` and what is
 * below that. Some may remain. */
void end_round(const struct texts *groups, pid_t spared);

/* Whether there are processes below this one except `spared` and what is below that. */
bool others_than(pid_t spared);

#endif
