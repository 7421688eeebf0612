/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Planning a sealed layout. A group of chunks becomes one group with the same chunks elsewhere.
 * Where free space is in pieces it becomes several, one behind the other. They are cut at multiples
 * of the stripe unit, so that all bytes stay on their servers.
 */
#include "manager/space/seal_plan.h"
#include "manager/connections/live.h"
#include "manager/tables/placement.h"

#include <errno.h>
#include <stdlib.h>

#include "base/checksum.h"

static uint64_t span_of(uint64_t length)
{
	return length + checksum_bytes(length);
}

/* Makes room for one more entry of an array; NULL without memory. */
static void *grow(void *array, size_t nr, size_t *max, size_t size)
{
	void *more;

	if (nr < *max)
		return array;
	more = reallocarray(array, *max != 0 ? *max * 2 : 8, size);
	if (more)
		*max = *max != 0 ? *max * 2 : 8;
	return more;
}

/* ---- Finding room */

#define FOR_EACH_SEALED(extent, server_, ns_)                                   \
	cds_list_for_each_entry ((extent), &(server_)->dram.extents, pool_node) \
		if ((extent)->ns == (ns_) && (extent)->class == CLASS_DRAM_SEALED)

/* The most that fits into a run together with its sums. */
static uint64_t fits_into(uint64_t run)
{
	uint64_t length = run / SPACE_UNIT * SPACE_UNIT;

	while (length != 0 && span_of(length) > run)
		length -= SPACE_UNIT > span_of(length) - run
				  ? SPACE_UNIT
				  : (span_of(length) - run) / SPACE_UNIT * SPACE_UNIT;
	return length;
}

/* Up to `wanted` bytes that fit on a server in one piece. */
static uint64_t find_room(const struct server *server, const struct namespace *ns, uint64_t wanted)
{
	const struct extent *extent;
	uint64_t most = 0;

	FOR_EACH_SEALED(extent, server, ns)
	{
		uint64_t fits;

		if (extent->space.longest >= span_of(wanted))
			return wanted;
		fits = fits_into(extent->space.longest);
		most = fits > most ? fits : most;
	}
	return most;
}

/* Takes it from where it fits best. -ENOSPC. */
static int take_room(const struct core *core, const struct server *server, struct namespace *ns,
		     struct seal_piece *piece)
{
	uint64_t span = span_of(piece->length), least = UINT64_MAX;
	struct extent *extent, *best = NULL;
	int ret;

	FOR_EACH_SEALED(extent, server, ns)
	{
		uint64_t run = space_best_fit(&extent->space, span);

		if (run == 0 || run >= least)
			continue;
		least = run;
		best = extent;
	}
	if (!best)
		return -ENOSPC;
	ret = undo_room(core->undo, 2);
	if (ret == 0)
		ret = undo_space_take(core->undo, &best->space, span, &piece->to_offset);
	if (ret < 0)
		return ret;
	undo_set(core->undo, ns->allocated_bytes, ns->allocated_bytes + span);
	piece->to = best->number;
	return 0;
}

/* ---- Planning */

static int note_lack(struct seal_plan *plan, uint64_t server, uint64_t bytes)
{
	struct seal_lack *lacks;

	for (size_t i = 0; i < plan->nr_lacks; i++) {
		if (plan->lacks[i].server != server)
			continue;
		plan->lacks[i].bytes += bytes;
		return 0;
	}
	lacks = grow(plan->lacks, plan->nr_lacks, &plan->max_lacks, sizeof(*lacks));
	if (!lacks)
		return error_code(-ENOMEM);
	plan->lacks = lacks;
	plan->lacks[plan->nr_lacks++] = (struct seal_lack){server, bytes};
	return 0;
}

