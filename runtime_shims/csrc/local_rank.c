#include "local_rank.h"

#include <stddef.h>
#include <stdlib.h>

#define DIGITS_MAX 6

/* The first that is a number counts. */
static const char *const names[] = {
    "WATTFOLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
    "MV2_COMM_WORLD_LOCAL_RANK", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID",
    "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID",
};

static bool read_rank(const char *text, uint32_t *rank)
{
    unsigned digits = 0;
    *rank = 0;
    for (; text[digits] >= '0' && text[digits] <= '9' && digits < DIGITS_MAX; digits++)
        *rank = *rank * 10 + (uint32_t)(text[digits] - '0');
    return digits > 0 && text[digits] == '\0';
}

bool local_rank(uint32_t *rank)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text != NULL && read_rank(text, rank))
            return true;
    }
    return false;
}
