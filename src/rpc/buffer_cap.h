/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits the bytes that the peers of a loop's accepted connections make us buffer, all together.
 * These are frames that have not come in full, and frames that they do not read. Each connection
 * has bounds of its own (connection.h), but many connections must not exhaust the machine either.
 * When the cap is exceeded, the connection with the most bytes is closed.
 */
#ifndef RPC_BUFFER_CAP_H
#define RPC_BUFFER_CAP_H

#include <stdatomic.h>
#include <stddef.h>
#include <urcu/list.h>

#include "rpc/loop.h"

/* Several of the largest frames. */
#define BUFFER_CAP_BYTES ((size_t)256 << 20)

/* A loop's count. */
struct buffer_cap {
	atomic_size_t bytes;
	/* Those of accepted connections, the oldest first. For the loop's thread alone. */
	struct cds_list_head parts;
	struct loop_task relief;
};

/* A connection's part of the count. Zeroed: it does not count. */
struct buffer_cap_part {
	struct cds_list_head node;
	struct buffer_cap *cap;
	atomic_size_t bytes;
};

static inline void buffer_cap_init(struct buffer_cap *cap)
{
	*cap = (struct buffer_cap){.bytes = 0};
	CDS_INIT_LIST_HEAD(&cap->parts);
}
/* Count a connection in and out, on the loop's thread. After leaving, nothing is added or
 * removed. */
void buffer_cap_enter(struct buffer_cap *cap, struct buffer_cap_part *part);
void buffer_cap_leave(struct buffer_cap_part *part);

/* Adds bytes, from any thread. May have the loop's thread close a connection soon. */
void buffer_cap_add(struct rpc_loop *loop, struct buffer_cap_part *part, size_t bytes);
void buffer_cap_remove(struct buffer_cap_part *part, size_t bytes);

#endif
