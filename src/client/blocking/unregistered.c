/* SPDX-License-Identifier: BSD-3-Clause */
/* Plain memory, bounced or registered for one transfer. Called by blocking.c. */
#include "client/blocking/unregistered.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "client/session/buffer.h"
#include "memory/registration_cache.h"

#define PLAIN_BOUNCE_MIN ((uint64_t)4 << 10)
/* Many pieces that are so short on average are copied anyway: they are few transfers then. */
#define SHORT_PIECE_MAX 1024U
#define GATHERED_MAX	((uint64_t)1 << 20)

/* Returns whether memory could not be pinned: there is too little of it, or the process may pin no
 * more. */
static bool is_want_of_memory(int status)
{
	return status == -ENOMEM || status == -EAGAIN;
}

/* Warns after a failure that has left its line: the transfer goes on, but slowly. */
static void warn_once(struct afar_session *session)
{
	if (!atomic_exchange_explicit(&session->has_warned_of_pinning, true, memory_order_relaxed))
		log_warn(
			"%s; until then unregistered memory is copied, in pieces of %u KiB at most",
			error_last_line(), (unsigned)(PLAIN_BOUNCE_MAX >> 10));
}

/* ---- Bouncing */

/* Copies the part's bytes between the caller's pieces and the buffer, and moves on behind them. */
static void copy_part(struct unregistered *unregistered)
{
	char *bounced = unregistered->bounced.addr;
	uint64_t left = unregistered->length;

	while (left) {
		void *addr;
		uint64_t length = iov_walk_on(&unregistered->copied, left, &addr);

		if (length && unregistered->op->opcode == AFAR_OP_WRITE)
			memcpy(bounced, addr, length);
		else if (length)
			memcpy(addr, bounced, length);
		bounced += length;
		left -= length;
	}
}

/* Makes the next part ready. */
static void bounce_part(struct unregistered *unregistered)
{
	unregistered->length = unregistered->remaining < unregistered->bounce->length
				       ? unregistered->remaining
				       : unregistered->bounce->length;
	unregistered->ready.offset =
		unregistered->op->offset + (unregistered->total - unregistered->remaining);
	unregistered->bounced.length = unregistered->length;
	if (unregistered->op->opcode == AFAR_OP_WRITE)
		copy_part(unregistered);
}

int unregistered_make_bounce(struct afar_queue *queue)
{
	uint64_t length = PLAIN_BOUNCE_MAX;
	int ret = queue->bounce ? 0 : buffer_new(queue->session, length, &queue->bounce);

	while (is_want_of_memory(ret) && length > PLAIN_BOUNCE_MIN) {
		warn_once(queue->session);
		length /= 2;
		ret = buffer_new(queue->session, length, &queue->bounce);
	}
	return ret;
}

static int bounce(struct unregistered *unregistered, struct afar_queue *queue)
{
	int ret = unregistered_make_bounce(queue);

	if (ret)
		return ret;
	unregistered->bounce = queue->bounce;
	unregistered->bounced =
		(struct afar_iov){.buffer = queue->bounce, .addr = queue->bounce->addr};
	unregistered->ready.iov = &unregistered->bounced;
	unregistered->ready.nr_iov = 1;
	bounce_part(unregistered);
	return 0;
}

/* ---- Registering */

static void unregister_pieces(struct unregistered *unregistered)
{
	for (uint32_t i = 0; i < unregistered->ready.nr_iov; i++) {
		if (unregistered->kept && unregistered->kept[i])
			registration_give(unregistered->cache, unregistered->kept[i]);
		else if (unregistered->iov[i].buffer)
			buffer_destroy(unregistered->iov[i].buffer);
	}
	free(unregistered->kept);
	free(unregistered->iov);
	unregistered->kept = NULL;
	unregistered->iov = NULL;
}

/* Registers a piece. The session keeps only writable memory; other memory is registered for this
 * transfer. */
