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
 *
 * An active operation may be elsewhere meanwhile:
 *
 *   blocked list  it found no room; tried again after each completion
 *   held list     it waits for operations submitted before it (order.c)
 *   away          a thread carries it out (away.h)
 *
 * All memory is allocated when the queue is opened or connected. When an operation's time is up,
 * its paths are closed before it completes; from then on nothing touches its memory.
 */
#ifndef CLIENT_QUEUE_H
#define CLIENT_QUEUE_H

#include <urcu/list.h>

#include "base/spin.h"
#include "client/queue/iov_walk.h"
#include "client/queue/path.h"
#include "client/target/target.h"

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
	WAITS_FOR_THREAD, /* away: a thread carries it out, and has the node */
};

struct operation {
	enum operation_state state;
	enum operation_wait waits;
	struct cds_list_head node; /* in the list of its state */
	struct cds_list_head waiting_node;
	uint64_t order; /* of submission in the queue */
	uint64_t user_data;
	struct afar_target *target;
	struct afar_target *carrier;  /* the target's */
	const struct target_ops *ops; /* of the target's kind; NULL: it goes its way directly */
	/* A byte's offset in the carrier is this plus the one in the target, up to `run_end` in the target. */
	uint64_t shift;
	uint64_t run_end;
	uint16_t opcode;
	bool is_direct;	  /* on a file, whose runs stay as they are until it ends */
	bool is_idle;	  /* on a file, and no user of its target: it has nothing posted */
	bool is_given_up; /* its time was up, or it was cancelled */
	uint32_t flags;
	uint32_t nr_iov;
	const struct afar_iov *iov;
	struct iov_walk memory; /* of the next transfer */
	union {
		uint64_t operand;
		uint64_t flushed_layout; /* of a flush: the number of the layout that it goes by */
	};
	uint64_t compare;
	union {
		uint64_t offset;      /* of the next transfer, into the target */
		uint64_t next_server; /* of a flush */
	};
	uint64_t remaining; /* bytes not yet in a transfer; of a flush: servers not yet looked at */
	uint64_t begin;	    /* the offset of its first byte */
	uint64_t length;
	uint64_t deadline;
	uint32_t nr_in_flight; /* transfers */
	uint32_t nr_awaited;   /* of a waiting flush: writes */
	uint32_t stands_for;   /* operations that its measured time counts for; 0: not measured */
	uint64_t began;	       /* if it is measured */
	int status;	       /* the first failure */
	/* For a thread that carries it out: the queue, and the result (bytes, or an error). */
	struct afar_queue *queue;
	int64_t answer;
};

/* One read, write or atomic on the fabric, whose context is (generation << 32 | index), or one
 * message. */
struct transfer {
	struct cds_list_head node; /* in the path's list, or free */
	struct operation *operation;
	struct path *path;
	uint64_t offset; /* into the target, of a read or write */
	uint64_t length;
	uint32_t generation; /* grows when it ends: completions of an older one are not ours */
};

struct target_need;

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
	/* Active ones, in order, all after the held: an earlier one failed, so they will fail. */
	struct cds_list_head failing;
	struct cds_list_head flushes; /* of the active, in order: wait for writes */
	struct cds_list_head ready;   /* of the active: were held, and may start */
	struct cds_list_head done;
	uint64_t nr_submitted;
	uint32_t nr_active;
	uint32_t nr_held; /* on the held, failing and flushes lists */
	uint32_t nr_away;
	uint32_t nr_done;
	uint32_t nr_failed; /* of the done */

	struct failure *failures; /* a ring of the last ones, `depth` long: failures.c */
	uint64_t nr_failures;	  /* that there ever were */

	/* Flushes read into it, on transports that need such reads. Nobody reads it. */
	struct afar_buffer *scratch;
	/* Transports with atomics put the old words here, one for each transfer. Otherwise NULL. */
	struct afar_buffer *words;

	uint64_t bytes_in_flight;
	struct spin spin; /* of the thread that waits */
	uint32_t nr_transfers;
	struct transfer *transfers;
	struct cds_list_head free_transfers;

	struct queue_away *away; /* away.c's; NULL: nothing was ever away */

	/* A blocking call's flush goes to these homes alone. NULL: to all. */
	const struct target_need *flushed;
	/* Blocking calls copy unregistered memory through it; NULL: not needed yet. */
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

/* ---- Progress: progress.c (progress.h) */

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
/* The first deadline of the active operations that are not away, or CLOCK_NEVER. */
uint64_t queue_first_deadline(struct afar_queue *queue);
/* Spins, then sleeps, until something has moved. False: `deadline` came first. */
bool queue_wait_progress(struct afar_queue *queue, uint64_t deadline);
/* Ends the operations of `user_data` that are not done, nor begun by a thread, with -ECANCELED. Returns how many. */
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

/* ---- Paths: connect.c, path.c, completion.c */

/* Gets the target's keys, if it has none, and connects to each of its servers that is not
 * connected. Writes in flight on ended connections, of any queue of the session, cannot land after
 * later writes. Blocks, until `deadline`. */
int queue_connect(struct afar_queue *queue, struct afar_target *target, uint64_t deadline);
/* Likewise, to those of its homes that are needed at least (apart.h). */
int queue_connect_to(struct afar_queue *queue, struct afar_target *target,
		     const struct target_need *need, uint64_t deadline);
/* Polls until it has heard of connections that have ended. */
void queue_refresh(struct afar_queue *queue);
/* Lets the queue have connections on a fabric of the session's. Gives its fabric queue there. */
int queue_use_fabric(struct afar_queue *queue, struct fabric *fabric, struct fabric_queue **out);
/* Ends a transfer, with its operation's failure if `status` is one. */
void transfer_end(struct afar_queue *queue, struct transfer *transfer, int status);

/* Returns the path for a reach; NULL: there never was one. */
static inline struct path *queue_path(const struct afar_queue *queue,
				      const struct peer_reach *reach)
{
	return reach->index < queue->nr_paths ? queue->paths[reach->index] : NULL;
}

/* ---- Sleeping: wait.c */

/* Prepares the queue for sleeping. False: there is something to poll. */
bool queue_arm(struct afar_queue *queue);
/* Sleeps until something comes, or until `deadline`. Arm the queue first. */
void queue_doze(struct afar_queue *queue, uint64_t deadline);
/* Arms, then dozes. */
void queue_sleep(struct afar_queue *queue, uint64_t deadline);

/* ---- The queues of blocking calls: blocking.c, queue.c */

/* Ends the connections of the session's idle queues, because servers may wait for that
 * (fabric_endpoint_end()). For the control thread, when the session has ended. */
void queue_pool_let_go(struct afar_session *session);

/* Closes the session's own queues. */
void queue_pool_close(struct afar_session *session);

/* Opens a queue that does not count as a user of the session. */
int queue_new(struct afar_session *session, uint32_t depth, struct afar_queue **out);
void queue_destroy(struct afar_queue *queue);

#endif
