/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Syncs. Each waits until all earlier requests that change its blocks have ended. Then it waits
 * until the journal is flushed up to its end at that time. Many syncs wait for one flush. Puts that
 * a sync waits for append their records ahead of their data (ahead.c). Once all have, the journal's
 * block is written too, and only the flush remains.
 */
#include "flash/write/sync.h"

#include <errno.h>

#include "base/error.h"
#include "flash/ftl_private.h"
#include "flash/log/journal.h"
#include "flash/write/order.h"

static void end(struct ftl *ftl, struct ftl_sync *sync, int result)
{
	cds_list_del(&sync->node);
	sync->result = result;
	cds_list_add_tail(&sync->node, &ftl->ended_syncs);
}

/* Has the journal written at the same time as the data, once all records are in it. */
static void go_ahead(struct ftl *ftl, struct ftl_sync *sync)
{
	if (sync->ahead || !order_is_recorded(ftl, sync->ticket, sync->lba, sync->count))
		return;
	sync->ahead = journal_position(&ftl->journal);
	sync->nr_void = ftl->counts.records_void;
	journal_want_written(&ftl->journal, sync->ahead);
}

/*
 * Returns how far the journal must be flushed: where the records were when go_ahead() saw them,
 * unless one became void since and was appended again.
 */
static uint64_t target_of(const struct ftl *ftl, const struct ftl_sync *sync)
{
	if (sync->ahead && sync->nr_void == ftl->counts.records_void)
		return sync->ahead;
	return journal_position(&ftl->journal);
}

static void step(struct ftl *ftl, struct ftl_sync *sync)
{
	int failed = ftl->journal.failed ? ftl->journal.failed : ftl->failed;

	/* No checkpoint will make room in the journal any more, so do not wait. */
	if (failed) {
		end(ftl, sync, failed);
		return;
	}
	if (!sync->target && order_has_earlier(ftl, sync->ticket, sync->lba, sync->count)) {
		go_ahead(ftl, sync);
		return;
	}
	if (!sync->target) {
		sync->target = target_of(ftl, sync);
		journal_want(&ftl->journal, sync->target);
	}
	if (ftl->journal.flushed >= sync->target)
		end(ftl, sync, 0);
}

void syncs_progress(struct ftl *ftl)
{
	struct ftl_sync *sync, *next;

	cds_list_for_each_entry_safe (sync, next, &ftl->syncs, node)
		step(ftl, sync);
}

void ftl_sync(struct ftl *ftl, struct ftl_sync *sync)
{
	ftl->nr_requests++;
	ftl->counts.syncs++;
	sync->ticket = ++ftl->ticket;
	sync->target = sync->ahead = 0;
	sync->result = 0;
	order_await(ftl, sync->lba, sync->count);
	cds_list_add_tail(&sync->node, &ftl->syncs);
}
