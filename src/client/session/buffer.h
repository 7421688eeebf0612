/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers: local memory that is ready for transfers, the caller's own or the session's. */
#ifndef CLIENT_BUFFER_H
#define CLIENT_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/session.h"
#include "fabric/fabric.h"

struct afar_buffer {
	struct handle handle; /* in use while operations on it are in flight */
	struct afar_session *session;
	void *addr;
	uint64_t length;
	unsigned access; /* AFAR_ACCESS_… */
	bool is_ours;	 /* the memory came from the session's segments */
	bool is_mapping; /* it belongs to a mapping and is unmapped with it */
	struct fabrics_memory memory;
};

/* Makes a buffer of at least `length` bytes of populated memory. It does not count as a user of the
 * session. */
int buffer_new(struct afar_session *session, uint64_t length, struct afar_buffer **out);

/* Makes such a buffer of the caller's memory, and registers it if the fabric wants that. `access`:
 * AFAR_ACCESS_… */
int buffer_wrap(struct afar_session *session, void *addr, uint64_t length, unsigned access,
		struct afar_buffer **out);

/* Ends the registration and gives the memory back if it is ours; the handle has been closed. */
void buffer_destroy(struct afar_buffer *buffer);

/* Returns the address by which servers reach a byte of it, over a fabric on which they drive
 * transfers. */
static inline uint64_t buffer_remote(const struct afar_buffer *buffer, unsigned nr_fabric,
				     const void *addr)
{
	return buffer->memory.on[nr_fabric].base +
	       (uint64_t)((const char *)addr - (const char *)buffer->addr);
}

/* Returns whether [addr, addr + length) lies inside and `access` allows the use. */
static inline bool buffer_covers(const struct afar_buffer *buffer, const void *addr, size_t length,
				 unsigned access)
{
	uint64_t offset = (uint64_t)((const char *)addr - (const char *)buffer->addr);

	return (const char *)addr >= (const char *)buffer->addr && offset <= buffer->length &&
	       length <= buffer->length - offset && (buffer->access & access) == access;
}

#endif
