/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making a pool smaller: extents in which everything is free leave it, so that they can be released. Nobody can write to what is
 * free: whoever had it has given it up, or was fenced, before it was zeroed.
 *
 * The place that they had in the pool stays empty for ever, as that of what is lost does (lost.c). If another chunk took it,
 * clients that have not heard of that would write to the wrong one. So it does not matter when they hear.
 */
#include <errno.h>
#include <stdlib.h>

#include "manager/files/pool.h"
#include "manager/files/table.h"

/* ---- Which chunks have something */

/* Marks the chunks of a part of a group. */
static void mark_part(const struct layout *layout, const struct layout_group *group, uint64_t from,
		      uint64_t to, bool used[])
{
	uint64_t first = (from - group->start) >> group->unit_shift;
	uint64_t last = (to - 1 - group->start) >> group->unit_shift;

	for (uint64_t unit = first; unit <= last && unit - first < group->nr_chunks; unit++) {
		const struct layout_chunk *chunk =
			&layout->chunks[group->first_chunk + unit % group->nr_chunks];

		if (chunk->nr_copies != 0)
			used[chunk->first_copy] = true;
	}
}

/* Marks the chunks of all that is not free. */
static void mark_used(const struct space *space, const struct layout *layout, bool used[])
{
	size_t next = 0; /* free run */

	for (uint32_t g = 0; g < layout->nr_groups; g++) {
		const struct layout_group *group = &layout->groups[g];
		uint64_t at = group->start, end = group->start + group->length;

		while (at < end) {
			const struct space_run *run;
			uint64_t until = end;

			while (next < space->nr_runs &&
			       space->runs[next].offset + space->runs[next].length <= at)
				next++;
			run = next < space->nr_runs ? &space->runs[next] : NULL;
			if (run && run->offset < end)
				until = run->offset;
			if (until > at)
				mark_part(layout, group, at, until, used);
			at = until < end ? run->offset + run->length : end;
		}
	}
}

/* ---- Which extents can go */

struct place {
	const struct extent *extent;
	uint32_t copy;
};

static int by_extent(const void *left, const void *right)
{
	uintptr_t a = (uintptr_t)((const struct place *)left)->extent;
	uintptr_t b = (uintptr_t)((const struct place *)right)->extent;

	return (a > b) - (a < b);
}

/* Lists where the copies are, those of one extent together. NULL: no memory. */
static struct place *list_places(const struct fs *fs, const struct region *region, size_t *nr)
{
	const struct layout *layout = region->layout;
	struct place *places = calloc((size_t)layout->nr_copies + 1, sizeof(*places));

	*nr = 0;
	for (uint32_t i = 0; i < layout->nr_copies && places; i++) {
		const struct extent *extent =
			state_extent_of(fs_core(fs)->state, layout, &layout->copies[i]);

		if (extent && extent->ns == region->ns)
			places[(*nr)++] = (struct place){extent, i};
	}
	if (places)
		qsort(places, *nr, sizeof(*places), by_extent);
	return places;
}

uint64_t pool_unused_bytes(const struct namespace *ns)
{
	const struct extent *extent;
	uint64_t bytes = 0;

	cds_list_for_each_entry (extent, &ns->extents, namespace_node)
		if (extent_used(extent) == 0)
			bytes += extent->length;
	return bytes;
}

/* Turns `goes`, in which chunks with something are marked, into those that go. Returns how many bytes of extents that
 * frees, at most `bytes`; or -ENOMEM. */
static int64_t choose(const struct fs *fs, const struct region *region, uint64_t bytes, bool goes[])
{
	size_t nr, end;
	struct place *places = list_places(fs, region, &nr);
	uint64_t left = bytes < INT64_MAX ? bytes : INT64_MAX;
	int64_t chosen = 0;

	if (!places)
		return error_code(-ENOMEM);
	for (size_t i = 0; i < nr; i = end) {
		const struct extent *extent = places[i].extent;
		bool has_something = false;

		for (end = i; end < nr && places[end].extent == extent; end++)
			has_something |= goes[places[end].copy];
		has_something |= extent->length > left;
		for (size_t j = i; j < end; j++)
			goes[places[j].copy] = !has_something;
		left -= has_something ? 0 : extent->length;
		chosen += has_something ? 0 : (int64_t)extent->length;
	}
	free(places);
	return chosen;
}

/* ---- The whole */

static int give_up(struct fs *fs, struct region *region, const bool goes[])
{
	struct core *core = fs_core(fs);
	struct layout *layout;
	int ret = layout_give_up(region->layout, goes, &layout);

	if (ret == 0)
		ret = state_give_up_chunks(core->state, region, layout, goes);
	if (ret < 0)
		return ret;
	store_put_region(core->store, region);
	return lost_leave_space(fs);
}

int files_shrink(struct core *core, const struct namespace *ns, uint64_t bytes)
{
	struct fs *fs = ns->is_files ? files_find(core, ns->number) : NULL;
	struct region *region = fs ? volume_region(ns) : NULL;
	uint64_t unused = fs ? pool_unused_bytes(ns) : 0;
	int64_t chosen;
	bool *goes;
	int ret;

	if (!region || region->is_unfinished || region->is_lost || unused >= bytes)
		return 0;
	ret = pool_look(fs);
	if (ret < 0)
		return ret;
	goes = calloc((size_t)region->layout->nr_copies + 1, sizeof(*goes));
	if (!goes)
		return error_code(-ENOMEM);
	mark_used(&fs->space, region->layout, goes);
	chosen = choose(fs, region, bytes - unused, goes);
	ret = chosen > 0 ? give_up(fs, region, goes) : (int)chosen;
	free(goes);
	return ret;
}
