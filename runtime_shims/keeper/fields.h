/* Messages between an agent and a keeper.
 *
 * A message is `LENGTH:` and so many bytes of fields; a field is `LENGTH:`, its bytes and a NUL. The
 * lengths are decimal. Texts are bytes, not characters: paths and arguments need not be UTF-8.
 */
#ifndef WATTFOLD_KEEPER_FIELDS_H
#define WATTFOLD_KEEPER_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

struct fields {
    char *at;
    char *end;
    bool valid; /* becomes false with the first field that is not as expected, and stays so */
};

/* Texts and a NULL after them, as exec takes them. */
struct texts {
    char **items;
    size_t count;
};

/* Read a whole message. Returns its bytes, which stay allocated, or NULL with errno: 0 at the end of
 * input, EPROTO for anything that is no message. */
char *fields_read(int fd, struct fields *fields);

/* The next field, which may contain NULs. */
char *fields_bytes(struct fields *fields, size_t *length);

/* The next field without a NUL. Never NULL. */
char *fields_text(struct fields *fields);

/* The next field as a number of at least 0; an empty field is `absent`. */
long long fields_number(struct fields *fields, long long absent);

/* The next field as a count, and so many texts. */
struct texts fields_texts(struct fields *fields);

/* Add a field to a message of at most `size` bytes. Returns the new length; a field that does not
 * fit is shortened. */
size_t fields_add(char *message, size_t length, size_t size, const char *text);

/* Write the fields as one message. Returns whether all of it was written. */
bool fields_write(int fd, const char *message, size_t length);

#endif
