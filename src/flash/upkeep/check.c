/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks a device, area by area; see check.h. This reads areas at fixed places directly. For the
 * others it opens the layer read-only, which says where they are.
 */

#include "flash/upkeep/check.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "flash/device/blocking.h"
#include "flash/device/superblock.h"
#include "flash/ftl_private.h"
#include "flash/map/map.h"
#include "flash/map/segments.h"
#include "flash/space/space.h"
#include "flash/upkeep/scrub.h"

#define DATA_DEPTH 16U

struct check {
	struct flash_device *device;
	const struct check_options *options;
	struct check_report *report;
	struct format_superblock layout;
	struct format_anchor anchor;
	uint32_t seed; /* of the journal's and summaries' checksums */
	struct ftl *ftl;
	void *block; /* aligned memory of `nr_blocks` blocks, enough for a summary */
	size_t nr_blocks;
};

const char *check_area_name(enum check_area area)
{
	static const char *const names[CHECK_NR_AREAS] = {
		[CHECK_SUPERBLOCK] = "superblock",
		[CHECK_ANCHOR] = "anchor",
		[CHECK_JOURNAL] = "journal",
		[CHECK_RECOVERY] = "recovery",
		[CHECK_MAP] = "map",
		[CHECK_SUMMARY] = "summary",
		[CHECK_COUNTS] = "counts",
		[CHECK_RANGES] = "ranges",
		[CHECK_DATA] = "data",
	};

	return names[area];
}

