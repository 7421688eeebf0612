/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes of parts of a block. The layer makes changes of one block one after the other, and each
 * reads and writes all of it. So while one is at the layer the others of its block wait here. When
 * it has ended, those whose bytes adjoin or overlap become one put. Each is answered when that
 * has ended, or is durable, as it asked. Called by pager.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/stores/pager_private.h"

/* A block that has a batch at the layer. */
struct page_block {
	struct cds_list_head node;    /* of its bucket, or among the spare ones */
	struct cds_list_head waiting; /* struct page_io */
	const struct store_extent *extent;
	uint64_t block;
};

/* Writes that are one put. */
struct page_batch {
	struct cds_list_head node; /* of the spare ones */
	struct store *store;
	struct page_block *block;    /* NULL: the put has ended */
	struct cds_list_head writes; /* struct page_io: those that have not been answered */
	struct store_work at_layer;
	struct cache_change change;
	struct ftl_put put;
	struct ftl_sync sync;
	unsigned nr_left; /* requests to the layer */
	int status;
	struct iovec iov;
	char bytes[FTL_BLOCK];
};

void pages_merge_open(struct pages *pages)
{
	CDS_INIT_LIST_HEAD(&pages->spare_blocks);
	CDS_INIT_LIST_HEAD(&pages->spare_batches);
	for (unsigned i = 0; i < PAGES_BUCKETS; i++)
		CDS_INIT_LIST_HEAD(&pages->merging[i]);
}

void pages_merge_close(struct pages *pages)
{
	struct page_block *block, *next_block;
	struct page_batch *batch, *next_batch;

	cds_list_for_each_entry_safe (block, next_block, &pages->spare_blocks, node)
		free(block);
	cds_list_for_each_entry_safe (batch, next_batch, &pages->spare_batches, node)
		free(batch);
}

/* ---- Blocks */

static struct cds_list_head *bucket_of(struct store *store, const struct store_extent *extent,
				       uint64_t block)
{
	return &store->pages.merging[(block + extent->range) % PAGES_BUCKETS];
}

static struct page_block *find_block(struct store *store, const struct store_extent *extent,
				     uint64_t number)
{
	struct page_block *block;

	cds_list_for_each_entry (block, bucket_of(store, extent, number), node) {
		if (block->extent == extent && block->block == number)
			return block;
	}
	return NULL;
}

static struct page_block *new_block(struct store *store, const struct store_extent *extent,
				    uint64_t number)
{
	struct pages *pages = &store->pages;
	struct page_block *block;

	if (cds_list_empty(&pages->spare_blocks)) {
		block = malloc(sizeof(*block));
	} else {
		block = cds_list_first_entry(&pages->spare_blocks, struct page_block, node);
		cds_list_del(&block->node);
	}
	if (!block)
		return NULL;
	block->extent = extent;
	block->block = number;
	CDS_INIT_LIST_HEAD(&block->waiting);
	cds_list_add(&block->node, bucket_of(store, extent, number));
	return block;
}

static void end_waiting(struct page_block *block, int status)
{
	struct page_io *io, *next;

	cds_list_for_each_entry_safe (io, next, &block->waiting, merged) {
		cds_list_del(&io->merged);
		page_part_ended(io, status);
	}
}

/* ---- Batches */

static struct page_batch *new_batch(struct store *store)
{
	struct pages *pages = &store->pages;
	struct page_batch *batch;

	if (cds_list_empty(&pages->spare_batches)) {
		batch = malloc(sizeof(*batch));
	} else {
		batch = cds_list_first_entry(&pages->spare_batches, struct page_batch, node);
		cds_list_del(&batch->node);
	}
	if (!batch)
		return NULL;
	batch->store = store;
	batch->status = 0;
	CDS_INIT_LIST_HEAD(&batch->writes);
	return batch;
}

/* Finds the bytes around the first that waits which all have somebody who writes them. */
static struct iovec find_run(struct page_batch *batch, const struct page_block *block)
{
	const struct page_io *io = cds_list_first_entry(&block->waiting, struct page_io, merged);
	size_t begin = io->skip, end = io->skip + io->iov.iov_len;
	bool is_written[FTL_BLOCK] = {false};

	cds_list_for_each_entry (io, &block->waiting, merged)
		memset(is_written + io->skip, true, io->iov.iov_len);
	while (begin > 0 && is_written[begin - 1])
		begin--;
	while (end < FTL_BLOCK && is_written[end])
		end++;
	return (struct iovec){batch->bytes + begin, end - begin};
}

/* Takes the writes of the run, in their order. Returns whether any shall be durable. The put has their heat if
 * all say the same. */
