/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of extents, and of the regions that lie in them. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <afar/afar.h>

#include "base/error.h"
#include "manager/tables/state_private.h"

COMPARE_BY(regions_by_generation, region, generation)
COMPARE_BY(regions_by_address, region, address)

static int regions_by_name(const void *left, const void *right)
{
	return strcmp(((const struct region *)tree_row(left))->name,
		      ((const struct region *)tree_row(right))->name);
}

/* Returns it as the pool's home has it: a store's extents are found whatever server has it. */
static uint64_t server_number(const struct pool *pool)
{
	return pool->store ? 0 : pool->server->number;
}

static int extents_by_place(const void *left, const void *right)
{
	const struct extent *a = tree_row(left), *b = tree_row(right);
	int found = tree_order(server_number(a->pool), server_number(b->pool));

	if (found == 0)
		found = tree_order(a->life, b->life);
	return found != 0 ? found : tree_order(a->number, b->number);
}

/* ---- Extents */

void extent_free(struct extent *extent)
{
	space_end(&extent->space);
	free(extent);
}

void pool_free_extents(struct pool *pool)
{
	struct extent *extent, *next;

	cds_list_for_each_entry_safe (extent, next, &pool->extents, pool_node)
		extent_free(extent);
}

static void destroy_extent(void *row)
{
	extent_free(row);
}

static const unsigned extent_moves[] = {
	[EXTENT_GRANTED] = 1U << EXTENT_DRAINING | 1U << EXTENT_FENCED,
	[EXTENT_DRAINING] = 1U << EXTENT_TOLD | 1U << EXTENT_FENCED,
	[EXTENT_TOLD] = 1U << EXTENT_DRAINING,
	[EXTENT_FENCED] = 0,
};

static void check_move(const struct extent *extent, enum extent_state to)
{
	assert((extent_moves[extent->state] & 1U << to) != 0);
	/* In a namespace, or on its way out. */
	assert((extent->ns != NULL) == (extent->state == EXTENT_GRANTED));
	(void)extent;
	(void)to;
}

/* Takes one note. */
static void move_extent(struct state *state, struct extent *extent, enum extent_state to)
{
	check_move(extent, to);
	undo_set(state->undo, extent->state, to);
}

void extent_set_told(struct extent *extent, bool is_told)
{
	enum extent_state to = is_told ? EXTENT_TOLD : EXTENT_DRAINING;

	check_move(extent, to);
	extent->state = to;
}

bool extent_is_releasing(const struct extent *extent)
{
	return extent->state == EXTENT_DRAINING || extent->state == EXTENT_TOLD;
}

/* The namespace gets, or loses, so many bytes. Takes two notes. */
static void count_reserved(struct state *state, struct namespace *ns, uint64_t more, uint64_t less)
{
	struct principal *owner = state_principal_named(state, ns->owner);
	struct undo *undo = state->undo;

	undo_set(undo, ns->reserved_bytes, ns->reserved_bytes + more - less);
	if (owner)
		undo_set(undo, owner->reserved_bytes, owner->reserved_bytes + more - less);
}

int state_add_extent(struct state *state, const struct extent *like, struct extent **out)
{
	struct pool *pool = like->pool;
	struct namespace *ns = like->ns;
	const uint64_t length = like->length;
	struct undo *undo = state->undo;
	struct extent *extent;
	int ret = undo_room(undo, 7);

	if (ret < 0)
		return ret;
	extent = calloc(1, sizeof(*extent));
	if (!extent)
		return error_code(-ENOMEM);
	*extent = (struct extent){.pool = pool,
				  .life = like->life,
				  .number = like->number,
				  .namespace_number = like->namespace_number,
				  .ns = ns,
				  .length = length,
				  .class = like->class,
				  .state = ns ? EXTENT_GRANTED : EXTENT_DRAINING};
	undo_made(undo, extent, destroy_extent);
	ret = space_begin(&extent->space, length);
	if (ret == 0)
		ret = undo_tree_add(undo, &state->extents_by_place, extent, extents_by_place);
	if (ret < 0)
		return ret;
	undo_link(undo, &extent->pool_node, &pool->extents);
	undo_set(undo, pool->granted_bytes, pool->granted_bytes + length);
	if (ns) {
		undo_link(undo, &extent->namespace_node, &ns->extents);
		count_reserved(state, ns, length, 0);
	} else {
		undo_set(undo, pool->releasing_bytes, pool->releasing_bytes + length);
	}
	*out = extent;
	return 0;
}

