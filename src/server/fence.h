/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fencing: making sure that nothing which was granted before can still be used, neither by a transfer to
 * come nor by one half through. DESIGN: "fencing". Called by orders.c on the manager's word.
 */
#ifndef SERVER_FENCE_H
#define SERVER_FENCE_H

#include <stddef.h>
#include <stdint.h>

#include "server/control.h"
#include "server/extent.h"
#include "server/lanes.h"
#include "server/tickets.h"

/* What a fence has to close. All stay until lanes_stop(). */
struct fence {
	struct extent_pool *pool;
	struct tickets *tickets;
	struct lanes *lanes;
	struct control *control;
};

/*
 * Ends the keys of extents, closes the data connections of their namespaces if there have been any keys, and
 * only then hands the memory to the scrubber and calls `done(argument)`, on a progress thread. Extents that
 * nobody has are skipped; for those that an earlier call is at, `done` runs after that one's. One thread at a time. -ENOMEM
 * with a sentence: `done` will not run, nothing was done.
 */
int fence_extents(const struct fence *fence, const uint64_t *extents, size_t nr_extents,
		  void (*done)(void *argument), void *argument);

/*
 * Ends a session: it gets no tickets and no keys any more, its tickets end, its control and data
 * connections are closed; then `done(argument)` runs, on a progress thread: nothing the session posted can land any more. On the
 * loop's thread. -ENOMEM with a sentence: `done` will not run, nothing was done.
 */
int fence_session(const struct fence *fence, uint64_t session, void (*done)(void *argument),
		  void *argument);

/*
 * Closes all data connections of a namespace, of those that are for attaching the ones for this generation of a
 * layout: what was written on them is in memory, and nothing lands there any
 * more, then `done(argument)` runs, on a progress thread. Those made afterwards are told of it (struct admission). One thread at a time. -ENOMEM
 * with a sentence: `done` will not run, nothing was done.
 */
int fence_namespace(const struct fence *fence, uint64_t namespace, uint64_t generation,
		    void (*done)(void *argument), void *argument);

#endif
