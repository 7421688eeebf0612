/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unregistered memory in blocking calls, over a transport that wants local memory registered. Short
 * transfers go through a buffer of the queue; longer memory is registered for the transfer. If the
 * process may pin no more (RLIMIT_MEMLOCK) or the machine lacks memory, the transfer goes through
 * the buffer, too, part by part. Many short pieces are copied into one over other transports, too.
 */
#ifndef CLIENT_PLAIN_H
#define CLIENT_PLAIN_H

#include "client/queue/queue.h"

#define PLAIN_BOUNCE_MAX ((uint64_t)64 << 10)

struct unregistered {
	const struct afar_op *op;   /* as the caller gave it */
	struct afar_op ready;	    /* the next part of it, or all, for the transport */
	uint64_t length;	    /* bytes of `ready` */
	uint64_t total;		    /* bytes of `op` */
	uint64_t remaining;	    /* bytes of `op` from `ready` on */
	struct afar_buffer *bounce; /* the queue's, if it is used */
	void *gathered; /* instead, over a transport that wants nothing registered; or NULL */
	struct afar_iov bounced; /* the memory of `bounce`, or the gathered */
	struct iov_walk copied;	 /* of `op`: how far its memory was copied */
	struct afar_iov *iov;	 /* of registered pieces, or NULL */
	struct registration_cache *cache;
	struct registration **kept; /* registered pieces that the session keeps, or NULL */
};

/* Makes `unregistered->ready` out of an operation, all of whose memory is unregistered or in buffers. If it
 * fails, there is nothing to end. Errors as buffer_new() and buffer_wrap(). */
int unregistered_begin(struct unregistered *unregistered, struct afar_queue *queue,
		       const struct afar_op *op, uint64_t length);

/* Takes the end of `unregistered->ready` with `status`: copies what was read to its place. Returns whether
 * there is another part, which is then ready. */
bool unregistered_go_on(struct unregistered *unregistered, int status);

/* Makes the queue's buffer, of as many bytes as can be pinned, unless it has one. Errors as
 * buffer_new(). */
int unregistered_make_bounce(struct afar_queue *queue);

/* Ends the transfer, after the last part. */
void unregistered_end(struct unregistered *unregistered);

#endif
