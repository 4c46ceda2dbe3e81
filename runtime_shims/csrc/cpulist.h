/* The kernel's CPU list format ("0-3,8"), see cpuset(7), "List format". */
#ifndef WATTFOLD_CPULIST_H
#define WATTFOLD_CPULIST_H

#include "wattfold.h"

#include <stdbool.h>
#include <stddef.h>

/* Reads a list into out->bits and out->cores. False, and *out of no use, when the text is not a list
 * of ascending ranges of numbers below WATTFOLD_MASK_CPUS. An empty text is the empty set. */
bool cpulist_parse(const char *text, size_t text_bytes, wattfold_mask *out);

#endif
