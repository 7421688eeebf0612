/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a store's cache: slabs of 2 MiB, taken when they are wanted, up to a limit. A slab is of one
 * namespace. Where clients of this machine can map it, it is a file that nobody else writes; its memory never becomes
 * another namespace's. Another one's slab is other memory.
 *
 * A namespace that lacks frames gets a slab while there is memory. Then it replaces its own pages. When it has
 * missed as often as a slab has frames, it gets a slab of the namespace that used its own least since then.
 *
 * A client that has left may still have a slab mapped. Before anything new is read into such a slab, its pages move
 * to other memory. So nobody is shown more than what he could read when he had the right to.
 * Called by pager.c and pager_cached.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/shared.h"
#include "memory/segment.h"
#include "server/stores/pager_private.h"

#define WAITS_MAX 64U
#define EASE_NS	  UINT64_C(60000000000) /* without pressure, until it takes more memory again */

struct page_slab {
	char *memory; /* NULL: it has none */
	uint64_t number;
	bool is_left;	   /* by a client that had it */
	uint32_t nr_waits; /* reads that found it busy then */
};

_Static_assert(FABRIC_PAGE == CACHE_BLOCK && FABRIC_SLAB_PAGES * CACHE_BLOCK == SEGMENT_MIN,
	       "slabs are one segment");

int pages_slabs_open(struct pages *pages, uint64_t bytes, bool is_shared)
{
	CDS_INIT_LIST_HEAD(&pages->shares);
	pages->nr_slabs = pages->limit = (uint32_t)(bytes / SEGMENT_MIN);
	pages->is_shared = is_shared;
	pages->slabs = calloc(pages->nr_slabs, sizeof(*pages->slabs));
	return pages->slabs ? 0 : error_code(-ENOMEM);
}

static void free_memory(const struct pages *pages, char *memory)
{
	if (pages->is_shared)
		shared_unmap(memory);
	else
		segment_unmap(memory, SEGMENT_MIN);
}

void pages_slabs_close(struct pages *pages)
{
	struct page_share *share, *next;

	if (!pages->slabs)
		return;
	for (uint32_t i = 0; i < pages->nr_slabs; i++) {
		if (pages->slabs[i].memory)
			free_memory(pages, pages->slabs[i].memory);
	}
	cds_list_for_each_entry_safe (share, next, &pages->shares, node) {
		free(share->cached);
		free(share);
	}
	free(pages->slabs);
}

/* ---- Memory */

static char *map_shared(void)
{
	void *memory;
	int fd;

	if (shared_map(FABRIC_SLAB_BYTES, SEGMENT_MIN, &memory) != 0)
		return NULL;
	fd = shared_descriptor(memory, FABRIC_SLAB_BYTES);
	/* All of it is there from now on: a page that could not be had later would end us. */
	if (fallocate(fd, 0, 0, FABRIC_SLAB_BYTES) == 0 &&
	    shared_make_read_only(memory, FABRIC_SLAB_BYTES) == 0 && shared_keep(fd))
		return memory;
	shared_unmap(memory);
	return NULL;
}

/* NULL: there is none now. */
static char *map_memory(const struct pages *pages)
{
	enum segment_backing backing;
	void *memory;

	if (!pages->is_shared)
		return segment_map(SEGMENT_MIN, 1, &memory, &backing) == 0 ? memory : NULL;
	return segment_fits(FABRIC_SLAB_BYTES) == 0 ? map_shared() : NULL;
}

static struct page_guard *guards_of(const struct pages *pages, char *memory)
{
	return pages->is_shared ? (struct page_guard *)(void *)(memory + SEGMENT_MIN) : NULL;
}

static struct page_slab new_slab(struct pages *pages, char *memory)
{
	return (struct page_slab){.memory = memory, .number = ++pages->last_slab};
}

static void drop_memory(struct pages *pages, struct page_slab *slab)
{
	free_memory(pages, slab->memory);
	pages->nr_left -= slab->is_left;
	*slab = (struct page_slab){0};
}

/* Gives the memory of slabs back that nobody uses any more. A device that is beyond use may be at it still. */
static void sweep(struct pages *pages)
{
	for (uint32_t i = 0; i < pages->nr_slabs && !pages->has_failed; i++) {
		if (!pages->slabs[i].memory || !cache_is_recalled(pages->cache, i))
			continue;
		drop_memory(pages, &pages->slabs[i]);
		pages->nr_backed--;
	}
}

/* ---- Who gets it */

static uint32_t find_free(const struct pages *pages)
{
	uint32_t i = 0;

	while (i < pages->nr_slabs && pages->slabs[i].memory)
		i++;
	return i;
}

