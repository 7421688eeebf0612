/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads of clients that go through a store's cache. A fill reads blocks that follow one another from
 * the layer into frames. Transfers wait for their blocks, and not for fills. So a fill goes on when
 * the connection that began it has ended, and others still want what it brings. Called by pager.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "memory/segment.h"
#include "server/stores/pager_private.h"

#define NOT_TOLD 1

struct page_fill {
	struct cds_list_head node; /* of the spare ones */
	struct store *store;
	struct store_work at_layer;
	struct ftl_get get;
	struct page_share *ahead; /* whose blocks are read ahead; NULL: somebody waits for them */
	unsigned nr;		  /* blocks */
	struct cache_frame *frames[PAGES_NR_BLOCKS];
	struct iovec iov[PAGES_NR_BLOCKS];
	uint32_t sums[PAGES_NR_BLOCKS];
	int results[PAGES_NR_BLOCKS]; /* of each block; NOT_TOLD: that of the whole */
};

int pages_cache_open(struct pages *pages, uint64_t bytes, bool is_shared)
{
	const uint64_t whole = bytes / SEGMENT_MIN * SEGMENT_MIN;
	int ret;

	CDS_INIT_LIST_HEAD(&pages->spare_fills);
	if (whole == 0)
		return 0;
	if (whole / CACHE_BLOCK > UINT32_MAX / 4)
		return error_fail(-EINVAL,
				  "keep pages of a store: %llu GiB is more than can be counted",
				  (unsigned long long)whole >> 30);
	ret = segment_fits(whole);
	if (ret != 0)
		return error_fail(ret, "keep pages of a store: %s; give --cache less",
				  error_last_line());
	ret = pages_slabs_open(pages, whole, is_shared);
	if (ret != 0)
		return ret;
	ret = cache_open_slabs(pages->nr_slabs, FABRIC_SLAB_PAGES, &pages->cache);
	return ret == 0 ? 0 : error_code(ret);
}

void pages_cache_close(struct pages *pages)
{
	struct page_fill *fill, *next;

	if (!pages->slabs)
		return;
	cds_list_for_each_entry_safe (fill, next, &pages->spare_fills, node)
		free(fill);
	cache_close(pages->cache);
	pages_slabs_close(pages);
}

/* ---- A transfer's blocks */

static void copy_block(struct page_io *io, unsigned index, const char *bytes, uint32_t sum)
{
	const uint64_t skip = index == 0 ? io->skip : 0;
	const uint64_t at = index == 0 ? 0 : index * FTL_BLOCK - io->skip;
	const uint64_t left = io->iov.iov_len - at;

	memcpy((char *)io->iov.iov_base + at, bytes + skip,
	       left < FTL_BLOCK - skip ? left : FTL_BLOCK - skip);
	io->sums[index] = sum;
}

static void await(struct page_io *io, unsigned index, struct cache_frame *frame)
{
	struct page_wait *wait = &io->waits[index];

	wait->io = io;
	wait->index = index;
	io->nr_left++;
	cache_await(frame, &wait->wait);
}

/* ---- Fills */

static struct page_fill *new_fill(struct store *store)
{
	struct pages *pages = &store->pages;
	struct page_fill *fill;

	if (cds_list_empty(&pages->spare_fills)) {
		fill = malloc(sizeof(*fill));
	} else {
		fill = cds_list_first_entry(&pages->spare_fills, struct page_fill, node);
		cds_list_del(&fill->node);
	}
	if (!fill)
		return NULL;
	fill->store = store;
	fill->nr = 0;
	fill->ahead = NULL;
	return fill;
}

/* Answers all who wait for the frame. */
static void end_frame(struct store *store, struct cache_frame *frame, int result, uint32_t sum)
{
	struct cache_wait *next;

	while ((next = cache_next_wait(frame))) {
		struct page_wait *wait = caa_container_of(next, struct page_wait, wait);

		if (result == 0)
			copy_block(wait->io, wait->index, frame->bytes, sum);
		page_part_ended(wait->io, result);
	}
	cache_filled(store->pages.cache, frame, result, sum);
}

static void end_ahead(struct page_fill *fill)
{
	for (unsigned i = 0; i < fill->nr && fill->ahead; i++)
		pages_end_ahead(&fill->store->pages, fill->ahead);
}

static void on_page(struct ftl_get *get, size_t at, size_t length, int result)
{
	struct page_fill *fill = caa_container_of(get, struct page_fill, get);

	(void)length;
	fill->results[at / FTL_BLOCK] = result;
}

static void on_filled(struct ftl_get *get)
{
	struct page_fill *fill = caa_container_of(get, struct page_fill, get);
	struct store *store = fill->store;

	store_work_end(store, &fill->at_layer);
	for (unsigned i = 0; i < fill->nr; i++) {
		const int result = fill->results[i] == NOT_TOLD ? get->result : fill->results[i];

		end_frame(store, fill->frames[i], store_answer(store, result, false),
			  fill->sums[i]);
	}
	end_ahead(fill);
	cds_list_add(&fill->node, &store->pages.spare_fills);
}

/* The frames are lost, because the device may still be at them. Nobody asks the cache any more. */
static void give_up_fill(struct store_work *work)
{
	struct page_fill *fill = caa_container_of(work, struct page_fill, at_layer);

	for (unsigned i = 0; i < fill->nr; i++)
		end_frame(fill->store, fill->frames[i], -EIO, 0);
	end_ahead(fill);
}

static void forget_fill(struct store_work *work)
{
	free(caa_container_of(work, struct page_fill, at_layer));
}

