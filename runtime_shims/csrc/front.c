#include "front.h"

#include "runtime.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#if WATTFOLD_FORK_CALL

extern void kmpc_fork_call(void *place, int count, void *body, ...);

bool front_has_calls(void)
{
    return dlsym(RTLD_DEFAULT, "__kmpc_fork_call") == (void *)kmpc_fork_call;
}

#else

bool front_has_calls(void)
{
    return false;
}

#endif

static bool takes_our_tool(void)
{
    static const char here;
    const char *tools = getenv("OMP_TOOL");
    void *library = runtime_loaded(false);
    Dl_info first, own;
    if ((tools != NULL && strcasecmp(tools, "disabled") == 0) || library == NULL)
        return false;
    /* A runtime with the tool interface defines the symbol itself, weakly. */
    const bool offers_tools = dlsym(library, "ompt_start_tool") != NULL;
    dlclose(library);
    void *found = dlsym(RTLD_DEFAULT, "ompt_start_tool");
    return offers_tools && found != NULL && dladdr(found, &first) != 0 && dladdr(&here, &own) != 0 &&
           first.dli_fbase == own.dli_fbase;
}

bool front_has(const char *runtime)
{
    if (strcmp(runtime, "libomp") == 0)
        return front_has_calls() || takes_our_tool();
    return strcmp(runtime, "libgomp") == 0 || strcmp(runtime, "none") == 0;
}
