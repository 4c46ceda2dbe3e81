/* Whether the kernel lets libzmq work: it ends the process (abort) when a call is refused that it cannot do
 * without, as by a seccomp filter, or when it cannot have its threads. */
#ifndef WATTFOLD_PROBE_H
#define WATTFOLD_PROBE_H

/* Tries each of these calls, in the form libzmq makes them, with an eventfd of ours that does not block; and
 * whether there are threads for us and for a team of this size. NULL when all went well, else what did not, for
 * one line on stderr. All signals should be blocked. */
const char *probe_kernel(int wake_fd, unsigned team);

#endif
