#include "wire.h"

#include <string.h>

static void put(unsigned char *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get(const unsigned char *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static void put_double(unsigned char *at, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put(at, bits, 8);
}

static double get_double(const unsigned char *at)
{
    const uint64_t bits = get(at, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void wire_pack(const struct wire_message *message, unsigned char header[WIRE_HEADER_BYTES])
{
    put(header + 0, WIRE_MAGIC, 4);
    put(header + 4, message->type, 2);
    put(header + 6, message->flags, 2);
    put(header + 8, message->seq, 8);
    put(header + 16, message->cores, 4);
    put(header + 20, message->pid, 4);
    put(header + 24, message->time_ns, 8);
    put(header + 32, message->regions, 8);
    put_double(header + 40, message->done);
    put_double(header + 48, message->total);
    put(header + 56, message->max_team, 4);
    put(header + 60, message->notice, 4);
}

bool wire_unpack(const unsigned char *frame, size_t frame_bytes, struct wire_message *message)
{
    if (frame_bytes < WIRE_HEADER_BYTES || frame_bytes > WIRE_HEADER_BYTES + WIRE_TEXT_BYTES_MAX)
        return false;
    if (get(frame, 4) != WIRE_MAGIC)
        return false;
    message->type = (uint16_t)get(frame + 4, 2);
    if (message->type < WIRE_HELLO || message->type > WIRE_BYE)
        return false;
    message->flags = (uint16_t)get(frame + 6, 2);
    message->seq = get(frame + 8, 8);
    message->cores = (uint32_t)get(frame + 16, 4);
    message->pid = (uint32_t)get(frame + 20, 4);
    message->time_ns = get(frame + 24, 8);
    message->regions = get(frame + 32, 8);
    message->done = get_double(frame + 40);
    message->total = get_double(frame + 48);
    message->max_team = (uint32_t)get(frame + 56, 4);
    message->notice = (uint32_t)get(frame + 60, 4);
    return true;
}
