/* The notice file: one page of the agent's in which it writes the team size of a mask before it sends the
 * mask. Regions read it, so that they follow within one region even while the helper waits for a core. It
 * carries the limit alone: the mask itself still comes by message. Either is acknowledged, once. */
#ifndef WATTFOLD_NOTICE_H
#define WATTFOLD_NOTICE_H

#include <stdint.h>

/* From now on regions read this file, which lies beside the socket of the endpoint (ipc://). 0, or a file that
 * cannot be had: none. Helper thread only. */
void notice_follow(const char *endpoint, uint32_t number);

#endif
