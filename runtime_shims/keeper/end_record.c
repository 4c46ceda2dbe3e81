#include "end_record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define END_BYTES 512
#define RETRY_MS 1000
#define NS_PER_S INT64_C(1000000000)

static char finished[PATH_MAX], unfinished[PATH_MAX], folder[PATH_MAX];

bool end_path(const char *path)
{
    const int bytes = snprintf(unfinished, sizeof unfinished, "%s.tmp", path);
    if (bytes < 0 || bytes >= (int)sizeof unfinished) {
        errno = ENAMETOOLONG;
        return false;
    }
    snprintf(finished, sizeof finished, "%s", path);
    const char *slash = strrchr(path, '/');
    const int length = slash == NULL || slash == path ? 1 : (int)(slash - path);
    snprintf(folder, sizeof folder, "%.*s", length, slash == NULL ? "." : path);
    return true;
}

const char *end_unfinished(void)
{
    return unfinished;
}

bool end_reserve(void)
{
    const int fd = open(unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    const int error = posix_fallocate(fd, 0, END_BYTES);
    close(fd);
    if (error == 0)
        return true;
    end_give_up();
    errno = error;
    return false;
}

void end_give_up(void)
{
    unlink(unfinished);
}

static int64_t nanoseconds(const struct timeval *time)
{
    return time->tv_sec * NS_PER_S + time->tv_usec * 1000;
}

static bool write_record(const char *record)
{
    /* Not truncated, so that the reserved space is used. */
    const int fd = open(unfinished, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    const size_t bytes = strlen(record);
    const bool written = write(fd, record, bytes) == (ssize_t)bytes &&
                         ftruncate(fd, (off_t)bytes) == 0 && fsync(fd) == 0;
    close(fd);
    return written && rename(unfinished, finished) == 0;
}

static bool has_folder(void)
{
    struct stat found;
    return stat(folder, &found) == 0 && S_ISDIR(found.st_mode);
}

void end_write(int code, int killer)
{
    struct rusage used;
    struct timespec now;
    char record[END_BYTES];
    getrusage(RUSAGE_CHILDREN, &used);
    clock_gettime(CLOCK_MONOTONIC, &now);
    /* "left" is read by earlier versions of the agent, whose keepers could give up. */
    snprintf(record, sizeof record,
             "{\"exit_code\": %d, \"signal\": %d, \"ended_ns\": %lld, \"cpu_ns\": %lld, \"left\": 0}",
             code, killer, (long long)(now.tv_sec * NS_PER_S + now.tv_nsec),
             (long long)(nanoseconds(&used.ru_utime) + nanoseconds(&used.ru_stime)));
    while (has_folder() && !write_record(record))
        poll(NULL, 0, RETRY_MS);
}
