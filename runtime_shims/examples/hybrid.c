/* Five-point Jacobi iteration for the Laplace equation on an N x N grid with a hot upper edge, by MPI
 * ranks with OpenMP threads: each rank has a block of rows and swaps their edges with its neighbours in
 * every iteration. Row sums are added up in order, so that the result depends neither on the number of
 * ranks nor on that of threads; it is that of `jacobi`. */
#include "arguments.h"

#include <math.h>
#include <mpi.h>

static const char usage[] = "hybrid N [ITERS]   (grid 3..20000, iterations, default 1000)";

struct block {
    long n;         /* numbers in a row */
    long first;     /* of the inner rows 1..n-2, the first here */
    long rows;      /* inner rows here; one more lies at either side */
    int up, down;   /* ranks of the neighbours */
    double *old, *new, *row_sum;
};

static long first_row(long n, int rank, int ranks)
{
    return 1 + (n - 2) * rank / ranks;
}

static struct block block_new(long n, int rank, int ranks)
{
    struct block b = {.n = n, .first = first_row(n, rank, ranks)};
    b.rows = first_row(n, rank + 1, ranks) - b.first;
    b.up = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    b.down = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    b.old = doubles((size_t)((b.rows + 2) * n));
    b.new = doubles((size_t)((b.rows + 2) * n));
    b.row_sum = doubles((size_t)b.rows + 1);
    for (long i = 0; i < (b.rows + 2) * n; i++)
        b.old[i] = b.new[i] = b.first == 1 && i < n ? 1.0 : 0.0;
    return b;
}

static void swap_edges(const struct block *b)
{
    const int count = (int)b->n;
    double *top = b->old, *bottom = b->old + (b->rows + 1) * b->n;
    MPI_Sendrecv(top + b->n, count, MPI_DOUBLE, b->up, 0, bottom, count, MPI_DOUBLE, b->down, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(bottom - b->n, count, MPI_DOUBLE, b->down, 1, top, count, MPI_DOUBLE, b->up, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void sweep(const struct block *b)
{
    const long n = b->n;
    const double *restrict old = b->old;
    double *restrict new = b->new;
#pragma omp parallel for schedule(static)
    for (long i = 1; i <= b->rows; i++) {
        double sum = 0.0;
        for (long j = 1; j < n - 1; j++) {
            const long at = i * n + j;
            new[at] = 0.25 * (old[at - n] + old[at + n] + old[at - 1] + old[at + 1]);
            const double change = new[at] - old[at];
            sum += change * change;
        }
        b->row_sum[i - 1] = sum;
    }
}

/* Edges of the grid stay as they are, in both copies. */
static void iterate(struct block *b, long iterations)
{
    for (long k = 0; k < iterations; k++) {
        swap_edges(b);
        sweep(b);
        double *swap = b->old;
        b->old = b->new;
        b->new = swap;
    }
}

/* Numbers of all ranks in their order, on rank 0; the caller frees. */
static double *gathered(const double *mine, long width, const struct block *b, int rank, int ranks)
{
    int *counts = calloc((size_t)ranks, sizeof *counts), *starts = calloc((size_t)ranks, sizeof *starts);
    double *all = rank == 0 ? doubles((size_t)(b->n * width)) : NULL;
    if (counts == NULL || starts == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int r = 0; r < ranks; r++) {
        starts[r] = (int)((first_row(b->n, r, ranks) - 1) * width);
        counts[r] = (int)((first_row(b->n, r + 1, ranks) - first_row(b->n, r, ranks)) * width);
    }
    MPI_Gatherv(mine, counts[rank], MPI_DOUBLE, all, counts, starts, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    free(counts);
    free(starts);
    return all;
}

static void report(const struct block *b, long iterations, int rank, int ranks)
{
    double *sums = gathered(b->row_sum, 1, b, rank, ranks);
    double *rows = gathered(b->old + b->n, b->n, b, rank, ranks);
    if (rank == 0) {
        double residual = 0.0, checksum = (double)b->n; /* the hot edge */
        for (long i = 0; i < b->n - 2; i++)
            residual += sums[i];
        for (long i = 0; i < (b->n - 2) * b->n; i++)
            checksum += rows[i];
        printf("jacobi n=%ld iterations=%ld residual=%.10e checksum=%.10e\n", b->n, iterations,
               sqrt(residual), checksum);
    }
    free(sums);
    free(rows);
}

int main(int argc, char **argv)
{
    int provided, rank, ranks;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    need_arguments(argc, 1, 2, usage);
    const long n = argument(argv[1], "N", 3, 20000, usage);
    const long iterations = argc > 2 ? argument(argv[2], "ITERS", 1, 1000000000, usage) : 1000;
    struct block b = block_new(n, rank, ranks);
    iterate(&b, iterations);
    report(&b, iterations, rank, ranks);
    free(b.old);
    free(b.new);
    free(b.row_sum);
    MPI_Finalize();
    return 0;
}
