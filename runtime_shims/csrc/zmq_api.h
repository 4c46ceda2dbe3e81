/* The few functions of libzmq used, found at run time.
 *
 * libzmq (and with it the C++ library) is loaded only into programs that are managed: a shell or an
 * editor under the same LD_PRELOAD pays nothing and gets no foreign symbols. */
#ifndef WATTFOLD_ZMQ_API_H
#define WATTFOLD_ZMQ_API_H

#include <zmq.h>

struct zmq_api {
    __typeof__(&zmq_version) version;
    __typeof__(&zmq_ctx_new) ctx_new;
    __typeof__(&zmq_ctx_term) ctx_term;
    __typeof__(&zmq_socket) socket;
    __typeof__(&zmq_close) close;
    __typeof__(&zmq_setsockopt) setsockopt;
    __typeof__(&zmq_getsockopt) getsockopt;
    __typeof__(&zmq_connect) connect;
    __typeof__(&zmq_socket_monitor) socket_monitor;
    __typeof__(&zmq_poll) poll;
    __typeof__(&zmq_send) send;
    __typeof__(&zmq_recv) recv;
    __typeof__(&zmq_errno) last_errno;
    __typeof__(&zmq_strerror) strerror;
};

/* NULL on success, else what failed. */
const char *zmq_api_load(struct zmq_api *api);

#endif
