/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The map says where each logical block lies. A page holds the entries of 510 blocks of one range.
 * From its creation on it has a slot with two copies on the device. It is read when it is first
 * needed, and then stays in memory. Checkpoints write the pages that changed; nothing else writes
 * the map's area.
 *
 * Invariants:
 *  - The directory (slots) of the last committed checkpoint says which copy of which slot is
 *    current for a page. A checkpoint writes the other copy, and the directory changes when the
 *    checkpoint is committed. So a crash always leaves the copies of the last committed checkpoint
 *    whole. A slot remembers its current copy when its page is dropped and another page gets the
 *    slot.
 *  - A `frozen` page is written as it was when the checkpoint began. The first change before that
 *    saves its old content (`image`).
 *  - A page that is pinned, or that a caller waits for, is not dropped.
 *
 * Damage: a page is damaged if it cannot be read, or is not the one that the directory names. Each
 * load of it fails with the error. A caller that has to change it gives it up first. Then all its
 * entries become FORMAT_UNKNOWN, and known one by one as blocks are put and trimmed. The next
 * checkpoint writes it so, and the directory marks it as damaged. A single entry that contradicts
 * the segments' tables becomes FORMAT_UNKNOWN when the page is loaded.
 *
 * Threads: the layer's. No function here blocks.
 */
#ifndef FLASH_MAP_H
#define FLASH_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "base/checksum.h"
#include "flash/device/device.h"
#include "flash/format.h"
#include "flash/ftl.h"
#include "flash/map/map_table.h"
#include "flash/map/segments.h"

struct map_page {
	struct format_page *data;  /* NULL: not in memory; see map_is_loaded() */
	struct format_page *image; /* its content when it was frozen, if it changed since */
	uint32_t range;
	uint32_t page;
	uint32_t slot;
	uint32_t pins;
	uint32_t nr_mapped;  /* entries whose place is not 0; valid once it was read */
	uint32_t nr_unknown; /* of them, FORMAT_UNKNOWN */
	int damage;	     /* the error that its unknown entries are reported with; 0: -EBADMSG */
	bool is_reread;	     /* the first read failed; this is the second */
	bool is_loading;
	bool is_dirty;
	bool is_frozen;
	struct cds_list_head changed; /* in the list of dirty pages */
	struct cds_list_head frozen;  /* in the checkpoint's list */
	struct cds_list_head waiters;
	struct flash_io io;
	struct iovec iov;
	struct map *map;
	uint64_t lost[(FORMAT_PAGE_ENTRIES + 63) / 64]; /* a bit per entry, for replay.c */
	uint8_t heat[FORMAT_PAGE_ENTRIES];		/* the byte of each block, see heat.h */
};

struct map_slot {
	struct map_page *page; /* NULL: the slot is free */
	uint32_t generation;   /* of the current copy; 0: there is none */
	uint8_t copy;	       /* which is current, 0 or 1 */
	bool is_damaged;       /* entries of its page are unknown, or it could not be read */
};

struct map {
	struct flash_device *device;
	const struct segments *segments; /* a block that an entry refers to must be valid there */
	uint32_t first;			 /* block of the device */
	uint32_t nr_slots;
	uint32_t nr_slots_used;
	uint32_t next_slot; /* the search for a free slot continues here */
	struct map_slot *slots;
	struct map_table ranges; /* a table of pages for each range that ever had one */
	struct cds_list_head changed;
	struct format_page *spare_images; /* chained by their first word */
	uint64_t bytes;			  /* of memory in use */
	uint32_t nr_damaged;		  /* slots with is_damaged */
	uint32_t nr_insane;		  /* entries that contradicted the segments' tables */
	bool is_lossy;			  /* damage was found since the layer was opened */
	unsigned nr_loading;
	bool is_image_lost; /* no memory for an image: the checkpoint must not be committed */
};

/* Makes an empty map on `device`. Both `device` and `segments` must outlive it. Returns 0, or
 * -ENOMEM. */
int map_open(struct map *map, struct flash_device *device, const struct segments *segments,
	     const struct format_superblock *layout);
/* Frees the map and its pages. No load may be in flight. */
void map_close(struct map *map);

