/* Small files of the kernel and of the agent. */
#ifndef WATTFOLD_KEEPER_FILES_H
#define WATTFOLD_KEEPER_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Read a whole file of fewer than `size` bytes and end it with a NUL. Returns whether that worked. */
bool file_read(const char *path, char *text, size_t size);

/* Write a text to a file that exists. Returns whether that worked. */
bool file_write(const char *path, const char *text);

/* The start time of a process in clock ticks, and its state letter; -1 if it has ended. */
long long start_ticks(pid_t pid, char *state);

/* The number behind `"name":` in a flat JSON object; -1 if there is none. */
long long json_number(const char *json, const char *name);

#endif
