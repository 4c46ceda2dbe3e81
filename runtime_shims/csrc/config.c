#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LAUNCH_CPUS_MAX 1048576u

bool config_wanted(void)
{
    const char *endpoint = getenv("WATTFOLD_SHIM_ENDPOINT");
    return endpoint != NULL && endpoint[0] != '\0';
}

static bool read_mode(const char *text, enum resize_mode *mode)
{
    /* map: the objects of a Charm++ program move, which is not our business. */
    if (text == NULL || strcmp(text, "mask") == 0 || strcmp(text, "map") == 0)
        *mode = MODE_MASK;
    else if (strcmp(text, "team") == 0)
        *mode = MODE_TEAM;
    else if (strcmp(text, "fixed") == 0)
        *mode = MODE_FIXED;
    else
        return false;
    return true;
}

static bool read_count(const char *text, uint32_t *count)
{
    *count = 0;
    if (text == NULL)
        return true;
    for (; *text >= '0' && *text <= '9'; text++) {
        *count = *count * 10 + (uint32_t)(*text - '0');
        if (*count > LAUNCH_CPUS_MAX)
            return false;
    }
    return *text == '\0' && *count > 0;
}

static bool read_switch(const char *text, bool *on)
{
    *on = text != NULL && strcmp(text, "1") == 0;
    return text == NULL || *on || strcmp(text, "0") == 0;
}

const char *config_read(struct config *config)
{
    const char *endpoint = getenv("WATTFOLD_SHIM_ENDPOINT");
    if (endpoint == NULL || strncmp(endpoint, "ipc://", 6) != 0)
        return "WATTFOLD_SHIM_ENDPOINT must start with ipc://";
    if (strlen(endpoint) > 6 + 107)
        return "WATTFOLD_SHIM_ENDPOINT has a path of more than 107 bytes";
    strcpy(config->endpoint, endpoint);
    if (!read_mode(getenv("WATTFOLD_RESIZE_MODE"), &config->mode))
        return "WATTFOLD_RESIZE_MODE must be fixed, mask, team or map";
    if (!read_count(getenv("WATTFOLD_LAUNCH_CPUS"), &config->launch_cpus))
        return "WATTFOLD_LAUNCH_CPUS must be a number from 1 to 1048576";
    if (!read_switch(getenv("WATTFOLD_GROW_BEYOND_LAUNCH"), &config->grows))
        return "WATTFOLD_GROW_BEYOND_LAUNCH must be 0 or 1";
    const char *policy = getenv("OMP_WAIT_POLICY");
    config->waits_passively = policy != NULL && strcasecmp(policy, "passive") == 0;
    config->waits_as_told =
        policy != NULL || getenv("KMP_BLOCKTIME") != NULL || getenv("KMP_LIBRARY") != NULL;
    return NULL;
}
