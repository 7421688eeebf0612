/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The map: where each logical block lies. A page of it holds 510 entries of a range, has a slot of two copies on the device
 * from its creation on, is read when it is first wanted, and stays in memory then. Checkpoints write pages that changed;
 * nothing else writes the map's area.
 *
 * Invariants:
 *  - The directory (slots) as of the last committed checkpoint says which copy of which slot is a page's. A checkpoint
 *    writes the other copy, and the directory follows when it is committed; so whatever is cut, the copies of the last
 *    committed one are whole. A slot keeps its copy in mind when its page is gone and another gets it.
 *  - A page that is `frozen` is as it was when the checkpoint began until it was copied out: who changes it first keeps what
 *    it was (`image`).
 *  - A page that is pinned, or waited for, stays.
 *
 * Damage: a page that cannot be read, or is not the one that the directory means, is damaged: whoever reads it gets the error,
 * each time anew. Who is to change it gives it up first: all its entries are FORMAT_UNKNOWN then, and become known one by one
 * as blocks are put and trimmed. The next checkpoint writes it like that, so it stays damaged where it is. Entries that
 * contradict the segments' tables are FORMAT_UNKNOWN by themselves.
 */
#ifndef FLASH_MAP_H
#define FLASH_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "base/checksum.h"
#include "flash/device.h"
#include "flash/format.h"
#include "flash/ftl.h"
#include "flash/map_table.h"
#include "flash/segments.h"

struct map_page {
	struct format_page *data;  /* NULL: not read yet                                   */
	struct format_page *image; /* what it was when it was frozen, if it changed since  */
	uint32_t range;
	uint32_t page;
	uint32_t slot;
	uint32_t pins;
	uint32_t nr_mapped;  /* entries that are not nowhere; known once it was read   */
	uint32_t nr_unknown; /* of them, FORMAT_UNKNOWN                               */
	int damage;	     /* why entries are unknown; 0: they were already, or are another's */
	bool is_reread;	     /* it could not be read at once                          */
	bool is_loading;
	bool is_dirty;
	bool is_frozen;
	struct cds_list_head changed; /* of the dirty pages                         */
	struct cds_list_head frozen;  /* of the checkpoint's                        */
	struct cds_list_head waiters;
	struct flash_io io;
	struct iovec iov;
	struct map *map;
	uint64_t lost[(FORMAT_PAGE_ENTRIES + 63) / 64]; /* bits of replay's, see recover.c */
	uint8_t heat[FORMAT_PAGE_ENTRIES]; /* what is known of each block's, as heat.h says */
};

struct map_slot {
	struct map_page *page; /* NULL: none has it                          */
	uint32_t generation;   /* of the copy that counts; 0: there is none  */
	uint8_t copy;
	bool is_damaged; /* entries of its page are unknown, or it could not be read */
};

struct map {
	struct flash_device *device;
	const struct segments *segments; /* what a page refers to must be valid there */
	uint32_t first;			 /* block of the device */
	uint32_t nr_slots;
	uint32_t nr_slots_used;
	uint32_t next_slot; /* where the search for a free one goes on */
	struct map_slot *slots;
	struct map_table ranges; /* of each range that had a page, the table of its pages */
	struct cds_list_head changed;
	struct format_page *spare_images; /* chained by their first word */
	uint64_t bytes;			  /* of memory                   */
	uint32_t nr_damaged;		  /* slots that are, as far as was seen */
	uint32_t nr_insane;		  /* entries that contradicted the segments' tables */
	bool is_lossy; /* pages were found damaged since the layer was opened                   */
	unsigned nr_loading;
	bool is_image_lost; /* no memory for one: the checkpoint under way must not be committed */
};

int map_open(struct map *map, struct flash_device *device, const struct segments *segments,
	     const struct format_superblock *layout);
void map_close(struct map *map);

/* The page of a block; NULL: it has none, all its blocks are nowhere. */
struct map_page *map_find(const struct map *map, uint64_t lba);

/* The first page at or behind that of `lba` in its range; NULL: no more. */
struct map_page *map_next(const struct map *map, uint64_t lba);

/*
 * The page of a block, made if there is none, with all blocks nowhere. May drop others that are empty and not pinned. -ENOSPC:
 * no slot is left; -ENOMEM.
 */
int map_make(struct map *map, uint64_t lba, struct map_page **out);

/* For recovery: the page lies in `slot`, as the directory says. */
int map_restore(struct map *map, const struct format_table_page *entry);

static inline bool map_is_loaded(const struct map_page *page)
{
	return page->data && !page->is_loading;
}

/* Reads it, or waits with those who do, then ready(). It is not loaded. */
void map_load(struct map_page *page, struct ftl_waiter *waiter);

/* Whether what map_load() said is damage of the page, which will not pass. */
bool map_is_damage(int code);

/*
 * map_load() said that it is damaged: nobody knows where its blocks lie, from now on and until they are put or trimmed.
 * Whoever loads it meanwhile is waited for. -ENOMEM.
 */
int map_give_up(struct map_page *page, int code);

static inline bool map_is_known(const struct format_entry *entry)
{
	return entry->place != FORMAT_UNKNOWN;
}

/* 0, or -EBADMSG, or what else was said of the page, and a line: nobody knows where the block lies. Its page is loaded. */
int map_tell_unknown(const struct map_page *page, uint64_t lba);

static inline void map_pin(struct map_page *page)
{
	page->pins++;
}

static inline void map_unpin(struct map_page *page)
{
	page->pins--;
}

/* The entry of `lba` in its page, which is loaded. */
static inline const struct format_entry *map_entry(const struct map_page *page, uint64_t lba)
{
	return &page->data->entries[(uint32_t)lba % FORMAT_PAGE_ENTRIES];
}

/* The sum that an entry keeps of a block: of its address and its data. */
static inline uint32_t block_crc(uint64_t lba, const void *data)
{
	return checksum_crc32c_seeded(checksum_crc32c(&lba, sizeof(lba)), data, FTL_BLOCK);
}

/* Changes it. The page is dirty from now on. */
void map_set(struct map_page *page, uint64_t lba, struct format_entry entry);

/* The block behind the last of the page that `lba` is in; within a range, that is at most 2^32. */
uint64_t map_page_end(uint64_t lba);

/* ---- for checkpoints ---- */

/* Moves the dirty pages to `frozen`; those that are empty and not in use are no more. How many. */
uint32_t map_freeze(struct map *map, struct cds_list_head *frozen);
/* Copies what the frozen page was, as it is to be written with `generation`, and thaws it. */
void map_copy_out(struct map_page *page, uint32_t generation, struct format_page *out);
/* Where the copy that does not count lies, in blocks. */
uint64_t map_other_copy(const struct map *map, const struct map_page *page);
/* The checkpoint is committed: that copy counts. `slot` was frozen. */
void map_flip(struct map *map, uint32_t slot, uint32_t generation);

#endif
