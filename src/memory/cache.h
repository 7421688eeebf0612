/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages that are kept in memory, of a store or by a program: a table of frames, each with a block of 4 KiB. It says
 * who has to read a block, and who waits for it. It does no I/O, and knows no layer. A store's pager asks
 * it for reads (pager_cached.c), and so does client/cache. It has no lock.
 *
 *	EMPTY -> FILLING -> VALID -> RETIRED -> EMPTY
 *
 * FILLING: one read of the layer is under way. Others that ask for the block meanwhile wait for that.
 * VALID:   what the layer would return now. It may have pins: replies that are sent from the frame.
 * RETIRED: nobody finds it any more, and its last pins are waited for.
 *
 * A change stands around each request that changes a block, from before it is given to the layer until
 * that has ended it. When it begins, a VALID frame is RETIRED, and a FILLING one is doomed: it
 * answers those who had asked before, and is not kept. While it stands, the block is read past the
 * table. Frames are never ahead of the layer.
 *
 * A frame whose reader keeps nothing goes before all others, unless somebody uses it first. A frame may be filled ahead, before
 * anybody asks for its block. Its first reader finds it as if it had been filled for him.
 *
 * Which frame goes is told by Multi-Queue (Zhou, Philbin, Li: USENIX 2001). A frame is in the queue
 * of the logarithm of its uses, and sinks when it was not used for long. The uses of blocks that
 * went are remembered for a while (cache_history.h).
 *
 * The memory of frames comes in slabs, of the same number of frames each. A slab is lent to a share, and its
 * frames hold blocks of that share alone. So they may have guards (base/page_guard.h), by which others read them
 * in place. A guard shows its page while the frame is VALID.
 */
#ifndef MEMORY_CACHE_H
#define MEMORY_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#include "base/page_guard.h"

#define CACHE_BLOCK  4096U
#define CACHE_QUEUES 8U

enum cache_state { CACHE_EMPTY, CACHE_FILLING, CACHE_VALID, CACHE_RETIRED };

/* The table's. Others read `bytes`, `sum`, `guard` and `generation`, while they may. */
struct cache_frame {
	struct cds_list_head
		node; /* among the empty ones, or in its queue; FILLING or pinned: in no list */
	struct cds_list_head waits; /* struct cache_wait; FILLING */
	struct cache_frame *next;   /* of its bucket */
	char *bytes;		    /* CACHE_BLOCK */
	struct page_guard *guard;   /* NULL: nobody else reads it */
	uint64_t generation;	    /* of VALID */
	uint64_t range;
	uint64_t sinks_at; /* on the table's count of uses */
	uint32_t block;
	uint32_t sum; /* CRC32C of the block, as the layer keeps it */
	uint32_t nr_uses;
	uint32_t nr_pins;
	enum cache_state state;
	bool is_doomed;
	bool is_handed_over; /* it goes first */
	bool is_ahead;	     /* nobody has asked for its block yet */
};

/* Somebody who waits for a frame that is FILLING. */
struct cache_wait {
	struct cds_list_head node;
};

struct cache_stat {
	uint64_t nr_hits;
	uint64_t nr_misses; /* became a read of the layer that fills a frame */
	uint64_t nr_shared; /* waited for such a read of another's */
	/* Were read past the table: a change stood, no frame was to be had, or the reader keeps nothing. */
	uint64_t nr_past;
	uint64_t nr_ahead;  /* reads of the layer that fill a frame ahead; none of the others */
	uint32_t nr_frames; /* of slabs that are lent */
	uint32_t nr_used;   /* frames that hold a block, or will */
};

struct cache;
struct cache_share;

/* Has room for so many slabs, and no memory yet. -ENOMEM. */
int cache_open_slabs(uint32_t nr_slabs, uint32_t slab_frames, struct cache **out);
/* Opens a table of one slab and one share. `memory` has CACHE_BLOCK bytes for each frame, and stays the caller's. -ENOMEM. */
int cache_open(void *memory, uint32_t nr_frames, struct cache **out);
/* NULL is allowed. Fills that are under way are forgotten. */
void cache_close(struct cache *cache);
void cache_stat(const struct cache *cache, struct cache_stat *out);

/*
 * Names a range of the layer's address space. Its number is used again when the range has gone, so
 * `life` must be another then.
 */
static inline uint64_t cache_range(uint32_t number, uint64_t life)
{
	return life << 24 | number;
}

