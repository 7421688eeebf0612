/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans, writes, reads and checks superblocks and anchors; see superblock.h. */
#include "flash/device/superblock.h"

#include <errno.h>
#include <stdalign.h>
#include <string.h>
#include <sys/random.h>

#include "base/checksum.h"
#include "base/error.h"
#include "flash/device/blocking.h"

#define SEGMENT_BYTES	    (4U << 20)
#define SEGMENT_BYTES_SMALL (128U << 10)
#define SEGMENTS_GOOD	    64U
#define SEGMENT_BLOCKS_MIN  8U
#define SEGMENT_BLOCKS_MAX  (1U << 16)
#define ERASED_BLOCKS	    256U /* at each end */
#define ERASED_AT_ONCE	    16U
#define JOURNAL_MIN	    16U
#define JOURNAL_GOOD	    4096U /* blocks: 2048 syncs of one block each between checkpoints */

struct block {
	alignas(FORMAT_BLOCK) uint8_t bytes[FORMAT_BLOCK];
};

/* Returns how many blocks of the device can be used: places have 32 bits. */
static uint64_t usable_blocks(const struct flash_device *device)
{
	uint64_t nr = device->size / FORMAT_BLOCK;

	return nr > UINT32_MAX ? UINT32_MAX : nr;
}

static uint32_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
	return (uint32_t)(value < low ? low : value > high ? high : value);
}

static uint32_t superblock_crc(const struct format_superblock *superblock)
{
	struct format_superblock copy = *superblock;

	copy.crc = 0;
	return checksum_crc32c(&copy, sizeof(copy));
}

static uint64_t tables_bytes(const struct format_superblock *plan, uint64_t nr_segments)
{
	uint64_t bits = (plan->segment_blocks + 63U) / 64U * 8U;

	return sizeof(struct format_tables) +
	       nr_segments * (sizeof(struct format_table_segment) + bits) +
	       (uint64_t)plan->nr_slots * sizeof(struct format_table_page) +
	       (uint64_t)plan->nr_records * sizeof(struct format_table_record) +
	       (uint64_t)plan->nr_shares * sizeof(struct format_table_share) +
	       (uint64_t)TABLES_NR_LISTS *
		       (sizeof(struct format_table_list) + plan->segment_blocks * sizeof(uint64_t));
}

static uint32_t segment_blocks_for(const struct flash_device *device, uint32_t wanted)
{
	uint64_t unit = device->discard_unit > FORMAT_BLOCK ? device->discard_unit : FORMAT_BLOCK;
	uint64_t bytes = wanted ? wanted : SEGMENT_BYTES;

	/* A small device gets small segments, so that the cleaner has enough to choose from. */
	while (!wanted && bytes > SEGMENT_BYTES_SMALL && device->size / bytes < SEGMENTS_GOOD)
		bytes /= 2;

	/* With a unit that is not a multiple of blocks, the layer discards nothing. */
	if (unit % FORMAT_BLOCK || unit / FORMAT_BLOCK > SEGMENT_BLOCKS_MAX)
		unit = FORMAT_BLOCK;
	bytes = (bytes + unit - 1) / unit * unit;
	if (bytes / FORMAT_BLOCK < SEGMENT_BLOCKS_MIN)
		bytes = (SEGMENT_BLOCKS_MIN * FORMAT_BLOCK + unit - 1) / unit * unit;
	return bytes / FORMAT_BLOCK > SEGMENT_BLOCKS_MAX ? SEGMENT_BLOCKS_MAX
							 : (uint32_t)(bytes / FORMAT_BLOCK);
}

static int place_areas(const struct flash_device *device, struct format_superblock *plan)
{
	uint64_t nr = plan->nr_blocks;
	/* Upper bound, as if segments took all blocks: the tables get a little too much room. */
	uint64_t most_segments = nr / plan->segment_blocks;
	uint64_t tables = (tables_bytes(plan, most_segments) + FORMAT_BLOCK - 1) / FORMAT_BLOCK;
	uint64_t align = device->discard_unit / FORMAT_BLOCK;
	uint64_t at = FORMAT_ANCHOR_AT + 2;

	plan->tables_blocks = clamp(tables, 1, UINT32_MAX / 4);
	plan->tables_at = (uint32_t)at;
	at += 2 * (uint64_t)plan->tables_blocks;
	plan->journal_at = (uint32_t)at;
	at += plan->journal_blocks;
	plan->map_at = (uint32_t)at;
	at += 2 * (uint64_t)plan->nr_slots;
	if (align > 1)
		at = (at + align - 1) / align * align;
	plan->segments_at = (uint32_t)at;
	if (at + 1 < nr)
		plan->nr_segments = (uint32_t)((nr - 1 - at) / plan->segment_blocks);
	if (plan->nr_segments < 2 * reserve_segments(plan->nr_segments))
		return error_fail(-ENOSPC,
				  "make a flash layer: %llu bytes are too few for segments of %u "
				  "bytes; give it more, or smaller segments",
				  (unsigned long long)device->size,
				  plan->segment_blocks * FORMAT_BLOCK);
	return 0;
}

