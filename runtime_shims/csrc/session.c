#include "session.h"

#include "binding.h"
#include "cpulist.h"
#include "front.h"
#include "notice.h"
#include "process.h"
#include "runtime.h"
#include "teams.h"
#include "wire.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STATUS_PERIOD_NS UINT64_C(500000000)
#define NEWS_PERIOD_NS UINT64_C(20000000) /* the least between two STATUS */
#define BINDINGS 6                       /* times threads are bound again after a mask */
#define BINDING_NS UINT64_C(20000000)    /* between them */
#define RETRY_MS 10       /* connected, but the pipe takes nothing yet */
#define RECONNECT_MS 50
#define RECONNECT_MS_MAX 1000
#define BYE_LINGER_MS 50
#define QUEUE_MESSAGES 64 /* also the most received in one turn */
#define STATUS_TEXT_BYTES 96
#define MONITOR "inproc://wattfold-monitor"

struct session {
    const struct zmq_api *zmq;
    const struct config *config;
    const char *runtime;
    const struct session_ports *ports;
    void *context, *socket, *monitor;
    bool binds; /* the user wants threads bound to cores */
    unsigned bindings_due;
    bool connected, hello_due, ack_due, ack_follows, program_over;
    bool unfenced; /* what the teams do cannot be told any more */
    uint32_t notice;   /* number of the notice file that is read, 0: none */
    bool notice_stale; /* its number may be of an agent that is gone */
    uint64_t seq;       /* of the newest mask received */
    uint64_t limit_seq; /* of the newest mask received or noticed: its limit is in force */
    uint64_t acked_seq; /* of the newest mask acknowledged */
    uint32_t mask_cores;
    uint32_t limit;
    uint64_t next_status_ns, last_status_ns;
    struct self_report told; /* with the last STATUS */
    struct wire_message reported; /* last STATUS, or what HELLO said */
    unsigned char frame[WIRE_HEADER_BYTES + WIRE_TEXT_BYTES_MAX];
    wattfold_mask mask;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Team size in force: the launch size unless a mask limits it. */
static uint32_t team_in_force(const struct session *session)
{
    const uint32_t most = team_most();
    if (session->limit != TEAM_UNLIMITED && (most == 0 || session->limit < most))
        return session->limit;
    return most;
}

static struct wire_message describe(const struct session *session, enum wire_type type)
{
    const struct team_totals totals = teams_totals();
    struct self_report self;
    session->ports->report(&self);
    struct wire_message message = {
        .type = (uint16_t)type,
        .seq = session->acked_seq,
        .cores = team_in_force(session),
        .pid = (uint32_t)getpid(),
        .time_ns = now_ns(),
        .regions = totals.regions,
        .max_team = totals.max_team,
        .done = self.done,
        .total = self.total,
    };
    return message;
}

static bool say(struct session *session, const struct wire_message *message, const char *text)
{
    unsigned char frame[WIRE_HEADER_BYTES + STATUS_TEXT_BYTES];
    const size_t text_bytes = strnlen(text, STATUS_TEXT_BYTES);
    wire_pack(message, frame);
    memcpy(frame + WIRE_HEADER_BYTES, text, text_bytes);
    const int sent =
        session->zmq->send(session->socket, frame, WIRE_HEADER_BYTES + text_bytes, ZMQ_DONTWAIT);
    return sent >= 0;
}

static bool set(struct session *session, int option, int value)
{
    return session->zmq->setsockopt(session->socket, option, &value, sizeof value) == 0;
}

static bool open_sockets(struct session *session)
{
    const struct zmq_api *zmq = session->zmq;
    session->context = zmq->ctx_new();
    if (session->context == NULL)
        return false;
    session->socket = zmq->socket(session->context, ZMQ_DEALER);
    session->monitor = zmq->socket(session->context, ZMQ_PAIR);
    /* IMMEDIATE: nothing is queued for an agent that is away; it hears the present on its return. */
    return session->socket != NULL && session->monitor != NULL && set(session, ZMQ_LINGER, 0) &&
           set(session, ZMQ_IMMEDIATE, 1) && set(session, ZMQ_SNDHWM, QUEUE_MESSAGES) &&
           set(session, ZMQ_RCVHWM, QUEUE_MESSAGES) &&
           set(session, ZMQ_RECONNECT_IVL, RECONNECT_MS) &&
           set(session, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MS_MAX) &&
           zmq->socket_monitor(session->socket, MONITOR,
                               ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED) == 0 &&
           zmq->connect(session->monitor, MONITOR) == 0 &&
           zmq->connect(session->socket, session->config->endpoint) == 0;
}

static void close_sockets(struct session *session)
{
    if (session->socket != NULL)
        session->zmq->close(session->socket);
    if (session->monitor != NULL)
        session->zmq->close(session->monitor);
    if (session->context != NULL)
        session->zmq->ctx_term(session->context);
}

static bool more_parts(struct session *session, void *socket)
{
    int more = 0;
    size_t bytes = sizeof more;
    return session->zmq->getsockopt(socket, ZMQ_RCVMORE, &more, &bytes) == 0 && more != 0;
}

/* Each event is two parts: number and value, then an address nobody needs. */
static void hear_monitor(struct session *session)
{
    unsigned char part[256];
    while (session->zmq->recv(session->monitor, part, sizeof part, ZMQ_DONTWAIT) >= 2) {
        uint16_t event;
        memcpy(&event, part, sizeof event);
        session->connected = event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
        session->hello_due = session->connected;
        session->notice_stale = true;
        while (more_parts(session, session->monitor))
            if (session->zmq->recv(session->monitor, part, sizeof part, ZMQ_DONTWAIT) < 0)
                return;
    }
}

/* The agent moves all threads after it was acknowledged, and does not say when. */
static void bind_soon(struct session *session)
{
    const uint64_t soon = now_ns() + BINDING_NS;
    if (session->next_status_ns > soon)
        session->next_status_ns = soon;
}

static void bind_threads(struct session *session)
{
    if (!session->binds)
        return;
    binding_learn();
    if (session->bindings_due == 0)
        return;
    binding_apply(&session->mask);
    if (--session->bindings_due > 1)
        bind_soon(session); /* the last one at the normal time */
}

/* A limit that teams obey from now on; acknowledged when they all do. */
static void put_in_force(struct session *session, uint64_t seq, uint32_t limit)
{
    session->limit_seq = seq;
    session->limit = limit;
    if (!teams_publish(limit))
        session->unfenced = true;
    session->ack_due = true;
}

/* The seq of a notice, of which it has the low half, as the one next to the newest. */
static uint64_t seq_of(const struct session *session, uint64_t notice)
{
    const int32_t ahead = (int32_t)((uint32_t)(notice >> 32) - (uint32_t)session->limit_seq);
    return session->limit_seq + (uint64_t)(int64_t)ahead;
}

/* The agent writes before it sends, and lets programs that start regions answer first: the message would
 * come while their team changes, and take the cores it needs. The mask itself is in the message. */
static void look_at_notice(struct session *session)
{
    const uint64_t notice = notice_now();
    atomic_store(&team_noticed, notice);
    if (session->ack_follows && word_limit(notice) != 0 &&
        seq_of(session, notice) > session->limit_seq)
        put_in_force(session, seq_of(session, notice), word_limit(notice));
}

static void follow_notice(struct session *session, uint32_t number)
{
    if (number == session->notice && !session->notice_stale)
        return;
    notice_follow(session->config->endpoint, number);
    session->notice = number;
    session->notice_stale = false;
}

static void take_mask(struct session *session, const struct wire_message *message, size_t bytes)
{
    const char *text = (const char *)session->frame + WIRE_HEADER_BYTES;
    /* What we have said HELLO to may be a new agent, which repeats the mask. */
    if (message->type == WIRE_MASK && message->seq == session->seq && session->ack_follows)
        follow_notice(session, message->notice);
    if (message->type != WIRE_MASK || message->seq <= session->seq || message->cores == 0 ||
        !cpulist_parse(text, bytes - WIRE_HEADER_BYTES, &session->mask) ||
        session->mask.cores != message->cores)
        return;
    session->seq = message->seq;
    session->mask_cores = message->cores;
    session->mask.seq = message->seq;
    session->mask.reserved = 0;
    session->ack_follows =
        session->config->mode == MODE_TEAM && (message->flags & WIRE_FLAG_TEAM_FOLLOWS) != 0;
    follow_notice(session, session->ack_follows ? message->notice : 0);
    if (session->binds) {
        binding_learn();
        binding_set_mask(&session->mask);
        session->bindings_due = BINDINGS;
        bind_soon(session);
    }
    session->ports->mask_received(&session->mask);
    if (message->seq > session->limit_seq)
        put_in_force(session, message->seq, session->ack_follows ? message->cores : session->limit);
    session->ports->mask_in_force(&session->mask);
}

/* Anything that is not one well-formed frame is dropped. */
static void hear_agent(struct session *session)
{
    for (int i = 0; i < QUEUE_MESSAGES; i++) {
        const int bytes =
            session->zmq->recv(session->socket, session->frame, sizeof session->frame, ZMQ_DONTWAIT);
        if (bytes < 0)
            return;
        bool whole = (size_t)bytes <= sizeof session->frame;
        while (more_parts(session, session->socket)) {
            unsigned char rest;
            whole = false;
            if (session->zmq->recv(session->socket, &rest, sizeof rest, ZMQ_DONTWAIT) < 0)
                return;
        }
        struct wire_message message;
        if (whole && wire_unpack(session->frame, (size_t)bytes, &message))
            take_mask(session, &message, (size_t)bytes);
    }
}

/* A runtime we are not in front of obeys nothing: no acknowledgement is better than a false one. */
static bool teams_obey(const struct session *session, const struct team_totals *totals)
{
    if (!session->ack_follows)
        return true;
    return (totals->regions > 0 || front_has(session->runtime)) && totals->running_max <= session->limit;
}

static void acknowledge(struct session *session)
{
    const struct team_totals totals = teams_totals();
    if (!session->ack_due || session->hello_due || !session->connected ||
        !teams_obey(session, &totals))
        return;
    struct wire_message ack = describe(session, WIRE_ACK);
    ack.seq = session->limit_seq;
    if (!say(session, &ack, ""))
        return;
    session->acked_seq = session->limit_seq;
    session->ack_due = false;
}

static void greet(struct session *session)
{
    if (!session->hello_due)
        return;
    struct wire_message hello = describe(session, WIRE_HELLO);
    if (session->config->mode == MODE_TEAM)
        hello.flags = WIRE_FLAG_READS_NOTICES;
    if (!say(session, &hello, session->runtime))
        return;
    session->hello_due = false;
    session->reported = hello;
    session->told = (struct self_report){0}; /* the agent may be another one */
}

static bool same(const struct wire_message *a, const struct wire_message *b)
{
    return a->regions == b->regions && a->done == b->done && a->total == b->total &&
           a->cores == b->cores && a->max_team == b->max_team;
}

/* Words "key=value": the wish of an evolving program and the phase it is in, when it has said so. */
static void write_status_text(const struct self_report *self, char text[STATUS_TEXT_BYTES])
{
    int used = 0;
    text[0] = '\0';
    if (self->request != 0)
        used = snprintf(text, STATUS_TEXT_BYTES, "request=%u", self->request);
    if (self->phase[0] != '\0')
        snprintf(text + used, STATUS_TEXT_BYTES - (size_t)used, "%sphase=%s", used == 0 ? "" : " ",
                 self->phase);
}

static void report(struct session *session)
{
    if (now_ns() < session->next_status_ns)
        return;
    session->last_status_ns = now_ns();
    session->next_status_ns = session->last_status_ns + STATUS_PERIOD_NS;
    const struct wire_message status = describe(session, WIRE_STATUS);
    struct self_report self;
    char text[STATUS_TEXT_BYTES];
    session->ports->report(&self);
    write_status_text(&self, text);
    const bool news = !same(&status, &session->reported) || self.request != session->told.request ||
                      strcmp(self.phase, session->told.phase) != 0;
    if (session->connected && !session->hello_due && news && say(session, &status, text)) {
        session->reported = status;
        session->told = self;
    }
    session->program_over = process_is_over();
    bind_threads(session);
}

/* The program wants to be heard: soon, but not more often than the agent should bear. */
static void hear_program(struct session *session)
{
    const uint64_t soonest = session->last_status_ns + NEWS_PERIOD_NS;
    if (session->ports->has_news() && session->next_status_ns > soonest)
        session->next_status_ns = soonest;
}

static long timeout_ms(const struct session *session)
{
    if (session->hello_due)
        return RETRY_MS;
    const uint64_t now = now_ns();
    return now >= session->next_status_ns ? 0 : (long)((session->next_status_ns - now) / 1000000) + 1;
}

static bool turn(struct session *session)
{
    zmq_pollitem_t items[3] = {
        {.socket = session->socket, .events = ZMQ_POLLIN},
        {.socket = session->monitor, .events = ZMQ_POLLIN},
        {.fd = session->ports->wake_fd, .events = ZMQ_POLLIN},
    };
    if (session->zmq->poll(items, 3, timeout_ms(session)) < 0)
        return session->zmq->last_errno() == EINTR;
    if (items[2].revents & ZMQ_POLLIN) {
        uint64_t wakes;
        if (read(session->ports->wake_fd, &wakes, sizeof wakes) < 0 && errno != EAGAIN)
            return false;
    }
    if (items[1].revents & ZMQ_POLLIN)
        hear_monitor(session);
    if (items[0].revents & ZMQ_POLLIN)
        hear_agent(session);
    look_at_notice(session);
    if (session->ports->growth_changed() && !teams_publish(session->limit))
        session->unfenced = true;
    if (session->unfenced)
        return false;
    greet(session);
    acknowledge(session);
    hear_program(session);
    report(session);
    return true;
}

const char *session_run(const struct zmq_api *zmq, const struct config *config, const char *runtime,
                        const struct session_ports *ports, const char **detail, bool *program_over)
{
    static struct session session; /* too big for a small stack; there is one helper a process */
    const char *problem = NULL;
    session.zmq = zmq;
    session.config = config;
    session.runtime = runtime;
    session.ports = ports;
    session.limit = word_limit(atomic_load(&team_word));
    session.next_status_ns = now_ns() + STATUS_PERIOD_NS;
    session.binds = binding_wanted();
    if (!open_sockets(&session))
        problem = "cannot open the channel to the agent";
    while (problem == NULL && !session.program_over && !ports->stopping())
        if (!turn(&session))
            problem = session.unfenced ? "the kernel refuses membarrier" : "lost the channel to the agent";
    if (problem != NULL) {
        *detail = session.unfenced ? NULL : zmq->strerror(zmq->last_errno());
    } else if (session.connected) {
        const struct wire_message bye = describe(&session, WIRE_BYE);
        set(&session, ZMQ_LINGER, BYE_LINGER_MS);
        say(&session, &bye, "");
    }
    close_sockets(&session);
    *program_over = session.program_over;
    return problem;
}
