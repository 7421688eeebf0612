/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds messages for driven operations. Pure: called by post.c, owns nothing. */
#include "client/queue/driven.h"

#include "client/session/buffer.h"

void driven_request(const struct operation *operation, const struct path *path, uint64_t extent,
		    uint64_t offset, const struct fabric_piece *piece, struct message_request *out)
{
	const struct afar_iov *iov = operation->memory.piece;

	while (!iov->length)
		iov++;
	*out = (struct message_request){
		.kind = operation->opcode == AFAR_OP_WRITE ? MESSAGE_PULL : MESSAGE_PUSH,
		.extent = extent,
		.offset = offset,
		.length = piece->length < MESSAGE_MOVE_MAX ? piece->length : MESSAGE_MOVE_MAX,
		.address = buffer_remote(iov->buffer, path->nr_fabric, piece->addr),
		.key = iov->buffer->memory.on[path->nr_fabric].key,
	};
}
