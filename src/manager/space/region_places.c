/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a region's bytes go: out of what its namespace has free. */
#include <errno.h>
#include <stdlib.h>

#include <afar/afar.h>

#include "manager/connections/live.h"
#include "manager/space/region_places.h"
#include "manager/space/trims.h"
#include "manager/tables/placement.h"

/* False for sealed extents: only sealed regions go there. */
static bool is_to_write(const struct extent *extent)
{
	return extent->class == namespace_class(extent->ns);
}

static size_t add_sources(const struct namespace *ns, const struct pool *pool,
			  struct placement_source *sources)
{
	struct extent *extent;
	size_t nr = 0;

	if (!pool_is_writable(pool))
		return 0;
	cds_list_for_each_entry (extent, &pool->extents, pool_node)
		if (extent->ns == ns && is_to_write(extent) && extent->space.free_bytes != 0)
			sources[nr++] = (struct placement_source){.home = extent_home(extent),
								  .number = extent->number,
								  .space = &extent->space};
	return nr;
}

/* The extents in pools that take writes, by pool; `*down_bytes`: what is free in the others. */
static int find_sources(const struct core *core, const struct namespace *ns,
			struct placement_source **out, size_t *nr_out, uint64_t *down_bytes)
{
	struct placement_source *sources;
	struct flash_store *store;
	struct server *server;
	struct extent *extent;
	size_t nr = 0, max = 1;

	*down_bytes = 0;
	cds_list_for_each_entry (extent, &ns->extents, namespace_node)
		max++;
	sources = calloc(max, sizeof(*sources));
	if (!sources)
		return error_code(-ENOMEM);
	cds_list_for_each_entry (extent, &ns->extents, namespace_node)
		if (is_to_write(extent) && !pool_is_writable(extent->pool))
			*down_bytes += extent->space.free_bytes;
	cds_list_for_each_entry (server, &core->state->servers, node)
		nr += add_sources(ns, &server->dram, &sources[nr]);
	cds_list_for_each_entry (store, &core->state->stores, node)
		nr += add_sources(ns, &store->pool, &sources[nr]);
	*out = sources;
	*nr_out = nr;
	return 0;
}

/* ---- No room */

static uint64_t free_to_write(const struct namespace *ns)
{
	const struct extent *extent;
	uint64_t bytes = 0;

	cds_list_for_each_entry (extent, &ns->extents, namespace_node)
		bytes += is_to_write(extent) ? extent->space.free_bytes : 0;
	return bytes;
}

static int no_room(const struct core *core, const struct namespace *ns, uint64_t bytes,
		   uint64_t down_bytes)
{
	uint64_t free_bytes = free_to_write(ns) - down_bytes;
	uint64_t missing = bytes - (free_bytes < bytes ? free_bytes : bytes);
	char text[SERVER_TEXT_MAX];

	if (missing != 0 && missing <= trims_coming(core, ns)) {
		server_describe(core, trims_awaited(core, ns), text);
		return error_fail(-ETIMEDOUT,
				  "allocate %llu bytes in '%s': %s did not trim in time what was "
				  "freed there; nothing was done, try again",
				  (unsigned long long)bytes, ns->name, text);
	}
	if (down_bytes != 0)
		return error_fail(
			-AFAR_ERESERVE,
			"allocate %llu bytes in '%s': %llu of its reserved bytes are free, and "
			"%llu more where servers cannot be reached or stores are read only; mend "
			"that, or "
			"reserve %llu bytes more",
			(unsigned long long)bytes, ns->name, (unsigned long long)free_bytes,
			(unsigned long long)down_bytes, (unsigned long long)missing);
	return error_fail(
		-AFAR_ERESERVE,
		"allocate %llu bytes in '%s': %llu of its reserved bytes are free; reserve "
		"%llu bytes more first",
		(unsigned long long)bytes, ns->name, (unsigned long long)free_bytes,
		(unsigned long long)missing);
}

/* ---- Taking */

