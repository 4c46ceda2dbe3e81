/* An OpenMP program that executes commands, one line of standard input at a time, and answers each with
 * one line. Between two commands it is in a serial phase. Team sizes are read inside regions. */
#include "wattfold.h"

#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define ITEMS 1000L

/* libgomp's binary interface, for the forms that no current compiler generates. */
extern void GOMP_parallel_start(void (*)(void *), void *, unsigned);
extern void GOMP_parallel_end(void);
extern void GOMP_parallel_loop_static(void (*)(void *), void *, unsigned, long, long, long, long,
                                      unsigned);
extern void GOMP_parallel_loop_static_start(void (*)(void *), void *, unsigned, long, long, long, long);
extern void GOMP_parallel_loop_dynamic_start(void (*)(void *), void *, unsigned, long, long, long, long);
extern void GOMP_parallel_loop_guided_start(void (*)(void *), void *, unsigned, long, long, long, long);
extern void GOMP_parallel_loop_runtime_start(void (*)(void *), void *, unsigned, long, long, long);
extern void GOMP_parallel_sections_start(void (*)(void *), void *, unsigned, unsigned);
extern bool GOMP_loop_static_next(long *, long *);
extern bool GOMP_loop_dynamic_next(long *, long *);
extern bool GOMP_loop_guided_next(long *, long *);
extern bool GOMP_loop_runtime_next(long *, long *);
extern void GOMP_loop_end_nowait(void);
extern unsigned GOMP_sections_next(void);
extern void GOMP_sections_end_nowait(void);

static int team;
static long sum;

static void seen(void)
{
    __atomic_store_n(&team, omp_get_num_threads(), __ATOMIC_RELAXED);
}

static void add(long i)
{
#pragma omp atomic
    sum += i;
}

static void body_plain(void *data)
{
    (void)data;
    seen();
    for (long i = omp_get_thread_num(); i < ITEMS; i += omp_get_num_threads())
        add(i);
}

static void body_loop(void *next_fn)
{
    bool (*next)(long *, long *) = *(bool (**)(long *, long *))next_fn;
    long start, end;
    seen();
    while (next(&start, &end))
        for (long i = start; i < end; i++)
            add(i);
    GOMP_loop_end_nowait();
}

static void body_sections(void *data)
{
    (void)data;
    seen();
    for (unsigned section = GOMP_sections_next(); section != 0; section = GOMP_sections_next())
        add((long)section);
    GOMP_sections_end_nowait();
}

/* libgomp treats a clause of 0 as a missing clause. */
#define SCHEDULED(schedule)                                                                        \
    do {                                                                                           \
        _Pragma(schedule) for (long i = 0; i < ITEMS; i++)                                         \
        {                                                                                          \
            seen();                                                                                \
            add(i);                                                                                \
        }                                                                                          \
    } while (0)

typedef bool (*next_fn)(long *, long *);

static void old_loop(const char *kind, unsigned clause)
{
    next_fn next;
    if (strcmp(kind, "static_start") == 0) {
        next = GOMP_loop_static_next;
        GOMP_parallel_loop_static_start(body_loop, &next, clause, 0, ITEMS, 1, 10);
    } else if (strcmp(kind, "dynamic_start") == 0) {
        next = GOMP_loop_dynamic_next;
        GOMP_parallel_loop_dynamic_start(body_loop, &next, clause, 0, ITEMS, 1, 10);
    } else if (strcmp(kind, "guided_start") == 0) {
        next = GOMP_loop_guided_next;
        GOMP_parallel_loop_guided_start(body_loop, &next, clause, 0, ITEMS, 1, 10);
    } else {
        next = GOMP_loop_runtime_next;
        GOMP_parallel_loop_runtime_start(body_loop, &next, clause, 0, ITEMS, 1);
    }
    body_loop(&next);
    GOMP_parallel_end();
}

static void task_reduction(int clause)
{
    long total = 0;
#pragma omp parallel num_threads(clause) reduction(task, + : total)
#pragma omp single
    for (long i = 0; i < ITEMS; i++)
#pragma omp task in_reduction(+ : total)
    {
        seen();
        total += i;
    }
    sum = total;
}