static int add_piece(struct seal_plan *plan, const struct seal_piece *piece)
{
	struct seal_piece *pieces;

	if (plan->nr_pieces == PLACEMENT_CHUNKS_MAX)
		return -E2BIG;
	pieces = grow(plan->pieces, plan->nr_pieces, &plan->max_pieces, sizeof(*pieces));
	if (!pieces)
		return error_code(-ENOMEM);
	plan->pieces = pieces;
	plan->pieces[plan->nr_pieces++] = *piece;
	return 0;
}

static int add_group(struct seal_plan *plan, uint64_t length, uint32_t nr_pieces)
{
	struct seal_group *groups =
		grow(plan->groups, plan->nr_groups, &plan->max_groups, sizeof(*groups));

	if (!groups)
		return error_code(-ENOMEM);
	plan->groups = groups;
	plan->groups[plan->nr_groups++] = (struct seal_group){length, nr_pieces};
	return 0;
}

/* The copy that chunk `i` of a group has. */
static const struct layout_copy *copy_of(const struct layout *layout,
					 const struct layout_group *group, uint32_t i)
{
	return &layout->copies[layout->chunks[group->first_chunk + i].first_copy];
}

/* The server of a copy. It is connected, for check_up() has said so. */
static const struct server *server_of(const struct core *core, const struct layout *layout,
				      const struct layout_copy *copy)
{
	return state_server(core->state, layout_home_of(layout, copy)->server);
}

/* How much of each of a group's chunks, from `at` on, can go in one piece everywhere. */
static uint64_t cut_at(const struct core *core, const struct region *region,
		       const struct layout_group *group, uint64_t at)
{
	uint64_t wanted = group->chunk_bytes - at, length = wanted;

	for (uint32_t i = 0; i < group->nr_chunks; i++) {
		const struct layout_copy *copy = copy_of(region->layout, group, i);
		uint64_t room =
			find_room(server_of(core, region->layout, copy), region->ns, wanted);

		length = room < length ? room : length;
	}
	if (length < wanted && group->nr_chunks > 1)
		length -= length % region->stripe_bytes;
	return length;
}

static int take_pieces(const struct core *core, const struct region *region,
		       const struct layout_group *group, uint64_t at, uint64_t length,
		       struct seal_plan *plan)
{
	int ret = 0;

	for (uint32_t i = 0; i < group->nr_chunks && ret == 0; i++) {
		const struct layout_copy *copy = copy_of(region->layout, group, i);
		struct seal_piece piece = {.home = *layout_home_of(region->layout, copy),
					   .from = copy->extent,
					   .from_offset = copy->offset + at,
					   .length = length};

		/* The entry comes first: only pieces that have one are given back. */
		ret = add_piece(plan, &piece);
		if (ret < 0)
			break;
		ret = take_room(core, server_of(core, region->layout, copy), region->ns,
				&plan->pieces[plan->nr_pieces - 1]);
		if (ret < 0)
			plan->nr_pieces--;
	}
	return ret;
}

/* Notes as lacking all that is not planned of a group. */
static int note_group(const struct layout *layout, const struct layout_group *group, uint64_t at,
		      struct seal_plan *plan)
{
	int ret = 0;

	for (uint32_t i = 0; i < group->nr_chunks && ret == 0; i++)
		ret = note_lack(plan, layout_home_of(layout, copy_of(layout, group, i))->server,
				span_of(group->chunk_bytes - at));
	return ret;
}

static int plan_group(const struct core *core, const struct region *region,
		      const struct layout_group *group, struct seal_plan *plan)
{
	const uint64_t chunk_bytes = group->chunk_bytes;
	uint64_t left = group->length, at = 0;
	int ret = 0;

	while (at < chunk_bytes && ret == 0) {
		uint64_t length = cut_at(core, region, group, at);
		uint64_t covered = length * group->nr_chunks;

		if (length == 0 || plan->nr_lacks != 0)
			return note_group(region->layout, group, at, plan);
		covered = at + length == chunk_bytes || covered > left ? left : covered;
		ret = add_group(plan, covered, group->nr_chunks);
		if (ret == 0)
			ret = take_pieces(core, region, group, at, length, plan);
		if (ret == -ENOSPC)
			return note_group(region->layout, group, at, plan);
		left -= covered;
		at += length;
	}
	return ret;
}

