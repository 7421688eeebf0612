/* SPDX-License-Identifier: BSD-3-Clause */
/* Plain memory, bounced or registered for one transfer. Called by blocking.c. */
#include "client/blocking/plain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "client/session/buffer.h"
#include "memory/registration_cache.h"

#define PLAIN_BOUNCE_MIN ((uint64_t)4 << 10)

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
		log_warn("%s; until then plain memory is copied, in pieces of %u KiB at most",
			 error_last_line(), (unsigned)(PLAIN_BOUNCE_MAX >> 10));
}

/* ---- Bouncing */

/* Copies the part's bytes between the caller's pieces and the buffer, and moves on behind them. */
static void copy_part(struct plain *plain)
{
	char *bounced = plain->bounced.addr;
	uint64_t left = plain->length;

	while (left) {
		const struct afar_iov *piece = &plain->op->iov[plain->iov_index];
		char *addr = (char *)piece->addr + plain->iov_offset;
		uint64_t length = piece->length - plain->iov_offset;

		if (length > left)
			length = left;
		if (length && plain->op->opcode == AFAR_OP_WRITE)
			memcpy(bounced, addr, length);
		else if (length)
			memcpy(addr, bounced, length);
		bounced += length;
		left -= length;
		plain->iov_offset += length;
		if (plain->iov_offset == piece->length) {
			plain->iov_index++;
			plain->iov_offset = 0;
		}
	}
}

/* Makes the next part ready. */
static void bounce_part(struct plain *plain)
{
	plain->length =
		plain->remaining < plain->bounce->length ? plain->remaining : plain->bounce->length;
	plain->ready.offset = plain->op->offset + (plain->total - plain->remaining);
	plain->bounced.length = plain->length;
	if (plain->op->opcode == AFAR_OP_WRITE)
		copy_part(plain);
}

int plain_make_bounce(struct afar_queue *queue)
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

static int bounce(struct plain *plain, struct afar_queue *queue)
{
	int ret = plain_make_bounce(queue);

	if (ret)
		return ret;
	plain->bounce = queue->bounce;
	plain->bounced = (struct afar_iov){.buffer = queue->bounce, .addr = queue->bounce->addr};
	plain->ready.iov = &plain->bounced;
	plain->ready.nr_iov = 1;
	bounce_part(plain);
	return 0;
}

/* ---- Registering */

static void unregister_pieces(struct plain *plain)
{
	for (uint32_t i = 0; i < plain->ready.nr_iov; i++) {
		if (plain->kept && plain->kept[i])
			registration_give(plain->cache, plain->kept[i]);
		else if (plain->iov[i].buffer)
			buffer_destroy(plain->iov[i].buffer);
	}
	free(plain->kept);
	free(plain->iov);
	plain->kept = NULL;
	plain->iov = NULL;
}

/* Registers a piece. The session keeps only writable memory; other memory is registered for this
 * transfer. */
static int register_piece(struct plain *plain, struct afar_queue *queue, uint32_t i)
{
	unsigned access = plain->op->opcode == AFAR_OP_READ ? AFAR_ACCESS_WRITE : AFAR_ACCESS_READ;
	struct registration_cache *cache = queue->session->registrations;
	struct afar_iov *piece = &plain->iov[i];

	if (cache && registration_take(cache, piece->addr, piece->length, &plain->kept[i]) == 0) {
		piece->buffer = registration_handle(plain->kept[i]);
		return 0;
	}
	return buffer_wrap(queue->session, piece->addr, piece->length, access, &piece->buffer);
}

static int register_pieces(struct plain *plain, struct afar_queue *queue)
{
	int ret = 0;

	plain->cache = queue->session->registrations;
	plain->iov = calloc(plain->op->nr_iov, sizeof(*plain->iov));
	plain->kept = calloc(plain->op->nr_iov, sizeof(struct registration *));
	if (!plain->iov || !plain->kept) {
		free(plain->iov);
		free(plain->kept);
		return error_code(-ENOMEM);
	}
	for (uint32_t i = 0; i < plain->op->nr_iov && !ret; i++) {
		plain->iov[i] = plain->op->iov[i];
		if (plain->iov[i].length)
			ret = register_piece(plain, queue, i);
	}
	plain->ready.iov = plain->iov;
	if (ret)
		unregister_pieces(plain);
	return ret;
}

int plain_begin(struct plain *plain, struct afar_queue *queue, const struct afar_op *op,
		uint64_t length)
{
	bool is_wanted = queue->session->fabrics.needs_registration;
	int ret;

	*plain = (struct plain){
		.op = op, .ready = *op, .length = length, .total = length, .remaining = length};
	if (!is_wanted || !length || !op->nr_iov || op->iov[0].buffer)
		return 0;
	if (length <= PLAIN_BOUNCE_MAX)
		return bounce(plain, queue);
	ret = register_pieces(plain, queue);
	if (!is_want_of_memory(ret))
		return ret;
	warn_once(queue->session);
	atomic_fetch_add_explicit(&queue->session->nr_bounced, 1, memory_order_relaxed);
	plain->ready = *op;
	return bounce(plain, queue);
}

bool plain_go_on(struct plain *plain, int status)
{
	if (!plain->bounce || status)
		return false;
	if (plain->op->opcode == AFAR_OP_READ)
		copy_part(plain);
	plain->remaining -= plain->length;
	if (plain->remaining)
		bounce_part(plain);
	return plain->remaining > 0;
}

void plain_end(struct plain *plain)
{
	if (plain->iov)
		unregister_pieces(plain);
}
