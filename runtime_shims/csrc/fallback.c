/* libwattfold.a: what a program that uses wattfold.h is linked with.
 *
 * Hidden symbols, so that they do not hide the shim's: at load time they look for it and pass calls
 * on, and without it answer as in an unmanaged program. */
#include "wattfold.h"

#include <dlfcn.h>
#include <sched.h>
#include <string.h>

#define HIDDEN __attribute__((visibility("hidden")))

static int (*shim_poll)(wattfold_mask *);
static void (*shim_progress)(double, double);
static unsigned (*shim_cores)(void);
static const char *(*shim_version)(void);

static void find(const char *name, void *slot)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    memcpy(slot, &found, sizeof found);
}

static __attribute__((constructor)) void look_for_shim(void)
{
    find("wattfold_poll", &shim_poll);
    find("wattfold_progress", &shim_progress);
    find("wattfold_cores", &shim_cores);
    find("wattfold_version", &shim_version);
}

HIDDEN int wattfold_poll(wattfold_mask *out)
{
    return shim_poll != NULL ? shim_poll(out) : 0;
}

HIDDEN void wattfold_progress(double done, double total)
{
    if (shim_progress != NULL)
        shim_progress(done, total);
}

HIDDEN unsigned wattfold_cores(void)
{
    cpu_set_t cpus;
    if (shim_cores != NULL)
        return shim_cores();
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (unsigned)CPU_COUNT(&cpus) : 1;
}

HIDDEN const char *wattfold_version(void)
{
    return shim_version != NULL ? shim_version() : "";
}