int superblock_plan(const struct flash_device *device, const struct ftl_options *options,
		    struct format_superblock *out)
{
	struct format_superblock plan = {.version = FORMAT_VERSION, .sector = device->sector};
	uint64_t nr = usable_blocks(device);

	if (device->sector != 512 && device->sector != FORMAT_BLOCK)
		return error_fail(
			-EINVAL, "make a flash layer: a sector of %u bytes is neither 512 nor 4096",
			device->sector);
	plan.nr_blocks = nr;
	memcpy(plan.magic, format_magic, sizeof(plan.magic));
	if (getrandom(plan.uuid, sizeof(plan.uuid), 0) != sizeof(plan.uuid))
		return error_code(-EIO);
	plan.segment_blocks = segment_blocks_for(device, options->segment_bytes);
	plan.journal_blocks = options->journal_blocks;
	if (!plan.journal_blocks)
		plan.journal_blocks =
			clamp(nr / 4096, clamp(nr / 64, JOURNAL_MIN, JOURNAL_GOOD), 1U << 24);
	plan.journal_blocks = clamp(plan.journal_blocks, JOURNAL_MIN, nr / 4 + JOURNAL_MIN);
	/*
	 * 1.5 times what full ranges would need, because holes and ends of ranges take pages too.
	 */
	plan.nr_slots = options->nr_map_pages
				? options->nr_map_pages
				: clamp(nr / FORMAT_PAGE_ENTRIES * 3 / 2, 16, UINT32_MAX / 4);
	plan.nr_records = options->nr_records ? options->nr_records : clamp(nr / 256, 64, 65536);
	plan.nr_shares = clamp(nr / 4, 64, UINT32_MAX / 4);
	*out = plan;
	return place_areas(device, out);
}

/* Reads a block that has our magic if there is a layer. -EEXIST, with a reason: there is one. */
static int check_no_layer(struct flash_device *device, uint64_t at, struct block *block)
{
	int ret = blocking_read(device, at, block, 1);

	if (ret)
		return error_fail(ret, "make a flash layer: cannot read the device: %s",
				  afar_strerror(ret));
	if (memcmp(block->bytes, format_magic, sizeof(format_magic)) == 0)
		return error_fail(
			-EEXIST, "make a flash layer: there is one already; --force overwrites it");
	return 0;
}

int superblock_check_empty(struct flash_device *device)
{
	struct block block, last;
	char what[256];
	int ret = check_no_layer(device, 0, &block);

	if (ret)
		return ret;
	ret = flash_device_foreign(device, what, sizeof(what));
	if (ret < 0)
		return error_fail(ret,
				  "make a flash layer: cannot see what the device holds: %s; "
				  "--force overwrites it",
				  afar_strerror(ret));
	if (ret)
		return error_fail(-EEXIST, "make a flash layer: it holds %s; --force overwrites it",
				  what);
	/* A layer whose first block is lost is a layer, too. */
	ret = check_no_layer(device, usable_blocks(device) - 1, &last);
	if (ret)
		return ret;
	for (size_t i = 0; i < sizeof(block); i++) {
		if (block.bytes[i])
			return error_fail(-EEXIST,
					  "make a flash layer: there is something already, that "
					  "begins in the first 4096 bytes; --force overwrites it");
	}
	return 0;
}

/* Writes zeros to [first, end), in blocks. */
static int erase_end(struct flash_device *device, uint64_t first, uint64_t end)
{
	static struct block zeros[ERASED_AT_ONCE];
	int ret = 0;

	for (uint64_t at = first; at < end && !ret; at += ERASED_AT_ONCE)
		ret = blocking_write(device, at, zeros,
				     end - at < ERASED_AT_ONCE ? end - at : ERASED_AT_ONCE, 0);
	return ret;
}

