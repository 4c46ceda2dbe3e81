/* An MPI program that saves on SIGUSR1 and resumes with another number of ranks:
   chain STEPS PAUSE GATE. In every step all ranks share the sum over a row of numbers. The result
   does not depend on the number of ranks. It waits after PAUSE steps for the file GATE. */
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROW = 1000 };
static volatile sig_atomic_t told;

static void tell(int number) { told = number; }

static void path_of(char *path, size_t bytes, const char *name) {
  snprintf(path, bytes, "%s/%s", getenv("WATTFOLD_SNAPSHOT_DIR"), name);
}

static void load(long *step, uint64_t *value) {
  char path[4096];
  path_of(path, sizeof path, "state");
  FILE *file = fopen(path, "r");
  unsigned long long read = 0;
  if (file && fscanf(file, "%ld %llu", step, &read) == 2) *value = read;
  if (file) fclose(file);
}

static void save(long step, uint64_t value) {
  char new[4096], path[4096];
  path_of(new, sizeof new, "new");
  path_of(path, sizeof path, "state");
  FILE *file = fopen(new, "w");
  fprintf(file, "%ld %llu\n", step, (unsigned long long)value);
  fclose(file);
  rename(new, path);
}

static uint64_t part_of(uint64_t value, int rank, int size) {
  uint64_t sum = 0;
  for (int at = rank; at < ROW; at += size) sum += (value ^ (uint64_t)at) * 2654435761u;
  return sum;
}

int main(int argc, char **argv) {
  int rank, size, wish[2], all[2];
  long step = 0, steps = atol(argv[1]), pause_at = atol(argv[2]);
  uint64_t value = 1, sum;
  (void)argc;
  signal(SIGUSR1, tell);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (!rank) load(&step, &value);
  MPI_Bcast(&step, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  MPI_Bcast(&value, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  if (!rank) printf("attempt %s: %d ranks from %ld\n", getenv("WATTFOLD_ATTEMPT"), size, step);
  fflush(stdout);
  while (step < steps) {
    wish[0] = told != 0;
    wish[1] = !rank && step == pause_at && access(argv[3], F_OK) != 0;
    MPI_Allreduce(wish, all, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (all[0]) {
      if (!rank) save(step, value);
      MPI_Finalize();
      return 0;
    }
    if (all[1]) {
      usleep(10000);
      continue;
    }
    sum = part_of(value, rank, size);
    MPI_Allreduce(&sum, &value, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    step++;
  }
  if (!rank) printf("result %llu\n", (unsigned long long)value);
  MPI_Finalize();
  return 0;
}
