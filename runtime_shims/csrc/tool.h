/* The shim as a tool of LLVM's or Intel's runtime (ompt.c): only where another tool watches the runtime,
 * or where fork_call.S is not written for the architecture. */
#ifndef WATTFOLD_TOOL_H
#define WATTFOLD_TOOL_H

#include "runtime.h"
#include "teams.h"

/* Whether a runtime reports its regions to us. Settled while the runtime sets itself up. */
extern _Atomic bool tool_at_work;

static inline bool tool_reports(void)
{
    return atomic_load_explicit(&tool_at_work, memory_order_relaxed);
}

/* What is left of a num_threads clause. */
int tool_limit_clause(const struct runtime *runtime, struct lane *lane, int threads);

#endif
