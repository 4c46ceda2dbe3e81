#include "runtime.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Texts of the runtimes' error reports: in the read-only data of a program that holds a copy of one. The
 * second is of LLVM's and Intel's. */
static const char libgomp_text[] = "\nlibgomp: ";
static const char libomp_text[] = "set prior to OpenMP runtime library initialization";
#define SCAN_BYTES_MAX (16u << 20)

_Atomic(struct call_site *) call_sites[CALL_SITE_BUCKETS];
static _Atomic(struct runtime *) runtimes;

static const char *const entry_names[RUNTIME_ENTRIES] = {
    [GOMP_PARALLEL] = "GOMP_parallel",
    [GOMP_PARALLEL_REDUCTIONS] = "GOMP_parallel_reductions",
    [GOMP_PARALLEL_SECTIONS] = "GOMP_parallel_sections",
    [GOMP_LOOP_STATIC] = "GOMP_parallel_loop_static",
    [GOMP_LOOP_DYNAMIC] = "GOMP_parallel_loop_dynamic",
    [GOMP_LOOP_GUIDED] = "GOMP_parallel_loop_guided",
    [GOMP_LOOP_RUNTIME] = "GOMP_parallel_loop_runtime",
    [GOMP_LOOP_NONMONOTONIC_DYNAMIC] = "GOMP_parallel_loop_nonmonotonic_dynamic",
    [GOMP_LOOP_NONMONOTONIC_GUIDED] = "GOMP_parallel_loop_nonmonotonic_guided",
    [GOMP_LOOP_NONMONOTONIC_RUNTIME] = "GOMP_parallel_loop_nonmonotonic_runtime",
    [GOMP_LOOP_MAYBE_NONMONOTONIC_RUNTIME] = "GOMP_parallel_loop_maybe_nonmonotonic_runtime",
    [GOMP_START] = "GOMP_parallel_start",
    [GOMP_END] = "GOMP_parallel_end",
    [GOMP_LOOP_STATIC_START] = "GOMP_parallel_loop_static_start",
    [GOMP_LOOP_DYNAMIC_START] = "GOMP_parallel_loop_dynamic_start",
    [GOMP_LOOP_GUIDED_START] = "GOMP_parallel_loop_guided_start",
    [GOMP_LOOP_RUNTIME_START] = "GOMP_parallel_loop_runtime_start",
    [GOMP_SECTIONS_START] = "GOMP_parallel_sections_start",
    [KMPC_PUSH_NUM_THREADS] = "__kmpc_push_num_threads",
    [KMPC_FORK_CALL] = "__kmpc_fork_call",
    [KMPC_FORK_CALL_IF] = "__kmpc_fork_call_if",
    [KMPC_SERIALIZED] = "__kmpc_serialized_parallel",
    [KMPC_GLOBAL_THREAD_NUM] = "__kmpc_global_thread_num",
    [OMP_GET_MAX_THREADS] = "omp_get_max_threads",
    [OMP_SET_NUM_THREADS] = "omp_set_num_threads",
};

static runtime_function function(void *library, const char *name)
{
    void *address = dlsym(library, name);
    runtime_function found;
    memcpy(&found, &address, sizeof found);
    return found;
}

static bool is_libgomp(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strncmp(slash == NULL ? path : slash + 1, "libgomp", 7) == 0;
}

static bool is_libomp(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *file = slash == NULL ? path : slash + 1;
    return strncmp(file, "libomp", 6) == 0 || strncmp(file, "libiomp5", 8) == 0;
}

/* A handle on the libraries the caller's own library was linked with. */
static void *library_of(const void *caller)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL ||
        map->l_name == NULL || map->l_name[0] == '\0')
        return NULL;
    return dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
}

struct search {
    const char *path;
    bool gnu_too;
};

static int loaded_runtime(struct dl_phdr_info *info, size_t size, void *search_of_process)
{
    (void)size;
    struct search *search = search_of_process;
    if (info->dlpi_name == NULL ||
        !(is_libomp(info->dlpi_name) || (search->gnu_too && is_libgomp(info->dlpi_name))))
        return 0;
    search->path = info->dlpi_name;
    return 1;
}

void *runtime_loaded(bool gnu_too)
{
    struct search search = {NULL, gnu_too};
    dl_iterate_phdr(loaded_runtime, &search);
    return search.path == NULL ? NULL : dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD);
}

/* Handles stay open: the runtime must not be unloaded while we point into it. */
static void *provider(const void *caller, const char *symbol)
{
    /* All entries must come from one library: two runtimes may be in the global scope. */
    const void *next = dlsym(RTLD_NEXT, symbol);
    void *library = library_of(next != NULL ? next : caller);
    if (next != NULL)
        return library != NULL ? library : RTLD_NEXT;
    if (library != NULL && dlsym(library, symbol) != NULL)
        return library;
    return runtime_loaded(true);
}

static _Noreturn void give_up(const char *what)
{
    dprintf(STDERR_FILENO, "wattfold: %s\n", what);
    abort();
}

/* In which file a function of the runtime is: "" when that cannot be told. */
static const char *file_of(runtime_function found)
{
    Dl_info info;
    void *address;
    memcpy(&address, &found, sizeof address);
    return address != NULL && dladdr(address, &info) != 0 && info.dli_fname != NULL ? info.dli_fname
                                                                                  : "";
}

