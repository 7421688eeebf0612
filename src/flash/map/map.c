/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages of the map, in memory and on the device; see map.h. */
#include "flash/map/map.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/error.h"
#include "base/log.h"
#include "flash/ftl.h"

/* Images that are not in use are chained by their first word. */
static struct format_page *next_image(const struct format_page *image)
{
	void *next;

	memcpy(&next, image, sizeof(next));
	return next;
}

static void set_next_image(struct format_page *image, void *next)
{
	memcpy(image, &next, sizeof(next));
}

int map_open(struct map *map, struct flash_device *device, const struct segments *segments,
	     const struct format_superblock *layout)
{
	*map = (struct map){.device = device,
			    .segments = segments,
			    .first = layout->map_at,
			    .nr_slots = layout->nr_slots};
	CDS_INIT_LIST_HEAD(&map->changed);
	map->slots = calloc(map->nr_slots, sizeof(*map->slots));
	map->bytes = map->nr_slots * sizeof(*map->slots);
	return map->slots ? 0 : error_code(-ENOMEM);
}

static void free_page(struct map *map, struct map_page *page)
{
	if (page->data)
		map->bytes -= sizeof(*page->data);
	free(page->data);
	free(page->image);
	free(page);
	map->bytes -= sizeof(*page);
}

static void close_ranges(struct map *map)
{
	struct map_table *pages;

	for (uint32_t range = 0; (pages = map_table_next(&map->ranges, &range)); range++) {
		map_table_close(pages);
		free(pages);
	}
	map_table_close(&map->ranges);
}

void map_close(struct map *map)
{
	for (uint32_t i = 0; map->slots && i < map->nr_slots; i++) {
		if (map->slots[i].page)
			free_page(map, map->slots[i].page);
	}
	close_ranges(map);
	while (map->spare_images) {
		struct format_page *image = map->spare_images;

		map->spare_images = next_image(image);
		free(image);
	}
	free(map->slots);
	*map = (struct map){0};
}

static uint32_t page_number(uint64_t lba)
{
	return ftl_lba_block(lba) / FORMAT_PAGE_ENTRIES;
}

struct map_page *map_find(const struct map *map, uint64_t lba)
{
	const struct map_table *pages = map_table_at(&map->ranges, ftl_lba_range(lba));

	return pages ? map_table_at(pages, page_number(lba)) : NULL;
}

struct map_page *map_next(const struct map *map, uint64_t lba)
{
	const struct map_table *pages = map_table_at(&map->ranges, ftl_lba_range(lba));
	uint32_t number = page_number(lba);

	return pages ? map_table_next(pages, &number) : NULL;
}

uint64_t map_page_end(uint64_t lba)
{
	uint64_t end = ((uint64_t)page_number(lba) + 1) * FORMAT_PAGE_ENTRIES;

	if (end > UINT64_C(1) << 32)
		end = UINT64_C(1) << 32;
	return ((uint64_t)ftl_lba_range(lba) << 32) + end;
}

/* Returns the address of the page's pointer; NULL: no memory. */
static void **make_place(struct map *map, uint32_t range, uint32_t page)
{
	void **place = map_table_place(&map->ranges, range, &map->bytes);

	if (place && !*place) {
		*place = calloc(1, sizeof(struct map_table));
		map->bytes += *place ? sizeof(struct map_table) : 0;
	}
	return place && *place ? map_table_place(*place, page, &map->bytes) : NULL;
}

static int new_page(struct map *map, uint32_t range, uint32_t number, uint32_t slot,
		    struct map_page **out)
{
	void **place = make_place(map, range, number);
	struct map_page *page = place ? calloc(1, sizeof(*page)) : NULL;

	if (!page)
		return error_code(-ENOMEM);
	map->bytes += sizeof(*page);
	page->map = map;
	page->range = range;
	page->page = number;
	page->slot = slot;
	CDS_INIT_LIST_HEAD(&page->waiters);
	map->slots[slot].page = page;
	map->nr_slots_used++;
	*place = page;
	*out = page;
	return 0;
}

