/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads and replays the journal up to its first gap.
 *
 * The last block found says how far the journal had been flushed when it was written. Records
 * before that are true. The data of later records may be missing, so replay reads it. It leaves out
 * a record whose data is not there; the record's lba keeps its old block. (All records whose write
 * failed are among the later ones, see ahead.c.) It does no harm to leave a record out, nor to
 * apply one that a later record voids. A place is written again only when every record that made it
 * invalid was durable. So each lba that referred to the place has a later record, which replay
 * finds. The journal's block that records a segment's opening says that those records were flushed,
 * so none of them is left out.
 *
 * If the newest checkpoint's tables are damaged, replay begins at the one before, and goes through the newest, with which another epoch may
 * begin. Blocks behind it do not know that records before it were void, whose data was never written: with the checkpoint these
 * counted for nothing. So only what blocks before it say is true. Replay looks at the rest again. It gets the result that it would have had then, as
 * long as no segment that a block is in was opened since.
 *
 * If the last record of a block was left out, a clone of it is left out too, for that block.
 * Otherwise the target would get a value that the source never had. So a block is marked as lost
 * from a record that is left out until the next one that is not.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "flash/device/blocking.h"
#include "flash/ftl_private.h"
#include "flash/log/apply.h"
#include "flash/log/journal.h"
#include "flash/log/replay.h"
#include "flash/log/verify.h"
#include "flash/map/map.h"
#include "flash/map/records.h"
#include "flash/map/segments.h"

#define BLOCKS_AT_ONCE 256U
#define LOADS	       256U

struct journal_bytes {
	struct format_journal_header header;
	struct format_record records[FORMAT_JOURNAL_RECORDS];
};

struct replay {
	struct ftl *ftl;
	uint64_t start, end; /* of the journal, by sequence */
	uint64_t flushed;    /* records in blocks before this are true */
	/* The newest checkpoint, if its tables are damaged, and how far the journal before it was flushed; else `start`, both. */
	uint64_t joint, flushed_before;
	struct journal_bytes *chunk;
	struct verify_block *suspects; /* blocks of data named from there on, in order */
	size_t nr_suspects, room_suspects, next_suspect;
	size_t nr_before; /* of them: before the joint */
	unsigned nr_loading;
	int result;
	bool has_lost; /* some block is marked */
};

static int damaged(const char *what)
{
	return error_fail(-EBADMSG, "open a flash layer: its journal is damaged: %s", what);
}

/* ---- reading the ring ---- */

/*
 * Reads blocks from `sequence` on, up to the ring's end. Returns how many, or the device's error.
 */
static int read_chunk(struct replay *replay, uint64_t sequence, uint64_t nr_max)
{
	const struct format_superblock *layout = &replay->ftl->layout;
	uint64_t at = sequence % layout->journal_blocks, nr = layout->journal_blocks - at;
	int ret;

	if (nr > nr_max)
		nr = nr_max;
	if (nr > BLOCKS_AT_ONCE)
		nr = BLOCKS_AT_ONCE;
	ret = blocking_read(replay->ftl->device, layout->journal_at + at, replay->chunk, nr);
	/* The block that cannot be read may not be needed: try the first alone. */
	if (ret && nr > 1) {
		nr = 1;
		ret = blocking_read(replay->ftl->device, layout->journal_at + at, replay->chunk,
				    nr);
	}
	return ret ? error_fail(ret, "open a flash layer: its journal cannot be read: %s",
				afar_strerror(ret))
		   : (int)nr;
}

static bool is_whole(uint32_t seed, struct journal_bytes *block)
{
	uint32_t crc = block->header.crc, made;

	block->header.crc = 0;
	made = checksum_crc32c_seeded(seed, block, sizeof(*block));
	block->header.crc = crc;
	return made == crc && block->header.nr_records <= FORMAT_JOURNAL_RECORDS;
}

/*
 * Checks that the gap at the end comes from a crash, so that no flushed block is missing. Then no
 * block behind the gap says that more was flushed, and the block at the gap does not say that a
 * journal begins there. Otherwise the gap is damage, or the newest anchor is lost, whose journal
 * begins at the gap. Looks at later blocks as far as there are any.
 */
static int check_behind(struct replay *replay)
{
	uint64_t most = replay->start + replay->ftl->layout.journal_blocks, from = replay->end;
	bool are_later = true;

	while (from < most && are_later) {
		int nr = read_chunk(replay, from, most - from);

		if (nr < 0) {
			from++;
			continue;
		}
		are_later = false;
		for (int i = 0; i < nr; i++, from++) {
			const struct format_journal_header *header = &replay->chunk[i].header;

			if (!is_whole(replay->ftl->journal.seed, &replay->chunk[i]) ||
			    header->sequence < from)
				continue;
			are_later = true;
			if (header->flushed > replay->end || header->sequence >= most ||
			    (from == replay->end && header->flushed == from))
				return damaged("what was synced is not there, or the newest "
					       "anchor is lost");
		}
	}
	return 0;
}

