/* SPDX-License-Identifier: BSD-3-Clause */
/* Freed regions of flash that wait for trims; see state.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "manager/tables/state_private.h"

/* The extent of a copy whose bytes are still the namespace's. NULL: it has gone, or is being
 * released; then its store trims all of it. */
static struct extent *extent_to_trim(const struct state *state, const struct region *region,
				     uint32_t copy)
{
	struct extent *extent =
		state_extent_of(state, region->layout, &region->layout->copies[copy]);

	return extent && extent->ns == region->ns && extent->pool->store ? extent : NULL;
}

bool region_needs_trims(const struct state *state, const struct region *region)
{
	for (uint32_t i = 0; i < region->layout->nr_copies && !region->ns->is_deleted; i++)
		if (extent_to_trim(state, region, i))
			return true;
	return false;
}

static void look_for_trims(const struct state *state)
{
	struct flash_store *store;

	cds_list_for_each_entry (store, &state->stores, node)
		store->has_trims = true;
}

int state_begin_trims(struct state *state, struct region *region)
{
	const struct layout *layout = region->layout;
	struct undo *undo = state->undo;
	enum trim_state *trims;
	int ret = undo_room(undo, (size_t)layout->nr_copies + 3);

	if (ret < 0)
		return ret;
	trims = calloc((size_t)layout->nr_copies + 1, sizeof(*trims));
	if (!trims)
		return error_code(-ENOMEM);
	undo_made(undo, trims, free);
	undo_set(undo, region->trims, trims);
	undo_link(undo, &region->trim_node, &state->trimming);
	for (uint32_t i = 0; i < layout->nr_copies; i++) {
		struct extent *extent = extent_to_trim(state, region, i);

		trims[i] = extent ? TRIM_WANTED : TRIM_DONE;
		if (extent)
			undo_set(undo, extent->trimming_bytes,
				 extent->trimming_bytes +
					 layout_copy_span(layout, &layout->copies[i]));
	}
	look_for_trims(state);
	return 0;
}

void region_set_trim_told(struct region *region, uint32_t copy, bool is_told)
{
	if (region->trims[copy] == TRIM_DONE)
		return;
	region->trims[copy] = is_told ? TRIM_TOLD : TRIM_WANTED;
}

void region_forget_trims_told(const struct state *state, struct region *region)
{
	for (uint32_t i = 0; i < region->layout->nr_copies; i++)
		region_set_trim_told(region, i, false);
	look_for_trims(state);
}

int state_end_trim(struct state *state, struct region *region, uint32_t copy)
{
	int ret = undo_room(state->undo, 1);

	if (ret < 0)
		return ret;
	region_set_trim_told(region, copy, false);
	undo_set(state->undo, region->trims[copy], TRIM_DONE);
	return 0;
}

bool region_is_trimmed(const struct region *region)
{
	for (uint32_t i = 0; i < region->layout->nr_copies; i++)
		if (region->trims[i] != TRIM_DONE)
			return false;
	return true;
}

static int leave_extent(struct state *state, struct region *region, uint32_t i,
			struct extent *extent)
{
	uint64_t span = layout_copy_span(region->layout, &region->layout->copies[i]);
	struct undo *undo = state->undo;
	int ret = undo_room(undo, 3);

	if (ret == 0)
		ret = undo_space_give(undo, &extent->space, region->layout->copies[i].offset, span);
	if (ret < 0)
		return ret;
	undo_set(undo, extent->trimming_bytes, extent->trimming_bytes - span);
	undo_set(undo, region->ns->allocated_bytes, region->ns->allocated_bytes - span);
	return state_end_trim(state, region, i);
}

int state_leave_trims(struct state *state, struct extent *extent)
{
	struct region *region;
	int ret = 0;

	if (extent->trimming_bytes == 0)
		return 0;
	cds_list_for_each_entry (region, &state->trimming, trim_node)
		for (uint32_t i = 0; i < region->layout->nr_copies && ret == 0; i++)
			if (extent_to_trim(state, region, i) == extent)
				ret = leave_extent(state, region, i, extent);
	return ret;
}
