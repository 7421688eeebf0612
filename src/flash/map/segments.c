/* SPDX-License-Identifier: BSD-3-Clause */
/* States, valid blocks and shares of segments; see segments.h. */
#include "flash/map/segments.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/error.h"
#include "flash/device/superblock.h"

#define BIT(state) (1U << (state))

/* The states that each state may change to. */
static const unsigned allowed[FTL_NR_SEGMENT_STATES] = {
	[FTL_SEGMENT_FREE] = BIT(FTL_SEGMENT_OPEN),
	[FTL_SEGMENT_OPEN] = BIT(FTL_SEGMENT_CLOSING),
	[FTL_SEGMENT_CLOSING] = BIT(FTL_SEGMENT_FULL),
	[FTL_SEGMENT_FULL] = BIT(FTL_SEGMENT_CLEANING) | BIT(FTL_SEGMENT_PENDING),
	[FTL_SEGMENT_CLEANING] =
		BIT(FTL_SEGMENT_FULL) | BIT(FTL_SEGMENT_PENDING) | BIT(FTL_SEGMENT_BAD),
	[FTL_SEGMENT_PENDING] =
		BIT(FTL_SEGMENT_DISCARD) | BIT(FTL_SEGMENT_FREE) | BIT(FTL_SEGMENT_BAD),
	[FTL_SEGMENT_DISCARD] = BIT(FTL_SEGMENT_FREE) | BIT(FTL_SEGMENT_BAD),
	[FTL_SEGMENT_BAD] = BIT(FTL_SEGMENT_PENDING),
};

int segments_open(struct segments *segments, const struct format_superblock *layout)
{
	*segments = (struct segments){
		.nr = layout->nr_segments,
		.nr_words = (layout->segment_blocks + 63) / 64,
		.first = layout->segments_at,
		.segment_blocks = layout->segment_blocks,
		.data_blocks = data_blocks_of(layout),
		.seed = checksum_crc32c(layout->uuid, sizeof(layout->uuid)),
	};
	CDS_INIT_LIST_HEAD(&segments->free);
	CDS_INIT_LIST_HEAD(&segments->pending);
	segments->at = calloc(segments->nr, sizeof(*segments->at));
	segments->valid_bits = calloc((size_t)segments->nr * segments->nr_words, sizeof(uint64_t));
	if (!segments->at || !segments->valid_bits) {
		segments_close(segments);
		return error_code(-ENOMEM);
	}
	for (uint32_t i = 0; i < segments->nr; i++)
		cds_list_add_tail(&segments->at[i].node, &segments->free);
	segments->nr_by_state[FTL_SEGMENT_FREE] = segments->nr;
	return 0;
}

void segments_close(struct segments *segments)
{
	for (uint32_t i = 0; segments->at && i < segments->nr; i++) {
		free(segments->at[i].lbas);
		free(segments->at[i].shares);
	}
	while (segments->spare_lists) {
		uint64_t *list = segments->spare_lists;

		segments->spare_lists = (uint64_t *)(uintptr_t)list[0];
		free(list);
	}
	victims_close(segments->victims);
	free(segments->at);
	free(segments->valid_bits);
	*segments = (struct segments){0};
}

/*
 * Adds a segment that is in use to the index of victims, even if no block is valid. A BAD one
 * counts, but is never chosen.
 */
static void load_victim(struct segments *segments, struct segment *segment, unsigned nr_streams)
{
	unsigned stream = segment->stream < nr_streams ? segment->stream : nr_streams - 1;
	uint32_t written = segments->data_blocks;

	switch (segment->state) {
	case FTL_SEGMENT_OPEN:
		written = segment->next > segment->valid ? segment->next : segment->valid;
		break;
	case FTL_SEGMENT_FULL:
		break;
	case FTL_SEGMENT_BAD:
		if (segment->valid)
			break;
		return;
	default:
		return;
	}
	victims_load(segments->victims, &segment->victim, stream, written, segment->valid);
	if (segment->state == FTL_SEGMENT_FULL)
		victims_fill(segments->victims, &segment->victim);
}

int segments_index(struct segments *segments, unsigned nr_streams)
{
	segments->victims = victims_open(nr_streams, segments->data_blocks,
					 (uint64_t)segments->nr * segments->data_blocks);
	if (!segments->victims)
		return error_code(-ENOMEM);
	for (uint32_t i = 0; i < segments->nr; i++)
		load_victim(segments, &segments->at[i], nr_streams);
	return 0;
}

bool segments_is_place(const struct segments *segments, uint32_t place)
{
	return place >= segments->first &&
	       (place - segments->first) / segments->segment_blocks < segments->nr &&
	       segment_index(segments, place) < segments->data_blocks;
}

bool segments_is_valid(const struct segments *segments, uint32_t place)
{
	const struct segment *segment =
		&segments->at[(place - segments->first) / segments->segment_blocks];

	return segment_is_valid(segments, segment, segment_index(segments, place));
}

static bool is_listed(enum ftl_segment_state state)
{
	return state == FTL_SEGMENT_FREE || state == FTL_SEGMENT_PENDING;
}

