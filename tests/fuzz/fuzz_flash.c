/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes a device that a crash left, as the input says, and opens what is there. All that lies on a device is decoded so:
 * superblocks, anchors, tables, journal, map, summaries, ranges. Opening ends in an error or in a layer that can be used; a
 * check of the same device ends too.
 *
 * An input is a list of changes, each a head and `length` bytes:
 *
 *	u8 area   u8 flags   u16 block of the area   u16 offset in the block   u16 length
 *
 * With FIX the block's checksum is made right afterwards, so that what is behind it is reached.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "flash/format.h"
#include "flash/upkeep/check.h"
#include "flash/upkeep/scrub.h"
#include "lib/flash/flash_space_bed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NR_BLOCKS 448U
#define FIX	  1U

enum area { SUPERBLOCKS, ANCHORS, TABLES, JOURNAL, MAP, SUMMARIES, DATA, ANYWHERE, NR_AREAS };

static const struct flash_fake_options device_options = {
	.size = NR_BLOCKS * FORMAT_BLOCK, .sector = 4096, .seed = 1};
static const struct ftl_options layout_options = {.segment_bytes = 8 * FORMAT_BLOCK,
						  .journal_blocks = 16,
						  .nr_map_pages = 24,
						  .nr_records = 12};

static uint8_t base[NR_BLOCKS][FORMAT_BLOCK], image[NR_BLOCKS][FORMAT_BLOCK];
static struct format_superblock layout;
static uint32_t seed; /* of the journal's and summaries' checksums */

static void require(int condition)
{
	if (!condition)
		abort();
}

/* ---- requests; what they end with is not the point */

static _Alignas(4096) uint8_t block[FORMAT_BLOCK];

static void get(struct bed *bed, uint64_t lba)
{
	bed_get(bed, lba, 0, block, sizeof(block));
}

static void put(struct bed *bed, uint64_t lba, uint8_t byte)
{
	memset(block, byte, sizeof(block));
	bed_put(bed, lba, 0, block, sizeof(block));
}

/* ---- the device that is changed: a checkpoint, and a journal behind it */

static void before_checkpoint(struct bed *bed)
{
	require(space_open(bed->ftl, &bed->space) == 0);
	range_create(bed, "", 0, 40, NULL);
	range_create(bed, "", 100, 20, NULL);
	for (uint32_t i = 0; i < 60; i++)
		put(bed, ftl_lba(i % 2, i / 2), (uint8_t)i);
	bed_clone(bed, ftl_lba(0, 4), ftl_lba(1, 12), 6, NULL);
	put(bed, ftl_lba(1, 1020), 7);
	space_close(bed->space);
}

static void behind_checkpoint(struct bed *bed)
{
	require(space_open(bed->ftl, &bed->space) == 0);
	range_create(bed, "", SPACE_ANYWHERE, 10, NULL);
	for (uint32_t i = 0; i < 12; i++)
		put(bed, ftl_lba(0, i), (uint8_t)(100 + i));
	bed_sync(bed);
	bed_trim(bed, ftl_lba(0, 20), 5, NULL);
	bed_clone(bed, ftl_lba(0, 2), ftl_lba(2, 0), 4, NULL);
	bed_sync(bed);
	space_close(bed->space);
}

static uint32_t *crc_of(enum area area, uint8_t *at)
{
	switch (area) {
	case SUPERBLOCKS:
		return (uint32_t *)(at + offsetof(struct format_superblock, crc));
	case ANCHORS:
		return (uint32_t *)(at + offsetof(struct format_anchor, crc));
	case JOURNAL:
		return (uint32_t *)(at + offsetof(struct format_journal_header, crc));
	case MAP:
		return (uint32_t *)(at + offsetof(struct format_page, crc));
	case SUMMARIES:
		return (uint32_t *)(at + offsetof(struct format_summary, crc));
	default:
		return NULL;
	}
}

static void fix(enum area area, uint8_t *at)
{
	uint32_t *crc = crc_of(area, at);
	size_t size = area == SUPERBLOCKS ? sizeof(struct format_superblock)
		      : area == ANCHORS	  ? sizeof(struct format_anchor)
					  : FORMAT_BLOCK;

	if (!crc)
		return;
	*crc = 0;
	*crc = checksum_crc32c_seeded(area == JOURNAL || area == SUMMARIES ? seed : 0, at, size);
}

/* The checksum of tables is in the anchor, of the parity of their area. */
static void fix_tables(uint64_t parity)
{
	struct format_anchor *anchor = (struct format_anchor *)image[FORMAT_ANCHOR_AT + parity];

	if (anchor->tables_bytes > (uint64_t)layout.tables_blocks * FORMAT_BLOCK)
		return;
	anchor->tables_crc = checksum_crc32c(
		image[layout.tables_at + parity * layout.tables_blocks],
		(anchor->tables_bytes + FORMAT_BLOCK - 1) / FORMAT_BLOCK * FORMAT_BLOCK);
	fix(ANCHORS, image[FORMAT_ANCHOR_AT + parity]);
}