static int register_piece(struct unregistered *unregistered, struct afar_queue *queue, uint32_t i)
{
	unsigned access =
		unregistered->op->opcode == AFAR_OP_READ ? AFAR_ACCESS_WRITE : AFAR_ACCESS_READ;
	struct registration_cache *cache = queue->session->registrations;
	struct afar_iov *piece = &unregistered->iov[i];

	if (cache &&
	    registration_take(cache, piece->addr, piece->length, &unregistered->kept[i]) == 0) {
		piece->buffer = registration_handle(unregistered->kept[i]);
		return 0;
	}
	return buffer_wrap(queue->session, piece->addr, piece->length, access, &piece->buffer);
}

static int register_pieces(struct unregistered *unregistered, struct afar_queue *queue)
{
	int ret = 0;

	unregistered->cache = queue->session->registrations;
	unregistered->iov = calloc(unregistered->op->nr_iov, sizeof(*unregistered->iov));
	unregistered->kept = calloc(unregistered->op->nr_iov, sizeof(struct registration *));
	if (!unregistered->iov || !unregistered->kept) {
		free(unregistered->iov);
		free(unregistered->kept);
		return error_code(-ENOMEM);
	}
	for (uint32_t i = 0; i < unregistered->op->nr_iov && !ret; i++) {
		unregistered->iov[i] = unregistered->op->iov[i];
		if (unregistered->iov[i].length)
			ret = register_piece(unregistered, queue, i);
	}
	unregistered->ready.iov = unregistered->iov;
	if (ret)
		unregister_pieces(unregistered);
	return ret;
}

/* Copies many short pieces of memory into one, if there is memory for it. */
static void gather_short(struct unregistered *unregistered)
{
	const struct afar_op *op = unregistered->op;

	if (op->nr_iov <= FABRIC_IOV_MAX || unregistered->length / op->nr_iov > SHORT_PIECE_MAX ||
	    unregistered->length > GATHERED_MAX)
		return;
	unregistered->gathered = malloc(unregistered->length);
	if (!unregistered->gathered)
		return;
	unregistered->bounced =
		(struct afar_iov){.addr = unregistered->gathered, .length = unregistered->length};
	unregistered->ready.iov = &unregistered->bounced;
	unregistered->ready.nr_iov = 1;
	if (op->opcode == AFAR_OP_WRITE)
		copy_part(unregistered);
}

int unregistered_begin(struct unregistered *unregistered, struct afar_queue *queue,
		       const struct afar_op *op, uint64_t length)
{
	bool is_wanted = queue->session->fabrics.needs_registration;
	int ret;

	*unregistered = (struct unregistered){.op = op,
					      .ready = *op,
					      .length = length,
					      .total = length,
					      .remaining = length,
					      .copied.piece = op->iov};
	if (!length || !op->nr_iov || op->iov[0].buffer)
		return 0;
	if (!is_wanted) {
		gather_short(unregistered);
		return 0;
	}
	if (length <= PLAIN_BOUNCE_MAX)
		return bounce(unregistered, queue);
	ret = register_pieces(unregistered, queue);
	if (!is_want_of_memory(ret))
		return ret;
	warn_once(queue->session);
	atomic_fetch_add_explicit(&queue->session->nr_bounced, 1, memory_order_relaxed);
	unregistered->ready = *op;
	return bounce(unregistered, queue);
}

bool unregistered_go_on(struct unregistered *unregistered, int status)
{
	if ((!unregistered->bounce && !unregistered->gathered) || status)
		return false;
	if (unregistered->op->opcode == AFAR_OP_READ)
		copy_part(unregistered);
	unregistered->remaining -= unregistered->length;
	if (unregistered->remaining && unregistered->bounce)
		bounce_part(unregistered);
	return unregistered->remaining > 0;
}

void unregistered_end(struct unregistered *unregistered)
{
	free(unregistered->gathered);
	if (unregistered->iov)
		unregister_pieces(unregistered);
}
