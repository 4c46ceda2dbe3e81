/* Unit tests of the parts of the shim that need neither an agent nor an OpenMP runtime. Built and run
 * under sanitizers by test_c_units.py. Prints the number of checks and exits with 0 on success. */
#include "callbacks.h"
#include "cpulist.h"
#include "local_rank.h"
#include "teams.h"
#include "wire.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int checks;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        checks++;                                                                                  \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A heap copy of exactly these bytes, so that the sanitizer detects reads beyond them. */
static bool parse(const char *text, wattfold_mask *mask)
{
    const size_t bytes = strlen(text);
    char *copy = malloc(bytes + 1);
    memcpy(copy, text, bytes);
    const bool good = cpulist_parse(copy, bytes, mask);
    free(copy);
    return good;
}

static void cpu_lists(void)
{
    wattfold_mask mask;
    CHECK(parse("", &mask) && mask.cores == 0);
    CHECK(parse("0-3,8", &mask) && mask.cores == 5 && mask.bits[0] == 0x10f);
    CHECK(parse("63-64", &mask) && mask.cores == 2 && mask.bits[0] >> 63 == 1 && mask.bits[1] == 1);
    CHECK(parse("8191", &mask) && mask.cores == 1 && mask.bits[127] >> 63 == 1);
    CHECK(parse("1,1,0-2", &mask) && mask.cores == 3);
    const char *wrong[] = {"8192",  "3-1",  "0,",   ",0",  "-",   "1-",           "a", " 1",
                           "0 ",    "1--2", "0-a",  "+1",  "0x1", "99999999999999", "1,,2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(!parse(wrong[i], &mask));
}

static bool unpack(const unsigned char *frame, size_t bytes, struct wire_message *message)
{
    unsigned char *copy = malloc(bytes + 1);
    memcpy(copy, frame, bytes);
    const bool good = wire_unpack(copy, bytes, message);
    free(copy);
    return good;
}

static void frames(void)
{
    const struct wire_message sent = {.type = WIRE_STATUS, .flags = 1, .seq = UINT64_MAX, .cores = 7,
                                      .pid = 8, .time_ns = 9, .regions = 10, .done = 0.5,
                                      .total = 1e300, .max_team = UINT32_MAX};
    unsigned char frame[WIRE_HEADER_BYTES + 1] = {0};
    struct wire_message got = {0};
    wire_pack(&sent, frame);
    CHECK(unpack(frame, WIRE_HEADER_BYTES, &got));
    CHECK(got.type == sent.type && got.flags == 1 && got.seq == UINT64_MAX && got.cores == 7);
    CHECK(got.pid == 8 && got.time_ns == 9 && got.regions == 10 && got.max_team == UINT32_MAX);
    CHECK(got.done == 0.5 && got.total == 1e300);
    for (size_t bytes = 0; bytes < WIRE_HEADER_BYTES; bytes++)
        CHECK(!unpack(frame, bytes, &got));
    /* For any bytes there is an answer, and no read beyond them. */
    unsigned state = 1;
    for (int round = 0; round < 20000; round++) {
        unsigned char noise[WIRE_HEADER_BYTES + 8];
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (unsigned char)((state = state * 1103515245u + 12345u) >> 16);
        if (round % 2)
            memcpy(noise, frame, 4);
        (void)unpack(noise, state % sizeof noise, &got);
    }
    checks++;
}

static void limits(void)
{
    struct region region, inner;
    atomic_store(&team_launch, 8);
    struct lane *lane = lane_claim();
    CHECK(lane != NULL && team_lane == lane);
    teams_publish(4);
    CHECK(region_begin(&region, lane, 16, 1) == 4 && teams_totals().running_max == 4);
    CHECK(region_begin(&inner, lane, 3, 4) == 1);
    CHECK(!region_end(&inner) && teams_totals().running_max == 4);
    teams_publish(2);
    CHECK(region_end(&region) && teams_totals().running_max == 0);
    CHECK(region_begin(&region, lane, 1, 2) == 1 && !region_end(&region));
    teams_publish(TEAM_UNLIMITED);
    CHECK(region_begin(&region, lane, 16, 1) == 8 && !region_end(&region));
    region_count(lane, 5);
    CHECK(teams_totals().regions == 1 && teams_totals().max_team == 5);
}

/* Before the first mask, regions obey the file of the agent and its changes. */
static void beginnings(void)
{
    static _Atomic uint64_t word;
    struct region region;
    struct lane *lane = team_lane;
    teams_begin(NULL);
    CHECK(limit_now() == TEAM_UNLIMITED);
    teams_begin(&word); /* the word is empty */
    CHECK(limit_now() == TEAM_UNLIMITED && region_begin(&region, lane, 8, 1) == 8 && !region_end(&region));
    atomic_store(&word, UINT64_C(7) << 32 | 2);
    teams_begin(&word);
    CHECK(region_begin(&region, lane, 8, 1) == 2 && !region_is_ahead(&region) && !region_end(&region));
    atomic_store(&word, UINT64_C(8) << 32 | 5);
    CHECK(region_begin(&region, lane, 8, 1) == 5 && region_end(&region));
    /* The first mask has arrived but its notice has not: a limit always applies. */
    teams_read_notice(NULL);
    CHECK(limit_now() == 2);
    teams_publish(TEAM_UNLIMITED);
}

static bool rank_is(const char *name, const char *text, uint32_t wanted)
{
    uint32_t rank = UINT32_MAX;
    setenv(name, text, 1);
    return local_rank(&rank) && rank == wanted;
}

/* As local_rank in nodeagent/core/tasks.py: test_c_units.py compares the names. */
static void ranks(void)
{
    uint32_t rank;
    CHECK(!local_rank(&rank));
    CHECK(rank_is("SLURM_LOCALID", "3", 3) && rank_is("PMI_LOCAL_RANK", "999999", 999999));
    CHECK(rank_is("WATTFOLD_LOCAL_RANK", "0", 0));
    const char *nonsense[] = {"", "-1", "1000000", "1a", " 1", "0x1"};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++)
        CHECK(rank_is("WATTFOLD_LOCAL_RANK", nonsense[i], 999999));
}

