/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queues turn operations into transfers, and completions into results. A queue owns a fabric queue
 * for each transport, and one path per server and namespace. Queues share none of this, so threads
 * that each use a queue of their own do not disturb each other.
 *
 * An operation is cut into transfers by its target's layout, as many at a time as there is room
 * for:
 *
 *   submit → operation (active list) → transfers (per path) → completion → done list → reaped
 *                     ↑ blocked list: found no room, tried again after each completion
 *                     ↑ held list: waits for operations submitted before it (order.c)
 *
 * All memory is allocated when the queue is opened or connected. When an operation's time is up,
 * its paths are closed before it completes; from then on nothing touches its memory.
 */
#ifndef CLIENT_QUEUE_H
#define CLIENT_QUEUE_H

#include <urcu/list.h>

#include "base/spin.h"
#include "client/layout.h"
#include "client/message.h"
#include "client/peer.h"
#include "client/session.h"

/* The beginning of every kind of target, inside the public struct. */
struct afar_target {
	struct handle handle; /* in use while operations on it are in flight */
	struct afar_session *session;
	uint64_t ns;	      /* the number of its namespace */
	const char *ns_name;  /* lives as long as the target */
	uint64_t address;     /* in the namespace */
	uint64_t generation;  /* of the layout */
	uint64_t length;      /* bytes */
	uint32_t rights;      /* RIGHT_… */
	bool has_nic_atomics; /* servers' NICs carry out its atomics; false: their processors do */
	bool is_without_atomics; /* has_nic_atomics, but our transport has none */
	atomic_bool is_sealed;	 /* as the layout says; read it only while counted in */
	/* Replaced once, by a layout over the same servers, when the region turns out to be sealed.
	 * Two loads may return two layouts. */
	struct layout *_Atomic layout;
	struct layout *unsealed;     /* the layout before; others may still use it */
	struct peer **peers;	     /* by the layout's server index */
	struct peer_reach **reaches; /* of these peers, by the same index */
	atomic_bool is_lost;	     /* for good: one of its servers has restarted */
	atomic_bool had_keys;	     /* connections were made for it at least once */
	pthread_mutex_t lock;	     /* guards the next; held over calls for keys and accesses */
	struct access *accesses;     /* by the layout's server index */
	/* By the layout's server index: the last sealing in its namespace that the layout is known
	 * to include. The session's lock guards this and the node. */
	uint64_t *seals;
	struct cds_list_head node; /* in the session's list */
	/* A connection has ended under a write of ours, which the server may still carry out. The
	 * memory must not become another region's before the server has closed the connection
	 * (target_is_loose()), which it does at the latest when the session ends. */
	atomic_bool has_loose_writes;
	/* Windows on the part of it that is on this machine; NULL: none are taken. Use them only
	 * within a hold, or with the lock held (near.c). near_queue is the session's own queue
	 * whose connections they depend on. */
	struct near *_Atomic near;
	struct afar_queue *_Atomic near_queue;
};

enum path_state {
	PATH_DOWN,
	PATH_CONNECTING,
	PATH_UP,
};

#define PATH_LANES_MAX 4
/* A queue keeps up to this many paths that no target of the session uses at the moment,
 * because regions of the same namespaces may be opened again. */
#define PATHS_UNUSED_MAX 8U

/* A connection over one lane. */
struct path_lane {
	struct fabric_endpoint *endpoint; /* NULL: there is none */
	struct peer_loose *loose;	  /* for noting its end; allocated with the endpoint */
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

enum operation_state {
	OPERATION_FREE,
	OPERATION_ACTIVE, /* taken: it has bytes to post, or transfers in flight */
	OPERATION_DONE,	  /* waits to be reaped */
};

/* Why an active operation has bytes that are not posted; says which list its waiting_node is in. */
enum operation_wait {
	WAITS_NOT,
	WAITS_FOR_ROOM, /* blocked */
	WAITS_FOR_ALL,	/* held: for all operations submitted before it; nothing of it is posted */
	WAITS_FOR_WRITES, /* a flush: for earlier writes to its target; nothing of it is posted */
	WAITS_FOR_START,  /* ready: was held, and queue_settle() will start it */
};

struct operation {
	enum operation_state state;
	enum operation_wait waits;
	struct cds_list_head node; /* in the list of its state */
	struct cds_list_head waiting_node;
	uint64_t order; /* of submission in the queue */
	uint64_t user_data;
	struct afar_target *target;
	uint16_t opcode;
	uint16_t flags;
	uint32_t nr_iov;
	const struct afar_iov *iov;
	uint32_t iov_index; /* the next transfer's memory begins here */
	size_t iov_offset;
	uint64_t operand;
	uint64_t compare;
	uint64_t offset;    /* of the next transfer, into the target */
	uint64_t remaining; /* bytes not yet in a transfer; of a flush: servers not yet looked at */
	uint64_t length;
	uint64_t deadline;
	uint32_t nr_in_flight; /* transfers */
	uint32_t nr_awaited;   /* of a waiting flush: writes */
	uint32_t stands_for;   /* operations that its measured time counts for; 0: not measured */
	uint64_t began;	       /* if it is measured */
	int status;	       /* the first failure */
};

/* One read, write or atomic on the fabric, whose context is (generation << 32 | index), or one
 * message. */
struct transfer {
	struct cds_list_head node; /* in the path's list, or free */
	struct operation *operation;
	struct path *path;
	uint64_t length;
	uint32_t generation; /* grows when it ends: completions of an older one are not ours */
};

struct afar_queue {
	struct handle handle;
	struct cds_list_head idle_node; /* in the session's pool */
	struct afar_session *session;
	struct fabric_queue *fabrics[FABRICS_MAX]; /* opened as paths need them */
	unsigned nr_fabrics;

