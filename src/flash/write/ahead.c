/* SPDX-License-Identifier: BSD-3-Clause */
#include "flash/write/ahead.h"

#include "flash/ftl_private.h"
#include "flash/log/apply.h"
#include "flash/log/checkpoint.h"
#include "flash/log/journal.h"
#include "flash/write/cleaner.h"
#include "flash/write/put.h"
/*
 * Records ahead of their data. If a sync waits for a put, the put's records are appended when its
 * write is submitted, not when it has ended. So data and journal are written at the same time, and
 * one flush follows both. The map changes when the write has ended, as usual. This is safe because:
 *
 *  - Recovery already expects records whose data is missing, and reads the data to find out.
 *  - The journal's block is held until the data is written (journal_hold()). Until then no flush
 *    counts for it, no caller is told that the record is durable, and no later block says so.
 *  - Replay applies the record earlier than the map in memory changed. In between, no other record
 *    of those blocks is appended. Changes and clones of them wait until the put has ended. The
 *    cleaner leaves them alone (ahead_has()), because its record of an older value would come
 *    behind.
 *  - No checkpoint begins in between, because its map must include all of the journal before it.
 *    When one is due, no more records go ahead. Those in flight end soon, and it begins.
 *  - If the write fails, the records are void. The piece is written elsewhere, with new records for
 *    which it has kept its room. Replay must never take void records for true. So their block stays
 *    held until a checkpoint lies behind it, which is requested at once. Before that, a crash may
 *    find the data written nonetheless, or lose the new record. So a put that fails for good ends
 *    only after the checkpoint (ahead_is_in_doubt()): once it is reported as failed, the old blocks
 *    stay.
 */

/* Returns whether the piece's records go ahead: it belongs to a put that a sync waits for, and this
 * is its first attempt. Reserves room for the records that a failed write would need. */
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
