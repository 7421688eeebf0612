/* SPDX-License-Identifier: BSD-3-Clause */
/* Wiping messages; see protobuf.h. Called by whoever frees a message of the control channel. */
#include "rpc/protobuf.h"

#include <malloc.h>
#include <openssl/crypto.h>

static void *take(void *unused, size_t size)
{
	(void)unused;
	return malloc(size);
}

static void wipe(void *unused, void *memory)
{
	(void)unused;
	if (memory)
		OPENSSL_cleanse(memory, malloc_usable_size(memory));
	free(memory);
}

ProtobufCAllocator protobuf_wiping = {.alloc = take, .free = wipe};
