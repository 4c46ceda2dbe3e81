/* What the launcher tells the shim, by environment variables. */
#ifndef WATTFOLD_CONFIG_H
#define WATTFOLD_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

enum resize_mode { MODE_FIXED, MODE_MASK, MODE_TEAM };

struct config {
    char endpoint[128]; /* ipc:// and at most 107 bytes of path (sun_path) */
    enum resize_mode mode;
    uint32_t launch_cpus; /* 0: not told */
    bool grows;           /* teams may grow beyond the launch size, as far as the mask goes */
    bool waits_passively; /* OMP_WAIT_POLICY=passive */
    bool waits_as_told;   /* the user has said how long idle threads of LLVM's or Intel's runtime spin */
};

/* Whether a manager is there at all (WATTFOLD_SHIM_ENDPOINT is set and not empty). */
bool config_wanted(void);

/* Reads the environment. NULL on success, else what is wrong, for one line on stderr. */
const char *config_read(struct config *config);

#endif
