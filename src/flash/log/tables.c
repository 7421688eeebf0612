/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of a checkpoint: all that it writes but pages of the map. They are encoded at once
 * when it begins, and decoded when a layer is opened.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "flash/device/superblock.h"
#include "flash/ftl_private.h"
#include "flash/log/checkpoint.h"
#include "flash/map/map.h"
#include "flash/map/records.h"
#include "flash/map/segments.h"

/* A position in the tables' memory. `is_short`: the memory ended too early. */
struct cursor {
	char *at;
	uint64_t left;
	bool is_short;
};

static void put(struct cursor *cursor, const void *from, size_t size)
{
	if (cursor->is_short || cursor->left < size) {
		cursor->is_short = true;
		return;
	}
	memcpy(cursor->at, from, size);
	cursor->at += size;
	cursor->left -= size;
}

static void take(struct cursor *cursor, void *to, size_t size)
{
	if (cursor->is_short || cursor->left < size) {
		cursor->is_short = true;
		memset(to, 0, size);
		return;
	}
	memcpy(to, cursor->at, size);
	cursor->at += size;
	cursor->left -= size;
}

/* ---- writing ---- */

static void put_segments(struct ftl *ftl, struct cursor *cursor)
{
	const struct segments *segments = &ftl->segments;

	for (uint32_t i = 0; i < segments->nr; i++) {
		const struct segment *segment = &segments->at[i];
		struct format_table_segment entry = {.opened = segment->opened,
						     .began = segment->began,
						     .state = segment->state,
						     .stream = segment->stream,
						     .is_worn = segment->is_worn};

		put(cursor, &entry, sizeof(entry));
	}
	put(cursor, segments->valid_bits,
	    (size_t)segments->nr * segments->nr_words * sizeof(uint64_t));
}

static uint32_t put_pages(struct ftl *ftl, struct cursor *cursor, uint64_t generation)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < ftl->map.nr_slots; i++) {
		const struct map_slot *slot = &ftl->map.slots[i];
		bool is_written = slot->page && slot->page->is_frozen;
		unsigned copy = is_written ? !slot->copy : slot->copy;
		struct format_table_page entry;

		if (!slot->page || (!is_written && !slot->generation))
			continue;
		entry = (struct format_table_page){
			.range = slot->page->range,
			.page = slot->page->page | (slot->is_damaged ? FORMAT_PAGE_DAMAGED : 0),
			.slot = i << 1 | copy,
			.generation = is_written ? (uint32_t)generation : slot->generation};
		put(cursor, &entry, sizeof(entry));
		nr++;
	}
	return nr;
}

static uint32_t put_records(struct ftl *ftl, struct cursor *cursor)
{
	uint32_t nr = records_nr(ftl->records);

	for (uint32_t i = 0; i < nr; i++) {
		struct format_table_record entry;

		records_at(ftl->records, i, &entry);
		put(cursor, &entry, sizeof(entry));
	}
	return nr;
}

static uint32_t put_shares(struct ftl *ftl, struct cursor *cursor)
{
	const struct segments *segments = &ftl->segments;
	uint32_t nr = 0;

	for (uint32_t i = 0; i < segments->nr && nr < segments->nr_shares; i++) {
		const struct segment *segment = &segments->at[i];

		for (uint32_t j = 0; j < segment->nr_shares; j++) {
			struct format_table_share entry = {
				.lba = segment->shares[j].lba,
				.place =
					segment_place(segments, segment, segment->shares[j].index)};

			put(cursor, &entry, sizeof(entry));
			nr++;
		}
	}
	return nr;
}

static uint32_t put_lists(struct ftl *ftl, struct cursor *cursor)
{
	const struct segments *segments = &ftl->segments;
	uint32_t nr = 0;

	for (uint32_t i = 0; i < segments->nr && nr < segments->nr_lists; i++) {
		const struct segment *segment = &segments->at[i];
		struct format_table_list entry = {.segment = i, .next = segment->next};

		if (!segment->lbas)
			continue;
		put(cursor, &entry, sizeof(entry));
		put(cursor, segment->lbas, segment->next * sizeof(uint64_t));
		nr++;
	}
	return nr;
}