	struct path **paths; /* by the index of their reach */
	uint32_t nr_paths;
	uint32_t nr_connections; /* ever begun */

	uint32_t depth;
	struct operation *operations;
	struct cds_list_head free_operations;
	/* Taken, not done, in order of submission and so of deadline. */
	struct cds_list_head active;
	struct cds_list_head blocked; /* of the active: have bytes that found no room */
	struct cds_list_head held;    /* of the active, in order: wait for all before them */
	/* Of the active, in order, all after the held: an earlier one failed, so they will fail. */
	struct cds_list_head doomed;
	struct cds_list_head flushes; /* of the active, in order: wait for writes */
	struct cds_list_head ready;   /* of the active: were held, and may start */
	struct cds_list_head done;
	uint64_t nr_submitted;
	uint32_t nr_active;
	uint32_t nr_held; /* on the held, doomed and flushes lists */
	uint32_t nr_done;
	uint32_t nr_failed; /* of the done */

	struct failure *failures; /* a ring of the last ones, `depth` long: failures.c */
	uint64_t nr_failures;	  /* that there ever were */

	/* Flushes read into it, on transports that need such reads. Nobody looks at it. */
	struct afar_buffer *scratch;
	/* Transports with atomics put the old words here, one for each transfer. Otherwise NULL. */
	struct afar_buffer *words;

	uint64_t bytes_in_flight;
	struct spin spin; /* of the thread that waits */
	uint32_t nr_transfers;
	struct transfer *transfers;
	struct cds_list_head free_transfers;

	/* Blocking calls copy plain memory through it; NULL: not needed yet. */
	struct afar_buffer *bounce;

	/* Epoll of the fabrics' descriptors and the timer, for the user's event loop. */
	int sleep_fd;
	int timer_fd;	     /* fires at the first deadline, or before */
	uint64_t timer_at;   /* on clock_ns(): when it fires; CLOCK_NEVER: it does not */
	uint32_t nr_polls;   /* since it last looked at connection events */
	uint64_t checked_at; /* when it last looked at them */
	uint64_t last_used;  /* by a blocking call */

