/* The program measured by shims.py. Prints numbers, one per line. */
#define _GNU_SOURCE
#include "wattfold.h"

#include <omp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCHES_MAX 100000
#define CHANGES_MAX 100000

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* Nanoseconds per region, for each batch. */
static void regions(long batches, long batch)
{
    static double taken[BATCHES_MAX];
    for (long b = 0; b < batches && b < BATCHES_MAX; b++) {
        const double start = now_ns();
        for (long i = 0; i < batch; i++) {
#pragma omp parallel
            __asm__ volatile("" ::: "memory");
        }
        taken[b] = (now_ns() - start) / (double)batch;
    }
    for (long b = 0; b < batches && b < BATCHES_MAX; b++)
        printf("%.3f\n", taken[b]);
}

static void polls(long batches, long batch)
{
    for (long b = 0; b < batches; b++) {
        const double start = now_ns();
        for (long i = 0; i < batch; i++)
            if (wattfold_poll(NULL))
                exit(3);
        printf("%.4f\n", (now_ns() - start) / (double)batch);
    }
}

/* The same without a poll. */
static void loops(long batches, long batch)
{
    for (long b = 0; b < batches; b++) {
        const double start = now_ns();
        for (long i = 0; i < batch; i++)
            __asm__ volatile("" ::: "memory");
        printf("%.4f\n", (now_ns() - start) / (double)batch);
    }
}

static volatile sig_atomic_t over;

static void end(int signal)
{
    (void)signal;
    over = 1;
}

/* Run regions of this length until SIGTERM, or until this number of changes of the team. Then print the begin of
 * each first region of a new size. */
static void react(long region_ns, long changes)
{
    static struct {
        int team;
        double at;
    } seen[CHANGES_MAX];
    long count = 0;
    int before = 0;
    signal(SIGTERM, end);
    while (count < changes && count < CHANGES_MAX && !over) {
        int team = 0;
        double at = 0;
#pragma omp parallel
        {
            const double start = now_ns();
            if (omp_get_thread_num() == 0) {
                team = omp_get_num_threads();
                at = start;
            }
            while (now_ns() < start + (double)region_ns)
                ;
        }
        if (team != before) {
            seen[count].team = team;
            seen[count++].at = at;
        }
        before = team;
    }
    for (long i = 0; i < count; i++)
        printf("%d %.0f\n", seen[i].team, seen[i].at);
}

/* Work of about 100 us on one core, split over the team. */
static double work(void)
{
    static double values[64];
    double sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(static)
    for (int i = 0; i < 64; i++) {
        double x = values[i] * 1e-9 + 0.3 + i * 1e-3;
        for (int k = 0; k < 1000; k++)
            x = 3.9 * x * (1.0 - x);
        values[i] = x;
        sum += x;
    }
    return sum;
}

/* Print "ready", work until only one core remains, then print the mean nanoseconds of the later regions. */
static void squeezed(long count, int until_team)
{
    static volatile double sink;
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        int team = 0;
        sink += work();
#pragma omp parallel
#pragma omp single
        team = omp_get_num_threads();
        if (until_team ? team == 1 : cpus() == 1)
            break;
    }
    const double start = now_ns();
    for (long i = 0; i < count; i++)
        sink += work();
    printf("%.1f\n", (now_ns() - start) / (double)count);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    /* Shift the runtime's records on the heap by a given size, because their place matters. */
    volatile char *layout = malloc(argc > 4 ? (size_t)atol(argv[4]) : 16);
    if (layout == NULL)
        return 1;
    layout[0] = 1;
    const long a = atol(argv[2]), b = atol(argv[3]);
    if (strcmp(argv[1], "regions") == 0)
        regions(a, b);
    else if (strcmp(argv[1], "polls") == 0)
        polls(a, b);
    else if (strcmp(argv[1], "loops") == 0)
        loops(a, b);
    else if (strcmp(argv[1], "react") == 0)
        react(a, b);
    else if (strcmp(argv[1], "squeezed") == 0)
        squeezed(a, b != 0);
    else
        return 2;
    return 0;
}