static int give_memory(struct map_page *page)
{
	page->data = aligned_alloc(FORMAT_BLOCK, sizeof(*page->data));
	if (!page->data)
		return error_code(-ENOMEM);
	page->map->bytes += sizeof(*page->data);
	return 0;
}

static void drop_page(struct map_page *page)
{
	struct map *map = page->map;

	map->slots[page->slot].page = NULL;
	map->nr_slots_used--;
	/* This allocates nothing, because the place exists. */
	*make_place(map, page->range, page->page) = NULL;
	free_page(map, page);
}

/*
 * Drops changed pages that are empty and not in use, as the next checkpoint would. Replay needs
 * this too, because it has the same slots.
 */
static void drop_empty(struct map *map)
{
	struct map_page *page, *next;

	cds_list_for_each_entry_safe (page, next, &map->changed, changed) {
		if (page->nr_mapped || page->pins || page->is_frozen)
			continue;
		cds_list_del(&page->changed);
		drop_page(page);
	}
}

static void mark_dirty(struct map_page *page)
{
	if (page->is_dirty)
		return;
	page->is_dirty = true;
	cds_list_add_tail(&page->changed, &page->map->changed);
}

int map_make(struct map *map, uint64_t lba, struct map_page **out)
{
	struct map_page *page = map_find(map, lba);
	int ret;

	if (page) {
		*out = page;
		return 0;
	}
	if (map->nr_slots_used == map->nr_slots)
		drop_empty(map);
	if (map->nr_slots_used == map->nr_slots)
		return error_fail(-ENOSPC,
				  "write a block: the map's %u pages are all in use; trim "
				  "whole ranges, or make the layer with more",
				  map->nr_slots);
	while (map->slots[map->next_slot].page)
		map->next_slot = (map->next_slot + 1) % map->nr_slots;
	ret = new_page(map, ftl_lba_range(lba), page_number(lba), map->next_slot, &page);
	if (ret)
		return ret;
	ret = give_memory(page);
	if (ret) {
		drop_page(page);
		return ret;
	}
	memset(page->data, 0, sizeof(*page->data));
	/*
	 * The copy in the slot is another page's. If this page stays empty, the next checkpoint
	 * drops it.
	 */
	map->slots[page->slot].generation = 0;
	mark_dirty(page);
	*out = page;
	return 0;
}

int map_restore(struct map *map, const struct format_table_page *entry)
{
	uint32_t slot = entry->slot >> 1, number = entry->page & ~FORMAT_PAGE_DAMAGED;
	struct map_page *page;

	if (slot >= map->nr_slots || map->slots[slot].page || entry->range >= FTL_NR_RANGES ||
	    number > UINT32_MAX / FORMAT_PAGE_ENTRIES ||
	    map_find(map, ftl_lba(entry->range, number * FORMAT_PAGE_ENTRIES)))
		return error_fail(-EBADMSG, "open a flash layer: its map's directory is damaged");
	map->slots[slot].generation = entry->generation;
	map->slots[slot].copy = entry->slot & 1;
	map->slots[slot].is_damaged = entry->page & FORMAT_PAGE_DAMAGED;
	map->nr_damaged += map->slots[slot].is_damaged;
	return new_page(map, entry->range, number, slot, &page);
}

/* ---- reading ---- */

static uint32_t page_crc(struct format_page *page)
{
	uint32_t crc = page->crc, made;

	page->crc = 0;
	made = checksum_crc32c(page, sizeof(*page));
	page->crc = crc;
	return made;
}

bool map_is_damage(int code)
{
	return code == -EBADMSG || flash_device_is_media_error(code);
}

int map_tell_unknown(const struct map_page *page, uint64_t lba)
{
	if (map_is_known(map_entry(page, lba)))
		return 0;
	return error_fail(page->damage ? page->damage : -EBADMSG,
			  "find block %u of range %u: the page of the map that says where it lies "
			  "was damaged; write the whole block anew, or trim it",
			  ftl_lba_block(lba), page->range);
}

bool map_is_copy(const struct map_page *page, struct format_page *data)
{
	return data->crc == page_crc(data) && data->range == page->range &&
	       data->page == page->page &&
	       data->generation == page->map->slots[page->slot].generation;
}

