/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zones: a server's buffers for bytes in transit, populated in advance. Each zone has buffers of
 * one size, from 64 KiB to 2 MiB by powers of two, and each has the same number of bytes. Buffers
 * are never split or joined, so memory does not fragment (Wu, Wyckoff, Panda, §5.2). A taker gets a
 * buffer of the smallest size that suffices; if there is none, a larger one. If there is none of
 * those, it gets a smaller one, and then takes others for the rest.
 *
 * A holder may have as many bytes as are left for others: alone half of them, each of two a third.
 * So later holders need not wait until others give something back. A holder that has none gets a
 * buffer as long as there is one, of any size.
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
#define ZONES_BYTES (NR_ZONES * ZONE_MOST) /* the minimum of all zones together */

struct zones;

/* A share is counted for a holder. All 0: it has nothing. */
struct zone_holder {
	uint64_t bytes; /* of the buffers that it has */
};

struct zone_buffer {
	struct cds_list_head node; /* of its zone's free ones */
	struct zone_holder *holder;
	char *addr;
	size_t length;
};

/* Counted since it was opened, except `bytes` and what is free, which are as of now. */
struct zones_stat {
	uint64_t bytes, free_bytes;
	size_t nr_free[NR_ZONES]; /* buffers, the smallest first */
	uint64_t nr_taken;	  /* buffers */
	uint64_t nr_larger;	  /* of those, larger than one that suffices */
	uint64_t nr_smaller;	  /* of those, smaller than what was wanted */
	uint64_t nr_refused;	  /* requests for which there was nothing */
};

/* Maps and populates `bytes`, rounded up to a multiple of ZONES_BYTES. Errors, with a sentence:
 * -EINVAL (0, or too many), -ENOMEM. */
int zones_open(uint64_t bytes, struct zones **out);
/* All buffers must be back. NULL is allowed. */
void zones_close(struct zones *zones);

/* Returns the memory that all buffers are in. It stays until zones_close(). */
void *zones_memory(const struct zones *zones, size_t *length);

/*
 * Takes a buffer for `length` bytes. If none suffices, it takes a smaller one, and the rest needs
 * another. NULL: try again when a buffer was given back.
 */
struct zone_buffer *zones_take(struct zones *zones, struct zone_holder *holder, size_t length);
/* Gives a buffer back. Nothing may be on its way to or from it any more. */
void zones_give(struct zones *zones, struct zone_buffer *buffer);

void zones_stat(const struct zones *zones, struct zones_stat *out);

#endif
