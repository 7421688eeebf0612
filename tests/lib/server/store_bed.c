/* SPDX-License-Identifier: BSD-3-Clause */
/* See store_bed.h. */
#include "lib/server/store_bed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/server/flash_gate.h"
#include "lib/server/tested_lane.h"

int admit(void *context, const void *shown, size_t length, struct admission *out)
{
	uint64_t words[3];

	(void)context;
	assert_int_equal(length, sizeof(words));
	memcpy(words, shown, sizeof(words));
	*out = (struct admission){.session = words[0], .reach = {words[1], words[2]}};
	return 0;
}

static void changed(void *context)
{
	(void)context;
}

int open_at(const char *path, uint64_t create_bytes, struct store **out)
{
	struct store_options options = {
		.path = path,
		.create_bytes = create_bytes,
		.address = "127.0.0.1:0",
		.spin_us = 50,
		.admit = admit,
		.changed = changed,
	};

	tested_lane_want(&options);
	return store_start(&options, out);
}

void open_store(struct bed *bed)
{
	assert_int_equal(open_at(bed->path, FLASH_BYTES, &bed->store), 0);
}

void bed_make(struct bed *bed)
{
	flash_gate_reset();
	strcpy(bed->folder, "/tmp/afar-store-XXXXXX");
	assert_non_null(mkdtemp(bed->folder));
	snprintf(bed->path, sizeof(bed->path), "%s/flash", bed->folder);
	bed->bytes = malloc(MIB);
	assert_non_null(bed->bytes);
	data_client_open(&bed->client);
}

void bed_open(struct bed *bed)
{
	bed_make(bed);
	open_store(bed);
}

void bed_close(struct bed *bed)
{
	data_client_close(&bed->client);
	store_stop(bed->store);
	free(bed->bytes);
	unlink(bed->path);
	assert_int_equal(rmdir(bed->folder), 0);
}

void connect_for(struct bed *bed, uint64_t session, uint64_t namespace, bool may_write)
{
	const uint64_t words[3] = {session, namespace, may_write};

	data_client_disconnect(&bed->client);
	assert_int_equal(data_client_connect(&bed->client, tested_lane_address(bed->store), words,
					     sizeof(words)),
			 0);
}

void connect_as(struct bed *bed, uint64_t session)
{
	connect_for(bed, session, NAMESPACE, true);
}

/* ---- Orders that do not wait */

void open_order(struct order *order)
{
	memset(order, 0, sizeof(*order));
	sem_init(&order->ended, 0, 0);
}

int await_order(struct order *order)
{
	while (sem_wait(&order->ended) != 0)
		;
	sem_destroy(&order->ended);
	return order->status;
}

void on_done(void *argument, int status)
{
	struct order *order = argument;

	order->status = status;
	sem_post(&order->ended);
}

static void on_keys(struct store_keys *keys, int status)
{
	tested_lane_keys(keys);
	on_done(caa_container_of(keys, struct order, keys), status);
}

void ask_key(struct bed *bed, struct order *order, uint64_t extent)
{
	open_order(order);
	order->extent = extent;
	order->keys = (struct store_keys){
		.reach = {NAMESPACE, true},
		.extents = &order->extent,
		.nr_extents = 1,
		.keys = &order->key,
		.done = on_keys,
	};
	assert_int_equal(store_get_keys(bed->store, &order->keys), 0);
}

void release(struct bed *bed, struct order *order, uint64_t extent, bool is_unknown)
{
	const struct store_name names[] = {{extent, NAMESPACE, is_unknown},
					   {extent, NAMESPACE, is_unknown}};

	open_order(order);
	assert_int_equal(store_release(bed->store, names, 2, on_done, order), 0);
}

void trim(struct bed *bed, struct order *order, uint64_t extent)
{
	const struct extent_range ranges[] = {{extent, 0, MIB}, {extent, MIB, MIB}};

	open_order(order);
	assert_int_equal(store_trim(bed->store, NAMESPACE, ranges, 2, on_done, order), 0);
}

void on_reserved(void *argument, int status, const struct store_extent_info *info)
{
	struct made *made = argument;

	if (info)
		made->info = *info;
	on_done(&made->order, status);
}

int reserve_for(struct store *store, struct store_extent_info *info)
{
	struct made made = {0};
	int ret;

	open_order(&made.order);
	ret = store_reserve(store, NAMESPACE, EXTENT_BYTES, CLOCK_NEVER, on_reserved, &made);
	ret = ret ? ret : await_order(&made.order);
	*info = made.info;
	return ret;
}

struct store_extent_info reserve(struct bed *bed)
{
	struct store_extent_info info;

	assert_int_equal(reserve_for(bed->store, &info), 0);
	assert_true(info.is_provisional);
	return info;
}

struct extent_key key_of(struct bed *bed, uint64_t extent)
{
	struct order order;

	ask_key(bed, &order, extent);
	assert_int_equal(await_order(&order), 0);
	return order.key;
}

size_t nr_listed(struct bed *bed, struct store_extent_info *first)
{
	struct store_extent_info *infos;
	size_t nr;

	assert_int_equal(store_list(bed->store, &infos, &nr), 0);
	if (nr > 0)
		*first = infos[0];
	free(infos);
	return nr;
}

void write_mib(struct bed *bed, const struct extent_key *key)
{
	memset(bed->bytes, 7, MIB);
	assert_int_equal(
		data_client_write(&bed->client, bed->bytes, MIB, key->on[0].origin, key->on[0].key),
		0);
}

/* ---- Closing connections */

bool is_anyone(const void *argument, const struct admission *connection)
{
	(void)argument;
	(void)connection;
	return true;
}

void on_closed(void *argument)
{
	on_done(argument, 0);
}

void close_all(struct bed *bed, struct order *closed)
{
	const struct progress_order order = {is_anyone, on_closed, closed, false};
	struct progress_closing *closing;

	open_order(closed);
	assert_int_equal(progress_closing_new(store_progress(bed->store), &closing), 0);
	progress_close(closing, &order);
	data_client_await_closed(&bed->client);
}

/* ---- Opening what there is */

uint64_t whole_since(const char *path)
{
	struct store *store;
	uint64_t since;

	assert_int_equal(open_at(path, 0, &store), 0);
	assert_int_equal(store->stat.opening, 2);
	since = store->whole_since;
	store_stop(store);
	return since;
}
