/* The functions of wattfold.h while the shim is loaded. */
#include "agent_link.h"
#include "lifecycle.h"
#include "teams.h"

#include <math.h>
#include <sched.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

static __thread uint32_t polled __attribute__((tls_model("initial-exec")));

EXPORT int wattfold_poll(wattfold_mask *out)
{
    if (!shim_running())
        return 0;
    const uint32_t count = word_count(atomic_load_explicit(&team_word, memory_order_acquire));
    if (__builtin_expect(count == polled, 1))
        return 0;
    polled = count;
    if (out != NULL)
        link_mask(out);
    return 1;
}

EXPORT void wattfold_progress(double done, double total)
{
    if (shim_running() && isfinite(done) && isfinite(total) && done >= 0 && total >= 0)
        link_progress(done, total);
}

static unsigned affinity_cores(void)
{
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (unsigned)CPU_COUNT(&cpus) : 1;
}

EXPORT unsigned wattfold_cores(void)
{
    if (!shim_running())
        return affinity_cores();
    wattfold_mask mask;
    link_mask(&mask);
    if (mask.seq != 0)
        return mask.cores;
    const uint32_t launch = atomic_load(&team_launch);
    return launch != 0 ? launch : affinity_cores();
}

EXPORT const char *wattfold_version(void)
{
    return WATTFOLD_SHIM_VERSION;
}