/* Returns the page of a block, which may not be loaded. NULL: there is none, so all its blocks read
 * as zeros. Pages belong to the map; pin one to keep it beyond the next call. */
struct map_page *map_find(const struct map *map, uint64_t lba);

/* Returns the first page of the range at or behind that of `lba`; NULL: there is none. */
struct map_page *map_next(const struct map *map, uint64_t lba);

/*
 * Finds the page of a block. If there is none, makes one whose blocks all read as zeros, and may
 * drop other pages that are empty and not pinned. Returns 0; -ENOSPC: no slot is free; -ENOMEM.
 */
int map_make(struct map *map, uint64_t lba, struct map_page **out);

/* Adds a page of the checkpoint's directory, for recovery. Returns 0; -EBADMSG: the entry cannot be
 * right; -ENOMEM. */
int map_restore(struct map *map, const struct format_table_page *entry);

/* Returns whether `data` is the copy of the page that the checkpoint names, as it was written. */
bool map_is_copy(const struct map_page *page, struct format_page *data);

static inline bool map_is_loaded(const struct map_page *page)
{
	return page->data && !page->is_loading;
}

/*
 * Reads the page, which is not loaded, or joins the load under way. Then it calls ready() in
 * flash_device_poll(), with 0, -EBADMSG, or the device's error. Without memory for the page it
 * calls ready() with -ENOMEM at once.
 */
void map_load(struct map_page *page, struct ftl_waiter *waiter);

/* Returns whether `code`, from map_load(), means that the page is damaged for good. */
bool map_is_damage(int code);

/*
 * Gives up a page that map_load() found damaged with `code`: the places of its blocks are unknown
 * until the blocks are put or trimmed. If the page is loaded, or is being loaded again, it does
 * nothing. Returns 0, or -ENOMEM.
 */
int map_give_up(struct map_page *page, int code);

static inline bool map_is_known(const struct format_entry *entry)
{
	return entry->place != FORMAT_UNKNOWN;
}

/* Returns 0 if the block's place is known. Otherwise returns the error that damaged its page, or
 * -EBADMSG; error_last_line() says more. The page must be loaded. */
int map_tell_unknown(const struct map_page *page, uint64_t lba);

static inline void map_pin(struct map_page *page)
{
	page->pins++;
}

static inline void map_unpin(struct map_page *page)
{
	page->pins--;
}

/* Returns the entry of `lba` in its page, which must be loaded. */
static inline const struct format_entry *map_entry(const struct map_page *page, uint64_t lba)
{
	return &page->data->entries[(uint32_t)lba % FORMAT_PAGE_ENTRIES];
}

/* Returns the checksum that an entry keeps of a block: of its lba and its data. */
static inline uint32_t block_crc(uint64_t lba, const void *data)
{
	return checksum_crc32c_seeded(checksum_crc32c(&lba, sizeof(lba)), data, FTL_BLOCK);
}

/* Returns the CRC32C of a block's data alone for the checksum that an entry keeps, and the other way
 * round. */
static inline uint32_t block_crc_convert(uint64_t lba, uint32_t crc)
{
	return crc ^ checksum_carried(checksum_crc32c(&lba, sizeof(lba)));
}

/* Changes the entry of `lba` in its page, which must be loaded. The page is dirty afterwards. */
void map_set(struct map_page *page, uint64_t lba, struct format_entry entry);

/* Returns the lba behind the last block of the page that `lba` is in. */
uint64_t map_page_end(uint64_t lba);

/* ---- for checkpoints ---- */

/* Freezes the dirty pages and adds them to `frozen`. Drops those that are empty and not pinned.
 * Returns how many pages it froze. */
uint32_t map_freeze(struct map *map, struct cds_list_head *frozen);
/* Copies the frozen page's content to `out`, as it is to be written with `generation`. The page is
 * not frozen afterwards. */
void map_copy_out(struct map_page *page, uint32_t generation, struct format_page *out);
/* Returns the block of the device where the copy lies that is not current. */
uint64_t map_other_copy(const struct map *map, const struct map_page *page);
/* Makes the other copy of `slot`, whose page was frozen, the current one: the checkpoint is
 * committed. */
void map_flip(struct map *map, uint32_t slot, uint32_t generation);

#endif