struct extent *state_extent(const struct state *state, const struct layout_home *home,
			    uint64_t number)
{
	struct flash_store store;
	struct server server = {.number = home->server};
	struct pool pool = {.server = &server, .store = home->is_store ? &store : NULL};
	struct extent key = {.pool = &pool, .life = home->life, .number = number};

	return tree_find(&state->extents_by_place, &key, extents_by_place);
}

struct extent *state_extent_of(const struct state *state, const struct layout *layout,
			       const struct layout_copy *copy)
{
	return state_extent(state, layout_home_of(layout, copy), copy->extent);
}

struct layout_home extent_home(const struct extent *extent)
{
	return (struct layout_home){.server = server_number(extent->pool),
				    .life = extent->life,
				    .is_store = extent->pool->store != NULL};
}

enum extent_class namespace_class(const struct namespace *ns)
{
	return ns->tier == AFAR_TIER_FLASH ? CLASS_FLASH : CLASS_DRAM;
}

uint64_t extent_used(const struct extent *extent)
{
	return extent->length - extent->space.free_bytes;
}

/* Takes five notes. */
static void leave_namespace(struct state *state, struct extent *extent)
{
	struct namespace *ns = extent->ns;
	struct undo *undo = state->undo;

	count_reserved(state, ns, 0, extent->length);
	undo_set(undo, ns->allocated_bytes, ns->allocated_bytes - extent_used(extent));
	undo_unlink(undo, &extent->namespace_node);
	undo_set(undo, extent->ns, NULL);
}

int state_release_extent(struct state *state, struct extent *extent)
{
	struct pool *pool = extent->pool;
	int ret = undo_room(state->undo, 7);

	assert(extent_used(extent) == 0);
	if (ret < 0)
		return ret;
	move_extent(state, extent, EXTENT_DRAINING);
	leave_namespace(state, extent);
	undo_set(state->undo, pool->releasing_bytes, pool->releasing_bytes + extent->length);
	return 0;
}

static bool lies_in(const struct region *region, const struct extent *extent)
{
	const struct layout_home home = extent_home(extent);
	const struct layout *layout = region->layout;

	for (uint32_t i = 0; i < layout->nr_copies; i++) {
		const struct layout_copy *copy = &layout->copies[i];

		if (copy->extent == extent->number &&
		    layout_home_is(layout_home_of(layout, copy), &home))
			return true;
	}
	return false;
}

/* Loses those of the regions that lie in the extent. */
static int lose_regions(struct undo *undo, struct cds_list_head *regions,
			const struct extent *extent)
{
	struct region *region;
	int ret = 0;

	cds_list_for_each_entry (region, regions, node) {
		if (region->is_lost || !lies_in(region, extent))
			continue;
		ret = undo_room(undo, 1);
		if (ret < 0)
			break;
		undo_set(undo, region->is_lost, true);
	}
	return ret;
}

int state_remove_extent(struct state *state, struct extent *extent)
{
	struct pool *pool = extent->pool;
	struct undo *undo = state->undo;
	int ret = 0;

	if (extent->ns && extent_used(extent) != 0) {
		ret = lose_regions(undo, &extent->ns->regions, extent);
		if (ret == 0)
			ret = lose_regions(undo, &extent->ns->freed, extent);
	}
	if (ret == 0)
		ret = undo_room(undo, 10);
	if (ret < 0)
		return ret;
	move_extent(state, extent, EXTENT_FENCED);
	if (extent->ns)
		leave_namespace(state, extent);
	else
		undo_set(undo, pool->releasing_bytes, pool->releasing_bytes - extent->length);
	undo_set(undo, pool->granted_bytes, pool->granted_bytes - extent->length);
	undo_tree_remove(undo, &state->extents_by_place, extent, extents_by_place);
	undo_unlink(undo, &extent->pool_node);
	undo_gone(undo, extent, destroy_extent);
	return 0;
}

