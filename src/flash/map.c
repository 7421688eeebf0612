/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages of the map, in memory and on the device; see map.h. */
#include "flash/map.h"

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

void map_close(struct map *map)
{
	for (uint32_t i = 0; map->slots && i < map->nr_slots; i++) {
		if (map->slots[i].page)
			free_page(map, map->slots[i].page);
	}
	for (uint32_t i = 0; i < map->nr_ranges; i++)
		free(map->ranges[i].pages);
	while (map->spare_images) {
		struct format_page *image = map->spare_images;

		map->spare_images = next_image(image);
		free(image);
	}
	free(map->ranges);
	free(map->slots);
	*map = (struct map){0};
}

static uint32_t page_number(uint64_t lba)
{
	return ftl_lba_block(lba) / FORMAT_PAGE_ENTRIES;
}

struct map_page *map_find(const struct map *map, uint64_t lba)
{
	uint32_t range = ftl_lba_range(lba), page = page_number(lba);

	if (range >= map->nr_ranges || page >= map->ranges[range].nr)
		return NULL;
	return map->ranges[range].pages[page];
}

struct map_page *map_next(const struct map *map, uint64_t lba)
{
	uint32_t range = ftl_lba_range(lba);

	if (range >= map->nr_ranges)
		return NULL;
	for (uint32_t page = page_number(lba); page < map->ranges[range].nr; page++) {
		if (map->ranges[range].pages[page])
			return map->ranges[range].pages[page];
	}
	return NULL;
}

uint64_t map_page_end(uint64_t lba)
{
	uint64_t end = ((uint64_t)page_number(lba) + 1) * FORMAT_PAGE_ENTRIES;

	if (end > UINT64_C(1) << 32)
		end = UINT64_C(1) << 32;
	return ((uint64_t)ftl_lba_range(lba) << 32) + end;
}

/* Makes `array` at least `wanted` long by doubling, the new part zero. */
static int grow(struct map *map, void *array, uint32_t *nr, size_t size, uint32_t wanted)
{
	uint64_t more = *nr ? *nr : 8;
	void *old, *new;

	memcpy(&old, array, sizeof(old));
	while (more < wanted)
		more *= 2;
	if (more > UINT32_MAX)
		more = UINT32_MAX;
	new = realloc(old, more * size);
	if (!new)
		return error_code(-ENOMEM);
	memset((char *)new + *nr *size, 0, (more - *nr) * size);
	map->bytes += (more - *nr) * size;
	memcpy(array, &new, sizeof(new));
	*nr = (uint32_t)more;
	return 0;
}

/* Where a page of that number is kept. */
static int make_place(struct map *map, uint32_t range, uint32_t page, struct map_page ***out)
{
	int rc = 0;

	if (range >= map->nr_ranges)
		rc = grow(map, &map->ranges, &map->nr_ranges, sizeof(*map->ranges), range + 1);
	if (!rc && page >= map->ranges[range].nr)
		rc = grow(map, &map->ranges[range].pages, &map->ranges[range].nr,
			  sizeof(struct map_page *), page + 1);
	if (!rc)
		*out = &map->ranges[range].pages[page];
	return rc;
}

static int new_page(struct map *map, uint32_t range, uint32_t number, uint32_t slot,
		    struct map_page **out)
{
	struct map_page **place;
	struct map_page *page;
	int rc = make_place(map, range, number, &place);

	if (rc)
		return rc;
	page = calloc(1, sizeof(*page));
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
	map->ranges[page->range].pages[page->page] = NULL;
	free_page(map, page);
}

/* Pages that nothing is in any more, and nobody uses: the next checkpoint would drop them. Replay has to do so too. */
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
	int rc;

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
	rc = new_page(map, ftl_lba_range(lba), page_number(lba), map->next_slot, &page);
	if (rc)
		return rc;
	rc = give_memory(page);
	if (rc) {
		drop_page(page);
		return rc;
	}
	memset(page->data, 0, sizeof(*page->data));
	/* What the slot has is another's. And if nothing comes of this one, the next checkpoint drops it. */
	map->slots[page->slot].generation = 0;
	mark_dirty(page);
	*out = page;
	return 0;
}