uint64_t tables_encode(struct ftl *ftl, uint64_t generation)
{
	uint64_t size = (uint64_t)ftl->layout.tables_blocks * FORMAT_BLOCK;
	struct cursor cursor = {.at = ftl->checkpoint.tables, .left = size};
	struct format_tables head = {.generation = generation,
				     .nr_opened = ftl->segments.nr_opened,
				     .clock = ftl->segments.clock,
				     .nr_leaked = ftl->segments.nr_leaked};

	put(&cursor, &head, sizeof(head));
	put_segments(ftl, &cursor);
	head.nr_pages = put_pages(ftl, &cursor, generation);
	head.nr_records = put_records(ftl, &cursor);
	head.nr_shares = put_shares(ftl, &cursor);
	head.nr_lists = put_lists(ftl, &cursor);
	memcpy(ftl->checkpoint.tables, &head, sizeof(head));
	return cursor.is_short ? 0 : size - cursor.left;
}

/* ---- reading ---- */

static int damaged(const char *what)
{
	return error_fail(-EBADMSG, "open a flash layer: its tables are damaged: %s", what);
}

/*
 * Decodes a segment. PENDING, DISCARD and CLEANING segments become FULL; recovery frees those
 * without a valid block. take_lists() gives segments their lbas later.
 */
static int take_segment(struct ftl *ftl, struct segment *segment,
			const struct format_table_segment *entry)
{
	struct segments *segments = &ftl->segments;
	const uint64_t *bits = segment_bits(segments, segment);

	if (entry->state >= FTL_NR_SEGMENT_STATES || entry->stream >= FTL_STREAMS_MAX)
		return damaged("a segment's state");
	for (uint32_t i = segments->data_blocks; i < segments->nr_words * 64; i++) {
		if (segment_is_valid(segments, segment, i))
			return damaged("a segment has more blocks than there can be");
	}
	segment->opened = entry->opened;
	segment->began = entry->began;
	segment->stream = entry->stream;
	segment->is_worn = entry->is_worn;
	for (uint32_t i = 0; i < segments->nr_words; i++)
		segment->valid += (uint32_t)__builtin_popcountll(bits[i]);
	if (segment->valid > segments->data_blocks)
		return damaged("more is valid than a segment holds");
	segments->used += segment->valid;
	if (entry->state == FTL_SEGMENT_FREE)
		return segment->valid ? damaged("a free segment holds something") : 0;
	segments->nr_worn += segment->is_worn && entry->state != FTL_SEGMENT_BAD;
	cds_list_del(&segment->node);
	segments->nr_by_state[FTL_SEGMENT_FREE]--;
	segment->state = entry->state == FTL_SEGMENT_OPEN || entry->state == FTL_SEGMENT_CLOSING ||
					 entry->state == FTL_SEGMENT_BAD
				 ? entry->state
				 : FTL_SEGMENT_FULL;
	segments->nr_by_state[segment->state]++;
	return 0;
}

static int take_segments(struct ftl *ftl, struct cursor *cursor)
{
	struct segments *segments = &ftl->segments;
	struct cursor entries = *cursor;
	size_t bits = (size_t)segments->nr * segments->nr_words * sizeof(uint64_t);
	int ret = 0;

	if (cursor->left < segments->nr * sizeof(struct format_table_segment))
		return damaged("they end too early");
	cursor->at += segments->nr * sizeof(struct format_table_segment);
	cursor->left -= segments->nr * sizeof(struct format_table_segment);
	take(cursor, segments->valid_bits, bits);
	for (uint32_t i = 0; i < segments->nr && !ret; i++) {
		struct format_table_segment entry;

		take(&entries, &entry, sizeof(entry));
		ret = take_segment(ftl, &segments->at[i], &entry);
	}
	return ret;
}

