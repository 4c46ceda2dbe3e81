/* The part of the OpenMP tools interface (OpenMP 5.0, chapter 4) the shim uses: its numbers and types are
 * those of the specification, so that no compiler's own header is needed to build. */
#ifndef WATTFOLD_OMPT_H
#define WATTFOLD_OMPT_H

#include <stdint.h>

typedef union ompt_data {
    uint64_t value;
    void *ptr;
} ompt_data_t;

typedef struct ompt_frame {
    ompt_data_t exit_frame;
    ompt_data_t enter_frame;
    int exit_frame_flags;
    int enter_frame_flags;
} ompt_frame_t;

typedef void (*ompt_interface_fn)(void);
typedef void (*ompt_callback)(void);
typedef ompt_interface_fn (*ompt_lookup)(const char *name);
typedef int (*ompt_initialize)(ompt_lookup lookup, int initial_device, ompt_data_t *tool_data);
typedef void (*ompt_finalize)(ompt_data_t *tool_data);
typedef int (*ompt_set_callback)(int event, ompt_callback callback);
typedef int (*ompt_get_callback)(int event, ompt_callback *callback);

typedef struct ompt_tool {
    ompt_initialize initialize;
    ompt_finalize finalize;
    ompt_data_t tool_data;
} ompt_tool_t;

typedef ompt_tool_t *(*ompt_start)(unsigned omp_version, const char *runtime_version);

typedef void (*ompt_parallel_begin)(ompt_data_t *task, const ompt_frame_t *frame, ompt_data_t *parallel,
                                    unsigned requested, int flags, const void *code);
typedef void (*ompt_parallel_end)(ompt_data_t *parallel, ompt_data_t *task, int flags, const void *code);

enum { OMPT_PARALLEL_BEGIN = 3, OMPT_PARALLEL_END = 4 };
enum { OMPT_SET_ERROR = 0, OMPT_SET_ALWAYS = 5 };
#define OMPT_PARALLEL_LEAGUE 0x40000000

#endif
