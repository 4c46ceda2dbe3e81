/* Team sizes: the limit in force, and which threads run a region of what size.
 *
 * The limit is one atomic word. A thread that starts an outermost region publishes its team size in a
 * record of its own (a lane) and then reads the word again; the helper thread stores the word and then
 * reads the lanes. One of the two must always see the other (Dekker): either the region obeys the new
 * limit, or the helper sees that it runs. That needs a full fence on both sides. The kernel can put the
 * one of the program's threads where the helper asks for it (membarrier(2)), so that regions pay for
 * none; where it cannot, all four accesses are sequentially consistent.
 *
 * Where the agent has given a notice, the limit is read there instead. It is never older than the word: the
 * agent writes it first, and a region reads it after the word. So what is said of the word holds as before,
 * and a region may only obey a newer mask sooner, and then tells the helper of it. */
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
    uint32_t notice;   /* high half of the agent's notice at its start */
};

/* One thread that starts outermost regions. Never freed; taken over by a later thread. */
struct lane {
    alignas(128) _Atomic uint32_t team; /* size of the running region, 0: none */
    _Atomic uint32_t max_team;
    _Atomic uint64_t regions;
    _Atomic int taken;
    struct lane *next;
    /* From here on used by the owner alone. Regions begun by GOMP_*_start and not yet ended. */
    unsigned depth;
    struct region open[LANE_STACK];
    /* Regions an OMPT runtime has reported and not yet ended. */
    unsigned reported_depth;
    struct reported {
        struct region region;
        int level;   /* of the code around the region */
        int restore; /* the program's own setting, to be put back; 0: unchanged */
    } reported[LANE_STACK];
    int restore_due, restore_level; /* a setting that could not be put back when the region ended */
    unsigned clause;     /* num_threads clause of the next region of LLVM's or Intel's runtime; 0: none */
    bool clause_left;    /* a clause was made void by an if clause */
    bool of_main_thread;
    bool relayed;        /* a region is passed on to a runtime that reports it too */
    bool waits_shortly;  /* the runtime was told how long idle threads may spin */
    bool has_idle;       /* threads of an earlier, larger team may be waiting */
};

struct team_totals {
    uint64_t regions;
    uint32_t max_team;
    uint32_t running_max; /* largest team that runs now */
};

/* Low half: largest team allowed. High half: number of masks received, modulo 2^32. */
extern _Atomic uint64_t team_word;
/* The agent's newest word on the limit, low half as above but 0 for none; high half: seq of its mask. */
extern const _Atomic uint64_t *_Atomic team_notice;
/* What the helper has read there last. */
extern _Atomic uint64_t team_noticed;
/* Most threads the program was launched for; 0 until known. Teams grow beyond it only where that is allowed. */
extern _Atomic uint32_t team_launch;
/* Most threads the program bears, when that is more than it was launched for; else 0. */
extern _Atomic uint32_t team_growth_max;
/* Team size of the mask in force where it allows more than the launch size; else 0. */
extern _Atomic uint32_t team_grown;

/* Whether the helper fences for all threads; set before the first region. */
extern bool team_remote_fence;

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

/* Most threads of a team, whatever the mask allows. */
static inline uint32_t team_most(void)
{
    const uint32_t launch = atomic_load_explicit(&team_launch, memory_order_relaxed);
    const uint32_t grown = atomic_load_explicit(&team_grown, memory_order_relaxed);
    return grown > launch ? grown : launch;
}

/* Where the agent writes; NULL: nowhere. Before the word of the mask that came with it is published. Helper
 * thread only. */
void teams_read_notice(const _Atomic uint64_t *notice);

/* The same before there is a mask, and before the first region: what is written there holds from now on. NULL:
 * nothing is known. */
void teams_begin(const _Atomic uint64_t *notice);

static inline uint64_t notice_now(void)
{
    const _Atomic uint64_t *notice = atomic_load_explicit(&team_notice, memory_order_acquire);
    return atomic_load_explicit(notice, memory_order_relaxed);
}

/* The limit for a region that has read first this word, with an acquiring load, and then this notice. */
static inline uint32_t limit_of(uint64_t word, uint64_t notice)
{
    return word_limit(notice) != 0 ? word_limit(notice) : word_limit(word);
}

/* The limit for a region that would start now. */
static inline uint32_t limit_now(void)
{
    const uint64_t word = atomic_load_explicit(&team_word, memory_order_acquire);
    return limit_of(word, notice_now());
}

/* Counts one more mask, with a new limit (TEAM_UNLIMITED for none). Helper thread only. False when the kernel
 * does not fence any more (a program that has put itself under a filter): then nothing may be acknowledged. */
bool teams_publish(uint32_t limit);

struct team_totals teams_totals(void);

/* In a forked child: the threads of the parent are not there. */
void teams_after_fork(void);

static inline void lane_publish(struct lane *lane, uint32_t team)
{
    if (__builtin_expect(team_remote_fence, 1)) {
        atomic_store_explicit(&lane->team, team, memory_order_release);
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        atomic_store(&lane->team, team);
    }
}

/* Starts a region that asks for `want` threads inside `outer` threads (1: it is an outermost one);
 * returns how many it gets. What is limited and published is the product. */
static inline uint32_t region_begin(struct region *region, struct lane *lane, uint32_t want,
                                    uint32_t outer)
{
    uint64_t word = atomic_load_explicit(&team_word, memory_order_acquire);
    region->lane = lane;
    region->prev = atomic_load_explicit(&lane->team, memory_order_relaxed);
    for (;;) {
        const uint32_t most = team_most();
        const uint64_t notice = notice_now();
        uint32_t limit = limit_of(word, notice);
        if (limit > most)
            limit = most;
        if (outer > 1)
            limit = limit / outer > 0 ? limit / outer : 1;
        const uint32_t team = want < limit ? want : limit;
        lane_publish(lane, team * outer > region->prev ? team * outer : region->prev);
        const uint64_t now = atomic_load(&team_word);
        if (now == word) {
            region->word = word;
            region->notice = word_count(notice);
            return team;
        }
        word = now;
    }
}

/* Whether a region obeys a notice that the helper has not read yet. */
static inline bool region_is_ahead(const struct region *region)
{
    const uint64_t noticed = atomic_load_explicit(&team_noticed, memory_order_relaxed);
    return region->notice != word_count(noticed);
}

/* Ends it. True when the helper should look: a mask came in meanwhile, and it may be waiting for this end; or
 * the agent has given notice of one. Of a larger team it hears when that team has run, on GNU's runtime, which
 * makes the threads this takes: they would wait milliseconds for the core on which the helper answers. On the
 * others it hears when that team starts. */
static inline bool region_end(const struct region *region)
{
    lane_publish(region->lane, region->prev);
    if (atomic_load(&team_word) != region->word)
        return true;
    const uint64_t notice = notice_now();
    if (__builtin_expect(notice == atomic_load_explicit(&team_noticed, memory_order_relaxed), 1))
        return false;
    return word_count(notice) == region->notice || word_limit(notice) <= word_limit(region->word);
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
