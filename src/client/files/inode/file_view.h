/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Views: what an inode's map had at some moment, for operations on queues, and for threads that copy near bytes (same_host.h).
 * They look at a view within an epoch section, so finding the bytes takes no lock. The runs of a view never change, and it is
 * replaced as a whole. Runs only come as long as somebody is inside the inode's gate, so an old view is right: it only
 * has less. A thread that is to have runs taken away closes the view, and waits for epoch sections.
 */
#ifndef CLIENT_FILE_VIEW_H
#define CLIENT_FILE_VIEW_H

#include <pthread.h>
#include <stdatomic.h>

#include "client/files/inode/file_map.h"

struct file_view {
	_Atomic uint64_t size; /* of the file, at least; it only grows */
	/* The run that was found last: the next bytes are often there, too. */
	const struct file_run *_Atomic last;
	size_t nr;	     /* not 0 */
	uint64_t nr_changes; /* of the map, when this was made */
	struct file_run runs[];
};

/* Has `*place` be a view of the map. From inside the gate; `lock` guards the map, and is not held. Without
 * memory it stays as it was. */
void view_refresh(struct file_view *_Atomic *place, pthread_mutex_t *lock,
		  const struct file_map *map, const uint64_t *size);
/* Closes it, and waits until nobody uses what was in it. The gate is shut. */
void view_close(struct file_view *_Atomic *place);
/* Closes it when nobody uses what was in it. */
void view_free(struct file_view *_Atomic *place);

/* Within an epoch section. Finds the run that has a unit, and remembers it; NULL: there is none. */
const struct file_run *view_search(struct file_view *view, uint64_t unit);
/* Within an epoch section. Returns how many of the bytes from `offset` on are together in the pool, up to `length`, and where. 0:
 * the first is not in the view. `length` is not 0. */
static inline uint64_t view_find(struct file_view *view, uint64_t offset, uint64_t length,
				 uint64_t *pool_offset)
{
	const uint64_t unit = offset / FILE_UNIT;
	const struct file_run *run = atomic_load_explicit(&view->last, memory_order_relaxed);
	uint64_t within, left;

	if (unit - run->unit >= run->nr)
		run = view_search(view, unit);
	if (!run)
		return 0;
	within = offset - run->unit * FILE_UNIT;
	left = run->nr * FILE_UNIT - within;
	*pool_offset = run->pool_unit * FILE_UNIT + within;
	return length < left ? length : left;
}

#endif
