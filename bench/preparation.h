/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Getting memory ready, step by step, by one client or many at once; and what it is compared with: a plain process that
 * populates memory of the same kind. For the suites `region` and `control`.
 */
#ifndef BENCH_PREPARATION_H
#define BENCH_PREPARATION_H

#include <stdint.h>

#include "cluster.h"
#include "scene.h"

#define PREPARATION_CLIENTS_MAX 36U

enum preparation_step { STEP_RESERVE, STEP_ALLOC, STEP_MAP, NR_STEPS };

/* Clients of a server of their own, each with a session and a namespace. All 0 but for the first two: not started. */
struct preparation {
	uint64_t bytes; /* of each client */
	unsigned nr_clients;
	struct cluster *cluster;
	struct scene scenes[PREPARATION_CLIENTS_MAX];
};

/* A server and sessions that have nothing yet, and empty namespaces; instead of those there were. */
int preparation_start(struct preparation *preparation);
void preparation_stop(struct preparation *preparation);

/* All clients reserve, then all allocate, then all map. A step takes as long as the last of them needs, in milliseconds. */
int preparation_run(struct preparation *preparation, double steps_ms[NR_STEPS]);

/* Gives everything back, and waits until it is scrubbed: from then on the way is warm. */
int preparation_undo(struct preparation *preparation);

/* Populates `bytes` in a fresh process, `nr_times` times one beside the other, each with as many threads as afard takes, one
 * per core; in milliseconds each. */
int preparation_populate(uint64_t bytes, unsigned nr_times, double *times_ms);

#endif
