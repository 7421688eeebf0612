/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trims and clones. Each waits until all earlier requests that have blocks in common with it have
 * ended. Then it goes through its blocks in steps. A step stays within one page of the map (a
 * clone: one of the source and one of the target). A step is one record, applied at once. Later
 * puts of those blocks wait until the whole trim or clone is done.
 */
#include "flash/write/sweep.h"

#include <errno.h>

#include "base/error.h"
#include "flash/ftl_private.h"
#include "flash/log/apply.h"
#include "flash/log/journal.h"
#include "flash/map/map.h"
#include "flash/map/records.h"
#include "flash/write/cleaner.h"
#include "flash/write/order.h"

#define STEPS_AT_ONCE 32U /* until others have their turn */

static const struct ftl_trim *trim_of(const struct ftl_sweep *sweep)
{
	return caa_container_of(sweep, struct ftl_trim, sweep);
}

static const struct ftl_clone *clone_of(const struct ftl_sweep *sweep)
{
	return caa_container_of(sweep, struct ftl_clone, sweep);
}

static const struct ftl_record_change *change_of(const struct ftl_sweep *sweep)
{
	return sweep->is_clone ? clone_of(sweep)->change : trim_of(sweep)->change;
}

static void end(struct ftl *ftl, struct ftl_sweep *sweep, int result)
{
	sweep->result = result;
	cds_list_del(&sweep->node);
	order_end(&sweep->order);
	ftl->is_unblocked = true;
	cds_list_add_tail(&sweep->node, &ftl->ended_sweeps);
}

/*
 * Gives up a damaged page that is trimmed or is a clone's target: those entries are replaced, and
 * the others become unknown. The source of a clone is needed, so its damage ends the clone.
 */
static int do_without(const struct ftl_sweep *sweep, int damage)
{
	uint64_t source = sweep->order.lba[1] + sweep->position;

	if (!map_is_damage(damage) || ftl_refusal(sweep->ftl) ||
	    (sweep->is_clone && sweep->page == map_find(&sweep->ftl->map, source)))
		return damage;
	return map_give_up(sweep->page, damage);
}

static void page_ready(struct ftl_waiter *waiter, int result)
{
	struct ftl_sweep *sweep = caa_container_of(waiter, struct ftl_sweep, waiter);

	sweep->is_waiting = false;
	if (result)
		sweep->result = do_without(sweep, result);
}

/* Returns true if the page is loaded, or NULL. Otherwise loads it, and the sweep waits. */
static bool is_ready(struct ftl_sweep *sweep, struct map_page *page)
{
	if (!page || map_is_loaded(page))
		return true;
	sweep->is_waiting = true;
	sweep->page = page;
	sweep->waiter.ready = page_ready;
	map_load(page, &sweep->waiter);
	return false;
}

enum outcome { STEPPED, WAITS, FAILED };

static enum outcome step_trim(struct ftl *ftl, struct ftl_sweep *sweep)
{
	uint64_t first = sweep->order.lba[0], count = sweep->order.count[0];
	struct map_page *page = map_next(&ftl->map, first + sweep->position);
	uint64_t lba, end;

	/* Blocks without a page read as zeros already. */
	if (!page || ftl_lba(page->range, page->page * FORMAT_PAGE_ENTRIES) >= first + count) {
		sweep->position = count;
		return STEPPED;
	}
	if (!is_ready(sweep, page))
		return WAITS;
	lba = ftl_lba(page->range, page->page * FORMAT_PAGE_ENTRIES);
	end = map_page_end(lba);
	if (lba < first + sweep->position)
		lba = first + sweep->position;
	if (end > first + count)
		end = first + count;
	if (page->nr_mapped) {
		if (!journal_reserve(&ftl->journal, 1, CLEANER_RECORDS))
			return WAITS;
		ftl_record_trim(ftl, lba, (uint32_t)(end - lba));
	}
	sweep->position = end - first;
	return STEPPED;
}

/* Returns 0, or the error because of which blocks of the page cannot be cloned. */
static int check_source(const struct map_page *page, uint64_t lba, uint64_t nr)
{
	int ret = 0;

	for (uint64_t i = 0; page && page->nr_unknown && i < nr && !ret; i++)
		ret = map_tell_unknown(page, lba + i);
	return ret;
}

static enum outcome step_clone(struct ftl *ftl, struct ftl_sweep *sweep)
{
	uint64_t target = sweep->order.lba[0] + sweep->position;
	uint64_t source = sweep->order.lba[1] + sweep->position;
	uint64_t nr = sweep->order.count[0] - sweep->position;
	struct map_page *from = map_find(&ftl->map, source), *to = map_find(&ftl->map, target);

	if (nr > map_page_end(target) - target)
		nr = map_page_end(target) - target;
	if (nr > map_page_end(source) - source)
		nr = map_page_end(source) - source;
	if (!is_ready(sweep, from) || !is_ready(sweep, to))
		return WAITS;
	sweep->result = check_source(from, source, nr);
	if (sweep->result)
		return FAILED;
	if (from && from->nr_mapped) {
		/* Each block adds up to two shares: its old lba and the new one. */
		if (ftl->segments.nr_shares + 2 * nr > ftl->layout.nr_shares) {
			sweep->result = error_fail(-ENOSPC,
						   "clone blocks: %llu are shared already, "
						   "no more can be",
						   (unsigned long long)ftl->segments.nr_shares);
			return FAILED;
		}
		sweep->result = map_make(&ftl->map, target, &to);
		if (sweep->result)
			return FAILED;
	}
	if ((from && from->nr_mapped) || (to && to->nr_mapped)) {
		if (!journal_reserve(&ftl->journal, 2, CLEANER_RECORDS))
			return WAITS;
		ftl_record_clone(ftl, source, target, (uint32_t)nr);
	}
	sweep->position += nr;
	return STEPPED;
}

