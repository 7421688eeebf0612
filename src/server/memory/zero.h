/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zeros by the server's CPU: clients have bytes of memory read as zeros without sending any. Those
 * of stores are store_zero.c's.
 */
#ifndef SERVER_ZERO_H
#define SERVER_ZERO_H

#include "rpc/message.h"
#include "server/memory/extent.h"

/* Checks a request for at most `length_max` bytes: 0, -EINVAL (length or flags), -EACCES (may not
 * write). Does not look at the extent. */
int zero_check(struct reach reach, const struct message_request *request, uint64_t length_max);

/*
 * Carries out MESSAGE_ZERO in memory, for a connection with this reach. The memory does not change
 * hands before this returns, because the caller is connected for it (extent_pool_bytes()). The
 * reply's status: those of zero_check(), -EOPNOTSUPP (durable), -AFAR_ELOST (no such extent for it),
 * -ERANGE, -EROFS (sealed).
 */
void zero_serve(struct extent_pool *pool, struct reach reach, const struct message_request *request,
		struct message_reply *reply);

#endif
