/* SPDX-License-Identifier: BSD-3-Clause */
/* Making messages of protobuf-c. */
#ifndef RPC_PROTOBUF_H
#define RPC_PROTOBUF_H

#include <stdlib.h>

/* Makes a new message, for PREFIX__free_unpacked(); NULL: no memory. */
#define MESSAGE_NEW(prefix, type)                           \
	({                                                  \
		type *message_ = malloc(sizeof(*message_)); \
		if (message_)                               \
			prefix##__init(message_);           \
		message_;                                   \
	})

#endif
