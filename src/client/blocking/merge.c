/* SPDX-License-Identifier: BSD-3-Clause */
/* Merging of pieces that touch. Called by pieces.c. */
#include "client/blocking/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/target/apart.h"

/* ---- What touches */

static struct target_piece *piece_at(const struct merge *merge, unsigned place)
{
	return &merge->list[merge->order[place].index];
}

static uint64_t end_of(const struct target_piece *piece)
{
	return piece->offset + piece->memory.length;
}

static int compare_places(const void *left, const void *right)
{
	const struct merge_place *a = left, *b = right;

	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return a->index < b->index ? -1 : 1;
}

#define DIGIT_BITS   11U
#define NR_DIGITS    (1U << DIGIT_BITS)
#define SORT_BIG_MIN 256U /* fewer are compared */

/* Sorts by a digit, into the spare order, which then takes the other's place. */
static void sort_by_digit(struct merge *merge, uint64_t base, unsigned shift)
{
	struct merge_place *from = merge->order, *to = merge->spare;
	unsigned begins[NR_DIGITS] = {0}, sum = 0;

	for (unsigned i = 0; i < merge->nr; i++)
		begins[(from[i].offset - base) >> shift & (NR_DIGITS - 1)]++;
	for (unsigned i = 0; i < NR_DIGITS; i++) {
		unsigned nr = begins[i];

		begins[i] = sum;
		sum += nr;
	}
	for (unsigned i = 0; i < merge->nr; i++)
		to[begins[(from[i].offset - base) >> shift & (NR_DIGITS - 1)]++] = from[i];
	merge->order = to;
	merge->spare = from;
}

static void sort(struct merge *merge)
{
	uint64_t first = UINT64_MAX, last = 0;

	if (merge->nr >= SORT_BIG_MIN)
		merge->spare = malloc(merge->nr * sizeof(*merge->spare));
	if (!merge->spare) {
		qsort(merge->order, merge->nr, sizeof(*merge->order), compare_places);
		return;
	}
	for (unsigned i = 0; i < merge->nr; i++) {
		first = merge->order[i].offset < first ? merge->order[i].offset : first;
		last = merge->order[i].offset > last ? merge->order[i].offset : last;
	}
	for (unsigned shift = 0; shift < 64 && (last - first) >> shift != 0; shift += DIGIT_BITS)
		sort_by_digit(merge, first, shift);
}

/* Fills the order. */
static void sort_left(struct merge *merge, unsigned nr)
{
	bool is_sorted = true;

	merge->nr = 0;
	for (unsigned i = 0; i < nr; i++) {
		if (merge->list[i].status != PIECE_LEFT)
			continue;
		is_sorted &= merge->nr == 0 ||
			     merge->order[merge->nr - 1].offset <= merge->list[i].offset;
		merge->order[merge->nr++] = (struct merge_place){merge->list[i].offset, i};
	}
	if (!is_sorted)
		sort(merge);
}

/* Returns whether one transfer may have a piece and the next, which begins at `next`. */
static inline bool may_join(const struct merge *merge, const struct target_piece *piece,
			    uint64_t next)
{
	uint64_t end = end_of(piece);

	return next == end || (next > end && next - end <= merge->gap_max && next <= piece->reach);
}

/* Returns whether there is something to merge, and it has the same outcome then. */
static bool is_worth_it(const struct merge *merge)
{
	bool do_join = false;

	for (unsigned i = 0; i + 1 < merge->nr; i++) {
		const struct target_piece *piece = piece_at(merge, i);
		uint64_t next = merge->order[i + 1].offset;

		if (merge->is_write && end_of(piece) > next)
			return false;
		do_join |= may_join(merge, piece, next);
	}
	return do_join;
}

/* Returns whether what is left of the list ascends, and lies apart. Then there is nothing to merge, and no order to find. */
static bool lies_apart(const struct merge *merge, unsigned nr)
{
	const struct target_piece *before = NULL;

	for (unsigned i = 0; i < nr; i++) {
		const struct target_piece *piece = &merge->list[i];

		if (piece->status != PIECE_LEFT)
			continue;
		if (before &&
		    (piece->offset < end_of(before) || may_join(merge, before, piece->offset)))
			return false;
		before = piece;
	}
	return true;
}

static bool make_round(struct merge *merge)
{
	const unsigned nr_max = merge->nr < MERGE_ROUND_MAX ? merge->nr : MERGE_ROUND_MAX;

	merge->merged = malloc(nr_max * sizeof(*merge->merged));
	merge->nr_members = malloc(nr_max * sizeof(*merge->nr_members));
	return merge->merged && merge->nr_members;
}

bool merge_begin(struct merge *merge, struct target_piece *list, unsigned nr, bool is_write,
		 uint64_t gap_max)
{
	*merge = (struct merge){
		.list = list, .is_write = is_write, .gap_max = is_write ? 0 : gap_max};
	if (lies_apart(merge, nr))
		return false;
	merge->order = malloc(nr * sizeof(*merge->order));
	if (merge->order) {
		sort_left(merge, nr);
		if (is_worth_it(merge) && make_round(merge))
			return true;
	}
	merge_end(merge);
	return false;
}

void merge_end(struct merge *merge)
{
	free(merge->order);
	free(merge->spare);
	free(merge->merged);
	free(merge->nr_members);
	free(merge->buffer);
}

/* ---- Rounds */

