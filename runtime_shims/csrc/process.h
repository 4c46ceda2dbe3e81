/* What the kernel says of our own process. */
#ifndef WATTFOLD_PROCESS_H
#define WATTFOLD_PROCESS_H

#include <stdbool.h>

/* Threads the shim adds to a process: the helper and two of libzmq. */
#define SHIM_THREADS 3

/* Whether the main thread has ended (pthread_exit) and only the shim's threads are left: then the
 * process would have ended without the shim. */
bool process_is_over(void);

#endif