static bool lend(struct pages *pages, struct page_share *share)
{
	const uint32_t i = find_free(pages);
	char *memory = i < pages->nr_slabs ? map_memory(pages) : NULL;

	if (!memory)
		return false;
	pages->slabs[i] = new_slab(pages, memory);
	pages->nr_backed++;
	cache_lend(pages->cache, i, share->cached, memory, guards_of(pages, memory));
	return true;
}

/* Uses of each slab since somebody last looked. */
static uint64_t uses_of(const struct page_share *share)
{
	const uint32_t nr = cache_share_slabs(share->cached);

	return (cache_share_uses(share->cached) - share->uses_before) / (nr > 0 ? nr : 1);
}

static struct page_share *find_idlest(struct pages *pages, const struct page_share *but)
{
	struct page_share *share, *idlest = NULL;

	cds_list_for_each_entry (share, &pages->shares, node) {
		if (share != but && cache_share_slabs(share->cached) > 0 &&
		    (!idlest || uses_of(share) < uses_of(idlest)))
			idlest = share;
	}
	return idlest;
}

/* The one of a share with the fewest blocks, and of these the last. */
static uint32_t find_emptiest(const struct pages *pages, const struct cache_share *share)
{
	uint32_t found = pages->nr_slabs;

	for (uint32_t i = pages->nr_slabs; i-- > 0;) {
		if (cache_slab_share(pages->cache, i) == share &&
		    (found == pages->nr_slabs ||
		     cache_slab_used(pages->cache, i) < cache_slab_used(pages->cache, found)))
			found = i;
	}
	return found;
}

/* A share has missed often: takes a slab of one that uses its own less. */
static void take_from_another(struct pages *pages, const struct page_share *share)
{
	const struct page_share *idlest = find_idlest(pages, share);
	struct page_share *each;

	if (idlest && uses_of(idlest) < uses_of(share) + share->nr_lacks)
		cache_recall(pages->cache, find_emptiest(pages, idlest->cached));
	sweep(pages);
	cds_list_for_each_entry (each, &pages->shares, node)
		each->uses_before = cache_share_uses(each->cached);
}

/* Finds a slab of the share that somebody has left. Returns nr_slabs if there is none. */
static uint32_t find_left(const struct pages *pages, const struct page_share *share)
{
	uint32_t i = 0;

	while (i < pages->nr_slabs &&
	       !(pages->slabs[i].is_left && cache_slab_share(pages->cache, i) == share->cached))
		i++;
	return i;
}

/* Moves one slab that somebody has left. If it stays busy, or there is no memory for that, its pages go. True: there
 * was none. */
static bool renew(struct pages *pages, const struct page_share *share)
{
	const uint32_t i = pages->nr_left > 0 ? find_left(pages, share) : pages->nr_slabs;
	char *memory;

	if (i == pages->nr_slabs)
		return true;
	if (!cache_may_move(pages->cache, i) && ++pages->slabs[i].nr_waits < WAITS_MAX)
		return false;
	memory = cache_may_move(pages->cache, i) ? map_memory(pages) : NULL;
	if (!memory) {
		cache_recall(pages->cache, i);
		sweep(pages);
		return false;
	}
	cache_move(pages->cache, i, memory, guards_of(pages, memory));
	drop_memory(pages, &pages->slabs[i]);
	pages->slabs[i] = new_slab(pages, memory);
	return false;
}

bool pages_make_room(struct pages *pages, struct page_share *share, bool is_ahead)
{
	if (!renew(pages, share))
		return false;
	if (!cache_share_is_full(share->cached))
		return true;
	if (pages->nr_backed == pages->limit)
		sweep(pages);
	if (pages->nr_backed == pages->limit && !is_ahead &&
	    ++share->nr_lacks >= FABRIC_SLAB_PAGES) {
		take_from_another(pages, share);
		share->nr_lacks = 0;
	}
	if (pages->nr_backed < pages->limit && lend(pages, share))
		share->nr_lacks = 0;
	return true;
}

/* ---- Namespaces */

static struct page_share *find_share(struct pages *pages, uint64_t namespace)
{
	struct page_share *share;

	cds_list_for_each_entry (share, &pages->shares, node) {
		if (share->namespace == namespace)
			return share;
	}
	return NULL;
}

static struct page_share *new_share(struct pages *pages, uint64_t namespace)
{
	struct page_share *share = calloc(1, sizeof(*share));

	if (!share)
		return NULL;
	share->cached = cache_share_open();
	if (!share->cached) {
		free(share);
		return NULL;
	}
	share->namespace = namespace;
	cds_list_add(&share->node, &pages->shares);
	return share;
}