static int check_loaded(const struct map_page *page, struct format_page *data)
{
	if (map_is_copy(page, data))
		return 0;
	return error_fail(-EBADMSG, "read a page of the map: page %u of range %u is damaged",
			  page->page, page->range);
}

/* Returns whether the entry agrees with the segments' tables. It has not changed since the
 * checkpoint that wrote it, so its block must still be valid. */
static bool is_sane(const struct map_page *page, const struct format_entry *entry)
{
	const struct segments *segments = page->map->segments;

	return !entry->place || !map_is_known(entry) ||
	       (segments_is_place(segments, entry->place) &&
		segments_is_valid(segments, entry->place));
}

/* Notes in the page's slot whether the page is damaged. */
static void note_damage(struct map_page *page, bool is_damaged)
{
	struct map *map = page->map;
	struct map_slot *slot = &map->slots[page->slot];

	map->nr_damaged += is_damaged;
	map->nr_damaged -= slot->is_damaged;
	slot->is_damaged = is_damaged;
}

static void tell_lost(const struct map_page *page, uint32_t nr, int code)
{
	page->map->is_lossy = true;
	log_error_some("flash: %u blocks from %u of range %u on cannot be found: %s", nr,
		       page->page * FORMAT_PAGE_ENTRIES, page->range, afar_strerror(code));
}

static void take_loaded(struct map_page *page)
{
	uint32_t nr_insane = 0;

	page->damage = -EBADMSG;
	page->nr_mapped = page->nr_unknown = 0;
	for (uint32_t i = 0; i < FORMAT_PAGE_ENTRIES; i++) {
		struct format_entry *entry = &page->data->entries[i];

		if (!is_sane(page, entry)) {
			*entry = (struct format_entry){.place = FORMAT_UNKNOWN};
			nr_insane++;
		}
		page->nr_mapped += entry->place != 0;
		page->nr_unknown += !map_is_known(entry);
	}
	page->map->nr_insane += nr_insane;
	if (nr_insane)
		tell_lost(page, nr_insane, -EBADMSG);
	note_damage(page, page->nr_unknown > 0);
}

int map_give_up(struct map_page *page, int code)
{
	uint64_t first = ftl_lba(page->range, page->page * FORMAT_PAGE_ENTRIES);
	uint32_t nr = (uint32_t)(map_page_end(first) - first);
	int ret;

	if (page->data)
		return 0;
	ret = give_memory(page);
	if (ret)
		return ret;
	memset(page->data, 0, sizeof(*page->data));
	for (uint32_t i = 0; i < nr; i++)
		page->data->entries[i].place = FORMAT_UNKNOWN;
	page->nr_mapped = page->nr_unknown = nr;
	page->damage = code;
	note_damage(page, true);
	tell_lost(page, nr, code);
	return 0;
}

static void read_page(struct map_page *page);

static void loaded(struct flash_io *io)
{
	struct map_page *page = caa_container_of(io, struct map_page, io);
	int ret = io->result ? io->result : check_loaded(page, page->data);
	struct cds_list_head waiters;

	/* Read once more: the error may be one of the transfer only. */
	if (ret && map_is_damage(ret) && !page->is_reread) {
		page->is_reread = true;
		read_page(page);
		return;
	}
	page->is_loading = false;
	page->map->nr_loading--;
	if (ret) {
		/* Logged once, however often the page is loaded. */
		if (page->damage != ret)
			log_error_some("flash: page %u of range %u of the map cannot be read: %s",
				       page->page, page->range, afar_strerror(ret));
		page->damage = ret;
		note_damage(page, map_is_damage(ret));
		page->map->bytes -= sizeof(*page->data);
		free(page->data);
		page->data = NULL;
	} else {
		take_loaded(page);
	}
	/* A waiter that is called may wait again, so take the list first. */
	CDS_INIT_LIST_HEAD(&waiters);
	cds_list_splice(&page->waiters, &waiters);
	CDS_INIT_LIST_HEAD(&page->waiters);
	page->pins++;
	while (!cds_list_empty(&waiters)) {
		struct ftl_waiter *waiter = cds_list_first_entry(&waiters, struct ftl_waiter, node);

		cds_list_del(&waiter->node);
		waiter->ready(waiter, ret);
	}
	page->pins--;
}

