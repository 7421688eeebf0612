/* SPDX-License-Identifier: BSD-3-Clause */
#include "flash/write/policy.h"

#include "flash/device/superblock.h"
#include "flash/ftl_private.h"
#include "flash/map/map.h"
#include "flash/map/segments.h"
#include "flash/write/put.h"
#include "flash/write/streams.h"
/*
 * Chooses where blocks go, and which segment is cleaned: asks streams.h and victim.h, with what the
 * layer knows. The heat of a block is kept beside its entry of the map, only in memory: after a
 * restart nothing is known.
 */

_Static_assert(FTL_HEAT_UNKNOWN == 0 && FTL_HEAT_MEAN == HEAT_HINT_MEAN,
	       "callers' heat is the hint as it is");
_Static_assert(FTL_STREAMS_MAX <= STREAMS_MAX, "a mask of bits has all");

/* Each stream keeps a segment open. With fewer segments per stream, that costs more than the stream
 * saves, as simulations show. */
#define SEGMENTS_PER_STREAM 64U
#define STREAMS_MIN	    2U

static unsigned streams_that_pay(uint32_t nr_segments)
{
	uint32_t nr = nr_segments / SEGMENTS_PER_STREAM;

	return nr < STREAMS_MIN ? STREAMS_MIN : nr > FTL_STREAMS_MAX ? FTL_STREAMS_MAX : nr;
}

void policy_open(struct ftl *ftl, unsigned nr_streams)
{
	uint64_t nr_blocks = segments_capacity(&ftl->segments);

	streams_init(&ftl->streams, nr_streams ? nr_streams : streams_that_pay(ftl->segments.nr),
		     nr_blocks ? nr_blocks : 1);
}

static uint8_t *heat_of(struct map_page *page, uint64_t lba)
{
	return &page->heat[ftl_lba_block(lba) % FORMAT_PAGE_ENTRIES];
}

void policy_put(struct ftl *ftl, struct piece *piece)
{
	struct segments *segments = &ftl->segments;

	piece->pace = 0;
	for (uint32_t i = 0; i < piece->nr_blocks; i++) {
		uint64_t lba = piece->lba + i, pace;
		struct map_page *page = piece_page(piece, lba);
		const struct format_entry *entry = map_entry(page, lba);
		uint32_t place = map_is_known(entry) ? entry->place : 0;
		struct streams_put put = {.lba = lba,
					  .now = segments->clock + i,
					  .is_overwrite = place != 0,
					  .hint = piece->put->heat,
					  .heat = heat_of(page, lba)};

		if (place)
			put.survived = put.now - segment_of(segments, place)->began;
		piece->streams[i] = (uint8_t)streams_put(&ftl->streams, &put, &pace);
		if (pace)
			piece->pace = pace;
	}
}

unsigned policy_move(struct ftl *ftl, const struct segment *victim, struct map_page *page,
		     uint64_t lba)
{
	return streams_move(&ftl->streams, heat_of(page, lba), ftl->segments.clock - victim->began);
}

static struct segment *worn_victim(struct segments *segments)
{
	for (uint32_t i = 0; i < segments->nr; i++) {
		if (segments->at[i].is_worn && segments->at[i].state == FTL_SEGMENT_FULL)
			return &segments->at[i];
	}
	return NULL;
}

struct segment *policy_victim(struct ftl *ftl)
{
	struct segments *segments = &ftl->segments;
	struct segment *worn = segments->nr_worn ? worn_victim(segments) : NULL;
	struct victim_segment *victim;

	if (worn)
		return worn;
	victim = victims_choose(segments->victims, segments->clock);
	return victim ? caa_container_of(victim, struct segment, victim) : NULL;
}
