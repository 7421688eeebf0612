/* SPDX-License-Identifier: BSD-3-Clause */
/* The transfers of clients to a store's extents, each as a request to the layer. */
#include "server/stores/pager.h"

#include <afar/error.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/slow.h"
#include "server/stores/pager_private.h"

int pages_open(struct pages *pages, uint64_t cache_bytes, bool is_shared)
{
	int ret;

	CDS_INIT_LIST_HEAD(&pages->spare);
	pages_merge_open(pages);
	ret = pages_cache_open(pages, cache_bytes, is_shared);
	return ret == 0 ? stage_open(&pages->stage, PAGES_BYTES) : ret;
}

void pages_close(struct pages *pages)
{
	struct page_io *io, *next;

	pages_cache_close(pages);
	pages_merge_close(pages);
	if (!pages->stage.zones)
		return;
	cds_list_for_each_entry_safe (io, next, &pages->spare, node)
		free(io);
	stage_close(&pages->stage);
}

/* Frames of the cache are not lent, because their memory comes and goes. */
int pages_lend(const struct pages *pages, struct fabric *fabric)
{
	size_t length;
	void *addr = zones_memory(pages->stage.zones, &length);

	return fabric_paged_lend(fabric, addr, length);
}

void pages_left(void *context, struct progress_work *work)
{
	struct store *store = context;

	pages_forget_given(&store->pages, work);
	if (work->guest)
		stage_leave(work->guest);
	work->guest = NULL;
}

/* ---- Memory */

static struct page_io *new_io(struct pages *pages)
{
	struct page_io *io;

	if (cds_list_empty(&pages->spare))
		return calloc(1, sizeof(*io));
	io = cds_list_first_entry(&pages->spare, struct page_io, node);
	cds_list_del(&io->node);
	return io;
}

static void free_io(struct page_io *io)
{
	struct pages *pages = &io->extent->store->pages;

	pages_slow_leave(io);
	io->work->nr_under_way--;
	if (io->pinned)
		cache_unpin(pages->cache, io->pinned);
	if (io->own)
		stage_guest_count(io->work->guest, -1);
	if (io->is_lost)
		return;
	if (io->buffer)
		stage_give(&pages->stage, io->buffer);
	free(io->own);
	cds_list_add(&io->node, &pages->spare);
}

/* The layer is done with it. */
static void finish(struct page_io *io)
{
	io->is_under_way = false;
	io->times.ended = clock_ns();
	latency_add(&io->extent->store->latencies[io->kind], io->times.ended - io->times.begun);
	if (io->paged)
		fabric_paged_ended(io->paged, io->status);
	else
		free_io(io);
}

/* Frees a lost transfer. A read may land there even now, so its pages go back to the kernel: who
 * gets the addresses next gets other pages. A buffer of the zones stays taken. */
static void forget_io(struct store_work *work)
{
	struct page_io *io = caa_container_of(work, struct page_io, at_layer);

	if (io->own)
		madvise(io->own, io->iov.iov_len, MADV_DONTNEED);
	free(io->own);
	free(io);
}

/* Takes a buffer for all of the bytes, or none. */
static struct zone_buffer *take_buffer(struct pages *pages, struct stage_guest *guest,
				       uint64_t length)
{
	struct zone_buffer *buffer = stage_take(&pages->stage, guest, length);

	if (!buffer || buffer->length >= length)
		return buffer;
	stage_give(&pages->stage, buffer);
	return NULL;
}

static int take_memory(struct pages *pages, struct page_io *io, uint64_t length)
{
	struct progress_work *work = io->work;

	io->buffer = take_buffer(pages, work->guest, length);
	io->own = NULL;
	if (!io->buffer && !stage_guest_has_none(work->guest))
		return -EAGAIN;
	if (!io->buffer) {
		io->own =
			aligned_alloc(FTL_BLOCK, (length + FTL_BLOCK - 1) / FTL_BLOCK * FTL_BLOCK);
		if (!io->own)
			return error_code(-ENOMEM); /* nothing of its own would end, and wake it */
		stage_guest_count(work->guest, 1);
	}
	io->iov = (struct iovec){io->buffer ? io->buffer->addr : io->own, length};
	return 0;
}

/* Returns how many bytes the layer is asked for: it knows sums of whole blocks only. */
static uint64_t layer_bytes(const struct fabric_paged *paged)
{
	return paged->is_checked ? (paged->length + FTL_BLOCK - 1) / FTL_BLOCK * FTL_BLOCK
				 : paged->length;
}

