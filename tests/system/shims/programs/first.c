/* An OpenMP program that starts with a region and continues with small regions until a given file exists. It
 * prints the size of the first team and each changed size, as seen from inside a region, and the maximum
 * number of threads that it assumes. */
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

static int region(void)
{
    int team = 0;
#pragma omp parallel
    {
#pragma omp single
        team = omp_get_num_threads();
    }
    return team;
}

int main(int argc, char **argv)
{
    int before = 0;
    if (argc != 3)
        return 2;
    do {
        const int team = region();
        if (team != before)
            printf("%s team %d of %d\n", argv[1], team, omp_get_max_threads());
        fflush(stdout);
        before = team;
        usleep(200);
    } while (access(argv[2], F_OK) != 0);
    return 0;
}
