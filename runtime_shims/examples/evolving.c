/* A program whose need of cores changes: set up on one core, solve on many, write on one. It says which
 * phase it is in and asks for the cores it can use; what it gets is another matter, so it goes on either
 * way. Submit it with --kind evolving. Runs without the shim too. */
#include "arguments.h"
#include "wattfold.h"

#include <math.h>
#include <omp.h>

static const char usage[] = "evolving CORES ITERS   (cores to solve with, iterations of each phase)";

#define TERMS 65536

/* About 1 ms of one core. */
static double series(long k, int threads)
{
    static double term[TERMS];
    double sum = 0.0;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (long i = 0; i < TERMS; i++)
        term[i] = cos((double)(i + k)) / (double)(i + 1);
    for (long i = 0; i < TERMS; i++)
        sum += term[i];
    return sum;
}

static double phase(const char *name, int cores, long iterations)
{
    double sum = 0.0;
    wattfold_phase(name);
    wattfold_request((unsigned)cores);
    for (long k = 0; k < iterations; k++)
        sum += series(k, cores);
    return sum;
}

int main(int argc, char **argv)
{
    need_arguments(argc, 2, 2, usage);
    const int cores = (int)argument(argv[1], "CORES", 1, 4096, usage);
    const long iterations = argument(argv[2], "ITERS", 1, 1000000000, usage);
    double sum = phase("setup", 1, iterations);
    sum += phase("solve", cores, iterations);
    sum += phase("write", 1, iterations);
    printf("evolving iterations=%ld sum=%.10e\n", iterations, sum);
    return 0;
}
