/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recovers a layer after a crash or a close. Recovery reads the last committed checkpoint and
 * replays the journal from there on, up to the first gap. Then it writes a checkpoint, with which a
 * new epoch of the journal begins. Blocks behind the gap never count: now because they do not
 * follow, later because their epoch is another. Before that checkpoint is committed, recovery
 * writes only summaries of segments that it closes, and zeros to the gap. So it can be interrupted
 * any number of times.
 */
#include "flash/recover.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "base/log.h"
#include "flash/append.h"
#include "flash/blocking.h"
#include "flash/checkpoint.h"
#include "flash/ftl_private.h"
#include "flash/journal.h"
#include "flash/segments.h"
#include "flash/superblock.h"

/* ---- segments that were open ---- */

/* Chooses for each stream the open segment that it continues with: the one opened last. */
static void choose_open(struct ftl *ftl)
{
	struct segments *segments = &ftl->segments;

	for (uint32_t i = 0; i < segments->nr; i++) {
		struct segment *segment = &segments->at[i];
		struct appender *appender = &ftl->appenders[segment->stream];

		if (segment->state != FTL_SEGMENT_OPEN || segment->is_worn || !segment->valid ||
		    segment->next == segments->data_blocks || segment->stream >= ftl->streams.nr)
			continue;
		if (!appender->open || appender->open->opened < segment->opened)
			appender->open = segment;
	}
}

static int close_segment(struct ftl *ftl, struct segment *segment)
{
	struct segments *segments = &ftl->segments;
	uint32_t nr_blocks = summary_blocks_for(segments->segment_blocks);
	int ret;

	if (!segment->is_worn) {
		summary_encode(segments, segment, ftl->summary_memory, nr_blocks * FTL_BLOCK);
		ret = blocking_write(ftl->device,
				     segment_place(segments, segment, segments->data_blocks),
				     ftl->summary_memory, nr_blocks, 0);
		if (ret)
			return error_fail(ret, "open a flash layer: a segment cannot be closed: %s",
					  afar_strerror(ret));
		segment_drop_list(segments, segment);
	}
	if (segment->state == FTL_SEGMENT_OPEN)
		segment_set_state(segments, segment, FTL_SEGMENT_CLOSING);
	segment_set_state(segments, segment, FTL_SEGMENT_FULL);
	return 0;
}

static int settle_segment(struct ftl *ftl, struct segment *segment)
{
	struct segments *segments = &ftl->segments;
	bool is_open = segment->state == FTL_SEGMENT_OPEN || segment->state == FTL_SEGMENT_CLOSING;

	if (ftl->appenders[segment->stream].open == segment || segment->state == FTL_SEGMENT_FREE)
		return 0;
	if (segment->valid)
		return is_open ? close_segment(ftl, segment) : 0;
	/* A device that fails may be well again, or another one. */
	segment_forgive(segments, segment);
	recover_set_free(ftl, segment);
	return 0;
}

static int settle_segments(struct ftl *ftl)
{
	int ret = 0;

	choose_open(ftl);
	for (uint32_t i = 0; i < ftl->segments.nr && !ret; i++)
		ret = settle_segment(ftl, &ftl->segments.at[i]);
	return ret;
}

/* ---- the whole ---- */

/* Takes the checkpoint before the newest, whose tables are damaged: the journal leads from there to the newest, if it still has
 * all of that. Returns `ret` if that one is not there either. */
static int fall_back(struct ftl *ftl, const struct format_anchor *newest, int ret)
{
	struct checkpoint *checkpoint = &ftl->checkpoint;
	struct format_anchor older;

	if (anchor_read_at(ftl->device, &ftl->layout, !(newest->generation & 1), &older) ||
	    older.generation > newest->generation ||
	    tables_read(ftl->device, &ftl->layout, &older, checkpoint->tables))
		return ret;
	log_warn("flash: the tables of the last checkpoint are damaged; the one before it serves, "
		 "and the journal");
	checkpoint->anchor = older;
	ftl->recover_through = *newest;
	return 0;
}

static int read_checkpoint(struct ftl *ftl)
{
	struct checkpoint *checkpoint = &ftl->checkpoint;
	struct format_anchor newest;
	int ret = anchor_read(ftl->device, &ftl->layout, &newest);

	if (ret)
		return ret;
	checkpoint->anchor = newest;
	ret = tables_read(ftl->device, &ftl->layout, &newest, checkpoint->tables);
	if (ret)
		ret = fall_back(ftl, &newest, ret);
	if (ret == -EBADMSG)
		return error_fail(ret, "open a flash layer: its tables are damaged");
	if (ret)
		return error_fail(ret, "open a flash layer: its tables cannot be read: %s",
				  afar_strerror(ret));
	return tables_decode(ftl, checkpoint->anchor.tables_bytes);
}

/*
 * Writes zeros to the block where the journal continues. Otherwise, if the next write there were
 * torn too, it might complete the torn old block, which would look later than the anchor. If the
 * ring is full there is no gap.
 */
static int clear_gap(struct ftl *ftl, uint64_t sequence)
{
	const struct format_superblock *layout = &ftl->layout;

	if (sequence - ftl->checkpoint.anchor.sequence >= layout->journal_blocks)
		return 0;
	memset(ftl->summary_memory, 0, FORMAT_BLOCK);
	return blocking_write(ftl->device, layout->journal_at + sequence % layout->journal_blocks,
			      ftl->summary_memory, 1, 0);
}

static int go_on_from(struct ftl *ftl, uint64_t sequence)
{
	uint64_t epoch;
	int ret;

	if (getrandom(&epoch, sizeof(epoch), 0) != sizeof(epoch))
		return error_code(-EIO);
	journal_begin(&ftl->journal, epoch, sequence);
	if (ftl->is_read_only)
		return 0;
	ret = clear_gap(ftl, sequence);
	if (!ret)
		ret = settle_segments(ftl);
	if (!ret)
		ret = segments_index(&ftl->segments, ftl->streams.nr);
	if (!ret)
		ret = checkpoint_write_now(ftl);
	return ret ? error_fail(ret, "open a flash layer: the device cannot be written: %s",
				afar_strerror(ret))
		   : 0;
}

int ftl_recover(struct ftl *ftl)
{
	uint64_t end;
	int ret = read_checkpoint(ftl);

	if (!ret)
		ret = recover_replay(ftl, &end);
	return ret ? ret : go_on_from(ftl, end);
}
