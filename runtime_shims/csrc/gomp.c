/* The entry points of libgomp that start a parallel region, each in front of the real one.
 *
 * Signatures follow libgomp's binary interface (GOMP_1.0 to GOMP_5.0): `num_threads` is 0 without a
 * clause, 1 for a serial region, else the clause. Programs of gcc before 4.9 call the *_start forms,
 * run the body themselves and then call GOMP_parallel_end. */
#include "regions.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define REAL(runtime, index, type) ((type)real_entry(runtime, index))

typedef void (*body)(void *);
typedef void (*parallel_fn)(body, void *, unsigned, unsigned);
typedef unsigned (*reductions_fn)(body, void *, unsigned, unsigned);
typedef void (*sections_fn)(body, void *, unsigned, unsigned, unsigned);
typedef void (*loop_fn)(body, void *, unsigned, long, long, long, long, unsigned);
typedef void (*loop_runtime_fn)(body, void *, unsigned, long, long, long, unsigned);
typedef void (*start_fn)(body, void *, unsigned);
typedef void (*end_fn)(void);
typedef void (*loop_start_fn)(body, void *, unsigned, long, long, long, long);
typedef void (*loop_runtime_start_fn)(body, void *, unsigned, long, long, long);
typedef void (*sections_start_fn)(body, void *, unsigned, unsigned);

static inline runtime_function real_entry(const struct runtime *runtime, enum runtime_entry index)
{
    if (__builtin_expect(runtime->entry[index] == NULL, 0)) {
        dprintf(STDERR_FILENO, "wattfold: the OpenMP runtime lacks entry point %d\n", (int)index);
        abort();
    }
    return runtime->entry[index];
}

static inline unsigned enter(const struct runtime *runtime, struct region *region, unsigned asked)
{
    const unsigned threads = region_enter(runtime, region, asked);
    if (!runtime->is_gnu && team_lane != NULL)
        team_lane->relayed = true; /* it will be reported to the OMPT tool too */
    return threads;
}

static inline void leave(const struct region *region)
{
    if (team_lane != NULL)
        team_lane->relayed = false;
    region_leave(region);
}

/* The *_start forms keep the open region with the thread until GOMP_parallel_end. */
static unsigned open_region(const struct runtime *runtime, unsigned asked)
{
    struct lane *lane = team_lane != NULL ? team_lane : lane_claim();
    if (lane == NULL)
        return asked;
    const bool fits = lane->depth < LANE_STACK;
    const unsigned threads = fits ? enter(runtime, &lane->open[lane->depth], asked) : asked;
    lane->depth++;
    return threads;
}

static void close_region(void)
{
    struct lane *lane = team_lane;
    if (lane == NULL || lane->depth == 0)
        return;
    lane->depth--;
    if (lane->depth < LANE_STACK)
        leave(&lane->open[lane->depth]);
}

EXPORT void GOMP_parallel(body fn, void *data, unsigned num_threads, unsigned flags)
{
    const struct runtime *runtime = runtime_for(__builtin_return_address(0), GOMP_PARALLEL);
    struct region region;
    num_threads = enter(runtime, &region, num_threads);
    REAL(runtime, GOMP_PARALLEL, parallel_fn)(fn, data, num_threads, flags);
    leave(&region);
}

EXPORT unsigned GOMP_parallel_reductions(body fn, void *data, unsigned num_threads, unsigned flags)
{
    const struct runtime *runtime = runtime_for(__builtin_return_address(0), GOMP_PARALLEL);
    struct region region;
    num_threads = enter(runtime, &region, num_threads);
    const unsigned used =
        REAL(runtime, GOMP_PARALLEL_REDUCTIONS, reductions_fn)(fn, data, num_threads, flags);
    leave(&region);
    return used;
}

EXPORT void GOMP_parallel_sections(body fn, void *data, unsigned num_threads, unsigned count,
                                   unsigned flags)
{
    const struct runtime *runtime = runtime_for(__builtin_return_address(0), GOMP_PARALLEL);
    struct region region;
    num_threads = enter(runtime, &region, num_threads);
    REAL(runtime, GOMP_PARALLEL_SECTIONS, sections_fn)(fn, data, num_threads, count, flags);
    leave(&region);
}

