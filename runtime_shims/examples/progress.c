/* A program that uses wattfold.h: reports its progress and says when its mask changes.
 * Runs with and without the shim. About 1 ms of one core an iteration. */
#include "arguments.h"
#include "wattfold.h"

#include <math.h>

static const char usage[] = "progress ITERS   (iterations, about 1 ms of one core each)";

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
    need_arguments(argc, 1, 1, usage);
    const long iterations = argument(argv[1], "ITERS", 1, 1000000000, usage);
    wattfold_mask mask;
    double sum = 0.0;
    fprintf(stderr, "shim %s, %u cores\n", wattfold_version()[0] ? wattfold_version() : "absent",
            wattfold_cores());
    for (long k = 0; k < iterations; k++) {
        if (wattfold_poll(&mask))
            fprintf(stderr, "mask %llu: %u cores from iteration %ld on\n", (unsigned long long)mask.seq,
                    mask.cores, k);
        sum += series(k);
        wattfold_progress((double)(k + 1), (double)iterations);
    }
    printf("progress iterations=%ld sum=%.10e\n", iterations, sum);
    return 0;
}
