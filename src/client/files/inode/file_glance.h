/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Glances: the run of an inode that was used last, so far as the file goes, for threads that copy same-host
 * bytes (same_host.h). They look at it within an epoch section, so that a read or a write of such bytes takes no lock and
 * counts nobody in. A thread that is to have runs taken away closes the glance and waits for epoch sections.
 * Bytes that are not in the glance go the long way, which sets it anew.
 */
#ifndef CLIENT_FILE_GLANCE_H
#define CLIENT_FILE_GLANCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct file_glance {
	atomic_uint serial;	  /* odd while it is being changed */
	_Atomic uint64_t begin;	  /* bytes of the file */
	_Atomic uint64_t end;	  /* not behind the file's; 0: nothing is in it */
	_Atomic uint64_t pool;	  /* where `begin` is in the pool */
	atomic_bool has_been_set; /* since the inode was made */
};

/* Changes it. One thread at a time. */
void glance_set(struct file_glance *glance, uint64_t begin, uint64_t end, uint64_t pool);
/* Closes it, and waits until nobody uses what was in it. */
void glance_close(struct file_glance *glance);

/* Within an epoch section. Gives where a range is in the pool; false: it is not in the glance. */
static inline bool glance_find(const struct file_glance *glance, uint64_t offset, uint64_t length,
			       uint64_t *pool_offset)
{
	unsigned serial = atomic_load_explicit(&glance->serial, memory_order_acquire);
	uint64_t begin = atomic_load_explicit(&glance->begin, memory_order_relaxed);
	uint64_t end = atomic_load_explicit(&glance->end, memory_order_relaxed);
	uint64_t pool = atomic_load_explicit(&glance->pool, memory_order_relaxed);

	atomic_thread_fence(memory_order_acquire);
	if ((serial & 1) || serial != atomic_load_explicit(&glance->serial, memory_order_relaxed) ||
	    offset < begin || offset >= end || length > end - offset)
		return false;
	*pool_offset = pool + (offset - begin);
	return true;
}

#endif
