#include "notice.h"

#include "local_rank.h"
#include "teams.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 160
#define NAME_BYTES 24
#define SCHEME_BYTES 6 /* ipc:// */

/* Of the file "teams". */
#define TASKS_WORD 0u
#define WHOLE_WORD 1u
#define FIRST_TASK_WORD 2u

/* Where the first notice was mapped; a later one takes its place, for a region may be reading. */
static void *page;

static int open_beside(const char *endpoint, const char *name)
{
    char path[PATH_BYTES];
    const char *socket = endpoint + SCHEME_BYTES;
    const char *slash = strrchr(socket, '/');
    const int folder = slash == NULL ? 0 : (int)(slash - socket) + 1;
    const int bytes = snprintf(path, sizeof path, "%.*s%s", folder, socket, name);
    if (bytes < 0 || (size_t)bytes >= sizeof path)
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

/* The page of an open file that starts at this offset, at this place (NULL: any); NULL when it is not there. */
static void *map(int fd, size_t offset, void *place)
{
    struct stat file;
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    /* Beyond the end of a file a read would be a signal. */
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || file.st_size < (off_t)(offset + bytes))
        return NULL;
    const int where = place == NULL ? 0 : MAP_FIXED;
    void *mapped = mmap(place, bytes, PROT_READ, MAP_SHARED | where, fd, (off_t)offset);
    return mapped == MAP_FAILED ? NULL : mapped;
}

/* Which word of "teams" is meant for this process. */
static size_t own_word(uint64_t tasks)
{
    uint32_t rank;
    /* More ranks than were announced share what there is. */
    return tasks > 0 && local_rank(&rank) ? FIRST_TASK_WORD + rank % tasks : WHOLE_WORD;
}

static const _Atomic uint64_t *map_teams(int fd)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    const uint64_t *first = map(fd, 0, NULL);
    if (first == NULL)
        return NULL;
    const size_t at = own_word(first[TASKS_WORD]) * sizeof(uint64_t);
    const size_t within = at % page_bytes;
    char *own = (char *)first;
    if (at >= page_bytes) {
        munmap((void *)first, page_bytes);
        own = map(fd, at - within, NULL);
    }
    return own == NULL ? NULL : (const _Atomic uint64_t *)(void *)(own + within);
}

void notice_begin(const char *endpoint)
{
    const int fd = open_beside(endpoint, "teams");
    if (fd < 0)
        return;
    /* It stays mapped: a region may be reading when the first mask has come. */
    teams_begin(map_teams(fd));
    close(fd);
}

void notice_follow(const char *endpoint, uint32_t number)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "notice.%u", number);
    const int fd = number == 0 ? -1 : open_beside(endpoint, name);
    void *mapped = fd < 0 ? NULL : map(fd, 0, page);
    if (fd >= 0)
        close(fd);
    if (mapped != NULL)
        page = mapped;
    teams_read_notice(mapped);
}
