/* wattfold.h - what a program may ask and tell the resource manager that resizes it.
 *
 * Optional: an unmodified OpenMP program is resized without it. Link with libwattfold.a
 * (pkg-config wattfold); the program then runs with and without the shim. Without the shim every
 * call is a cheap no-op with the answer of an unmanaged program.
 *
 * All functions may be called from any thread, also inside parallel regions, but not from signal
 * handlers. After fork() (without exec) a child is on its own: it is answered as if unmanaged. */
#ifndef WATTFOLD_H
#define WATTFOLD_H

#include <stdint.h>

/* Grows when a declaration below changes incompatibly. Version 1 had poll, progress, cores and
 * version; programs linked with its library go on working. */
#define WATTFOLD_ABI_VERSION 2

/* Numbers of CPUs a mask can name: 0 .. WATTFOLD_MASK_CPUS - 1 (the kernel's largest NR_CPUS). */
#define WATTFOLD_MASK_CPUS 8192
#define WATTFOLD_MASK_WORDS (WATTFOLD_MASK_CPUS / 64)

/* Characters of a phase's name that are kept. */
#define WATTFOLD_PHASE_CHARS 31

/* Callbacks that can be registered at the same time. */
#define WATTFOLD_CALLBACKS_MAX 16

#ifdef __cplusplus
extern "C" {
#endif

/* The cores of this job on this node. CPU c is in the mask when bit c % 64 of bits[c / 64] is set. */
typedef struct wattfold_mask {
    uint64_t seq;      /* grows with every change; 0: no mask was received yet */
    uint32_t cores;    /* number of bits set */
    uint32_t reserved; /* 0 */
    uint64_t bits[WATTFOLD_MASK_WORDS];
} wattfold_mask;

/* Called after the mask has changed. */
typedef void (*wattfold_callback)(const wattfold_mask *mask, void *context);

/* Whether the mask changed since the last call of this thread: 1 and *out filled in, else 0 and
 * *out untouched. The first call of a thread returns 1 once any mask was received. out may be NULL.
 * Two loads and a comparison while nothing changed: call it as often as wanted. */
static inline int wattfold_poll(wattfold_mask *out);

/* The mask in force: 1 and *out filled in, or 0 when none was received. */
int wattfold_get_mask(wattfold_mask *out);

/* Number of cores the program should use now: that of the mask, before the first mask the number it
 * was launched with. Without the shim: the number of CPUs the calling thread may run on. Never 0. */
unsigned wattfold_cores(void);

/* Has a function called after each later change of the mask. It runs on a thread of the shim, with all
 * signals blocked, and holds up the next mask: it should note the change and return, and must not start
 * parallel regions. Returns a number for wattfold_off_change, or -1: no shim, or too many callbacks. */
int wattfold_on_change(wattfold_callback callback, void *context);

/* Ends that. On return the callback does not run and will not run again (unless it calls this itself).
 * Unknown numbers are ignored. */
void wattfold_off_change(int number);

/* Reports how far the program is: done of total, in any unit of work of its own (steps, particles);
 * total 0 means unknown. Negative and non-finite values are ignored. Costs two atomic stores. */
void wattfold_progress(double done, double total);

/* Names the phase the program is in, for example "assembly"; NULL or "" for none. Letters, digits and
 * "._-" are kept, anything else becomes "_". */
void wattfold_phase(const char *name);

/* Asks for this number of cores on this node; 0 takes the wish back. It is only a wish: the answer, if it
 * comes, is a change of the mask. Returns 1 when there is a manager that may hear it, else 0. */
int wattfold_request(unsigned cores);

/* Says that this program bears teams of up to this many threads, also beyond the number it was launched with;
 * 0 takes that back. Call it only if nothing (arrays sized by omp_get_max_threads() at the start, for
 * example) depends on the launch size. Regions without a num_threads clause, of a program that does not ask
 * for fewer threads than at its launch, then get as many as the mask has cores; OMP_THREAD_LIMIT holds.
 * Returns 1 where teams follow the mask, else 0. */
int wattfold_allow_growth(unsigned most);

/* Version of the shim at work, for example "0.1.0"; "" when there is none. Never NULL. */
const char *wattfold_version(void);

/* wattfold_poll as a function, for other languages. */
int wattfold_poll_call(wattfold_mask *out);

/* Of the implementation: the number of changes so far, and the one this thread has seen. */
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
