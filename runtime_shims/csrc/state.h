/* Whether the shim is at work, with what settings, and how it gives up. */
#ifndef WATTFOLD_STATE_H
#define WATTFOLD_STATE_H

#include "config.h"

#include <stdatomic.h>

enum shim_state {
    SHIM_IDLE,    /* nothing started yet */
    SHIM_RUNNING, /* the helper thread is at work */
    SHIM_INERT    /* not wanted, failed, or a forked child: everything is passed on untouched */
};

extern _Atomic int shim_state;
/* Valid once the state has left SHIM_IDLE for SHIM_RUNNING. */
extern struct config shim_config;

/* Makes the shim inert for the rest of the process and says why in one line on stderr. */
void shim_fail(const char *what, const char *detail);

#endif
