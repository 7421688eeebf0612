/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the manager has counted since its start, for those who watch it. Whoever runs the core adds, one thread at a time;
 * any thread reads.
 */
#ifndef MANAGER_COUNTS_H
#define MANAGER_COUNTS_H

#include "base/counter.h"
#include "base/latency.h"

#define MANAGER_CALLS_MAX 128U
#define MANAGER_KINDS	  4U /* of clients' operations: reads, writes, atomics, flushes */

/* What all clients' programs did, as far as the sessions that are there have said, and those that were. */
struct manager_operations {
	struct counter nr, bytes, nr_failed;
	struct latency spans; /* estimated, as in OperationUse */
};

struct manager_counts {
	/* From when a request came until its answer was sent, also if it waited for others. By the place of the call
	 * among the fields of Afar__Request. */
	struct latency calls[MANAGER_CALLS_MAX];
	struct latency commits; /* of those that had something to write */
	struct counter nr_commits_failed;
	struct counter is_failing; /* 1: the last commit failed */
	struct counter nr_sessions_opened, nr_sessions_expired;
	struct counter nr_fences;  /* a server has closed what an ended session had there */
	struct counter nr_recalls; /* of files that sessions kept to themselves */
	struct manager_operations operations[MANAGER_KINDS];
};

#endif
