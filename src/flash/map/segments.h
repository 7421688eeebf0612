/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps the segments in memory: the state of each, which of its blocks are valid, and which lbas
 * share a block. The layer writes this to checkpoints and reads it back. Requests, the cleaner and
 * recovery make the same calls, so replaying the journal gives the same tables.
 *
 * A block is valid as long as an entry of the map refers to it. Each change of an entry is told
 * here by segments_ref() and segments_unref(). If several entries refer to a block, all of them are
 * listed (its shares). The cleaner finds them there, because the segment's summary has only the lba
 * that the block was written for.
 *
 * Invariants:
 *  - `valid` is the number of bits set. FREE, PENDING and DISCARD segments have no valid block.
 *  - A PENDING segment is written again only after two conditions hold. The records that made its
 *    last blocks invalid, or moved them, survive the loss of power (`tag`). No read or write of it
 *    is in flight (`pins`). Otherwise replay could need a block that was overwritten.
 *  - A segment becomes FULL only after all writes of its data, and then that of its summary, have
 *    ended. If the summary was not written, its lbas stay in memory and in checkpoints.
 *
 * Threads: the layer's. No function here blocks.
 */
#ifndef FLASH_SEGMENTS_H
#define FLASH_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "flash/format.h"
#include "flash/ftl.h"
#include "flash/map/victim.h"

#define SEGMENT_NONE UINT32_MAX

struct share {
	uint64_t lba;
	uint32_t index; /* of the block in the segment; the array is sorted by it */
};

struct segment {
	struct cds_list_head node; /* in the list of its state: FREE, PENDING */
	uint64_t opened;	   /* number of its last opening, among those of all segments */
	uint64_t began;		   /* the clock at that opening */
	uint64_t tag;		   /* PENDING: free when the journal has flushed up to here */
	uint64_t *lbas;		   /* that its blocks were written for; NULL: see its summary */
	struct share *shares;
	uint32_t nr_shares;
	uint32_t room_shares;
	uint32_t valid;
	uint32_t next;	  /* OPEN: the block to be written next */
	uint32_t pins;	  /* reads and writes of it in flight */
	uint32_t writing; /* writes of its data in flight */
	uint8_t state;	  /* enum ftl_segment_state */
	uint8_t stream;
	bool is_worn;	  /* a write to it failed */
	uint8_t attempts; /* writes of its summary that failed, though not by the medium's fault */
	struct victim_segment victim; /* in the index from OPEN until PENDING */
};

struct segments {
	struct segment *at;
	uint64_t *valid_bits; /* nr_words of each segment */
	uint32_t nr;
	uint32_t nr_words;
	uint32_t first;		 /* block of the device */
	uint32_t segment_blocks; /* including the summary */
	uint32_t data_blocks;	 /* of each segment */
	uint32_t seed;		 /* of the summaries' checksums */
	struct cds_list_head free;
	struct cds_list_head pending;
	struct victims *victims; /* NULL while the journal is replayed */
	uint32_t nr_by_state[FTL_NR_SEGMENT_STATES];
	uint32_t nr_worn;      /* worn segments that are not BAD yet */
	uint32_t nr_lists;     /* segments that have `lbas` */
	uint64_t *spare_lists; /* chained by their first word */
	uint64_t used;	       /* valid blocks */
	uint32_t nr_leaked;    /* upper bound of valid blocks to which no entry refers */
	/* How often, since the layer was opened, an entry of unknown place was changed. Each leaves
	 * behind at most one such block. */
	uint64_t nr_let_go;
	uint64_t nr_shares;
	uint64_t nr_opened;
	uint64_t clock;	 /* blocks put, ever */
	bool is_damaged; /* the tables contradict each other: nothing can be changed any more */
};

/* Makes the tables, with all segments FREE. Returns 0, or -ENOMEM. */
int segments_open(struct segments *segments, const struct format_superblock *layout);
/* Frees the tables. */
void segments_close(struct segments *segments);

