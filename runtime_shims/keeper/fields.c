#include "fields.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGE_BYTES_MAX (64 * 1024 * 1024)
#define FIRST_BYTES 65536
#define LENGTH_DIGITS_MAX 20

/* The decimal length before a colon. Returns the byte behind the colon, or NULL. */
static char *length_before(char *at, const char *end, size_t *length)
{
    *length = 0;
    for (int digits = 0; at < end && digits < LENGTH_DIGITS_MAX; at++, digits++) {
        if (*at == ':')
            return digits > 0 ? at + 1 : NULL;
        if (*at < '0' || *at > '9')
            return NULL;
        *length = *length * 10 + (size_t)(*at - '0');
        if (*length > MESSAGE_BYTES_MAX)
            return NULL;
    }
    return NULL;
}

static ssize_t read_some(int fd, char *into, size_t size)
{
    ssize_t got;
    do {
        got = read(fd, into, size);
    } while (got < 0 && errno == EINTR);
    /* An agent that ended without reading its messages has ended too. */
    return got < 0 && errno == ECONNRESET ? 0 : got;
}

char *fields_read(int fd, struct fields *fields)
{
    size_t size = FIRST_BYTES, have = 0, length = 0;
    char *buffer = malloc(size), *body = NULL;
    while (buffer != NULL) {
        if (body != NULL && have >= (size_t)(body - buffer) + length)
            break;
        const ssize_t got = read_some(fd, buffer + have, size - have);
        if (got <= 0) {
            const int error = got < 0 ? errno : 0;
            free(buffer);
            errno = error;
            return NULL;
        }
        have += (size_t)got;
        if (body != NULL)
            continue;
        body = length_before(buffer, buffer + have, &length);
        if (body == NULL && memchr(buffer, ':', have) == NULL && have < LENGTH_DIGITS_MAX)
            continue;
        if (body == NULL) {
            free(buffer);
            errno = EPROTO;
            return NULL;
        }
        const size_t offset = (size_t)(body - buffer);
        size = offset + length > size ? offset + length : size;
        char *larger = realloc(buffer, size);
        if (larger == NULL)
            free(buffer);
        buffer = larger;
        body = buffer == NULL ? NULL : buffer + offset;
    }
    if (buffer == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    *fields = (struct fields){.at = body, .end = body + length, .valid = true};
    return buffer;
}

static char empty[1];

char *fields_bytes(struct fields *fields, size_t *length)
{
    char *text = fields->valid ? length_before(fields->at, fields->end, length) : NULL;
    if (text == NULL || *length >= (size_t)(fields->end - text) || text[*length] != '\0') {
        fields->valid = false;
        *length = 0;
        return empty;
    }
    fields->at = text + *length + 1;
    return text;
}

char *fields_text(struct fields *fields)
{
    size_t length;
    char *text = fields_bytes(fields, &length);
    if (strlen(text) == length)
        return text;
    fields->valid = false;
    return empty;
}

long long fields_number(struct fields *fields, long long absent)
{
    const char *text = fields_text(fields);
    if (*text == '\0')
        return absent;
    long long value = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (value > (LLONG_MAX - 9) / 10)
            break;
        value = value * 10 + (*text - '0');
    }
    if (*text != '\0')
        fields->valid = false;
    return value;
}

struct texts fields_texts(struct fields *fields)
{
    static char *none[1];
    struct texts texts = {.items = none, .count = 0};
    const long long count = fields_number(fields, -1);
    /* A field has three bytes or more, so a count above this is no count. */
    if (!fields->valid || count < 0 || count > (fields->end - fields->at) / 3) {
        fields->valid = false;
        return texts;
    }
    char **items = calloc((size_t)count + 1, sizeof *items);
    if (items == NULL) {
        fields->valid = false;
        return texts;
    }
    for (long long i = 0; i < count; i++)
        items[i] = fields_text(fields);
    texts.items = items;
    texts.count = (size_t)count;
    return texts;
}

size_t fields_add(char *message, size_t length, size_t size, const char *text)
{
    const size_t frame = LENGTH_DIGITS_MAX + 2; /* length, colon, NUL */
    if (length > size || size - length < frame)
        return length;
    size_t bytes = strlen(text);
    if (bytes > size - length - frame)
        bytes = size - length - frame;
    const int written = snprintf(message + length, frame, "%zu:", bytes);
    length += (size_t)written;
    memcpy(message + length, text, bytes);
    message[length + bytes] = '\0';
    return length + bytes + 1;
}

static bool write_all(int fd, const char *at, size_t left)
{
    while (left > 0) {
        const ssize_t put = write(fd, at, left);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        at += put;
        left -= (size_t)put;
    }
    return true;
}

bool fields_write(int fd, const char *message, size_t length)
{
    char head[LENGTH_DIGITS_MAX + 2];
    const int bytes = snprintf(head, sizeof head, "%zu:", length);
    return write_all(fd, head, (size_t)bytes) && write_all(fd, message, length);
}
