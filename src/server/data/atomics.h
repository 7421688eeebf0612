/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics by the server's CPU. All atomics on a region are done here, whichever transport asks for
 * them, so they are atomic against each other. DESIGN: "memory model".
 */
#ifndef SERVER_ATOMICS_H
#define SERVER_ATOMICS_H

#include "rpc/message.h"
#include "server/memory/extent.h"

/*
 * Carries out the request, for a connection with this reach. The memory does not change hands
 * before this returns, because the caller is connected for it (extent_pool_word()). The reply's
 * status: -EOPNOTSUPP (kind), -EACCES (may not write), -EINVAL (not a multiple of 8), -ERANGE,
 * -AFAR_ELOST (no such extent for it).
 */
void atomics_serve(struct extent_pool *pool, struct reach reach,
		   const struct message_request *request, struct message_reply *reply);

#endif
