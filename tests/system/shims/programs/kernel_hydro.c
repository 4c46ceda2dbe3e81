/* A gas that flows out of a dense corner, on a grid, with one small region per loop as in LULESH: a
 * time step by a reduction to the minimum, loops over both dimensions, sections, tasks, and a nested
 * region. Every thread computes a cell in the same way, so every digit of the line "exact" is the
 * same for all teams; the mass of the line "near" is a reduction. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define N 96
#define FIELDS 4
#define GAMMA 1.4
#define ROWS 8

static double u[FIELDS][N][N], next[FIELDS][N][N];
static double pressure[N][N], speed[N][N];

static void start(void)
{
#pragma omp parallel for collapse(2)
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            const int dense = i < N / 4 && j < N / 4;
            u[0][i][j] = dense ? 1.0 : 0.125;
            u[1][i][j] = u[2][i][j] = 0;
            u[3][i][j] = (dense ? 1.0 : 0.1) / (GAMMA - 1);
        }
}

static void state_of_gas(void)
{
#pragma omp parallel for schedule(guided)
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            const double rho = u[0][i][j], mx = u[1][i][j], my = u[2][i][j];
            pressure[i][j] = (GAMMA - 1) * (u[3][i][j] - 0.5 * (mx * mx + my * my) / rho);
            speed[i][j] = sqrt(GAMMA * pressure[i][j] / rho) + fabs(mx / rho) + fabs(my / rho);
        }
}

static double time_step(void)
{
    double dt = 1e9;
#pragma omp parallel for collapse(2) reduction(min : dt)
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            dt = fmin(dt, 0.2 / (N * speed[i][j]));
    return dt;
}

static double flux(int f, int along_x, int i, int j)
{
    const double v = u[along_x ? 1 : 2][i][j] / u[0][i][j];
    switch (f) {
    case 0:
        return u[0][i][j] * v;
    case 3:
        return (u[3][i][j] + pressure[i][j]) * v;
    default:
        return u[f][i][j] * v + ((f == 1) == along_x ? pressure[i][j] : 0);
    }
}

static void advance_rows(int f, int first, double dt)
{
    for (int i = first; i < first + ROWS; i++)
        for (int j = 0; j < N; j++) {
            const int up = i > 0 ? i - 1 : 0, down = i < N - 1 ? i + 1 : i;
            const int left = j > 0 ? j - 1 : 0, right = j < N - 1 ? j + 1 : j;
            const double mean = 0.25 * (u[f][up][j] + u[f][down][j] + u[f][i][left] + u[f][i][right]);
            next[f][i][j] = mean - 0.5 * dt * N * (flux(f, 1, down, j) - flux(f, 1, up, j)) -
                            0.5 * dt * N * (flux(f, 0, i, right) - flux(f, 0, i, left));
        }
}

/* Compute the fields in different ways: sections, tasks, a nested region. */
static void advance(double dt)
{
#pragma omp parallel sections
    {
#pragma omp section
        for (int i = 0; i < N; i += ROWS)
            advance_rows(0, i, dt);
#pragma omp section
        for (int i = 0; i < N; i += ROWS)
            advance_rows(1, i, dt);
    }
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < N; i += ROWS)
#pragma omp task firstprivate(i)
        advance_rows(2, i, dt);
#pragma omp parallel num_threads(2)
#pragma omp for schedule(static, 1)
    for (int half = 0; half < 2; half++) {
#pragma omp parallel for
        for (int i = half * N / 2; i < (half + 1) * N / 2; i += ROWS)
            advance_rows(3, i, dt);
    }
#pragma omp parallel for collapse(3) schedule(dynamic, 64)
    for (int f = 0; f < FIELDS; f++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                u[f][i][j] = next[f][i][j];
}

int main(int argc, char **argv)
{
    const int steps = argc > 1 ? atoi(argv[1]) : 200;
    double t = 0, mass = 0;
    start();
    for (int step = 0; step < steps; step++) {
        state_of_gas();
        const double dt = time_step();
        advance(dt);
        t += dt;
    }
#pragma omp parallel for reduction(+ : mass)
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            mass += u[0][i][j];
    printf("exact %a %a %a\n", t, u[0][N / 3][N / 3], u[3][N / 2][N / 5]);
    printf("near %.17g\n", mass);
    return 0;
}
