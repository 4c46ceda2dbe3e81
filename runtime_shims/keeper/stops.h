/* Processes that the agent has stopped. */
#ifndef WATTFOLD_KEEPER_STOPS_H
#define WATTFOLD_KEEPER_STOPS_H

/* Continue the processes that the agent has stopped, once: the file is removed. Each of its lines is
 * a PID and a start time in clock ticks. Processes that their user has stopped stay so. */
void continue_all(const char *stopped_path);

#endif
