/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recovers a layer after a crash or a close. Recovery reads the last committed checkpoint and
 * replays the journal from there on, up to the first gap. Then it writes a checkpoint, with which a
 * new epoch of the journal begins. Blocks behind the gap never count: now because they do not
 * follow, later because their epoch is another. Before that checkpoint is committed, recovery
 * writes only summaries of segments that it closes, and zeros to the gap. So it can be interrupted
 * any number of times.
 */
#include "flash/write/recover.h"
#include "flash/log/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "base/log.h"
#include "flash/device/blocking.h"
#include "flash/device/superblock.h"
#include "flash/ftl_private.h"
#include "flash/log/checkpoint.h"
#include "flash/log/journal.h"
#include "flash/map/map.h"
#include "flash/map/segments.h"
#include "flash/write/append.h"

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
	log_warn("flash: the tables of the last checkpoint %s; the one before it serves, and the "
		 "journal",
		 ret == -EBADMSG ? "are damaged" : "cannot be read");
	checkpoint->anchor = older;
	ftl->recover_through = *newest;
	return 0;
}

/*
 * Checks each page of the map of a checkpoint that may not be the newest. One that came after it, committed or not, may have been written
 * over some. The blocks of these would be lost, which an operator decides.
 */
static int check_pages(struct ftl *ftl)
{
	const struct map *map = &ftl->map;
	struct format_page *data = aligned_alloc(FORMAT_BLOCK, sizeof(*data));
	uint32_t nr_lost = 0;

	if (!data)
		return error_code(-ENOMEM);
	for (uint32_t i = 0; i < map->nr_slots; i++) {
		const struct map_slot *slot = &map->slots[i];

		if (!slot->page || !slot->generation || slot->is_damaged)
			continue;
		nr_lost += blocking_read(ftl->device, map->first + 2 * (uint64_t)i + slot->copy,
					 data, 1) ||
			   !map_is_copy(slot->page, data);
	}
	free(data);
	if (nr_lost == 0 || ftl->is_lossy)
		return 0;
	return error_fail(
		-EBADMSG,
		"open a flash layer: its last checkpoint is damaged, and the one before it "
		"has lost %u of the map's pages",
		nr_lost);
}

/* The anchor that is not the newest is as good as none: it may have been the newest. */
static bool may_be_older(struct ftl *ftl, const struct format_anchor *newest)
{
	struct format_anchor other;

	return anchor_read_at(ftl->device, &ftl->layout, !(newest->generation & 1), &other) != 0;
}

static int read_checkpoint(struct ftl *ftl)
{
	struct checkpoint *checkpoint = &ftl->checkpoint;
	struct format_anchor newest;
	int ret = anchor_read(ftl->device, &ftl->layout, &newest);

	if (ret)
		return ret;
	ftl->is_alone = may_be_older(ftl, &newest);
	if (ftl->is_alone && newest.generation > 1) /* else there was no other one yet */
		log_warn("flash: an anchor is damaged; the other one serves, and the journal");
	checkpoint->anchor = newest;
	ret = tables_read(ftl->device, &ftl->layout, &newest, checkpoint->tables);
	if (ret)
		ret = fall_back(ftl, &newest, ret);
	if (ret == -EBADMSG)
		return error_fail(ret, "open a flash layer: its tables are damaged");
	if (ret)
		return error_fail(-EIO, "open a flash layer: its tables cannot be read: %s",
				  afar_strerror(ret));
	ret = tables_decode(ftl, checkpoint->anchor.tables_bytes);
	return ret == 0 && (ftl->is_alone || ftl->recover_through.generation) ? check_pages(ftl)
									      : ret;
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
