/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queues: where operations become transfers and completions come back. A queue owns a fabric queue for each
 * transport and one path per server and namespace; nothing of it is shared with other queues, so threads that use a
 * queue each do not meet.
 *
 * An operation is cut into transfers by its target's layout, as many at a time as there is room for:
 *
 *   submit → operation (active list) → transfers (per path) → completion → done list → reaped
 *                     ↑ blocked list: what found no room, tried again after each completion
 *                     ↑ held list: what waits for operations submitted before it (order.c)
 *
 * All memory is allocated when the queue is opened or connected. DESIGN: "timeouts": when an
 * operation's time is up its paths are closed, which makes its memory quiescent, before it completes.
 */
#ifndef CLIENT_QUEUE_H
#define CLIENT_QUEUE_H

#include <urcu/list.h>

#include "base/spin.h"
#include "client/layout.h"
#include "client/message.h"
#include "client/peer.h"
#include "client/session.h"

/* What the public struct is inside: the beginning of every kind of target. */
struct afar_target {
	struct handle handle; /* in use while operations on it are in flight */
	struct afar_session *session;
	uint64_t ns;	      /* the number of its namespace */
	const char *ns_name;  /* lives as long as the target */
	uint64_t address;     /* in that */
	uint64_t generation;  /* of the layout */
	uint64_t length;      /* bytes */
	uint32_t rights;      /* RIGHT_… */
	bool has_nic_atomics; /* they are the home of its atomics, else the servers' processors */
	bool is_without_atomics; /* because of that: our transport has none */
	atomic_bool is_sealed; /* as the layout says, which is for those alone who are counted in */
	/* Replaced once, when it becomes known that the region is sealed, by one over the same servers. Who
	 * looks twice may see two. */
	struct layout *_Atomic layout;
	struct layout *unsealed;     /* the one before: others may use it yet */
	struct peer **peers;	     /* by the layout's server index */
	struct peer_reach **reaches; /* what of them: by the same */
	atomic_bool is_lost;	     /* with a server that has restarted; for good */
	atomic_bool had_keys;	     /* once: connections were made for it */
	pthread_mutex_t lock;	     /* guards the next; held over calls for keys and accesses */
	struct access *accesses;     /* by the layout's server index */
	/* The last sealing in its namespace that the layout is known to be younger than; guarded, with the
	 * node, by the session's lock. */
	uint64_t *seals;	   /* by the layout's server index */
	struct cds_list_head node; /* in the session's list */
	/* A connection has ended under a write of ours. The server may have that before it still, so the
	 * memory must not become another region's before it has closed the connection (target_is_loose()),
	 * at the latest at the session's end (DESIGN: "fencing"). */
	atomic_bool has_loose_writes;
	/* Windows on what of it is on this machine; NULL: none are taken. Used within holds alone, or with the lock
	 * held: near.c. And the queue of the session's own whose connections they depend on. */
	struct near *_Atomic near;
	struct afar_queue *_Atomic near_queue;
};

enum path_state {
	PATH_DOWN,
	PATH_CONNECTING,
	PATH_UP,
};

#define PATH_LANES_MAX 4
/* Connections that no target of the session wants at the moment are kept for a while: regions of the same
 * namespaces may be opened again. So many of a queue. */
#define PATHS_UNUSED_MAX 8U

/* A connection over one lane. */
struct path_lane {
	struct fabric_endpoint *endpoint; /* NULL: there is none */
	struct peer_loose *loose;	  /* for when it ends; there while it has an endpoint */
	uint64_t connection;		  /* the server's number for it, or for the last; 0: none */
	uint32_t number;		  /* of the server's lane: keys are by it */
	bool is_connected;		  /* or was, before the path ended */
	bool is_refused;
};

/*
 * The way of a queue to a namespace's memory on a server: connections over all lanes of one transport. Each
 * address goes over the same one of them, so that what is said of a connection holds for the path; it
 * stands and ends as a whole.
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
	uint32_t
		generation; /* the queue's nr_connections: completions of an older one are not ours */
	struct message_box messages;
};

enum operation_state {
	OPERATION_FREE,
	OPERATION_ACTIVE, /* taken: it has bytes to post, or transfers in flight */
	OPERATION_DONE,	  /* waits to be reaped */
};

