/* SPDX-License-Identifier: BSD-3-Clause */
/* Zeros: reading them where a target has no memory, and having servers make them. */
#include <errno.h>
#include <string.h>

#include "client/queue/progress.h"

/* ---- Moving operations on */

bool hole_pass(struct afar_queue *queue, struct operation *operation, const struct step *step)
{
	struct iov_walk at = operation->memory;
	uint64_t left = opcode_moves_none(operation->opcode) ? 0 : step->length;

	if (step->is_lost || step->is_past) {
		operation_fail(queue, operation, step->is_lost ? -AFAR_ELOST : -ERANGE, NULL);
		return false;
	}
	if (opcode_writes(operation->opcode)) {
		operation_fail(queue, operation, -ENXIO, NULL);
		return false;
	}
	while (left) {
		void *addr;
		uint64_t length = iov_walk_on(&at, left, &addr);

		if (length)
			memset(addr, 0, length);
		left -= length;
	}
	operation_move_on(operation, step->length);
	return true;
}

int hole_post(struct afar_queue *queue, struct operation *operation, struct step *step)
{
	const bool is_trim = operation->opcode == AFAR_OP_TRIM;
	const bool is_durable = operation->flags & AFAR_OP_DURABLE;
	const uint64_t max = step->peer->store ? MESSAGE_ZERO_STORE_MAX : MESSAGE_ZERO_MAX;
	const uint64_t to_next = max - step->offset % max;
	struct message_request request = {
		.kind = MESSAGE_ZERO,
		.extent = step->extent,
		.offset = step->offset,
		.flags =
			(is_trim ? MESSAGE_ZERO_TRIM : 0) | (is_durable ? MESSAGE_ZERO_DURABLE : 0),
	};

	if (is_trim && !step->peer->store)
		return 0;
	if (step->length > to_next)
		step->length = to_next;
	request.length = step->length;
	return post_message(queue, operation, step, &request);
}
