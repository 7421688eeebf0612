/* SPDX-License-Identifier: BSD-3-Clause */
/* The store, its extent and its clients. Owns all of it, the file included. */
#include "lib/server/cached_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/base/effort.h"
#include "lib/server/flash_gate.h"
#include "lib/server/tested_lane.h"

#define FLASH_BYTES (96 * MIB)

static int admit(void *context, const void *shown, size_t length, struct admission *out)
{
	uint64_t session;

	(void)context;
	assert_int_equal(length, sizeof(session));
	memcpy(&session, shown, sizeof(session));
	*out = (struct admission){.session = session, .reach = {CACHED_NAMESPACE, true}};
	return 0;
}

static void changed(void *context)
{
	(void)context;
}

/* ---- Orders */

void cached_order_open(struct cached_order *order)
{
	memset(order, 0, sizeof(*order));
	sem_init(&order->ended, 0, 0);
}

void cached_order_await(struct cached_order *order)
{
	while (sem_wait(&order->ended) != 0)
		;
	sem_destroy(&order->ended);
	assert_int_equal(order->status, 0);
}

void cached_order_done(void *argument, int status)
{
	struct cached_order *order = argument;

	order->status = status;
	sem_post(&order->ended);
}

static void on_reserved(void *argument, int status, const struct store_extent_info *made)
{
	struct cached_order *order = argument;

	if (made)
		order->info = *made;
	cached_order_done(order, status);
}

static void on_keys(struct store_keys *keys, int status)
{
	tested_lane_keys(keys);
	cached_order_done(caa_container_of(keys, struct cached_order, keys), status);
}

void cached_make_extent(struct cached_bed *bed)
{
	struct cached_order order;

	cached_order_open(&order);
	assert_int_equal(store_reserve(bed->store, CACHED_NAMESPACE, CACHED_EXTENT_BYTES,
				       CLOCK_NEVER, on_reserved, &order),
			 0);
	cached_order_await(&order);
	bed->extent = order.info.extent;
	cached_order_open(&order);
	order.keys = (struct store_keys){.reach = {CACHED_NAMESPACE, true},
					 .extents = &bed->extent,
					 .nr_extents = 1,
					 .keys = &bed->key,
					 .done = on_keys};
	assert_int_equal(store_get_keys(bed->store, &order.keys), 0);
	cached_order_await(&order);
	memset(bed->image, 0, CACHED_EXTENT_BYTES);
}

void cached_release_extent(struct cached_bed *bed)
{
	const struct store_name name = {bed->extent, CACHED_NAMESPACE, false};
	struct cached_order order;

	cached_order_open(&order);
	assert_int_equal(store_release(bed->store, &name, 1, cached_order_done, &order), 0);
	data_client_await_closed(&bed->client);
	cached_order_await(&order);
}

/* ---- The bed */

void cached_join(struct cached_bed *bed, struct data_client *client, uint64_t session)
{
	data_client_disconnect(client);
	assert_int_equal(data_client_connect(client, tested_lane_address(bed->store), &session,
					     sizeof(session)),
			 0);
}

void cached_bed_open(struct cached_bed *bed, uint64_t cache_bytes)
{
	struct store_options options = {
		.path = bed->path,
		.create_bytes = FLASH_BYTES,
		.address = "127.0.0.1:0",
		.spin_us = 50,
		.cache_bytes = cache_bytes,
		.admit = admit,
		.changed = changed,
	};

	flash_gate_reset();
	strcpy(bed->folder, "/tmp/afar-cache-XXXXXX");
	assert_non_null(mkdtemp(bed->folder));
	snprintf(bed->path, sizeof(bed->path), "%s/flash", bed->folder);
	bed->image = malloc(CACHED_EXTENT_BYTES);
	bed->bytes = malloc(CACHED_EXTENT_BYTES);
	assert_true(bed->image && bed->bytes);
	tested_lane_want(&options);
	assert_int_equal(store_start(&options, &bed->store), 0);
	data_client_open(&bed->client);
	cached_make_extent(bed);
	cached_join(bed, &bed->client, 1);
}

void cached_bed_close(struct cached_bed *bed)
{
	data_client_close(&bed->client);
	store_stop(bed->store);
	free(bed->image);
	free(bed->bytes);
	unlink(bed->path);
	assert_int_equal(rmdir(bed->folder), 0);
}

uint64_t cached_remote(const struct cached_bed *bed, uint64_t at)
{
	return bed->key.on[0].origin + at;
}

void cached_write(struct cached_bed *bed, uint64_t at, uint64_t length, bool is_durable)
{
	static unsigned seed;

	fill(bed->image + at, length, ++seed);
	assert_int_equal((is_durable ? data_client_write_durable : data_client_write)(
				 &bed->client, bed->image + at, length, cached_remote(bed, at),
				 bed->key.on[0].key),
			 0);
}

int cached_read(struct cached_bed *bed, struct data_client *client, uint64_t at, uint64_t length)
{
	memset(bed->bytes, 0x77, length);
	return data_client_read(client, bed->bytes, length, cached_remote(bed, at),
				bed->key.on[0].key);
}

void cached_expect(struct cached_bed *bed, uint64_t at, uint64_t length)
{
	assert_int_equal(cached_read(bed, &bed->client, at, length), 0);
	assert_memory_equal(bed->bytes, bed->image + at, length);
}

struct store_work_stat cached_count(struct cached_bed *bed)
{
	struct store_stat stat;

	store_stat(bed->store, &stat);
	return stat.work;
}

void cached_await_counts(struct cached_bed *bed, uint64_t nr_misses, uint64_t nr_shared)
{
	const uint64_t deadline = clock_deadline_ms(DATA_CLIENT_PATIENCE_MS);

	while (cached_count(bed).nr_misses != nr_misses ||
	       cached_count(bed).nr_shared != nr_shared) {
		assert_true(clock_ns() < deadline);
		test_pause();
	}
}

struct store_work_stat cached_await_all(struct cached_bed *bed, uint64_t nr_reads)
{
	const uint64_t deadline = clock_deadline_ms(DATA_CLIENT_PATIENCE_MS);
	struct store_work_stat work;

	do {
		assert_true(clock_ns() < deadline);
		test_pause();
		work = cached_count(bed);
	} while (work.nr_hits + work.nr_misses + work.nr_shared + work.nr_past < nr_reads);
	assert_int_equal(work.nr_hits + work.nr_misses + work.nr_shared + work.nr_past, nr_reads);
	return work;
}

/* ---- Readers that do not wait */

void cached_reader_begin(struct cached_bed *bed, struct cached_reader *reader, uint64_t session,
			 uint64_t at)
{
	struct fabric_piece piece = {.addr = reader->bytes, .length = FTL_BLOCK};

	data_client_open(&reader->client);
	cached_join(bed, &reader->client, session);
	reader->memory = data_client_lend(&reader->client, reader->bytes, FTL_BLOCK);
	piece.descriptor = reader->memory.descriptor;
	assert_int_equal(fabric_read(reader->client.endpoint, &piece, 1, cached_remote(bed, at),
				     bed->key.on[0].key, 1),
			 0);
}

void cached_reader_close(struct cached_reader *reader)
{
	fabric_memory_deregister(&reader->memory);
	data_client_close(&reader->client);
}

int cached_reader_end(struct cached_reader *reader)
{
	struct fabric_completion completion = {0};
	struct fabric_event event;

	while (data_client_step(&reader->client, &completion, &event) != 1)
		;
	cached_reader_close(reader);
	return completion.status;
}