static bool take_writes(struct page_batch *batch, struct page_block *block)
{
	struct page_io *io, *next;
	bool is_durable = false, is_first = true;

	batch->iov = find_run(batch, block);
	cds_list_for_each_entry_safe (io, next, &block->waiting, merged) {
		char *at = batch->bytes + io->skip;

		if (at < (char *)batch->iov.iov_base ||
		    at >= (char *)batch->iov.iov_base + batch->iov.iov_len)
			continue;
		memcpy(at, io->iov.iov_base, io->iov.iov_len);
		cds_list_move(&io->merged, batch->writes.prev);
		is_durable |= io->is_durable;
		if (is_first)
			batch->put.heat = io->put.heat;
		else if (batch->put.heat != io->put.heat)
			batch->put.heat = FTL_HEAT_UNKNOWN;
		batch->store->pages.nr_merged += !is_first;
		is_first = false;
	}
	return is_durable;
}

static void begin_batch(struct store *store, struct page_block *block);

/* Answers those that wait for no more than the put, or all. */
static void answer(struct page_batch *batch, bool is_all)
{
	struct page_io *io, *next;

	cds_list_for_each_entry_safe (io, next, &batch->writes, merged) {
		if (io->is_durable && !is_all)
			continue;
		cds_list_del(&io->merged);
		page_part_ended(io, batch->status);
	}
}

static void drop_batch(struct page_batch *batch)
{
	if (--batch->nr_left > 0)
		return;
	store_work_end(batch->store, &batch->at_layer);
	answer(batch, true);
	cds_list_add(&batch->node, &batch->store->pages.spare_batches);
}

static void on_put(struct ftl_put *put)
{
	struct page_batch *batch = caa_container_of(put, struct page_batch, put);
	struct store *store = batch->store;

	cache_change_end(store->pages.cache, &batch->change);
	if (put->result != 0 && batch->status == 0)
		batch->status = store_answer(store, put->result, true);
	answer(batch, false);
	begin_batch(store, batch->block);
	batch->block = NULL;
	drop_batch(batch);
}

static void on_durable(struct ftl_sync *sync)
{
	struct page_batch *batch = caa_container_of(sync, struct page_batch, sync);

	if (sync->result != 0 && batch->status == 0)
		batch->status = store_answer(batch->store, sync->result, true);
	drop_batch(batch);
}

static void give_up_batch(struct store_work *work)
{
	struct page_batch *batch = caa_container_of(work, struct page_batch, at_layer);

	batch->status = -EIO;
	answer(batch, true);
	if (!batch->block)
		return;
	end_waiting(batch->block, -EIO);
	cds_list_move(&batch->block->node, &batch->store->pages.spare_blocks);
}

static void forget_batch(struct store_work *work)
{
	free(caa_container_of(work, struct page_batch, at_layer));
}

static void submit(struct page_batch *batch, const struct page_block *block, bool is_durable)
{
	struct store *store = batch->store;
	const uint64_t lba = ftl_lba(block->extent->range, (uint32_t)block->block);

	batch->nr_left = is_durable ? 2 : 1;
	batch->at_layer = (struct store_work){.give_up = give_up_batch, .forget = forget_batch};
	store_work_begin(store, &batch->at_layer);
	cache_change_begin(store->pages.cache, &batch->change, store_extent_cached(block->extent),
			   block->block, 1);
	batch->put = (struct ftl_put){
		.lba = lba,
		.offset = (uint64_t)((char *)batch->iov.iov_base - batch->bytes),
		.length = batch->iov.iov_len,
		.iov = &batch->iov,
		.nr_iov = 1,
		.heat = batch->put.heat,
		.done = on_put,
	};
	ftl_put(store->ftl, &batch->put);
	if (!is_durable)
		return;
	batch->sync = (struct ftl_sync){.lba = lba, .count = 1, .done = on_durable};
	ftl_sync(store->ftl, &batch->sync);
}

/* Nothing of the block is at the layer: what waits goes there, or the block is forgotten. */
static void begin_batch(struct store *store, struct page_block *block)
{
	struct page_batch *batch = NULL;

	if (!cds_list_empty(&block->waiting)) {
		batch = new_batch(store);
		if (!batch)
			end_waiting(block, error_code(-ENOMEM));
	}
	if (!batch) {
		cds_list_move(&block->node, &store->pages.spare_blocks);
		return;
	}
	batch->block = block;
	submit(batch, block, take_writes(batch, block));
}

bool pages_write_merged(struct page_io *io)
{
	const uint64_t number = io->paged->offset / FTL_BLOCK;
	struct store *store = io->extent->store;
	struct page_block *block;
	bool is_first;

	io->skip = io->paged->offset % FTL_BLOCK;
	io->is_durable = io->paged->is_durable;
	io->put.heat = page_heat(io->paged);
	if (io->paged->is_checked || io->iov.iov_len == FTL_BLOCK ||
	    io->skip + io->iov.iov_len > FTL_BLOCK)
		return false;
	block = find_block(store, io->extent, number);
	is_first = !block;
	if (!block)
		block = new_block(store, io->extent, number);
	if (!block)
		return false;
	io->nr_left++;
	cds_list_add_tail(&io->merged, &block->waiting);
	if (is_first)
		begin_batch(store, block);
	return true;
}