/* ---- Regions */

void region_free(struct region *region)
{
	free(region->name);
	free(region->trims);
	layout_free(region->layout);
	free(region);
}

static void destroy_region(void *row)
{
	region_free(row);
}

/* Addresses only go up. Only the first region's is taken again: that one goes to the head. */
static struct cds_list_head *place_in_order(struct namespace *ns, const struct region *region)
{
	return region->address < STATE_SECOND_ADDRESS ? ns->regions.next : &ns->regions;
}

int region_link_live(struct undo *undo, struct region *region, struct cds_list_head *next)
{
	struct namespace *ns = region->ns;
	int ret = undo_tree_add(undo, &ns->regions_by_address, region, regions_by_address);

	if (ret == 0 && region->name[0] != '\0')
		ret = undo_tree_add(undo, &ns->regions_by_name, region, regions_by_name);
	if (ret < 0)
		return ret;
	undo_link(undo, &region->node, next);
	undo_set(undo, ns->nr_regions, ns->nr_regions + 1);
	return 0;
}

bool region_is_gone(const struct region *region)
{
	return region->is_freed && region->trims;
}

bool region_is_at(const struct region *region, const struct layout_home *home)
{
	const struct layout *layout = region->layout;

	for (uint32_t i = 0; i < layout->nr_homes; i++)
		if (layout_home_is(&layout->homes[i], home))
			return true;
	return false;
}

bool region_is_held(const struct state *state, const struct region *region, uint64_t server,
		    uint64_t incarnation)
{
	const struct layout *layout = region->layout;

	for (uint32_t i = 0; i < layout->nr_homes; i++) {
		const struct layout_home *home = &layout->homes[i];
		const struct server *holder = state_home_server(state, home);

		if (holder && holder->number == server &&
		    (home->is_store || home->life == incarnation))
			return true;
	}
	return false;
}

int state_add_region(struct state *state, struct region *region)
{
	const struct layout *layout = region->layout;
	struct namespace *ns = region->ns;
	struct undo *undo = state->undo;
	uint64_t allocated = 0;
	int ret = undo_room(undo, 8);

	CDS_INIT_LIST_HEAD(&region->family_node);
	if (ret < 0) {
		region_free(region);
		return ret;
	}
	undo_made(undo, region, destroy_region);
	if (region->family != 0)
		state_join_family(state, region);
	ret = undo_tree_add(undo, &state->regions_by_generation, region, regions_by_generation);
	if (ret == 0 && !region->is_freed)
		ret = region_link_live(undo, region, place_in_order(ns, region));
	else if (ret == 0)
		undo_link(undo, &region->node, &ns->freed);
	if (ret < 0)
		return ret;
	for (uint32_t i = 0; i < layout->nr_copies; i++) {
		const struct extent *extent = state_extent_of(state, layout, &layout->copies[i]);

		if (!extent)
			region->is_lost = true;
		else if (extent->ns == ns && !region_is_shared(region, region, i))
			allocated += layout_copy_span(layout, &layout->copies[i]);
	}
	undo_set(undo, ns->allocated_bytes, ns->allocated_bytes + allocated);
	return 0;
}

struct region *state_region(const struct state *state, uint64_t generation)
{
	struct region key = {.generation = generation};

	return tree_find(&state->regions_by_generation, &key, regions_by_generation);
}

struct region *namespace_region_named(const struct namespace *ns, const char *name)
{
	struct region key = {.name = (char *)(uintptr_t)name};

	return tree_find(&ns->regions_by_name, &key, regions_by_name);
}

