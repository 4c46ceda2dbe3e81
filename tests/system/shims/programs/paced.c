/* A program whose reported speed depends on its cores alone, however busy the machine is: its progress is
 * the time of the clock, times the speedup by Amdahl's law.
 *
 *   paced SERIAL      serial share of the run time on one core, from 0 to 1 */
#include "wattfold.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "paced: usage: paced SERIAL\n");
        return 2;
    }
    const double serial = atof(argv[1]);
    const struct timespec pause = {.tv_nsec = 10000000};
    double done = 0.0, before = seconds();
    for (;;) {
        int team = 1;
#pragma omp parallel
#pragma omp single
        team = omp_get_num_threads();
        nanosleep(&pause, NULL);
        const double now = seconds();
        done += (now - before) / (serial + (1.0 - serial) / team);
        before = now;
        wattfold_progress(done, 0.0);
    }
}
