#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAT_BYTES 1024
#define START_FIELD 19 /* of the fields behind the name, counted from 0 */

bool file_read(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t have = 0;
    ssize_t got = 1;
    while (got > 0 && have < size) {
        got = read(fd, text + have, size - have);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            have += (size_t)got;
    }
    close(fd);
    if (got < 0 || have == size)
        return false;
    text[have] = '\0';
    return true;
}

bool file_write(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const size_t bytes = strlen(text);
    const bool written = write(fd, text, bytes) == (ssize_t)bytes;
    const int error = errno;
    close(fd);
    errno = error;
    return written;
}

long long start_ticks(pid_t pid, char *state)
{
    char path[64], text[STAT_BYTES];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (!file_read(path, text, sizeof text))
        return -1;
    /* The name may contain anything, so the fields start behind its last bracket. */
    const char *at = strrchr(text, ')');
    if (at == NULL || at[1] != ' ')
        return -1;
    at += 2;
    *state = *at;
    for (int field = 0; field < START_FIELD; field++) {
        at = strchr(at, ' ');
        if (at == NULL)
            return -1;
        at++;
    }
    return strtoll(at, NULL, 10);
}

long long json_number(const char *json, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    /* A quote inside a text has a backslash before it, so no text contains this key. */
    const char *at = strstr(json, key);
    if (at == NULL)
        return -1;
    at += strlen(key);
    at += strspn(at, " ");
    return *at >= '0' && *at <= '9' ? strtoll(at, NULL, 10) : -1;
}