struct region *namespace_region_at(const struct namespace *ns, uint64_t address)
{
	struct region key = {.address = address};

	return tree_find(&ns->regions_by_address, &key, regions_by_address);
}

struct region *namespace_region_above(const struct namespace *ns, uint64_t address)
{
	struct region *region = namespace_region_at(ns, address);

	if (region)
		return region->node.next == &ns->regions
			       ? NULL
			       : cds_list_entry(region->node.next, struct region, node);
	cds_list_for_each_entry (region, &ns->regions, node)
		if (region->address > address)
			return region;
	return NULL;
}

void region_unlink_live(struct undo *undo, struct region *region)
{
	struct namespace *ns = region->ns;

	undo_tree_remove(undo, &ns->regions_by_address, region, regions_by_address);
	if (region->name[0] != '\0')
		undo_tree_remove(undo, &ns->regions_by_name, region, regions_by_name);
	undo_unlink(undo, &region->node);
	undo_set(undo, ns->nr_regions, ns->nr_regions - 1);
}

int state_free_region(struct state *state, struct region *region)
{
	struct undo *undo = state->undo;
	int ret = undo_room(undo, 6);

	assert(!region->is_freed);
	if (ret < 0)
		return ret;
	region_unlink_live(undo, region);
	undo_set(undo, region->is_freed, true);
	undo_link(undo, &region->node, &region->ns->freed);
	return 0;
}

/* Gives what its layout has back to the spaces of the extents. */
static int give_back(struct state *state, const struct region *region)
{
	const struct layout *layout = region->layout;
	struct namespace *ns = region->ns;
	struct undo *undo = state->undo;
	uint64_t given = 0;
	int ret = undo_room(undo, 2 * (size_t)layout->nr_copies + 1);

	for (uint32_t i = 0; i < layout->nr_copies && ret == 0; i++) {
		const struct layout_copy *copy = &layout->copies[i];
		struct extent *extent = state_extent_of(state, layout, copy);
		uint64_t span = layout_copy_span(layout, copy);

		/* It has gone. A faulty server may have granted its number anew, to another. */
		if (!extent || extent->ns != ns)
			continue;
		ret = undo_space_give(undo, &extent->space, copy->offset, span);
		given += span;
		if (ret == 0 && region->trims)
			undo_set(undo, extent->trimming_bytes, extent->trimming_bytes - span);
	}
	if (ret == 0)
		undo_set(undo, ns->allocated_bytes, ns->allocated_bytes - given);
	return ret;
}

static void destroy_layout(void *layout)
{
	layout_free(layout);
}

int state_replace_layout(struct state *state, struct region *region, struct layout *layout)
{
	struct undo *undo = state->undo;
	int ret = undo_room(undo, 1);

	if (ret < 0) {
		layout_free(layout);
		return ret;
	}
	undo_made(undo, layout, destroy_layout);
	ret = give_back(state, region);
	if (ret == 0)
		ret = undo_room(undo, 3);
	if (ret < 0)
		return ret;
	undo_gone(undo, region->layout, destroy_layout);
	undo_set(undo, region->layout, layout);
	undo_set(undo, region->layout_number, region->layout_number + 1);
	return 0;
}

static uint64_t span_of(const struct layout *layout)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < layout->nr_copies; i++)
		bytes += layout_copy_span(layout, &layout->copies[i]);
	return bytes;
}

/* Gives back what the region's copies have more than those of a shorter layout. */
static int give_back_rest(struct state *state, const struct region *region,
			  const struct layout *shorter)
{
	const struct layout *layout = region->layout;
	int ret = undo_room(state->undo, 2 * (size_t)layout->nr_copies);

	for (uint32_t i = 0; i < layout->nr_copies && ret == 0; i++) {
		const struct layout_copy *copy = &layout->copies[i];
		struct extent *extent = state_extent_of(state, layout, copy);
		const uint64_t span = layout_copy_span(layout, copy);
		const uint64_t kept =
			i < shorter->nr_copies ? layout_copy_span(shorter, &shorter->copies[i]) : 0;

		if (extent && extent->ns == region->ns && kept < span)
			ret = undo_space_give(state->undo, &extent->space, copy->offset + kept,
					      span - kept);
	}
	return ret;
}

