/* Whether the shim is at work, with what settings, and how it gives up. */
#ifndef WATTFOLD_STATE_H
#define WATTFOLD_STATE_H

#include "config.h"

#include <stdatomic.h>
#include <stdbool.h>

enum shim_state {
    SHIM_IDLE,    /* nothing started yet */
    SHIM_RUNNING, /* the helper thread is at work */
    SHIM_INERT    /* not wanted, failed, or a forked child: everything is passed on untouched */
};

extern _Atomic int shim_state;
/* Valid once the state has left SHIM_IDLE for SHIM_RUNNING. */
extern struct config shim_config;

/* Starts the shim if nothing has started it yet (lifecycle.c); returns whether it is at work. */
bool shim_start(void);

/* Whether the shim is at work; starts it at the first call. */
static inline bool shim_running(void)
{
    const int state = atomic_load_explicit(&shim_state, memory_order_acquire);
    if (__builtin_expect(state == SHIM_RUNNING, 1))
        return true;
    return state == SHIM_IDLE && shim_start();
}

/* Makes the shim inert for the rest of the process and says why in one line on stderr. */
void shim_fail(const char *what, const char *detail);

#endif