static void modern_sections(int clause)
{
#pragma omp parallel sections num_threads(clause)
    {
#pragma omp section
        {
            seen();
            add(1);
        }
#pragma omp section
        add(2);
    }
}

static void region(const char *kind, int clause)
{
    team = 0;
    sum = 0;
    if (strcmp(kind, "parallel") == 0) {
#pragma omp parallel num_threads(clause)
        body_plain(NULL);
    } else if (strcmp(kind, "dynamic") == 0) {
        SCHEDULED("omp parallel for num_threads(clause) schedule(monotonic : dynamic, 1)");
    } else if (strcmp(kind, "guided") == 0) {
        SCHEDULED("omp parallel for num_threads(clause) schedule(monotonic : guided)");
    } else if (strcmp(kind, "runtime") == 0) {
        SCHEDULED("omp parallel for num_threads(clause) schedule(monotonic : runtime)");
    } else if (strcmp(kind, "nonmonotonic_dynamic") == 0) {
        SCHEDULED("omp parallel for num_threads(clause) schedule(nonmonotonic : dynamic, 1)");
    } else if (strcmp(kind, "nonmonotonic_guided") == 0) {
        SCHEDULED("omp parallel for num_threads(clause) schedule(nonmonotonic : guided)");
    } else if (strcmp(kind, "nonmonotonic_runtime") == 0) {
        SCHEDULED("omp parallel for num_threads(clause) schedule(nonmonotonic : runtime)");
    } else if (strcmp(kind, "maybe_nonmonotonic_runtime") == 0) {
        SCHEDULED("omp parallel for num_threads(clause) schedule(runtime)");
    } else if (strcmp(kind, "static") == 0) {
        next_fn next = GOMP_loop_static_next;
        GOMP_parallel_loop_static(body_loop, &next, (unsigned)clause, 0, ITEMS, 1, 10, 0);
    } else if (strcmp(kind, "reductions") == 0) {
        task_reduction(clause);
    } else if (strcmp(kind, "sections") == 0) {
        modern_sections(clause);
    } else if (strcmp(kind, "parallel_start") == 0) {
        GOMP_parallel_start(body_plain, NULL, (unsigned)clause);
        body_plain(NULL);
        GOMP_parallel_end();
    } else if (strcmp(kind, "sections_start") == 0) {
        GOMP_parallel_sections_start(body_sections, NULL, (unsigned)clause, 2);
        body_sections(NULL);
        GOMP_parallel_end();
    } else {
        old_loop(kind, (unsigned)clause);
    }
}

/* Regions that share up to eleven variables: LLVM's runtime gets each as one more argument, the first in registers,
 * the others on the stack. Return the number of threads that saw a wrong value. */
static int captures(void)
{
    long a = 1, b = 2, c = 3, d = 5, e = 7, f = 11, g = 13, h = 17, i = 19, j = 23, k = 29;
    int wrong = 0;
#pragma omp parallel reduction(+ : wrong)
    wrong += a != 1;
#pragma omp parallel reduction(+ : wrong) firstprivate(b)
    wrong += a != 1 || b != 2;
#pragma omp parallel reduction(+ : wrong)
    wrong += a != 1 || b != 2 || c != 3;
#pragma omp parallel reduction(+ : wrong)
    wrong += a != 1 || b != 2 || c != 3 || d != 5;
#pragma omp parallel reduction(+ : wrong) firstprivate(c)
    wrong += a != 1 || b != 2 || c != 3 || d != 5 || e != 7;
#pragma omp parallel reduction(+ : wrong)
    wrong += a != 1 || b != 2 || c != 3 || d != 5 || e != 7 || f != 11;
#pragma omp parallel reduction(+ : wrong)
    wrong += a + b + c + d + e + f + g + h + i + j != 101 || a * b * c * d != 30;
#pragma omp parallel reduction(+ : wrong) firstprivate(a, k)
    {
        wrong += a + b + c + d + e + f + g + h + i + j + k != 130 || k != 29;
#pragma omp critical
        b += 0, c += 0, d += 0, e += 0, f += 0, g += 0, h += 0, i += 0, j += 0;
    }
    return wrong;
}

