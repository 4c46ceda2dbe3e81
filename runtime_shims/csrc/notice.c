#include "notice.h"

#include "teams.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 160
#define SCHEME_BYTES 6 /* ipc:// */

/* Where the first file was mapped; a later one takes its place, for a region may be reading. */
static void *page;

static int open_beside(const char *endpoint, uint32_t number)
{
    char path[PATH_BYTES];
    const char *socket = endpoint + SCHEME_BYTES;
    const char *slash = strrchr(socket, '/');
    const int folder = slash == NULL ? 0 : (int)(slash - socket) + 1;
    const int bytes = snprintf(path, sizeof path, "%.*snotice.%u", folder, socket, number);
    if (bytes < 0 || (size_t)bytes >= sizeof path)
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

static bool map(int fd)
{
    struct stat file;
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    /* Beyond the end of a file a read would be a signal. */
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || file.st_size < (off_t)bytes)
        return false;
    const int where = page == NULL ? 0 : MAP_FIXED;
    void *mapped = mmap(page, bytes, PROT_READ, MAP_SHARED | where, fd, 0);
    if (mapped == MAP_FAILED)
        return false;
    page = mapped;
    return true;
}

void notice_follow(const char *endpoint, uint32_t number)
{
    const int fd = number == 0 ? -1 : open_beside(endpoint, number);
    const bool mapped = fd >= 0 && map(fd);
    if (fd >= 0)
        close(fd);
    teams_read_notice(mapped ? page : NULL);
}
