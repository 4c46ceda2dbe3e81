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

/* Grows when a declaration below changes incompatibly. */
#define WATTFOLD_ABI_VERSION 1

/* Numbers of CPUs a mask can name: 0 .. WATTFOLD_MASK_CPUS - 1 (the kernel's largest NR_CPUS). */
#define WATTFOLD_MASK_CPUS 8192
#define WATTFOLD_MASK_WORDS (WATTFOLD_MASK_CPUS / 64)

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

/* Whether the mask changed since the last call of this thread: 1 and *out filled in, else 0 and
 * *out untouched. The first call of a thread returns 1 once any mask was received. out may be NULL.
 * Costs one atomic load while nothing changed: call it as often as wanted. */
int wattfold_poll(wattfold_mask *out);

/* Reports how far the program is: done of total, in any unit of work of its own (steps, particles);
 * total 0 means unknown. Negative and non-finite values are ignored. Costs two atomic stores. */
void wattfold_progress(double done, double total);

/* Number of cores the program should use now: that of the mask, before the first mask the number it
 * was launched with. Without the shim: the number of CPUs the calling thread may run on. Never 0. */
unsigned wattfold_cores(void);

/* Version of the shim at work, for example "0.1.0"; "" when there is none. Never NULL. */
const char *wattfold_version(void);

#ifdef __cplusplus
}
#endif

#endif /* WATTFOLD_H */