static void read_page(struct map_page *page)
{
	struct map *map = page->map;
	const struct map_slot *slot = &map->slots[page->slot];

	page->iov = (struct iovec){page->data, FORMAT_BLOCK};
	page->io = (struct flash_io){
		.opcode = FLASH_IO_READ,
		.offset = (map->first + 2 * (uint64_t)page->slot + slot->copy) * FORMAT_BLOCK,
		.length = FORMAT_BLOCK,
		.iov = &page->iov,
		.nr_iov = 1,
		.done = loaded,
	};
	flash_device_submit(map->device, &page->io);
}

void map_load(struct map_page *page, struct ftl_waiter *waiter)
{
	assert(!map_is_loaded(page));
	if (!page->is_loading && give_memory(page)) {
		waiter->ready(waiter, -ENOMEM);
		return;
	}
	cds_list_add_tail(&waiter->node, &page->waiters);
	if (page->is_loading)
		return;
	page->is_loading = true;
	page->is_reread = false;
	page->map->nr_loading++;
	read_page(page);
}

/* ---- changing ---- */

/* Saves the page's content for the checkpoint that has frozen it. */
static void keep_image(struct map_page *page)
{
	struct map *map = page->map;
	struct format_page *image = map->spare_images;

	if (image)
		map->spare_images = next_image(image);
	else
		image = aligned_alloc(FORMAT_BLOCK, sizeof(*image));
	if (!image) {
		page->map->is_image_lost = true;
		return;
	}
	memcpy(image, page->data, sizeof(*image));
	page->image = image;
}

static void count_unknown(struct map_page *page, const struct format_entry *old,
			  const struct format_entry *new)
{
	page->nr_unknown += !map_is_known(new);
	page->nr_unknown -= !map_is_known(old);
	note_damage(page, page->nr_unknown > 0);
}

void map_set(struct map_page *page, uint64_t lba, struct format_entry entry)
{
	struct format_entry *at = &page->data->entries[(uint32_t)lba % FORMAT_PAGE_ENTRIES];

	if (page->is_frozen && !page->image)
		keep_image(page);
	if (page->nr_unknown || !map_is_known(&entry))
		count_unknown(page, at, &entry);
	page->nr_mapped += entry.place != 0;
	page->nr_mapped -= at->place != 0;
	*at = entry;
	mark_dirty(page);
}

/* ---- for checkpoints ---- */

uint32_t map_freeze(struct map *map, struct cds_list_head *frozen)
{
	struct map_page *page, *next;
	uint32_t nr = 0;

	cds_list_for_each_entry_safe (page, next, &map->changed, changed) {
		cds_list_del(&page->changed);
		page->is_dirty = false;
		if (page->nr_mapped == 0 && page->pins == 0) {
			drop_page(page);
			continue;
		}
		assert(!page->is_frozen);
		page->is_frozen = true;
		cds_list_add_tail(&page->frozen, frozen);
		nr++;
	}
	return nr;
}

void map_copy_out(struct map_page *page, uint32_t generation, struct format_page *out)
{
	struct map *map = page->map;

	memcpy(out, page->image ? page->image : page->data, sizeof(*out));
	if (page->image) {
		set_next_image(page->image, map->spare_images);
		map->spare_images = page->image;
		page->image = NULL;
	}
	page->is_frozen = false;
	out->generation = generation;
	out->range = page->range;
	out->page = page->page;
	out->crc = page_crc(out);
}

uint64_t map_other_copy(const struct map *map, const struct map_page *page)
{
	return map->first + 2 * (uint64_t)page->slot + !map->slots[page->slot].copy;
}

void map_flip(struct map *map, uint32_t slot, uint32_t generation)
{
	map->slots[slot].copy = !map->slots[slot].copy;
	map->slots[slot].generation = generation;
}
