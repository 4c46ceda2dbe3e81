/* Programs that do not tolerate a changing team size, each in its own way; "fit" and "serial" do. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REGIONS 8000

static double work(const double *x, double *y, int n)
{
    double sum = 0;
#pragma omp parallel for
    for (int i = 0; i < n; i++)
        y[i] = x[i] * 0.5 + 1.0;
    for (int i = 0; i < n; i++)
        sum += y[i];
    return sum;
}

int main(int argc, char **argv)
{
    static double x[2000], y[2000];
    const char *kind = argc == 2 ? argv[1] : "";
    const int launched = omp_get_max_threads();
    double sum = 0;
    long threads = 0;
    for (int i = 0; i < 2000; i++)
        x[i] = i;
    /* Long enough for a report to arrive. */
    const double start = omp_get_wtime();
    while (strcmp(kind, "serial") == 0 && omp_get_wtime() < start + 0.5)
        ;
    for (int k = 0; k < REGIONS; k++) {
        int team = launched;
        if (strcmp(kind, "serial") != 0) {
            sum += work(x, y, 2000);
#pragma omp parallel
#pragma omp single
            team = omp_get_num_threads();
        }
        threads += team;
        if (strcmp(kind, "aborts") == 0 && team != launched) {
            fputs("the number of threads has changed\n", stderr);
            abort();
        }
        while (strcmp(kind, "hangs") == 0 && team != launched)
            pause();
    }
    printf("sum %.6f\n", sum + (strcmp(kind, "drifts") == 0 ? 1e-9 * (double)threads : 0.0));
    if (strcmp(kind, "counts") == 0)
        printf("threads %ld\n", threads);
    return strcmp(kind, "fails") == 0 ? 3 : 0;
}
