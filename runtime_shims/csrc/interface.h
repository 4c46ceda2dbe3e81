/* Between libwattfold.a in a program and the shim: a table, found by one name and a version. Fields are
 * added at the end only; `bytes` tells which are there. */
#ifndef WATTFOLD_INTERFACE_H
#define WATTFOLD_INTERFACE_H

#include "wattfold.h"

#include <stddef.h>

struct wattfold_interface {
    uint32_t bytes;
    const volatile uint32_t *changes;
    int (*take)(wattfold_mask *out, uint32_t *seen);
    int (*get_mask)(wattfold_mask *out);
    unsigned (*cores)(void);
    int (*on_change)(wattfold_callback callback, void *context);
    void (*off_change)(int number);
    void (*progress)(double done, double total);
    void (*phase)(const char *name);
    int (*request)(unsigned cores);
    const char *(*version)(void);
    /* The fields above are in every shim of this version of the interface, this one in newer ones. */
    int (*allow_growth)(unsigned most);
};

#define WATTFOLD_INTERFACE_LEAST offsetof(struct wattfold_interface, allow_growth)

/* The table of this version of the interface; NULL when the shim does not have it. */
typedef const struct wattfold_interface *(*wattfold_interface_fn)(uint32_t abi);

#define WATTFOLD_INTERFACE_SYMBOL "wattfold_interface"

#endif