int superblock_erase(struct flash_device *device)
{
	uint64_t nr = device->size / FORMAT_BLOCK, end = usable_blocks(device);
	int ret = erase_end(device, 0, ERASED_BLOCKS < nr ? ERASED_BLOCKS : nr);

	if (!ret)
		ret = erase_end(device, nr > ERASED_BLOCKS ? nr - ERASED_BLOCKS : 0, nr);
	/* If the device has more blocks than places have bits for, our copy lies before its end. */
	if (!ret)
		ret = erase_end(device, end - 1, end);
	return ret ? ret : blocking_flush(device);
}

int superblock_write(struct flash_device *device, const struct format_superblock *superblock)
{
	struct block block = {0};
	struct format_superblock copy = *superblock;
	int ret;

	copy.crc = superblock_crc(&copy);
	memcpy(block.bytes, &copy, sizeof(copy));
	ret = blocking_write(device, superblock->nr_blocks - 1, &block, 1, 0);
	if (!ret)
		ret = blocking_write(device, 0, &block, 1, 0);
	return ret ? ret : blocking_flush(device);
}

/* Returns whether the areas follow one another, do not overlap, and end before the last block. */
static bool is_consistent(const struct format_superblock *it)
{
	uint64_t tables_end = it->tables_at + 2 * (uint64_t)it->tables_blocks;
	uint64_t journal_end = it->journal_at + (uint64_t)it->journal_blocks;
	uint64_t map_end = it->map_at + 2 * (uint64_t)it->nr_slots;
	uint64_t end = it->segments_at + (uint64_t)it->nr_segments * it->segment_blocks;

	return it->tables_at > FORMAT_ANCHOR_AT + 1 && it->tables_blocks &&
	       tables_end <= it->journal_at && it->journal_blocks >= JOURNAL_MIN &&
	       journal_end <= it->map_at && it->nr_slots && map_end <= it->segments_at &&
	       it->segment_blocks >= SEGMENT_BLOCKS_MIN &&
	       it->segment_blocks <= SEGMENT_BLOCKS_MAX && it->nr_segments && end < it->nr_blocks &&
	       it->nr_segments >= 2 * reserve_segments(it->nr_segments) &&
	       tables_bytes(it, it->nr_segments) <= (uint64_t)it->tables_blocks * FORMAT_BLOCK;
}

static int believe(const struct flash_device *device, const struct block *block,
		   struct format_superblock *out)
{
	memcpy(out, block->bytes, sizeof(*out));
	if (memcmp(out->magic, format_magic, sizeof(format_magic)) != 0)
		return error_fail(-EINVAL,
				  "open a flash layer: the device holds none; make one first");
	if (out->version != FORMAT_VERSION)
		return error_fail(-EPROTONOSUPPORT,
				  "open a flash layer: it is of version %u, this program knows %u; "
				  "take a newer program",
				  out->version, FORMAT_VERSION);
	if (out->crc != superblock_crc(out) || !is_consistent(out))
		return error_fail(-EBADMSG, "open a flash layer: the superblock is damaged");
	if (out->nr_blocks > device->size / FORMAT_BLOCK)
		return error_fail(
			-EINVAL,
			"open a flash layer: the device has %llu bytes, the layer %llu; give "
			"it back what was cut off",
			(unsigned long long)device->size,
			(unsigned long long)out->nr_blocks * FORMAT_BLOCK);
	if (device->sector > out->sector && device->sector != FORMAT_BLOCK)
		return error_fail(-EINVAL, "open a flash layer: the device's sector is %u bytes",
				  device->sector);
	return 0;
}

static int read_block(struct flash_device *device, uint64_t at, struct block *block)
{
	int ret = blocking_read(device, at, block, 1);

	/* Whatever the device says, it is no verdict on the layer. */
	return ret ? error_fail(-EIO, "open a flash layer: cannot read the device: %s",
				afar_strerror(ret))
		   : 0;
}

int superblock_read_at(struct flash_device *device, uint64_t at, struct format_superblock *out)
{
	struct block block;
	int ret = read_block(device, at, &block);

	return ret ? ret : believe(device, &block, out);
}

static bool has_magic(const struct block *block)
{
	return memcmp(block->bytes, format_magic, sizeof(format_magic)) == 0;
}

/* The first block is no superblock, and the copy is whole: somebody may have given the device to something else. */
static int check_not_replaced(struct flash_device *device)
{
	char what[256];

	if (flash_device_foreign(device, what, sizeof(what)) <= 0)
		return 0;
	return error_fail(
		-EEXIST,
		"open a flash layer: the device holds %s; a layer was there before, whose "
		"superblock's copy is left",
		what);
}

