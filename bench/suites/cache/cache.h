/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the stages of suite `cache` share. */
#ifndef BENCH_CACHE_H
#define BENCH_CACHE_H

#include <jansson.h>

#include "suites/flash_tier/flash_tier.h"

#define CACHE_FILE_BYTES   (256 * MIB)
#define CACHE_MEMORY_BYTES (64 * MIB)
#define CACHE_BYTES	   (8 * MIB)
#define CACHE_SIZE	   "8M" /* the same, as text */
#define CACHE_PAGE	   4096U
#define CACHE_CLIENTS	   32U
#define CACHE_SPAN_NS	   UINT64_C(500000000) /* of one measurement */

/* ---- cache_scene.c */

/* A cluster whose store keeps pages, or does not; its clients; and a session of this process. */
struct cache_side {
	struct tier_cluster cluster;
	struct herd herd;
	struct scene scene;
};

/* Two that differ only in that. */
struct cache_pair {
	struct cache_side kept, bare;
};

/* Both have a region of `bytes`, all of it written. Before there are threads in this process. Ends by
 * cache_pair_close(), also after an error. */
int cache_pair_open(struct cache_pair *pair, uint64_t bytes, bool is_sleepy);
void cache_pair_close(struct cache_pair *pair);
/* Does the same, and all pages of the region, which must fit, are kept. */
int cache_pair_open_hot(struct cache_pair *pair, uint64_t bytes, bool is_sleepy);

/* Returns, in `*out`, what the store has counted under this name in `afar status --json`. */
int cache_count(const struct scene *scene, const char *name, uint64_t *out);
/* Waits until that stays as it is, because servers report now and then. */
int cache_count_settled(const struct scene *scene, const char *name, uint64_t *out);
/* Waits until the store has told of so many reads of pages, since it was opened. Returns, in `*kept`, those that needed
 * none of the device. */
int cache_await_reads(const struct scene *scene, uint64_t nr_reads, uint64_t *kept);

/* ---- cache_simulated.c: what a cache of `nr_frames` pages finds, of reads one after the other */

enum simulated_kind { SIMULATED_LRU, SIMULATED_MQ };

struct simulated;
/* Pages have numbers below `nr_pages`. NULL: there is no memory. */
struct simulated *simulated_open(enum simulated_kind kind, uint32_t nr_frames, uint32_t nr_pages);
void simulated_close(struct simulated *simulated);
/* Reads a page. Returns whether it was there. */
bool simulated_read(struct simulated *simulated, uint32_t page);

/* ---- The stages */

extern const struct bench_stage cache_pages_stage;     /* cache_pages.c     */
extern const struct bench_stage cache_zipf_stage;      /* cache_zipf.c      */
extern const struct bench_stage cache_scan_stage;      /* cache_scan.c      */
extern const struct bench_stage cache_hot_stage;       /* cache_hot.c       */
extern const struct bench_stage cache_hot_cpu_stage;   /* … also            */
extern const struct bench_stage cache_neighbour_stage; /* cache_neighbour.c */
extern const struct bench_stage cache_near_stage;      /* cache_near.c      */

#endif
