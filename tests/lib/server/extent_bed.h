/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pool of extents with a data port that admits everybody, so that a test of the pool reaches its
 * memory as peers reach it. A failure in here fails the test.
 */
#ifndef TESTS_EXTENT_BED_H
#define TESTS_EXTENT_BED_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/bytes.h"
#include "lib/fabric/data_client.h"
#include "server/data/progress.h"
#include "server/memory/extent.h"

struct extent_bed {
	struct fabric *fabric;
	struct domains *domains;
	struct extent_pool *pool;
	struct progress *progress;
	struct data_client client;
	struct reach reach; /* that the client is connected for */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_settled;
};

/* The client is connected for namespace 1, and may write. */
void extent_bed_open(struct extent_bed *bed, uint64_t capacity_bytes, uint64_t pool_bytes);
void extent_bed_close(struct extent_bed *bed);

/* Connects the client anew, for that. */
void extent_bed_connect(struct extent_bed *bed, uint64_t namespace, bool may_write);
/* Waits for the progress thread to have done what it was at, as a fence does. */
void extent_bed_settle(struct extent_bed *bed);
struct extent_pool_stat extent_bed_stat(struct extent_bed *bed);
/* Waits until the scrubber has nothing left. */
void extent_bed_await_scrubbed(struct extent_bed *bed);

/* Returns how many extents are in `*out`, which is the caller's to free or extent_bed_release(). */
size_t extent_bed_reserve(struct extent_bed *bed, uint64_t namespace, uint64_t bytes,
			  struct extent_info **out);
/* Releases each, and frees the array. */
void extent_bed_release(struct extent_bed *bed, struct extent_info *extents, size_t nr_extents);

/*
 * Has the client, connected for the extent's namespace, transfer. 0 or what the transfer failed
 * with.
 */
int extent_bed_transfer(struct extent_bed *bed, const struct extent_info *extent, int is_write,
			void *data, size_t length, uint64_t offset);
/* These have the client write the whole extent, and read it: each byte is that. */
void extent_bed_fill(struct extent_bed *bed, const struct extent_info *extent, int byte);
void extent_bed_expect(struct extent_bed *bed, const struct extent_info *extent, char byte);

#endif
