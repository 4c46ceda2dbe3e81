/* The real OpenMP runtime behind each caller.
 *
 * A process may hold several (Python extensions bring their own libgomp). A call is passed on to the
 * one it would have reached without the shim: the next in the global scope, else the one among the
 * caller's own dependencies, else any that is loaded. The answer is kept per call site. */
#ifndef WATTFOLD_RUNTIME_H
#define WATTFOLD_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum runtime_entry {
    GOMP_PARALLEL,
    GOMP_PARALLEL_REDUCTIONS,
    GOMP_PARALLEL_SECTIONS,
    GOMP_LOOP_STATIC,
    GOMP_LOOP_DYNAMIC,
    GOMP_LOOP_GUIDED,
    GOMP_LOOP_RUNTIME,
    GOMP_LOOP_NONMONOTONIC_DYNAMIC,
    GOMP_LOOP_NONMONOTONIC_GUIDED,
    GOMP_LOOP_NONMONOTONIC_RUNTIME,
    GOMP_LOOP_MAYBE_NONMONOTONIC_RUNTIME,
    GOMP_START,
    GOMP_END,
    GOMP_LOOP_STATIC_START,
    GOMP_LOOP_DYNAMIC_START,
    GOMP_LOOP_GUIDED_START,
    GOMP_LOOP_RUNTIME_START,
    GOMP_SECTIONS_START,
    KMPC_PUSH_NUM_THREADS,
    KMPC_FORK_CALL,
    KMPC_FORK_CALL_IF,
    KMPC_SERIALIZED,
    KMPC_GLOBAL_THREAD_NUM,
    OMP_GET_MAX_THREADS,
    OMP_SET_NUM_THREADS,
    RUNTIME_ENTRIES
};

typedef void (*runtime_function)(void);

struct runtime {
    runtime_function entry[RUNTIME_ENTRIES]; /* NULL: this runtime lacks it */
    int (*active_level)(void);
    int (*max_threads)(void);
    int (*level)(void);
    int (*team_size)(int level);
    int (*max_active_levels)(void);
    int (*thread_limit)(void);
    void (*set_num_threads)(int threads);
    /* NULL where the runtime lacks them. */
    int (*pause)(int kind, int device);
    int (*initial_device)(void);
    void (*set_blocktime)(int milliseconds);
    bool is_gnu;
    uintptr_t begin, end; /* where its library is in memory */
    struct runtime *next;
};

static inline bool runtime_contains(const struct runtime *runtime, const void *address)
{
    return (uintptr_t)address - runtime->begin < runtime->end - runtime->begin;
}

struct call_site {
    const void *caller;
    const struct runtime *runtime;
    struct call_site *next;
};

#define CALL_SITE_BUCKETS 256
extern _Atomic(struct call_site *) call_sites[CALL_SITE_BUCKETS];

static inline size_t call_site_bucket(const void *caller)
{
    const uintptr_t address = (uintptr_t)caller;
    return (address ^ (address >> 8) ^ (address >> 16)) % CALL_SITE_BUCKETS;
}

/* Slow path of runtime_for. When there is no runtime at all: ends the process for a region, NULL for a
 * question (a program may ask without one: a weak reference finds our function). */
const struct runtime *runtime_find(const void *caller, enum runtime_entry entry);

/* The runtime a call of `entry` from this place would have reached without the shim. */
static inline const struct runtime *runtime_for(const void *caller, enum runtime_entry entry)
{
    const struct call_site *site =
        atomic_load_explicit(&call_sites[call_site_bucket(caller)], memory_order_acquire);
    for (; site != NULL; site = site->next)
        if (site->caller == caller)
            return site->runtime;
    return runtime_find(caller, entry);
}

/* The LLVM or Intel runtime this address is part of, else one that is loaded; NULL when there is none. */
const struct runtime *runtime_holding(const void *address);

/* A handle of the first loaded runtime of LLVM or Intel, with `gnu_too` also of GNU; NULL when there is none. */
void *runtime_loaded(bool gnu_too);

/* What OpenMP runtime the process has now: "libgomp", "libomp", "static-libgomp?", "static-libomp?"
 * or "none". */
const char *runtime_name(void);

#endif
