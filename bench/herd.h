/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A herd: many clients of a cluster in one child process, each with a session, a queue and connections of its
 * own, driven by one thread. Each has one operation in flight and submits the next when that has completed. So cheap that
 * what is measured with hundreds of them on a few cores is what their number does to the server.
 */
#ifndef BENCH_HERD_H
#define BENCH_HERD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster.h"
#include "process.h"

#define HERD_CLIENTS_MAX 512U
#define HERD_BYTES	 (UINT64_C(32) << 20) /* of the region, and of local memory */

struct herd {
	struct child child;
};

/* What so many of its clients do for a while, the others being idle. Each walks over its own part of the region and of
 * local memory: so the bytes that are touched are the same, however many they are. */
struct herd_order {
	unsigned nr_clients;
	bool is_write;
	uint16_t flags; /* of the operations: AFAR_OP_… */
	size_t size;	/* of an operation; at most HERD_BYTES / nr_clients */
	uint64_t span_ns;
};

struct herd_result {
	int status;  /* 0, or negative: said already */
	uint64_t nr; /* operations that completed in the span */
	uint64_t elapsed_ns;
	/* Of these, from submission to completion: the median, and what 99 % and 99.9 % do not exceed. */
	double p50_us, p99_us, p999_us;
};

/* Starts it, with `nr_clients` that are connected; makes the region SCENE_REGION. There are no threads in this process yet. */
int herd_start(const struct cluster *cluster, unsigned nr_clients, struct herd *herd);
/* Of one that was not started, if it is zeroed, too. */
void herd_stop(struct herd *herd);
int herd_run(const struct herd *herd, const struct herd_order *order, struct herd_result *result);

#endif
