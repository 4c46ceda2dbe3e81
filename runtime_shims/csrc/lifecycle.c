/* When the shim is at work: start, fork, exit. */
#include "agent_link.h"
#include "notice.h"
#include "runtime.h"
#include "state.h"
#include "teams.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

static void start_locked(void)
{
    const char *problem = config_read(&shim_config);
    if (problem == NULL) {
        if (shim_config.launch_cpus != 0)
            atomic_store(&team_launch, shim_config.launch_cpus);
        if (shim_config.grows)
            atomic_store(&team_growth_max, WATTFOLD_MASK_CPUS);
        if (shim_config.mode == MODE_TEAM)
            notice_begin(shim_config.endpoint);
        const char *runtime = runtime_name();
        if (shim_config.mode == MODE_TEAM && strncmp(runtime, "static-", 7) == 0)
            dprintf(STDERR_FILENO,
                    "wattfold: %s is linked into this program; its teams cannot be resized\n",
                    strstr(runtime, "libgomp") != NULL ? "libgomp" : "libomp");
        problem = link_start(&shim_config, runtime);
    }
    if (problem != NULL) {
        shim_fail(problem, NULL);
        return;
    }
    /* The helper may have failed already. */
    int idle = SHIM_IDLE;
    atomic_compare_exchange_strong(&shim_state, &idle, SHIM_RUNNING);
}

bool shim_start(void)
{
    pthread_mutex_lock(&start_lock);
    if (atomic_load(&shim_state) == SHIM_IDLE)
        start_locked();
    pthread_mutex_unlock(&start_lock);
    return atomic_load(&shim_state) == SHIM_RUNNING;
}

static void in_forked_child(void)
{
    atomic_store(&shim_state, SHIM_INERT);
    teams_after_fork();
    link_after_fork();
}

/* A program with OpenMP says HELLO at once; one that may load it later, at its first region. */
static __attribute__((constructor)) void on_load(void)
{
    if (!config_wanted()) {
        atomic_store(&shim_state, SHIM_INERT);
        return;
    }
    if (!teams_init() || pthread_atfork(NULL, NULL, in_forked_child) != 0) {
        shim_fail("cannot set up its thread and fork hooks", NULL);
        return;
    }
    if (strcmp(runtime_name(), "none") != 0)
        shim_start();
}

static __attribute__((destructor)) void on_exit_of_process(void)
{
    if (atomic_exchange(&shim_state, SHIM_INERT) == SHIM_RUNNING)
        link_stop();
}
