/* An ordinary OpenMP program: writes each new team size, and its first CPUs, until the file "stop" exists. */
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    const char *out = arguments[1], *stop = arguments[2];
    char path[4096];
    const char *rank = getenv("SLURM_PROCID");
    cpu_set_t cpus;
    int before = 0;
    (void)count;
    snprintf(path, sizeof(path), "%s.%s", out, rank == NULL ? "0" : rank);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return 1;
    sched_getaffinity(0, sizeof(cpus), &cpus);
    fprintf(file, "pid %d\ncpus %d\njob %s\n", (int)getpid(), CPU_COUNT(&cpus), getenv("WATTFOLD_JOB_ID"));
    while (access(stop, F_OK) != 0) {
        int team = 0;
#pragma omp parallel
#pragma omp single
        team = omp_get_num_threads();
        if (team != before)
            fprintf(file, "team %d\n", team);
        before = team;
        fflush(file);
        usleep(2000);
    }
    fclose(file);
    return 7;
}
