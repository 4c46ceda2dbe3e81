/* Whole-number arguments of the example programs. */
#ifndef EXAMPLES_ARGUMENTS_H
#define EXAMPLES_ARGUMENTS_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Exit code 2 and the usage when the text is not a number from low to high. */
static inline long argument(const char *text, const char *name, long low, long high, const char *usage)
{
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < low || value > high) {
        fprintf(stderr, "%s must be a number from %ld to %ld, not '%s'\nusage: %s\n", name, low, high,
                text, usage);
        exit(2);
    }
    return value;
}

static inline void need_arguments(int argc, int low, int high, const char *usage)
{
    if (argc - 1 < low || argc - 1 > high) {
        fprintf(stderr, "usage: %s\n", usage);
        exit(2);
    }
}

static inline double *doubles(size_t count)
{
    double *array = malloc(count * sizeof *array);
    if (array == NULL) {
        fprintf(stderr, "cannot allocate %zu numbers\n", count);
        exit(1);
    }
    return array;
}

#endif
