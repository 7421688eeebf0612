/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The segments: the state of each, which of its blocks are valid, who shares them. Memory alone; the layer writes it to
 * checkpoints and reads it back. The same calls serve requests, the cleaner and recovery, so that what replay makes of the
 * journal is what was there.
 *
 * A block is valid as long as an entry of the map refers to it; each change of an entry is told here by segments_ref() and
 * segments_unref(). A block to which several refer has all of them listed (its shares): that is how the cleaner finds them,
 * since the segment's summary knows only whom a block was written for.
 *
 * Invariants:
 *  - valid == number of bits set; nothing in a FREE, PENDING or DISCARD segment is valid.
 *  - A segment goes from PENDING to be written again only when the records by which its last blocks became invalid, or moved
 *    away, survive the loss of power (`tag`), and no read or write of it is in flight (`pins`). Else replay could need what
 *    was overwritten.
 *  - A segment is FULL only when its summary's write has ended, which comes after the end of all writes of its data.
 */
#ifndef FLASH_SEGMENTS_H
#define FLASH_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "flash/format.h"
#include "flash/ftl.h"
#include "flash/victim.h"

#define SEGMENT_NONE UINT32_MAX

struct share {
	uint64_t lba;
	uint32_t index; /* of the block in the segment; the array is sorted by it */
};

struct segment {
	struct cds_list_head node; /* of the list of its state, FREE and PENDING            */
	uint64_t opened;	   /* which opening it was, of all                          */
	uint64_t began;		   /* the clock when that was                               */
	uint64_t tag;		   /* PENDING: free when the journal has flushed up to here */
	uint64_t *lbas;		   /* for whom each block was written, until a summary says */
	struct share *shares;
	uint32_t nr_shares;
	uint32_t room_shares;
	uint32_t valid;
	uint32_t next;	  /* OPEN: the block to be written next    */
	uint32_t pins;	  /* reads and writes of it in flight      */
	uint32_t writing; /* writes of its data in flight          */
	uint8_t state;	  /* enum ftl_segment_state                */
	uint8_t stream;
	bool is_worn;	  /* a write of it failed                  */
	uint8_t attempts; /* at its summary, that failed for no reason of the medium's */
	struct victim_segment victim; /* in the index from OPEN on until it is PENDING */
};

struct segments {
	struct segment *at;
	uint64_t *valid_bits; /* nr_words of each segment            */
	uint32_t nr;
	uint32_t nr_words;
	uint32_t first; /* block of the device                 */
	uint32_t segment_blocks;
	uint32_t data_blocks; /* of each segment                     */
	uint32_t seed;	      /* of summaries' sums                  */
	struct cds_list_head free;
	struct cds_list_head pending;
	struct victims *victims; /* NULL: not yet, while the journal is replayed */
	uint32_t nr_by_state[FTL_NR_SEGMENT_STATES];
	uint32_t nr_worn;      /* not BAD yet                         */
	uint32_t nr_lists;     /* segments that have lbas             */
	uint64_t *spare_lists; /* chained by their first word         */
	uint64_t used;	       /* valid blocks                        */
	uint32_t nr_leaked;    /* of them, those that nobody may refer to any more: at most */
	uint64_t nr_let_go; /* how often, since it was opened, it was not known what was let go */
	uint64_t nr_shares;
	uint64_t nr_opened;
	uint64_t clock; /* blocks put ever                     */
	bool is_damaged; /* what the device said contradicts itself: nothing can be changed any more */
};

int segments_open(struct segments *segments, const struct format_superblock *layout);
void segments_close(struct segments *segments);

/* Makes the index of victims of what is there, and keeps it from now on. -ENOMEM. */
int segments_index(struct segments *segments, unsigned nr_streams);

static inline uint32_t segment_number(const struct segments *segments,
				      const struct segment *segment)
{
	return (uint32_t)(segment - segments->at);
}

/* Whether `place` is a data block's. */
bool segments_is_place(const struct segments *segments, uint32_t place);

/* Whether somebody refers to that data block. */
bool segments_is_valid(const struct segments *segments, uint32_t place);

static inline struct segment *segment_of(struct segments *segments, uint32_t place)
{
	return &segments->at[(place - segments->first) / segments->segment_blocks];
}

static inline uint32_t segment_index(const struct segments *segments, uint32_t place)
{
	return (place - segments->first) % segments->segment_blocks;
}

static inline uint32_t segment_place(const struct segments *segments, const struct segment *segment,
				     uint32_t index)
{
	return segments->first + segment_number(segments, segment) * segments->segment_blocks +
	       index;
}

static inline uint64_t *segment_bits(const struct segments *segments, const struct segment *segment)
{
	return &segments->valid_bits[(uint64_t)segment_number(segments, segment) *
				     segments->nr_words];
}

static inline bool segment_is_valid(const struct segments *segments, const struct segment *segment,
				    uint32_t index)
{
	return segment_bits(segments, segment)[index / 64] >> index % 64 & 1;
}

/* The only way from state to state; which are allowed is in segments.c. */
void segment_set_state(struct segments *segments, struct segment *segment,
		       enum ftl_segment_state state);

/* FREE becomes OPEN, with memory for its lbas. -ENOMEM. */
int segment_begin(struct segments *segments, struct segment *segment, unsigned stream);
/* A list of lbas for it. -ENOMEM. */
int segment_give_list(struct segments *segments, struct segment *segment);
void segment_drop_list(struct segments *segments, struct segment *segment);

/*
 * An entry of `lba` refers to `place` from now on; `first` is who does already when the block is valid (whoever it is if all
 * who do are listed). -ENOMEM: not enough memory to list them; nothing has changed.
 */
int segments_ref(struct segments *segments, uint32_t place, uint64_t lba, uint64_t first);
/* Why an entry refers to a place no longer. */
struct loss {
	uint64_t tag;  /* of a segment that nothing is valid in any more             */
	uint64_t pace; /* of the sequence that overwrites it, as victim.h says; or 0 */
	bool is_move;  /* by the cleaner                                             */
};

/* No longer. If that was the last valid block of a FULL segment it becomes PENDING with the loss's tag. */
void segments_unref(struct segments *segments, uint32_t place, uint64_t lba,
		    const struct loss *loss);

/* For replay, after damage of the map: nothing in the segment is valid, since it was opened anew. */
void segment_forget(struct segments *segments, struct segment *segment);

/* Whether the block at `place` is valid, and may be that of `lba`: it is listed if those who share it are. */
bool segments_may_have(const struct segments *segments, uint32_t place, uint64_t lba);

/* More than one entry refers to it, or did. */
bool segments_is_shared(const struct segments *segments, uint32_t place);

/* The shares of block `index`: how many, and the first. */
uint32_t segment_shares(const struct segment *segment, uint32_t index, const struct share **first);

/* Who may refer to it: its shares, or if there are none `lba`, for whom it was written, which is put to `alone`. */
uint32_t segment_candidates(const struct segment *segment, uint32_t index, uint64_t lba,
			    struct share *alone, const struct share **first);

/* For recovery: adds a share, in any order. -ENOMEM. */
int segment_add_share(struct segments *segments, struct segment *segment, uint32_t index,
		      uint64_t lba);

/* FULL without valid blocks, or cleaned out: waits until the journal is flushed up to `tag`. */
void segment_retire(struct segments *segments, struct segment *segment, uint64_t tag);

/* Blocks that can be in use: of segments that are not bad, less the reserve. */
uint64_t segments_capacity(const struct segments *segments);

#endif
