/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data path of a queue, for its own files. Operations start in progress.c. They become transfers in post.c, zeros in holes.c, flushes
 * of servers in flush.c. They end in completion.c. Nothing here allocates, locks or makes a system call of its own.
 */
#ifndef CLIENT_PROGRESS_H
#define CLIENT_PROGRESS_H

#include "client/queue/queue.h"
#include "client/session/buffer.h"

/* ---- Operations */

#define LAYOUT_NONE UINT64_MAX /* a flush has not looked at a layout yet */

static inline void operation_stop_waiting(struct afar_queue *queue, struct operation *operation)
{
	cds_list_del(&operation->waiting_node);
	if (operation->waits == WAITS_FOR_ALL || operation->waits == WAITS_FOR_WRITES)
		queue->nr_held--;
	operation->waits = WAITS_NOT;
}

/* Goes on behind the next bytes. */
static inline void operation_move_on(struct operation *operation, uint64_t length)
{
	operation->offset += length;
	operation->remaining -= length;
	if (!operation->nr_iov)
		return; /* a zero has no memory */
	while (length) {
		void *addr;

		length -= iov_walk_on(&operation->memory, length, &addr);
	}
}

/* ---- Transfers */

static inline uint64_t transfer_context(const struct afar_queue *queue,
					const struct transfer *transfer)
{
	return (uint64_t)transfer->generation << 32 | (uint64_t)(transfer - queue->transfers);
}

/* The place where the transport puts the old value of an atomic's word. */
static inline uint64_t *transfer_word(const struct afar_queue *queue,
				      const struct transfer *transfer)
{
	return (uint64_t *)queue->words->addr + (transfer - queue->transfers);
}

/* Marks a free transfer as posted. */
static inline void transfer_begin(struct afar_queue *queue, struct transfer *transfer,
				  struct operation *operation, struct path *path, uint64_t length)
{
	transfer->operation = operation;
	transfer->path = path;
	transfer->offset = operation->offset;
	transfer->length = length;
	queue->bytes_in_flight += length;
	cds_list_del(&transfer->node);
	cds_list_add_tail(&transfer->node, &path->transfers);
	operation->nr_in_flight++;
	if (path->peer->store && opcode_writes(operation->opcode))
		path->peer->nr_writing++;
}

/*
 * The place of an operation's next bytes: one run in one extent, over one path. It stays valid when
 * the binding is replaced, because find_step() copies all of it from the target's binding.
 */
struct step {
	struct peer *peer;
	struct path *path;	      /* NULL: there never was one */
	const struct path_lane *lane; /* set if the path is up and the binding ready: */
	uint64_t remote;	      /* the fabric's address of the first byte, on that lane */
	uint64_t key;
	uint64_t extent;
	uint64_t offset; /* into the extent */
	uint64_t length;
	bool is_hole;	 /* then only the length counts, and: */
	bool is_lost;	 /* it is no hole: its bytes are lost, */
	bool is_past;	 /* or behind the target's end, since others made it shorter */
	bool is_ready;	 /* the binding is, and has its keys: they may be used */
	bool is_sealed;	 /* or of more than one version: nobody writes it */
	bool is_counted; /* among the peer's writes in flight, until end_step() */
};

/* ---- post.c */

/* Posts as much of the operation as there is room for. -EAGAIN: there was not enough. */
int operation_advance(struct afar_queue *queue, struct operation *operation);
/* Returns the server of an operation's next bytes; NULL: they are in a hole. */
const struct peer *operation_next_peer(const struct afar_queue *queue,
				       const struct operation *operation);
/* Sends the server a message in place of a transfer. */
int post_message(struct afar_queue *queue, struct operation *operation, const struct step *step,
		 const struct message_request *request);
/* Returns why nothing can be posted to a server. */
__attribute__((cold)) int post_why_not(const struct afar_target *target, const struct path *path,
				       const struct peer *peer);
/* Ends the path because a transfer could not be posted on it. */
__attribute__((cold)) void post_fail(struct afar_queue *queue, struct operation *operation,
				     struct path *path);

/* ---- holes.c */

/* Reads zeros from a hole. False: the operation has failed because it writes, or what is there is
 * lost, or nothing is there. */
__attribute__((cold)) bool hole_pass(struct afar_queue *queue, struct operation *operation,
				     const struct step *step);
/* Asks the server for zeros. One message covers as many bytes as it may be about, up to a multiple
 * of that, so that blocks of stores are given whole. A trim of memory does nothing. */
int hole_post(struct afar_queue *queue, struct operation *operation, struct step *step);

/* ---- flush.c */

/* Called when the writes have completed. If that does not make them visible to everybody, reads
 * behind them on each server of the target. -EAGAIN: there was not enough room. */
int flush_advance(struct afar_queue *queue, struct operation *flush);

/* ---- completion.c */

/* It is done, unless it goes to a thread, as its target's kind says. */
void operation_finish(struct afar_queue *queue, struct operation *operation);
__attribute__((cold)) void operation_fail(struct afar_queue *queue, struct operation *operation,
					  int status, const struct peer *peer);
/* Takes completions of a fabric. */
void queue_complete(struct afar_queue *queue, const struct fabric_completion *completions, int nr);

#endif
