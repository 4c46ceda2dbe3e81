#include "stops.h"

#include "files.h"

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATUS_BYTES 8192

/* The stop signals that wait for a process: of the whole process, and of its first thread. */
static bool waiting_signals(pid_t pid, uint64_t *waiting)
{
    char path[64], text[STATUS_BYTES];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (!file_read(path, text, sizeof text))
        return false;
    *waiting = 0;
    static const char *const names[] = {"\nShdPnd:", "\nSigPnd:"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *at = strstr(text, names[i]);
        if (at != NULL)
            *waiting |= strtoull(at + strlen(names[i]), NULL, 16);
    }
    return true;
}

/* Continue a process that the throttle has stopped, unless another stop is pending. A SIGSTOP stays
 * pending while the process is stopped. */
static void continue_stopped(pid_t pid, long long ticks)
{
    char state;
    uint64_t waiting;
    if (start_ticks(pid, &state) != ticks || !waiting_signals(pid, &waiting))
        return;
    const bool stopped = state == 'T' || state == 't';
    if (stopped && (waiting >> (SIGSTOP - 1) & 1) != 0)
        return;
    if (kill(pid, SIGCONT) == 0 && (waiting >> (SIGTSTP - 1) & 1) != 0)
        /* The kernel drops it with SIGCONT, but the program may handle it. */
        kill(pid, SIGTSTP);
}

void continue_all(const char *stopped_path)
{
    if (*stopped_path == '\0')
        return;
    FILE *file = fopen(stopped_path, "re");
    if (file == NULL)
        return;
    pid_t pid;
    long long ticks;
    while (fscanf(file, "%d %lld", &pid, &ticks) == 2)
        if (pid > 1)
            continue_stopped(pid, ticks);
    /* A damaged file is kept. */
    const bool whole = feof(file) != 0;
    fclose(file);
    if (whole)
        unlink(stopped_path);
}