/* Any part of the first may be damaged, also that which says what it is: the copy tells. */
int superblock_read(struct flash_device *device, struct format_superblock *out)
{
	struct block first, copy;
	int ret, copy_ret;

	if (device->size < 2 * FORMAT_BLOCK)
		return error_fail(-EINVAL,
				  "open a flash layer: the device is too small to hold one");
	ret = read_block(device, 0, &first);
	if (ret == 0 && believe(device, &first, out) == 0)
		return 0;
	if (ret == 0 && has_magic(&first) && out->crc == superblock_crc(out))
		return believe(device, &first,
			       out); /* it is whole, and not for this device or program */
	copy_ret = blocking_read(device, usable_blocks(device) - 1, &copy, 1);
	if (copy_ret == 0 && believe(device, &copy, out) == 0)
		return ret || has_magic(&first) ? 0 : check_not_replaced(device);
	if (ret)
		return read_block(device, 0, &first); /* for what it says */
	ret = believe(device, &first, out);
	if (copy_ret)
		return error_fail(
			-EIO,
			"open a flash layer: the first block is no superblock, or a damaged "
			"one, and its copy in the last cannot be read: %s",
			afar_strerror(copy_ret));
	if (ret == -EBADMSG || (!has_magic(&first) && copy_ret == 0 && has_magic(&copy)))
		return error_fail(-EBADMSG, "open a flash layer: the superblock is damaged, and so "
					    "is its copy");
	return ret;
}

static uint32_t anchor_crc(const struct format_anchor *anchor)
{
	struct format_anchor copy = *anchor;

	copy.crc = 0;
	return checksum_crc32c(&copy, sizeof(copy));
}

void anchor_encode(const struct format_anchor *anchor, void *block)
{
	struct format_anchor copy = *anchor;

	memcpy(copy.magic, format_magic, sizeof(format_magic));
	copy.crc = anchor_crc(&copy);
	memset(block, 0, FORMAT_BLOCK);
	memcpy(block, &copy, sizeof(copy));
}

int anchor_read_at(struct flash_device *device, const struct format_superblock *superblock,
		   uint64_t copy, struct format_anchor *out)
{
	struct block block;
	int ret = blocking_read(device, anchor_at(copy), &block, 1);

	if (ret)
		return ret;
	memcpy(out, block.bytes, sizeof(*out));
	if (memcmp(out->magic, format_magic, sizeof(format_magic)) != 0 ||
	    out->crc != anchor_crc(out) || (out->generation & 1) != copy ||
	    memcmp(out->uuid, superblock->uuid, sizeof(out->uuid)) != 0 ||
	    out->tables_bytes > (uint64_t)superblock->tables_blocks * FORMAT_BLOCK ||
	    out->tables_bytes < sizeof(struct format_tables))
		return -EBADMSG;
	return 0;
}

int anchor_read(struct flash_device *device, const struct format_superblock *superblock,
		struct format_anchor *out)
{
	int found = 0, error = 0;

	for (uint64_t copy = 0; copy < 2; copy++) {
		struct format_anchor anchor;
		int ret = anchor_read_at(device, superblock, copy, &anchor);

		if (ret && ret != -EBADMSG)
			error = ret;
		if (ret)
			continue;
		if (!found || anchor.generation > out->generation)
			*out = anchor;
		found++;
	}
	if (found)
		return 0;
	if (error)
		return error_fail(-EIO, "open a flash layer: its anchors cannot be read: %s",
				  afar_strerror(error));
	return error_fail(-EBADMSG, "open a flash layer: both anchors are damaged");
}

int tables_read(struct flash_device *device, const struct format_superblock *superblock,
		const struct format_anchor *anchor, void *memory)
{
	const struct format_tables *head = memory;
	uint64_t nr_blocks = (anchor->tables_bytes + FORMAT_BLOCK - 1) / FORMAT_BLOCK;
	uint32_t crc = 0;
	int ret =
		blocking_read(device, tables_at(superblock, anchor->generation), memory, nr_blocks);

	if (ret)
		return ret;
	for (uint64_t i = 0; i < nr_blocks; i++)
		crc = checksum_crc32c_seeded(crc, (const char *)memory + i * FORMAT_BLOCK,
					     FORMAT_BLOCK);
	return crc == anchor->tables_crc && head->generation == anchor->generation ? 0 : -EBADMSG;
}
