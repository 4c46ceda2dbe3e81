/* The helper thread: the only one that talks to the agent. It blocks all signals, makes no OpenMP
 * call, and learns from the program's threads by atomics and one eventfd. */
#ifndef WATTFOLD_AGENT_LINK_H
#define WATTFOLD_AGENT_LINK_H

#include "config.h"
#include "wattfold.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LINK_NO_CHANGE 1u

/* LINK_NO_CHANGE and then one more for every mask received (never 0, which threads that have not looked
 * yet start from). */
extern _Atomic uint32_t link_changes;

/* Starts the helper. `runtime` names the OpenMP runtime found, for HELLO. NULL on success, else what failed. */
const char *link_start(const struct config *config, const char *runtime);

/* Wakes the helper: a region ended after the mask changed. */
void link_wake(void);

/* Says BYE and ends the helper; waits for it a fraction of a second at the most. */
void link_stop(void);

/* In a forked child: forgets the helper of the parent. */
void link_after_fork(void);

/* Copy of the newest mask; seq 0 when there was none. */
void link_mask(wattfold_mask *out);

/* What the program reports of itself. */
void link_progress(double done, double total);
void link_phase(const char *name);

/* How large teams may grow has changed: applied soon. */
void link_growth_changed(void);

/* The number of cores the program would like; told to the agent soon. */
void link_request(unsigned cores);

#endif
