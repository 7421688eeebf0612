/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The structures at fixed places of a device. The superblock describes the layout and never
 * changes. The anchors name the checkpoint that the rest is read from. All functions that take a
 * device block; they serve creating, opening and checking a layer, and nothing else may be in
 * flight. A function that says so leaves the reason in error_last_line().
 */
#ifndef FLASH_SUPERBLOCK_H
#define FLASH_SUPERBLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "flash/device/device.h"
#include "flash/format.h"
#include "flash/ftl.h"

/* Plans the layout of a new layer on `device`, and writes nothing. Returns 0, or with a reason.
 * -EINVAL: the sector is neither 512 nor 4096. -ENOSPC: the device is too small. -EIO: no random
 * bytes for the uuid. */
int superblock_plan(const struct flash_device *device, const struct ftl_options *options,
		    struct format_superblock *out);

/*
 * Checks that the device is empty. Returns 0, or with a reason. -EEXIST: it holds a layer of ours,
 * something that flash_device_foreign() knows, or bytes other than 0 in its first block. Or the
 * device's own errors.
 */
int superblock_check_empty(struct flash_device *device);

/* Erases both ends of the device, so that neither our superblocks nor others' signatures are found.
 * If creating a layer is cut short, no layer is there. Returns 0, or the device's error. */
int superblock_erase(struct flash_device *device);
/* Writes both copies and flushes, after everything else was written. Returns 0, or the device's
 * error. */
int superblock_write(struct flash_device *device, const struct format_superblock *superblock);

/*
 * Reads the superblock, or its copy if the first is damaged in any way, and checks it against the device.
 * Returns 0, or with a reason. -EINVAL: there is neither a superblock nor a copy, the device was cut short, or
 * its sectors are too large for the layer. -EPROTONOSUPPORT: it is of another version. -EBADMSG: both are
 * damaged. -EEXIST: a copy is left, and something else is where the layer was. -EIO: the device cannot be read.
 */
int superblock_read(struct flash_device *device, struct format_superblock *out);
/* Like superblock_read(), but reads only the one in block `at`. */
int superblock_read_at(struct flash_device *device, uint64_t at, struct format_superblock *out);

/* Reads the newest anchor that is whole. Returns 0; with a reason: -EBADMSG: neither is; -EIO: neither is, and the device could
 * not read one. */
int anchor_read(struct flash_device *device, const struct format_superblock *superblock,
		struct format_anchor *out);
/* Reads copy 0 or 1 of the anchor. Returns 0; -EBADMSG: it is not whole; the device's own errors.
 * Gives no reason. */
int anchor_read_at(struct flash_device *device, const struct format_superblock *superblock,
		   uint64_t copy, struct format_anchor *out);
/* Reads the tables of the anchor's checkpoint into memory of superblock->tables_blocks. -EBADMSG: they are not what the anchor
 * says; the device's own errors. Gives no reason. */
int tables_read(struct flash_device *device, const struct format_superblock *superblock,
		const struct format_anchor *anchor, void *memory);
/* Encodes the anchor in `block`, which has 4 KiB. */
void anchor_encode(const struct format_anchor *anchor, void *block);

/* Returns the block of the device that the anchor of this generation is written to. */
static inline uint64_t anchor_at(uint64_t generation)
{
	return FORMAT_ANCHOR_AT + (generation & 1);
}

/* Returns the first block of the tables of this generation. */
static inline uint64_t tables_at(const struct format_superblock *superblock, uint64_t generation)
{
	return superblock->tables_at + (generation & 1) * superblock->tables_blocks;
}

/* These return how many blocks of a segment hold its summary, and how many hold data. */
static inline uint32_t summary_blocks_for(uint32_t segment_blocks)
{
	uint32_t nr = 1;

	while (sizeof(struct format_summary) + (segment_blocks - nr) * sizeof(uint64_t) >
	       nr * FORMAT_BLOCK)
		nr++;
	return nr;
}

static inline uint32_t data_blocks_of(const struct format_superblock *superblock)
{
	return superblock->segment_blocks - summary_blocks_for(superblock->segment_blocks);
}

/*
 * The tables have room for so many segments without a summary: those that are open or being closed.
 */
#define TABLES_NR_LISTS 32U

/* Returns how many segments are kept back from users: for the cleaner, and for the streams' open
 * segments. */
static inline uint32_t reserve_segments(uint32_t nr_segments)
{
	return 8 + nr_segments / 32;
}

#endif
