/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths: a queue's connections to the servers of its targets. They are made ahead of the data path (connect.c), and ended by
 * path.c alone. In between, post.c and flush.c post on them.
 */
#ifndef CLIENT_PATH_H
#define CLIENT_PATH_H

#include "client/base/message.h"
#include "client/session.h"
#include "client/target/binding.h"

struct afar_queue;

enum path_state {
	PATH_DOWN,
	PATH_CONNECTING,
	PATH_UP,
};

#define PATH_LANES_MAX 4
/* A queue keeps up to this many paths that no target of the session uses now. Regions of the same
 * namespaces may be opened again. */
#define PATHS_UNUSED_MAX 8U

/* A connection over one lane. */
struct path_lane {
	struct fabric_endpoint *endpoint; /* NULL: there is none */
	struct peer_doubt *doubt;	  /* for noting its end; allocated with the endpoint */
	uint64_t connection; /* the server's number for it, or for the last one; 0: none */
	uint32_t number;     /* of the server's lane: keys are by it */
	bool is_connected;   /* or was, before the path ended */
	bool is_refused;
};

/*
 * A queue's way to a namespace's memory on a server: connections over all lanes of one transport.
 * Each address always goes over the same connection, so that what holds for a connection holds for
 * the path. A path stands and ends as a whole.
 */
struct path {
	struct peer *peer; /* NULL: never connected */
	struct peer_reach *reach;
	const struct fabric *fabric; /* of its connections, or of the last; NULL: never connected */
	unsigned nr_fabric;	     /* its number in the session */
	uint32_t nr_lanes;
	uint32_t nr_connecting;
	struct path_lane lanes[PATH_LANES_MAX];
	uint64_t transfer_bytes_max;
	enum path_state state;
	struct cds_list_head transfers; /* in flight on it */
	struct path_count count;
	uint32_t index; /* in the queue */
	/* The queue's nr_connections at its start: an older completion is not ours. */
	uint32_t generation;
	struct message_box messages;
};

/* Addresses of a server go to its path's lanes in turn, in units of this size. */
#define LANE_UNIT_SHIFT 20U

/* The lane that leads to an offset into an extent. */
static inline const struct path_lane *path_lane_at(const struct path *path, uint64_t offset)
{
	return &path->lanes[path->nr_lanes == 1 ? 0 : (offset >> LANE_UNIT_SHIFT) % path->nr_lanes];
}

/* Returns how many of `bytes` at an offset into an extent go in one transfer. */
static inline uint64_t path_length_at(const struct path *path, uint64_t offset, uint64_t bytes)
{
	uint64_t length = bytes < path->transfer_bytes_max ? bytes : path->transfer_bytes_max;
	uint64_t to_next;

	if (path->nr_lanes == 1)
		return length;
	to_next = (UINT64_C(1) << LANE_UNIT_SHIFT) -
		  (offset & ((UINT64_C(1) << LANE_UNIT_SHIFT) - 1));
	return length < to_next ? length : to_next;
}

/* The lane that all clients use for atomics of NICs, whichever lane is best for each. Clients need
 * not agree on it, because a path's lanes are all that the server has of the transport. */
static inline const struct path_lane *path_home(const struct path *path)
{
	const struct path_lane *home = &path->lanes[0];

	for (uint32_t i = 1; i < path->nr_lanes; i++) {
		if (path->lanes[i].number < home->number)
			home = &path->lanes[i];
	}
	return home;
}

/* The only function that ends a path's connections, whichever side closed them: closes this side,
 * and ends its transfers with `status`. Their writes are in doubt from then on: the server may still
 * have them before it, and carry them out. */
void path_end(struct afar_queue *queue, struct path *path, int status);
/* Gives the queue's path to a server. Makes one that is not connected, if there is none. -ENOMEM. */
int path_of(struct afar_queue *queue, const struct binding_server *server, struct path **out);
/* Connects the queue to a home of the binding, which has its keys. Blocks, until `deadline`. */
int path_connect(struct afar_queue *queue, struct binding *binding, uint32_t home,
		 uint64_t deadline);
/* Ends the path and frees it. */
void path_free(struct afar_queue *queue, struct path *path);

#endif
