/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts: checking the manager's message, and finding the piece at an offset. */
#include "client/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/error.h"

#define LAYOUT_GROUPS_MAX (1U << 20)
#define LAYOUT_WIDTH_MAX  64U
#define UNIT_MIN	  4096U

static int malformed(const char *what)
{
	return error_fail(-AFAR_EMALFORMED,
			  "read the layout of a region: %s; the manager is faulty", what);
}

bool layout_find_server(const struct layout *layout, uint64_t server, uint32_t *index)
{
	for (uint32_t i = 0; i < layout->nr_servers; i++) {
		if (layout->servers[i] == server) {
			*index = i;
			return true;
		}
	}
	return false;
}

static int decode_chunk(const struct layout *layout, const Afar__Chunk *message,
			struct layout_chunk *chunk)
{
	uint64_t end;

	if (!layout_find_server(layout, message->server, &chunk->server))
		return malformed("a chunk names a server that is not listed");
	if (message->length == 0 || __builtin_add_overflow(message->offset, message->length, &end))
		return malformed("a chunk is empty or wraps around");
	chunk->extent = message->extent;
	chunk->offset = message->offset;
	chunk->length = message->length;
	return 0;
}

static int decode_group(struct layout *layout, const Afar__Group *message, uint64_t start,
			struct layout_group *group)
{
	uint64_t capacity;
	int ret;

	if (message->length == 0 || message->n_chunks > LAYOUT_WIDTH_MAX)
		return malformed("a group is empty or too wide");
	*group = (struct layout_group){.start = start, .length = message->length};
	if (message->n_chunks == 0)
		return 0;
	if (message->stripe_bytes < UNIT_MIN ||
	    (message->stripe_bytes & (message->stripe_bytes - 1)) != 0)
		return malformed("a stripe unit is not a power of two from 4 KiB");
	group->unit_shift = (uint32_t)__builtin_ctzll(message->stripe_bytes);
	group->nr_chunks = (uint32_t)message->n_chunks;
	group->first_chunk = layout->nr_chunks;
	for (size_t i = 0; i < message->n_chunks; i++) {
		struct layout_chunk *chunk = &layout->chunks[layout->nr_chunks];

		ret = decode_chunk(layout, message->chunks[i], chunk);
		if (ret)
			return ret;
		if (chunk->length != message->chunks[0]->length)
			return malformed("the chunks of a group differ in length");
		layout->nr_chunks++;
	}
	if (group->nr_chunks > 1 && message->chunks[0]->length % message->stripe_bytes != 0)
		return malformed("a chunk is not a whole number of stripe units");
	if (__builtin_mul_overflow(message->chunks[0]->length, (uint64_t)group->nr_chunks,
				   &capacity) ||
	    capacity < group->length)
		return malformed("a group is longer than its chunks");
	return 0;
}

static size_t count_chunks(const Afar__Layout *message)
{
	size_t nr_chunks = 0;

	for (size_t i = 0; i < message->n_groups; i++)
		nr_chunks += message->groups[i]->n_chunks;
	return nr_chunks;
}

int layout_decode(const Afar__Layout *message, uint64_t length, struct layout **out)
{
	struct layout *layout;
	uint64_t start = 0;
	int ret;

	if (!message || message->n_groups == 0 || message->n_groups > LAYOUT_GROUPS_MAX)
		return malformed("it has no groups, or too many");
	layout = calloc(1, sizeof(*layout));
	if (!layout)
		return error_code(-ENOMEM);
	layout->groups = calloc(message->n_groups, sizeof(*layout->groups));
	layout->chunks = calloc(count_chunks(message) + 1, sizeof(*layout->chunks));
	layout->servers = calloc(message->n_servers + 1, sizeof(*layout->servers));
	ret = error_code(-ENOMEM);
	if (!layout->groups || !layout->chunks || !layout->servers)
		goto out_free;

	for (size_t i = 0; i < message->n_servers; i++)
		layout->servers[layout->nr_servers++] = message->servers[i]->server;
	for (size_t i = 0; i < message->n_groups; i++) {
		ret = decode_group(layout, message->groups[i], start, &layout->groups[i]);
		if (ret)
			goto out_free;
		layout->nr_groups++;
		if (__builtin_add_overflow(start, layout->groups[i].length, &start)) {
			ret = malformed("its groups wrap around");
			goto out_free;
		}
	}
	if (start != length) {
		ret = malformed("its groups do not cover the region");
		goto out_free;
	}
	layout->length = length;
	*out = layout;
	return 0;

out_free:
	layout_free(layout);
	return ret;
}

void layout_free(struct layout *layout)
{
	if (!layout)
		return;
	free(layout->groups);
	free(layout->chunks);
	free(layout->servers);
	free(layout->keys);
	free(layout);
}

int layout_make_keys(struct layout *layout, unsigned nr_lanes)
{
	if (layout->keys)
		return 0;
	layout->keys = calloc((size_t)layout->nr_chunks * nr_lanes + 1, sizeof(*layout->keys));
	if (!layout->keys)
		return error_code(-ENOMEM);
	for (uint32_t i = 0; i < layout->nr_chunks; i++)
		layout->chunks[i].on = &layout->keys[(size_t)i * nr_lanes];
	return 0;
}

/* ---- Sums */

static struct layout *new_layout(size_t nr_groups, size_t nr_chunks, size_t nr_servers)
{
	struct layout *layout = calloc(1, sizeof(*layout));

