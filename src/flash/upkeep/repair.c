/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Repairs a device; see repair.h. First it looks, and opens the layer read-only, which tells whether that would help. Then it opens and
 * closes the layer: the two checkpoints that this writes replace both anchors and both tables.
 */
#include "flash/upkeep/repair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "flash/device/blocking.h"
#include "flash/device/superblock.h"
#include "flash/ftl_private.h"
#include "flash/map/map.h"
#include "flash/space/space_record.h"

struct repair {
	struct flash_device *device;
	const struct repair_options *options;
	struct repair_report *report;
	struct format_superblock layout;
	bool is_copy_damaged; /* of the superblock, either */
	struct ftl *ftl;
};

static void finding(struct repair *repair, enum check_area area, uint64_t at, const char *what)
{
	repair->report->nr_findings++;
	repair->options->finding(repair->options->context, area, at, what);
}

/* Returns the code. If the layer is damaged beyond repair, says why that is so. */
static int say_beyond(int ret)
{
	char why[ERROR_LINE_BYTES / 2];

	if (ret != -EBADMSG)
		return ret;
	snprintf(why, sizeof(why), "%s", error_last_line());
	return error_fail(
		ret,
		"%s; which of its blocks would be old cannot be told, so it is not repaired: "
		"restore an image of the device, or give its store up",
		why);
}

/* ---- Looking */

static int look_at_superblocks(struct repair *repair)
{
	struct format_superblock first, copy;
	uint64_t last;
	int ret = superblock_read(repair->device, &repair->layout);

	if (ret)
		return ret;
	last = repair->layout.nr_blocks - 1;
	if (superblock_read_at(repair->device, 0, &first))
		finding(repair, CHECK_SUPERBLOCK, 0, "its copy is whole");
	else if (superblock_read_at(repair->device, last, &copy) ||
		 memcmp(&first, &copy, sizeof(first)) != 0)
		finding(repair, CHECK_SUPERBLOCK, last, "the first one is whole");
	repair->is_copy_damaged = repair->report->nr_findings > 0;
	return 0;
}

static bool are_tables_whole(struct repair *repair, const struct format_anchor *anchor,
			     void *memory)
{
	return tables_read(repair->device, &repair->layout, anchor, memory) == 0;
}

static int look_at_checkpoints(struct repair *repair)
{
	const struct format_superblock *layout = &repair->layout;
	void *memory = aligned_alloc(FORMAT_BLOCK, (size_t)layout->tables_blocks * FORMAT_BLOCK);
	struct format_anchor newest, anchor;
	int ret = memory ? anchor_read(repair->device, layout, &newest) : error_code(-ENOMEM);

	for (uint64_t copy = 0; copy < 2 && !ret; copy++) {
		if (anchor_read_at(repair->device, layout, copy, &anchor)) {
			if (newest.generation > 1) /* else there was no other one yet */
				finding(repair, CHECK_ANCHOR, anchor_at(copy),
					"the other one serves");
		} else if (!are_tables_whole(repair, &anchor, memory)) {
			finding(repair, CHECK_RECOVERY, tables_at(layout, anchor.generation),
				"the other ones serve");
		}
	}
	free(memory);
	return say_beyond(ret);
}

static void tell_lost(struct repair *repair, uint64_t at, const struct map_page *page,
		      uint32_t first, uint32_t last)
{
	const void *data = ftl_record(repair->ftl, page->range);
	struct space_record record;
	bool is_range = data && space_record_decode(page->range, data, &record) == 0;

	repair->report->nr_lost += last - first + 1;
	repair->options->lost(repair->options->context, at, is_range ? &record.owner : NULL,
			      page->range, first, last);
}

/* Tells of each run of blocks of a lost page that the journal does not know better. */
static void tell_page(struct repair *repair, uint64_t at, const struct map_page *page)
{
	uint32_t from = page->page * FORMAT_PAGE_ENTRIES;
	uint32_t nr =
		(uint32_t)(map_page_end(ftl_lba(page->range, from)) - ftl_lba(page->range, from));
	uint32_t begin = nr;

	for (uint32_t i = 0; i <= nr; i++) {
		bool is_lost = i < nr && (!page->data || !map_is_known(&page->data->entries[i]));

		if (is_lost && begin == nr)
			begin = i;
		if (is_lost || begin == nr)
			continue;
		tell_lost(repair, at, page, from + begin, from + i - 1);
		begin = nr;
	}
}

/* An older checkpoint serves: tells of the pages that it has lost. */
static int look_at_map(struct repair *repair)
{
	const struct map *map = &repair->ftl->map;
	struct format_page *data;

	if (!repair->ftl->is_alone && !repair->ftl->recover_through.generation)
		return 0;
	data = aligned_alloc(FORMAT_BLOCK, sizeof(*data));
	if (!data)
		return error_code(-ENOMEM);
	for (uint32_t i = 0; i < map->nr_slots; i++) {
		const struct map_slot *slot = &map->slots[i];
		uint64_t at = map->first + 2 * (uint64_t)i + slot->copy;

		if (slot->page && slot->generation &&
		    (blocking_read(repair->device, at, data, 1) || !map_is_copy(slot->page, data)))
			tell_page(repair, at, slot->page);
	}
	free(data);
	return 0;
}

static int open_layer(struct repair *repair, unsigned flags)
{
	return say_beyond(ftl_open(repair->device, flags | FTL_LOSSY, &repair->ftl));
}

/* ---- Repairing */

static int write_superblocks(struct repair *repair)
{
	int ret = repair->is_copy_damaged ? superblock_write(repair->device, &repair->layout) : 0;

	return ret ? error_fail(ret, "repair a flash layer: the superblock cannot be written: %s",
				afar_strerror(ret))
		   : 0;
}

static int write_checkpoints(struct repair *repair)
{
	int ret = open_layer(repair, 0);

	if (ret)
		return ret;
	ret = ftl_close(repair->ftl);
	return ret ? error_fail(ret, "repair a flash layer: the device cannot be written: %s",
				afar_strerror(ret))
		   : 0;
}

int repair_device(struct flash_device *device, const struct repair_options *options,
		  struct repair_report *report)
{
	struct repair repair = {.device = device, .options = options, .report = report};
	int ret;

	*report = (struct repair_report){0};
	ret = look_at_superblocks(&repair);
	if (!ret)
		ret = look_at_checkpoints(&repair);
	if (!ret)
		ret = open_layer(&repair, FTL_READ_ONLY);
	if (ret)
		return ret;
	ret = look_at_map(&repair);
	ftl_abandon(repair.ftl);
	if (ret || options->is_dry || !report->nr_findings)
		return ret;
	/* Checkpoints first: they show that the layer can be opened, and need only one of the two. */
	ret = write_checkpoints(&repair);
	return ret ? ret : write_superblocks(&repair);
}
