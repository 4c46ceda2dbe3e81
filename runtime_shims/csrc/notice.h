/* Pages of the agent's that regions read: how large teams may be by the newest mask. They lie beside the socket
 * of the endpoint (ipc://), and the agent writes to them before it sends a mask. They carry the limit alone: the
 * mask itself still comes by message. Either is acknowledged, once.
 *
 * "teams" is there before the job starts. It tells those who have not been told anything yet: words of 64 bits,
 * first the number of tasks, then the limit (teams.h) of a process of no task, then that of each task.
 * "notice.NUMBER" is of one process, from its first mask on, so that regions follow within one region even while
 * the helper waits for a core. */
#ifndef WATTFOLD_NOTICE_H
#define WATTFOLD_NOTICE_H

#include <stdint.h>

/* Until the first mask comes regions read what the job may use now. Without a good file: nothing. Before the
 * first region. */
void notice_begin(const char *endpoint);

/* From now on regions read the notice of this number. 0, or a file that cannot be had: none. Helper thread
 * only. */
void notice_follow(const char *endpoint, uint32_t number);

#endif