/* Makes the change of the caller's record, if there is one, and ends the sweep. */
static void finish(struct ftl *ftl, struct ftl_sweep *sweep)
{
	const struct ftl_record_change *change = change_of(sweep);
	int ret = change ? records_check(ftl->records, change) : 0;

	if (change && !ret) {
		if (!journal_reserve(&ftl->journal, 1 + FORMAT_KEEP_SLOTS, CLEANER_RECORDS))
			return;
		if (change->is_removal)
			journal_unreserve(&ftl->journal, FORMAT_KEEP_SLOTS);
		ftl_record_change(ftl, change);
	}
	end(ftl, sweep, ret);
}

static void go_on(struct ftl *ftl, struct ftl_sweep *sweep)
{
	enum outcome outcome = STEPPED;

	for (unsigned i = 0; i < STEPS_AT_ONCE && outcome == STEPPED && !sweep->result; i++) {
		if (sweep->is_waiting)
			return;
		if (sweep->position == sweep->order.count[0]) {
			finish(ftl, sweep);
			return;
		}
		outcome = sweep->is_clone ? step_clone(ftl, sweep) : step_trim(ftl, sweep);
	}
	if (sweep->result && !sweep->is_waiting)
		end(ftl, sweep, sweep->result);
	else if (outcome == STEPPED)
		ftl->has_steps = true;
}

/*
 * Makes the clone wait until earlier puts are durable, if it ends with a record. Otherwise a crash
 * could keep the record, which says that all is cloned, but lose a put of the source. Then the
 * clone of that block would be lost too. Later puts wait for the clone.
 */
static void want_source(struct ftl *ftl, struct ftl_sweep *sweep)
{
	if (!sweep->is_clone || !change_of(sweep))
		return;
	sweep->flushed = journal_position(&ftl->journal);
	journal_want(&ftl->journal, sweep->flushed);
}

/* Returns whether an earlier sweep must end first, so that changes of records take effect in order.
 * A sweep with a change waits for all earlier ones, and all later ones wait for it. */
static bool is_behind_change(const struct ftl *ftl, const struct ftl_sweep *sweep)
{
	const struct ftl_sweep *other;

	if (change_of(sweep))
		return sweep->node.prev != &ftl->sweeps;
	cds_list_for_each_entry (other, &ftl->sweeps, node) {
		if (other == sweep)
			break;
		if (change_of(other))
			return true;
	}
	return false;
}

static bool may_start(struct ftl *ftl, struct ftl_sweep *sweep)
{
	const struct ftl_order *order = &sweep->order;

	if (sweep->is_started)
		return true;
	if (is_behind_change(ftl, sweep))
		return false;
	if (!sweep->is_first) {
		if (order_has_earlier(ftl, order->ticket, order->lba[0], order->count[0]) ||
		    order_has_earlier(ftl, order->ticket, order->lba[1], order->count[1]))
			return false;
		sweep->is_first = true;
		want_source(ftl, sweep);
	}
	sweep->is_started = ftl->journal.flushed >= sweep->flushed;
	return sweep->is_started;
}

void sweeps_progress(struct ftl *ftl)
{
	struct ftl_sweep *sweep, *next;

	ftl->has_steps = false;
	cds_list_for_each_entry_safe (sweep, next, &ftl->sweeps, node) {
		int refusal = ftl_refusal(ftl);

		if (refusal && !sweep->result)
			sweep->result = refusal;
		if (sweep->result ? !sweep->is_waiting : may_start(ftl, sweep))
			go_on(ftl, sweep);
	}
}

static void begin(struct ftl *ftl, struct ftl_sweep *sweep)
{
	ftl->nr_requests++;
	sweep->ftl = ftl;
	sweep->position = 0;
	sweep->is_started = sweep->is_waiting = false;
	order_begin(ftl, &sweep->order);
	cds_list_add_tail(&sweep->node, &ftl->sweeps);
}

void ftl_trim(struct ftl *ftl, struct ftl_trim *trim)
{
	struct ftl_sweep *sweep = &trim->sweep;

	ftl->counts.trims++;
	*sweep = (struct ftl_sweep){.order = {.lba = {trim->lba}, .count = {trim->count}}};
	if (!ftl_is_range(trim->lba, trim->count)) {
		sweep->order.count[0] = 0;
		sweep->result = error_fail(-EINVAL, "trim blocks: they are not of one range");
	}
	begin(ftl, sweep);
}

void ftl_clone(struct ftl *ftl, struct ftl_clone *clone)
{
	struct ftl_sweep *sweep = &clone->sweep;

	ftl->counts.clones++;
	*sweep = (struct ftl_sweep){.is_clone = true,
				    .order = {.lba = {clone->target, clone->source},
					      .count = {clone->count, clone->count}}};
	if (!ftl_is_range(clone->target, clone->count) ||
	    !ftl_is_range(clone->source, clone->count))
		sweep->result = error_fail(-EINVAL, "clone blocks: they are not of one range");
	else if (clone->source < clone->target + clone->count &&
		 clone->target < clone->source + clone->count && clone->count)
		sweep->result = error_fail(-EINVAL, "clone blocks: source and target overlap");
	if (sweep->result)
		sweep->order.count[0] = sweep->order.count[1] = 0;
	begin(ftl, sweep);
}