/* Without memory for it nothing of the extent is kept. */
void pages_enter(struct store_extent *extent)
{
	struct pages *pages = &extent->store->pages;

	if (!pages->cache)
		return;
	extent->share = find_share(pages, extent->namespace);
	if (!extent->share)
		extent->share = new_share(pages, extent->namespace);
	if (extent->share)
		extent->share->nr_extents++;
}

static void recall_all(struct pages *pages, const struct cache_share *share)
{
	for (uint32_t i = 0; i < pages->nr_slabs; i++) {
		if (cache_slab_share(pages->cache, i) == share || !share)
			cache_recall(pages->cache, i);
	}
	sweep(pages);
}

static void free_if_unused(struct page_share *share)
{
	if (share->nr_extents > 0 || share->nr_ahead > 0)
		return;
	cache_share_close(share->cached);
	cds_list_del(&share->node);
	free(share);
}

void pages_leave(struct store_extent *extent)
{
	struct pages *pages = &extent->store->pages;
	struct page_share *share = extent->share;

	if (!share || --share->nr_extents > 0)
		return;
	recall_all(pages, share->cached);
	free_if_unused(share);
}

bool pages_begin_ahead(struct pages *pages, struct page_share *share)
{
	const uint32_t others = pages->nr_ahead - share->nr_ahead;

	if (share->nr_ahead >= (PAGES_AHEAD_MAX - others) / 2)
		return false;
	share->nr_ahead++;
	pages->nr_ahead++;
	return true;
}

void pages_end_ahead(struct pages *pages, struct page_share *share)
{
	share->nr_ahead--;
	pages->nr_ahead--;
	free_if_unused(share);
}

void pages_fail(struct pages *pages)
{
	pages->has_failed = true;
	if (pages->cache)
		recall_all(pages, NULL);
}

/* ---- Memory that others need */

static void press_to(struct pages *pages, uint32_t limit)
{
	uint32_t nr_lent = 0;

	pages->limit = limit;
	for (uint32_t i = 0; i < pages->nr_slabs; i++)
		nr_lent += cache_slab_share(pages->cache, i) != NULL;
	for (uint32_t i = pages->nr_slabs; i-- > 0 && nr_lent > limit;) {
		nr_lent -= cache_slab_share(pages->cache, i) != NULL;
		cache_recall(pages->cache, i);
	}
	sweep(pages);
}

void pages_press(struct pages *pages, uint64_t now)
{
	if (!pages->cache)
		return;
	pages->pressed_at = now;
	press_to(pages, pages->limit > 2 ? pages->limit / 2 : 1);
}

void pages_ease(struct pages *pages, uint64_t now)
{
	if (!pages->cache)
		return;
	sweep(pages);
	if (pages->limit == pages->nr_slabs || now - pages->pressed_at < EASE_NS)
		return;
	pages->pressed_at = now;
	pages->limit = pages->limit < pages->nr_slabs / 2 ? pages->limit * 2 : pages->nr_slabs;
}

/* ---- References */

/* A client's connection has a byte for each slab. */
void pages_refer(struct pages *pages, struct progress_work *work, const struct cache_frame *frame,
		 struct fabric_reference *out)
{
	const uint32_t place = cache_place(pages->cache, frame), i = place / FABRIC_SLAB_PAGES;
	const struct page_slab *slab = &pages->slabs[i];
	bool *given = work->given;

	if (!pages->is_shared)
		return;
	if (!given)
		given = work->given = calloc(pages->nr_slabs, sizeof(*given));
	if (!given)
		return;
	given[i] = true;
	*out = (struct fabric_reference){
		.fd = shared_descriptor(slab->memory, FABRIC_SLAB_BYTES),
		.slab = slab->number,
		.place = place,
		.generation = frame->generation,
	};
}

void pages_forget_given(struct pages *pages, struct progress_work *work)
{
	bool *given = work->given;

	for (uint32_t i = 0; given && i < pages->nr_slabs; i++) {
		struct page_slab *slab = &pages->slabs[i];

		if (!given[i] || !slab->memory || slab->is_left)
			continue;
		slab->is_left = true;
		pages->nr_left++;
	}
	free(given);
	work->given = NULL;
}

/* A client speaks of pages of its namespace alone. */
void pages_used(struct fabric_pager *pager, uint32_t place, uint32_t generation)
{
	const struct store_extent *extent = caa_container_of(pager, struct store_extent, pager);
	struct pages *pages = &extent->store->pages;
	const uint32_t i = place / FABRIC_SLAB_PAGES;

	if (!extent->share || extent->store->is_gone || i >= pages->nr_slabs ||
	    cache_slab_share(pages->cache, i) != extent->share->cached)
		return;
	if (cache_note_use(pages->cache, place, generation))
		pages->nr_referred++;
}
