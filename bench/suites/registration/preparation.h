/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gets memory ready, step by step, by one client or many at once. The reference is a plain process
 * that populates memory of the same kind. For the suites `region` and `control`.
 */
#ifndef BENCH_PREPARATION_H
#define BENCH_PREPARATION_H

#include <stdint.h>

#include "harness/cluster.h"
#include "harness/scene.h"

#define PREPARATION_CLIENTS_MAX 36U

enum preparation_step { STEP_RESERVE, STEP_ALLOC, STEP_MAP, NR_STEPS };

/* Clients of a server of their own, each with a session and a namespace. Zero everything but the
 * first two before it is started. */
struct preparation {
	uint64_t bytes; /* for each client */
	unsigned nr_clients;
	struct cluster *cluster;
	struct scene scenes[PREPARATION_CLIENTS_MAX];
};

/* Starts a server, and sessions that have nothing yet, with empty namespaces. It first stops those
 * that there were. */
int preparation_start(struct preparation *preparation);
void preparation_stop(struct preparation *preparation);

/* Has all clients reserve, then all allocate, then all map. A step takes as long as the last client
 * needs, in milliseconds. */
int preparation_run(struct preparation *preparation, double steps_ms[NR_STEPS]);

/* Gives everything back, and waits until it is scrubbed. From then on the way is warm. */
int preparation_undo(struct preparation *preparation);

/* Populates `bytes` in a fresh process, `nr_times` times one beside the other. Each time it uses as
 * many threads as afard does, one per core. Returns the milliseconds of each. */
int preparation_populate(uint64_t bytes, unsigned nr_times, double *times_ms);

#endif
