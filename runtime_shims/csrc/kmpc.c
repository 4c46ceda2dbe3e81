/* The entry points of LLVM's and Intel's runtimes that start a parallel region.
 *
 * Where fork_call.S is written for the architecture and another tool does not watch the runtime, regions
 * are limited here, and the runtime runs as without a tool: its own tool interface costs more than the
 * shim does. Else ompt.c limits them. */
#include "front.h"
#include "regions.h"
#include "tool.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef void (*push_fn)(void *place, int thread, int threads);

static runtime_function real_entry(const struct runtime *runtime, enum runtime_entry index,
                                   const char *name)
{
    if (__builtin_expect(runtime->entry[index] == NULL, 0)) {
        dprintf(STDERR_FILENO, "wattfold: the OpenMP runtime lacks %s\n", name);
        abort();
    }
    return runtime->entry[index];
}

EXPORT void __kmpc_push_num_threads(void *place, int thread, int threads);

/* A clause is kept until the region that follows, which is the place to limit it. */
EXPORT void __kmpc_push_num_threads(void *place, int thread, int threads)
{
    const struct runtime *runtime =
        runtime_for(__builtin_return_address(0), KMPC_PUSH_NUM_THREADS);
    const runtime_function real =
        real_entry(runtime, KMPC_PUSH_NUM_THREADS, "__kmpc_push_num_threads");
    if (threads > 0 && shim_running()) {
        struct lane *lane = team_lane != NULL ? team_lane : lane_claim();
        if (lane != NULL)
            lane->clause = (unsigned)threads;
        if (tool_reports())
            threads = tool_limit_clause(runtime, lane, threads);
    }
    ((push_fn)real)(place, thread, threads);
}

#if WATTFOLD_FORK_CALL

_Static_assert(sizeof(struct region) == 24 && offsetof(struct region, lane) == 0,
               "fork_call.S knows the layout");

typedef void (*fork_if_fn)(void *place, int count, void *body, int wanted, void *data);
typedef void (*fork_fn)(void *place, int count, void *body, ...);
typedef void (*serial_fn)(void *place, int thread);
typedef int (*thread_fn)(void *place);

/* Called by fork_call.S. */
runtime_function kmpc_enter(struct region *region, void *place, const void *caller);
void kmpc_leave(const struct region *region);

EXPORT void __kmpc_fork_call_if(void *place, int count, void *body, int wanted, void *data);
EXPORT void __kmpc_serialized_parallel(void *place, int thread);

static void state_clause(const struct runtime *runtime, void *place, unsigned threads)
{
    const thread_fn thread =
        (thread_fn)real_entry(runtime, KMPC_GLOBAL_THREAD_NUM, "__kmpc_global_thread_num");
    const push_fn push =
        (push_fn)real_entry(runtime, KMPC_PUSH_NUM_THREADS, "__kmpc_push_num_threads");
    push(place, thread(place), (int)threads);
}

/* Without a clause the runtime takes the program's setting; ours goes in as a clause, which lasts for one
 * region and leaves the setting alone. */
static void begin(const struct runtime *runtime, struct region *region, void *place)
{
    struct lane *lane = team_lane != NULL ? team_lane : lane_claim();
    region->lane = NULL;
    if (lane == NULL) {
        region_give_up();
        return;
    }
    if (__builtin_expect(!lane->waits_shortly, 0)) {
        (void)runtime->active_level(); /* the runtime sets itself up now, and its tool too */
        region_limit_spinning(runtime, lane);
    }
    if (__builtin_expect(tool_reports(), 0))
        return;
    const unsigned asked = lane->clause;
    lane->clause = 0;
    const unsigned threads = region_enter_lane(runtime, region, lane, asked);
    if (__builtin_expect(threads != asked, 0))
        state_clause(runtime, place, threads);
    else if (__builtin_expect(lane->clause_left && asked == 0, 0))
        state_clause(runtime, place, (unsigned)runtime->max_threads());
    lane->clause_left = false;
}

runtime_function kmpc_enter(struct region *region, void *place, const void *caller)
{
    const struct runtime *runtime = runtime_for(caller, KMPC_FORK_CALL);
    const runtime_function real = real_entry(runtime, KMPC_FORK_CALL, "__kmpc_fork_call");
    region->lane = NULL;
    if (shim_running())
        begin(runtime, region, place);
    return real;
}

void kmpc_leave(const struct region *region)
{
    region_leave(region);
}

/* With an if clause newer compilers leave the choice to the runtime, which then does what is done here. */
EXPORT void __kmpc_fork_call_if(void *place, int count, void *body, int wanted, void *data)
{
    const struct runtime *runtime = runtime_for(__builtin_return_address(0), KMPC_FORK_CALL);
    struct region region;
    if (wanted == 0 || !shim_running() || tool_reports()) {
        ((fork_if_fn)real_entry(runtime, KMPC_FORK_CALL_IF, "__kmpc_fork_call_if"))(
            place, count, body, wanted, data);
        return;
    }
    begin(runtime, &region, place);
    ((fork_fn)real_entry(runtime, KMPC_FORK_CALL, "__kmpc_fork_call"))(place, count, body, data);
    region_leave(&region);
}

/* A region of one thread by an if clause. It is counted, and a clause before it is void; older runtimes keep
 * that for the next region. Runtimes call this for themselves too, inside a region that is counted already. */
EXPORT void __kmpc_serialized_parallel(void *place, int thread)
{
    const void *caller = __builtin_return_address(0);
    const struct runtime *runtime = runtime_for(caller, KMPC_SERIALIZED);
    struct lane *lane = NULL;
    if (shim_running() && !tool_reports() && !runtime_contains(runtime, caller))
        lane = team_lane != NULL ? team_lane : lane_claim();
    if (lane != NULL) {
        lane->clause_left = lane->clause != 0;
        lane->clause = 0;
        if (region_active_level(runtime, lane) == 0)
            region_count(lane, 1);
    }
    ((serial_fn)real_entry(runtime, KMPC_SERIALIZED, "__kmpc_serialized_parallel"))(place, thread);
}

#endif