static int holds(struct dl_phdr_info *info, size_t size, void *runtime_to_place)
{
    (void)size;
    struct runtime *runtime = runtime_to_place;
    const uintptr_t address = (uintptr_t)runtime->max_threads;
    uintptr_t begin = UINTPTR_MAX, end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        const uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        begin = from < begin ? from : begin;
        end = from + info->dlpi_phdr[i].p_memsz > end ? from + info->dlpi_phdr[i].p_memsz : end;
    }
    if (address < begin || address >= end)
        return 0;
    runtime->begin = begin;
    runtime->end = end;
    return 1;
}

static struct runtime *runtime_build(void *library)
{
    struct runtime *runtime = calloc(1, sizeof *runtime);
    if (runtime == NULL)
        give_up("out of memory at the first parallel region");
    for (int i = 0; i < RUNTIME_ENTRIES; i++)
        runtime->entry[i] = function(library, entry_names[i]);
    runtime->active_level = (int (*)(void))function(library, "omp_get_active_level");
    runtime->max_threads = (int (*)(void))function(library, "omp_get_max_threads");
    runtime->level = (int (*)(void))function(library, "omp_get_level");
    runtime->team_size = (int (*)(int))function(library, "omp_get_team_size");
    runtime->max_active_levels = (int (*)(void))function(library, "omp_get_max_active_levels");
    runtime->thread_limit = (int (*)(void))function(library, "omp_get_thread_limit");
    runtime->set_num_threads = (void (*)(int))function(library, "omp_set_num_threads");
    runtime->pause = (int (*)(int, int))function(library, "omp_pause_resource");
    runtime->initial_device = (int (*)(void))function(library, "omp_get_initial_device");
    runtime->set_blocktime = (void (*)(int))function(library, "kmp_set_blocktime");
    if (runtime->active_level == NULL || runtime->max_threads == NULL || runtime->level == NULL ||
        runtime->team_size == NULL || runtime->max_active_levels == NULL ||
        runtime->thread_limit == NULL || runtime->set_num_threads == NULL)
        give_up("the OpenMP runtime lacks functions of OpenMP 3.0");
    dl_iterate_phdr(holds, runtime);
    runtime->is_gnu = is_libgomp(file_of(runtime->entry[GOMP_PARALLEL]));
    return runtime;
}

static const struct runtime *runtime_of(void *library, enum runtime_entry entry)
{
    const runtime_function wanted = function(library, entry_names[entry]);
    for (struct runtime *known = atomic_load(&runtimes); known != NULL; known = known->next)
        if (known->entry[entry] == wanted)
            return known;
    /* Two threads may build the same table at once: one too many, both right. */
    struct runtime *runtime = runtime_build(library);
    runtime->next = atomic_load(&runtimes);
    while (!atomic_compare_exchange_weak(&runtimes, &runtime->next, runtime))
        ;
    return runtime;
}

const struct runtime *runtime_find(const void *caller, enum runtime_entry entry)
{
    void *library = provider(caller, entry_names[entry]);
    if (library == NULL && (entry == OMP_GET_MAX_THREADS || entry == OMP_SET_NUM_THREADS))
        return NULL;
    if (library == NULL)
        give_up("a parallel region starts, but no OpenMP runtime is loaded");
    const struct runtime *runtime = runtime_of(library, entry);
    struct call_site *site = malloc(sizeof *site);
    if (site == NULL)
        return runtime;
    _Atomic(struct call_site *) *bucket = &call_sites[call_site_bucket(caller)];
    site->caller = caller;
    site->runtime = runtime;
    site->next = atomic_load(bucket);
    while (!atomic_compare_exchange_weak(bucket, &site->next, site))
        ;
    return runtime;
}

const struct runtime *runtime_holding(const void *address)
{
    void *library = library_of(address);
    if (library == NULL || dlsym(library, entry_names[KMPC_PUSH_NUM_THREADS]) == NULL)
        library = runtime_loaded(false);
    return library == NULL ? NULL : runtime_of(library, KMPC_PUSH_NUM_THREADS);
}

struct survey {
    bool libgomp;
    bool libomp;
    bool main_seen;
    bool main_holds_libgomp;
    bool main_holds_libomp;
};

static bool segment_holds(const struct dl_phdr_info *info, const ElfW(Phdr) * segment,
                          const char *text)
{
    const ElfW(Word) must_not = PF_W;
    if (segment->p_type != PT_LOAD || (segment->p_flags & must_not) || !(segment->p_flags & PF_R))
        return false;
    size_t bytes = segment->p_filesz < SCAN_BYTES_MAX ? segment->p_filesz : SCAN_BYTES_MAX;
    return memmem((const void *)(info->dlpi_addr + segment->p_vaddr), bytes, text,
                  strlen(text)) != NULL;
}

static int look(struct dl_phdr_info *info, size_t size, void *survey_of_process)
{
    (void)size;
    struct survey *survey = survey_of_process;
    if (!survey->main_seen) { /* the program itself comes first */
        survey->main_seen = true;
        for (int i = 0; i < info->dlpi_phnum; i++) {
            survey->main_holds_libgomp |= segment_holds(info, &info->dlpi_phdr[i], libgomp_text);
            survey->main_holds_libomp |= segment_holds(info, &info->dlpi_phdr[i], libomp_text);
        }
    } else if (info->dlpi_name != NULL) {
        survey->libgomp |= is_libgomp(info->dlpi_name);
        survey->libomp |= is_libomp(info->dlpi_name);
    }
    return 0;
}

const char *runtime_name(void)
{
    struct survey survey = {false, false, false, false, false};
    dl_iterate_phdr(look, &survey);
    if (survey.libgomp)
        return "libgomp";
    if (survey.libomp)
        return "libomp";
    if (survey.main_holds_libomp)
        return "static-libomp?";
    return survey.main_holds_libgomp ? "static-libgomp?" : "none";
}
