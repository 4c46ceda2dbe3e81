/* Pairs of random numbers for the normal distribution, as in NPB's EP: blocks that can be computed in
 * any order, counted by reductions. Counts are exact for all teams. The sums of the line "exact" are
 * added block by block, the sum of the line "near" by a reduction. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK 2048
#define BLOCKS 64
#define RINGS 10

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

/* The state after this number of steps, so that a block does not depend on the previous block. */
static uint64_t jump(uint64_t state, uint64_t steps)
{
    uint64_t a = 6364136223846793005u, c = 1442695040888963407u;
    for (; steps; steps >>= 1) {
        if (steps & 1)
            state = state * a + c;
        c *= a + 1;
        a *= a;
    }
    return state;
}

static double block(uint64_t number, long *rings)
{
    uint64_t state = jump(271828183u, number * 2 * BLOCK);
    double sum = 0;
    for (int i = 0; i < BLOCK; i++) {
        const double x = 2 * uniform(&state) - 1, y = 2 * uniform(&state) - 1;
        const double t = x * x + y * y;
        if (t >= 1 || t == 0)
            continue;
        const double f = sqrt(-2 * log(t) / t);
        const double gx = fabs(x * f), gy = fabs(y * f);
        const int ring = (int)(gx > gy ? gx : gy);
        rings[ring < RINGS ? ring : RINGS - 1]++;
        sum += x * f + y * f;
    }
    return sum;
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 100;
    long rings[RINGS] = {0};
    double exact = 0, near = 0;
    for (int round = 0; round < rounds; round++) {
        double sums[BLOCKS];
#pragma omp parallel for schedule(dynamic) reduction(+ : near) reduction(+ : rings[:RINGS])
        for (int b = 0; b < BLOCKS; b++) {
            sums[b] = block((uint64_t)round * BLOCKS + (uint64_t)b, rings);
            near += fabs(sums[b]);
        }
        for (int b = 0; b < BLOCKS; b++)
            exact += sums[b];
    }
    printf("exact %a", exact);
    for (int r = 0; r < RINGS; r++)
        printf(" %ld", rings[r]);
    printf("\nnear %.17g\n", near);
    return 0;
}
