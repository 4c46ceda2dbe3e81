#include "state.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 512

_Atomic int shim_state = SHIM_IDLE;
struct config shim_config;

void shim_fail(const char *what, const char *detail)
{
    if (atomic_exchange(&shim_state, SHIM_INERT) == SHIM_INERT)
        return;
    char line[LINE_BYTES];
    const int bytes =
        snprintf(line, sizeof line, "wattfold: %s%s%s; this program runs without being resized\n", what,
                 detail == NULL ? "" : ": ", detail == NULL ? "" : detail);
    /* Not dprintf: the helper may be here while the program exits, and the C library then writes out the
     * stream that dprintf makes once more. */
    if (bytes > 0 && write(STDERR_FILENO, line, strlen(line)) < 0)
        return; /* standard error is closed */
}
