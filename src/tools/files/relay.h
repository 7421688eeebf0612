/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves a stream of bytes from one call to another, which run at the same time, through a few buffers. */
#ifndef TOOLS_RELAY_H
#define TOOLS_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RELAY_SENTENCE_MAX 512

struct relay {
	/* Fills the buffer. Returns how much it has; 0 at the end; a negative error. */
	ssize_t (*fill)(void *context, char *buffer, size_t size);
	/* Takes all of that. Returns 0 or a negative error. */
	int (*take)(void *context, const char *buffer, size_t length);
	void *context;
	bool fills_here; /* which of the two the calling thread does; a thread of its own does the other */

	int fill_error, take_error;	   /* set: how each has ended */
	char sentence[RELAY_SENTENCE_MAX]; /* set: the library's line about the other thread's */
};

/* Returns when all has been taken, or one has failed. Returns 0 or the first error. */
int relay_run(struct relay *relay);

#endif
