/* Lennard-Jones atoms in a periodic box, all pairs, velocity Verlet, reduced units.
 * Three parallel regions a step; that of the forces takes about 1.5 ms of one core for 500 atoms.
 * Each atom adds up its own forces, so that the result does not depend on the number of threads. */
#include "arguments.h"

#include <math.h>

static const char usage[] = "md ATOMS STEPS   (atoms 2..100000, steps)";

#define DENSITY 0.8
#define STEP 0.002
#define CUTOFF_SQUARED 6.25

struct atoms {
    long count;
    double box;
    double *position, *velocity, *force; /* 3 numbers each */
    double *potential;
};

static void forces(const struct atoms *atoms)
{
    const double box = atoms->box;
#pragma omp parallel for schedule(static)
    for (long i = 0; i < atoms->count; i++) {
        const double *me = atoms->position + 3 * i;
        double fx = 0.0, fy = 0.0, fz = 0.0, energy = 0.0;
        for (long j = 0; j < atoms->count; j++) {
            const double *other = atoms->position + 3 * j;
            double dx = me[0] - other[0], dy = me[1] - other[1], dz = me[2] - other[2];
            dx -= box * rint(dx / box);
            dy -= box * rint(dy / box);
            dz -= box * rint(dz / box);
            const double r2 = dx * dx + dy * dy + dz * dz;
            if (r2 >= CUTOFF_SQUARED || j == i)
                continue;
            const double s2 = 1.0 / r2, s6 = s2 * s2 * s2;
            const double f = 24.0 * s2 * s6 * (2.0 * s6 - 1.0);
            fx += f * dx;
            fy += f * dy;
            fz += f * dz;
            energy += 2.0 * s6 * (s6 - 1.0); /* half of a pair's energy */
        }
        atoms->force[3 * i] = fx;
        atoms->force[3 * i + 1] = fy;
        atoms->force[3 * i + 2] = fz;
        atoms->potential[i] = energy;
    }
}

static void kick(const struct atoms *atoms)
{
#pragma omp parallel for schedule(static)
    for (long i = 0; i < 3 * atoms->count; i++)
        atoms->velocity[i] += 0.5 * STEP * atoms->force[i];
}

static void kick_and_drift(const struct atoms *atoms)
{
#pragma omp parallel for schedule(static)
    for (long i = 0; i < 3 * atoms->count; i++) {
        atoms->velocity[i] += 0.5 * STEP * atoms->force[i];
        atoms->position[i] += STEP * atoms->velocity[i];
    }
}

/* A cubic lattice with a small fixed pattern of velocities. */
static struct atoms atoms_new(long count)
{
    struct atoms atoms = {.count = count, .box = cbrt((double)count / DENSITY)};
    const long side = (long)ceil(cbrt((double)count) - 1e-9);
    atoms.position = doubles((size_t)(3 * count));
    atoms.velocity = doubles((size_t)(3 * count));
    atoms.force = doubles((size_t)(3 * count));
    atoms.potential = doubles((size_t)count);
    for (long i = 0; i < count; i++) {
        const long cell[3] = {i % side, i / side % side, i / side / side};
        for (long d = 0; d < 3; d++) {
            atoms.position[3 * i + d] = ((double)cell[d] + 0.5) * atoms.box / (double)side;
            atoms.velocity[3 * i + d] = (double)((i * 7 + d * 3) % 11 - 5) * 0.2;
        }
    }
    return atoms;
}

int main(int argc, char **argv)
{
    need_arguments(argc, 2, 2, usage);
    const long count = argument(argv[1], "ATOMS", 2, 100000, usage);
    const long steps = argument(argv[2], "STEPS", 1, 1000000000, usage);
    struct atoms atoms = atoms_new(count);
    forces(&atoms);
    for (long k = 0; k < steps; k++) {
        kick_and_drift(&atoms);
        forces(&atoms);
        kick(&atoms);
    }
    double potential = 0.0, kinetic = 0.0;
    for (long i = 0; i < count; i++)
        potential += atoms.potential[i];
    for (long i = 0; i < 3 * count; i++)
        kinetic += 0.5 * atoms.velocity[i] * atoms.velocity[i];
    printf("md atoms=%ld steps=%ld potential=%.10e kinetic=%.10e\n", count, steps, potential, kinetic);
    free(atoms.position);
    free(atoms.velocity);
    free(atoms.force);
    free(atoms.potential);
    return 0;
}