int state_resize_region(struct state *state, struct region *region, struct layout *layout,
			bool is_kept)
{
	struct namespace *ns = region->ns;
	struct undo *undo = state->undo;
	int ret = undo_room(undo, 1);

	if (ret < 0) {
		layout_free(layout);
		return ret;
	}
	undo_made(undo, layout, destroy_layout);
	if (layout->length < region->length && !is_kept)
		ret = give_back_rest(state, region, layout);
	if (ret == 0)
		ret = undo_room(undo, 5);
	if (ret < 0)
		return ret;
	undo_set(undo, ns->allocated_bytes,
		 ns->allocated_bytes - span_of(region->layout) + span_of(layout));
	undo_gone(undo, region->layout, destroy_layout);
	undo_set(undo, region->layout, layout);
	undo_set(undo, region->layout_number, region->layout_number + 1);
	undo_set(undo, region->length, layout->length);
	return 0;
}

int state_lose_chunks(struct state *state, struct region *region, struct layout *layout)
{
	struct undo *undo = state->undo;
	int ret = undo_room(undo, 4);

	if (ret < 0) {
		layout_free(layout);
		return ret;
	}
	undo_made(undo, layout, destroy_layout);
	undo_gone(undo, region->layout, destroy_layout);
	undo_set(undo, region->layout, layout);
	undo_set(undo, region->layout_number, region->layout_number + 1);
	return 0;
}

int state_give_up_chunks(struct state *state, struct region *region, struct layout *layout,
			 const bool goes[])
{
	const struct layout *old = region->layout;
	struct namespace *ns = region->ns;
	struct undo *undo = state->undo;
	uint64_t given = 0;
	int ret = undo_room(undo, 1);

	if (ret < 0) {
		layout_free(layout);
		return ret;
	}
	undo_made(undo, layout, destroy_layout);
	ret = undo_room(undo, 2 * (size_t)old->nr_copies + 4);
	for (uint32_t i = 0; i < old->nr_copies && ret == 0; i++) {
		struct extent *extent =
			goes[i] ? state_extent_of(state, old, &old->copies[i]) : NULL;
		uint64_t span = layout_copy_span(old, &old->copies[i]);

		if (!extent || extent->ns != ns)
			continue;
		ret = undo_space_give(undo, &extent->space, old->copies[i].offset, span);
		given += span;
	}
	if (ret < 0)
		return ret;
	undo_set(undo, ns->allocated_bytes, ns->allocated_bytes - given);
	undo_gone(undo, region->layout, destroy_layout);
	undo_set(undo, region->layout, layout);
	undo_set(undo, region->layout_number, region->layout_number + 1);
	return 0;
}

int state_remove_region(struct state *state, struct region *region)
{
	struct undo *undo = state->undo;
	int ret;

	assert(cds_list_empty(&region->references));
	ret = state_shed(state, region);
	if (ret == 0)
		ret = give_back(state, region);
	if (ret == 0)
		ret = undo_room(undo, 7);
	if (ret < 0)
		return ret;
	if (region->trims) {
		region_forget_trims_told(state, region);
		undo_unlink(undo, &region->trim_node);
	}
	if (region->is_freed)
		undo_unlink(undo, &region->node);
	else
		region_unlink_live(undo, region);
	undo_tree_remove(undo, &state->regions_by_generation, region, regions_by_generation);
	undo_gone(undo, region, destroy_region);
	return 0;
}

uint32_t region_nr_references(const struct region *region)
{
	struct reference *reference;
	uint32_t nr = 0;

	cds_list_for_each_entry (reference, &region->references, region_node)
		nr += !reference->session->is_ending;
	return nr;
}