/* Finds where blocks of the epoch end, from `end` up to `most`, and how far they say that the journal was flushed. */
static int scan_epoch(struct replay *replay, uint64_t epoch, uint64_t most)
{
	replay->flushed = replay->end;
	while (replay->end < most) {
		int nr = read_chunk(replay, replay->end, most - replay->end);

		if (nr < 0)
			return nr;
		for (int i = 0; i < nr; i++) {
			struct journal_bytes *block = &replay->chunk[i];
			const struct format_journal_header *header = &block->header;

			if (!is_whole(replay->ftl->journal.seed, block))
				return 0;
			if (header->sequence != replay->end || header->epoch != epoch)
				return 0;
			replay->end++;
			if (header->flushed > replay->flushed)
				replay->flushed = header->flushed;
		}
	}
	return 0;
}

/*
 * The newest anchor may be lost, and with it what it says of the epoch. Each recovery begins one, and its first block says that everything
 * before was flushed: that recovery's checkpoint had been committed.
 */
static void find_epoch(struct replay *replay, struct format_anchor *newest)
{
	struct journal_bytes *block = &replay->chunk[0];
	int nr = read_chunk(replay, replay->end, 1);

	/* check_behind() has the say about a block that cannot be read. */
	if (nr < 1 || !is_whole(replay->ftl->journal.seed, block) ||
	    block->header.sequence != replay->end || block->header.flushed != replay->end)
		return;
	*newest =
		(struct format_anchor){.generation = replay->ftl->checkpoint.anchor.generation + 1,
				       .epoch = block->header.epoch,
				       .sequence = replay->end};
}

/* Finds the journal's end, and how far it was flushed. */
static int scan(struct replay *replay)
{
	const struct format_anchor *anchor = &replay->ftl->checkpoint.anchor;
	struct format_anchor *newest = &replay->ftl->recover_through;
	uint64_t most = replay->start + replay->ftl->layout.journal_blocks;
	int ret;

	replay->end = replay->joint = replay->flushed_before = replay->start;
	ret = scan_epoch(replay, anchor->epoch,
			 newest->generation && newest->sequence < most ? newest->sequence : most);
	if (!ret && !newest->generation && replay->ftl->is_alone && replay->end < most)
		find_epoch(replay, newest);
	if (ret || !newest->generation)
		return ret;
	if (replay->end < newest->sequence)
		return error_fail(-EBADMSG, "open a flash layer: its tables are damaged, and the "
					    "journal does not have all since the ones before");
	replay->joint = newest->sequence;
	replay->flushed_before = replay->flushed;
	return scan_epoch(replay, newest->epoch, most);
}

static bool is_flushed(const struct replay *replay, uint64_t sequence)
{
	return sequence < (sequence < replay->joint ? replay->flushed_before : replay->flushed);
}

/* Calls the function for all blocks of [from, end), a chunk at a time. */
static int walk(struct replay *replay, uint64_t from, uint64_t end,
		int (*chunk)(struct replay *replay, uint64_t sequence, int nr))
{
	while (from < end) {
		int nr = read_chunk(replay, from, end - from), ret;

		if (nr < 0)
			return nr;
		ret = chunk(replay, from, nr);
		if (ret)
			return ret;
		from += (uint64_t)nr;
	}
	return 0;
}

static enum format_record_type type_of(const struct format_record *record)
{
	return (enum format_record_type)(record->subject >> FORMAT_LBA_BITS);
}

static uint64_t subject_of(const struct format_record *record)
{
	return record->subject & FORMAT_LBA_MASK;
}

static bool is_data(const struct format_record *record)
{
	return type_of(record) == FORMAT_PUT || type_of(record) == FORMAT_MOVE;
}

static uint32_t slots_of(const struct format_record *record)
{
	switch (type_of(record)) {
	case FORMAT_CLONE:
		return 2;
	case FORMAT_KEEP:
		return 1 + FORMAT_KEEP_SLOTS;
	default:
		return 1;
	}
}

/* Returns the record at slot `*at` of the block, and moves `*at` behind it; NULL: no more. */
static const struct format_record *next_record(const struct journal_bytes *block, uint32_t *at)
{
	const struct format_record *record = &block->records[*at];

	if (*at >= block->header.nr_records)
		return NULL;
	*at += slots_of(record);
	return *at > block->header.nr_records ? NULL : record;
}

