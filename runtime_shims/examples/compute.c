/* Compute-bound work without memory traffic: logistic maps, started from fixed points.
 * One parallel region an iteration, about 1 ms of one core. The sum is taken in order, so that the
 * result does not depend on the number of threads. */
#include "arguments.h"

static const char usage[] = "compute ITERS   (iterations, about 1 ms of one core each)";

#define MAPS 1024
#define ROUNDS 1024

static void iterate(double *value)
{
#pragma omp parallel for schedule(static)
    for (long i = 0; i < MAPS; i++) {
        double x = value[i];
        for (int k = 0; k < ROUNDS; k++)
            x = 3.9 * x * (1.0 - x);
        value[i] = x;
    }
}

int main(int argc, char **argv)
{
    static double value[MAPS];
    need_arguments(argc, 1, 1, usage);
    const long iterations = argument(argv[1], "ITERS", 1, 1000000000, usage);
    for (long i = 0; i < MAPS; i++)
        value[i] = ((double)i + 0.5) / MAPS;
    for (long k = 0; k < iterations; k++)
        iterate(value);
    double checksum = 0.0;
    for (long i = 0; i < MAPS; i++)
        checksum += value[i];
    printf("compute iterations=%ld checksum=%.10e\n", iterations, checksum);
    return 0;
}
