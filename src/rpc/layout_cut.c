/* SPDX-License-Identifier: BSD-3-Clause */
/* Cutting a layout in two; see layout.h. Its chunks are cut between two stripe units, so both parts have whole ones. */
#include <errno.h>

#include "base/error.h"
#include "rpc/layout.h"

/* Returns how many bytes of each chunk the first `length` bytes of its group need. */
static uint64_t kept_bytes(const struct layout_group *group, uint64_t length)
{
	const uint64_t unit =
		group->nr_chunks > 1 ? UINT64_C(1) << group->unit_shift : LAYOUT_UNIT_MIN;
	const uint64_t row = unit * group->nr_chunks;
	const uint64_t kept = (length / row + (length % row != 0)) * unit;

	return kept < group->chunk_bytes ? kept : group->chunk_bytes;
}

/* Adds a group of what the chunks of a group have from `from` on, up to `to`. */
static int add_part(struct layout *layout, const struct layout *of,
		    const struct layout_group *group, uint64_t from, uint64_t to)
{
	int ret = layout_add_group(layout, to - from, UINT64_C(1) << group->unit_shift);

	for (uint32_t c = 0; c < group->nr_chunks && ret == 0; c++) {
		const struct layout_copy *copy =
			&of->copies[of->chunks[group->first_chunk + c].first_copy];

		ret = layout_add_chunk(layout, layout_home_of(of, copy), copy->extent,
				       copy->offset + from);
	}
	return ret;
}

static int cut(const struct layout *layout, uint64_t length, struct layout *head,
	       struct layout *tail)
{
	int ret = 0;

	for (uint32_t g = 0; g < layout->nr_groups && ret == 0; g++) {
		const struct layout_group *group = &layout->groups[g];
		const uint64_t left = length > group->start ? length - group->start : 0;
		const uint64_t covered = left < group->length ? left : group->length;
		/* Groups in front stay as they are, also if their chunks hold more than they cover. */
		const uint64_t kept =
			left > group->length ? group->chunk_bytes : kept_bytes(group, covered);

		if (kept != 0)
			ret = add_part(head, layout, group, 0, kept);
		if (kept != 0 && ret == 0)
			layout_set_last(head, covered);
		if (kept != group->chunk_bytes && ret == 0)
			ret = add_part(tail, layout, group, kept, group->chunk_bytes);
	}
	return ret;
}

int layout_cut(const struct layout *layout, uint64_t length, struct layout **head,
	       struct layout **tail)
{
	int ret;

	*head = layout_new();
	*tail = layout_new();
	ret = *head && *tail ? cut(layout, length, *head, *tail) : error_code(-ENOMEM);
	if (ret == 0)
		return 0;
	layout_free(*head);
	layout_free(*tail);
	*head = *tail = NULL;
	return ret;
}
