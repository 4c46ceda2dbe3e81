/* libwattfold.a: what a program that uses wattfold.h is linked with.
 *
 * Hidden symbols, so that they do not hide the shim's: at load time they look for it and pass calls
 * on, and without it answer as in an unmanaged program. */
#include "interface.h"

#include <dlfcn.h>
#include <sched.h>
#include <string.h>

#define HIDDEN __attribute__((visibility("hidden")))

static const volatile uint32_t never = 0;
static const struct wattfold_interface *shim;

HIDDEN const volatile uint32_t *wattfold_changes_ = &never;
HIDDEN __thread uint32_t wattfold_seen_;

static __attribute__((constructor)) void look_for_shim(void)
{
    void *address = dlsym(RTLD_DEFAULT, WATTFOLD_INTERFACE_SYMBOL);
    wattfold_interface_fn ask;
    memcpy(&ask, &address, sizeof ask);
    const struct wattfold_interface *found = ask == NULL ? NULL : ask(WATTFOLD_ABI_VERSION);
    if (found == NULL || found->bytes < WATTFOLD_INTERFACE_LEAST)
        return;
    shim = found;
    wattfold_changes_ = found->changes;
}

HIDDEN int wattfold_take_(wattfold_mask *out, uint32_t *seen)
{
    return shim != NULL ? shim->take(out, seen) : 0;
}

HIDDEN int wattfold_poll_call(wattfold_mask *out)
{
    return wattfold_poll(out);
}

HIDDEN int wattfold_get_mask(wattfold_mask *out)
{
    return shim != NULL ? shim->get_mask(out) : 0;
}

HIDDEN unsigned wattfold_cores(void)
{
    cpu_set_t cpus;
    if (shim != NULL)
        return shim->cores();
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (unsigned)CPU_COUNT(&cpus) : 1;
}

HIDDEN int wattfold_on_change(wattfold_callback callback, void *context)
{
    return shim != NULL ? shim->on_change(callback, context) : -1;
}

HIDDEN void wattfold_off_change(int number)
{
    if (shim != NULL)
        shim->off_change(number);
}

HIDDEN void wattfold_progress(double done, double total)
{
    if (shim != NULL)
        shim->progress(done, total);
}

HIDDEN void wattfold_phase(const char *name)
{
    if (shim != NULL)
        shim->phase(name);
}

HIDDEN int wattfold_request(unsigned cores)
{
    return shim != NULL ? shim->request(cores) : 0;
}

HIDDEN int wattfold_allow_growth(unsigned most)
{
    if (shim == NULL || shim->bytes < sizeof *shim)
        return 0;
    return shim->allow_growth(most);
}

HIDDEN const char *wattfold_version(void)
{
    return shim != NULL ? shim->version() : "";
}