/* ---- whose data is not sure to be there ---- */

static int gather_chunk(struct replay *replay, uint64_t sequence, int nr)
{
	(void)sequence;
	for (int i = 0; i < nr; i++) {
		const struct format_record *record;
		uint32_t at = 0;

		if (replay->nr_suspects + FORMAT_JOURNAL_RECORDS > replay->room_suspects) {
			size_t room = 2 * replay->room_suspects + FORMAT_JOURNAL_RECORDS;
			void *more = realloc(replay->suspects, room * sizeof(*replay->suspects));

			if (!more)
				return error_code(-ENOMEM);
			replay->suspects = more;
			replay->room_suspects = room;
		}
		while ((record = next_record(&replay->chunk[i], &at))) {
			if (!is_data(record))
				continue;
			if (!segments_is_place(&replay->ftl->segments, record->place))
				return damaged("a place");
			replay->suspects[replay->nr_suspects++] =
				(struct verify_block){.lba = subject_of(record),
						      .place = record->place,
						      .crc = record->crc};
		}
	}
	return 0;
}

/* ---- replay ---- */

struct load {
	struct ftl_waiter waiter;
	struct replay *replay;
	struct map_page *page;
};

/* Gives up a damaged page: only entries that the journal changes will be known. */
static void loaded(struct ftl_waiter *waiter, int result)
{
	struct load *load = caa_container_of(waiter, struct load, waiter);
	struct replay *replay = load->replay;

	replay->nr_loading--;
	if (map_is_damage(result))
		result = map_give_up(load->page, result);
	if (result && !replay->result)
		replay->result =
			error_fail(result, "open a flash layer: its map cannot be read: %s",
				   afar_strerror(result));
}

static int wait_loads(struct replay *replay)
{
	while (replay->nr_loading) {
		int ret = flash_device_poll(replay->ftl->device, -1);

		if (ret < 0)
			return ret;
	}
	return replay->result;
}

/* Reads the pages of the map that the chunk's records change, many at a time. */
static int load_pages(struct replay *replay, int nr)
{
	struct load loads[LOADS];
	unsigned nr_used = 0;

	for (int i = 0; i < nr; i++) {
		for (uint32_t j = 0; j < replay->chunk[i].header.nr_records; j++) {
			const struct format_record *record = &replay->chunk[i].records[j];
			struct map_page *page;

			/*
			 * Slots that continue a record are taken for records here. An extra page
			 * does no harm.
			 */
			page = map_find(&replay->ftl->map, subject_of(record));
			if (!page || page->data)
				continue;
			loads[nr_used] = (struct load){
				.waiter.ready = loaded, .replay = replay, .page = page};
			replay->nr_loading++;
			map_load(page, &loads[nr_used].waiter);
			if (++nr_used == LOADS) {
				int ret = wait_loads(replay);

				if (ret)
					return ret;
				nr_used = 0;
			}
		}
	}
	return wait_loads(replay);
}

void recover_set_free(struct ftl *ftl, struct segment *segment)
{
	struct segments *segments = &ftl->segments;

	segment_drop_list(segments, segment);
	if (segment->state == FTL_SEGMENT_OPEN)
		segment_set_state(segments, segment, FTL_SEGMENT_CLOSING);
	if (segment->state == FTL_SEGMENT_CLOSING)
		segment_set_state(segments, segment, FTL_SEGMENT_FULL);
	if (segment->state == FTL_SEGMENT_FULL)
		segment_retire(segments, segment, 0);
	if (segment->state == FTL_SEGMENT_PENDING)
		segment_set_state(segments, segment, FTL_SEGMENT_FREE);
}

static int replay_open(struct ftl *ftl, const struct format_record *record)
{
	uint64_t number = subject_of(record);
	struct segment *segment;

	if (number >= ftl->segments.nr || record->place >= FTL_STREAMS_MAX)
		return damaged("a segment");
	segment = &ftl->segments.at[number];
	/*
	 * Damaged pages hide which lbas referred to its blocks. The opening says that none does
	 * now.
	 */
	if (segment->valid && ftl->map.is_lossy)
		segment_forget(&ftl->segments, segment);
	if (segment->valid)
		return damaged("a segment is opened that is in use");
	segment_forgive(&ftl->segments, segment); /* as whoever opened it had */
	recover_set_free(ftl, segment);
	return segment_begin(&ftl->segments, segment, record->place);
}

