/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a few bytes of a store's extent for the manager, or writes zeros there. Runs on the store's thread, as an order that another thread
 * has left there. */
#include <errno.h>
#include <stdlib.h>

#include <afar/error.h>

#include "base/error.h"
#include "server/stores/store_private.h"

struct reading {
	struct store *store;
	store_was_read *done;
	void *argument;
	uint64_t namespace;
	struct extent_range range;
	int status;
	bool is_clearing;
	struct store_work work;
	union {
		struct ftl_get get;
		struct {
			struct ftl_put put;
			struct cache_change change;
		};
	};
	struct iovec iov;
	char bytes[FTL_BLOCK];
};

/* The manager is not told what the store has before clearing has ended, as with trims. */
static void tell(const struct reading *reading)
{
	struct store *store = reading->store;

	reading->done(reading->argument, reading->status, reading->bytes, reading->range.length);
	if (!reading->is_clearing)
		return;
	store->nr_trims--;
	store_listings_go_on(store);
}

static void give_up(struct store_work *work)
{
	struct reading *reading = caa_container_of(work, struct reading, work);

	reading->status = -EIO;
	tell(reading);
}

static void forget(struct store_work *work)
{
	free(caa_container_of(work, struct reading, work));
}

static void on_read(struct ftl_get *get)
{
	struct reading *reading = caa_container_of(get, struct reading, get);

	reading->status = store_answer(reading->store, get->result, false);
	store_work_end(reading->store, &reading->work);
	tell(reading);
	free(reading);
}

static void on_cleared(struct ftl_put *put)
{
	struct reading *reading = caa_container_of(put, struct reading, put);

	cache_change_end(reading->store->pages.cache, &reading->change);
	reading->status = store_answer(reading->store, put->result, true);
	store_work_end(reading->store, &reading->work);
	tell(reading);
	free(reading);
}

static void clear(struct reading *reading, const struct store_extent *extent)
{
	const struct extent_range *range = &reading->range;

	reading->put = (struct ftl_put){
		.lba = ftl_lba(extent->range, (uint32_t)(range->offset / FTL_BLOCK)),
		.offset = range->offset % FTL_BLOCK,
		.length = range->length,
		.iov = &reading->iov,
		.nr_iov = 1,
		.heat = FTL_HEAT_UNKNOWN,
		.done = on_cleared,
	};
	cache_change_begin(reading->store->pages.cache, &reading->change,
			   store_extent_cached(extent), range->offset / FTL_BLOCK, 1);
	ftl_put(reading->store->ftl, &reading->put);
}

static int begin(struct reading *reading)
{
	const struct extent_range *range = &reading->range;
	struct store *store = reading->store;
	struct store_extent *extent;

	if (store->is_closed || store->is_gone)
		return -ECANCELED;
	extent = store_extent_named(store, range->extent, reading->namespace);
	if (!extent || store_extent_is_leaving(extent))
		return -AFAR_ELOST;
	if (range->offset > extent->length || range->length > extent->length - range->offset)
		return -ERANGE;
	reading->work = (struct store_work){.give_up = give_up, .forget = forget};
	store_work_begin(store, &reading->work);
	reading->iov = (struct iovec){reading->bytes, range->length};
	if (reading->is_clearing) {
		clear(reading, extent);
		return 0;
	}
	reading->get = (struct ftl_get){
		.lba = ftl_lba(extent->range, (uint32_t)(range->offset / FTL_BLOCK)),
		.offset = range->offset % FTL_BLOCK,
		.length = range->length,
		.iov = &reading->iov,
		.nr_iov = 1,
		.done = on_read,
	};
	ftl_get(store->ftl, &reading->get);
	return 0;
}

static void run_read(void *argument)
{
	struct reading *reading = argument;

	if (reading->is_clearing)
		reading->store->nr_trims++;
	reading->status = begin(reading);
	if (reading->status == 0)
		return;
	tell(reading);
	free(reading);
}

static int start(struct store *store, uint64_t namespace, const struct extent_range *range,
		 bool is_clearing, store_was_read *done, void *argument)
{
	struct reading *reading = calloc(1, sizeof(*reading));
	int ret;

	if (!reading)
		return error_code(-ENOMEM);
	reading->store = store;
	reading->done = done;
	reading->argument = argument;
	reading->namespace = namespace;
	reading->range = *range;
	reading->is_clearing = is_clearing;
	ret = progress_run(store->progress, run_read, reading);
	if (ret != 0)
		free(reading);
	return ret;
}

int store_read(struct store *store, uint64_t namespace, const struct extent_range *range,
	       store_was_read *done, void *argument)
{
	return start(store, namespace, range, false, done, argument);
}

int store_clear(struct store *store, uint64_t namespace, const struct extent_range *range,
		store_was_read *done, void *argument)
{
	return start(store, namespace, range, true, done, argument);
}
