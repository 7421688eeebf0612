/* SPDX-License-Identifier: BSD-3-Clause */
/* Where blocks go, and what is cleaned: one stream for users, one for the cleaner, and the segment with the fewest valid blocks. */
#include "flash/ftl_private.h"

unsigned policy_put_stream(struct ftl *ftl, const struct ftl_put *put, uint64_t lba)
{
	(void)ftl, (void)put, (void)lba;
	return 0;
}

unsigned policy_move_stream(struct ftl *ftl, const struct segment *victim)
{
	(void)ftl, (void)victim;
	return 1;
}

struct segment *policy_victim(struct ftl *ftl)
{
	struct segments *segments = &ftl->segments;
	struct segment *best = NULL;

	for (uint32_t i = 0; i < segments->nr; i++) {
		struct segment *segment = &segments->at[i];

		if (segment->state != FTL_SEGMENT_FULL)
			continue;
		if (segment->is_worn)
			return segment;
		if (segment->valid < segments->data_blocks &&
		    (!best || segment->valid < best->valid))
			best = segment;
	}
	return best;
}
