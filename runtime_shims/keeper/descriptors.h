/* The descriptors of a keeper. */
#ifndef WATTFOLD_KEEPER_DESCRIPTORS_H
#define WATTFOLD_KEEPER_DESCRIPTORS_H

#include "fields.h"

/* Close all but 0, 1, 2 and these, which are in ascending order. */
void close_others(const struct texts *kept);

/* Close these. */
void close_all(const struct texts *fds);

/* Make /dev/null the standard input, output and error. */
void leave_standard(void);

#endif
