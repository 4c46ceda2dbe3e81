/* Steps of the child of a keeper until it executes the program of the job. */
#ifndef WATTFOLD_KEEPER_BECOME_JOB_H
#define WATTFOLD_KEEPER_BECOME_JOB_H

#include "order.h"

#define READY 'r' /* the child is prepared, and waits */
#define GO 'g'

/* Become the job: enter its control groups, set its limits, change to its account, open its output
 * files, and execute its program when `go` says so. If a step fails, remove the files that were made
 * and write the report, one message, to `to_keeper`. */
_Noreturn void become_job(const struct order *order, int to_keeper, int go);

/* Write a report of a failed step: an error number, what was tried, and its path. */
void report_failure(int fd, const char *what, const char *path, int error);

#endif
