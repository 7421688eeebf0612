/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The books of the pool of extents: which states there are, which extents are in them, and how many
 * bytes that makes. They are kept by extent_book.c; extent.c, extent_reserve.c, extent_keys.c and
 * scrubber.c do the work.
 */
#ifndef SERVER_EXTENT_BOOK_H
#define SERVER_EXTENT_BOOK_H

#include <pthread.h>
#include <stdbool.h>
#include <urcu/list.h>

#include "memory/segment.h"
#include "server/memory/extent.h"

#define NR_SIZES (EXTENT_BYTES_MAX / SEGMENT_MIN) /* an extent is 1 to this many SEGMENT_MIN long */

enum extent_state {
	EXTENT_CLEAN,	  /* zeroed, in the pool, free */
	EXTENT_TAKEN,	  /* zeroed; a reservation in progress holds it */
	EXTENT_GRANTED,	  /* a namespace has it, and its keys work */
	EXTENT_DRAINING,  /* released: nobody finds it; its keys and connections are ending */
	EXTENT_DIRTY,	  /* fenced: unreachable; it has the last holder's bytes */
	EXTENT_SCRUBBING, /* the scrubber is zeroing it */
	EXTENT_GONE,	  /* unmapped, or part of a neighbour; about to be freed */
	NR_STATES,
};

/* An extent has keys of two kinds: one lets read, the other read and write. */
#define NR_KEYS 2

struct extent {
	struct cds_list_head node; /* in the list of its state, or of the code that works on it */
	struct cds_list_head drained; /* in its extent_drain, while DRAINING             */
	enum extent_state state;
	char *addr;
	size_t length;
	/* While a namespace or a reservation has it: */
	uint64_t number;
	uint64_t namespace;
	enum extent_class class; /* only seal.c writes those for sealed regions */
	bool was_reached;	 /* some session has got a key of it */
	bool was_lent;		 /* a peer has got its memory itself; until it gets other memory */
	struct {
		struct domain *domain;			     /* NULL: it is not registered */
		struct fabric_memory on[DOMAIN_FABRICS_MAX]; /* by the fabric's number */
	} keys[NR_KEYS];
};

struct extent_pool {
	struct extent_pool_options options;
	pthread_t scrubber;

	pthread_mutex_t lock;
	pthread_cond_t supply; /* clean memory or room may have come, or the pool is stopping */
	pthread_cond_t work;   /* dirty memory has come, or the pool is closing */
	bool is_stopping;
	bool is_closing;

	uint64_t bytes[NR_STATES]; /* in extents of each state */
	uint64_t populating;	   /* being populated, and in no state yet */
	uint64_t dropping;	   /* being given back to the machine, and not gone yet */
	uint64_t reserving;	   /* bytes that reservations in progress ask for */
	unsigned nr_waiting;	   /* reservations that wait for the scrubber */
	size_t nr_granted;	   /* entries of `granted`                             */
	struct cds_list_head granted;
	struct cds_list_head draining;
	struct cds_list_head dirty; /* oldest first                                     */
	struct cds_list_head clean[NR_SIZES + 1]; /* by length / SEGMENT_MIN                */
	void *clean_by_start; /* trees over the clean extents, to find neighbours */
	void *clean_by_end;
	void *granted_by_number;
	uint64_t next_number;

	_Atomic uint64_t nr_registrations; /* since the start                          */
	uint64_t scrubbed_bytes;	   /* since the start                                    */
	uint64_t recent_bytes;		   /* bytes scrubbed lately … */
	uint64_t recent_ns;		   /* … and how long that took, in ns */
};

/* Call it without the lock when the pool's numbers have changed. */
static inline void extent_notify(const struct extent_pool *pool)
{
	if (pool->options.changed)
		pool->options.changed(pool->options.context);
}

/* scrubber.c: starts the thread, which ends when the pool is closing. -EAGAIN, with a sentence. */
int scrubber_start(struct extent_pool *pool);

/* extent_keys.c: while nobody else looks at the extent's keys, or with the pool's lock. */

/* Makes the key for this reach, if there is none. */
int extent_key_register(struct extent_pool *pool, struct extent *extent, struct reach reach);
/* Ends the extent's keys. Afterwards no transfer can begin on it, unless its memory was lent: peers
 * that have the memory itself can still access it. */
void extent_keys_end(struct extent_pool *pool, struct extent *extent);

static inline struct extent_info extent_describe(const struct extent *extent)
{
	return (struct extent_info){
		.extent = extent->number,
		.namespace = extent->namespace,
		.length = extent->length,
		.class = extent->class,
	};
}

static inline size_t extent_list_length(const struct cds_list_head *list)
{
	const struct cds_list_head *node;
	size_t length = 0;

	for (node = list->next; node != list; node = node->next)
		length++;
	return length;
}

/* Hold the pool's lock when you call these. */

/* Changes an extent's state, and books its bytes and its place. Nothing else changes states. In
 * TAKEN, SCRUBBING and GONE an extent is on no list, and the caller may put it on its own. */
void extent_move(struct extent_pool *pool, struct extent *extent, enum extent_state to);
/* Makes an extent, in TAKEN, over memory that is in no extent yet. NULL: there is no memory for the
 * books. */
struct extent *extent_new(struct extent_pool *pool, char *addr, size_t length);
/* Puts the extent into the pool, and joins it with clean neighbours; otherwise extents would get
 * ever smaller. */
void extent_to_clean(struct extent_pool *pool, struct extent *extent);
/* True if the pool may keep this much more. */
bool extent_may_keep(const struct extent_pool *pool, size_t length);
/* Makes an extent in TAKEN findable by a fresh number, before it becomes GRANTED. False: there is
 * no memory. */
bool extent_enroll(struct extent_pool *pool, struct extent *extent);
/* Undoes extent_enroll(), for an extent that does not become GRANTED. */
void extent_withdraw(struct extent_pool *pool, struct extent *extent);
/* Finds an extent by its number. NULL: nobody has it. */
struct extent *extent_find(struct extent_pool *pool, uint64_t number);

#endif