/* Notes what the placement took, so that it is taken back with the operation. */
static int note_placement(struct core *core, struct namespace *ns, struct placement *placement)
{
	int ret = undo_room(core->undo, placement->nr_parts + 1);

	if (ret < 0) {
		placement_undo(placement);
		placement_close(placement);
		return ret;
	}
	for (size_t i = 0; i < placement->nr_parts; i++) {
		const struct placement_part *part = &placement->parts[i];

		undo_space_taken(core->undo, part->space, part->offset, part->length);
	}
	undo_set(core->undo, ns->turn, ns->turn + placement->nr_parts);
	return 0;
}

/* Takes what the wish says. `*down_bytes` as find_sources(). */
static int take(struct core *core, struct namespace *ns, const struct placement_wish *wish,
		struct placement *out, uint64_t *down_bytes)
{
	struct placement_source *sources = NULL;
	size_t nr_sources = 0;
	int ret = find_sources(core, ns, &sources, &nr_sources, down_bytes);

	if (ret < 0)
		return ret;
	ret = placement_take(sources, nr_sources, wish, out);
	free(sources);
	return ret;
}

int region_place(struct core *core, struct namespace *ns, uint64_t bytes, struct placement *out)
{
	struct placement_wish wish = {.bytes = bytes,
				      .stripe_bytes = ns->stripe_bytes,
				      .width = ns->width,
				      .start = ns->turn};
	uint64_t down_bytes = 0;
	int ret = take(core, ns, &wish, out, &down_bytes);

	if (ret == -ENOSPC)
		return no_room(core, ns, bytes, down_bytes);
	if (ret == -E2BIG)
		return error_fail(-AFAR_ERESERVE,
				  "allocate %llu bytes in '%s': its free space is in more than %u "
				  "pieces; reserve as much more, or free regions",
				  (unsigned long long)bytes, ns->name, PLACEMENT_CHUNKS_MAX);
	return ret == 0 ? note_placement(core, ns, out) : ret;
}

int region_place_unit(struct core *core, struct namespace *ns, uint64_t bytes,
		      struct placement *out)
{
	/* One chunk, if there is a run for it: what is no longer than a stripe unit is not striped. */
	struct placement_wish wish = {
		.bytes = bytes, .stripe_bytes = bytes, .width = 1, .start = ns->turn};
	uint64_t down_bytes = 0;
	int ret = take(core, ns, &wish, out, &down_bytes);

	if (ret == 0 && out->nr_parts != 1) {
		placement_undo(out);
		placement_close(out);
		ret = -ENOSPC;
	}
	return ret == 0 ? note_placement(core, ns, out) : ret;
}

static int too_many_pieces(const struct namespace *ns)
{
	const char *noun = ns->is_volume ? namespace_noun(ns) : "a region of";

	return error_fail(-AFAR_ERESERVE,
			  "make %s '%s' larger: it would be in more than %u pieces; make it "
			  "larger in fewer steps, or copy it to a new one",
			  noun, ns->name, PLACEMENT_CHUNKS_MAX);
}

int region_extend(struct core *core, struct namespace *ns, struct layout *layout, uint64_t bytes)
{
	uint64_t spare = layout_spare(layout), first = bytes < spare ? bytes : spare;
	uint64_t last = layout->groups[layout->nr_groups - 1].length, rounded;
	struct placement placement = {0};
	int ret;

	layout_set_last(layout, last + first);
	if (first == bytes)
		return 0;
	if (__builtin_add_overflow(bytes - first, SPACE_UNIT - 1, &rounded))
		return error_fail(-EINVAL, "make '%s' larger: %llu bytes are too many for 64 bits",
				  ns->name, (unsigned long long)bytes);
	ret = region_place(core, ns, rounded / SPACE_UNIT * SPACE_UNIT, &placement);
	if (ret < 0)
		return ret;
	ret = layout_append(layout, placement.layout, bytes - first);
	placement_close(&placement);
	return ret == -E2BIG || layout->nr_copies > PLACEMENT_CHUNKS_MAX ? too_many_pieces(ns)
									 : ret;
}
