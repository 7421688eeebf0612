/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fencing: makes sure that nothing granted before can still be used, neither by a transfer to come
 * nor by one that is half through. Called by orders.c when the manager asks. DESIGN: "fencing".
 */
#ifndef SERVER_FENCE_H
#define SERVER_FENCE_H

#include <stddef.h>
#include <stdint.h>

#include "server/control/control.h"
#include "server/control/incarnation.h"
#include "server/control/tickets.h"
#include "server/data/lanes.h"
#include "server/memory/extent.h"
#include "server/stores/stores.h"

/* The parts of the server that a fence closes. All must outlive lanes_stop(). */
struct fence {
	struct extent_pool *pool;
	struct tickets *tickets;
	struct lanes *lanes;
	struct control *control;
	struct stores *stores;
	struct incarnation *incarnation;
};

/*
 * Ends the keys of extents, and closes the data connections of their namespaces, if there have been
 * any keys. Only then it hands the memory to the scrubber, and calls `done(argument)` on a progress
 * thread. It skips extents that nobody has. If an earlier call is still at one of them, `done` runs
 * after that call's. One thread at a time. -ENOMEM, with a sentence: nothing was done, and `done`
 * will not run.
 */
int fence_extents(const struct fence *fence, const uint64_t *extents, size_t nr_extents,
		  void (*done)(void *argument), void *argument);

/*
 * Does so for a store's extents, each of the namespace in its name, and removes them.
 * `done(argument, status)` runs on the store's thread. -ENOMEM, with a sentence: `done` will not
 * run.
 */
int fence_store_extents(const struct fence *fence, struct store *store,
			const struct store_name *names, size_t nr_names, store_done *done,
			void *argument);

/*
 * Ends a session. It gets no more tickets and keys, its tickets end, and its control and data
 * connections are closed. Then nothing that the session posted can land any more, and
 * `done(argument)` runs, on a progress thread. On the loop's thread. -ENOMEM, with a sentence:
 * nothing was done, and `done` will not run.
 */
int fence_session(const struct fence *fence, uint64_t session, void (*done)(void *argument),
		  void *argument);

/*
 * Ends all sessions likewise, also those that have only a pass or a capability yet: these are not good any more. On the loop's
 * thread. -ENOMEM, with a sentence: some may go on, and `done` will not run.
 */
int fence_all_sessions(const struct fence *fence, void (*done)(void *argument), void *argument);

/*
 * Closes all data connections of a namespace; of those for attaching, only the ones for this
 * generation of a layout. Then everything written on them is in memory, nothing more lands there,
 * and `done(argument)` runs, on a progress thread. Connections that are made afterwards are told of
 * it (struct admission). One thread at a time. -ENOMEM, with a sentence: nothing was done, and
 * `done` will not run.
 */
int fence_namespace(const struct fence *fence, uint64_t namespace, uint64_t generation,
		    void (*done)(void *argument), void *argument);

#endif