/* Why an active operation has bytes that are not posted: the list that its waiting_node is in. */
enum operation_wait {
	WAITS_NOT,
	WAITS_FOR_ROOM, /* blocked */
	WAITS_FOR_ALL,	/* held: for all operations submitted before it; nothing of it was posted */
	WAITS_FOR_WRITES, /* a flush: for the writes to its target submitted before it; likewise */
	WAITS_FOR_START,  /* ready: held until now, to be pushed by queue_settle() */
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
	uint32_t iov_index; /* where the next transfer takes its memory from */
	size_t iov_offset;
	uint64_t operand;
	uint64_t compare;
	uint64_t offset;    /* of the next transfer, into the target */
	uint64_t remaining; /* bytes not yet in a transfer; of a flush: servers not yet looked at */
	uint64_t length;
	uint64_t deadline;
	uint32_t nr_in_flight; /* transfers */
	uint32_t nr_awaited;   /* of a flush that waits: writes */
	uint32_t stands_for;   /* operations, whose time this one's is taken for; 0: it is not */
	uint64_t began;	       /* if it stands for any */
	int status;	       /* the first failure */
};

/* One one-sided read or write on the fabric, whose context is (generation << 32 | index), or one message. */
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
	struct fabric_queue *fabrics[FABRICS_MAX]; /* those that its paths want, as they come */
	unsigned nr_fabrics;

	struct path **paths; /* by the index of what they reach */
	uint32_t nr_paths;
	uint32_t nr_connections; /* that were ever begun */

	uint32_t depth;
	struct operation *operations;
	struct cds_list_head free_operations;
	struct cds_list_head active; /* taken, not done, in order of submission, thus of deadline */
	struct cds_list_head blocked; /* of the active: those with bytes that found no room */
	struct cds_list_head
		held; /* of the active, in order: those that wait for all before them */
	struct cds_list_head doomed;  /* likewise, after those: one before them has failed */
	struct cds_list_head flushes; /* of the active, in order: those that wait for writes */
	struct cds_list_head ready;   /* of the active: those that were held and may start */
	struct cds_list_head done;
	uint64_t nr_submitted;
	uint32_t nr_active;
	uint32_t nr_held; /* with the doomed and the flushes */
	uint32_t nr_done;
	uint32_t nr_failed; /* of the done */

	struct failure *failures; /* the last ones, as many as it is deep: failures.c */
	uint64_t nr_failures;	  /* that there ever were */

	/* Where flushes read to, if there are paths on transports that want that; nobody looks at it. */
	struct afar_buffer *scratch;
	/* Where transports that do atomics leave what the words were, one for each transfer. Else NULL. */
	struct afar_buffer *words;

	uint64_t bytes_in_flight;
	struct spin spin; /* of the thread that waits */
	uint32_t nr_transfers;
	struct transfer *transfers;
	struct cds_list_head free_transfers;

	struct afar_buffer *bounce; /* of blocking calls, for plain memory; NULL: not needed yet */

	int sleep_fd; /* epoll of the fabric's descriptor and the timer, for the user's event loop */
	int timer_fd;	     /* fires at the first deadline, or before */
	uint64_t timer_at;   /* when, on clock_ns(); CLOCK_NEVER: it does not */
	uint32_t nr_polls;   /* since its events were last looked at */
	uint64_t checked_at; /* when they were */
	uint64_t last_used;  /* by a blocking call */

	struct counts counts;
};

/* In the contexts of messages, whose index is that of the path, and whose generation is too. */
#define CONTEXT_MESSAGE 0x80000000U

/* One word each. A CPU of the server's machine does it, or in regions made for that its NIC. */
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
 * Takes one checked operation and posts what there is room for; its iov stays the caller's. The queue is
 * not full, and the target and the buffers have been counted in: they are let go when it is done.
 * `deadline` is not before those of the operations taken earlier.
 */
struct operation *queue_start(struct afar_queue *queue, const struct afar_op *op, uint64_t length,
			      uint64_t deadline);
