/* A library that loads OpenMP into a program without OpenMP, as Python extensions do. */
#include <omp.h>

int extension_team(void)
{
    int team = 0;
#pragma omp parallel
#pragma omp single
    team = omp_get_num_threads();
    return team;
}