/* Finds where the piece of the layout ends that this piece begins in. */
static uint64_t limit_at(const struct layout *layout, const struct target_piece *piece)
{
	if (piece->offset >= layout->length)
		return 0;
	return piece->offset +
	       layout_piece_at(layout, piece->offset, layout->length - piece->offset).length;
}

/* Returns whether a place's piece may be in the same transfer as the one before it, which ends at the limit or before. */
static bool does_follow(const struct merge *merge, unsigned place, uint64_t limit)
{
	const struct target_piece *piece = piece_at(merge, place);

	return may_join(merge, piece_at(merge, place - 1), piece->offset) && end_of(piece) <= limit;
}

/* Counts the pieces from `begin` on that touch in memory, too. */
static unsigned count_adjoining(const struct merge *merge, unsigned begin, uint64_t limit)
{
	unsigned end = begin + 1;

	for (; end < merge->nr && does_follow(merge, end, limit); end++) {
		const struct target_piece *before = piece_at(merge, end - 1);
		const struct target_piece *piece = piece_at(merge, end);

		if (piece->offset != end_of(before) ||
		    piece->memory.buffer != before->memory.buffer ||
		    (char *)piece->memory.addr !=
			    (char *)before->memory.addr + before->memory.length)
			break;
	}
	return end - begin;
}

/* Counts the pieces from `begin` on that one part of the buffer takes. */
static unsigned count_packed(const struct merge *merge, unsigned begin, uint64_t limit)
{
	uint64_t most = piece_at(merge, begin)->offset + MERGE_PACK_BYTES;
	unsigned end = begin + 1;

	if (limit > most)
		limit = most;
	while (end < merge->nr && does_follow(merge, end, limit) &&
	       piece_at(merge, end)->memory.length <= MERGE_PIECE_MAX)
		end++;
	return end - begin;
}

/* Makes a merged piece of the next `nr`, in the buffer. False: the buffer has no room, or there is none. */
static bool pack(struct merge *merge, struct target_piece *merged, unsigned nr)
{
	const uint64_t room = MERGE_ROUND_PACKS * MERGE_PACK_BYTES;
	uint64_t length = end_of(piece_at(merge, merge->next + nr - 1)) - merged->offset;
	uint8_t *to;

	if (!merge->buffer)
		merge->buffer = malloc(room);
	if (!merge->buffer || length > room - merge->used)
		return false;
	to = merge->buffer + merge->used;
	merged->memory = (struct afar_iov){.addr = to, .length = length};
	merge->used += length;
	for (unsigned i = 0; i < nr && merge->is_write; i++) {
		const struct afar_iov *memory = &piece_at(merge, merge->next + i)->memory;

		memcpy(to, memory->addr, memory->length);
		to += memory->length;
	}
	return true;
}

/* Adds the next merged piece to the round. False: it is for the next round. */
static bool add_merged(struct merge *merge, const struct layout *layout)
{
	const struct target_piece *first = piece_at(merge, merge->next);
	struct target_piece *merged = &merge->merged[merge->nr_merged];
	uint64_t limit = limit_at(layout, first);
	unsigned nr, nr_packed;

	if (limit > first->offset + MERGE_LENGTH_MAX)
		limit = first->offset + MERGE_LENGTH_MAX;
	nr = count_adjoining(merge, merge->next, limit);
	*merged = *first;
	merged->memory.length = end_of(piece_at(merge, merge->next + nr - 1)) - first->offset;
	nr_packed = merged->memory.length <= MERGE_PIECE_MAX
			    ? count_packed(merge, merge->next, limit)
			    : 0;
	if (nr_packed > nr && pack(merge, merged, nr_packed))
		nr = nr_packed;
	else if (nr_packed > nr && merge->buffer)
		return false;
	merge->nr_members[merge->nr_merged++] = nr;
	merge->next += nr;
	return true;
}

bool merge_next(struct merge *merge, const struct layout *layout)
{
	merge->begin = merge->next;
	merge->nr_merged = 0;
	merge->used = 0;
	while (merge->next < merge->nr && merge->nr_merged < MERGE_ROUND_MAX &&
	       add_merged(merge, layout))
		;
	return merge->nr_merged > 0;
}

/* Gives the bytes that were read to the pieces, unless they have them already. */
static void unpack(const struct merge *merge, const struct target_piece *merged, unsigned place,
		   unsigned nr)
{
	if (merge->is_write || merged->memory.addr == piece_at(merge, place)->memory.addr)
		return;
	for (unsigned i = 0; i < nr; i++) {
		const struct target_piece *piece = piece_at(merge, place + i);
		uint64_t at = piece->offset - merged->offset;

		memcpy(piece->memory.addr, (const uint8_t *)merged->memory.addr + at,
		       piece->memory.length);
	}
}

/* Returns whether some of the bytes are to blame, and not the way to them. */
static bool is_of_bytes(int status)
{
	return status == -EBADMSG || status == -EIO || status == -ENOSPC || status == -ENXIO ||
	       status == -AFAR_ELOST;
}

bool merge_take(struct merge *merge)
{
	unsigned place = merge->begin;
	bool are_left = false;

	for (unsigned i = 0; i < merge->nr_merged; i++) {
		const struct target_piece *merged = &merge->merged[i];
		unsigned nr = merge->nr_members[i];
		int status = merged->status;

		if (status == 0) {
			unpack(merge, merged, place, nr);
		} else if (nr > 1 && is_of_bytes(status)) {
			status = PIECE_LEFT;
			are_left = true;
		}
		for (; nr > 0; nr--)
			piece_at(merge, place++)->status = status;
	}
	return are_left;
}
