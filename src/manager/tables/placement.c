/* SPDX-License-Identifier: BSD-3-Clause */
/* Spreading reservations over servers, and regions over the free runs of extents. */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "manager/tables/placement.h"

/* ---- Reservations */

/* A candidate in the order of choice. */
struct rank {
	uint64_t size; /* more is better */
	size_t turn;   /* how long until its turn: less is better */
	size_t index;
};

static int compare_ranks(const void *left, const void *right)
{
	const struct rank *a = left, *b = right;

	if (a->size != b->size)
		return a->size > b->size ? -1 : 1;
	return a->turn < b->turn ? -1 : a->turn > b->turn;
}

static size_t turn_of(size_t index, uint64_t start, size_t nr)
{
	return (index + nr - (size_t)(start % nr)) % nr;
}

/* How many of the ranked servers to ask: `wanted`, more if those cannot hold `units`; 0: all
 * cannot. */
static size_t servers_needed(const struct rank *ranks, size_t nr, size_t wanted, uint64_t units)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < nr; i++) {
		if (__builtin_add_overflow(sum, ranks[i].size, &sum))
			sum = UINT64_MAX;
		if (i + 1 >= wanted && sum >= units)
			return i + 1;
	}
	return 0;
}

int placement_spread(struct placement_server *servers, size_t nr_servers, uint64_t bytes,
		     uint32_t width, uint64_t start)
{
	uint64_t units = bytes / PLACEMENT_EXTENT_UNIT;
	size_t nr = 0, wanted, used;
	struct rank *ranks = calloc(nr_servers + 1, sizeof(*ranks));

	if (!ranks)
		return error_code(-ENOMEM);
	for (size_t i = 0; i < nr_servers; i++) {
		servers[i].share = 0;
		if (servers[i].free_bytes >= PLACEMENT_EXTENT_UNIT)
			ranks[nr++] = (struct rank){servers[i].free_bytes / PLACEMENT_EXTENT_UNIT,
						    turn_of(i, start, nr_servers), i};
	}
	qsort(ranks, nr, sizeof(*ranks), compare_ranks);

	wanted = width < nr ? width : nr;
	if (wanted > units)
		wanted = (size_t)units;
	used = servers_needed(ranks, nr, wanted, units);
	if (used == 0) {
		free(ranks);
		return error_code(-ENOSPC);
	}
	/* From the smallest up: what it lacks for an equal share goes to the larger ones. */
	for (size_t left = used; left > 0; left--) {
		const struct rank *rank = &ranks[left - 1];
		uint64_t share = units / left;

		if (share > rank->size)
			share = rank->size;
		servers[rank->index].share = share * PLACEMENT_EXTENT_UNIT;
		units -= share;
	}
	free(ranks);
	return 0;
}

/* ---- Regions */

/* The sources of one home. Those in front that are used up are left behind, so that taking whole
 * extents in their order costs the same for each. */
struct candidate {
	const struct placement_source *sources;
	size_t nr_sources;
	uint64_t longest; /* run */
};

struct placer {
	struct candidate *candidates;
	size_t nr_candidates;
	struct rank *ranks;
	const struct placement_wish *wish;
	uint64_t start;
	struct placement *out;
};

/* The longest run, which is no longer than `limit`. */
static void find_longest(struct candidate *candidate, uint64_t limit)
{
	while (candidate->nr_sources > 0 && candidate->sources[0].space->longest == 0) {
		candidate->sources++;
		candidate->nr_sources--;
	}
	candidate->longest = 0;
	for (size_t i = 0; i < candidate->nr_sources && candidate->longest < limit; i++)
		if (candidate->sources[i].space->longest > candidate->longest)
			candidate->longest = candidate->sources[i].space->longest;
}

static int make_room(void **array, size_t *max, size_t nr, size_t size)
{
	size_t more = *max != 0 ? *max * 2 : 8;
	void *larger;

	if (nr < *max)
		return 0;
	larger = reallocarray(*array, more, size);
	if (!larger)
		return error_code(-ENOMEM);
	*array = larger;
	*max = more;
	return 0;
}

/* Takes one chunk from the candidate's tightest run and adds it to the last group. */
static int add_chunk(struct placement *out, struct candidate *candidate, uint64_t length)
{
	const struct placement_source *best = NULL;
	uint64_t best_fit = 0, offset;
	int ret;

	if (out->nr_parts == PLACEMENT_CHUNKS_MAX)
		return error_code(-E2BIG);
	ret = make_room((void **)&out->parts, &out->max_parts, out->nr_parts, sizeof(*out->parts));
	if (ret < 0)
		return ret;
	for (size_t i = 0; i < candidate->nr_sources && best_fit != length; i++) {
		uint64_t fit = space_best_fit(candidate->sources[i].space, length);

		if (fit != 0 && (!best || fit < best_fit)) {
			best = &candidate->sources[i];
			best_fit = fit;
		}
	}
	if (!best)
		return error_code(-ENOSPC);
	ret = space_take(best->space, length, &offset);
	if (ret < 0)
		return ret;
	out->parts[out->nr_parts++] = (struct placement_part){best->space, offset, length};
	find_longest(candidate, candidate->longest);
	return layout_add_chunk(out->layout, &best->home, best->number, offset);
}

/* How many servers the next group is striped over, and its chunks' length; 1 or fewer: do not
 * stripe. */
