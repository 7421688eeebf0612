/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zones: a server's buffers for bytes on their way, populated ahead. Each zone has buffers of one size, from 64 KiB to 2 MiB by
 * powers of two, and as many bytes as the others: so nothing is ever split or joined, and memory does not come apart (Wu,
 * Wyckoff, Panda, §5.2). Who wants a buffer gets one of the smallest that suffices; if there is none, a larger one; if there
 * is none of those, a smaller one, and then others.
 *
 * A holder may have as many bytes as are left for others: alone half of them, of two each a third. So who comes later need
 * not wait until others give something back. Who has none gets a buffer as long as there is one, of whatever size.
 *
 * Zones and their holders belong to one thread at a time.
 */
#ifndef MEMORY_ZONES_H
#define MEMORY_ZONES_H

#include <stddef.h>
#include <stdint.h>
#include <urcu/list.h>

#define ZONE_LEAST  ((size_t)64 << 10) /* size of a buffer */
#define ZONE_MOST   ((size_t)2 << 20)
#define NR_ZONES    6U
#define ZONES_BYTES (NR_ZONES * ZONE_MOST) /* the least of all zones together */

struct zones;

/* Whom a share is counted for. All 0: has nothing. */
struct zone_holder {
	uint64_t bytes; /* of the buffers that it has */
};

struct zone_buffer {
	struct cds_list_head node; /* of its zone's free ones */
	struct zone_holder *holder;
	char *addr;
	size_t length;
};

/* Since it was opened; `bytes` and what is free: now. */
struct zones_stat {
	uint64_t bytes, free_bytes;
	size_t nr_free[NR_ZONES]; /* buffers, the smallest first                    */
	uint64_t nr_taken;	  /* buffers                                        */
	uint64_t nr_larger;	  /* of those, larger than one that suffices        */
	uint64_t nr_smaller;	  /* of those, smaller than what was wanted          */
	uint64_t nr_refused;	  /* wishes for which there was nothing             */
};

/* Maps and populates `bytes`, rounded up to a multiple of ZONES_BYTES. Errors, with a sentence: -EINVAL (none), -ENOMEM. */
int zones_open(uint64_t bytes, struct zones **out);
/* All buffers are back. NULL is allowed. */
void zones_close(struct zones *zones);

/*
 * Takes a buffer for `length` bytes, or, if there is none that suffices, for as many of them as there is one for: the rest
 * wants another. NULL: nothing now, but when something is given back.
 */
struct zone_buffer *zones_take(struct zones *zones, struct zone_holder *holder, size_t length);
/* Nothing may be on its way to or from it any more. */
void zones_give(struct zones *zones, struct zone_buffer *buffer);

void zones_stat(const struct zones *zones, struct zones_stat *out);

#endif
