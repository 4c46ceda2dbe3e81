#include "teams.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

_Atomic uint64_t team_word = TEAM_UNLIMITED;
_Atomic uint32_t team_launch;
_Atomic uint32_t team_growth_max;
_Atomic uint32_t team_grown;
static const _Atomic uint64_t no_notice;
const _Atomic uint64_t *_Atomic team_notice = &no_notice;
_Atomic uint64_t team_noticed;
bool team_remote_fence;
__thread struct lane *team_lane;

static _Atomic(struct lane *) lanes;
static pthread_key_t exit_key;

static void lane_reset(struct lane *lane)
{
    lane->depth = 0;
    lane->reported_depth = 0;
    lane->restore_due = 0;
    lane->clause = 0;
    lane->clause_left = false;
    lane->relayed = false;
    lane->waits_shortly = false;
    lane->has_idle = false;
}

static void release(void *lane_of_thread)
{
    struct lane *lane = lane_of_thread;
    team_lane = NULL;
    lane_reset(lane);
    atomic_store(&lane->team, 0);
    atomic_store_explicit(&lane->taken, 0, memory_order_release);
}

static bool membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

bool teams_init(void)
{
    /* Used once: a filter may let the registration pass alone. */
    team_remote_fence = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
                        membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    return pthread_key_create(&exit_key, release) == 0;
}

static struct lane *reuse(void)
{
    for (struct lane *lane = atomic_load(&lanes); lane != NULL; lane = lane->next) {
        int untaken = 0;
        if (atomic_compare_exchange_strong(&lane->taken, &untaken, 1))
            return lane;
    }
    return NULL;
}

static struct lane *append(void)
{
    struct lane *lane = aligned_alloc(alignof(struct lane), sizeof *lane);
    if (lane == NULL)
        return NULL;
    atomic_init(&lane->team, 0);
    atomic_init(&lane->max_team, 0);
    atomic_init(&lane->regions, 0);
    atomic_init(&lane->taken, 1);
    lane_reset(lane);
    lane->next = atomic_load(&lanes);
    while (!atomic_compare_exchange_weak(&lanes, &lane->next, lane))
        ;
    return lane;
}

struct lane *lane_claim(void)
{
    struct lane *lane = reuse();
    if (lane == NULL)
        lane = append();
    if (lane == NULL)
        return NULL;
    /* Without the hook the lane is never given back: a small leak, still a right account. */
    (void)pthread_setspecific(exit_key, lane);
    lane->of_main_thread = syscall(SYS_gettid) == getpid();
    team_lane = lane;
    return lane;
}

/* Before the limit: too small or too large a size for a moment does no harm, the limit holds in any case. */
static void grow(uint32_t limit)
{
    const uint32_t launch = atomic_load(&team_launch), most = atomic_load(&team_growth_max);
    const uint32_t size = limit < most ? limit : most;
    atomic_store(&team_grown, limit != TEAM_UNLIMITED && launch != 0 && size > launch ? size : 0);
}

void teams_read_notice(const _Atomic uint64_t *notice)
{
    atomic_store(&team_notice, notice != NULL ? notice : &no_notice);
    atomic_store(&team_noticed, notice_now());
}

void teams_begin(const _Atomic uint64_t *notice)
{
    teams_read_notice(notice);
    const uint32_t limit = word_limit(notice_now());
    /* Also in the word: it counts for a moment when the first mask has come, and where that has no notice. */
    if (limit != 0)
        atomic_store(&team_word, limit);
}

bool teams_publish(uint32_t limit)
{
    grow(limit);
    const uint64_t word = atomic_load_explicit(&team_word, memory_order_relaxed);
    atomic_store(&team_word, ((uint64_t)(word_count(word) + 1) << 32) | limit);
    return !team_remote_fence || membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

struct team_totals teams_totals(void)
{
    struct team_totals totals = {0, 0, 0};
    for (struct lane *lane = atomic_load(&lanes); lane != NULL; lane = lane->next) {
        const uint32_t team = atomic_load(&lane->team);
        const uint32_t max_team = atomic_load_explicit(&lane->max_team, memory_order_relaxed);
        totals.regions += atomic_load_explicit(&lane->regions, memory_order_relaxed);
        if (max_team > totals.max_team)
            totals.max_team = max_team;
        if (team > totals.running_max)
            totals.running_max = team;
    }
    return totals;
}

void teams_after_fork(void)
{
    atomic_store(&team_word, TEAM_UNLIMITED);
    teams_read_notice(NULL);
    atomic_store(&team_grown, 0);
}
