/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store that keeps pages, on a file of its own behind a gate (flash_gate.h). It has an extent, and a
 * client of that; readers that do not wait come on top. A failure in here fails the test.
 */
#ifndef TESTS_CACHED_BED_H
#define TESTS_CACHED_BED_H

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/base/bytes.h"
#include "lib/fabric/data_client.h"
#include "server/stores/store_private.h"

#define CACHED_BYTES	    (2 * MIB) /* 512 frames */
#define CACHED_EXTENT_BYTES (4 * MIB)
#define CACHED_NAMESPACE    5U

struct cached_bed {
	char folder[32], path[64];
	struct store *store;
	struct data_client client;
	uint64_t extent;
	struct extent_key key;
	uint8_t *image; /* what is in the extent */
	uint8_t *bytes; /* of a read */
};

/* With a cache of so many bytes; 0: none. */
void cached_bed_open(struct cached_bed *bed, uint64_t cache_bytes);
void cached_bed_close(struct cached_bed *bed);
/* Makes an extent of zeros, and gets its key. */
void cached_make_extent(struct cached_bed *bed);
void cached_release_extent(struct cached_bed *bed);
/* Connects a client, as one of this session. */
void cached_join(struct cached_bed *bed, struct data_client *client, uint64_t session);

uint64_t cached_remote(const struct cached_bed *bed, uint64_t at);
/* Writes other bytes than before. */
void cached_write(struct cached_bed *bed, uint64_t at, uint64_t length, bool is_durable);
int cached_read(struct cached_bed *bed, struct data_client *client, uint64_t at, uint64_t length);
/* Reads what was written last. */
void cached_expect(struct cached_bed *bed, uint64_t at, uint64_t length);

struct store_work_stat cached_count(struct cached_bed *bed);
void cached_await_counts(struct cached_bed *bed, uint64_t nr_misses, uint64_t nr_shared);
/* Waits until the thread has counted all reads of blocks so far. */
struct store_work_stat cached_await_all(struct cached_bed *bed, uint64_t nr_reads);

/* ---- Orders of the store */

struct cached_order {
	sem_t ended;
	int status;
	struct store_extent_info info;
	struct store_keys keys;
};

void cached_order_open(struct cached_order *order);
void cached_order_await(struct cached_order *order);
void cached_order_done(void *argument, int status);

/* ---- Readers that do not wait */

struct cached_reader {
	struct data_client client;
	uint8_t bytes[FTL_BLOCK];
	struct fabric_memory memory;
};

void cached_reader_begin(struct cached_bed *bed, struct cached_reader *reader, uint64_t session,
			 uint64_t at);
/* Returns how the read has ended. */
int cached_reader_end(struct cached_reader *reader);
void cached_reader_close(struct cached_reader *reader);

#endif