static void begin_fill(struct page_fill *fill, const struct store_extent *extent)
{
	fill->get = (struct ftl_get){
		.lba = ftl_lba(extent->range, fill->frames[0]->block),
		.length = (size_t)fill->nr * FTL_BLOCK,
		.iov = fill->iov,
		.nr_iov = fill->nr,
		.sums = fill->sums,
		.page = on_page,
		.done = on_filled,
	};
	fill->at_layer = (struct store_work){.give_up = give_up_fill, .forget = forget_fill};
	store_work_begin(fill->store, &fill->at_layer);
	ftl_get(fill->store->ftl, &fill->get);
}

/* Adds a frame to the fill, or to a new one if there is none. Returns that; NULL: there is no
 * memory, and the frame's waiters have been told. */
static struct page_fill *add_to_fill(struct page_fill *fill, struct store *store,
				     struct cache_frame *frame)
{
	if (!fill)
		fill = new_fill(store);
	if (!fill) {
		end_frame(store, frame, error_code(-ENOMEM), 0);
		return NULL;
	}
	fill->frames[fill->nr] = frame;
	fill->iov[fill->nr] = (struct iovec){frame->bytes, FTL_BLOCK};
	fill->results[fill->nr] = NOT_TOLD;
	fill->nr++;
	return fill;
}

/* ---- Reads */

struct cache_frame *pages_pin(const struct store_extent *extent, const struct fabric_paged *paged)
{
	struct store *store = extent->store;
	struct cache_frame *frame;

	if (!store->pages.cache || store->is_gone ||
	    paged->offset % FTL_BLOCK + paged->length > FTL_BLOCK)
		return NULL;
	store->is_count_due = true;
	frame = cache_pin(store->pages.cache, store_extent_cached(extent),
			  (uint32_t)(paged->offset / FTL_BLOCK));
	if (frame && paged->hints & FABRIC_PAGED_ONCE)
		cache_hand_over(store->pages.cache, frame);
	return frame;
}

static enum cache_answer ask_once(const struct store_extent *extent, uint32_t block,
				  struct cache_frame **out)
{
	struct cache *cache = extent->store->pages.cache;
	const enum cache_answer answer =
		cache_ask_for(cache, NULL, store_extent_cached(extent), block, out);

	if (answer == CACHE_HIT)
		cache_hand_over(cache, *out);
	return answer;
}

static enum cache_answer ask(const struct store_extent *extent, uint32_t block,
			     struct cache_frame **out)
{
	struct pages *pages = &extent->store->pages;
	const uint64_t range = store_extent_cached(extent);
	const bool has_room = cache_has(pages->cache, range, block) ||
			      pages_make_room(pages, extent->share, false);

	return cache_ask_for(pages->cache, has_room ? extent->share->cached : NULL, range, block,
			     out);
}

uint64_t pages_read_cached(struct page_io *io)
{
	const struct store_extent *extent = io->extent;
	struct store *store = extent->store;
	const uint64_t first = io->paged->offset / FTL_BLOCK;
	const bool is_once = io->paged->hints & FABRIC_PAGED_ONCE;
	enum cache_answer answer = CACHE_HIT;
	struct page_fill *fill = NULL;
	struct cache_frame *frame;
	unsigned nr, i;

	io->skip = io->paged->offset % FTL_BLOCK;
	if (!extent->share || io->paged->length > PAGES_CACHED_MAX)
		return 0;
	store->is_count_due = true;
	nr = (unsigned)((io->skip + io->iov.iov_len + FTL_BLOCK - 1) / FTL_BLOCK);
	for (i = 0; i < nr; i++) {
		answer = (is_once ? ask_once : ask)(extent, (uint32_t)(first + i), &frame);
		if (fill && answer != CACHE_MISS) {
			begin_fill(fill, extent);
			fill = NULL;
		}
		if (answer == CACHE_PAST)
			break;
		if (answer == CACHE_HIT)
			copy_block(io, i, frame->bytes, frame->sum);
		else
			await(io, i, frame);
		if (answer == CACHE_MISS)
			fill = add_to_fill(fill, store, frame);
	}
	if (fill)
		begin_fill(fill, extent);
	if (i == nr)
		return io->iov.iov_len;
	return i == 0 ? 0 : i * FTL_BLOCK - io->skip;
}

/* ---- Reading ahead */

/* Has a frame filled with the block, as the next one of the fill if there is one. Returns that; NULL: it is not to be read. */
static struct page_fill *fetch(struct page_fill *fill, const struct store_extent *extent,
			       uint32_t block)
{
	struct store *store = extent->store;
	struct page_share *share = extent->share;
	struct cache_frame *frame;

	if (!pages_begin_ahead(&store->pages, share))
		return NULL;
	if (pages_make_room(&store->pages, share, true) &&
	    cache_fetch(store->pages.cache, share->cached, store_extent_cached(extent), block,
			&frame))
		fill = add_to_fill(fill, store, frame);
	else
		fill = NULL;
	if (fill)
		fill->ahead = share;
	else
		pages_end_ahead(&store->pages, share);
	return fill;
}

void pages_fetch(const struct store_extent *extent, uint64_t offset, uint64_t length)
{
	const uint64_t end = (offset + length + FTL_BLOCK - 1) / FTL_BLOCK;
	struct page_fill *fill = NULL, *next;

	if (!extent->share)
		return;
	extent->store->is_count_due = true;
	for (uint64_t block = offset / FTL_BLOCK; block < end; block++) {
		next = fetch(fill, extent, (uint32_t)block);
		if (fill && !next)
			begin_fill(fill, extent);
		if (next && next->nr == PAGES_NR_BLOCKS) {
			begin_fill(next, extent);
			next = NULL;
		}
		fill = next;
	}
	if (fill)
		begin_fill(fill, extent);
}