/* True: what is in this segment was not sure before the joint, and is about to go. */
static bool is_looked_at_again(const struct replay *replay, uint64_t number)
{
	struct segments *segments = &replay->ftl->segments;

	if (number >= segments->nr)
		return false;
	/* Once those are replayed, what follows is behind the joint. */
	for (size_t i = 0; i < replay->nr_before && replay->next_suspect >= replay->nr_before; i++)
		if (segment_of(segments, replay->suspects[i].place) == &segments->at[number])
			return true;
	return false;
}

static int replay_worn(struct ftl *ftl, const struct format_record *record)
{
	struct segment *segment;

	if (subject_of(record) >= ftl->segments.nr)
		return damaged("a segment");
	segment = &ftl->segments.at[subject_of(record)];
	if (!segment->is_worn && segment->state != FTL_SEGMENT_BAD)
		ftl->segments.nr_worn++;
	segment->is_worn = true;
	return 0;
}

/* ---- blocks whose last record was left out ---- */

static bool is_lost(const struct map_page *page, uint64_t lba)
{
	uint32_t index = ftl_lba_block(lba) % FORMAT_PAGE_ENTRIES;

	return page && page->lost[index / 64] >> index % 64 & 1;
}

static int set_lost(struct replay *replay, uint64_t lba)
{
	uint32_t index = ftl_lba_block(lba) % FORMAT_PAGE_ENTRIES;
	struct map_page *page;
	int ret = map_make(&replay->ftl->map, lba, &page);

	replay->has_lost = true;
	if (!ret)
		page->lost[index / 64] |= UINT64_C(1) << index % 64;
	return ret;
}

static void set_found(struct replay *replay, uint64_t lba, uint32_t count)
{
	struct map_page *page = replay->has_lost ? map_find(&replay->ftl->map, lba) : NULL;

	for (uint32_t i = 0; page && i < count; i++) {
		uint32_t index = ftl_lba_block(lba + i) % FORMAT_PAGE_ENTRIES;

		page->lost[index / 64] &= ~(UINT64_C(1) << index % 64);
	}
}

/* ---- records ---- */

static int replay_clone(struct replay *replay, uint64_t source, uint64_t target, uint32_t count)
{
	struct ftl *ftl = replay->ftl;
	int ret = 0;

	for (uint32_t i = 0; i < count && !ret; i++) {
		if (is_lost(map_find(&ftl->map, source + i), source + i)) {
			ret = set_lost(replay, target + i);
			continue;
		}
		set_found(replay, target + i, 1);
		ret = apply_clone(ftl, source + i, target + i, 1);
	}
	return ret;
}

/* Notes that the place was written, in a segment that is open. */
static int take_place(struct segments *segments, uint32_t place)
{
	struct segment *segment;
	uint32_t index;

	if (!segments_is_place(segments, place))
		return damaged("a place");
	segment = segment_of(segments, place);
	index = segment_index(segments, place);
	if (!segment->lbas)
		return damaged("a block in a segment that is not open");
	if (index >= segment->next) {
		/* Writes of the blocks between had not ended: no lba refers to them. */
		memset(&segment->lbas[segment->next], 0,
		       (index + 1 - segment->next) * sizeof(uint64_t));
		segment->next = index + 1;
	}
	return 0;
}

static int replay_put(struct replay *replay, const struct format_record *record, bool is_sure)
{
	struct ftl *ftl = replay->ftl;
	uint64_t lba = subject_of(record);
	int ret = take_place(&ftl->segments, record->place);

	if (ret)
		return ret;
	if (type_of(record) == FORMAT_PUT)
		ftl->segments.clock++;
	if (!is_sure) {
		ftl->counts.verified_records++;
		if (!replay->suspects[replay->next_suspect++].is_there) {
			ftl->counts.dropped_records++;
			/* The block that the cleaner moved is still at its old place. */
			return type_of(record) == FORMAT_MOVE ? 0 : set_lost(replay, lba);
		}
	}
	set_found(replay, lba, 1);
	return apply_put(ftl, lba, (struct format_entry){record->place, record->crc});
}

/* Replays a move of a block that may be the lba's. Its data is not verified: without a known place
 * it cannot be read. */
static int replay_carry(struct ftl *ftl, const struct format_record *record)
{
	int ret;

	if (!segments_is_place(&ftl->segments, record->crc))
		return damaged("a place");
	ret = take_place(&ftl->segments, record->place);
	return ret ? ret : apply_carry(ftl, subject_of(record), record->crc, record->place);
}

static int replay_release(struct ftl *ftl, const struct format_record *record)
{
	if (!segments_is_place(&ftl->segments, record->place))
		return damaged("a place");
	apply_release(ftl, subject_of(record), record->place);
	return 0;
}

