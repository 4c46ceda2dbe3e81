/* A third-party OMPT tool: counts regions and threads, and prints a line at the end of the runtime. */
#include <stdint.h>
#include <stdio.h>

typedef void (*function)(void);
typedef function (*lookup_fn)(const char *);

typedef struct {
    int (*initialize)(lookup_fn, int, void *);
    void (*finalize)(void *);
    uint64_t data;
} tool_t;

static int begins, ends, threads;

static void on_thread(void)
{
    __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
}

static void on_begin(void)
{
    begins++;
}

static void on_end(void)
{
    ends++;
}

static int initialize(lookup_fn lookup, int device, void *data)
{
    int (*set)(int, function) = (int (*)(int, function))lookup("ompt_set_callback");
    (void)device;
    /* Each callback is set to "always": 5. */
    *(uint64_t *)data = set(1, on_thread) == 5 && set(3, on_begin) == 5 && set(4, on_end) == 5;
    return 1;
}

static void finalize(void *data)
{
    fprintf(stderr, "tool: set %d begins %d ends %d threads %d\n", (int)*(uint64_t *)data, begins, ends,
            threads);
}

tool_t *ompt_start_tool(unsigned version, const char *runtime);

tool_t *ompt_start_tool(unsigned version, const char *runtime)
{
    static tool_t tool = {initialize, finalize, 0};
    (void)version;
    (void)runtime;
    return &tool;
}
