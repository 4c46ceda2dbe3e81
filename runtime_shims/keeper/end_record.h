/* The record of the end of a job: written once, whatever the disk says. */
#ifndef WATTFOLD_KEEPER_END_RECORD_H
#define WATTFOLD_KEEPER_END_RECORD_H

#include <stdbool.h>

/* Choose the path of the record. Returns false with errno if it is too long. */
bool end_path(const char *path);

/* The path at which the space is reserved. */
const char *end_unfinished(void);

/* Reserve the space, so that a full disk does not delay the end of the job. Returns false with errno
 * if there is none; nothing is left then. */
bool end_reserve(void);

/* Give the space back. */
void end_give_up(void);

/* Write the record. Retries until it is on disk, so that the result is not lost, or its folder is
 * gone. */
void end_write(int code, int killer);

#endif