static size_t choose_stripe(struct placer *placer, uint64_t bytes, uint64_t *chunk_length)
{
	uint64_t unit = placer->wish->stripe_bytes;
	size_t nr = 0, n;

	assert(unit > 0);
	for (size_t i = 0; i < placer->nr_candidates; i++)
		if (placer->candidates[i].longest >= unit)
			placer->ranks[nr++] =
				(struct rank){placer->candidates[i].longest / unit,
					      turn_of(i, placer->start, placer->nr_candidates), i};
	qsort(placer->ranks, nr, sizeof(*placer->ranks), compare_ranks);
	for (n = nr < placer->wish->width ? nr : placer->wish->width; n > 1; n--) {
		uint64_t units = bytes / unit / n;

		if (units > placer->ranks[n - 1].size)
			units = placer->ranks[n - 1].size;
		*chunk_length = units * unit;
		if (units > 0)
			break;
	}
	return n;
}

static int compare_turns(const void *left, const void *right)
{
	const struct rank *a = left, *b = right;

	return a->turn < b->turn ? -1 : a->turn > b->turn;
}

static int add_striped(struct placer *placer, size_t nr_chunks, uint64_t chunk_length)
{
	int ret = layout_add_group(placer->out->layout, chunk_length, placer->wish->stripe_bytes);

	/* Each region begins on another server, not on that with the most space. */
	qsort(placer->ranks, nr_chunks, sizeof(*placer->ranks), compare_turns);
	for (size_t i = 0; i < nr_chunks && ret == 0; i++)
		ret = add_chunk(placer->out, &placer->candidates[placer->ranks[i].index],
				chunk_length);
	placer->start += nr_chunks;
	return ret;
}

/* All of `bytes` on the first server in turn that has a run so long, else the longest run there
 * is. */
static int add_single(struct placer *placer, uint64_t bytes)
{
	struct candidate *longest = &placer->candidates[0];
	uint64_t length;
	int ret;

	for (size_t i = 0; i < placer->nr_candidates; i++) {
		size_t index = (size_t)((placer->start + i) % placer->nr_candidates);
		struct candidate *candidate = &placer->candidates[index];

		if (candidate->longest > longest->longest || candidate->longest >= bytes)
			longest = candidate;
		if (candidate->longest >= bytes) {
			placer->start = index;
			break;
		}
	}
	length = longest->longest < bytes ? longest->longest : bytes;
	ret = layout_add_group(placer->out->layout, length, placer->wish->stripe_bytes);
	if (ret == 0)
		ret = add_chunk(placer->out, longest, length);
	placer->start++;
	return ret;
}

static int take_groups(struct placer *placer)
{
	const struct layout *layout = placer->out->layout;
	int ret = 0;

	while (layout->length < placer->wish->bytes && ret == 0) {
		uint64_t left = placer->wish->bytes - layout->length, chunk_length = 0;
		size_t width = 0;

		if (left > placer->wish->stripe_bytes)
			width = choose_stripe(placer, left, &chunk_length);
		ret = width > 1 ? add_striped(placer, width, chunk_length)
				: add_single(placer, left);
	}
	return ret;
}

/* Groups the sources by home. Returns how many bytes are free. */
static uint64_t find_candidates(struct placer *placer, const struct placement_source *sources,
				size_t nr_sources)
{
	struct candidate *last = NULL;
	uint64_t sum = 0;

	for (size_t i = 0; i < nr_sources; i++) {
		if (!last || !layout_home_is(&last->sources[0].home, &sources[i].home)) {
			last = &placer->candidates[placer->nr_candidates++];
			*last = (struct candidate){.sources = &sources[i]};
		}
		last->nr_sources++;
		if (__builtin_add_overflow(sum, sources[i].space->free_bytes, &sum))
			sum = UINT64_MAX;
	}
	for (size_t i = 0; i < placer->nr_candidates; i++)
		find_longest(&placer->candidates[i], UINT64_MAX);
	return sum;
}

int placement_take(const struct placement_source *sources, size_t nr_sources,
		   const struct placement_wish *wish, struct placement *out)
{
	struct placer placer = {.wish = wish, .start = wish->start, .out = out};
	int ret = 0;

	*out = (struct placement){.layout = layout_new()};
	placer.candidates = calloc(nr_sources + 1, sizeof(*placer.candidates));
	placer.ranks = calloc(nr_sources + 1, sizeof(*placer.ranks));
	if (!placer.candidates || !placer.ranks || !out->layout)
		ret = error_code(-ENOMEM);
	else if (find_candidates(&placer, sources, nr_sources) < wish->bytes)
		ret = error_code(-ENOSPC);
	else
		ret = take_groups(&placer);
	free(placer.candidates);
	free(placer.ranks);
	if (ret < 0) {
		placement_undo(out);
		placement_close(out);
	}
	return ret;
}

void placement_undo(struct placement *placement)
{
	/* In reverse, each merges with the run it was taken from: nothing is allocated. */
	while (placement->nr_parts > 0) {
		struct placement_part *part = &placement->parts[--placement->nr_parts];

		space_give(part->space, part->offset, part->length);
	}
}

void placement_close(struct placement *placement)
{
	layout_free(placement->layout);
	free(placement->parts);
	*placement = (struct placement){0};
}
