/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses the segment that the cleaner takes next. The index counts the valid blocks of every
 * segment in use, and keeps full segments by stream and by that count. The translation layer and
 * the simulator tell it of each block that is written and of each that becomes invalid. Pure: it
 * does no I/O and reads no clock. `struct victim_segment` is embedded in the owner's segment; the
 * index links it and never frees it.
 *
 * The policy takes the stream that is furthest over its share of the spare space, and in it the
 * segment with the fewest valid blocks. The best shares are proportional to √(update rate × valid
 * blocks) of each stream; the index measures both. A choice takes time proportional to the number
 * of streams.
 */
#ifndef FLASH_VICTIM_H
#define FLASH_VICTIM_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

struct victim_segment {
	/* While it is full: links segments of its stream with as many valid blocks. */
	struct cds_list_head node;
	/*
	 * Write clock: a sequential overwrite should have emptied it by then. 0: none is expected.
	 */
	uint64_t quiet_until;
	uint32_t written; /* blocks, since it was opened */
	uint32_t valid;	  /* of them */
	uint8_t stream;
	bool is_full; /* the cleaner may take it */
};

struct victims;

/* Makes an index for `nr_streams` streams, segments of `segment_blocks` blocks and a device of
 * `nr_blocks`. NULL: no memory. */
struct victims *victims_open(unsigned nr_streams, uint32_t segment_blocks, uint64_t nr_blocks);
/* Frees the index; NULL is none. */
void victims_close(struct victims *victims);

/*
 * Gives each stream its share of the spare space, instead of the measured one; NULL: measures
 * again. The caller keeps `shares` valid.
 */
void victims_set_shares(struct victims *victims, const double *shares);

/* Adds a free segment, which is opened for a stream. */
void victims_begin(struct victims *victims, struct victim_segment *segment, unsigned stream);
/*
 * Adds a segment that was in use before the start. `written` of its blocks were written, `valid` of
 * those are valid. The segment is then as after victims_begin(), victims_gain() and victims_lose();
 * call victims_fill() if it is full.
 */
void victims_load(struct victims *victims, struct victim_segment *segment, unsigned stream,
		  uint32_t written, uint32_t valid);
/* Notes that a block was written to the open segment, and is valid. */
void victims_gain(struct victims *victims, struct victim_segment *segment);
/* Notes that nothing more is written to the segment: the cleaner may take it. */
void victims_fill(struct victims *victims, struct victim_segment *segment);
/* Notes that a block of the segment is overwritten or trimmed at `now` (write clock). If `pace` is
 * not 0, it belongs to a sequential overwrite that takes so many ticks per block. */
void victims_lose(struct victims *victims, struct victim_segment *segment, uint64_t now,
		  uint64_t pace);
/* Notes that the cleaner moved a block out of the segment, which is taken. */
void victims_move(struct victims *victims, struct victim_segment *segment);
/* Removes the segment, which may still have valid blocks. */
void victims_end(struct victims *victims, struct victim_segment *segment);

/* Returns the segment to clean at `now` (write clock). It stays in the index until victims_take().
 * NULL: no full segment has an invalid block. */
struct victim_segment *victims_choose(const struct victims *victims, uint64_t now);
/* Notes that the cleaner begins with the segment: it is not chosen again. */
void victims_take(struct victims *victims, struct victim_segment *segment);

/* The index's measurements, for reports and tests. */
struct victims_stream {
	uint64_t blocks; /* written, in its segments */
	uint64_t valid;	 /* of them */
	double updates;	 /* blocks overwritten or trimmed; older ones count less */
};
void victims_stat(const struct victims *victims, unsigned stream, struct victims_stream *out);

#endif
