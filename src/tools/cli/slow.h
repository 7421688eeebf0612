/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call of the library that may take long, such as a reservation. The library waits for servers and
 * ignores signals. So a thread of its own makes the call, while the thread that takes the signals
 * shows the time.
 */
#ifndef TOOLS_SLOW_H
#define TOOLS_SLOW_H

#include <pthread.h>
#include <stdbool.h>

#define SLOW_SENTENCE_MAX 512

struct slow_call {
	/* Set by the caller: */
	int (*run)(void *argument); /* the call; returns 0 or the library's error */
	void *argument;
	const char *what; /* for people: "reserving 64 MiB" */
	/* After slow_end(): */
	int result;
	char sentence[SLOW_SENTENCE_MAX]; /* the library's line, if it failed */

	int done_fd; /* an eventfd, readable when it is done */
	pthread_t thread;
};

/* Starts the call. Returns 0, or CLI_FAILED with a line. */
int slow_begin(struct slow_call *call);
/* Waits until it is done, or an interrupt has come (interrupts.h). Shows on a terminal how long it
 * has taken. */
void slow_wait(struct slow_call *call);
/* Returns whether it is done; waits for that, up to `timeout_ms` (-1: no limit). */
bool slow_is_done(const struct slow_call *call, int timeout_ms);
/* Waits until it is done, and fills in how it ended. */
void slow_end(struct slow_call *call);

#endif
