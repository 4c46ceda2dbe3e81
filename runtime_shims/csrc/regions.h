/* What happens at the start and the end of a parallel region, whoever reports it. */
#ifndef WATTFOLD_REGIONS_H
#define WATTFOLD_REGIONS_H

#include "agent_link.h"
#include "runtime.h"
#include "state.h"
#include "teams.h"

/* At the first region, when the launcher did not say: what the program itself would use. */
void region_learn_launch_size(const struct runtime *runtime);

/* A region inside another: the product of all teams around and of this one is limited. */
uint32_t region_enter_nested(const struct runtime *runtime, struct region *region, struct lane *lane,
                             unsigned asked);

/* The program bears larger teams than it was launched for, and the mask has room: those of a program that
 * does not ask for fewer than at its launch get what there is. */
uint32_t region_grow(const struct runtime *runtime, uint32_t setting);

/* Threads of an outermost region without a num_threads clause. */
static inline uint32_t region_wanted(const struct runtime *runtime, uint32_t setting)
{
    if (__builtin_expect(atomic_load_explicit(&team_grown, memory_order_relaxed) != 0, 0))
        return region_grow(runtime, setting);
    return setting;
}

/* The team has shrunk to one thread: the others must not spin on cores they have lost. */
void region_let_idle_threads_go(const struct runtime *runtime, struct lane *lane);

/* LLVM's and Intel's idle threads spin 200 ms by default, also on a core they have lost: much less, unless
 * the user has set how they wait. Once a thread, before its first region. */
void region_limit_spinning(const struct runtime *runtime, struct lane *lane);

/* Out of memory for a lane: nothing can be accounted any more. */
void region_give_up(void);

/* Starts an outermost region that asks for `want` threads; returns how many it gets. */
static inline uint32_t region_enter_outermost(const struct runtime *runtime, struct region *region,
                                              struct lane *lane, uint32_t want)
{
    if (shim_config.mode != MODE_TEAM) {
        region_count(lane, want);
        return want;
    }
    if (__builtin_expect(atomic_load_explicit(&team_launch, memory_order_relaxed) == 0, 0))
        region_learn_launch_size(runtime);
    const uint32_t team = region_begin(region, lane, want, 1);
    region_count(lane, team);
    if (__builtin_expect(region_is_ahead(region), 0) && !runtime->is_gnu)
        link_wake();
    if (team > 1)
        lane->has_idle = true;
    else if (__builtin_expect(want > 1 && lane->has_idle && word_limit(region->word) == 1, 0))
        region_let_idle_threads_go(runtime, lane);
    return team;
}

/* Regions of more than one thread around the caller, as far as it matters: 0 or not. The main thread is
 * never lent to a team of another one, and its own teams are in its lane: no need to ask. */
static inline int region_active_level(const struct runtime *runtime, const struct lane *lane)
{
    if (lane->of_main_thread && shim_config.mode == MODE_TEAM &&
        atomic_load_explicit(&lane->team, memory_order_relaxed) == 0)
        return 0;
    return runtime->active_level();
}

/* Starts a region in a lane; `asked` is its num_threads clause, 0 without one. Returns the clause to pass
 * on. */
static inline unsigned region_enter_lane(const struct runtime *runtime, struct region *region,
                                         struct lane *lane, unsigned asked)
{
    region->lane = NULL;
    if (region_active_level(runtime, lane) > 0)
        return region_enter_nested(runtime, region, lane, asked);
    /* Never more than the program's own setting: it may have sized its arrays by it. */
    const uint32_t own = asked != 0 ? asked : (uint32_t)runtime->max_threads();
    const uint32_t want = asked != 0 ? asked : region_wanted(runtime, own);
    const uint32_t team = region_enter_outermost(runtime, region, lane, want);
    return team == own ? asked : team;
}

static inline unsigned region_enter(const struct runtime *runtime, struct region *region,
                                    unsigned asked)
{
    region->lane = NULL;
    if (!shim_running())
        return asked;
    struct lane *lane = team_lane != NULL ? team_lane : lane_claim();
    if (__builtin_expect(lane == NULL, 0)) {
        region_give_up();
        return asked;
    }
    return region_enter_lane(runtime, region, lane, asked);
}

static inline void region_leave(const struct region *region)
{
    if (region->lane != NULL && region_end(region))
        link_wake();
}

#endif
