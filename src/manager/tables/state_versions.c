/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Versions of copy-on-write regions; see state.h. Each version is a region, with a layout that covers all of its
 * units. The newest one has the name and the address. Older ones are freed regions, which go when
 * nobody has them open any more. A draft is one that has not had the name yet. So sessions, fences,
 * trims and lost servers treat them as they treat all regions. This keeps the one thing that is
 * different: versions share chunks.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "manager/tables/state_private.h"

/* ---- The ring */

struct region *namespace_family(const struct namespace *ns, uint64_t family, uint64_t address)
{
	struct region *region = namespace_region_at(ns, address);

	if (region && region->family == family)
		return region;
	cds_list_for_each_entry (region, &ns->freed, node)
		if (region->family == family)
			return region;
	return NULL;
}

void state_join_family(struct state *state, struct region *region)
{
	struct region *relative = namespace_family(region->ns, region->family, region->address);

	if (relative && relative != region)
		undo_link(state->undo, &region->family_node, &relative->family_node);
}

/* The version behind this one in the ring. */
static struct region *next_of(const struct region *region)
{
	return cds_list_entry(region->family_node.next, struct region, family_node);
}

struct region *region_newest(const struct region *region)
{
	struct region *at = next_of(region);

	while (at->is_freed && at != region)
		at = next_of(at);
	return at->is_freed ? NULL : at;
}

static struct reference *find_live(const struct region *region)
{
	struct reference *reference;

	cds_list_for_each_entry (reference, &region->references, region_node)
		if (!reference->session->is_ending)
			return reference;
	return NULL;
}

struct reference *region_writer(const struct region *region)
{
	struct reference *writer = NULL, *found;
	const struct region *at = region;

	do {
		found = at->is_draft ? find_live(at) : NULL;
		if (found && (!writer || writer->generation < found->generation))
			writer = found;
		at = next_of(at);
	} while (at != region);
	return writer;
}

const struct region *region_taken(const struct region *draft)
{
	const struct region *at = next_of(draft);

	while (at != draft && at->generation < draft->generation)
		at = next_of(at);
	return at != draft ? at : NULL;
}

/* ---- What versions share */

bool region_is_shared(const struct region *relative, const struct region *region, uint32_t copy)
{
	const uint32_t group = region->layout->copies[copy].group;
	const struct region *at = relative;

	do {
		if (at != region && layout_shares(region->layout, at->layout, group))
			return true;
		at = next_of(at);
	} while (at != relative);
	return false;
}

/* Makes the layout of what the version alone has: where its chunks are shared there are holes. */
static int make_own(const struct region *region, struct layout **out)
{
	const struct layout *layout = region->layout;
	struct layout *own = layout_new();
	int ret = own ? 0 : error_code(-ENOMEM);

	for (uint32_t i = 0; i < layout->nr_groups && ret == 0; i++) {
		const struct layout_group *group = &layout->groups[i];
		const struct layout_chunk *chunk = &layout->chunks[group->first_chunk];
		bool is_shared = group->nr_chunks != 0 &&
				 region_is_shared(region, region, chunk->first_copy);

		ret = is_shared ? layout_add_hole(own, group->length)
				: layout_append_group(own, layout, i);
	}
	if (ret < 0) {
		layout_free(own);
		return ret;
	}
	*out = own;
	return 0;
}

static void destroy_layout(void *layout)
{
	layout_free(layout);
}

/* Takes four notes, of which two are the caller's to make room for. */
static int set_layout(struct undo *undo, struct region *region, struct layout *layout)
{
	int ret = undo_room(undo, 5);

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

int state_shed(struct state *state, struct region *region)
{
	struct undo *undo = state->undo;
	struct layout *own;
	int ret;

	if (region->family == 0)
		return 0;
	ret = make_own(region, &own);
	if (ret == 0)
		ret = set_layout(undo, region, own);
	if (ret == 0)
		ret = undo_room(undo, 3);
	if (ret < 0)
		return ret;
	undo_unlink(undo, &region->family_node);
	undo_set(undo, region->family, 0);
	undo_set(undo, region->is_draft, false);
	return 0;
}

int state_change_version(struct state *state, struct region *region, struct layout *layout,
			 uint64_t added_bytes)
{
	struct namespace *ns = region->ns;
	int ret = set_layout(state->undo, region, layout);

	if (ret == 0)
		undo_set(state->undo, ns->allocated_bytes, ns->allocated_bytes + added_bytes);
	return ret;
}

/* ---- Publishing */

int state_publish(struct state *state, struct region *draft, struct region *newest)
{
	struct cds_list_head *next = newest->node.next;
	struct undo *undo = state->undo;
	int ret = undo_room(undo, 13);

	if (ret < 0)
		return ret;
	region_unlink_live(undo, newest);
	undo_set(undo, newest->is_freed, true);
	undo_link(undo, &newest->node, &newest->ns->freed);
	undo_unlink(undo, &draft->node);
	undo_set(undo, draft->is_freed, false);
	undo_set(undo, draft->is_draft, false);
	return region_link_live(undo, draft, next);
}