__attribute__((format(printf, 4, 5))) static void finding(struct check *check, enum check_area area,
							  uint64_t at, const char *format, ...)
{
	char what[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	check->report->nr_findings[area]++;
	check->report->nr_all++;
	check->options->finding(check->options->context, area, at, what);
}

static bool is_cancelled(const struct check *check)
{
	return check->options->is_cancelled &&
	       check->options->is_cancelled(check->options->context);
}

/* ---- fixed places */

/* Checks both superblocks. One must be whole, because the rest of the check needs the layout. */
static int check_superblocks(struct check *check)
{
	struct format_superblock first, copy;
	uint64_t last;
	int ret = superblock_read(check->device, &check->layout);

	check->report->nr_examined[CHECK_SUPERBLOCK] = 2;
	if (ret)
		return ret;
	last = check->layout.nr_blocks - 1;
	if (superblock_read_at(check->device, 0, &first))
		finding(check, CHECK_SUPERBLOCK, 0, "the superblock is damaged; its copy is whole");
	else if (superblock_read_at(check->device, last, &copy))
		finding(check, CHECK_SUPERBLOCK, last, "the superblock's copy is damaged");
	else if (memcmp(&first, &copy, sizeof(first)) != 0)
		finding(check, CHECK_SUPERBLOCK, last, "the superblock's copy is another's");
	return 0;
}

static int check_anchors(struct check *check)
{
	struct format_anchor anchor;
	int newest = anchor_read(check->device, &check->layout, &check->anchor);

	check->report->nr_examined[CHECK_ANCHOR] = 2;
	if (newest) {
		finding(check, CHECK_ANCHOR, anchor_at(0), "neither of the two is whole");
		return newest;
	}
	/* An anchor lies in one sector, which is written wholly or not at all, so power that goes leaves the old one. */
	for (uint64_t copy = 0; copy < 2; copy++) {
		int ret = anchor_read_at(check->device, &check->layout, copy, &anchor);

		if (ret && ret != -EBADMSG)
			finding(check, CHECK_ANCHOR, anchor_at(copy), "it cannot be read: %s",
				afar_strerror(ret));
		else if (ret && check->anchor.generation > 1) /* else there was no other one yet */
			finding(check, CHECK_ANCHOR, anchor_at(copy),
				"it is damaged; the other one serves");
	}
	return 0;
}

/* Checks that the tables that the newest anchor names are whole. If they are not, those before serve. */
static void check_tables(struct check *check)
{
	uint64_t at = tables_at(&check->layout, check->anchor.generation);
	void *tables =
		aligned_alloc(FORMAT_BLOCK, (size_t)check->layout.tables_blocks * FORMAT_BLOCK);

	if (tables && tables_read(check->device, &check->layout, &check->anchor, tables))
		finding(check, CHECK_RECOVERY, at,
			"the last checkpoint's tables are damaged; those before serve, with the "
			"journal");
	free(tables);
}

/* Reads block `sequence` of the journal. False: it is damaged, or another block is there. */
static bool read_journal(struct check *check, uint64_t sequence,
			 struct format_journal_header *header)
{
	uint64_t at = check->layout.journal_at + sequence % check->layout.journal_blocks;
	uint32_t crc;

	if (blocking_read(check->device, at, check->block, 1))
		return false;
	memcpy(header, check->block, sizeof(*header));
	crc = header->crc;
	memset((char *)check->block + offsetof(struct format_journal_header, crc), 0, sizeof(crc));
	return header->sequence == sequence && header->epoch == check->anchor.epoch &&
	       crc == checksum_crc32c_seeded(check->seed, check->block, FORMAT_BLOCK);
}

/*
 * Checks the journal's blocks up to the first that is missing, where recovery stops. Nothing was
 * written there, unless a later block says that all before it were flushed.
 */
static void check_journal(struct check *check)
{
	uint64_t end = check->anchor.sequence, sequence;
	uint64_t limit = check->anchor.sequence + check->layout.journal_blocks;
	struct format_journal_header header;

	while (end < limit && read_journal(check, end, &header))
		end++;
	check->report->nr_examined[CHECK_JOURNAL] = end - check->anchor.sequence;
	for (sequence = end + 1; sequence < limit && !is_cancelled(check); sequence++) {
		if (!read_journal(check, sequence, &header) || header.flushed <= end)
			continue;
		finding(check, CHECK_JOURNAL,
			check->layout.journal_at + end % check->layout.journal_blocks,
			"block %" PRIu64 " is damaged, and %" PRIu64 " and more behind it are lost "
			"with it",
			end, sequence - end);
		return;
	}
}

/* ---- what the layer knows */

static bool is_page(const struct check *check, const struct map_slot *slot)
{
	struct format_page *page = check->block;
	uint32_t crc = page->crc;

	page->crc = 0;
	return crc == checksum_crc32c(page, sizeof(*page)) && page->range == slot->page->range &&
	       page->page == slot->page->page && page->generation == slot->generation;
}

/* Reports a finding of the map: which blocks it affects, and what the user can do. */
static void find_page(struct check *check, uint64_t at, const struct map_page *page,
		      const char *format, ...) __attribute__((format(printf, 4, 5)));

static void find_page(struct check *check, uint64_t at, const struct map_page *page,
		      const char *format, ...)
{
	uint32_t first = page->page * FORMAT_PAGE_ENTRIES;
	char what[128];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	finding(check, CHECK_MAP, at,
		"blocks %" PRIu32 " to %" PRIu32 " of range %" PRIu32
		": %s; write whole blocks anew, or trim them",
		first, ftl_lba_block(map_page_end(ftl_lba(page->range, first)) - 1), page->range,
		what);
}

/* Reports how many entries of the page are unknown, as it is on the device. */
static void check_entries(struct check *check, uint64_t at, const struct map_page *page)
{
	const struct format_page *data = check->block;
	uint32_t nr = 0;

	for (uint32_t i = 0; i < FORMAT_PAGE_ENTRIES; i++)
		nr += !map_is_known(&data->entries[i]);
	if (nr)
		find_page(check, at, page, "where %" PRIu32 " of them lie is not known any more",
			  nr);
}

static void check_map(struct check *check)
{
	const struct map *map = &check->ftl->map;

	for (uint32_t i = 0; i < map->nr_slots && !is_cancelled(check); i++) {
		const struct map_slot *slot = &map->slots[i];
		uint64_t at = map->first + 2 * (uint64_t)i + slot->copy;
		int ret;

		/* Generation 0: the page is not on the device yet. */
		if (!slot->page || !slot->generation)
			continue;
		check->report->nr_examined[CHECK_MAP]++;
		ret = blocking_read(check->device, at, check->block, 1);
		if (ret)
			find_page(check, at, slot->page, "their page of the map cannot be read: %s",
				  afar_strerror(ret));
		else if (!is_page(check, slot))
			find_page(check, at, slot->page, "their page of the map is damaged");
		else
			check_entries(check, at, slot->page);
	}
}

static bool is_summary(const struct check *check, const struct segment *segment)
{
	struct format_summary *head = check->block;
	uint32_t crc = head->crc;

	head->crc = 0;
	return crc == checksum_crc32c_seeded(check->seed, head, check->nr_blocks * FORMAT_BLOCK) &&
	       head->segment == segment_number(&check->ftl->segments, segment) &&
	       head->opened == segment->opened;
}

static void check_summaries(struct check *check)
{
	const struct segments *segments = &check->ftl->segments;

	for (uint32_t i = 0; i < segments->nr && !is_cancelled(check); i++) {
		const struct segment *segment = &segments->at[i];
		uint64_t at = segment_place(segments, segment, segments->data_blocks);
		int ret;

		/* A segment needs no summary if it has a list in memory, or no valid block. */
		if (segment->state != FTL_SEGMENT_FULL || segment->lbas || !segment->valid)
			continue;
		check->report->nr_examined[CHECK_SUMMARY]++;
		ret = blocking_read(check->device, at, check->block, check->nr_blocks);
		if (ret)
			finding(check, CHECK_SUMMARY, at,
				"the summary of segment %" PRIu32 " cannot be read: %s", i,
				afar_strerror(ret));
		else if (!is_summary(check, segment))
			finding(check, CHECK_SUMMARY, at,
				"the summary of segment %" PRIu32 " is damaged", i);
	}
}

static void check_counts(struct check *check)
{
	check->report->nr_examined[CHECK_COUNTS] = check->ftl->segments.nr;
	if (ftl_audit(check->ftl))
		finding(check, CHECK_COUNTS, 0, "%s", error_last_line());
	/* Only the layer finds entries that contradict the segments' tables. */
	if (check->ftl->map.nr_insane)
		finding(check, CHECK_MAP, check->layout.map_at,
			"%" PRIu32 " blocks cannot be where the map says: the log names them",
			check->ftl->map.nr_insane);
}

static void check_ranges(struct check *check)
{
	uint32_t id = ftl_record_next(check->ftl, 0);
	struct space *space;

	for (; id < SPACE_NR_RANGES; id = ftl_record_next(check->ftl, id + 1))
		check->report->nr_examined[CHECK_RANGES]++;
	if (space_open(check->ftl, &space)) {
		finding(check, CHECK_RANGES, 0, "%s", error_last_line());
		return;
	}
	/* The space tries to finish interrupted changes; a read-only layer refuses them. */
	while (space_is_busy(space) && ftl_poll(check->ftl, -1) >= 0)
		;
	space_close(space);
}

/* ---- data */

static void on_bad(void *context, uint64_t lba, int error)
{
	struct check *check = context;
	const struct map_page *page = map_find(&check->ftl->map, lba);

	/* The block's page is damaged; check_map() has reported it. */
	if (page && (!map_is_loaded(page) || !map_is_known(map_entry(page, lba))))
		return;
	finding(check, CHECK_DATA, lba, "%s",
		error == -EIO ? "the block cannot be read"
			      : "the block is not what was written, or the map is not right");
}

static int scrub_once(struct check *check, struct scrub *scrub)
{
	int ret = 0;

	while (!scrub_has_ended(scrub) && !ret) {
		uint64_t next =
			is_cancelled(check) ? SCRUB_NEVER : scrub_progress(scrub, clock_ns());

		if (!scrub_is_busy(scrub) && is_cancelled(check))
			return -ECANCELED;
		/*
		 * No read is in flight: wait for the clock, at most 100 ms so that it can be
		 * cancelled.
		 */
		if (scrub_is_busy(scrub))
			ret = ftl_poll(check->ftl, -1);
		else if (next != SCRUB_NEVER && next > clock_ns())
			poll(NULL, 0,
			     clock_remaining_ms(next) < 100 ? clock_remaining_ms(next) : 100);
		ret = ret > 0 ? 0 : ret;
	}
	return ret;
}

static int check_data(struct check *check)
{
	const struct scrub_options options = {
		.bytes_per_s = check->options->bytes_per_s,
		.depth = check->options->bytes_per_s ? 1 : DATA_DEPTH,
		.is_once = true,
		.bad = on_bad,
		.context = check,
	};
	struct scrub_stat stat;
	struct scrub *scrub;
	int ret = scrub_open(check->ftl, &options, &scrub);

	if (ret)
		return ret;
	ret = scrub_once(check, scrub);
	scrub_stat(scrub, &stat);
	check->report->nr_examined[CHECK_DATA] = stat.nr_blocks;
	scrub_close(scrub);
	return ret;
}

/* ---- all of it */

static int check_opened(struct check *check)
{
	check_map(check);
	check_summaries(check);
	check_counts(check);
	check_ranges(check);
	ftl_stat(check->ftl, &check->report->stat);
	if (check->options->with_data && !is_cancelled(check))
		return check_data(check);
	return is_cancelled(check) ? -ECANCELED : 0;
}

static int check_layer(struct check *check)
{
	bool has_anchor;
	int ret;

	check->seed = checksum_crc32c(check->layout.uuid, sizeof(check->layout.uuid));
	check->nr_blocks = summary_blocks_for(check->layout.segment_blocks);
	check->block = aligned_alloc(FORMAT_BLOCK, check->nr_blocks * FORMAT_BLOCK);
	if (!check->block)
		return error_code(-ENOMEM);
	has_anchor = check_anchors(check) == 0;
	if (has_anchor)
		check_journal(check);
	check->report->nr_examined[CHECK_RECOVERY] = 1;
	ret = ftl_open(check->device, FTL_READ_ONLY, &check->ftl);
	if (ret == -ENOMEM)
		return ret;
	if (ret) {
		finding(check, CHECK_RECOVERY, check->layout.tables_at, "%s", error_last_line());
		return 0;
	}
	check->report->is_open = true;
	if (has_anchor)
		check_tables(check);
	ret = check_opened(check);
	ftl_abandon(check->ftl);
	return ret == -ECANCELED ? error_fail(ret, "check a flash layer: interrupted") : ret;
}

int check_device(struct flash_device *device, const struct check_options *options,
		 struct check_report *report)
{
	struct check check = {.device = device, .options = options, .report = report};
	int ret;

	*report = (struct check_report){0};
	ret = check_superblocks(&check);
	if (!ret)
		ret = check_layer(&check);
	free(check.block);
	return ret;
}