/* Team sizes of a region whose if clause may make it serial, and of the next region. */
static void serial(int clause, bool parallel)
{
    int first = 0;
#pragma omp parallel num_threads(clause) if (parallel) reduction(max : first)
    first = omp_get_num_threads();
    region("parallel", 0);
    printf("%d %d\n", first, team);
}

static int plain_team(int clause)
{
    region("parallel", clause);
    return team;
}

static void *from_thread(void *clause)
{
    plain_team(*(int *)clause);
    return NULL;
}

static void tell_mask(void)
{
    wattfold_mask mask = {0};
    const int known = wattfold_get_mask(&mask);
    printf("%d %llu %u\n", known, (unsigned long long)mask.seq, mask.cores);
}

/* Print that a region is active, and answer requests for the mask, until another command ends the wait. */
static void stay(int threads)
{
    char line[64];
    printf("inside %d\n", threads);
    for (;;) {
        fflush(stdout);
        if (fgets(line, sizeof line, stdin) == NULL)
            exit(3);
        if (strcmp(line, "mask\n") != 0)
            return;
        tell_mask();
    }
}

/* Stay in a region until the next command; answer immediately that the region is active. */
static void hold(bool old_form, unsigned clause)
{
    if (old_form) {
        GOMP_parallel_start(body_plain, NULL, clause);
        body_plain(NULL);
        stay(team);
        GOMP_parallel_end();
        return;
    }
#pragma omp parallel num_threads(clause)
    {
        seen();
#pragma omp master
        stay(omp_get_num_threads());
    }
}

/* The same in two levels: all threads of the outer team are inside their own regions. */
static void hold_nested(int outer, int inner)
{
    char line[64];
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(outer)
    {
#pragma omp parallel num_threads(inner)
        {
#pragma omp barrier
            if (omp_get_ancestor_thread_num(1) == 0 && omp_get_thread_num() == 0) {
                printf("inside %d %d\n", omp_get_team_size(1), omp_get_num_threads());
                fflush(stdout);
                if (fgets(line, sizeof line, stdin) == NULL)
                    exit(3);
            }
        }
    }
    omp_set_max_active_levels(1);
}

/* Print the sizes of the outer team and of the largest inner team. */
static void nested(int outer, int inner)
{
    int outer_team = 0, inner_team = 0;
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(outer) reduction(max : inner_team)
    {
        if (omp_get_thread_num() == 0)
            outer_team = omp_get_num_threads();
#pragma omp parallel num_threads(inner) reduction(max : inner_team)
        inner_team = omp_get_num_threads();
    }
    omp_set_max_active_levels(1);
    printf("%d %d\n", outer_team, inner_team);
}

static void forked(void)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        wattfold_mask mask;
        printf("child %d %d\n", plain_team(0), wattfold_poll(&mask));
        fflush(stdout);
        exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static volatile sig_atomic_t signals;

static void on_alarm(int number)
{
    (void)number;
    signals++;
}

/* Run regions under frequent signals of a timer, and print the number of regions that lost work. */
static void storm(int regions)
{
    const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    const struct sigaction action = {.sa_handler = on_alarm};
    int lost = 0;
    sigaction(SIGALRM, &action, NULL);
    signals = 0;
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < regions || signals < 20; i++) {
        region(i % 2 ? "parallel" : "dynamic", 0);
        lost += sum != ITEMS * (ITEMS - 1) / 2;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("lost %d signals %d\n", lost, signals >= 20);
}

/* Short-lived threads, each with its own regions: the number of teams larger than allowed. */
static void *short_life(void *most)
{
    int larger = 0;
    for (int i = 0; i < 20; i++) {
        int size = 0;
#pragma omp parallel reduction(max : size)
        size = omp_get_num_threads();
        larger += size > *(int *)most;
    }
    return larger > 0 ? most : NULL;
}

static void crowd(int rounds, int most)
{
    int larger = 0;
    for (int i = 0; i < rounds; i++) {
        pthread_t threads[4];
        void *result;
        for (int t = 0; t < 4; t++)
            if (pthread_create(&threads[t], NULL, short_life, &most) != 0)
                exit(3);
        for (int t = 0; t < 4; t++) {
            pthread_join(threads[t], &result);
            larger += result != NULL;
        }
    }
    printf("larger %d\n", larger);
}

