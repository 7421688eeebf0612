/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds valid blocks to which no lba refers. Damage of the map leaves them behind: putting or
 * trimming an lba whose place is unknown leaves the block at its old place valid. The cleaner finds
 * such a block when it cleans the segment, but blocks that it has moved on lie among cold ones. So
 * once no page is damaged any more, this looks through all segments, one at a time. It compares
 * each valid block with the map entries that may refer to it. It uses the pages in memory, among
 * which are all that were given up. Before a put is refused for lack of room, it reads the other
 * pages too.
 */
#include "flash/write/reclaim.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "flash/device/superblock.h"
#include "flash/ftl_private.h"
#include "flash/log/apply.h"
#include "flash/log/journal.h"
#include "flash/map/map.h"
#include "flash/map/segments.h"
#include "flash/write/append.h"
#include "flash/write/cleaner.h"

int reclaim_open(struct reclaim *reclaim, struct ftl *ftl)
{
	reclaim->summary = aligned_alloc(FTL_BLOCK, summary_blocks_for(ftl->layout.segment_blocks) *
							    FTL_BLOCK);
	return reclaim->summary ? 0 : error_code(-ENOMEM);
}

void reclaim_close(struct reclaim *reclaim)
{
	free(reclaim->summary);
}

bool reclaim_release(struct ftl *ftl, uint32_t place, uint64_t lba)
{
	if (!journal_reserve(&ftl->journal, 1, CLEANER_RECORDS))
		return false;
	ftl_record_release(ftl, lba, place);
	return true;
}

static void page_ready(struct ftl_waiter *waiter, int result)
{
	struct reclaim *reclaim = caa_container_of(waiter, struct reclaim, waiter);

	reclaim->is_waiting = false;
	if (!result)
		return;
	/* The page cannot be read, so its lba may refer to the block: keep it. */
	reclaim->has_believed = true;
	reclaim->index++;
}

enum answer { REFERS, REFERS_NOT, WAITS };

static enum answer ask(struct ftl *ftl, uint64_t lba, uint32_t place)
{
	struct map_page *page = map_find(&ftl->map, lba);
	struct reclaim *reclaim = &ftl->reclaim;

	if (!page)
		return REFERS_NOT;
	if (map_is_loaded(page) && !map_is_known(map_entry(page, lba))) {
		reclaim->nr_unknown++;
		return REFERS;
	}
	if (map_is_loaded(page))
		return map_entry(page, lba)->place == place ? REFERS : REFERS_NOT;
	if (!reclaim->is_thorough) {
		reclaim->has_believed = true;
		return REFERS;
	}
	reclaim->is_waiting = true;
	reclaim->waiter.ready = page_ready;
	map_load(page, &reclaim->waiter);
	return WAITS;
}

/* Releases the block for each candidate that does not refer to it. False: it has to wait. */
static bool look_at_block(struct ftl *ftl, const struct segment *segment, uint32_t index,
			  uint64_t lba)
{
	uint32_t place = segment_place(&ftl->segments, segment, index), nr_kept = 0;
	const struct share *first;
	struct share alone;

	while (segment_is_valid(&ftl->segments, segment, index) &&
	       nr_kept < segment_candidates(segment, index, lba, &alone, &first)) {
		enum answer answer = ask(ftl, first[nr_kept].lba, place);

		if (answer == WAITS)
			return false;
		if (answer == REFERS)
			nr_kept++;
		else if (!reclaim_release(ftl, place, first[nr_kept].lba))
			return false;
	}
	return true;
}

static bool look(struct ftl *ftl, const struct segment *segment, const uint64_t *lbas)
{
	struct reclaim *reclaim = &ftl->reclaim;

	for (; reclaim->index < ftl->segments.data_blocks; reclaim->index++) {
		if (!look_at_block(ftl, segment, reclaim->index, lbas[reclaim->index]))
			return false;
	}
	return true;
}

static void next(struct reclaim *reclaim)
{
	reclaim->at++;
	reclaim->index = 0;
	reclaim->segment = NULL;
}

/* Gives back the segment that read_summary() took. */
static void put_back(struct ftl *ftl)
{
	struct segment *segment = ftl->reclaim.segment;

	if (segment->valid)
		segment_set_state(&ftl->segments, segment, FTL_SEGMENT_FULL);
	else
		segment_retire(&ftl->segments, segment, journal_position(&ftl->journal));
	next(&ftl->reclaim);
}

