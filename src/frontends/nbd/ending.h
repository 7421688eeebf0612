/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the plugin ends. When nbdkit is told to end, it waits for its clients to leave, for ever if they are idle. Only
 * then does it call the plugin's cleanup(). So a thread of ours closes the volume when a signal comes, or when there
 * is nothing left to serve. It ends the process if clients stay.
 */
#ifndef NBD_ENDING_H
#define NBD_ENDING_H

#include <stdbool.h>

struct ending {
	/* True: there is nothing left to serve. Asked every other second. */
	bool (*is_over)(void);
	/* Closes all; no request is under way, and none comes. Returns an exit status. */
	int (*conclude)(void);
};

/* Starts the thread, and listens for signals beside nbdkit. Called once, in the process that serves. Returns 0 or an
 * errno. */
int ending_start(const struct ending *ending);

/* A request goes between them. False: it is too late for it, and ending_leave() must not be called. */
bool ending_enter(void);
void ending_leave(void);

/* Asks for the end. Can be called by a signal handler, and again. */
void ending_ask(void);

/* nbdkit's clients have left: waits until all is closed. Does nothing if nothing was started. */
void ending_wait(void);

#endif
