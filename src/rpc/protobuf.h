/* SPDX-License-Identifier: BSD-3-Clause */
/* Making messages of protobuf-c. */
#ifndef RPC_PROTOBUF_H
#define RPC_PROTOBUF_H

#include <stdlib.h>

#include <protobuf-c/protobuf-c.h>

/* Frees memory of malloc()'s after wiping it: for PREFIX__free_unpacked() of a message that may have had secrets. */
extern ProtobufCAllocator protobuf_wiping;

/* Makes a new message, for PREFIX__free_unpacked(); NULL: no memory. */
#define MESSAGE_NEW(prefix, type)                           \
	({                                                  \
		type *message_ = malloc(sizeof(*message_)); \
		if (message_)                               \
			prefix##__init(message_);           \
		message_;                                   \
	})

#endif