	struct counts counts;
};

/* Set in the contexts of messages. Their index and generation are those of the path. */
#define CONTEXT_MESSAGE 0x80000000U

/* Atomics change one word each. A processor of the server's machine carries them out, or its NIC,
 * in regions made for that. */
static inline bool opcode_is_atomic(uint16_t opcode)
{
	return opcode == AFAR_OP_FETCH_ADD || opcode == AFAR_OP_COMPARE_SWAP;
}

static inline bool opcode_writes(uint16_t opcode)
{
	return opcode == AFAR_OP_WRITE || opcode_is_atomic(opcode);
}

/* ---- Progress: progress.c */

/*
 * Takes one checked operation and posts as much as there is room for. Its iov stays the caller's.
 * The queue must not be full. The caller has counted in the target and the buffers; they are
 * released when the operation is done. `deadline` must not be before those of the operations taken
 * earlier.
 */
struct operation *queue_start(struct afar_queue *queue, const struct afar_op *op, uint64_t length,
			      uint64_t deadline);
/* Makes progress without blocking. True: something moved. */
bool queue_progress(struct afar_queue *queue);
/* Handles connection events and expired deadlines. Call it now and then, and before sleeping. True:
 * something moved. */
bool queue_check(struct afar_queue *queue);
/* The first deadline of the active operations, or CLOCK_NEVER. */
uint64_t queue_first_deadline(struct afar_queue *queue);
/* Spins, then sleeps, until something has moved. False: `deadline` came first. */
bool queue_wait_progress(struct afar_queue *queue, uint64_t deadline);
/* Ends the operations of `user_data` that are not done, with -ECANCELED. Returns how many. */
unsigned queue_cancel(struct afar_queue *queue, uint64_t user_data);
/* Removes a done operation. Returns how many bytes it moved, or its error. */
struct afar_completion queue_reap(struct afar_queue *queue, struct operation *operation);

/* Call hold before and release after posting several transfers, so that they go out together. */
static inline void queue_hold(struct afar_queue *queue)
{
	for (unsigned f = 0; f < queue->nr_fabrics; f++)
		fabric_queue_hold(queue->fabrics[f]);
}

static inline void queue_release(struct afar_queue *queue)
{
	for (unsigned f = 0; f < queue->nr_fabrics; f++)
		fabric_queue_release(queue->fabrics[f]);
}

#define FLUSH_BYTES 8U /* a flush reads these behind the writes to a server */

/* Addresses of a server go to its path's lanes in turn, in units of this size. */
#define LANE_UNIT_SHIFT 20U

static inline const struct path_lane *path_lane_at(const struct path *path, uint64_t offset)
{
	return &path->lanes[path->nr_lanes == 1 ? 0 : (offset >> LANE_UNIT_SHIFT) % path->nr_lanes];
}

/* How many bytes of a piece go in one transfer. */
static inline uint64_t path_length_at(const struct path *path, const struct layout_piece *at)
{
	uint64_t length =
		at->length < path->transfer_bytes_max ? at->length : path->transfer_bytes_max;
	uint64_t to_next;

	if (path->nr_lanes == 1)
		return length;
	to_next = (UINT64_C(1) << LANE_UNIT_SHIFT) -
		  ((at->chunk->offset + at->offset) & ((UINT64_C(1) << LANE_UNIT_SHIFT) - 1));
	return length < to_next ? length : to_next;
}

/* The lane that all clients use for atomics of NICs, whichever lane is best for each. That needs no
 * agreement, because a path's lanes are all that the server has of the transport. */
static inline const struct path_lane *path_home(const struct path *path)
{
	const struct path_lane *home = &path->lanes[0];

	for (uint32_t i = 1; i < path->nr_lanes; i++) {
		if (path->lanes[i].number < home->number)
			home = &path->lanes[i];
	}
	return home;
}

/* Prepares the queue for sleeping. False: there is something to poll. */
bool queue_arm(struct afar_queue *queue);
/* Sleeps until something comes, or until `deadline`. Arm the queue first. */
void queue_doze(struct afar_queue *queue, uint64_t deadline);
/* Arms, then dozes. */
void queue_sleep(struct afar_queue *queue, uint64_t deadline);

/* ---- Order: order.c */

/* Holds a new operation, the last of the active ones, until those that it must wait for have
 * completed: all before it, or, for a flush without AFAR_OP_AFTER, the writes to its target. */
void order_hold(struct afar_queue *queue, struct operation *operation);
/* Call it when an operation is no longer active. Makes ready what waited for it. queue_settle()
 * starts that later, when nobody is in the middle of an operation. */
void order_finished(struct afar_queue *queue, const struct operation *operation);

/* ---- Failures: failures.c */

int failures_open(struct afar_queue *queue);
/* Remembers that an operation has failed, the first time that it does, and at which server: NULL is at none. `was_held`: it
 * waited for one that has failed. */
__attribute__((cold)) void failure_note(struct afar_queue *queue, const struct operation *operation,
					int status, const struct peer *peer, bool was_held);
/* Leaves the line of a completion that failed, and returns its result. `again`: how it is tried again. */
int failure_say(const struct afar_queue *queue, const struct afar_completion *completion,
		const char *again);
/* An operation could not get at a server, of which the last line tells: says which operation it was, and whether something of it
 * may have been done before. Returns `status`. */
int failure_on_the_way(const struct afar_op *op, uint64_t length, int status, bool was_begun);

/* ---- Paths: path.c */

/* Gets the target's keys, if it has none, and connects to each of its servers that is not
 * connected. Writes in flight on ended connections, of any queue of the session, cannot land after
 * later writes. Blocks, until `deadline`. */
int queue_connect(struct afar_queue *queue, struct afar_target *target, uint64_t deadline);
/* Finds out which connections have ended unnoticed. */
void queue_refresh(struct afar_queue *queue);
/* The only function that ends a path's connections, whichever side closed them: closes this side,
 * and ends its transfers with `status`. Their writes are loose from then on: the server may still
 * have them before it, and carry them out. */
void path_end(struct afar_queue *queue, struct path *path, int status);
/* Ends the path and frees it. */
void path_free(struct afar_queue *queue, struct path *path);
/* Ends a transfer. */
void transfer_end(struct afar_queue *queue, struct transfer *transfer, int status);

/* The path to a server of the target's layout; NULL: there never was one. */
static inline struct path *queue_path(const struct afar_queue *queue,
				      const struct afar_target *target, uint32_t server)
{
	uint32_t index = target->reaches[server]->index;

	return index < queue->nr_paths ? queue->paths[index] : NULL;
}

/* Lets the queue have connections on a fabric of the session's. Gives its fabric queue there. */
int queue_use_fabric(struct afar_queue *queue, struct fabric *fabric, struct fabric_queue **out);

/* ---- Access: target.c */

/* Takes the accesses that the manager gave for servers of the target's layout. The caller alone has
 * the target, or holds its lock. -AFAR_EMALFORMED, with a sentence. */
int target_take_accesses(struct afar_target *target, Afar__Access *const *messages, size_t count);
/* Gets the keys of the target's extents, if it has none. Blocks, until `deadline`. */
int target_get_keys(struct afar_target *target, uint64_t deadline);
/* Gets a ticket for a connection to one of its servers; it replaces the connection numbered in
 * `out`. Blocks, until `deadline`. */
int target_get_ticket(struct afar_target *target, uint32_t index, uint64_t deadline,
		      struct peer_ticket *out);
/* Has one of its servers close the connections that ended under writes: nothing of those writes
 * lands any more. Blocks, until `deadline`. */
int target_settle(struct afar_target *target, uint32_t index, uint64_t deadline);
/* Whether a server of the target may still carry out a write of ours whose connection has ended. */
bool target_is_loose(const struct afar_target *target);
/* Has all servers close the connections that make it loose. Blocks, until `deadline`. Ask
 * target_is_loose() whether that has worked. */
void target_settle_all(struct afar_target *target, uint64_t deadline);
/* Returns -EROFS or -EACCES, with the sentence. */
int target_fail_read_only(const struct afar_target *target);

/* Whether the session can do atomics on the target: 0, or -EOPNOTSUPP with the sentence. */
int target_check_atomics(const struct afar_target *target);
/* Returns that error for a target whose connections turned out to use a transport without
 * atomics. */
int target_fail_unfit(const struct afar_target *target);
/* Whether the NICs at both ends of a lane have atomics, as far as is known here. May block for a
 * moment. */
bool lane_has_atomics(struct fabrics *fabrics, const struct peer_lane *lane);
/* Finds out whether a target with has_nic_atomics can have them. May block for a moment. */
void target_look_for_atomics(struct afar_target *target);

static inline bool target_may(const struct afar_target *target, uint16_t opcode)
{
	return !opcode_writes(opcode) || ((target->rights & RIGHT_WRITE) && !target->is_sealed);
}

/* ---- Sealing: seal.c */

/* The target hears of sealings from now on, until target_unlist(). */
void target_list(struct afar_target *target);
void target_unlist(struct afar_target *target);
/* If something of its namespace was sealed that the layout may not show, asks the manager what has
 * become of the region. With the target's lock held. Blocks, until `deadline`. */
int target_heed_seals(struct afar_target *target, uint64_t deadline);
/* Asks the manager in any case. Call it without the lock. */
int target_look(struct afar_target *target);
/* Call it when all keys are there, with the target's lock held: operations may begin, unless there
 * was another sealing. */
void target_set_ready(struct afar_target *target);

/* ---- Regions that were closed while writes were loose: linger.c */

/* Ends the regions whose servers have closed the connections, or have restarted. With `may_ask`, it
 * asks servers to do so, now and then; that takes a moment. */
void regions_settle(struct afar_session *session, bool may_ask);
/* Drops all of them, at the session's end. */
void regions_forget(struct afar_session *session);

/* ---- Blocking calls: blocking.c */

/*
 * Moves bytes between `iov` and the target at `offset`, through windows or on one of the session's
 * own queues, and waits. The caller has checked the range, and need count nothing in. Returns 0 or
 * the error.
 */
int target_transfer(struct afar_target *target, uint16_t opcode, const struct afar_iov *iov,
		    uint32_t nr_iov, uint64_t offset, uint64_t length);

/* Carries out an atomic once, in the same ways. The caller has checked that the word is inside the
 * target. */
int target_atomic(const struct afar_op *op);

/* Makes visible, on all paths, what blocking calls have written to it, as far as connections
 * stand. */
void target_flush(struct afar_target *target);

/* Makes the connections for blocking calls in advance. Blocks. */
int target_connect(struct afar_target *target);

/* For the control thread, when the session has ended: ends the connections of the session's idle
 * queues, because servers may wait for that (fabric_endpoint_end()). */
void queue_pool_let_go(struct afar_session *session);

/* Closes the session's own queues. */
void queue_pool_close(struct afar_session *session);

/* Opens a queue that does not count as a user of the session. */
int queue_new(struct afar_session *session, uint32_t depth, struct afar_queue **out);
void queue_destroy(struct afar_queue *queue);

/* Whether [offset, offset + length) lies in a target of `size` bytes. */
static inline bool range_is_inside(uint64_t offset, uint64_t length, uint64_t size)
{
	return offset <= size && length <= size - offset;
}

#endif
