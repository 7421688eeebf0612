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
#include "flash/check.h"
#include "flash/format.h"
#include "flash/ftl.h"
#include "flash/scrub.h"
#include "flash/space.h"
#include "lib/flash_fake.h"

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

/* ---- requests, waited for; what they end with is not the point */

struct calls {
	struct ftl *ftl;
	bool has_ended;
	struct ftl_get get;
	struct ftl_put put;
	struct ftl_trim trim;
	struct ftl_clone clone;
	struct ftl_sync sync;
	struct iovec iov;
};

static _Alignas(4096) uint8_t block[FORMAT_BLOCK];
static struct calls calls;

static void wait_for(void)
{
	while (!calls.has_ended)
		require(ftl_poll(calls.ftl, -1) >= 0);
}

static void on_get(struct ftl_get *get)
{
	(void)get;
	calls.has_ended = true;
}

static void on_put(struct ftl_put *put)
{
	(void)put;
	calls.has_ended = true;
}

static void on_trim(struct ftl_trim *trim)
{
	(void)trim;
	calls.has_ended = true;
}

static void on_clone(struct ftl_clone *clone)
{
	(void)clone;
	calls.has_ended = true;
}

static void on_sync(struct ftl_sync *sync)
{
	(void)sync;
	calls.has_ended = true;
}

static void begin(struct ftl *ftl)
{
	calls.ftl = ftl;
	calls.has_ended = false;
	calls.iov = (struct iovec){block, sizeof(block)};
}

static void get(struct ftl *ftl, uint64_t lba)
{
	begin(ftl);
	calls.get = (struct ftl_get){
		.lba = lba, .length = FTL_BLOCK, .iov = &calls.iov, .nr_iov = 1, .done = on_get};
	ftl_get(ftl, &calls.get);
	wait_for();
}

static void put(struct ftl *ftl, uint64_t lba, uint8_t byte)
{
	begin(ftl);
	memset(block, byte, sizeof(block));
	calls.put = (struct ftl_put){
		.lba = lba, .length = FTL_BLOCK, .iov = &calls.iov, .nr_iov = 1, .done = on_put};
	ftl_put(ftl, &calls.put);
	wait_for();
}

static void trim(struct ftl *ftl, uint64_t lba, uint64_t count)
{
	begin(ftl);
	calls.trim = (struct ftl_trim){.lba = lba, .count = count, .done = on_trim};
	ftl_trim(ftl, &calls.trim);
	wait_for();
}

static void clone(struct ftl *ftl, uint64_t source, uint64_t target, uint64_t count)
{
	begin(ftl);
	calls.clone = (struct ftl_clone){
		.source = source, .target = target, .count = count, .done = on_clone};
	ftl_clone(ftl, &calls.clone);
	wait_for();
}

static void sync_all(struct ftl *ftl)
{
	begin(ftl);
	calls.sync = (struct ftl_sync){.count = FTL_ALL, .done = on_sync};
	ftl_sync(ftl, &calls.sync);
	wait_for();
}

static void on_created(struct space_request *request)
{
	(void)request;
	calls.has_ended = true;
}

static void create(struct ftl *ftl, struct space *space, uint64_t start, uint64_t length)
{
	struct space_request request = {.start = start, .length = length, .done = on_created};

	begin(ftl);
	if (space_create(space, &request) == 0)
		wait_for();
}

/* ---- the device that is changed: a checkpoint, and a journal behind it */

static void before_checkpoint(struct ftl *ftl)
{
	struct space *space;

	require(space_open(ftl, &space) == 0);
	create(ftl, space, 0, 40);
	create(ftl, space, 100, 20);
	for (uint32_t i = 0; i < 60; i++)
		put(ftl, ftl_lba(i % 2, i / 2), (uint8_t)i);
	clone(ftl, ftl_lba(0, 4), ftl_lba(1, 12), 6);
	put(ftl, ftl_lba(1, 1020), 7);
	space_close(space);
}

static void behind_checkpoint(struct ftl *ftl)
{
	struct space *space;

	require(space_open(ftl, &space) == 0);
	create(ftl, space, SPACE_ANYWHERE, 10);
	for (uint32_t i = 0; i < 12; i++)
		put(ftl, ftl_lba(0, i), (uint8_t)(100 + i));
	sync_all(ftl);
	trim(ftl, ftl_lba(0, 20), 5);
	clone(ftl, ftl_lba(0, 2), ftl_lba(2, 0), 4);
	sync_all(ftl);
	space_close(space);
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

/* What was drawn at random is made the same each time, so that an input does the same each time. */
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
	struct flash_device *device;
	struct ftl *ftl;

	require(flash_fake_open(&device_options, &device) == 0);
	require(ftl_create(device, &layout_options) == 0);
	require(ftl_open(device, 0, &ftl) == 0);
	before_checkpoint(ftl);
	require(ftl_close(ftl) == 0);
	require(ftl_open(device, 0, &ftl) == 0);
	behind_checkpoint(ftl);
	ftl_abandon(ftl);
	flash_fake_peek(device, 0, base, sizeof(base));
	flash_device_close(device);
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

static void use(struct ftl *ftl)
{
	uint64_t lba = ftl_next(ftl, 0);
	struct space *space;

	for (unsigned i = 0; i < 64 && lba != FTL_NONE; i++) {
		get(ftl, lba);
		lba = ftl_next(ftl, lba + 1 + (i % 8 == 7 ? FORMAT_PAGE_ENTRIES : 0));
	}
	if (space_open(ftl, &space) == 0) {
		while (space_is_busy(space))
			require(ftl_poll(ftl, -1) >= 0);
		create(ftl, space, SPACE_ANYWHERE, 3);
		space_close(space);
	}
	for (uint32_t i = 0; i < 200; i++)
		put(ftl, ftl_lba(i % 3, i % 37), (uint8_t)i);
	clone(ftl, ftl_lba(0, 0), ftl_lba(1, 500), 20);
	trim(ftl, ftl_lba(0, 0), 100);
	sync_all(ftl);
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
	struct flash_device *device;
	struct ftl *ftl;

	if (!layout.version)
		make_base();
	memcpy(image, base, sizeof(image));
	while (size) {
		size_t taken = change(data, size);

		data += taken;
		size -= taken;
	}
	device = open_image();
	check_device(device, &options, &report);
	if (ftl_open(device, 0, &ftl) == 0) {
		use(ftl);
		ftl_close(ftl);
	}
	flash_device_close(device);
	return 0;
}
