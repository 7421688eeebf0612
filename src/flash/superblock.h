/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What stands at fixed places: the superblock, which says how a device is laid out and never changes, and the anchors, which
 * say from which checkpoint the rest is read. Read when a layer is opened; blocks.
 */
#ifndef FLASH_SUPERBLOCK_H
#define FLASH_SUPERBLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "flash/device.h"
#include "flash/format.h"
#include "flash/ftl.h"

/* How `device` would be laid out. Errors as ftl_create()'s. */
int superblock_plan(const struct flash_device *device, const struct ftl_options *options,
		    struct format_superblock *out);

/* -EEXIST and a line: something is there already: one of ours, what the device knows of others, or bytes at the beginning. */
int superblock_check_empty(struct flash_device *device);

/* Makes what was there unknown, to us and others, so that half a creation is none. */
int superblock_erase(struct flash_device *device);
/* Both copies, after everything else is there. */
int superblock_write(struct flash_device *device, const struct format_superblock *superblock);

/* The superblock, checked in itself and against the device. Errors as ftl_open()'s. */
int superblock_read(struct flash_device *device, struct format_superblock *out);
/* The same of the one in block `at` alone. */
int superblock_read_at(struct flash_device *device, uint64_t at, struct format_superblock *out);

/* The newest anchor that is whole; -EBADMSG and a line: neither is. */
int anchor_read(struct flash_device *device, const struct format_superblock *superblock,
		struct format_anchor *out);
/* Copy 0 or 1, if it is whole; -EBADMSG; what the device says. No line. */
int anchor_read_at(struct flash_device *device, const struct format_superblock *superblock,
		   uint64_t copy, struct format_anchor *out);
/* Its bytes as they are written: `block` is 4 KiB. */
void anchor_encode(const struct format_anchor *anchor, void *block);

/* Where the copy of generation `generation` lies, in blocks. */
static inline uint64_t anchor_at(uint64_t generation)
{
	return FORMAT_ANCHOR_AT + (generation & 1);
}

static inline uint64_t tables_at(const struct format_superblock *superblock, uint64_t generation)
{
	return superblock->tables_at + (generation & 1) * superblock->tables_blocks;
}

/* Blocks of a segment that hold its summary, and data. */
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

/* Segments without a summary that tables have room for: streams, and those that are being closed. */
#define TABLES_NR_LISTS 32U

/* Segments that are not for users' blocks: the cleaner's to work with, the streams' open ones. */
static inline uint32_t reserve_segments(uint32_t nr_segments)
{
	return 8 + nr_segments / 32;
}

#endif
