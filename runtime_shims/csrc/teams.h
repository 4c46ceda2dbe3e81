/* Team sizes: the limit in force, and which threads run a region of what size.
 *
 * The limit is one atomic word. A thread that starts an outermost region publishes its team size in a
 * record of its own (a lane) and then reads the word again; the helper thread stores the word and then
 * reads the lanes. All four accesses are sequentially consistent, so that one of the two always sees
 * the other (Dekker): either the region obeys the new limit, or the helper sees that it runs. */
#ifndef WATTFOLD_TEAMS_H
#define WATTFOLD_TEAMS_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TEAM_UNLIMITED UINT32_MAX
#define LANE_STACK 16

/* An outermost region that runs: what to put back when it ends. */
struct region {
    struct lane *lane; /* NULL: not accounted */
    uint64_t word;     /* limit word it obeys */
    uint32_t prev;     /* team size of the region around it, 0 if none */
};

/* One thread that starts outermost regions. Never freed; taken over by a later thread. */
struct lane {
    alignas(128) _Atomic uint32_t team; /* size of the running region, 0: none */
    _Atomic uint32_t max_team;
    _Atomic uint64_t regions;
    _Atomic int taken;
    struct lane *next;
    /* Regions begun by GOMP_*_start and not yet ended; used by the owner alone. */
    unsigned depth;
    struct region open[LANE_STACK];
};

struct team_totals {
    uint64_t regions;
    uint32_t max_team;
    uint32_t running_max; /* largest team that runs now */
};

/* Low half: largest team allowed. High half: number of masks received, modulo 2^32. */
extern _Atomic uint64_t team_word;
/* Most threads the program was launched for; 0 until known. Teams never grow beyond it. */
extern _Atomic uint32_t team_launch;

extern __thread struct lane *team_lane __attribute__((tls_model("initial-exec")));

static inline uint32_t word_limit(uint64_t word)
{
    return (uint32_t)word;
}

static inline uint32_t word_count(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

/* False when the thread-exit hook cannot be set up. */
bool teams_init(void);

/* The lane of this thread, claimed at its first use; NULL when memory is out. */
struct lane *lane_claim(void);

/* Counts one more mask, with a new limit (TEAM_UNLIMITED for none). Helper thread only. */
void teams_publish(uint32_t limit);

struct team_totals teams_totals(void);

/* In a forked child: the threads of the parent are not there. */
void teams_after_fork(void);

/* Starts an outermost region that asks for `want` threads; returns how many it gets. */
static inline uint32_t region_begin(struct region *region, struct lane *lane, uint32_t want)
{
    uint64_t word = atomic_load_explicit(&team_word, memory_order_relaxed);
    const uint32_t launch = atomic_load_explicit(&team_launch, memory_order_relaxed);
    region->lane = lane;
    region->prev = atomic_load_explicit(&lane->team, memory_order_relaxed);
    for (;;) {
        uint32_t team = want < launch ? want : launch;
        if (team > word_limit(word))
            team = word_limit(word);
        atomic_store(&lane->team, team > region->prev ? team : region->prev);
        const uint64_t now = atomic_load(&team_word);
        if (now == word) {
            region->word = word;
            return team;
        }
        word = now;
    }
}

/* Ends it. True when a mask came in meanwhile: the helper may be waiting for this end. */
static inline bool region_end(const struct region *region)
{
    atomic_store(&region->lane->team, region->prev);
    return atomic_load(&team_word) != region->word;
}

/* Statistics of a region, written by the owner of the lane alone. */
static inline void region_count(struct lane *lane, uint32_t team)
{
    const uint64_t regions = atomic_load_explicit(&lane->regions, memory_order_relaxed);
    atomic_store_explicit(&lane->regions, regions + 1, memory_order_relaxed);
    if (team > atomic_load_explicit(&lane->max_team, memory_order_relaxed))
        atomic_store_explicit(&lane->max_team, team, memory_order_relaxed);
}

#endif
