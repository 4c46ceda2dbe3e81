/* Functions of the program that want to hear of changes of the mask. Run by the helper thread. */
#ifndef WATTFOLD_CALLBACKS_H
#define WATTFOLD_CALLBACKS_H

#include "wattfold.h"

/* Number of the new entry, or -1 when all are taken. */
int callbacks_add(wattfold_callback callback, void *context);

/* On return the callback does not run, unless the caller is that callback. */
void callbacks_remove(int number);

void callbacks_run(const wattfold_mask *mask);

/* In a forked child, where the thread that may have held the lock does not exist. */
void callbacks_after_fork(void);

#endif
