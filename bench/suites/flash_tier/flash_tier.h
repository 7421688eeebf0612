/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the stages of suite `flash-tier` share. */
#ifndef BENCH_FLASH_TIER_H
#define BENCH_FLASH_TIER_H

#include <afar/afar.h>

#include "harness/cluster.h"
#include "harness/scene.h"
#include "suites/clients/herd.h"
#include "suites/flash/flash.h"

/* The file of a store, and what is used of it: half, as in suite `flash`. */
#define TIER_FILE_BYTES (1 * GIB)
#define TIER_BYTES	(512 * MIB)
#define TIER_SPAN_NS	UINT64_C(500000000) /* of one measurement */

/* ---- flash_tier_scene.c */

/* A cluster whose server has a store in a file of its own. */
struct tier_cluster {
	/* Before it starts: */
	bool is_sleepy;	       /* the server does not spin before it sleeps */
	bool has_metrics;      /* the daemons show them */
	const char *transport; /* of its lane; NULL: tcp */
	const char *cache;     /* pages are kept in so much memory; NULL: not said */
	const char *scrub;     /* the rate; NULL: the usual one */
	struct flash_file file;
	struct cluster *cluster;
};

/* Makes a file with an empty layer, all of it written once, or sparse. Starts a server that lends
 * it, and `memory_bytes`. All of it ends by tier_cluster_stop(). */
int tier_cluster_start(struct tier_cluster *cluster, uint64_t file_bytes, bool is_sparse,
		       uint64_t memory_bytes);
void tier_cluster_stop(struct tier_cluster *cluster);
/* Returns the CPU time of the server so far. */
uint64_t tier_server_cpu_ns(const struct tier_cluster *cluster);

/* A region and a queue, as a target of loads. */
struct tier_region;
extern const struct flash_target flash_target_region; /* its open() is tier_region_open() */

/* Opens a session with a region of so many bytes on the tier, and a queue, and writes all of it. */
int tier_region_open(const struct tier_cluster *cluster, uint32_t tier, uint64_t bytes,
		     struct tier_region **out);
/* NULL is allowed. */
void tier_region_close(struct tier_region *region);
struct afar_region *tier_region_handle(const struct tier_region *region);

/* Starts the server anew, with `afard --scrub RATE`, and connects the region's queue again. The string
 * must outlive the cluster. */
int tier_cluster_restart(struct tier_cluster *cluster, struct tier_region *region,
			 const char *scrub);

/* Makes a layer in a file of twice so many bytes, with these in use, all of them written. */
int tier_layer_open(struct flash_file *file, uint64_t bytes, void **layer);
/* Anything that was not made is allowed. */
void tier_layer_close(struct flash_file *file, void *layer);

/* ---- The stages */

extern const struct bench_stage flash_tier_paths_stage;	    /* flash_tier_paths.c     */
extern const struct bench_stage flash_tier_durable_stage;   /* flash_tier_durable.c   */
extern const struct bench_stage flash_tier_cpu_stage;	    /* flash_tier_cpu.c       */
extern const struct bench_stage flash_tier_neighbour_stage; /* flash_tier_neighbour.c */
extern const struct bench_stage flash_tier_reserve_stage;   /* flash_tier_reserve.c   */
extern const struct bench_stage flash_tier_sync_stage;	    /* flash_tier_sync.c      */
extern const struct bench_stage flash_tier_checks_stage;    /* flash_tier_checks.c    */

#endif
