/* Conjugate gradients on a sparse matrix, as NPB's CG: one region per solve with work shared inside
 * it, loops whose data the same thread should access again, and sums. Dot products are added in
 * pieces of fixed length, so that every digit is the same for all teams ("exact"); the norm
 * of the line "near" is a reduction. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define N 4096
#define NONZERO 9
#define PIECE 256
#define PIECES (N / PIECE)
#define STEPS 12

static int columns[N][NONZERO];
static double values[N][NONZERO];
static double x[N], r[N], p[N], q[N], z[N];
static double parts[PIECES];

static uint64_t state = 314159265u;

/* A repeatable number below 1000. */
static unsigned draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % 1000;
}

/* Symmetric, since row and column of an entry differ by the same bits, and positive definite. */
static void fill(void)
{
    for (int i = 0; i < N; i++) {
        columns[i][0] = i;
        values[i][0] = 4.0 + draw() / 1000.0;
        x[i] = 1.0 + (i % 7) / 7.0;
    }
    for (int k = 1; k < NONZERO; k++) {
        const int bits = (int)(draw() * 4 + (unsigned)k) % (N - 1) + 1;
        for (int i = 0; i < N; i++) {
            columns[i][k] = i ^ bits;
            values[i][k] = i < (i ^ bits) ? draw() / 4000.0 : values[i ^ bits][k];
        }
    }
}

/* All threads of a team must call this; all get the same result. */
static double dot(const double *a, const double *b)
{
#pragma omp for schedule(static)
    for (int piece = 0; piece < PIECES; piece++) {
        double sum = 0;
        for (int i = piece * PIECE; i < (piece + 1) * PIECE; i++)
            sum += a[i] * b[i];
        parts[piece] = sum;
    }
    double sum = 0;
    for (int piece = 0; piece < PIECES; piece++)
        sum += parts[piece];
    /* No thread may write the parts again before all have read them. */
#pragma omp barrier
    return sum;
}

/* A few steps towards the solution of A z = x, one matrix product each. */
static void solve(void)
{
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int i = 0; i < N; i++) {
            z[i] = 0;
            r[i] = p[i] = x[i];
        }
        double rho = dot(r, r);
        for (int step = 0; step < STEPS; step++) {
#pragma omp for schedule(guided)
            for (int i = 0; i < N; i++) {
                double sum = 0;
                for (int k = 0; k < NONZERO; k++)
                    sum += values[i][k] * p[columns[i][k]];
                q[i] = sum;
            }
            const double alpha = rho / dot(p, q);
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++) {
                z[i] += alpha * p[i];
                r[i] -= alpha * q[i];
            }
            const double before = rho;
            rho = dot(r, r);
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++)
                p[i] = r[i] + rho / before * p[i];
        }
    }
}

int main(int argc, char **argv)
{
    const int solves = argc > 1 ? atoi(argv[1]) : 20;
    double zeta = 0, near = 0;
    fill();
    for (int s = 0; s < solves; s++) {
        double norm = 0;
        solve();
        near = 0;
#pragma omp parallel for reduction(+ : near)
        for (int i = 0; i < N; i++)
            near += z[i] * z[i];
#pragma omp parallel
        {
            const double all = dot(z, z);
#pragma omp single
            norm = sqrt(all);
        }
        zeta = 1 / norm;
#pragma omp parallel for
        for (int i = 0; i < N; i++)
            x[i] = z[i] * zeta;
    }
    printf("exact %a %a\n", zeta, x[N / 3]);
    printf("near %.17g\n", near);
    return 0;
}