static void summary_read(struct flash_io *io)
{
	struct ftl *ftl = caa_container_of(io, struct ftl, reclaim.io);
	struct reclaim *reclaim = &ftl->reclaim;

	reclaim->is_reading = false;
	if (!io->result && summary_decode(&ftl->segments, reclaim->segment, reclaim->summary))
		return;
	reclaim->is_complete = false;
	put_back(ftl);
}

static void read_summary(struct ftl *ftl, struct segment *segment)
{
	struct reclaim *reclaim = &ftl->reclaim;

	/* In this state neither the cleaner nor a retirement takes it. */
	segment_set_state(&ftl->segments, segment, FTL_SEGMENT_CLEANING);
	reclaim->segment = segment;
	reclaim->is_reading = true;
	summary_read_io(ftl, segment, &reclaim->io, &reclaim->iov, reclaim->summary);
	reclaim->io.done = summary_read;
	flash_device_submit(ftl->device, &reclaim->io);
}

/* Looks through the next segment. False: it has to wait. */
static bool look_at_next(struct ftl *ftl)
{
	struct reclaim *reclaim = &ftl->reclaim;
	struct segment *segment = &ftl->segments.at[reclaim->at];

	if (reclaim->segment) {
		if (!look(ftl, segment, reclaim->summary))
			return false;
		put_back(ftl);
		return true;
	}
	if (segment->valid && !segment->lbas && segment->state == FTL_SEGMENT_FULL) {
		read_summary(ftl, segment);
		return false;
	}
	if (segment->valid && segment == ftl->cleaner.victim) {
		if (ftl->cleaner.stage == CLEANER_SUMMARY ||
		    !look(ftl, segment, ftl->cleaner.summary))
			return false;
	} else if (segment->valid && segment->lbas && !look(ftl, segment, segment->lbas)) {
		return false;
	}
	reclaim->is_complete = reclaim->is_complete && segment->state != FTL_SEGMENT_BAD;
	next(reclaim);
	return true;
}

/*
 * Lowers the bound of leaked blocks. All blocks that leaked before the search began were found,
 * except those that may be an lba's of unknown place. Blocks that leaked before the layer was
 * opened may also have escaped if pages were not in memory.
 */
static void end(struct ftl *ftl)
{
	struct reclaim *reclaim = &ftl->reclaim;
	uint64_t most = ftl->segments.nr_let_go - reclaim->nr_let_go + reclaim->nr_unknown;

	if (reclaim->has_believed)
		most += reclaim->nr_before;
	reclaim->is_under_way = false;
	if (reclaim->is_complete && ftl->segments.nr_leaked > most)
		ftl->segments.nr_leaked = (uint32_t)most;
}

static void begin(struct ftl *ftl, bool is_thorough)
{
	struct reclaim *reclaim = &ftl->reclaim;

	reclaim->is_under_way = reclaim->is_complete = true;
	reclaim->is_thorough = is_thorough;
	reclaim->has_believed = false;
	reclaim->nr_unknown = 0;
	reclaim->nr_let_go = ftl->segments.nr_let_go;
	reclaim->at = reclaim->index = 0;
	reclaim->has_been_thorough = is_thorough;
}

bool reclaim_may_help(struct ftl *ftl)
{
	struct reclaim *reclaim = &ftl->reclaim;

	if (reclaim->is_under_way)
		return true;
	/* No block has leaked since the last thorough search. */
	if (!ftl->segments.nr_leaked ||
	    (reclaim->has_been_thorough && reclaim->nr_let_go == ftl->segments.nr_let_go))
		return false;
	begin(ftl, true);
	return true;
}

void reclaim_progress(struct ftl *ftl)
{
	struct reclaim *reclaim = &ftl->reclaim;

	if (ftl_refusal(ftl) || reclaim->is_reading || reclaim->is_waiting)
		return;
	if (!reclaim->is_under_way && ftl->map.nr_damaged == 0 &&
	    reclaim->nr_let_go != ftl->segments.nr_let_go)
		begin(ftl, false);
	while (reclaim->is_under_way && look_at_next(ftl)) {
		if (reclaim->at == ftl->segments.nr)
			end(ftl);
	}
}