/* Moves things on without blocking; true when something moved. */
bool queue_progress(struct afar_queue *queue);
/* Handles connection events and expired deadlines: now and then, and before sleeping. True when
 * something moved. */
bool queue_check(struct afar_queue *queue);
/* The first deadline of the active operations, or CLOCK_NEVER. */
uint64_t queue_first_deadline(struct afar_queue *queue);
/* Spins, then sleeps, until something has moved; false when `deadline` came first. */
bool queue_wait_progress(struct afar_queue *queue, uint64_t deadline);
/* Ends the operations of `user_data` that are not done, with -ECANCELED; how many. */
unsigned queue_cancel(struct afar_queue *queue, uint64_t user_data);
/* Takes a finished operation off: what it moved, or its error. */
struct afar_completion queue_reap(struct afar_queue *queue, struct operation *operation);

/* Around what may post several transfers, so that they go out together. */
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

#define FLUSH_BYTES 8U /* that a flush reads behind the writes to a server */

/* Which of a path's lanes an address of its server goes over. */
#define LANE_UNIT_SHIFT 20U

static inline const struct path_lane *path_lane_at(const struct path *path, uint64_t offset)
{
	return &path->lanes[path->nr_lanes == 1 ? 0 : (offset >> LANE_UNIT_SHIFT) % path->nr_lanes];
}

/* How much of a piece goes in one transfer. */
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

/* The one over which all do the atomics that are a NIC's, whichever lanes are the best for them: the path's lanes
 * are all that the server has of the transport. */
static inline const struct path_lane *path_home(const struct path *path)
{
	const struct path_lane *home = &path->lanes[0];

	for (uint32_t i = 1; i < path->nr_lanes; i++) {
		if (path->lanes[i].number < home->number)
			home = &path->lanes[i];
	}
	return home;
}

/* Gets the queue ready to sleep; false when there is something to poll. */
bool queue_arm(struct afar_queue *queue);
/* Once it is armed: sleeps until something comes, or `deadline`. */
void queue_doze(struct afar_queue *queue, uint64_t deadline);
/* Both. */
void queue_sleep(struct afar_queue *queue, uint64_t deadline);

/* ---- Order: order.c */

/* Holds a new operation, the last of the active ones, until those before it have completed that it has to
 * wait for: all, or, when it is a flush without AFAR_OP_AFTER, the writes to its target. */
void order_hold(struct afar_queue *queue, struct operation *operation);
/* An operation is not among the active ones any more: makes ready what waited for it. Starting that is
 * left to queue_settle(), when nobody is in the middle of an operation. */
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

/* Gets the keys of the target, if it has none, and connects to every server of it that is not
 * connected. What was in flight on connections that ended, of any queue of the session, does not land behind
 * what is written from then on. Blocks, until `deadline`. */
int queue_connect(struct afar_queue *queue, struct afar_target *target, uint64_t deadline);
/* Finds out which connections have ended while nobody looked. */
void queue_refresh(struct afar_queue *queue);
/* The one end of a path's connection, whoever has closed it: closes this side, and ends its transfers with
 * `status`. Writes among them are loose from then on: the server may not have come to them, and do them yet. */
void path_end(struct afar_queue *queue, struct path *path, int status);
/* The same, and frees it. */
void path_free(struct afar_queue *queue, struct path *path);
/* Ends a transfer. */
void transfer_end(struct afar_queue *queue, struct transfer *transfer, int status);

/* To a server of the target's layout; NULL: there never was one. */
static inline struct path *queue_path(const struct afar_queue *queue,
				      const struct afar_target *target, uint32_t server)
{
	uint32_t index = target->reaches[server]->index;

	return index < queue->nr_paths ? queue->paths[index] : NULL;
}

/* Makes the queue one that can have connections on a fabric of the session's, and gives its part of that. */
int queue_use_fabric(struct afar_queue *queue, struct fabric *fabric, struct fabric_queue **out);

/* ---- Access: target.c */

/* Takes what the manager gave for the servers of the target's layout. Nobody else has the target, or its
 * lock is held. -AFAR_EMALFORMED with a sentence. */