static void *leave_in_region(void *nothing)
{
    (void)nothing;
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 0) {
        puts("leaving");
        exit(7);
    }
    return NULL;
}

static _Atomic int called;
static _Atomic unsigned called_cores;
static int callback = -1;

static void note(const wattfold_mask *mask, void *context)
{
    called_cores = mask->cores;
    ++*(_Atomic int *)context;
}

static bool obey_interface(const char *line)
{
    char name[64] = "";
    unsigned wanted = 0;
    if (strcmp(line, "listen\n") == 0) {
        callback = wattfold_on_change(note, &called);
        printf("%d\n", callback >= 0);
    } else if (strcmp(line, "called\n") == 0) {
        printf("%d %u\n", called, called_cores);
    } else if (strcmp(line, "ignore\n") == 0) {
        wattfold_off_change(callback);
        puts("ignored");
    } else if (sscanf(line, "request %u", &wanted) == 1) {
        printf("%d\n", wattfold_request(wanted));
    } else if (sscanf(line, "grow %u", &wanted) == 1) {
        printf("%d\n", wattfold_allow_growth(wanted));
    } else if (sscanf(line, "phase %63[^\n]", name) == 1) {
        wattfold_phase(name);
        puts("named");
    } else if (strcmp(line, "mask\n") == 0) {
        tell_mask();
    } else {
        return false;
    }
    fflush(stdout);
    return true;
}

static bool obey(const char *line)
{
    char kind[64];
    int a = 0, b = 0;
    double x = 0, y = 0;
    if (sscanf(line, "region %63s %d", kind, &a) == 2) {
        region(kind, a);
        printf("%d %ld\n", team, sum);
    } else if (sscanf(line, "hold %d %d", &a, &b) == 2) {
        hold(a != 0, (unsigned)b);
        puts("outside");
    } else if (sscanf(line, "hold nested %d %d", &a, &b) == 2) {
        hold_nested(a, b);
        puts("outside");
    } else if (sscanf(line, "nested %d %d", &a, &b) == 2) {
        nested(a, b);
    } else if (sscanf(line, "set %d", &a) == 1) {
        omp_set_num_threads(a);
        printf("%d\n", omp_get_max_threads());
    } else if (sscanf(line, "if %d %d", &a, &b) == 2) {
        serial(b, a != 0);
    } else if (strcmp(line, "captures\n") == 0) {
        printf("wrong %d\n", captures());
    } else if (sscanf(line, "storm %d", &a) == 1) {
        storm(a);
    } else if (sscanf(line, "crowd %d %d", &a, &b) == 2) {
        crowd(a, b);
    } else if (strcmp(line, "max\n") == 0) {
        printf("%d\n", omp_get_max_threads());
    } else if (sscanf(line, "thread %d", &a) == 1) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, from_thread, &a) != 0 || pthread_join(thread, NULL) != 0)
            exit(3);
        printf("%d\n", team);
    } else if (sscanf(line, "progress %lf %lf", &x, &y) == 2) {
        wattfold_progress(x, y);
        puts("reported");
    } else if (strcmp(line, "poll\n") == 0) {
        wattfold_mask mask = {0};
        const int changed = wattfold_poll(&mask);
        printf("%d %llu %u %llx\n", changed, (unsigned long long)mask.seq, mask.cores,
               (unsigned long long)mask.bits[0]);
    } else if (strcmp(line, "cores\n") == 0) {
        printf("%u %s\n", wattfold_cores(), wattfold_version());
    } else if (strcmp(line, "fork\n") == 0) {
        forked();
    } else if (strcmp(line, "exec\n") == 0) {
        execlp("cat", "cat", "/proc/self/status", (char *)NULL);
    } else if (strcmp(line, "exit in region\n") == 0) {
        leave_in_region(NULL);
    } else if (strcmp(line, "pthread_exit\n") == 0) {
        fflush(stdout);
        pthread_exit(NULL);
    } else {
        return false;
    }
    fflush(stdout);
    return true;
}

int main(void)
{
    char line[128];
    while (fgets(line, sizeof line, stdin) != NULL)
        if (!obey_interface(line) && !obey(line)) {
            fprintf(stderr, "not a command: %s", line);
            return 2;
        }
    return 0;
}
