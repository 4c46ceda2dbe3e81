/* Whether calls of OpenMP runtimes that start parallel regions reach the shim first. */
#ifndef WATTFOLD_FRONT_H
#define WATTFOLD_FRONT_H

#include <stdbool.h>

#if defined(__LP64__) && (defined(__x86_64__) || defined(__aarch64__)) && !defined(WATTFOLD_OMPT_ONLY)
#define WATTFOLD_FORK_CALL 1
#else
#define WATTFOLD_FORK_CALL 0
#endif

/* Whether calls of __kmpc_fork_call from the global scope reach ours. */
bool front_has_calls(void);

/* Whether regions of the runtime with this name can be seen and limited. Not for one linked into the program,
 * nor for an LLVM or Intel runtime that was told to take no tool or finds another one first. */
bool front_has(const char *runtime);

#endif
