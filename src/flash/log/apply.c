/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applies the journal's records to map, segments and callers' records. Requests, right after they
 * appended a record, and replay call the same functions. So memory always has what a replay of all
 * appended records would make. (Records ahead of their data, see ahead.c, are not applied yet.)
 *
 * Each function refers to the new place before it unrefers the old one, so that a block that is
 * both stays valid.
 */
#include "flash/log/apply.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "flash/ftl_private.h"
#include "flash/log/journal.h"
#include "flash/map/map.h"
#include "flash/map/records.h"
#include "flash/map/segments.h"

/*
 * Returns how far the journal must be flushed before a block may be overwritten that the last
 * record made invalid.
 */
static uint64_t tag_of(const struct ftl *ftl)
{
	return journal_position(&ftl->journal);
}

/*
 * Notes that the entry `old` of `lba` was replaced. If its place is not known, the block there
 * stays valid until the cleaner finds that no entry refers to it.
 */
static void let_go(struct ftl *ftl, struct format_entry old, uint64_t lba, const struct loss *loss)
{
	if (!map_is_known(&old)) {
		ftl->segments.nr_leaked++;
		ftl->segments.nr_let_go++;
	} else if (old.place) {
		segments_unref(&ftl->segments, old.place, lba, loss);
	}
}

/* Makes `lba` refer to the place, which was just written. */
static int refer(struct ftl *ftl, uint64_t lba, uint32_t place)
{
	struct segment *segment = segment_of(&ftl->segments, place);
	uint32_t index = segment_index(&ftl->segments, place);

	/* The block was written for the first lba that refers to it. */
	if (segment->lbas && !segment_is_valid(&ftl->segments, segment, index))
		segment->lbas[index] = lba;
	return segments_ref(&ftl->segments, place, lba, segment->lbas ? segment->lbas[index] : lba);
}

static int put_block(struct ftl *ftl, uint64_t lba, struct format_entry entry, struct loss loss)
{
	struct map_page *page;
	struct format_entry old;
	int ret = map_make(&ftl->map, lba, &page);

	if (ret)
		return ret;
	old = *map_entry(page, lba);
	if (old.place == entry.place) {
		map_set(page, lba, entry);
		return 0;
	}
	ret = refer(ftl, lba, entry.place);
	if (ret)
		return ret;
	map_set(page, lba, entry);
	loss.tag = tag_of(ftl);
	let_go(ftl, old, lba, &loss);
	return 0;
}

/*
 * Moves a valid block that may be that of `lba`, whose place is not known. The place stays unknown,
 * because the block may be another's. If replay can read the page after all, the entry becomes
 * unknown here.
 */
int apply_carry(struct ftl *ftl, uint64_t lba, uint32_t from, uint32_t to)
{
	struct loss loss = {.tag = tag_of(ftl), .is_move = true};
	struct map_page *page;
	int ret;

	if (!segments_may_have(&ftl->segments, from, lba))
		return 0;
	ret = map_make(&ftl->map, lba, &page);
	if (ret)
		return ret;
	if (!map_is_known(map_entry(page, lba)) || map_entry(page, lba)->place == from) {
		ret = refer(ftl, lba, to);
		if (ret)
			return ret;
		map_set(page, lba, (struct format_entry){.place = FORMAT_UNKNOWN});
	}
	segments_unref(&ftl->segments, from, lba, &loss);
	return 0;
}

/*
 * Drops a reference that `lba` might have had. Replaying this after another record did so must not
 * drop it twice. If replay can read the page after all, one of two things holds. The reference was
 * dropped when `lba` was put or trimmed; or that record was left out, and `lba` still refers to the
 * block.
 */
void apply_release(struct ftl *ftl, uint64_t lba, uint32_t place)
{
	struct segments *segments = &ftl->segments;
	const struct map_page *page = map_find(&ftl->map, lba);

	if (!segments_may_have(segments, place, lba) ||
	    (page && map_entry(page, lba)->place == place))
		return;
	segments_unref(segments, place, lba, &(struct loss){.tag = tag_of(ftl), .is_move = true});
	segments->nr_leaked -= segments->nr_leaked > 0;
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
		let_go(ftl, old, lba + i, &(struct loss){.tag = tag_of(ftl)});
	}
}

static int clone_block(struct ftl *ftl, struct format_entry from, uint64_t source,
		       struct map_page *page, uint64_t target)
{
	struct format_entry old = *map_entry(page, target), new = {0};

	if (from.place == old.place)
		return 0;
	/* Only in replay: the place was known then, and the page was damaged since. */
	if (!map_is_known(&from)) {
		new.place = FORMAT_UNKNOWN;
	} else if (from.place) {
		int ret = segments_ref(&ftl->segments, from.place, target, source);

		if (ret)
			return ret;
		new.place = from.place;
		new.crc = block_crc_convert(target, block_crc_convert(source, from.crc));
	}
	map_set(page, target, new);
	let_go(ftl, old, target, &(struct loss){.tag = tag_of(ftl)});
	return 0;
}

int apply_clone(struct ftl *ftl, uint64_t source, uint64_t target, uint32_t count)
{
	struct map_page *from = map_find(&ftl->map, source), *to;
	int ret;

	if (!from || !from->nr_mapped) {
		apply_trim(ftl, target, count);
		return 0;
	}
	ret = map_make(&ftl->map, target, &to);
	for (uint32_t i = 0; i < count && !ret; i++)
		ret = clone_block(ftl, *map_entry(from, source + i), source + i, to, target + i);
	return ret;
}

/* ---- with the record ---- */

static void check(struct ftl *ftl, int ret)
{
	/*
	 * Memory has run out, so the record could not be applied. The journal is right and the
	 * tables are not, so nothing may be changed any more.
	 */
	if (ret)
		ftl_fail(ftl, ret);
}

void ftl_record_ahead(struct ftl *ftl, uint64_t lba, struct format_entry entry)
{
	struct format_record record = record_make(FORMAT_PUT, lba, entry.place, entry.crc);

	journal_append(&ftl->journal, &record, 1);
}

void ftl_apply_ahead(struct ftl *ftl, uint64_t lba, struct format_entry entry, uint64_t pace)
{
	check(ftl, put_block(ftl, lba, entry, (struct loss){.pace = pace}));
}

void ftl_record_put(struct ftl *ftl, uint64_t lba, struct format_entry entry, uint64_t pace)
{
	ftl_record_ahead(ftl, lba, entry);
	ftl_apply_ahead(ftl, lba, entry, pace);
}

void ftl_record_move(struct ftl *ftl, uint64_t lba, struct format_entry entry)
{
	struct format_record record = record_make(FORMAT_MOVE, lba, entry.place, entry.crc);

	journal_append(&ftl->journal, &record, 1);
	check(ftl, put_block(ftl, lba, entry, (struct loss){.is_move = true}));
}

void ftl_record_carry(struct ftl *ftl, uint64_t lba, uint32_t from, uint32_t to)
{
	struct format_record record = record_make(FORMAT_CARRY, lba, to, from);

	journal_append(&ftl->journal, &record, 1);
	check(ftl, apply_carry(ftl, lba, from, to));
}

void ftl_record_release(struct ftl *ftl, uint64_t lba, uint32_t place)
{
	struct format_record record = record_make(FORMAT_RELEASE, lba, place, 0);

	journal_append(&ftl->journal, &record, 1);
	apply_release(ftl, lba, place);
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
