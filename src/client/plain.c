/* SPDX-License-Identifier: BSD-3-Clause */
/* Plain memory, bounced or registered for one transfer. Called by blocking.c. */
#include "client/plain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "client/buffer.h"
#include "memory/registration_cache.h"

/* ---- Bouncing */

static void copy_in(struct plain *plain)
{
	char *to = plain->bounced.addr;

	for (uint32_t i = 0; i < plain->op->nr_iov; i++) {
		if (plain->op->iov[i].length)
			memcpy(to, plain->op->iov[i].addr, plain->op->iov[i].length);
		to += plain->op->iov[i].length;
	}
}

static void copy_out(const struct plain *plain)
{
	const char *from = plain->bounced.addr;

	for (uint32_t i = 0; i < plain->op->nr_iov; i++) {
		if (plain->op->iov[i].length)
			memcpy(plain->op->iov[i].addr, from, plain->op->iov[i].length);
		from += plain->op->iov[i].length;
	}
}

static int bounce(struct plain *plain, struct afar_queue *queue, uint64_t length)
{
	if (!queue->bounce) {
		int ret = buffer_new(queue->session, PLAIN_BOUNCE_MAX, &queue->bounce);

		if (ret)
			return ret;
	}
	plain->bounce = queue->bounce;
	plain->bounced = (struct afar_iov){
		.buffer = queue->bounce, .addr = queue->bounce->addr, .length = length};
	plain->ready.iov = &plain->bounced;
	plain->ready.nr_iov = 1;
	if (plain->op->opcode == AFAR_OP_WRITE)
		copy_in(plain);
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

/* What the session keeps is writable; memory that is not, is registered for the one transfer. */
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

	*plain = (struct plain){.op = op, .ready = *op};
	if (!is_wanted || !length || op->iov[0].buffer)
		return 0;
	return length <= PLAIN_BOUNCE_MAX ? bounce(plain, queue, length)
					  : register_pieces(plain, queue);
}

void plain_end(struct plain *plain, int status)
{
	if (plain->bounce && plain->op->opcode == AFAR_OP_READ && !status)
		copy_out(plain);
	if (plain->iov)
		unregister_pieces(plain);
}