/* ---- Shares, and the memory that is lent to them */

/* NULL: there is no memory. */
struct cache_share *cache_share_open(void);
/* No slab is lent to it any more. */
void cache_share_close(struct cache_share *share);
/* True: a block more of the share finds room only if another goes. */
bool cache_share_is_full(struct cache_share *share);
/* Returns how often its blocks were asked for, and how many slabs it has. */
uint64_t cache_share_uses(const struct cache_share *share);
uint32_t cache_share_slabs(const struct cache_share *share);

/* Lends a slab that is nobody's. The memory stays the caller's, and so do the guards, one for each frame; NULL: it has none. */
void cache_lend(struct cache *cache, uint32_t slab, struct cache_share *share, char *memory,
		struct page_guard *guards);
/* Takes it back. Its frames lose their blocks; those who wait for these are answered, and replies that are sent
 * from them end. When it has ended, nobody uses the memory. */
void cache_recall(struct cache *cache, uint32_t slab);
bool cache_is_recalled(const struct cache *cache, uint32_t slab);
/* Moves its blocks to other memory, with new generations, if no frame has pins or is FILLING. */
bool cache_may_move(const struct cache *cache, uint32_t slab);
void cache_move(struct cache *cache, uint32_t slab, char *memory, struct page_guard *guards);
/* How many of its frames hold a block, or will. */
uint32_t cache_slab_used(const struct cache *cache, uint32_t slab);
/* The share of a slab. NULL: it is nobody's, or is being taken back. */
struct cache_share *cache_slab_share(const struct cache *cache, uint32_t slab);
/* The place of a frame among all of the table's. */
uint32_t cache_place(const struct cache *cache, const struct cache_frame *frame);

/* ---- Blocks */

enum cache_answer {
	CACHE_HIT,  /* the frame has the block, until the table is called again */
	CACHE_WAIT, /* the frame is being filled: cache_await() */
	CACHE_MISS, /* fill the frame, and call cache_filled(): it is FILLING now */
	CACHE_PAST, /* there is no frame: read the layer, and keep nothing */
};
/* For a share, or for the only one. NULL: a block that is not there is not kept. */
enum cache_answer cache_ask_for(struct cache *cache, struct cache_share *share, uint64_t range,
				uint32_t block, struct cache_frame **out);
enum cache_answer cache_ask(struct cache *cache, uint64_t range, uint32_t block,
			    struct cache_frame **out);
/* True: nobody has asked yet for the block of a frame, and it is FILLING now, as after CACHE_MISS. False: it is there,
 * a change stands, or too many of the share's frames are ahead. */
bool cache_fetch(struct cache *cache, struct cache_share *share, uint64_t range, uint32_t block,
		 struct cache_frame **out);
/* A reader has been given the block of a VALID frame, and will not ask for it again. The frame goes first, unless others have used it since
 * it was filled. */
void cache_hand_over(struct cache *cache, struct cache_frame *frame);
/* Adds a waiter to a frame that is FILLING. The one that fills it may wait, too. */
void cache_await(struct cache_frame *frame, struct cache_wait *wait);
/* Takes a waiter away; NULL: there is none left. */
struct cache_wait *cache_next_wait(struct cache_frame *frame);
/* The read has ended, with 0 or an error, which is not kept; call it when nobody waits any more. */
void cache_filled(struct cache *cache, struct cache_frame *frame, int result, uint32_t sum);

/* Returns whether a frame has the block, or is being filled with it. */
bool cache_has(const struct cache *cache, uint64_t range, uint32_t block);
/* Finds a block that is to be sent from its frame. NULL, and nothing is counted: it is not there, or
 * too many have pins. */
struct cache_frame *cache_pin(struct cache *cache, uint64_t range, uint32_t block);
void cache_unpin(struct cache *cache, struct cache_frame *frame);
/* Somebody has read the frame at a place without asking, when its generation had these lower bits. False:
 * it has another now. */
bool cache_note_use(struct cache *cache, uint32_t place, uint32_t generation);

/* A change of blocks. The table's until it has ended. */
struct cache_change {
	struct cds_list_head node; /* of the long ones */
	uint64_t range;
	uint64_t block, count;
};
/* Both do nothing if there is no cache (NULL). */
void cache_change_begin(struct cache *cache, struct cache_change *change, uint64_t range,
			uint64_t block, uint64_t count);
void cache_change_end(struct cache *cache, struct cache_change *change);

#endif
