#include "zmq_api.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

static bool find(void *library, const char *name, void *slot)
{
    void *found = dlsym(library, name);
    *(void **)slot = found;
    return found != NULL;
}

const char *zmq_api_load(struct zmq_api *api)
{
    void *library = dlopen("libzmq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return "cannot load libzmq.so.5";
    if (!find(library, "zmq_version", &api->version) || !find(library, "zmq_ctx_new", &api->ctx_new) ||
        !find(library, "zmq_ctx_term", &api->ctx_term) || !find(library, "zmq_socket", &api->socket) ||
        !find(library, "zmq_close", &api->close) ||
        !find(library, "zmq_setsockopt", &api->setsockopt) ||
        !find(library, "zmq_getsockopt", &api->getsockopt) ||
        !find(library, "zmq_connect", &api->connect) ||
        !find(library, "zmq_socket_monitor", &api->socket_monitor) ||
        !find(library, "zmq_poll", &api->poll) || !find(library, "zmq_send", &api->send) ||
        !find(library, "zmq_recv", &api->recv) || !find(library, "zmq_errno", &api->last_errno) ||
        !find(library, "zmq_strerror", &api->strerror))
        return "libzmq.so.5 lacks a function";
    int major, minor, patch;
    api->version(&major, &minor, &patch);
    if (major != 4 || minor < 3)
        return "libzmq is older than 4.3";
    return NULL;
}
