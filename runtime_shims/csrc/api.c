/* The functions of wattfold.h while the shim is loaded. */
#include "agent_link.h"
#include "callbacks.h"
#include "interface.h"
#include "state.h"
#include "teams.h"

#include <math.h>
#include <sched.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

/* The first poll of every thread comes here, so that a program without OpenMP starts the helper. */
static int take(wattfold_mask *out, uint32_t *seen)
{
    const bool running = shim_running();
    const uint32_t changes = atomic_load_explicit(&link_changes, memory_order_acquire);
    if (changes == *seen)
        return 0;
    *seen = changes;
    if (!running || changes == LINK_NO_CHANGE)
        return 0;
    if (out != NULL)
        link_mask(out);
    return 1;
}

static int get_mask(wattfold_mask *out)
{
    wattfold_mask mask;
    if (!shim_running())
        return 0;
    link_mask(&mask);
    if (mask.seq == 0)
        return 0;
    *out = mask;
    return 1;
}

static unsigned affinity_cores(void)
{
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (unsigned)CPU_COUNT(&cpus) : 1;
}

static unsigned cores(void)
{
    wattfold_mask mask;
    if (!shim_running())
        return affinity_cores();
    link_mask(&mask);
    if (mask.seq != 0)
        return mask.cores;
    const uint32_t launch = atomic_load(&team_launch), limit = limit_now();
    return launch == 0 ? affinity_cores() : limit < launch ? limit : launch;
}

static int on_change(wattfold_callback callback, void *context)
{
    return callback != NULL && shim_running() ? callbacks_add(callback, context) : -1;
}

static void progress(double done, double total)
{
    if (shim_running() && isfinite(done) && isfinite(total) && done >= 0 && total >= 0)
        link_progress(done, total);
}

static void phase(const char *name)
{
    if (shim_running())
        link_phase(name == NULL ? "" : name);
}

static int request(unsigned wanted)
{
    if (!shim_running())
        return 0;
    link_request(wanted);
    return 1;
}

static int allow_growth(unsigned most)
{
    if (!shim_running() || shim_config.mode != MODE_TEAM)
        return 0;
    if (atomic_exchange(&team_growth_max, most) != most)
        link_growth_changed();
    return 1;
}

static const char *version(void)
{
    return WATTFOLD_SHIM_VERSION;
}

EXPORT const struct wattfold_interface *wattfold_interface(uint32_t abi);

EXPORT const struct wattfold_interface *wattfold_interface(uint32_t abi)
{
    static const struct wattfold_interface table = {
        .bytes = sizeof table,
        .changes = (const volatile uint32_t *)&link_changes,
        .take = take,
        .get_mask = get_mask,
        .cores = cores,
        .on_change = on_change,
        .off_change = callbacks_remove,
        .progress = progress,
        .phase = phase,
        .request = request,
        .version = version,
        .allow_growth = allow_growth,
    };
    return abi == WATTFOLD_ABI_VERSION ? &table : NULL;
}

/* Programs linked with version 1 of libwattfold.a find the functions by these names. */
EXPORT int poll_1(wattfold_mask *out) __asm__("wattfold_poll");
EXPORT void progress_1(double done, double total) __asm__("wattfold_progress");
EXPORT unsigned cores_1(void) __asm__("wattfold_cores");
EXPORT const char *version_1(void) __asm__("wattfold_version");

EXPORT int poll_1(wattfold_mask *out)
{
    static __thread uint32_t seen __attribute__((tls_model("initial-exec")));
    return take(out, &seen);
}

EXPORT void progress_1(double done, double total)
{
    progress(done, total);
}

EXPORT unsigned cores_1(void)
{
    return cores();
}

EXPORT const char *version_1(void)
{
    return version();
}
