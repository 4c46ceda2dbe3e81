/* Memory bandwidth: copy, scale, add and triad over three arrays, in the manner of STREAM.
 * Each kernel goes through the arrays in blocks of 4 MiB, one parallel region a block (0.5 to 2 ms),
 * so that a change of team size takes hold soon. Bandwidth goes to the first line, the check value,
 * which does not depend on the number of threads, to the second. */
#include "arguments.h"

#include <time.h>

static const char usage[] = "stream MIB ITERS   (MiB of each of three arrays 1..65536, iterations)";

#define BLOCK (4L * 1024 * 1024 / (long)sizeof(double))
#define FACTOR 0.4 /* keeps the values bounded over many iterations */

enum kernel { COPY, SCALE, ADD, TRIAD, KERNELS };

static const char *const names[KERNELS] = {"copy", "scale", "add", "triad"};
static const double arrays_moved[KERNELS] = {2, 2, 3, 3};

static void run_block(enum kernel kernel, double *a, double *b, double *c, long count)
{
    switch (kernel) {
    case COPY:
#pragma omp parallel for schedule(static)
        for (long i = 0; i < count; i++)
            c[i] = a[i];
        break;
    case SCALE:
#pragma omp parallel for schedule(static)
        for (long i = 0; i < count; i++)
            b[i] = FACTOR * c[i];
        break;
    case ADD:
#pragma omp parallel for schedule(static)
        for (long i = 0; i < count; i++)
            c[i] = a[i] + b[i];
        break;
    default:
#pragma omp parallel for schedule(static)
        for (long i = 0; i < count; i++)
            a[i] = b[i] + FACTOR * c[i];
    }
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
    need_arguments(argc, 2, 2, usage);
    const long mib = argument(argv[1], "MIB", 1, 65536, usage);
    const long iterations = argument(argv[2], "ITERS", 1, 1000000000, usage);
    const long count = mib * 1024 * 1024 / (long)sizeof(double);
    double *a = doubles((size_t)count), *b = doubles((size_t)count), *c = doubles((size_t)count);
    double spent[KERNELS] = {0};
#pragma omp parallel for schedule(static)
    for (long i = 0; i < count; i++) {
        a[i] = 1.0 + (double)(i % 7);
        b[i] = 2.0;
        c[i] = 0.0;
    }
    for (long k = 0; k < iterations; k++)
        for (int kernel = 0; kernel < KERNELS; kernel++) {
            const double start = seconds();
            for (long at = 0; at < count; at += BLOCK)
                run_block((enum kernel)kernel, a + at, b + at, c + at,
                          count - at < BLOCK ? count - at : BLOCK);
            spent[kernel] += seconds() - start;
        }
    for (int kernel = 0; kernel < KERNELS; kernel++)
        printf("%s=%.0f MB/s%c", names[kernel],
               arrays_moved[kernel] * (double)(count * (long)sizeof(double)) * (double)iterations /
                   spent[kernel] / 1e6,
               kernel + 1 < KERNELS ? ' ' : '\n');
    double check = 0.0;
    for (long i = 0; i < count; i++)
        check += a[i];
    printf("stream mib=%ld iterations=%ld check=%.10e\n", mib, iterations, check);
    free(a);
    free(b);
    free(c);
    return 0;
}
