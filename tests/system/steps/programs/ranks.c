/* An MPI program that prints the nodes of its ranks and ends in a given way:
   ranks [fail RANK CODE | die RANK | wait MARK]
   It sleeps while it waits for other ranks. In MPI_Finalize a rank naps 10,000 times a second. If
   other ranks of its node spin on the same core, they keep every other session off this core:
   Linux 6.18 gives the whole core to that rank's session for minutes. */
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

static void await(MPI_Request *request) {
  for (int done = 0; !done; usleep(1000)) MPI_Test(request, &done, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
  int rank, size, sum = 0;
  MPI_Request request;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  await(&request);
  printf("rank %d of %d on %s sum %d colour %s\n", rank, size, variable("WATTFOLD_NODE_ID"), sum,
         variable("COLOUR"));
  fflush(stdout);
  if (argc > 1 && !strcmp(argv[1], "die") && rank == atoi(argv[2])) raise(SIGKILL);
  if (argc > 1 && strcmp(argv[1], "fail"))
    for (;;) pause();
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  await(&request);
  MPI_Finalize();
  return argc > 1 && rank == atoi(argv[2]) ? atoi(argv[3]) : 0;
}
