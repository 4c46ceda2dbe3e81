#include "descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define FIRST_FD 3 /* behind the standard ones */

/* Close the descriptors of a range, each on its own where the kernel is older than 5.9. */
static void close_from(unsigned first, unsigned last)
{
    if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
        return;
    DIR *open_files = opendir("/proc/self/fd");
    if (open_files == NULL)
        return;
    const int own = dirfd(open_files);
    for (const struct dirent *entry; (entry = readdir(open_files)) != NULL;) {
        char *end;
        const long fd = strtol(entry->d_name, &end, 10);
        if (*end == '\0' && fd != own && fd >= (long)first && fd <= (long)last)
            close((int)fd);
    }
    closedir(open_files);
}

static unsigned number_of(const char *text)
{
    return (unsigned)strtoul(text, NULL, 10);
}

void close_others(const struct texts *kept)
{
    unsigned from = FIRST_FD;
    for (size_t i = 0; i < kept->count; i++) {
        const unsigned fd = number_of(kept->items[i]);
        if (fd > from)
            close_from(from, fd - 1);
        from = fd + 1;
    }
    close_from(from, INT_MAX);
}

void close_all(const struct texts *fds)
{
    for (size_t i = 0; i < fds->count; i++)
        close((int)number_of(fds->items[i]));
}

void leave_standard(void)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < FIRST_FD; fd++)
        if (null < 0 || dup2(null, fd) < 0)
            close(fd);
    if (null >= 0)
        close(null);
}
