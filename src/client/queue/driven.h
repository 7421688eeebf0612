/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations with AFAR_OP_DRIVEN: the message to the server. */
#ifndef CLIENT_DRIVEN_H
#define CLIENT_DRIVEN_H

#include "client/queue/queue.h"

/* Makes the message, in host order, that asks the server to move an operation's next bytes. It
 * moves them between its extent at `offset` and `piece`, the operation's next memory, as many as
 * one message may ask for. The path's fabric is driven. */
void driven_request(const struct operation *operation, const struct path *path, uint64_t extent,
		    uint64_t offset, const struct fabric_piece *piece, struct message_request *out);

#endif