void segment_set_state(struct segments *segments, struct segment *segment,
		       enum ftl_segment_state state)
{
	assert(allowed[segment->state] & BIT(state));
	if (is_listed(segment->state))
		cds_list_del(&segment->node);
	segments->nr_by_state[segment->state]--;
	segments->nr_by_state[state]++;
	segment->state = (uint8_t)state;
	if (is_listed(state))
		cds_list_add_tail(&segment->node,
				  state == FTL_SEGMENT_FREE ? &segments->free : &segments->pending);
	assert(!is_listed(state) || segment->valid == 0);
	if (!segments->victims)
		return;
	if (state == FTL_SEGMENT_FULL)
		victims_fill(segments->victims, &segment->victim);
	if (state == FTL_SEGMENT_CLEANING)
		victims_take(segments->victims, &segment->victim);
}

int segment_give_list(struct segments *segments, struct segment *segment)
{
	if (segment->lbas)
		return 0;
	if (segments->spare_lists) {
		segment->lbas = segments->spare_lists;
		segments->spare_lists = (uint64_t *)(uintptr_t)segment->lbas[0];
	} else {
		segment->lbas = malloc(segments->data_blocks * sizeof(uint64_t));
		if (!segment->lbas)
			return error_code(-ENOMEM);
	}
	segments->nr_lists++;
	return 0;
}

void segment_drop_list(struct segments *segments, struct segment *segment)
{
	if (!segment->lbas)
		return;
	segment->lbas[0] = (uintptr_t)segments->spare_lists;
	segments->spare_lists = segment->lbas;
	segment->lbas = NULL;
	segments->nr_lists--;
}

int segment_begin(struct segments *segments, struct segment *segment, unsigned stream)
{
	int ret = segment_give_list(segments, segment);

	if (ret)
		return ret;
	segment_set_state(segments, segment, FTL_SEGMENT_OPEN);
	segment->opened = segments->nr_opened++;
	segment->began = segments->clock;
	segment->stream = (uint8_t)stream;
	segment->attempts = 0;
	segment->next = 0;
	if (segments->victims)
		victims_begin(segments->victims, &segment->victim, stream);
	return 0;
}

/* Returns where the shares of `index` begin, or would. */
static uint32_t find_share(const struct segment *segment, uint32_t index)
{
	uint32_t low = 0, nr = segment->nr_shares;

	while (nr > 0) {
		uint32_t half = nr / 2;
		bool is_before = segment->shares[low + half].index < index;

		low = is_before ? low + half + 1 : low;
		nr = is_before ? nr - half - 1 : half;
	}
	return low;
}

uint32_t segment_shares(const struct segment *segment, uint32_t index, const struct share **first)
{
	uint32_t at = find_share(segment, index), end = at;

	while (end < segment->nr_shares && segment->shares[end].index == index)
		end++;
	*first = segment->shares ? &segment->shares[at] : NULL;
	return end - at;
}

uint32_t segment_candidates(const struct segment *segment, uint32_t index, uint64_t lba,
			    struct share *alone, const struct share **first)
{
	uint32_t nr = segment_shares(segment, index, first);

	if (nr)
		return nr;
	*alone = (struct share){.lba = lba, .index = index};
	*first = alone;
	return 1;
}

static int make_room(struct segment *segment, uint32_t nr)
{
	uint32_t room = segment->room_shares ? segment->room_shares : 16;
	struct share *shares;

	while (room < segment->nr_shares + nr)
		room *= 2;
	if (room == segment->room_shares)
		return 0;
	shares = realloc(segment->shares, room * sizeof(*shares));
	if (!shares)
		return error_code(-ENOMEM);
	segment->shares = shares;
	segment->room_shares = room;
	return 0;
}

int segment_add_share(struct segments *segments, struct segment *segment, uint32_t index,
		      uint64_t lba)
{
	uint32_t at;
	int ret = make_room(segment, 1);

	if (ret)
		return ret;
	at = find_share(segment, index);
	memmove(&segment->shares[at + 1], &segment->shares[at],
		(segment->nr_shares - at) * sizeof(*segment->shares));
	segment->shares[at] = (struct share){.lba = lba, .index = index};
	segment->nr_shares++;
	segments->nr_shares++;
	return 0;
}

int segments_ref(struct segments *segments, uint32_t place, uint64_t lba, uint64_t first)
{
	struct segment *segment = segment_of(segments, place);
	uint32_t index = segment_index(segments, place);
	const struct share *shares;
	int ret;

	if (!segment_is_valid(segments, segment, index)) {
		segment_bits(segments, segment)[index / 64] |= UINT64_C(1) << index % 64;
		segment->valid++;
		segments->used++;
		if (segments->victims)
			victims_gain(segments->victims, &segment->victim);
		return 0;
	}
	ret = make_room(segment, 2);
	if (ret)
		return ret;
	if (segment_shares(segment, index, &shares) == 0)
		segment_add_share(segments, segment, index, first);
	return segment_add_share(segments, segment, index, lba);
}

