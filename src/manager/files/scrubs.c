/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers zero what files gave back before it is free again. A sweep takes all that waits there
 * when it begins, tells each server its parts, and ends when all have answered. One sweep of a file
 * system is under way at a time. So no part is told to a server twice at once, and no order that is
 * late can wipe what the next owner wrote. A server drops orders of an earlier connection before it
 * joins again.
 *
 * A sweep ends with a commit, which whoever changes something just then has to wait for. So the next one begins a while
 * later, unless somebody needs the room (scrubs_hurry()).
 */
#include <errno.h>
#include <stdlib.h>

#include "manager/connections/live.h"
#include "manager/connections/outgoing.h"
#include "manager/files/pool.h"
#include "manager/files/table.h"

static outgoing_answered answered;

#define RANGES_MAX	4096U		    /* of one order */
#define SWEEP_BYTES_MAX ((uint64_t)4 << 30) /* so that servers can answer in their time */
#define RANGES_SPARE	1024U		    /* that one more scrub may need there */
#define REST_NS		UINT64_C(20000000)
#define MERGE_LOOK	64U /* ranges back: at most so many chunks of a group are at one home */

/* ---- Making orders: for each home of the pool, what it has of the sweep */

struct order {
	Afar__Request *request;
	const struct pool *pool;
};

struct sweep {
	struct fs *fs;
	const struct region *region;
	struct order *orders; /* for each home of its layout */
	uint32_t nr_orders;
	uint64_t bytes;
};

static Afar__Request *new_request(const struct fs *fs, const struct layout_home *home)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__ExtentsTrim *trim = MESSAGE_NEW(afar__extents_trim, Afar__ExtentsTrim);

	if (trim)
		trim->ranges = calloc(RANGES_MAX, sizeof(*trim->ranges));
	if (!request || !trim || !trim->ranges) {
		if (trim)
			free(trim->ranges);
		free(trim);
		free(request);
		return NULL;
	}
	trim->store = home->is_store ? home->life : 0;
	trim->namespace_ = fs->number;
	request->extents_trim = trim;
	request->call_case = AFAR__REQUEST__CALL_EXTENTS_TRIM;
	return request;
}

/* Units of a chunk that follow each other there come one by one, between those of other chunks. */
static bool merge(Afar__ExtentsTrim *trim, uint64_t extent, uint64_t offset, uint64_t length)
{
	for (size_t i = 0; i < trim->n_ranges && i < MERGE_LOOK; i++) {
		Afar__TrimRange *range = trim->ranges[trim->n_ranges - 1 - i];

		if (range->extent != extent || range->offset + range->length != offset)
			continue;
		range->length += length;
		return true;
	}
	return false;
}

static int add_range(struct sweep *sweep, const struct layout_copy *copy, uint64_t offset,
		     uint64_t length)
{
	struct order *order = &sweep->orders[copy->home];
	Afar__ExtentsTrim *trim;
	Afar__TrimRange *range;

	if (!order->request)
		order->request = new_request(sweep->fs, &sweep->region->layout->homes[copy->home]);
	if (!order->request)
		return error_code(-ENOMEM);
	trim = order->request->extents_trim;
	if (merge(trim, copy->extent, copy->offset + offset, length))
		return 0;
	if (trim->n_ranges == RANGES_MAX)
		return error_code(-E2BIG);
	range = MESSAGE_NEW(afar__trim_range, Afar__TrimRange);
	if (!range)
		return error_code(-ENOMEM);
	range->extent = copy->extent;
	range->offset = copy->offset + offset;
	range->length = length;
	trim->ranges[trim->n_ranges++] = range;
	return 0;
}

/* Looks where a part of the pool is. 1: it can be told; 0: it need not be, because what held it has
 * gone; -EAGAIN: that is down. */
static int state_of(const struct sweep *sweep, const struct layout_copy *copy)
{
	const struct core *core = fs_core(sweep->fs);
	const struct layout *layout = sweep->region->layout;
	const struct pool *pool = state_pool(core->state, layout_home_of(layout, copy));

	if (!state_extent_of(core->state, layout, copy))
		return 0;
	if (!pool || !pool_is_writable(pool) || pool->server->live->retry_at != 0)
		return -EAGAIN;
	sweep->orders[copy->home].pool = pool;
	return 1;
}

/* Visits the pieces of a scrub. -EAGAIN: it has to wait. */
static int for_pieces(struct sweep *sweep, const struct scrub *scrub,
		      int (*visit)(struct sweep *sweep, const struct layout_copy *copy,
				   uint64_t offset, uint64_t length))
{
	for (size_t i = 0; i < scrub->nr; i++) {
		uint64_t offset = scrub->runs[i].pool_unit * FILE_UNIT;
		uint64_t end = offset + scrub->runs[i].nr * FILE_UNIT;

		if (end > sweep->region->length)
			return error_code(-EIO);
		while (offset < end) {
			struct layout_piece piece =
				layout_piece_at(sweep->region->layout, offset, end - offset);
			int ret = piece.copy ? visit(sweep, piece.copy, piece.offset, piece.length)
					     : 0;

			if (ret < 0)
				return ret;
			offset += piece.length;
		}
	}
	return 0;
}

static int look_at_piece(struct sweep *sweep, const struct layout_copy *copy, uint64_t offset,
			 uint64_t length)
{
	int ret = state_of(sweep, copy);

	(void)offset;
	(void)length;
	return ret < 0 ? ret : 0;
}

