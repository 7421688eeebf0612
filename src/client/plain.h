/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plain memory in blocking calls, over a transport that wants local memory registered: what is short goes
 * through a buffer of the queue's, what is longer is registered for the transfer. Where that is refused, because
 * the process may pin no more (RLIMIT_MEMLOCK) or the machine lacks memory, it goes through the buffer too, part by part.
 */
#ifndef CLIENT_PLAIN_H
#define CLIENT_PLAIN_H

#include "client/queue.h"

#define PLAIN_BOUNCE_MAX ((uint64_t)64 << 10)

struct plain {
	const struct afar_op *op;   /* as the caller gave it */
	struct afar_op ready;	    /* what of it is next, for the transport: all, or a part */
	uint64_t length;	    /* of that */
	uint64_t total;		    /* of `op` */
	uint64_t remaining;	    /* of that: from `ready` on */
	struct afar_buffer *bounce; /* the queue's, if it is used */
	struct afar_iov bounced;    /* the piece of `bounce` */
	uint32_t iov_index;	    /* of `op`: where bytes that were not copied begin */
	size_t iov_offset;
	struct afar_iov *iov; /* of registered pieces, or NULL */
	struct registration_cache *cache;
	struct registration **kept; /* those of them that the session keeps, or NULL */
};

/* Makes `plain->ready` out of an operation, all of whose memory is plain or in buffers. Whatever it returns,
 * nothing is left to end when it is not 0. Errors as buffer_new() and buffer_wrap(). */
int plain_begin(struct plain *plain, struct afar_queue *queue, const struct afar_op *op,
		uint64_t length);

/* `plain->ready` has ended with `status`: what was read is where it belongs. Whether there is more, which is
 * ready then. */
bool plain_go_on(struct plain *plain, int status);

/* After the last. */
void plain_end(struct plain *plain);

#endif
