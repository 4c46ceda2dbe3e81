/* A program that uses wattfold.h: reports its progress and says when its mask changes.
 * Runs with and without the shim. About 1 ms of one core an iteration, and WAIT ms in which it only
 * waits, as for a disk: fewer cores slow it less then. */
#include "arguments.h"
#include "wattfold.h"

#include <math.h>
#include <time.h>

static const char usage[] = "progress ITERS [WAIT]   (iterations, about 1 ms of one core each, and ms of "
                            "waiting)";

#define TERMS 65536

static double series(long k)
{
    static double term[TERMS];
    double sum = 0.0;
#pragma omp parallel for schedule(static)
    for (long i = 0; i < TERMS; i++)
        term[i] = cos((double)(i + k)) / (double)(i + 1);
    for (long i = 0; i < TERMS; i++)
        sum += term[i];
    return sum;
}

int main(int argc, char **argv)
{
    need_arguments(argc, 1, 2, usage);
    const long iterations = argument(argv[1], "ITERS", 1, 1000000000, usage);
    const long wait_ms = argc > 2 ? argument(argv[2], "WAIT", 0, 60000, usage) : 0;
    const struct timespec pause = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000};
    wattfold_mask mask;
    double sum = 0.0;
    fprintf(stderr, "shim %s, %u cores\n", wattfold_version()[0] ? wattfold_version() : "absent",
            wattfold_cores());
    for (long k = 0; k < iterations; k++) {
        if (wattfold_poll(&mask))
            fprintf(stderr, "mask %llu: %u cores from iteration %ld on\n", (unsigned long long)mask.seq,
                    mask.cores, k);
        sum += series(k);
        if (wait_ms > 0)
            nanosleep(&pause, NULL);
        wattfold_progress((double)(k + 1), (double)iterations);
    }
    printf("progress iterations=%ld sum=%.10e\n", iterations, sum);
    return 0;
}
