/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The books of the pool of extents, shared by extent.c and scrubber.c, which do the work, and extent_book.c,
 * which keeps them: what states there are, which extents are in them, how many bytes that makes.
 */
#ifndef SERVER_EXTENT_BOOK_H
#define SERVER_EXTENT_BOOK_H

#include <pthread.h>
#include <stdbool.h>
#include <urcu/list.h>

#include "memory/segment.h"
#include "server/extent.h"

#define NR_SIZES (EXTENT_BYTES_MAX / SEGMENT_MIN) /* extents come in 1 to so many SEGMENT_MIN */

enum extent_state {
	EXTENT_CLEAN,	  /* zeroed, in the pool, nobody's: free                       */
	EXTENT_TAKEN,	  /* zeroed, a reservation in progress holds it                */
	EXTENT_GRANTED,	  /* a namespace has it, its keys work                         */
	EXTENT_DRAINING,  /* released: not found any more, keys and connections are ended */
	EXTENT_DIRTY,	  /* fenced: unreachable, with what the last holder left       */
	EXTENT_SCRUBBING, /* the scrubber zeroes it                                    */
	EXTENT_GONE,	  /* unmapped, or part of a neighbour: about to be freed       */
	NR_STATES,
};

/* An extent's keys, by whether they let write. */
#define NR_KEYS 2

struct extent {
	struct cds_list_head node;    /* in the list of its state, or of who works on it */
	struct cds_list_head drained; /* in its extent_drain, while DRAINING             */
	enum extent_state state;
	char *addr;
	size_t length;
	/* When somebody has it: */
	uint64_t number;
	uint64_t namespace;
	bool is_sealed;	  /* nobody writes it but seal.c                              */
	bool was_reached; /* somebody has got a key of it                             */
	bool was_lent;	  /* its memory itself; until it has other memory             */
	struct {
		struct domain *domain;			     /* NULL: it is not registered */
		struct fabric_memory on[DOMAIN_FABRICS_MAX]; /* by the fabric's number */
	} keys[NR_KEYS];
};

struct extent_pool {
	struct extent_pool_options options;
	pthread_t scrubber;

	pthread_mutex_t lock;
	pthread_cond_t supply; /* clean memory or room may have come, or stopping */
	pthread_cond_t work;   /* dirty memory has come, or closing               */
	bool is_stopping;
	bool is_closing;

	uint64_t bytes[NR_STATES]; /* in each state                                    */
	uint64_t populating;	   /* on its way, not in any state yet                 */
	uint64_t dropping;	   /* given back to the machine, but not yet gone     */
	uint64_t reserving;	   /* asked for by reservations in progress            */
	unsigned nr_waiting;	   /* of those, waiting for the scrubber               */
	size_t nr_granted;	   /* entries of `granted`                             */
	struct cds_list_head granted;
	struct cds_list_head draining;
	struct cds_list_head dirty; /* oldest first                                     */
	struct cds_list_head clean[NR_SIZES + 1]; /* by length / SEGMENT_MIN                */
	void *clean_by_start; /* trees over the clean ones, to find neighbours    */
	void *clean_by_end;
	void *granted_by_number;
	uint64_t next_number;

	_Atomic uint64_t nr_registrations; /* since the start                          */
	uint64_t scrubbed_bytes;	   /* since the start                                    */
	uint64_t recent_bytes; /* of those, lately…                                  */
	uint64_t recent_ns;    /* … and how long that took                           */
};

/* The pool's numbers have changed. Without the lock. */
static inline void extent_notify(const struct extent_pool *pool)
{
	if (pool->options.changed)
		pool->options.changed(pool->options.context);
}

/* scrubber.c: starts the thread, which ends when the pool is closing. -EAGAIN with a sentence. */
int scrubber_start(struct extent_pool *pool);

/* All of these want the pool's lock held. */

/* The only way to change an extent's state: books its bytes and its place. In TAKEN, SCRUBBING and GONE
 * it is on no list: the caller may put it on its own. */
void extent_move(struct extent_pool *pool, struct extent *extent, enum extent_state to);
/* One over memory that is in no extent yet, in TAKEN; NULL without memory for the books. */
struct extent *extent_new(struct extent_pool *pool, char *addr, size_t length);
/* Into the pool, together with the clean neighbours: else extents would get ever smaller. */
void extent_to_clean(struct extent_pool *pool, struct extent *extent);
/* Whether the pool may have so much more. */
bool extent_may_keep(const struct extent_pool *pool, size_t length);
/* Makes one in TAKEN findable by a fresh number, before it becomes GRANTED. False without memory. */
bool extent_enroll(struct extent_pool *pool, struct extent *extent);
/* Undoes that, for one that does not become GRANTED. */
void extent_withdraw(struct extent_pool *pool, struct extent *extent);
/* By number; NULL: nobody has it. */
struct extent *extent_find(struct extent_pool *pool, uint64_t number);

#endif
