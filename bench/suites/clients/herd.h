/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A herd is many clients of a cluster in one child process, each with a session, a queue and
 * connections of its own. One thread drives them all. Each client has one operation in flight, and
 * submits the next when that has completed. A herd is cheap, so that hundreds of clients on a few
 * cores measure what their number does to the server.
 */
#ifndef BENCH_HERD_H
#define BENCH_HERD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/cluster.h"
#include "harness/process.h"

#define HERD_CLIENTS_MAX 512U
#define HERD_BYTES	 (UINT64_C(32) << 20) /* bytes of the region, and of local memory */

struct herd {
	struct child child;
};

/* The region of a herd. */
struct herd_region {
	uint32_t tier; /* AFAR_TIER_… */
	uint64_t bytes;
	bool is_written; /* all of it once, before the herd is ready */
	bool is_volume;	 /* a volume that all share, and no region */
};

/* The work of `nr_clients` of the clients for a while; the others are idle. Each walks over its own
 * part of the region and of local memory, so the clients touch the same bytes, however many they
 * are. */
struct herd_order {
	unsigned nr_clients;
	bool is_write;
	/* The operations are anywhere in the region, whose size is a power of two; no place comes
	 * again before all have. */
	bool is_scattered;
	bool may_sleep; /* the thread does when no client has anything to do */
	/* All walk over the region together: each place is asked for by all of them. */
	bool is_together;
	uint64_t part_bytes; /* of the region, for each; 0: HERD_BYTES / nr_clients */
	uint16_t flags;	     /* AFAR_OP_… of the operations */
	size_t size;	     /* of an operation; at most HERD_BYTES / nr_clients */
	uint64_t span_ns;
};

struct herd_result {
	int status;  /* 0, or negative after bench_fail() */
	uint64_t nr; /* operations that completed in the span */
	uint64_t elapsed_ns;
	/* Times from submission to completion: the median, and what 99 % and 99.9 % do not
	 * exceed. */
	double p50_us, p99_us, p999_us;
};

/* Starts a herd of `nr_clients` that are connected, and makes the region SCENE_REGION. Call it
 * before there are threads in this process. */
int herd_start(const struct cluster *cluster, unsigned nr_clients, struct herd *herd);
/* Starts a herd as herd_start does, with `region` in place of SCENE_REGION. */
int herd_start_on(const struct cluster *cluster, const struct herd_region *region,
		  unsigned nr_clients, struct herd *herd);
/* Stops the herd. A zeroed one, which was not started, is allowed. */
void herd_stop(struct herd *herd);
int herd_run(const struct herd *herd, const struct herd_order *order, struct herd_result *result);
/* The two halves of herd_run(): the herd works while the caller does something else. */
int herd_begin(const struct herd *herd, const struct herd_order *order);
int herd_end(const struct herd *herd, struct herd_result *result);

#endif
