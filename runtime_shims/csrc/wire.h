/* The message between shim and agent: one frame, a 64-byte little-endian header, optional ASCII text.
 * The same layout is in proto/src/wattfold/contract/shim_protocol.py. No I/O here. */
#ifndef WATTFOLD_WIRE_H
#define WATTFOLD_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_MAGIC 0x31464657u
#define WIRE_HEADER_BYTES 64u
#define WIRE_TEXT_BYTES_MAX 65536u

/* MASK: the team size must follow the mask (team mode). */
#define WIRE_FLAG_TEAM_FOLLOWS 1u
/* HELLO: regions obey what the agent writes to the notice file. */
#define WIRE_FLAG_READS_NOTICES 2u

enum wire_type { WIRE_HELLO = 1, WIRE_MASK = 2, WIRE_ACK = 3, WIRE_STATUS = 4, WIRE_BYE = 5 };

struct wire_message {
    uint16_t type;
    uint16_t flags;
    uint64_t seq;
    uint32_t cores;
    uint32_t pid;
    uint64_t time_ns;
    uint64_t regions;
    double done;
    double total;
    uint32_t max_team;
    uint32_t notice; /* MASK: number of the notice file (notice.h), 0: none */
};

/* Writes the header only; text, if any, follows it. */
void wire_pack(const struct wire_message *message, unsigned char header[WIRE_HEADER_BYTES]);

/* False for a short or over-long frame, a wrong magic or an unknown type. */
bool wire_unpack(const unsigned char *frame, size_t frame_bytes, struct wire_message *message);

#endif
