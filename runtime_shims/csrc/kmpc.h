/* The entry points of LLVM's and Intel's runtimes that start a parallel region.
 *
 * Where fork_call.S is written for the architecture and another tool does not watch the runtime, regions
 * are limited here, and the runtime runs as without a tool: its own tool interface costs more than the
 * shim does. Else ompt.c limits them. */
#ifndef WATTFOLD_KMPC_H
#define WATTFOLD_KMPC_H

#include <stdbool.h>

#if defined(__LP64__) && (defined(__x86_64__) || defined(__aarch64__)) && !defined(WATTFOLD_OMPT_ONLY)
#define WATTFOLD_FORK_CALL 1
#else
#define WATTFOLD_FORK_CALL 0
#endif

/* Whether calls of __kmpc_fork_call from the global scope reach ours. */
bool kmpc_in_front(void);

#endif
