/* wattfold.h - interface between a program and the resource manager that resizes it.
 *
 * The interface is optional: Wattfold resizes unmodified OpenMP programs without it. Link with
 * libwattfold.a (pkg-config wattfold). The program then runs with and without the shim. Without the
 * shim every call is a cheap no-op and returns the result for an unmanaged program.
 *
 * All functions may be called from any thread, also inside parallel regions, but not from signal
 * handlers. A child made by fork() without exec() gets the results for an unmanaged program. */
#ifndef WATTFOLD_H
#define WATTFOLD_H

#include <stdint.h>

/* Version of the binary interface. It increases with an incompatible change of a declaration below.
 * Version 1 had poll, progress, cores and version; programs linked with its library still work. */
#define WATTFOLD_ABI_VERSION 2

/* Number of CPUs in a mask, from 0 to WATTFOLD_MASK_CPUS - 1 (the maximum NR_CPUS of the kernel). */
#define WATTFOLD_MASK_CPUS 8192
#define WATTFOLD_MASK_WORDS (WATTFOLD_MASK_CPUS / 64)

/* Maximum length of the name of a phase; the rest is dropped. */
#define WATTFOLD_PHASE_CHARS 31

/* Maximum number of registered callbacks. */
#define WATTFOLD_CALLBACKS_MAX 16

#ifdef __cplusplus
extern "C" {
#endif

/* Cores of this job on this node. CPU c is in the mask if bit c % 64 of bits[c / 64] is set. */
typedef struct wattfold_mask {
    uint64_t seq;      /* increases with every change; 0: no mask has arrived yet */
    uint32_t cores;    /* number of set bits */
    uint32_t reserved; /* 0 */
    uint64_t bits[WATTFOLD_MASK_WORDS];
} wattfold_mask;

/* Function to call after a change of the mask. */
typedef void (*wattfold_callback)(const wattfold_mask *mask, void *context);

/* Returns 1 and fills in *out if the mask has changed since the last call of this thread. Otherwise
 * returns 0 and leaves *out unchanged. The first call of a thread returns 1 if any mask has arrived.
 * out may be NULL. Without a change the call costs two loads and a comparison: call it often. */
static inline int wattfold_poll(wattfold_mask *out);

/* Returns 1 and fills in *out with the current mask, or returns 0 if no mask has arrived yet. */
int wattfold_get_mask(wattfold_mask *out);

/* Returns the number of cores that the program should use now: the size of the mask, or before the
 * first mask the launch size. Without the shim: the number of CPUs in the affinity of the calling
 * thread. Never 0. */
unsigned wattfold_cores(void);

/* Registers a callback for all later changes of the mask. It runs on a thread of the shim with all
 * signals blocked and delays the next mask. It should record the change and return soon, and must not
 * start parallel regions. Returns a number for wattfold_off_change, or -1 without the shim or with too
 * many callbacks. */
int wattfold_on_change(wattfold_callback callback, void *context);

/* Removes a callback. After the return it is not running and will not run again, unless it called this
 * function itself. Unknown numbers are ignored. */
void wattfold_off_change(int number);

/* Reports progress: done of total, in any unit of work (steps, particles). A total of 0 means unknown.
 * Negative and non-finite values are ignored. The call costs two atomic stores. */
void wattfold_progress(double done, double total);

/* Reports the current phase of the program, for example "assembly"; NULL or "" means no phase. Letters,
 * digits and "._-" are kept; other characters become "_". */
void wattfold_phase(const char *name);

/* Requests this number of cores on this node; 0 withdraws the request. The manager may ignore it; if it
 * grants cores, the mask changes. Returns 1 if a manager may receive the request, 0 otherwise. */
int wattfold_request(unsigned cores);

/* Allows teams of up to this number of threads, also above the launch size; 0 withdraws it. Call it only
 * if nothing depends on the launch size, such as arrays sized by omp_get_max_threads() at the start.
 * Regions without a num_threads clause then get one thread for each core of the mask, unless the program
 * has set fewer threads than the launch size. OMP_THREAD_LIMIT applies. Returns 1 if teams follow the
 * mask, 0 otherwise. */
int wattfold_allow_growth(unsigned most);

/* Returns the version of the active shim, for example "0.1.0", or "" without a shim. Never NULL. */
const char *wattfold_version(void);

/* Does the same as wattfold_poll, as a real function for other languages. */
int wattfold_poll_call(wattfold_mask *out);

/* Internal: number of changes so far, and number of the last change that this thread has seen. */
extern const volatile uint32_t *wattfold_changes_;
extern __thread uint32_t wattfold_seen_ __attribute__((tls_model("initial-exec")));
int wattfold_take_(wattfold_mask *out, uint32_t *seen);

static inline int wattfold_poll(wattfold_mask *out)
{
    if (__builtin_expect(*wattfold_changes_ == wattfold_seen_, 1))
        return 0;
    return wattfold_take_(out, &wattfold_seen_);
}

#ifdef __cplusplus
}
#endif

#endif /* WATTFOLD_H */
