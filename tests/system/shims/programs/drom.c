/* A program written for DLB/DROM: one command per line, as in puppet.c. */
#define _GNU_SOURCE
#include <dlb.h>
#include <dlb_drom.h>

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int threads, enabled, disabled;

static void set_threads(int number, void *arg)
{
    (void)arg;
    threads = number;
}

static void enable(int cpu, void *arg)
{
    (void)cpu;
    ++*(int *)arg;
}

static int command(const char *line)
{
    cpu_set_t set;
    int number = 0, pids[4];
    CPU_ZERO(&set);
    if (strcmp(line, "init\n") == 0)
        return DLB_Init(0, NULL, NULL);
    if (strcmp(line, "poll\n") == 0) {
        const int answer = DLB_PollDROM(&number, &set);
        printf("%d %d ", number, CPU_COUNT(&set));
        return answer;
    }
    if (strcmp(line, "callbacks\n") == 0)
        return DLB_CallbackSet(dlb_callback_set_num_threads, (dlb_callback_t)set_threads, NULL) |
               DLB_CallbackSet(dlb_callback_enable_cpu, (dlb_callback_t)enable, &enabled) |
               DLB_CallbackSet(dlb_callback_disable_cpu, (dlb_callback_t)enable, &disabled);
    if (strcmp(line, "update\n") == 0) {
        enabled = disabled = 0;
        const int answer = DLB_PollDROM_Update();
        printf("%d %d %d ", threads, enabled, disabled);
        return answer;
    }
    if (strcmp(line, "pids\n") == 0) {
        const int answer = DLB_DROM_GetPidList(pids, &number, 4);
        printf("%d %d ", number, number == 1 && pids[0] == getpid());
        return answer;
    }
    if (strcmp(line, "mask\n") == 0) {
        const int answer = DLB_DROM_GetProcessMask(0, &set, 0);
        printf("%d ", CPU_COUNT(&set));
        return answer;
    }
    CPU_SET(0, &set);
    if (strcmp(line, "wish\n") == 0)
        return DLB_DROM_SetProcessMask(0, &set, DLB_SYNC_QUERY);
    if (strcmp(line, "set other\n") == 0)
        return DLB_DROM_SetProcessMask(1, &set, 0);
    if (strcmp(line, "see other\n") == 0)
        return DLB_DROM_GetProcessMask(1, &set, 0);
    if (strcmp(line, "disable\n") == 0)
        return DLB_Disable();
    if (strcmp(line, "enable\n") == 0)
        return DLB_Enable();
    return DLB_Finalize();
}

int main(void)
{
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        printf("%d\n", command(line));
        fflush(stdout);
    }
    return 0;
}
