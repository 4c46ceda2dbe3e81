/* LLVM's and Intel's runtimes: a tool that limits the team of a region in the moment it starts.
 *
 * At work only where the regions are not limited before they reach the runtime (kmpc.h): it costs more.
 *
 * The runtime asks the tool before it reads the number of threads of the region, so that setting it there
 * changes that same region. It is put back when the region ends: outside of regions the program sees its
 * own setting. A num_threads clause goes before the setting and is limited where the program states it.
 *
 * A runtime takes one tool. The shim is that one, and passes everything on to the tool that would have
 * been there without it: one of another library in the process, or of OMP_TOOL_LIBRARIES. */
#include "ompt.h"

#include "front.h"
#include "regions.h"
#include "tool.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT ompt_tool_t *ompt_start_tool(unsigned omp_version, const char *runtime_version);
EXPORT int omp_get_max_threads(void);
EXPORT int omp_get_max_threads_(void);
EXPORT void omp_set_num_threads(int threads);
EXPORT void omp_set_num_threads_(const int *threads);
EXPORT void omp_set_num_threads_8_(const int64_t *threads);

_Atomic bool tool_at_work;

static const struct runtime *reporting;
static ompt_lookup real_lookup;
static ompt_set_callback real_set_callback;

/* The tool behind us. */
static ompt_tool_t *next_tool;
static ompt_parallel_begin next_begin;
static ompt_parallel_end next_end;

/* ---- regions --------------------------------------------------------------------------------------- */

/* Puts back a setting that a region of one thread has left behind: its end is reported while its own task
 * is still current. True when there was one. */
static bool settle(struct lane *lane)
{
    const int due = lane->restore_due, level = reporting->level();
    if (due == 0 || level > lane->restore_level)
        return false;
    lane->restore_due = 0;
    if (level < lane->restore_level) /* the task whose setting it was is gone */
        return false;
    reporting->set_num_threads(due);
    return true;
}

/* Without a clause the runtime asks for the current setting: only that can be changed here. */
static void limit(struct lane *lane, struct reported *reported, unsigned requested, bool clause)
{
    if (reported->level == 0 && !lane->waits_shortly)
        region_limit_spinning(reporting, lane);
    /* Questions to the runtime cost as much as all of the rest: none for the usual region. */
    const unsigned want = clause ? requested : region_wanted(reporting, requested);
    const unsigned team =
        reported->level == 0 && shim_running()
            ? region_enter_outermost(reporting, &reported->region, lane, want)
            : region_enter(reporting, &reported->region, requested);
    if (team != requested && !clause) {
        reported->restore = reporting->max_threads();
        reporting->set_num_threads((int)team);
    }
}

static void begin(unsigned requested, bool outermost)
{
    struct lane *lane = team_lane != NULL ? team_lane : lane_claim();
    if (lane == NULL)
        return;
    const int level = outermost ? 0 : reporting->level();
    const bool clause = lane->clause != 0;
    lane->clause = 0;
    if (level == 0)
        lane->reported_depth = 0; /* whatever was left open by an unusual end */
    if (lane->restore_due != 0 && settle(lane) && !clause)
        requested = (unsigned)reporting->max_threads();
    if (lane->reported_depth >= LANE_STACK) { /* too deep to be kept: passed on untouched */
        lane->reported_depth++;
        return;
    }
    struct reported *reported = &lane->reported[lane->reported_depth++];
    reported->region.lane = NULL;
    reported->level = level;
    reported->restore = 0;
    if (lane->relayed)
        lane->relayed = false; /* accounted and limited by the entry point it came through */
    else
        limit(lane, reported, requested, clause);
}

static void end(void)
{
    struct lane *lane = team_lane;
    if (lane == NULL || lane->reported_depth == 0)
        return;
    lane->reported_depth--;
    if (lane->reported_depth >= LANE_STACK)
        return;
    const struct reported *reported = &lane->reported[lane->reported_depth];
    if (reported->restore != 0 && reporting->level() == reported->level) {
        reporting->set_num_threads(reported->restore);
    } else if (reported->restore != 0) {
        lane->restore_due = reported->restore;
        lane->restore_level = reported->level;
    }
    region_leave(&reported->region);
}

static void on_begin(ompt_data_t *task, const ompt_frame_t *frame, ompt_data_t *parallel,
                     unsigned requested, int flags, const void *code)
{
    if ((flags & OMPT_PARALLEL_LEAGUE) == 0)
        begin(requested, frame != NULL && frame->exit_frame.ptr == NULL);
    if (next_begin != NULL)
        next_begin(task, frame, parallel, requested, flags, code);
}

static void on_end(ompt_data_t *parallel, ompt_data_t *task, int flags, const void *code)
{
    if (next_end != NULL)
        next_end(parallel, task, flags, code);
    if ((flags & OMPT_PARALLEL_LEAGUE) == 0)
        end();
}

int tool_limit_clause(const struct runtime *runtime, struct lane *lane, int threads)
{
    if (lane == NULL || shim_config.mode != MODE_TEAM)
        return threads;
    if (runtime->active_level() > 0) {
        /* What the region will get, without starting to account it. */
        struct region region = {.lane = NULL};
        threads = (int)region_enter_nested(runtime, &region, lane, (unsigned)threads);
        region_leave(&region);
        return threads;
    }
    const uint32_t allowed = limit_now();
    const uint32_t most = team_most();
    if ((uint32_t)threads > allowed)
        threads = (int)allowed;
    if (most != 0 && (uint32_t)threads > most)
        threads = (int)most;
    return threads;
}