int map_restore(struct map *map, const struct format_table_page *entry)
{
	uint32_t slot = entry->slot >> 1;
	struct map_page *page;

	if (slot >= map->nr_slots || map->slots[slot].page || entry->range >= FTL_NR_RANGES ||
	    entry->page > UINT32_MAX / FORMAT_PAGE_ENTRIES ||
	    map_find(map, ftl_lba(entry->range, entry->page * FORMAT_PAGE_ENTRIES)))
		return error_fail(-EBADMSG, "open a flash layer: its map's directory is damaged");
	map->slots[slot].generation = entry->generation;
	map->slots[slot].copy = entry->slot & 1;
	return new_page(map, entry->range, entry->page, slot, &page);
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

/* Nobody has changed its entries since the checkpoint that wrote them: the blocks are valid still. */
static bool is_sane(const struct map_page *page)
{
	const struct segments *segments = page->map->segments;

	for (uint32_t i = 0; i < FORMAT_PAGE_ENTRIES; i++) {
		uint32_t place = page->data->entries[i].place;

		if (place &&
		    (!segments_is_place(segments, place) || !segments_is_valid(segments, place)))
			return false;
	}
	return true;
}

static int check_loaded(struct map_page *page)
{
	struct format_page *data = page->data;

	if (data->crc == page_crc(data) && data->range == page->range && data->page == page->page &&
	    data->generation == page->map->slots[page->slot].generation && is_sane(page))
		return 0;
	return error_fail(-EBADMSG, "read a page of the map: page %u of range %u is damaged",
			  page->page, page->range);
}

static void loaded(struct flash_io *io)
{
	struct map_page *page = caa_container_of(io, struct map_page, io);
	int rc = io->result ? io->result : check_loaded(page);
	struct cds_list_head waiters;

	page->is_loading = false;
	page->map->nr_loading--;
	if (rc) {
		log_error("flash: page %u of range %u of the map cannot be read: %s", page->page,
			  page->range, afar_strerror(rc));
		page->map->bytes -= sizeof(*page->data);
		free(page->data);
		page->data = NULL;
	} else {
		for (uint32_t i = 0; i < FORMAT_PAGE_ENTRIES; i++)
			page->nr_mapped += page->data->entries[i].place != 0;
	}
	/* Whoever is called may wait anew. */
	CDS_INIT_LIST_HEAD(&waiters);
	cds_list_splice(&page->waiters, &waiters);
	CDS_INIT_LIST_HEAD(&page->waiters);
	page->pins++;
	while (!cds_list_empty(&waiters)) {
		struct ftl_waiter *waiter = cds_list_first_entry(&waiters, struct ftl_waiter, node);

		cds_list_del(&waiter->node);
		waiter->ready(waiter, rc);
	}
	page->pins--;
}

void map_load(struct map_page *page, struct ftl_waiter *waiter)
{
	struct map *map = page->map;
	const struct map_slot *slot = &map->slots[page->slot];

	assert(!map_is_loaded(page));
	if (!page->is_loading && give_memory(page)) {
		waiter->ready(waiter, -ENOMEM);
		return;
	}
	cds_list_add_tail(&waiter->node, &page->waiters);
	if (page->is_loading)
		return;
	page->is_loading = true;
	map->nr_loading++;
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

/* ---- changing ---- */

/* Keeps what the page is for the checkpoint that has frozen it. */
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

void map_set(struct map_page *page, uint64_t lba, struct format_entry entry)
{
	struct format_entry *at = &page->data->entries[(uint32_t)lba % FORMAT_PAGE_ENTRIES];

	if (page->is_frozen && !page->image)
		keep_image(page);
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