static bool is_in_page(uint64_t lba, uint32_t count)
{
	return count <= FORMAT_PAGE_ENTRIES && lba + count <= map_page_end(lba);
}

static int replay_record(struct replay *replay, const struct format_record *record, bool is_sure)
{
	struct ftl *ftl = replay->ftl;
	uint64_t subject = subject_of(record);
	struct ftl_record_change change = {.id = (uint32_t)subject};

	switch (type_of(record)) {
	case FORMAT_PUT:
	case FORMAT_MOVE:
		return replay_put(replay, record, is_sure);
	case FORMAT_TRIM:
		if (!is_in_page(subject, record->place))
			return damaged("a trim");
		set_found(replay, subject, record->place);
		apply_trim(ftl, subject, record->place);
		return 0;
	case FORMAT_CLONE:
		if (!is_in_page(subject, record->place) ||
		    !is_in_page(subject_of(record + 1), record->place))
			return damaged("a clone");
		return replay_clone(replay, subject, subject_of(record + 1), record->place);
	case FORMAT_OPEN:
		return is_looked_at_again(replay, subject)
			       ? damaged("what was not sure before the last checkpoint is "
					 "overwritten")
			       : replay_open(ftl, record);
	case FORMAT_WORN:
		return replay_worn(ftl, record);
	case FORMAT_CARRY:
		return replay_carry(ftl, record);
	case FORMAT_RELEASE:
		return replay_release(ftl, record);
	case FORMAT_REMOVE:
		change.is_removal = true;
		return records_apply(ftl->records, &change);
	case FORMAT_KEEP:
		memcpy(change.data, record + 1, sizeof(change.data));
		return records_apply(ftl->records, &change);
	default:
		return damaged("a record of no known kind");
	}
}

/*
 * Prefetches the memory that the block's records will change, so that the cache misses overlap.
 * First come the entries of the map, then the segments that these refer to.
 */
static void prefetch(const struct ftl *ftl, const struct journal_bytes *block)
{
	const struct segments *segments = &ftl->segments;

	for (unsigned pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < block->header.nr_records; i++) {
			uint64_t lba = subject_of(&block->records[i]);
			const struct map_page *page = map_find(&ftl->map, lba);
			uint32_t place;

			if (!page || !page->data)
				continue;
			if (pass == 0) {
				__builtin_prefetch(map_entry(page, lba), 1);
				continue;
			}
			place = map_entry(page, lba)->place;
			if (!segments_is_place(segments, place))
				continue;
			place = (place - segments->first) / segments->segment_blocks;
			__builtin_prefetch(&segments->at[place], 1);
			__builtin_prefetch(
				&segments->valid_bits[(uint64_t)place * segments->nr_words], 1);
		}
	}
}

static int replay_chunk(struct replay *replay, uint64_t sequence, int nr)
{
	int ret = load_pages(replay, nr);

	for (int i = 0; i < nr && !ret; i++) {
		bool is_sure = is_flushed(replay, sequence + (uint64_t)i);
		const struct format_record *record;
		uint32_t at = 0;

		prefetch(replay->ftl, &replay->chunk[i]);
		while (!ret && (record = next_record(&replay->chunk[i], &at))) {
			ret = replay_record(replay, record, is_sure);
			replay->ftl->counts.replayed_records++;
			if (!ret && replay->ftl->segments.is_damaged)
				ret = damaged("what it changes is not what the map says");
		}
	}
	replay->ftl->counts.replayed_blocks += (uint64_t)nr;
	return ret;
}

static int replay_journal(struct replay *replay)
{
	int ret = scan(replay);

	if (!ret)
		ret = check_behind(replay);
	if (!ret)
		ret = walk(replay, replay->flushed_before, replay->joint, gather_chunk);
	replay->nr_before = replay->nr_suspects;
	if (!ret)
		ret = walk(replay, replay->flushed, replay->end, gather_chunk);
	if (!ret)
		ret = verify_blocks(replay->ftl->device, replay->suspects, replay->nr_suspects);
	if (!ret)
		ret = walk(replay, replay->start, replay->end, replay_chunk);
	return ret;
}

int recover_replay(struct ftl *ftl, uint64_t *end)
{
	struct replay replay = {.ftl = ftl, .start = ftl->checkpoint.anchor.sequence};
	int ret;

	replay.chunk = aligned_alloc(FORMAT_BLOCK, BLOCKS_AT_ONCE * FORMAT_BLOCK);
	journal_begin(&ftl->journal, 0, replay.start);
	ret = replay.chunk ? replay_journal(&replay) : error_code(-ENOMEM);
	free(replay.suspects);
	free(replay.chunk);
	*end = replay.end;
	return ret;
}
