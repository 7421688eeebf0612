/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watches ranges of this process's memory. It tells its owner when they are unmapped, moved or
 * dropped, whoever does that and however, before anything else can be at their addresses unnoticed.
 *
 * It uses userfaultfd in write-protect mode, and never protects anything: a page that is missing or
 * protected would hang the program on its own memory. The kernel tells of an unmapping when it is
 * done and the addresses are free. So call monitor_settle() before each lookup. It asks the kernel
 * to unprotect a page of the monitor's own. The kernel refuses that as long as it has told of a
 * change that nobody has taken.
 *
 * Only private anonymous memory can be watched. A descriptor can take pages of files and shared
 * memory away without a word.
 *
 * The thread that takes changes takes the owner's lock before it takes one from the kernel, because
 * that lets the changing thread go on. So with that lock held, never free or unmap memory, and
 * never wait for a thread that does.
 */
#ifndef MEMORY_MONITOR_H
#define MEMORY_MONITOR_H

#include <pthread.h>
#include <stdbool.h>

#include "memory/ranges.h"

struct monitor;

enum monitor_change {
	MONITOR_GONE,	/* the memory is not there any more */
	MONITOR_DROPPED /* its pages go, or have gone; nobody tells when (madvise) */
};

struct monitor_options {
	pthread_mutex_t *lock;
	/* Runs with the lock held. It may not allocate, free or block. */
	void (*changed)(void *context, struct range range, enum monitor_change change);
	void *context;
};

/* Starts the monitor's thread. Errors, with a sentence: -ENOMEM, -EMFILE; -EOPNOTSUPP: there is no
 * userfaultfd, or none that this process may use. */
int monitor_open(const struct monitor_options *options, struct monitor **out);
/* Unwatch all ranges before: if a forked child has the descriptor, the kernel waits forever for somebody to take their changes. */
void monitor_close(struct monitor *monitor);

/* Watches whole pages. Hold the lock. False: the range cannot be watched. A range that is watched
 * may be watched again. */
bool monitor_watch(struct monitor *monitor, struct range range);
void monitor_unwatch(struct monitor *monitor, struct range range);
void monitor_unwatch_all(struct monitor *monitor, const struct ranges *ranges);
/* True if all pages of the range that are there are private and anonymous. */
bool monitor_is_private(struct monitor *monitor, struct range range);

/* When this returns, `changed` has been called for everything that happened before. Call it without
 * the lock. */
void monitor_settle(struct monitor *monitor);

#endif
