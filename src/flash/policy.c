/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the layer asks streams.h and victim.h: which stream a block is written to, by how often it has been put so far, and
 * which segment is cleaned next. What is known of a block's heat is in memory alone, beside its page of the map; after a start
 * it is learnt anew. Nothing here is needed to be right, only to be fast.
 */
#include <errno.h>

#include "base/error.h"
#include "flash/ftl_private.h"
#include "flash/superblock.h"

_Static_assert(FTL_HEAT_MEAN == HEAT_HINT_MEAN, "hints are passed on");

/* Each stream keeps a segment open, which is no use to the others: what is kept back has to suffice for all. */
static unsigned streams_for(uint32_t nr_segments)
{
	unsigned nr = nr_segments < 128 ? 2 : nr_segments < 256 ? 4 : NR_STREAMS;

	return nr + 4 > reserve_segments(nr_segments) ? 1 : nr;
}

int policy_start(struct ftl *ftl)
{
	struct segments *segments = &ftl->segments;
	uint64_t capacity = segments_capacity(segments);

	ftl->nr_streams = streams_for(segments->nr);
	streams_init(&ftl->streams, ftl->nr_streams, capacity ? capacity : 1);
	/* Segments of before may be of any stream that there can be. */
	segments->victims = victims_open(NR_STREAMS, segments->data_blocks,
					 (uint64_t)segments->nr * segments->data_blocks);
	if (!segments->victims)
		return error_code(-ENOMEM);
	for (uint32_t i = 0; i < segments->nr; i++) {
		struct segment *segment = &segments->at[i];
		bool is_open = segment->state == FTL_SEGMENT_OPEN;

		if (!is_open && segment->state != FTL_SEGMENT_FULL)
			continue;
		victims_load(segments->victims, &segment->victim, segment->stream,
			     is_open ? segment->next : segments->data_blocks, segment->valid);
		if (!is_open)
			victims_fill(segments->victims, &segment->victim);
	}
	return 0;
}

void policy_stop(struct ftl *ftl)
{
	victims_close(ftl->segments.victims);
	ftl->segments.victims = NULL;
}

static uint8_t *heat_of(struct map_page *page, uint64_t lba)
{
	return &page->heat[ftl_lba_block(lba) % FORMAT_PAGE_ENTRIES];
}

static uint64_t survived(struct ftl *ftl, const struct segment *segment)
{
	return ftl->segments.clock - segment->began;
}

void policy_place(struct ftl *ftl, struct piece *piece)
{
	for (uint32_t i = 0; i < piece->nr_blocks; i++) {
		uint64_t lba = piece->lba + i;
		struct map_page *page = piece_page(piece, lba);
		uint32_t place = map_entry(page, lba)->place;
		struct streams_put put = {.lba = lba,
					  .now = ftl->segments.clock,
					  .is_overwrite = place != 0,
					  .hint = piece->put->heat,
					  .heat = heat_of(page, lba)};
		unsigned stream;

		if (place)
			put.survived = survived(ftl, segment_of(&ftl->segments, place));
		stream = streams_put(&ftl->streams, &put, &piece->pace);
		/* What came together stays together: by the last, which knows most of a sequence. */
		piece->stream = stream;
	}
}

unsigned policy_move_stream(struct ftl *ftl, const struct segment *victim, uint64_t lba)
{
	struct map_page *page = map_find(&ftl->map, lba);

	return streams_move(&ftl->streams, heat_of(page, lba), survived(ftl, victim));
}

struct segment *policy_victim(struct ftl *ftl)
{
	struct segments *segments = &ftl->segments;
	struct victim_segment *victim;

	for (uint32_t i = 0; i < segments->nr && segments->nr_worn; i++) {
		if (segments->at[i].is_worn && segments->at[i].state == FTL_SEGMENT_FULL)
			return &segments->at[i];
	}
	victim = victims_choose(segments->victims, segments->clock);
	return victim ? caa_container_of(victim, struct segment, victim) : NULL;
}