/* The reply goes out of the frame itself. */
static int take_pinned(struct page_io *io, struct fabric_paged *paged)
{
	if (paged->takes_reference)
		pages_refer(&io->extent->store->pages, io->work, io->pinned, &paged->reference);
	io->buffer = NULL;
	io->own = NULL;
	io->iov = (struct iovec){io->pinned->bytes + paged->offset % FTL_BLOCK, paged->length};
	io->sums[0] = io->pinned->sum;
	return 0;
}

static int page_take(struct fabric_pager *pager, struct fabric_paged *paged)
{
	struct store_extent *extent = caa_container_of(pager, struct store_extent, pager);
	struct pages *pages = &extent->store->pages;
	struct progress_work *work = progress_work(paged->owner);
	struct stage_guest *guest;
	struct page_io *io;
	int ret;

	if (!work->guest) {
		ret = stage_enter(&pages->stage, work->session, &guest);
		if (ret != 0)
			return ret;
		work->guest = guest;
	}
	io = new_io(pages);
	if (!io)
		return error_code(-ENOMEM);
	io->extent = extent;
	io->work = work;
	io->finish = finish;
	io->pinned = paged->is_write || paged->is_moved_in_place ? NULL : pages_pin(extent, paged);
	ret = io->pinned ? take_pinned(io, paged) : take_memory(pages, io, layer_bytes(paged));
	if (ret != 0) {
		cds_list_add(&io->node, &pages->spare);
		return ret;
	}
	io->paged = paged;
	io->is_under_way = false;
	io->is_lost = false;
	work->nr_under_way++;
	paged->addr = io->iov.iov_base;
	paged->sums = io->sums;
	paged->taken = io;
	pages_slow_take(io, paged);
	return 0;
}

static void page_leave(struct fabric_pager *pager, struct fabric_paged *paged)
{
	struct page_io *io = paged->taken;

	(void)pager;
	io->paged = NULL;
	if (!io->is_under_way)
		free_io(io);
}

/* ---- The layer */

/* A request of the transfer to the layer has ended. */
static void on_ended(struct page_io *io, int result)
{
	if (--io->nr_at_layer == 0)
		store_work_end(io->extent->store, &io->at_layer);
	page_part_ended(io, result);
}

/* The memory is lost, because the device may still be at it. */
static void give_up_io(struct store_work *work)
{
	struct page_io *io = caa_container_of(work, struct page_io, at_layer);

	io->is_lost = true;
	io->nr_left -= io->nr_at_layer - 1;
	page_part_ended(io, -EIO);
}

static void on_got(struct ftl_get *get)
{
	struct page_io *io = caa_container_of(get, struct page_io, get);

	on_ended(io, store_answer(io->extent->store, get->result, false));
}

static void on_put(struct ftl_put *put)
{
	struct page_io *io = caa_container_of(put, struct page_io, put);

	cache_change_end(io->extent->store->pages.cache, &io->change);
	on_ended(io, store_answer(io->extent->store, put->result, true));
}

static void on_durable(struct ftl_sync *sync)
{
	struct page_io *io = caa_container_of(sync, struct page_io, sync);

	on_ended(io, store_answer(io->extent->store, sync->result, true));
}

/* Has `nr` requests given to the layer, each of which on_ended() ends. */
static void go_to_layer(struct page_io *io, unsigned nr)
{
	io->nr_at_layer = nr;
	io->nr_left += nr;
	io->at_layer = (struct store_work){.give_up = give_up_io, .forget = forget_io};
	store_work_begin(io->extent->store, &io->at_layer);
}

/* Reads from byte `at` of the transfer on, past the cache. */
static void read_past(struct page_io *io, uint64_t at)
{
	const uint64_t begin = io->paged->offset + at;

	go_to_layer(io, 1);
	io->past = (struct iovec){(char *)io->iov.iov_base + at, io->iov.iov_len - at};
	io->get = (struct ftl_get){
		.lba = ftl_lba(io->extent->range, (uint32_t)(begin / FTL_BLOCK)),
		.offset = begin % FTL_BLOCK,
		.length = io->past.iov_len,
		.iov = &io->past,
		.nr_iov = 1,
		.sums = io->paged->is_checked ? io->sums + at / FTL_BLOCK : NULL,
		.done = on_got,
	};
	ftl_get(io->extent->store->ftl, &io->get);
}

static void begin_read(struct page_io *io)
{
	const uint64_t at = pages_read_cached(io);

	if (at > 0)
		pages_slow_way(io, at < io->iov.iov_len ? "cache and device" : "cache");
	if (at < io->iov.iov_len)
		read_past(io, at);
}

