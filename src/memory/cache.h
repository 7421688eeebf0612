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
 * Which frame goes is told by Multi-Queue (Zhou, Philbin, Li: USENIX 2001). A frame is in the queue
 * of the logarithm of its uses, and sinks when it was not used for long. The uses of blocks that
 * went are remembered for a while (cache_history.h).
 */
#ifndef MEMORY_CACHE_H
#define MEMORY_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

#define CACHE_BLOCK  4096U
#define CACHE_QUEUES 8U

enum cache_state { CACHE_EMPTY, CACHE_FILLING, CACHE_VALID, CACHE_RETIRED };

/* The table's. Others read `bytes` and `sum`, while they may. */
struct cache_frame {
	struct cds_list_head
		node; /* among the empty ones, or in its queue; FILLING or pinned: in no list */
	struct cds_list_head waits; /* struct cache_wait; FILLING */
	struct cache_frame *next;   /* of its bucket */
	char *bytes;		    /* CACHE_BLOCK */
	uint64_t range;
	uint64_t sinks_at; /* on the table's count of uses */
	uint32_t block;
	uint32_t sum; /* CRC32C of the block, as the layer keeps it */
	uint32_t nr_uses;
	uint32_t nr_pins;
	enum cache_state state;
	bool is_doomed;
};

/* Somebody who waits for a frame that is FILLING. */
struct cache_wait {
	struct cds_list_head node;
};

struct cache_stat {
	uint64_t nr_hits;
	uint64_t nr_misses; /* became a read of the layer that fills a frame */
	uint64_t nr_shared; /* waited for such a read of another's */
	uint64_t nr_past; /* were read past the table: a change stood, or no frame was to be had */
	uint32_t nr_frames; /* up to the limit */
	uint32_t nr_used;   /* frames that hold a block, or will */
};

struct cache;

/* `memory` has CACHE_BLOCK bytes for each frame, and stays the caller's. -ENOMEM. */
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

/*
 * Uses the first `nr` frames alone from now on; at least 1. The others lose their blocks. Those who
 * wait for these are answered, and replies that are sent from them end. Once cache_nr_beyond() is 0
 * nobody uses the memory of the others.
 */
void cache_limit(struct cache *cache, uint32_t nr);
uint32_t cache_nr_beyond(const struct cache *cache);

enum cache_answer {
	CACHE_HIT,  /* the frame has the block, until the table is called again */
	CACHE_WAIT, /* the frame is being filled: cache_await() */
	CACHE_MISS, /* fill the frame, and call cache_filled(): it is FILLING now */
	CACHE_PAST, /* there is no frame: read the layer, and keep nothing */
};
enum cache_answer cache_ask(struct cache *cache, uint64_t range, uint32_t block,
			    struct cache_frame **out);
/* Adds a waiter to a frame that is FILLING. The one that fills it may wait, too. */
void cache_await(struct cache_frame *frame, struct cache_wait *wait);
/* Takes a waiter away; NULL: there is none left. */
struct cache_wait *cache_next_wait(struct cache_frame *frame);
/* The read has ended, with 0 or an error, which is not kept; call it when nobody waits any more. */
void cache_filled(struct cache *cache, struct cache_frame *frame, int result, uint32_t sum);

/* Finds a block that is to be sent from its frame. NULL, and nothing is counted: it is not there, or
 * too many have pins. */
struct cache_frame *cache_pin(struct cache *cache, uint64_t range, uint32_t block);
void cache_unpin(struct cache *cache, struct cache_frame *frame);

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
