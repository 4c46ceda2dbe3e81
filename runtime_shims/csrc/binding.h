/* Threads bound 1:1 to cores, where the user asked for that (OMP_PROC_BIND and the like).
 *
 * The runtimes choose the cores once, at their start, and know nothing of a mask: after a change their
 * threads would be where the agent put them (anywhere in the mask), and new ones on cores that may belong
 * to another job. So the helper binds them again, one by one, to the cores of the mask. */
#ifndef WATTFOLD_BINDING_H
#define WATTFOLD_BINDING_H

#include "wattfold.h"

#include <stdbool.h>

/* Whether the user asked for threads to be bound. Read once, at the start. */
bool binding_wanted(void);

/* Notes which threads are bound now. Helper thread only, as is the next. */
void binding_learn(void);

/* Binds those again: the first, in the order they were made, to the first core of the mask, and so on. */
void binding_apply(const wattfold_mask *mask);

/* The mask new threads may be bound in; told by the helper before teams may grow into it. */
void binding_set_mask(const wattfold_mask *mask);

#endif
