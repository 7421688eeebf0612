/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of requests: walking through iovecs, and buffers for what is not aligned or whole. A
 * cursor is an iovec's index and an offset in it.
 */
#ifndef FLASH_MEMORY_H
#define FLASH_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <urcu/list.h>

/* ---- what callers gave ---- */

/* Moves the cursor on by `bytes`, which are there. */
void memory_skip(const struct iovec *iov, unsigned *index, size_t *offset, size_t bytes);
/* These copy between the caller's memory from the cursor on and ours. */
void memory_gather(const struct iovec *iov, unsigned index, size_t offset, void *to, size_t bytes);
void memory_scatter(const struct iovec *iov, unsigned index, size_t offset, const void *from,
		    size_t bytes);
void memory_zero(const struct iovec *iov, unsigned index, size_t offset, size_t bytes);
/*
 * Returns how many of `nr_max` whole blocks from the cursor on lie in one piece each, aligned to
 * `alignment`.
 */
uint32_t memory_direct_blocks(const struct iovec *iov, unsigned nr_iov, unsigned index,
			      size_t offset, uint32_t alignment, uint32_t nr_max);
/*
 * Appends the iovecs of those bytes at out[nr], joins neighbours, and returns how many there are
 * then. Each block adds one at most.
 */
unsigned memory_iovecs(const struct iovec *iov, unsigned index, size_t offset, size_t bytes,
		       struct iovec *out, unsigned nr);
unsigned memory_add(struct iovec *out, unsigned nr, void *base, size_t length);
/* Returns whether the lengths add up to `length`. */
bool memory_is_whole(const struct iovec *iov, unsigned nr_iov, size_t length);

/* ---- buffers ---- */

#define BOUNCE_BLOCKS	 16U
#define NR_BOUNCES	 64U
#define BOUNCES_FOR_GETS 16U /* which do not wait for puts that wait */

struct bounce {
	struct cds_list_head node;
	char *bytes;
	unsigned users; /* pieces and reads */
};

struct ftl;

/* Takes a buffer with one user. NULL: no more than `kept` are left. */
struct bounce *bounce_take(struct ftl *ftl, unsigned kept);
/* Takes a user away; the last gives the buffer back. NULL is none. */
void bounce_give(struct ftl *ftl, struct bounce *bounce);

#endif
