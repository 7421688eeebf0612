/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which segment the cleaner takes next. It knows of every segment in use how many of its blocks are valid, and keeps those
 * that are full by stream and that number. Pure: no I/O, no clock; the translation layer and the simulator tell it of each block
 * that comes and goes. `struct victim_segment` is embedded in the owner's segment, which the index links and never frees.
 *
 * Taken is the segment with the fewest valid blocks of the stream that is furthest over its share of the spare space. The best
 * shares are as √(update rate × valid blocks) of each stream, both measured here. A choice costs a look at each stream.
 */
#ifndef FLASH_VICTIM_H
#define FLASH_VICTIM_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

struct victim_segment {
	struct cds_list_head
		node;	      /* while it is full: others of its stream with as many valid blocks */
	uint64_t quiet_until; /* write clock: will have been overwritten by then; 0: who knows    */
	uint32_t written;     /* blocks, since it was opened                                      */
	uint32_t valid;	      /* of them                                                          */
	uint8_t stream;
	bool is_full; /* the cleaner may take it */
};

struct victims;

/*
 * For `nr_streams` streams, segments of `segment_blocks` blocks, and a device of `nr_blocks`. NULL: no memory.
 */
struct victims *victims_open(unsigned nr_streams, uint32_t segment_blocks, uint64_t nr_blocks);
void victims_close(struct victims *victims);

/* From now on the streams' shares of the spare are as `shares`, which the caller keeps; NULL: by what is measured. */
void victims_set_shares(struct victims *victims, const double *shares);

/* A segment, free until now, is opened for a stream. */
void victims_begin(struct victims *victims, struct victim_segment *segment, unsigned stream);
/*
 * A segment that was in use before the start: of its blocks `written` were written, `valid` are valid. It is as after
 * victims_begin(), victims_gain() and victims_lose(); victims_fill() follows if it is full.
 */
void victims_load(struct victims *victims, struct victim_segment *segment, unsigned stream,
		  uint32_t written, uint32_t valid);
/* A valid block was written to the open segment. */
void victims_gain(struct victims *victims, struct victim_segment *segment);
/* Nothing more is written to it: the cleaner may take it. */
void victims_fill(struct victims *victims, struct victim_segment *segment);
/*
 * A block of it is overwritten or trimmed at `now`, if `pace` is not 0 in a sequence that takes so many ticks for a block.
 */
void victims_lose(struct victims *victims, struct victim_segment *segment, uint64_t now,
		  uint64_t pace);
/* The cleaner moved a block out of the segment. */
void victims_move(struct victims *victims, struct victim_segment *segment);
/* The segment is not in use any more, whatever is valid there. */
void victims_end(struct victims *victims, struct victim_segment *segment);

/*
 * The segment to clean at `now`, or NULL: none has anything to give. It stays in the index until victims_take().
 */
struct victim_segment *victims_choose(const struct victims *victims, uint64_t now);
/* The cleaner begins with it: it is not chosen any more. */
void victims_take(struct victims *victims, struct victim_segment *segment);

/* For reports and tests. */
struct victims_stream {
	uint64_t blocks; /* places in its segments that were written     */
	uint64_t valid;	 /* of them                                      */
	double updates;	 /* blocks overwritten or trimmed, older fading  */
};
void victims_stat(const struct victims *victims, unsigned stream, struct victims_stream *out);

#endif