#define LOOP(name, index)                                                                          \
    EXPORT void name(body fn, void *data, unsigned num_threads, long start, long end, long incr,   \
                     long chunk, unsigned flags)                                                   \
    {                                                                                              \
        const struct runtime *runtime = runtime_for(__builtin_return_address(0), GOMP_PARALLEL);                  \
        struct region region;                                                                      \
        num_threads = enter(runtime, &region, num_threads);                                        \
        REAL(runtime, index, loop_fn)(fn, data, num_threads, start, end, incr, chunk, flags);      \
        leave(&region);                                                                            \
    }

LOOP(GOMP_parallel_loop_static, GOMP_LOOP_STATIC)
LOOP(GOMP_parallel_loop_dynamic, GOMP_LOOP_DYNAMIC)
LOOP(GOMP_parallel_loop_guided, GOMP_LOOP_GUIDED)
LOOP(GOMP_parallel_loop_nonmonotonic_dynamic, GOMP_LOOP_NONMONOTONIC_DYNAMIC)
LOOP(GOMP_parallel_loop_nonmonotonic_guided, GOMP_LOOP_NONMONOTONIC_GUIDED)

#define LOOP_RUNTIME(name, index)                                                                  \
    EXPORT void name(body fn, void *data, unsigned num_threads, long start, long end, long incr,   \
                     unsigned flags)                                                               \
    {                                                                                              \
        const struct runtime *runtime = runtime_for(__builtin_return_address(0), GOMP_PARALLEL);                  \
        struct region region;                                                                      \
        num_threads = enter(runtime, &region, num_threads);                                        \
        REAL(runtime, index, loop_runtime_fn)(fn, data, num_threads, start, end, incr, flags);     \
        leave(&region);                                                                            \
    }

LOOP_RUNTIME(GOMP_parallel_loop_runtime, GOMP_LOOP_RUNTIME)
LOOP_RUNTIME(GOMP_parallel_loop_nonmonotonic_runtime, GOMP_LOOP_NONMONOTONIC_RUNTIME)
LOOP_RUNTIME(GOMP_parallel_loop_maybe_nonmonotonic_runtime, GOMP_LOOP_MAYBE_NONMONOTONIC_RUNTIME)

EXPORT void GOMP_parallel_start(body fn, void *data, unsigned num_threads)
{
    const struct runtime *runtime = runtime_for(__builtin_return_address(0), GOMP_PARALLEL);
    num_threads = open_region(runtime, num_threads);
    REAL(runtime, GOMP_START, start_fn)(fn, data, num_threads);
}

EXPORT void GOMP_parallel_end(void)
{
    const struct runtime *runtime = runtime_for(__builtin_return_address(0), GOMP_PARALLEL);
    REAL(runtime, GOMP_END, end_fn)();
    close_region();
}

#define LOOP_START(name, index)                                                                    \
    EXPORT void name(body fn, void *data, unsigned num_threads, long start, long end, long incr,   \
                     long chunk)                                                                   \
    {                                                                                              \
        const struct runtime *runtime = runtime_for(__builtin_return_address(0), GOMP_PARALLEL);                  \
        num_threads = open_region(runtime, num_threads);                                           \
        REAL(runtime, index, loop_start_fn)(fn, data, num_threads, start, end, incr, chunk);       \
    }

LOOP_START(GOMP_parallel_loop_static_start, GOMP_LOOP_STATIC_START)
LOOP_START(GOMP_parallel_loop_dynamic_start, GOMP_LOOP_DYNAMIC_START)
LOOP_START(GOMP_parallel_loop_guided_start, GOMP_LOOP_GUIDED_START)

EXPORT void GOMP_parallel_loop_runtime_start(body fn, void *data, unsigned num_threads, long start,
                                             long end, long incr)
{
    const struct runtime *runtime = runtime_for(__builtin_return_address(0), GOMP_PARALLEL);
    num_threads = open_region(runtime, num_threads);
    REAL(runtime, GOMP_LOOP_RUNTIME_START, loop_runtime_start_fn)
    (fn, data, num_threads, start, end, incr);
}

EXPORT void GOMP_parallel_sections_start(body fn, void *data, unsigned num_threads, unsigned count)
{
    const struct runtime *runtime = runtime_for(__builtin_return_address(0), GOMP_PARALLEL);
    num_threads = open_region(runtime, num_threads);
    REAL(runtime, GOMP_SECTIONS_START, sections_start_fn)(fn, data, num_threads, count);
}