/* Makes what was drawn at random the same each time, so that an input does the same each time. */
static void settle_random(void)
{
	memset(layout.uuid, 1, sizeof(layout.uuid));
	seed = checksum_crc32c(layout.uuid, sizeof(layout.uuid));
	for (uint32_t copy = 0; copy < 2; copy++) {
		uint8_t *at = base[copy ? NR_BLOCKS - 1 : 0];
		struct format_anchor *anchor =
			(struct format_anchor *)base[FORMAT_ANCHOR_AT + copy];

		memset(((struct format_superblock *)at)->uuid, 1, 16);
		fix(SUPERBLOCKS, at);
		memset(anchor->uuid, 1, 16);
		anchor->epoch = 1;
		fix(ANCHORS, (uint8_t *)anchor);
	}
	for (uint32_t i = 0; i < layout.journal_blocks; i++) {
		uint8_t *at = base[layout.journal_at + i];

		((struct format_journal_header *)at)->epoch = 1;
		fix(JOURNAL, at);
	}
	for (uint32_t i = 0; i < layout.nr_segments; i++) {
		uint8_t *at = base[layout.segments_at + (i + 1) * layout.segment_blocks - 1];

		fix(SUMMARIES, at);
	}
}

static void make_base(void)
{
	struct bed bed;

	bed_open_with(&bed, &device_options, &layout_options);
	before_checkpoint(&bed);
	bed_reopen(&bed, true);
	behind_checkpoint(&bed);
	ftl_abandon(bed.ftl);
	flash_fake_peek(bed.device, 0, base, sizeof(base));
	flash_device_close(bed.device);
	memcpy(&layout, base[0], sizeof(layout));
	settle_random();
}

/* ---- the input */

/* The block of the device, and how many there are of this area from it on. */
static uint32_t place_of(enum area area, uint32_t index)
{
	switch (area) {
	case SUPERBLOCKS:
		return index % 2 ? NR_BLOCKS - 1 : 0;
	case ANCHORS:
		return FORMAT_ANCHOR_AT + index % 2;
	case TABLES:
		return layout.tables_at + index % (2 * layout.tables_blocks);
	case JOURNAL:
		return layout.journal_at + index % layout.journal_blocks;
	case MAP:
		return layout.map_at + index % (2 * layout.nr_slots);
	case SUMMARIES:
		return layout.segments_at +
		       (index % layout.nr_segments + 1) * layout.segment_blocks - 1;
	case DATA:
		return layout.segments_at + index % (layout.nr_segments * layout.segment_blocks);
	default:
		return index % NR_BLOCKS;
	}
}

static size_t change(const uint8_t *data, size_t size)
{
	uint16_t index, offset, length;
	enum area area;
	uint32_t at;

	if (size < 8)
		return size;
	area = data[0] % NR_AREAS;
	memcpy(&index, data + 2, sizeof(index));
	memcpy(&offset, data + 4, sizeof(offset));
	memcpy(&length, data + 6, sizeof(length));
	if (length > size - 8)
		length = (uint16_t)(size - 8);
	offset %= FORMAT_BLOCK;
	if (length > FORMAT_BLOCK - offset)
		length = (uint16_t)(FORMAT_BLOCK - offset);
	at = place_of(area, index);
	memcpy(&image[at][offset], data + 8, length);
	if (data[1] & FIX) {
		fix(area, image[at]);
		if (area == TABLES)
			fix_tables(at >= layout.tables_at + layout.tables_blocks);
	}
	return 8 + (size_t)length;
}

static struct flash_device *open_image(void)
{
	struct flash_device *device;

	require(flash_fake_open(&device_options, &device) == 0);
	require(flash_fake_poke(device, 0, image, sizeof(image)) == 0);
	return device;
}

static void use(struct bed *bed)
{
	uint64_t lba = ftl_next(bed->ftl, 0);

	for (unsigned i = 0; i < 64 && lba != FTL_NONE; i++) {
		get(bed, lba);
		lba = ftl_next(bed->ftl, lba + 1 + (i % 8 == 7 ? FORMAT_PAGE_ENTRIES : 0));
	}
	if (space_open(bed->ftl, &bed->space) == 0) {
		space_bed_settle(bed);
		range_create(bed, "", SPACE_ANYWHERE, 3, NULL);
		space_close(bed->space);
	}
	for (uint32_t i = 0; i < 200; i++)
		put(bed, ftl_lba(i % 3, i % 37), (uint8_t)i);
	bed_clone(bed, ftl_lba(0, 0), ftl_lba(1, 500), 20, NULL);
	bed_trim(bed, ftl_lba(0, 0), 100, NULL);
	bed_sync(bed);
}

static void on_finding(void *context, enum check_area area, uint64_t at, const char *what)
{
	(void)context;
	(void)at;
	require(area < CHECK_NR_AREAS && *what);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct check_options options = {.with_data = true, .finding = on_finding};
	struct check_report report;
	struct bed bed = {0};

	if (!layout.version)
		make_base();
	memcpy(image, base, sizeof(image));
	while (size) {
		size_t taken = change(data, size);

		data += taken;
		size -= taken;
	}
	bed.device = open_image();
	check_device(bed.device, &options, &report);
	if (ftl_open(bed.device, 0, &bed.ftl) == 0) {
		use(&bed);
		ftl_close(bed.ftl);
	}
	flash_device_close(bed.device);
	return 0;
}
