/* SPDX-License-Identifier: BSD-3-Clause */
/* Zeros memory on the connection's thread. A request is small enough to hold up nobody else. */
#include "server/memory/zero.h"

#include <errno.h>
#include <string.h>

int zero_check(struct reach reach, const struct message_request *request, uint64_t length_max)
{
	if (request->length == 0 || request->length > length_max ||
	    request->flags & ~(uint64_t)(MESSAGE_ZERO_DURABLE | MESSAGE_ZERO_TRIM))
		return -EINVAL;
	return reach.may_write ? 0 : -EACCES;
}

void zero_serve(struct extent_pool *pool, struct reach reach, const struct message_request *request,
		struct message_reply *reply)
{
	char *bytes;

	reply->status = zero_check(reach, request, MESSAGE_ZERO_MAX);
	if (reply->status == 0 && request->flags & MESSAGE_ZERO_DURABLE)
		reply->status = -EOPNOTSUPP;
	if (reply->status == 0)
		reply->status = extent_pool_bytes(pool, request->extent, reach.namespace, true,
						  request->offset, request->length, &bytes);
	if (reply->status == 0 && !(request->flags & MESSAGE_ZERO_TRIM))
		memset(bytes, 0, request->length);
}
