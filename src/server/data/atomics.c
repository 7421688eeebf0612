/* SPDX-License-Identifier: BSD-3-Clause */
/* Carries out atomics. They are sequentially consistent, on words in the machine's byte order,
 * which is that of the wire. */
#include "server/data/atomics.h"

#include <endian.h>
#include <errno.h>

#include "base/error.h"

_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "regions' words are little-endian");

void atomics_serve(struct extent_pool *pool, struct reach reach,
		   const struct message_request *request, struct message_reply *reply)
{
	uint64_t *word, expected = request->compare;

	if (request->kind != MESSAGE_FETCH_ADD && request->kind != MESSAGE_COMPARE_SWAP)
		reply->status = -EOPNOTSUPP;
	else if (!reach.may_write)
		reply->status = -EACCES;
	else
		reply->status = extent_pool_word(pool, request->extent, reach.namespace,
						 request->offset, &word);
	if (reply->status != 0)
		return;
	if (request->kind == MESSAGE_FETCH_ADD) {
		reply->value = __atomic_fetch_add(word, request->operand, __ATOMIC_SEQ_CST);
	} else {
		__atomic_compare_exchange_n(word, &expected, request->operand, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		reply->value = expected;
	}
}
