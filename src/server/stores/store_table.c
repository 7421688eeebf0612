/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which extents a store has, and their changes at the layer. On the store's thread, but for store_has()
 * and store_nr_extents().
 */
#include <afar/error.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/stores/store_private.h"

/* ---- The table */

struct space_owner store_extent_owner(uint64_t namespace, uint64_t number)
{
	const uint64_t words[2] = {htole64(namespace), htole64(number)};
	struct space_owner owner;

	memcpy(owner.bytes, words, sizeof(owner.bytes));
	return owner;
}

struct store_extent *store_extent_new(struct store *store, uint64_t namespace, uint64_t number,
				      uint64_t length)
{
	struct store_extent *extent = calloc(1, sizeof(*extent));

	if (!extent)
		return NULL;
	extent->store = store;
	extent->namespace = namespace;
	extent->number = number;
	extent->length = length;
	CDS_INIT_LIST_HEAD(&extent->releases);
	pages_begin(extent);
	return extent;
}

void store_extent_free(struct store_extent *extent)
{
	pages_leave(extent);
	free(extent);
}

void store_extent_enter(struct store_extent *extent)
{
	struct store *store = extent->store;

	extent->life = ++store->nr_lives;
	pages_enter(extent);
	pthread_mutex_lock(&store->lock);
	cds_list_add_tail(&extent->node, &store->extents);
	store->nr_extents++;
	pthread_mutex_unlock(&store->lock);
}

void store_extent_leave(struct store_extent *extent)
{
	struct store *store = extent->store;

	pthread_mutex_lock(&store->lock);
	cds_list_del(&extent->node);
	store->nr_extents--;
	pthread_mutex_unlock(&store->lock);
}

void store_extent_set_state(struct store_extent *extent, enum store_extent_state state)
{
	pthread_mutex_lock(&extent->store->lock);
	extent->state = state;
	pthread_mutex_unlock(&extent->store->lock);
}

struct store_extent *store_extent_named(const struct store *store, uint64_t number,
					uint64_t namespace)
{
	struct store_extent *extent;

	cds_list_for_each_entry (extent, &store->extents, node) {
		if (extent->number == number)
			return extent->namespace == namespace ? extent : NULL;
	}
	return NULL;
}

/* A provisional one is nobody's yet. */
int store_extent_reached(struct store *store, struct reach reach,
			 const struct message_request *request, struct store_extent **out)
{
	*out = store_extent_named(store, request->extent, reach.namespace);
	if (!*out || (*out)->state != EXTENT_IS_CONFIRMED)
		return -AFAR_ELOST;
	if (request->offset > (*out)->length || request->length > (*out)->length - request->offset)
		return -ERANGE;
	(*out)->was_reached = true;
	return 0;
}

const struct store_extent *store_extent_at(const struct store *store, uint64_t lba)
{
	const struct store_extent *extent;

	cds_list_for_each_entry (extent, &store->extents, node) {
		if (extent->range == ftl_lba_range(lba))
			return extent;
	}
	return NULL;
}

int store_find_extents(struct store *store)
{
	struct space_range range;
	uint64_t address = 0, words[2];

	while (space_next(store->space, address, &range)) {
		struct store_extent *extent;

		memcpy(words, range.owner.bytes, sizeof(words));
		extent = store_extent_new(store, le64toh(words[0]), le64toh(words[1]),
					  range.length * FTL_BLOCK);
		if (!extent)
			return error_code(-ENOMEM);
		extent->range = range.id;
		extent->is_confirmed = range.start >= STORE_CONFIRMED;
		extent->state = extent->is_confirmed ? EXTENT_IS_CONFIRMED : EXTENT_IS_PROVISIONAL;
		store_extent_enter(extent);
		address = range.start + range.length;
	}
	return 0;
}

void store_extent_end_keys(struct store_extent *extent)
{
	for (int i = 0; i < 2; i++) {
		if (!extent->keys[i].domain)
			continue;
		domain_deregister(extent->keys[i].domain, extent->keys[i].on);
		domains_put(extent->store->domains, extent->keys[i].domain);
		extent->keys[i].domain = NULL;
	}
}

bool store_has(struct store *store, uint64_t namespace)
{
	const struct store_extent *extent;
	bool is_found = false;

	pthread_mutex_lock(&store->lock);
	cds_list_for_each_entry (extent, &store->extents, node) {
		if (extent->namespace == namespace && !store_extent_is_leaving(extent))
			is_found = true;
	}
	pthread_mutex_unlock(&store->lock);
	return is_found;
}

size_t store_nr_extents(struct store *store)
{
	size_t nr;

	pthread_mutex_lock(&store->lock);
	nr = store->nr_extents;
	pthread_mutex_unlock(&store->lock);
	return nr;
}

/* ---- Changes at the layer */

static void give_up_change(struct store_work *work)
{
	struct store_extent *extent = caa_container_of(work, struct store_extent, work);

	extent->request.result = -EIO;
	extent->request.done(&extent->request);
}

/* Frees an extent that was being made. The others are dropped with the store's list. */
static void forget_change(struct store_work *work)
{
	struct store_extent *extent = caa_container_of(work, struct store_extent, work);

	if (extent->is_being_made)
		store_extent_free(extent);
}

int store_extent_change(struct store_extent *extent,
			int (*begin)(struct space *space, struct space_request *request))
{
	struct store *store = extent->store;
	int ret = store->is_gone     ? error_code(-EIO)
		  : store->is_closed ? error_code(-ECANCELED)
				     : begin(store->space, &extent->request);

	if (ret != 0)
		return ret;
	extent->work = (struct store_work){.give_up = give_up_change, .forget = forget_change};
	store_work_begin(store, &extent->work);
	return 0;
}
