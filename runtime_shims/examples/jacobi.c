/* Five-point Jacobi iteration for the Laplace equation on an N x N grid with a hot upper edge.
 * One parallel region an iteration: about 0.3 ms of one core for N = 512. Row sums are added up in
 * order, so that the result does not depend on the number of threads. */
#include "arguments.h"

#include <math.h>

static const char usage[] = "jacobi N [ITERS]   (grid 3..20000, iterations, default 1000)";

static double *grid_new(long n)
{
    double *grid = doubles((size_t)(n * n));
    for (long i = 0; i < n * n; i++)
        grid[i] = i < n ? 1.0 : 0.0;
    return grid;
}

/* New grid from old; row_sum[i] gets the squared change of row i. */
static void sweep(long n, const double *restrict old, double *restrict new, double *restrict row_sum)
{
#pragma omp parallel for schedule(static)
    for (long i = 1; i < n - 1; i++) {
        double sum = 0.0;
        for (long j = 1; j < n - 1; j++) {
            const long at = i * n + j;
            new[at] = 0.25 * (old[at - n] + old[at + n] + old[at - 1] + old[at + 1]);
            const double change = new[at] - old[at];
            sum += change * change;
        }
        row_sum[i] = sum;
    }
}

int main(int argc, char **argv)
{
    need_arguments(argc, 1, 2, usage);
    const long n = argument(argv[1], "N", 3, 20000, usage);
    const long iterations = argc > 2 ? argument(argv[2], "ITERS", 1, 1000000000, usage) : 1000;
    double *old = grid_new(n), *new = grid_new(n), *row_sum = doubles((size_t)n);
    for (long k = 0; k < iterations; k++) {
        sweep(n, old, new, row_sum);
        double *swap = old;
        old = new;
        new = swap;
    }
    double residual = 0.0, checksum = 0.0;
    for (long i = 1; i < n - 1; i++)
        residual += row_sum[i];
    for (long i = 0; i < n * n; i++)
        checksum += old[i];
    printf("jacobi n=%ld iterations=%ld residual=%.10e checksum=%.10e\n", n, iterations,
           sqrt(residual), checksum);
    free(old);
    free(new);
    free(row_sum);
    return 0;
}
