/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the journal's records do to map, segments and callers' records. The same functions serve requests, right after the
 * record was appended, and replay; so what is in memory is always what replay of all that was appended would make.
 *
 * The order in each: refer to the new place before the old one is let go, so that a block that is both stays valid.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "flash/ftl_private.h"

/* Up to where the journal has to survive before what the last record made invalid may be overwritten. */
static uint64_t tag_of(const struct ftl *ftl)
{
	return journal_position(&ftl->journal);
}

static int put_block(struct ftl *ftl, uint64_t lba, struct format_entry entry, struct loss loss)
{
	struct segment *segment = segment_of(&ftl->segments, entry.place);
	uint32_t index = segment_index(&ftl->segments, entry.place);
	struct map_page *page;
	struct format_entry old;
	int rc = map_make(&ftl->map, lba, &page);

	if (rc)
		return rc;
	old = *map_entry(page, lba);
	if (old.place == entry.place) {
		map_set(page, lba, entry);
		return 0;
	}
	/* The first who refers to it: for him it was written. */
	if (segment->lbas && !segment_is_valid(&ftl->segments, segment, index))
		segment->lbas[index] = lba;
	rc = segments_ref(&ftl->segments, entry.place, lba,
			  segment->lbas ? segment->lbas[index] : lba);
	if (rc)
		return rc;
	map_set(page, lba, entry);
	loss.tag = tag_of(ftl);
	if (old.place)
		segments_unref(&ftl->segments, old.place, lba, &loss);
	return 0;
}

int apply_put(struct ftl *ftl, uint64_t lba, struct format_entry entry)
{
	return put_block(ftl, lba, entry, (struct loss){0});
}

void apply_trim(struct ftl *ftl, uint64_t lba, uint32_t count)
{
	struct map_page *page = map_find(&ftl->map, lba);

	if (!page)
		return;
	for (uint32_t i = 0; i < count && page->nr_mapped; i++) {
		struct format_entry old = *map_entry(page, lba + i);

		if (!old.place)
			continue;
		map_set(page, lba + i, (struct format_entry){0});
		segments_unref(&ftl->segments, old.place, lba + i,
			       &(struct loss){.tag = tag_of(ftl)});
	}
}

/* The sum of the same data at another address: CRCs are linear, so the data does not matter. */
static uint32_t crc_elsewhere(uint32_t crc, uint64_t source, uint64_t target)
{
	static const char zeros[FTL_BLOCK];
	uint64_t difference = source ^ target;
	uint32_t raw = ~checksum_crc32c_seeded(~0U, &difference, sizeof(difference));

	return crc ^ ~checksum_crc32c_seeded(~raw, zeros, sizeof(zeros));
}

static int clone_block(struct ftl *ftl, struct format_entry from, uint64_t source,
		       struct map_page *page, uint64_t target)
{
	struct format_entry old = *map_entry(page, target), new = {0};

	if (from.place == old.place)
		return 0;
	if (from.place) {
		int rc = segments_ref(&ftl->segments, from.place, target, source);

		if (rc)
			return rc;
		new.place = from.place;
		new.crc = crc_elsewhere(from.crc, source, target);
	}
	map_set(page, target, new);
	if (old.place)
		segments_unref(&ftl->segments, old.place, target,
			       &(struct loss){.tag = tag_of(ftl)});
	return 0;
}

int apply_clone(struct ftl *ftl, uint64_t source, uint64_t target, uint32_t count)
{
	struct map_page *from = map_find(&ftl->map, source), *to;
	int rc;

	if (!from || !from->nr_mapped) {
		apply_trim(ftl, target, count);
		return 0;
	}
	rc = map_make(&ftl->map, target, &to);
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = clone_block(ftl, *map_entry(from, source + i), source + i, to, target + i);
	return rc;
}

/* ---- with the record ---- */

static void check(struct ftl *ftl, int rc)
{
	/* What the journal says could not be done: memory has run out. The journal is right, and memory must not go on. */
	if (rc)
		ftl_fail(ftl, rc);
}

void ftl_record_put(struct ftl *ftl, uint64_t lba, struct format_entry entry, uint64_t pace)
{
	struct format_record record = record_make(FORMAT_PUT, lba, entry.place, entry.crc);

	journal_append(&ftl->journal, &record, 1);
	check(ftl, put_block(ftl, lba, entry, (struct loss){.pace = pace}));
}

void ftl_record_move(struct ftl *ftl, uint64_t lba, struct format_entry entry)
{
	struct format_record record = record_make(FORMAT_MOVE, lba, entry.place, entry.crc);

	journal_append(&ftl->journal, &record, 1);
	check(ftl, put_block(ftl, lba, entry, (struct loss){.is_move = true}));
}

void ftl_record_trim(struct ftl *ftl, uint64_t lba, uint32_t count)
{
	struct format_record record = record_make(FORMAT_TRIM, lba, count, 0);

	journal_append(&ftl->journal, &record, 1);
	apply_trim(ftl, lba, count);
}

void ftl_record_clone(struct ftl *ftl, uint64_t source, uint64_t target, uint32_t count)
{
	const struct format_record records[] = {
		record_make(FORMAT_CLONE, source, count, 0),
		record_make(FORMAT_CLONE_TARGET, target, 0, 0),
	};

	journal_append(&ftl->journal, records, 2);
	check(ftl, apply_clone(ftl, source, target, count));
}

void ftl_record_change(struct ftl *ftl, const struct ftl_record_change *change)
{
	struct format_record records[1 + FORMAT_KEEP_SLOTS];
	uint32_t nr = change->is_removal ? 1 : 1 + FORMAT_KEEP_SLOTS;

	_Static_assert(FORMAT_KEEP_SLOTS * sizeof(records[0]) == FTL_RECORD_BYTES, "slots");
	records[0] =
		record_make(change->is_removal ? FORMAT_REMOVE : FORMAT_KEEP, change->id, 0, 0);
	memcpy(&records[1], change->data, sizeof(change->data));
	journal_append(&ftl->journal, records, nr);
	check(ftl, records_apply(ftl->records, change));
}