/* Makes the index of victims from the tables; it is kept up to date from now on. Returns 0, or
 * -ENOMEM. */
int segments_index(struct segments *segments, unsigned nr_streams);

static inline uint32_t segment_number(const struct segments *segments,
				      const struct segment *segment)
{
	return (uint32_t)(segment - segments->at);
}

/* Returns whether `place`, a block of the device, is a data block of a segment. */
bool segments_is_place(const struct segments *segments, uint32_t place);

/* Returns whether the data block at `place` is valid. */
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

/* Changes the state of a segment; nothing else does. segments.c lists the allowed transitions. */
void segment_set_state(struct segments *segments, struct segment *segment,
		       enum ftl_segment_state state);

/* Opens a FREE segment for the stream, with memory for its lbas. Returns 0, or -ENOMEM. */
int segment_begin(struct segments *segments, struct segment *segment, unsigned stream);
/* Gives the segment memory for its lbas, if it has none. Returns 0, or -ENOMEM. */
int segment_give_list(struct segments *segments, struct segment *segment);
/* Takes that memory away, if it has any. */
void segment_drop_list(struct segments *segments, struct segment *segment);

/*
 * Notes that the entry of `lba` refers to `place` from now on. If the block is valid already and
 * has no shares, `first` is the lba that refers to it. Returns 0; -ENOMEM: there is no memory for a
 * share, and nothing has changed.
 */
int segments_ref(struct segments *segments, uint32_t place, uint64_t lba, uint64_t first);
/* Why an entry stops to refer to a place. */
struct loss {
	uint64_t tag;  /* for segment_retire(), if no block of the segment is valid any more */
	uint64_t pace; /* of the sequential overwrite, see victims_lose(); or 0 */
	bool is_move;  /* the cleaner moved the block */
};

/* Notes that the entry of `lba` refers to `place` no longer. A FULL or BAD segment whose last valid
 * block it was is retired. */
void segments_unref(struct segments *segments, uint32_t place, uint64_t lba,
		    const struct loss *loss);

/*
 * Makes all blocks of the segment invalid, for replay after damage of the map: the journal says
 * that the segment was opened again.
 */
void segment_forget(struct segments *segments, struct segment *segment);

/*
 * Returns whether the block at `place` is valid and may be that of `lba`: it has no shares, or
 * `lba` is among them.
 */
bool segments_may_have(const struct segments *segments, uint32_t place, uint64_t lba);

/* Returns whether more than one entry refers to the block at `place`. */
bool segments_is_shared(const struct segments *segments, uint32_t place);

/* Finds the shares of block `index`: `*first` is the first of them, valid until the next change.
 * Returns how many there are. */
uint32_t segment_shares(const struct segment *segment, uint32_t index, const struct share **first);

/*
 * Finds the lbas that may refer to block `index`: its shares; or, if it has none, `lba`, for which
 * it was written. `alone` has room for that one. Returns how many there are, from `*first` on.
 */
uint32_t segment_candidates(const struct segment *segment, uint32_t index, uint64_t lba,
			    struct share *alone, const struct share **first);

/* Adds a share of block `index`; recovery does so in any order. Returns 0, or -ENOMEM. */
int segment_add_share(struct segments *segments, struct segment *segment, uint32_t index,
		      uint64_t lba);

/* Makes a segment PENDING that has no valid block. It can be written again once the journal has
 * flushed up to `tag`. */
void segment_retire(struct segments *segments, struct segment *segment, uint64_t tag);
/* Lets a segment that has no valid block be written again although a write to it failed. From BAD it becomes PENDING. */
void segment_forgive(struct segments *segments, struct segment *segment);
/* Likewise all that are BAD and have no valid block. Returns how many there were. */
uint32_t segments_forgive(struct segments *segments);

/*
 * Returns how many blocks can be in use: those of segments that are neither bad nor worn, without
 * the reserve.
 */
uint64_t segments_capacity(const struct segments *segments);

#endif
