/* An MPI program that says where its ranks are, and ends as it is told:
   ranks [fail RANK CODE | die RANK | wait MARK] */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value ? value : "-";
}

int main(int argc, char **argv) {
  int rank, size, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d of %d on %s sum %d colour %s\n", rank, size, variable("WATTFOLD_NODE_ID"), sum,
         variable("COLOUR"));
  fflush(stdout);
  if (argc > 1 && !strcmp(argv[1], "die") && rank == atoi(argv[2])) raise(SIGKILL);
  if (argc > 1 && strcmp(argv[1], "fail"))
    for (;;) pause();
  MPI_Finalize();
  return argc > 1 && rank == atoi(argv[2]) ? atoi(argv[3]) : 0;
}
