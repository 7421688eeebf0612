/* SPDX-License-Identifier: BSD-3-Clause */
#include "flash/ahead.h"

#include "flash/apply.h"
#include "flash/checkpoint.h"
#include "flash/cleaner.h"
#include "flash/ftl_private.h"
#include "flash/journal.h"
#include "flash/put.h"
/*
 * Records ahead of their data: of a put that a sync waits for the records are appended when its write is submitted, not when it
 * has ended, so that data and journal are written at the same time, and the flush comes after both. The map is changed when the
 * write has ended, as ever. What makes that right:
 *
 *  - That the journal may have a record whose data is not there is nothing new to recovery, which looks for the data.
 *  - The journal's block is held until the data is there (journal_hold()): no flush counts for it, nobody is told that the
 *    record is durable, and no later block says so.
 *  - Replay meets the record earlier than the map in memory changes. In between nobody else writes a record of those blocks: who
 *    changes or clones them waits until the put has ended; but for the cleaner, which leaves such blocks alone (ahead_has()).
 *    Its record of an older value would come behind.
 *  - No checkpoint begins in between: what is before it in the journal is in its map. When one is due no more records go
 *    ahead, those in flight end soon, and it begins.
 *  - When the write fails the records are void, and the piece is written elsewhere, with new records, for which it has kept its
 *    room. Void records must never count as true. So their block stays held, until a checkpoint is behind it, which is wanted
 *    at once. Until then a crash may find the data there nonetheless, or be too early for the new record; so a put that fails
 *    for good ends only when it is over (ahead_is_in_doubt()): who is told that it failed has the old blocks from then on.
 */

/* Of a put that a sync waits for, at the first attempt. True: there is room for them too, which is reserved. */
static bool may_go_ahead(const struct piece *piece)
{
	struct ftl *ftl = piece->ftl;

	return piece->put && piece->put->order.is_awaited && !piece->attempts &&
	       !checkpoint_is_due(ftl) &&
	       journal_reserve_spare(&ftl->journal, piece->nr_blocks, CLEANER_RECORDS);
}

void ahead_note(struct ftl_put *put)
{
	put->order.is_recorded = put->started == put->length && put->nr_in_flight == put->nr_ahead;
}

void ahead_place(struct piece *piece)
{
	struct ftl *ftl = piece->ftl;

	if (!may_go_ahead(piece))
		return;
	piece->ahead = journal_hold(&ftl->journal);
	for (uint32_t i = 0; i < piece->nr_blocks; i++)
		ftl_record_ahead(ftl, piece->lba + i, piece_entry(piece, i));
	ftl->counts.records_ahead += piece->nr_blocks;
	piece->put->nr_ahead++;
	ahead_note(piece->put);
}

void ahead_settle(struct piece *piece)
{
	journal_settle(&piece->ftl->journal, piece->ahead);
	piece->ahead = NULL;
	piece->put->nr_ahead--;
}

void ahead_void(struct piece *piece)
{
	struct ftl *ftl = piece->ftl;

	if (!piece->ahead)
		return;
	piece->void_at = journal_void(&ftl->journal, piece->ahead);
	piece->ahead = NULL;
	piece->put->nr_ahead--;
	ahead_note(piece->put);
	ftl->counts.records_void += piece->nr_blocks;
	ftl->checkpoint.is_wanted = true;
}

bool ahead_is_in_doubt(const struct piece *piece)
{
	return piece->void_at >= piece->ftl->journal.start && !ftl_refusal(piece->ftl);
}

bool ahead_has(struct ftl *ftl, uint64_t lba)
{
	const struct piece *piece;

	cds_list_for_each_entry (piece, &ftl->buckets[piece_bucket(lba)], bucket) {
		if (piece->ahead && piece->lba <= lba && lba < piece->lba + piece->nr_blocks)
			return true;
	}
	return false;
}
