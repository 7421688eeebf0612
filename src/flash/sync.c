/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Syncs: each waits until what came before it in its blocks has ended, then until the journal is durable up to where it is
 * then. Many wait for one flush.
 */
#include <errno.h>

#include "base/error.h"
#include "flash/ftl_private.h"

static void end(struct ftl *ftl, struct ftl_sync *sync, int result)
{
	cds_list_del(&sync->node);
	sync->result = result;
	cds_list_add_tail(&sync->node, &ftl->ended_syncs);
}

static void step(struct ftl *ftl, struct ftl_sync *sync)
{
	int failed = ftl->journal.failed ? ftl->journal.failed : ftl->failed;

	/* It would wait for room in the journal that no checkpoint makes any more. */
	if (failed) {
		end(ftl, sync, failed);
		return;
	}
	if (!sync->target && order_has_earlier(ftl, sync->ticket, sync->lba, sync->count))
		return;
	if (!sync->target) {
		sync->target = journal_position(&ftl->journal);
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
	sync->target = 0;
	sync->result = 0;
	cds_list_add_tail(&sync->node, &ftl->syncs);
}