/* All of the region's servers have to be connected. -AFAR_ELOST, -AFAR_ESERVER. */
static int check_up(const struct core *core, const struct region *region)
{
	const struct layout *layout = region->layout;

	if (region->is_lost)
		return error_code(-AFAR_ELOST);
	for (uint32_t i = 0; i < layout->nr_homes; i++)
		if (!server_is_up(state_server(core->state, layout->homes[i].server)))
			return error_code(-AFAR_ESERVER);
	return 0;
}

int seal_plan_make(const struct core *core, const struct region *region, struct seal_plan *out)
{
	size_t mark = undo_mark(core->undo);
	int ret = undo_room(core->undo, 1);

	*out = (struct seal_plan){0};
	if (ret < 0)
		return ret;
	undo_save(core->undo, &out->nr_pieces, sizeof(out->nr_pieces));
	ret = check_up(core, region);
	for (uint32_t i = 0; i < region->layout->nr_groups && ret == 0; i++)
		ret = plan_group(core, region, &region->layout->groups[i], out);
	if (ret == 0 && out->nr_lacks != 0)
		ret = -ENOSPC;
	return undo_end(core->undo, mark, ret);
}

/* ---- What becomes of it */

static struct extent *extent_of(const struct core *core, const struct seal_piece *piece)
{
	return state_extent(core->state, &piece->home, piece->to);
}

int seal_plan_undo(const struct core *core, struct seal_plan *plan)
{
	struct undo *undo = core->undo;
	int ret = undo_room(undo, 1);

	for (size_t i = 0; i < plan->nr_pieces && ret == 0; i++) {
		const struct seal_piece *piece = &plan->pieces[i];
		struct extent *extent = extent_of(core, piece);
		uint64_t span = span_of(piece->length);

		if (!extent || !extent->ns)
			continue;
		ret = undo_room(undo, 3);
		if (ret == 0)
			ret = undo_space_give(undo, &extent->space, piece->to_offset, span);
		if (ret == 0)
			undo_set(undo, extent->ns->allocated_bytes,
				 extent->ns->allocated_bytes - span);
	}
	if (ret == 0)
		undo_set(undo, plan->nr_pieces, 0);
	return ret;
}

/* Adds the group that is to be made of the next pieces. */
static int add_pieces(const struct core *core, const struct seal_piece *pieces, uint32_t nr_pieces,
		      uint64_t stripe_bytes, struct layout *layout)
{
	int ret = layout_add_group(layout, pieces->length, stripe_bytes);

	for (uint32_t i = 0; i < nr_pieces && ret == 0; i++) {
		const struct extent *extent = extent_of(core, &pieces[i]);

		ret = extent && extent->ns ? layout_add_chunk(layout, &pieces[i].home, pieces[i].to,
							      pieces[i].to_offset)
					   : error_code(-AFAR_ELOST);
	}
	return ret;
}

int seal_plan_layout(const struct core *core, const struct seal_plan *plan, uint64_t stripe_bytes,
		     struct layout **out)
{
	const struct seal_piece *next = plan->pieces;
	struct layout *layout = layout_new();
	int ret = layout ? 0 : error_code(-ENOMEM);

	for (size_t i = 0; i < plan->nr_groups && ret == 0; i++) {
		const struct seal_group *group = &plan->groups[i];

		ret = add_pieces(core, next, group->nr_pieces, stripe_bytes, layout);
		if (ret == 0)
			layout_set_last(layout, group->length);
		next += group->nr_pieces;
	}
	if (ret < 0) {
		layout_free(layout);
		return ret;
	}
	layout->is_sealed = true;
	*out = layout;
	return 0;
}

void seal_plan_close(struct seal_plan *plan)
{
	free(plan->groups);
	free(plan->pieces);
	free(plan->lacks);
	*plan = (struct seal_plan){0};
}