int target_take_accesses(struct afar_target *target, Afar__Access *const *messages, size_t count);
/* Gets the keys of the target's extents, if it has none. Blocks, until `deadline`. */
int target_get_keys(struct afar_target *target, uint64_t deadline);
/* Gets a ticket for a connection to one of its servers, in place of the one numbered in `out`. Blocks, until
 * `deadline`. */
int target_get_ticket(struct afar_target *target, uint32_t index, uint64_t deadline,
		      struct peer_ticket *out);
/* Has one of its servers close the connections that ended under writes: nothing of those lands any more.
 * Blocks, until `deadline`. */
int target_settle(struct afar_target *target, uint32_t index, uint64_t deadline);
/* Whether a server of it may still do a write of ours whose connection has ended. */
bool target_is_loose(const struct afar_target *target);
/* Has all of its servers close what makes it so. Blocks, until `deadline`; target_is_loose() tells whether
 * that has helped. */
void target_settle_all(struct afar_target *target, uint64_t deadline);
/* -EROFS or -EACCES, with the sentence. */
int target_fail_read_only(const struct afar_target *target);

/* Whether the session can do atomics on it: -EOPNOTSUPP, with the sentence. */
int target_check_atomics(const struct afar_target *target);
/* The same of one whose connections have turned out to be over a transport without. */
int target_fail_unfit(const struct afar_target *target);
/* Whether the NICs that a lane leads to and from have atomics, for all that is known here. May block for a
 * moment. */
bool lane_has_atomics(struct fabrics *fabrics, const struct peer_lane *lane);
/* Finds that out, for a target with_nic_atomics. May block for a moment. */
void target_look_for_atomics(struct afar_target *target);

static inline bool target_may(const struct afar_target *target, uint16_t opcode)
{
	return !opcode_writes(opcode) || ((target->rights & RIGHT_WRITE) && !target->is_sealed);
}

/* ---- Sealing: seal.c */

/* From now on it hears of sealings, until target_unlist(). */
void target_list(struct afar_target *target);
void target_unlist(struct afar_target *target);
/* Finds out from the manager what has become of the region, when something of its namespace was sealed that the
 * layout may not show. With the target's lock held. Blocks, until `deadline`. */
int target_heed_seals(struct afar_target *target, uint64_t deadline);
/* The same, whatever is known; without the lock. */
int target_look(struct afar_target *target);
/* All keys are there: lets operations begin, unless there was another sealing. With the target's lock held. */
void target_set_ready(struct afar_target *target);

/* ---- Regions that were closed while writes were loose: linger.c */

/* Ends those whose servers have closed the connections, or have restarted. With `may_ask`, servers are asked
 * to, now and then, for a moment. */
void regions_settle(struct afar_session *session, bool may_ask);
/* Drops them all, at the session's end. */
void regions_forget(struct afar_session *session);

/* ---- Blocking calls: blocking.c */

/*
 * Moves the bytes between `iov` and the target at `offset`, through windows or on one of the session's own queues, and
 * waits. The range has been checked; nothing need be counted in. Returns 0 or the error.
 */
int target_transfer(struct afar_target *target, uint16_t opcode, const struct afar_iov *iov,
		    uint32_t nr_iov, uint64_t offset, uint64_t length);

/* Does an atomic, once, in the same ways. The word has been checked to be one of the target's. */
int target_atomic(const struct afar_op *op);

/* What blocking calls have written to it is visible on all paths, as far as their connections stand. */
void target_flush(struct afar_target *target);

/* Makes the connections for such calls ahead. Blocks. */
int target_connect(struct afar_target *target);

/* Ends the connections of those of the session's own queues that nobody uses: the session has ended, and servers may
 * wait for that (fabric_endpoint_end()). On the control thread. */
void queue_pool_let_go(struct afar_session *session);

/* Closes the session's own queues. */
void queue_pool_close(struct afar_session *session);

/* Opens a queue that is not counted as a user of the session. */
int queue_new(struct afar_session *session, uint32_t depth, struct afar_queue **out);
void queue_destroy(struct afar_queue *queue);

/* Whether [offset, offset + length) lies in a target of `size` bytes. */
static inline bool range_is_inside(uint64_t offset, uint64_t length, uint64_t size)
{
	return offset <= size && length <= size - offset;
}

#endif