/* The program asks for, or changes, the setting while ours is still in place: its own comes back first. */
static void settle_before(void)
{
    if (team_lane != NULL && team_lane->restore_due != 0 && tool_reports())
        settle(team_lane);
}

static int max_threads(const void *caller)
{
    const struct runtime *runtime = runtime_for(caller, OMP_GET_MAX_THREADS);
    settle_before();
    return runtime == NULL ? 1 : runtime->max_threads();
}

static void set_num_threads(const void *caller, int threads)
{
    const struct runtime *runtime = runtime_for(caller, OMP_SET_NUM_THREADS);
    settle_before();
    if (runtime != NULL)
        runtime->set_num_threads(threads);
}

/* C, and Fortran with default integers of 4 and of 8 bytes. */
EXPORT int omp_get_max_threads(void)
{
    return max_threads(__builtin_return_address(0));
}

EXPORT int omp_get_max_threads_(void)
{
    return max_threads(__builtin_return_address(0));
}

EXPORT void omp_set_num_threads(int threads)
{
    set_num_threads(__builtin_return_address(0), threads);
}

EXPORT void omp_set_num_threads_(const int *threads)
{
    set_num_threads(__builtin_return_address(0), *threads);
}

EXPORT void omp_set_num_threads_8_(const int64_t *threads)
{
    const int64_t most = 0x7fffffff;
    set_num_threads(__builtin_return_address(0), (int)(*threads < most ? *threads : most));
}

/* ---- the tool behind us ------------------------------------------------------------------------------ */

static int set_callback_for_next(int event, ompt_callback callback)
{
    if (event == OMPT_PARALLEL_BEGIN)
        next_begin = (ompt_parallel_begin)callback;
    else if (event == OMPT_PARALLEL_END)
        next_end = (ompt_parallel_end)callback;
    else
        return real_set_callback(event, callback);
    return OMPT_SET_ALWAYS;
}

static int get_callback_for_next(int event, ompt_callback *callback)
{
    const ompt_get_callback real = (ompt_get_callback)real_lookup("ompt_get_callback");
    if (event != OMPT_PARALLEL_BEGIN && event != OMPT_PARALLEL_END)
        return real == NULL ? 0 : real(event, callback);
    *callback = event == OMPT_PARALLEL_BEGIN ? (ompt_callback)next_begin : (ompt_callback)next_end;
    return *callback != NULL;
}

static ompt_interface_fn lookup_for_next(const char *name)
{
    if (strcmp(name, "ompt_set_callback") == 0)
        return (ompt_interface_fn)set_callback_for_next;
    if (strcmp(name, "ompt_get_callback") == 0)
        return (ompt_interface_fn)get_callback_for_next;
    return real_lookup(name);
}

static ompt_tool_t *start_from(void *library, unsigned version, const char *runtime)
{
    void *address = dlsym(library, "ompt_start_tool");
    ompt_start start;
    memcpy(&start, &address, sizeof start);
    return start == NULL || start == ompt_start_tool ? NULL : start(version, runtime);
}

/* As the runtime would do it: the libraries of the list in order, the first that answers. */
static ompt_tool_t *start_listed(unsigned version, const char *runtime)
{
    const char *listed = getenv("OMP_TOOL_LIBRARIES");
    char *paths = listed == NULL ? NULL : strdup(listed);
    ompt_tool_t *tool = NULL;
    char *rest = NULL;
    for (char *path = paths == NULL ? NULL : strtok_r(paths, ":", &rest); path != NULL && tool == NULL;
         path = strtok_r(NULL, ":", &rest)) {
        void *library = dlopen(path, RTLD_LAZY);
        if (library != NULL)
            tool = start_from(library, version, runtime);
        if (library != NULL && tool == NULL)
            dlclose(library);
    }
    free(paths);
    return tool;
}

/* ---- our own end of the interface -------------------------------------------------------------------- */

static int initialize(ompt_lookup lookup, int initial_device, ompt_data_t *tool_data)
{
    (void)tool_data;
    real_lookup = lookup;
    real_set_callback = (ompt_set_callback)lookup("ompt_set_callback");
    if (real_set_callback == NULL ||
        real_set_callback(OMPT_PARALLEL_BEGIN, (ompt_callback)on_begin) != OMPT_SET_ALWAYS ||
        real_set_callback(OMPT_PARALLEL_END, (ompt_callback)on_end) != OMPT_SET_ALWAYS) {
        shim_fail("the OpenMP runtime does not report its parallel regions", NULL);
        atomic_store(&tool_at_work, false);
    }
    if (next_tool != NULL &&
        next_tool->initialize(lookup_for_next, initial_device, &next_tool->tool_data) == 0)
        next_tool = NULL;
    return tool_reports() || next_tool != NULL;
}

static void finalize(ompt_data_t *tool_data)
{
    (void)tool_data;
    if (next_tool != NULL)
        next_tool->finalize(&next_tool->tool_data);
}

EXPORT ompt_tool_t *ompt_start_tool(unsigned omp_version, const char *runtime_version)
{
    static ompt_tool_t tool = {.initialize = initialize, .finalize = finalize};
    next_tool = start_from(RTLD_NEXT, omp_version, runtime_version);
    /* Not managed: as if we were not there. The runtime reads OMP_TOOL_LIBRARIES itself then. */
    if (!shim_running())
        return next_tool;
    if (next_tool == NULL)
        next_tool = start_listed(omp_version, runtime_version);
    /* The runtime is faster without a tool. One behind us needs its regions reported as they are. */
    if (next_tool == NULL && front_has_calls())
        return NULL;
    reporting = runtime_holding(__builtin_return_address(0));
    atomic_store(&tool_at_work, reporting != NULL);
    return reporting == NULL ? next_tool : &tool;
}