/* A durable write's sync follows at once: the layer then writes data and journal at the same time. */
static void begin_write(struct page_io *io)
{
	const uint64_t offset = io->paged->offset % FTL_BLOCK,
		       block = io->paged->offset / FTL_BLOCK;
	const size_t length = io->iov.iov_len, given = io->paged->length;
	const bool is_durable = io->paged->is_durable;
	const uint64_t lba = ftl_lba(io->extent->range, (uint32_t)block);
	const uint64_t count = (offset + length + FTL_BLOCK - 1) / FTL_BLOCK;
	struct ftl *ftl = io->extent->store->ftl;

	memset((char *)io->iov.iov_base + given, 0, length - given);
	go_to_layer(io, is_durable ? 2 : 1);
	cache_change_begin(io->extent->store->pages.cache, &io->change,
			   store_extent_cached(io->extent), block, count);
	io->put = (struct ftl_put){
		.lba = lba,
		.offset = offset,
		.length = length,
		.iov = &io->iov,
		.nr_iov = 1,
		.sums = io->paged->is_checked ? io->sums : NULL,
		.heat = FTL_HEAT_UNKNOWN,
		.done = on_put,
	};
	ftl_put(ftl, &io->put);
	if (!is_durable)
		return;
	io->sync = (struct ftl_sync){
		.lba = lba,
		.count = count,
		.done = on_durable,
	};
	ftl_sync(ftl, &io->sync);
}

static void page_begin(struct fabric_pager *pager, struct fabric_paged *paged)
{
	struct store_extent *extent = caa_container_of(pager, struct store_extent, pager);
	struct page_io *io = paged->taken;

	if (extent->store->is_gone || io->pinned) {
		/* It is in memory: that takes less than the first bucket's end, and than reading the clock. */
		if (!extent->store->is_gone)
			latency_add(&extent->store->latencies[STORE_READ], 0);
		fabric_paged_ended(paged, extent->store->is_gone ? -EIO : 0);
		return;
	}
	io->kind = !paged->is_write    ? STORE_READ
		   : paged->is_durable ? STORE_WRITE_DURABLE
				       : STORE_WRITE;
	io->times.begun = clock_ns();
	io->is_under_way = true;
	io->status = 0;
	io->nr_left = 1; /* until all parts have begun */
	if (!paged->is_write)
		begin_read(io);
	else if (pages_write_merged(io))
		pages_slow_way(io, "merged");
	else
		begin_write(io);
	page_part_ended(io, 0);
}

void pages_begin(struct store_extent *extent)
{
	extent->pager = (struct fabric_pager){page_take, page_begin, page_leave, pages_used};
}

/* ---- Syncs */

struct store_syncing {
	struct store_work work;
	struct ftl_sync sync;
	struct store *store;
	struct progress_message message;
	uint64_t remembered;
	uint64_t session;
	uint64_t begun_at; /* on clock_ns() */
};

static void on_synced(struct ftl_sync *sync)
{
	struct store_syncing *syncing = caa_container_of(sync, struct store_syncing, sync);
	struct store *store = syncing->store;
	struct message_reply reply = {.status = store_answer(store, sync->result, true),
				      .value = store->stat.opening};
	const uint64_t now = clock_ns();

	latency_add(&store->latencies[STORE_SYNC], now - syncing->begun_at);
	store_work_end(syncing->store, &syncing->work);
	pages_slow_sync(store, syncing->session, syncing->begun_at, now);
	if (reply.status == 0 && syncing->remembered < store->whole_since)
		reply.status = -AFAR_EUNSYNCED;
	progress_answer(&syncing->message, &reply);
	free(syncing);
}

static void give_up_sync(struct store_work *work)
{
	struct store_syncing *syncing = caa_container_of(work, struct store_syncing, work);
	const struct message_reply reply = {.status = -EIO};

	progress_answer(&syncing->message, &reply);
}

static void forget_sync(struct store_work *work)
{
	free(caa_container_of(work, struct store_syncing, work));
}

bool store_sync(struct store *store, const struct message_request *request,
		struct message_reply *reply, const struct progress_message *message)
{
	struct store_syncing *syncing = store->is_gone ? NULL : malloc(sizeof(*syncing));

	if (!syncing) {
		reply->status = store->is_gone ? -EIO : -ENOMEM;
		return true;
	}
	syncing->sync = (struct ftl_sync){.lba = 0, .count = FTL_ALL, .done = on_synced};
	syncing->store = store;
	syncing->begun_at = clock_ns();
	syncing->message = *message;
	syncing->remembered = request->operand;
	syncing->session = progress_work(message->connection)->session;
	syncing->work = (struct store_work){.give_up = give_up_sync, .forget = forget_sync};
	store_work_begin(store, &syncing->work);
	ftl_sync(store->ftl, &syncing->sync);
	return false;
}
