#include "regions.h"

#define OMP_PAUSE_SOFT 1 /* omp_pause_resource_t of OpenMP 5.0 */
#define IDLE_SPIN_MS 1

void region_learn_launch_size(const struct runtime *runtime)
{
    uint32_t unknown = 0;
    const int threads = runtime->max_threads();
    atomic_compare_exchange_strong(&team_launch, &unknown, threads > 0 ? (uint32_t)threads : 1);
}

uint32_t region_grow(const struct runtime *runtime, uint32_t setting)
{
    const uint32_t launch = atomic_load_explicit(&team_launch, memory_order_relaxed);
    const uint32_t grown = atomic_load_explicit(&team_grown, memory_order_relaxed);
    const int most = runtime->thread_limit();
    if (setting < launch || grown <= setting)
        return setting;
    return most > 0 && (uint32_t)most < grown ? (uint32_t)most : grown;
}

void region_give_up(void)
{
    shim_fail("out of memory", "cannot account a parallel region");
}

/* Threads that may run now, when every one around starts a region like ours. */
static uint32_t threads_around(const struct runtime *runtime)
{
    uint64_t product = 1;
    const int levels = runtime->level();
    for (int level = 1; level <= levels; level++) {
        const int size = runtime->team_size(level);
        product *= size > 0 ? (uint64_t)size : 1;
        if (product > UINT16_MAX)
            return UINT16_MAX;
    }
    return (uint32_t)product;
}

uint32_t region_enter_nested(const struct runtime *runtime, struct region *region, struct lane *lane,
                             unsigned asked)
{
    /* Without a mask, or when the runtime will make it serial, there is nothing to limit. */
    if (shim_config.mode != MODE_TEAM || limit_now() == TEAM_UNLIMITED ||
        runtime->active_level() >= runtime->max_active_levels())
        return asked;
    uint32_t want = asked != 0 ? asked : (uint32_t)runtime->max_threads();
    if (want == 1)
        return asked;
    if (want > UINT16_MAX)
        want = UINT16_MAX;
    const uint32_t team = region_begin(region, lane, want, threads_around(runtime));
    return team == want ? asked : team;
}

void region_let_idle_threads_go(const struct runtime *runtime, struct lane *lane)
{
    /* GNU's end those beyond the new size themselves, except when one is left: then they spin, with an
     * active wait policy for ever. LLVM's and Intel's were told to spin for a short time only. */
    if (!shim_config.waits_passively && runtime->is_gnu && runtime->pause != NULL &&
        runtime->initial_device != NULL)
        (void)runtime->pause(OMP_PAUSE_SOFT, runtime->initial_device());
    lane->has_idle = false;
}

void region_limit_spinning(const struct runtime *runtime, struct lane *lane)
{
    if (shim_config.mode == MODE_TEAM && !shim_config.waits_as_told && runtime->set_blocktime != NULL)
        runtime->set_blocktime(IDLE_SPIN_MS);
    lane->waits_shortly = true;
}