static int take_pages(struct ftl *ftl, struct cursor *cursor, uint32_t nr)
{
	int ret = 0;

	for (uint32_t i = 0; i < nr && !ret && !cursor->is_short; i++) {
		struct format_table_page entry;

		take(cursor, &entry, sizeof(entry));
		ret = cursor->is_short ? 0 : map_restore(&ftl->map, &entry);
	}
	return ret;
}

static int take_records(struct ftl *ftl, struct cursor *cursor, uint32_t nr)
{
	int ret = 0;

	for (uint32_t i = 0; i < nr && !ret && !cursor->is_short; i++) {
		struct format_table_record entry;
		struct ftl_record_change change = {0};

		take(cursor, &entry, sizeof(entry));
		change.id = entry.id;
		memcpy(change.data, entry.data, sizeof(change.data));
		ret = records_apply(ftl->records, &change);
	}
	return ret;
}

static int take_shares(struct ftl *ftl, struct cursor *cursor, uint32_t nr)
{
	struct segments *segments = &ftl->segments;
	int ret = 0;

	for (uint32_t i = 0; i < nr && !ret && !cursor->is_short; i++) {
		struct format_table_share entry;

		take(cursor, &entry, sizeof(entry));
		if (!segments_is_place(segments, entry.place))
			return damaged("a shared block");
		ret = segment_add_share(segments, segment_of(segments, entry.place),
					segment_index(segments, entry.place), entry.lba);
	}
	return ret;
}

static int take_lists(struct ftl *ftl, struct cursor *cursor, uint32_t nr)
{
	struct segments *segments = &ftl->segments;

	for (uint32_t i = 0; i < nr && !cursor->is_short; i++) {
		struct format_table_list entry;
		struct segment *segment;
		int ret;

		take(cursor, &entry, sizeof(entry));
		if (entry.segment >= segments->nr || entry.next > segments->data_blocks)
			return damaged("an open segment");
		segment = &segments->at[entry.segment];
		ret = segment_give_list(segments, segment);
		if (ret)
			return ret;
		segment->next = entry.next;
		take(cursor, segment->lbas, entry.next * sizeof(uint64_t));
	}
	return 0;
}

/* Checks that each open segment has a list of lbas, and no valid block behind the list's end. */
static int check_open(const struct ftl *ftl)
{
	const struct segments *segments = &ftl->segments;

	for (uint32_t n = 0; n < segments->nr; n++) {
		const struct segment *segment = &segments->at[n];

		if (segment->state != FTL_SEGMENT_OPEN && segment->state != FTL_SEGMENT_CLOSING)
			continue;
		if (!segment->lbas)
			return damaged("an open segment is not listed");
		for (uint32_t i = segment->next; i < segments->data_blocks; i++) {
			if (segment_is_valid(segments, segment, i))
				return damaged("an open segment");
		}
	}
	return 0;
}

int tables_decode(struct ftl *ftl, uint64_t length)
{
	struct cursor cursor = {.at = ftl->checkpoint.tables, .left = length};
	struct format_tables head;
	int ret;

	take(&cursor, &head, sizeof(head));
	ftl->segments.nr_opened = head.nr_opened;
	ftl->segments.clock = head.clock;
	ftl->segments.nr_leaked = head.nr_leaked;
	ftl->reclaim.nr_before = head.nr_leaked;
	ret = take_segments(ftl, &cursor);
	if (!ret)
		ret = take_pages(ftl, &cursor, head.nr_pages);
	if (!ret)
		ret = take_records(ftl, &cursor, head.nr_records);
	if (!ret)
		ret = take_shares(ftl, &cursor, head.nr_shares);
	if (!ret)
		ret = take_lists(ftl, &cursor, head.nr_lists);
	if (!ret)
		ret = check_open(ftl);
	if (!ret && cursor.is_short)
		ret = damaged("they end too early");
	return ret;
}
