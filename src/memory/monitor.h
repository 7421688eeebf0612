/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watches ranges of this process's memory: whoever keeps something about them hears of it when they are unmapped,
 * moved or dropped, however that came about, and before anything else can be at their addresses unnoticed.
 *
 * By userfaultfd in write-protect mode, of which nothing is ever protected: a page that were missing or protected
 * would hang the program on its own memory. The kernel tells of an unmapping when it is done and the addresses
 * are free; so monitor_settle() comes before each lookup. It asks the kernel to unprotect a page of the monitor's
 * own, which it refuses while it has told of a change that nobody has taken.
 *
 * Only private anonymous memory can be watched: of files and shared memory a descriptor can take pages away
 * without a word.
 *
 * The thread that takes the changes takes the owner's lock before it takes one from the kernel, which lets
 * the one who made the change go on: nobody may free or unmap memory, or wait for who does, with that lock held.
 */
#ifndef MEMORY_MONITOR_H
#define MEMORY_MONITOR_H

#include <pthread.h>
#include <stdbool.h>

#include "memory/ranges.h"

struct monitor;

enum monitor_change {
	MONITOR_GONE,	/* nothing of what was there is there any more          */
	MONITOR_DROPPED /* its pages go, or have gone: when, nobody tells (madvise) */
};

struct monitor_options {
	pthread_mutex_t *lock;
	/* With the lock held. May not allocate, free or block. */
	void (*changed)(void *context, struct range range, enum monitor_change change);
	void *context;
};

/* Starts its thread. Errors, with a sentence: -ENOMEM, -EMFILE, and -EOPNOTSUPP where there is no userfaultfd,
 * or none that this process may use. */
int monitor_open(const struct monitor_options *options, struct monitor **out);
void monitor_close(struct monitor *monitor);

/* With the lock held; whole pages. False: it can't be watched. What is watched may be watched again. */
bool monitor_watch(struct monitor *monitor, struct range range);
void monitor_unwatch(struct monitor *monitor, struct range range);
/* Whether pages that are there are all private and anonymous. */
bool monitor_is_private(struct monitor *monitor, struct range range);

/* After this `changed` has been called for all that happened before. Without the lock held. */
void monitor_settle(struct monitor *monitor);

#endif
