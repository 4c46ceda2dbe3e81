/* dlb.h of libwattfold_dlb - the part of the interface of BSC's DLB/DROM for changes of the cores of a
 * process, implemented by Wattfold. Names, numbers and meanings are the same as in DLB 3.
 *
 * One difference: only the coordinator sets masks. A program receives changes as with DLB. Setting a mask
 * returns DLB_ERR_PERM, or for the calling process itself counts as a request (DLB_NOTED). Lending and
 * borrowing (LeWI), TALP and barriers are not supported. */
#ifndef WATTFOLD_DLB_H
#define WATTFOLD_DLB_H

#ifdef __cplusplus
extern "C" {
#endif

enum {
    DLB_NOUPDT = 2,
    DLB_NOTED = 1,
    DLB_SUCCESS = 0,
    DLB_ERR_UNKNOWN = -1,
    DLB_ERR_NOINIT = -2,
    DLB_ERR_INIT = -3,
    DLB_ERR_DISBLD = -4,
    DLB_ERR_NOSHMEM = -5,
    DLB_ERR_NOPROC = -6,
    DLB_ERR_PDIRTY = -7,
    DLB_ERR_PERM = -8,
    DLB_ERR_TIMEOUT = -9,
    DLB_ERR_NOCBK = -10,
    DLB_ERR_NOENT = -11,
    DLB_ERR_NOCOMP = -12,
    DLB_ERR_REQST = -13,
    DLB_ERR_NOMEM = -14,
    DLB_ERR_NOPOL = -15
};

/* Pointers to a cpu_set_t. */
typedef void *dlb_cpu_set_t;
typedef const void *const_dlb_cpu_set_t;

typedef enum dlb_drom_flags_e {
    DLB_STEAL_CPUS = 1,
    DLB_RETURN_STOLEN = 2,
    DLB_SYNC_QUERY = 4
} dlb_drom_flags_t;

typedef enum dlb_callbacks_e {
    dlb_callback_set_num_threads = 1,
    dlb_callback_set_active_mask = 2,
    dlb_callback_set_process_mask = 3,
    dlb_callback_add_active_mask = 4,
    dlb_callback_add_process_mask = 5,
    dlb_callback_enable_cpu = 6,
    dlb_callback_disable_cpu = 7
} dlb_callbacks_t;

typedef void (*dlb_callback_t)(void);
typedef void (*dlb_callback_set_num_threads_t)(int num_threads, void *arg);
typedef void (*dlb_callback_set_process_mask_t)(const_dlb_cpu_set_t mask, void *arg);
typedef void (*dlb_callback_enable_cpu_t)(int cpuid, void *arg);
typedef void (*dlb_callback_disable_cpu_t)(int cpuid, void *arg);

/* Returns DLB_SUCCESS, or DLB_ERR_INIT if already initialised. The arguments are ignored. */
int DLB_Init(int ncpus, const_dlb_cpu_set_t mask, const char *dlb_args);
int DLB_Finalize(void); /* returns DLB_ERR_NOINIT without DLB_Init */

/* While disabled, polls return DLB_ERR_DISBLD. Both return DLB_NOUPDT if nothing changes. */
int DLB_Disable(void);
int DLB_Enable(void);

/* DLB_PollDROM_Update calls set_num_threads, set_process_mask, enable_cpu and disable_cpu. The other kinds
 * are stored but never called. DLB_ERR_NOCBK: unknown kind, or (get) no callback is set. */
int DLB_CallbackSet(dlb_callbacks_t which, dlb_callback_t callback, void *arg);
int DLB_CallbackGet(dlb_callbacks_t which, dlb_callback_t *callback, void **arg);

/* Returns DLB_SUCCESS with the new number and mask (either may be NULL), or DLB_NOUPDT. */
int DLB_PollDROM(int *ncpus, dlb_cpu_set_t mask);
/* Does the same and calls the callbacks. */
int DLB_PollDROM_Update(void);

int DLB_DROM_Attach(void);
int DLB_DROM_Detach(void);
int DLB_DROM_GetNumCpus(int *ncpus);
/* Returns only the calling process, if it is managed. */
int DLB_DROM_GetPidList(int *pidlist, int *nelems, int max_len);
/* pid must be 0 or the calling process; otherwise DLB_ERR_NOPROC. */
int DLB_DROM_GetProcessMask(int pid, dlb_cpu_set_t mask, dlb_drom_flags_t flags);
int DLB_DROM_SetProcessMask(int pid, const_dlb_cpu_set_t mask, dlb_drom_flags_t flags);
int DLB_DROM_PreInit(int pid, const_dlb_cpu_set_t mask, dlb_drom_flags_t flags, char ***next_environ);
int DLB_DROM_PostFinalize(int pid, dlb_drom_flags_t flags);
int DLB_DROM_RecoverStolenCpus(int pid);

const char *DLB_Strerror(int errnum);

#ifdef __cplusplus
}
#endif

#endif
