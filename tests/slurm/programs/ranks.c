/* An ordinary MPI + OpenMP program: reduces over its ranks until the file in argument 2 exists. */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    int rank, stop = 0, steps = 0, threads = 0, sum = 0;
    char path[4096];
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof(path), "%s.%d", arguments[1], rank);
    while (!stop) {
#pragma omp parallel
#pragma omp single
        threads = omp_get_num_threads();
        MPI_Allreduce(&threads, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        stop = rank == 0 && access(arguments[2], F_OK) == 0;
        MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
        FILE *file = fopen(path, "w");
        if (file == NULL)
            return 1;
        fprintf(file, "pid %d\nsum %d\nsteps %d\n", (int)getpid(), sum, ++steps);
        fclose(file);
        usleep(2000);
    }
    MPI_Finalize();
    return 0;
}