static int tell_piece(struct sweep *sweep, const struct layout_copy *copy, uint64_t offset,
		      uint64_t length)
{
	int ret = state_of(sweep, copy);

	return ret == 1 ? add_range(sweep, copy, offset, length) : ret;
}

static bool is_full(const struct sweep *sweep)
{
	if (sweep->bytes >= SWEEP_BYTES_MAX)
		return true;
	for (uint32_t i = 0; i < sweep->nr_orders; i++) {
		const Afar__Request *request = sweep->orders[i].request;

		if (request && request->extents_trim->n_ranges > RANGES_MAX - RANGES_SPARE)
			return true;
	}
	return false;
}

static int add_scrub(struct sweep *sweep, struct scrub *scrub)
{
	int ret = for_pieces(sweep, scrub, look_at_piece);

	if (ret == 0)
		ret = for_pieces(sweep, scrub, tell_piece);
	if (ret < 0)
		return ret;
	scrub->is_told = true;
	for (size_t i = 0; i < scrub->nr; i++)
		sweep->bytes += scrub->runs[i].nr * FILE_UNIT;
	return 0;
}

/* ---- Telling */

static void end_sweep(struct fs *fs)
{
	struct scrub *scrub;

	fs->sweep = 0;
	cds_list_for_each_entry (scrub, &fs->scrubs, node)
		scrub->is_told = false;
}

static void send(struct sweep *sweep, struct order *order)
{
	struct core *core = fs_core(sweep->fs);
	struct live_server *live = order->pool->server->live;
	struct outgoing *outgoing = outgoing_new(answered, live);
	uint32_t timeout_ms;

	if (!outgoing) {
		sweep->fs->has_failed = true;
		return;
	}
	outgoing->fs = sweep->fs->number;
	outgoing->sweep = sweep->fs->sweep;
	outgoing->extents.home = pool_home(order->pool);
	sweep->fs->nr_awaited++;
	timeout_ms = outgoing->extents.home.is_store ? STORE_TIMEOUT_MS : server_timeout_ms(live);
	server_call(core, live, timeout_ms, order->request, outgoing);
	order->request = NULL;
}

static void begin_sweep(struct sweep *sweep)
{
	struct fs *fs = sweep->fs;

	fs->sweep = ++fs->last_sweep;
	fs->nr_awaited = 0;
	fs->has_failed = false;
	for (uint32_t i = 0; i < sweep->nr_orders; i++)
		if (sweep->orders[i].request)
			send(sweep, &sweep->orders[i]);
	if (fs->nr_awaited == 0) {
		end_sweep(fs);
		fs->retry_at = core_now(fs_core(fs)) + CORE_RETRY_NS;
	}
}

static void fill_sweep(struct sweep *sweep, bool *is_any)
{
	struct scrub *scrub;
	int ret = 0;

	cds_list_for_each_entry (scrub, &sweep->fs->scrubs, node) {
		if ((ret == 0 || ret == -EAGAIN) && !is_full(sweep))
			ret = add_scrub(sweep, scrub);
		*is_any |= scrub->is_told;
	}
}

void scrubs_drive(struct fs *fs)
{
	const struct namespace *ns = fs_namespace(fs);
	struct sweep sweep = {.fs = fs, .region = ns ? volume_region(ns) : NULL};
	uint64_t now = core_now(fs_core(fs));
	bool is_any = false;

	if (fs->sweep != 0 || fs->retry_at > now)
		return;
	fs->retry_at = 0;
	fs->is_resting = false;
	/* Parts that older records have given back may be others' by now. */
	if (cds_list_empty(&fs->scrubs) || !sweep.region || ns->is_suspect)
		return;
	sweep.nr_orders = sweep.region->layout->nr_homes;
	sweep.orders = calloc((size_t)sweep.nr_orders + 1, sizeof(*sweep.orders));
	if (sweep.orders)
		fill_sweep(&sweep, &is_any);
	if (is_any)
		begin_sweep(&sweep);
	else
		fs->retry_at = now + CORE_RETRY_NS;
	for (uint32_t i = 0; i < sweep.nr_orders && sweep.orders; i++)
		if (sweep.orders[i].request)
			afar__request__free_unpacked(sweep.orders[i].request, NULL);
	free(sweep.orders);
}

bool scrubs_can_hurry(const struct fs *fs)
{
	/* After a commit that failed nothing is begun for a while. */
	return fs->is_resting && fs_core(fs)->retry_at == 0;
}

void scrubs_hurry(struct fs *fs)
{
	if (fs->is_resting)
		fs->retry_at = 0;
}

/* ---- Answers */

static int settle(struct fs *fs)
{
	struct scrub *scrub, *next;
	int ret = 0;

	cds_list_for_each_entry_safe (scrub, next, &fs->scrubs, node) {
		if (!scrub->is_told || ret < 0)
			continue;
		scrub->is_told = false;
		ret = pool_give_zeroed(scrub);
	}
	return ret;
}

static int answered(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	struct fs *fs = files_find(core, outgoing->fs);
	int ret = 0;

	(void)event;
	if (!fs || fs->sweep != outgoing->sweep)
		return 0;
	fs->has_failed |= !is_done;
	if (--fs->nr_awaited != 0)
		return 0;
	fs->is_resting = !fs->has_failed;
	fs->retry_at = core_now(core) + (fs->has_failed ? CORE_RETRY_NS : REST_NS);
	if (!fs->has_failed)
		ret = settle(fs);
	/* If the commit fails, all of it is told again. */
	end_sweep(fs);
	return ret;
}
