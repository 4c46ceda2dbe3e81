/* When the shim is at work: start, fork, exit. */
#ifndef WATTFOLD_LIFECYCLE_H
#define WATTFOLD_LIFECYCLE_H

#include "state.h"

#include <stdbool.h>

bool shim_start(void);

/* Whether the shim is at work; starts it at the first call. */
static inline bool shim_running(void)
{
    const int state = atomic_load_explicit(&shim_state, memory_order_acquire);
    if (__builtin_expect(state == SHIM_RUNNING, 1))
        return true;
    return state == SHIM_IDLE && shim_start();
}

#endif