	if (!layout)
		return NULL;
	layout->groups = calloc(nr_groups + 1, sizeof(*layout->groups));
	layout->chunks = calloc(nr_chunks + 1, sizeof(*layout->chunks));
	layout->servers = calloc(nr_servers + 1, sizeof(*layout->servers));
	if (layout->groups && layout->chunks && layout->servers)
		return layout;
	layout_free(layout);
	return NULL;
}

static void copy_without_keys(const struct layout *layout, struct layout *to)
{
	memcpy(to->servers, layout->servers, layout->nr_servers * sizeof(*to->servers));
	memcpy(to->groups, layout->groups, layout->nr_groups * sizeof(*to->groups));
	memcpy(to->chunks, layout->chunks, layout->nr_chunks * sizeof(*to->chunks));
	for (uint32_t i = 0; i < layout->nr_chunks; i++)
		to->chunks[i].on = NULL;
	to->nr_servers = layout->nr_servers;
	to->nr_groups = layout->nr_groups;
	to->nr_chunks = layout->nr_chunks;
	to->length = layout->length;
}

/* A group of one chunk: what is behind another. */
static void add_sums(struct layout *layout, const struct layout_chunk *of)
{
	struct layout_chunk *chunk = &layout->chunks[layout->nr_chunks];

	*chunk = (struct layout_chunk){.server = of->server,
				       .extent = of->extent,
				       .offset = of->offset + of->length,
				       .length = checksum_bytes(of->length)};
	layout->groups[layout->nr_groups++] = (struct layout_group){
		.start = layout->length,
		.length = chunk->length,
		.unit_shift = (uint32_t)__builtin_ctz(UNIT_MIN),
		.nr_chunks = 1,
		.first_chunk = layout->nr_chunks++,
	};
	layout->length += chunk->length;
}

int layout_with_sums(const struct layout *layout, struct layout **out, uint64_t **sums_at)
{
	uint64_t *starts = calloc((size_t)layout->nr_chunks + 1, sizeof(*starts));
	struct layout *made = new_layout((size_t)layout->nr_groups + layout->nr_chunks,
					 (size_t)layout->nr_chunks * 2, layout->nr_servers);
	uint64_t excess = layout->length % CHECKSUM_BLOCK;

	if (!made || !starts) {
		layout_free(made);
		free(starts);
		return error_code(-ENOMEM);
	}
	copy_without_keys(layout, made);
	made->is_sealed = layout->is_sealed;
	if (excess) {
		made->groups[made->nr_groups - 1].length += CHECKSUM_BLOCK - excess;
		made->length += CHECKSUM_BLOCK - excess;
	}
	for (uint32_t i = 0; i < layout->nr_chunks; i++) {
		starts[i] = made->length;
		add_sums(made, &layout->chunks[i]);
	}
	*out = made;
	*sums_at = starts;
	return 0;
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static size_t drop_repeated(uint64_t *numbers, size_t count)
{
	size_t nr_kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (nr_kept == 0 || numbers[i] != numbers[nr_kept - 1])
			numbers[nr_kept++] = numbers[i];
	}
	return nr_kept;
}

int layout_extents(const struct layout *layout, uint32_t server, uint64_t **out, size_t *nr_extents)
{
	uint64_t *extents = calloc((size_t)layout->nr_chunks + 1, sizeof(*extents));
	size_t count = 0;

	if (!extents)
		return error_code(-ENOMEM);
	for (uint32_t i = 0; i < layout->nr_chunks; i++) {
		if (layout->chunks[i].server == server)
			extents[count++] = layout->chunks[i].extent;
	}
	qsort(extents, count, sizeof(*extents), compare_numbers);
	*out = extents;
	*nr_extents = drop_repeated(extents, count);
	return 0;
}

static const struct layout_group *group_at(const struct layout *layout, uint64_t offset)
{
	uint32_t low = 0, high = layout->nr_groups - 1;

	while (low < high) {
		uint32_t middle = low + (high - low + 1) / 2;

		if (layout->groups[middle].start <= offset)
			low = middle;
		else
			high = middle - 1;
	}
	return &layout->groups[low];
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

const struct layout_chunk *layout_chunk_on(const struct layout *layout, uint32_t server)
{
	for (uint32_t i = 0; i < layout->nr_chunks; i++) {
		if (layout->chunks[i].server == server)
			return &layout->chunks[i];
	}
	return NULL;
}

struct layout_piece layout_piece_at(const struct layout *layout, uint64_t offset,
				    uint64_t length_max)
{
	const struct layout_group *group = group_at(layout, offset);
	const struct layout_chunk *chunks = &layout->chunks[group->first_chunk];
	uint64_t inside = offset - group->start;
	uint64_t left = min_u64(group->length - inside, length_max);
	uint64_t unit, in_unit, unit_bytes;

	if (group->nr_chunks == 0)
		return (struct layout_piece){NULL, inside, left};
	if (group->nr_chunks == 1)
		return (struct layout_piece){chunks, inside, left};

	unit_bytes = UINT64_C(1) << group->unit_shift;
	unit = inside >> group->unit_shift;
	in_unit = inside & (unit_bytes - 1);
	return (struct layout_piece){
		.chunk = &chunks[unit % group->nr_chunks],
		.offset = (unit / group->nr_chunks << group->unit_shift) + in_unit,
		.length = min_u64(unit_bytes - in_unit, left),
	};
}