/* Removes the share of `lba`. Returns whether another lba still refers to block `index`. */
static bool remove_share(struct segments *segments, struct segment *segment, uint32_t index,
			 uint64_t lba)
{
	const struct share *first;
	uint32_t nr = segment_shares(segment, index, &first);

	for (uint32_t i = 0; i < nr; i++) {
		uint32_t at = (uint32_t)(first - segment->shares) + i;

		if (segment->shares[at].lba != lba)
			continue;
		memmove(&segment->shares[at], &segment->shares[at + 1],
			(segment->nr_shares - at - 1) * sizeof(*segment->shares));
		segment->nr_shares--;
		segments->nr_shares--;
		return nr > 1;
	}
	/* The shares list all references, so `lba` should have been among them. */
	segments->is_damaged |= nr > 0;
	return nr > 0;
}

static void lose(struct segments *segments, struct segment *segment, const struct loss *loss)
{
	segment->valid--;
	segments->used--;
	if (!segments->victims)
		return;
	if (loss->is_move)
		victims_move(segments->victims, &segment->victim);
	else
		victims_lose(segments->victims, &segment->victim, segments->clock, loss->pace);
}

void segments_unref(struct segments *segments, uint32_t place, uint64_t lba,
		    const struct loss *loss)
{
	struct segment *segment = segment_of(segments, place);
	uint32_t index = segment_index(segments, place);

	/*
	 * An earlier call made it invalid: two entries referred to it without being listed as
	 * shares.
	 */
	if (!segment_is_valid(segments, segment, index)) {
		segments->is_damaged = true;
		return;
	}
	if (segment->nr_shares && remove_share(segments, segment, index, lba))
		return;
	segment_bits(segments, segment)[index / 64] &= ~(UINT64_C(1) << index % 64);
	lose(segments, segment, loss);
	/* The tag is that of the last reference, because the last record has to survive. */
	if (segment->valid == 0 &&
	    (segment->state == FTL_SEGMENT_FULL || segment->state == FTL_SEGMENT_BAD))
		segment_retire(segments, segment, loss->tag);
}

void segment_forget(struct segments *segments, struct segment *segment)
{
	memset(segment_bits(segments, segment), 0, segments->nr_words * sizeof(uint64_t));
	segments->used -= segment->valid;
	segments->nr_shares -= segment->nr_shares;
	segment->valid = segment->nr_shares = 0;
	if (segment->state == FTL_SEGMENT_FULL || segment->state == FTL_SEGMENT_BAD)
		segment_retire(segments, segment, 0);
}

bool segments_may_have(const struct segments *segments, uint32_t place, uint64_t lba)
{
	const struct segment *segment =
		&segments->at[(place - segments->first) / segments->segment_blocks];
	uint32_t index = segment_index(segments, place), nr;
	const struct share *first;

	if (!segment_is_valid(segments, segment, index))
		return false;
	nr = segment_shares(segment, index, &first);
	for (uint32_t i = 0; i < nr; i++) {
		if (first[i].lba == lba)
			return true;
	}
	return nr == 0;
}

bool segments_is_shared(const struct segments *segments, uint32_t place)
{
	const struct segment *segment =
		&segments->at[(place - segments->first) / segments->segment_blocks];
	const struct share *first;

	return segment->nr_shares &&
	       segment_shares(segment, segment_index(segments, place), &first) > 1;
}

void segment_retire(struct segments *segments, struct segment *segment, uint64_t tag)
{
	assert(segment->valid == 0);
	if (segments->victims)
		victims_end(segments->victims, &segment->victim);
	segment->tag = tag;
	if (segment->state == FTL_SEGMENT_BAD) /* it did not count as worn */
		segments->nr_worn += segment->is_worn;
	free(segment->shares);
	segment->shares = NULL;
	segment->room_shares = 0;
	/* Lists are few, and the lbas of an invalid segment are not needed. */
	segment_drop_list(segments, segment);
	segment_set_state(segments, segment, FTL_SEGMENT_PENDING);
}

void segment_forgive(struct segments *segments, struct segment *segment)
{
	assert(segment->valid == 0);
	if (segment->state != FTL_SEGMENT_BAD)
		segments->nr_worn -= segment->is_worn;
	segment->is_worn = false;
	segment->tag = 0;
	if (segment->state == FTL_SEGMENT_BAD)
		segment_set_state(segments, segment, FTL_SEGMENT_PENDING);
}

uint32_t segments_forgive(struct segments *segments)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < segments->nr; i++) {
		struct segment *segment = &segments->at[i];

		if (segment->state != FTL_SEGMENT_BAD || segment->valid != 0)
			continue;
		segment_forgive(segments, segment);
		nr++;
	}
	return nr;
}

uint64_t segments_capacity(const struct segments *segments)
{
	uint64_t lost = segments->nr_by_state[FTL_SEGMENT_BAD] + segments->nr_worn +
			reserve_segments(segments->nr);

	return lost >= segments->nr ? 0 : (segments->nr - lost) * segments->data_blocks;
}
