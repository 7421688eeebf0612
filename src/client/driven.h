/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations with AFAR_OP_DRIVEN: what is asked of the server. */
#ifndef CLIENT_DRIVEN_H
#define CLIENT_DRIVEN_H

#include "client/queue.h"

/* The message, in host order, by which the server moves the next bytes of an operation between `at` and `piece`, which is the
 * operation's next memory: as many as one message may ask for. The path's fabric is driven. */
void driven_request(const struct operation *operation, const struct path *path,
		    const struct layout_piece *at, const struct fabric_piece *piece,
		    struct message_request *out);

#endif