/* The agent's notice is obeyed immediately, and the helper is woken: for a smaller team at the end of the region that
 * is too large, for a larger team by the first region that has it. */
static void notices(void)
{
    static _Atomic uint64_t word;
    struct region region;
    struct lane *lane = team_lane;
    teams_publish(4);
    teams_read_notice(&word); /* the word is still empty */
    CHECK(region_begin(&region, lane, 8, 1) == 4 && !region_is_ahead(&region));
    atomic_store(&word, UINT64_C(1) << 32 | 2);
    CHECK(region_end(&region));
    CHECK(region_begin(&region, lane, 8, 1) == 2 && region_is_ahead(&region));
    CHECK(limit_now() == 2 && teams_totals().running_max == 2);
    atomic_store(&team_noticed, notice_now()); /* the helper has read the notice */
    CHECK(!region_is_ahead(&region) && !region_end(&region));
    CHECK(region_begin(&region, lane, 8, 1) == 2);
    atomic_store(&word, UINT64_C(2) << 32 | 6);
    CHECK(!region_end(&region));
    CHECK(region_begin(&region, lane, 8, 1) == 6 && region_is_ahead(&region) && region_end(&region));
    teams_publish(6);
    atomic_store(&word, UINT64_C(3) << 32); /* no limit any more */
    CHECK(limit_now() == 6);
    atomic_store(&word, UINT64_C(4) << 32 | 1);
    teams_read_notice(NULL);
    CHECK(limit_now() == 6 && region_begin(&region, lane, 8, 1) == 6 && !region_end(&region));
}

/* The guarantee of an acknowledgement: once the helper has seen no larger team after storing a limit, no
 * region with a larger team runs until the next limit. */
static _Atomic int over;
static _Atomic uint32_t promised = TEAM_UNLIMITED;
static _Atomic int broken;

static void *regions(void *nothing)
{
    struct lane *lane = lane_claim();
    struct region region;
    (void)nothing;
    while (!atomic_load(&over)) {
        const uint32_t team = region_begin(&region, lane, 8, 1);
        /* Read inside the region: an acknowledgement before its begin, or during it, binds the region. */
        if (team > atomic_load(&promised))
            atomic_store(&broken, 1);
        (void)region_end(&region);
    }
    return NULL;
}

static void promises(bool remote_fence, bool with_notices)
{
    static _Atomic uint64_t notice;
    pthread_t thread[3];
    teams_read_notice(with_notices ? &notice : NULL);
    const bool had = team_remote_fence;
    team_remote_fence = remote_fence && had;
    atomic_store(&over, 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&thread[i], NULL, regions, NULL) == 0);
    for (int round = 0; round < 3000; round++) {
        const uint32_t limit = 1 + (uint32_t)round * 7 % 8;
        atomic_store(&promised, TEAM_UNLIMITED);
        if (with_notices)
            atomic_store(&notice, (uint64_t)round << 32 | limit);
        teams_publish(limit);
        for (int look = 0; look < 1000 && teams_totals().running_max > limit; look++)
            sched_yield();
        if (teams_totals().running_max <= limit)
            atomic_store(&promised, limit);
    }
    atomic_store(&over, 1);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    atomic_store(&promised, TEAM_UNLIMITED);
    CHECK(!atomic_load(&broken));
    teams_read_notice(NULL);
    team_remote_fence = had;
}

static int calls;

static void note(const wattfold_mask *mask, void *number)
{
    calls += (int)mask->cores;
    if (number != NULL)
        callbacks_remove(*(int *)number);
}

static void *add_and_remove(void *nothing)
{
    (void)nothing;
    for (int i = 0; i < 2000; i++) {
        const int number = callbacks_add(note, NULL);
        callbacks_remove(number);
    }
    return NULL;
}

static void callbacks_of_the_program(void)
{
    const wattfold_mask mask = {.cores = 2};
    int number = callbacks_add(note, &number);
    int all[WATTFOLD_CALLBACKS_MAX];
    CHECK(number >= 0);
    callbacks_run(&mask);
    callbacks_run(&mask); /* it has removed itself */
    CHECK(calls == 2);
    for (int i = 0; i < WATTFOLD_CALLBACKS_MAX; i++)
        CHECK((all[i] = callbacks_add(note, NULL)) >= 0);
    CHECK(callbacks_add(note, NULL) == -1);
    callbacks_run(&mask);
    CHECK(calls == 2 + 2 * WATTFOLD_CALLBACKS_MAX);
    callbacks_remove(number); /* an old number has no effect */
    callbacks_remove(-1);
    CHECK(callbacks_add(note, NULL) == -1);
    for (int i = 0; i < WATTFOLD_CALLBACKS_MAX; i++)
        callbacks_remove(all[i]);
    calls = 0;
    callbacks_run(&mask);
    CHECK(calls == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, add_and_remove, NULL) == 0);
    for (int i = 0; i < 2000; i++)
        callbacks_run(&mask);
    pthread_join(thread, NULL);
}

int main(void)
{
    CHECK(teams_init());
    cpu_lists();
    frames();
    ranks();
    limits();
    beginnings();
    notices();
    for (int ways = 0; ways < 4; ways++)
        promises(ways % 2 == 0, ways / 2 == 1);
    callbacks_of_the_program();
    printf("%d checks\n", checks);
    return 0;
}
