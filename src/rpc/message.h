/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages on data connections: what a client has the server do. One request has one reply, in the
 * order of the requests; a client has at most MESSAGE_CREDITS requests on a connection that are not
 * replied to, because the server waits for so many.
 *
 * On the wire, little-endian.
 */
#ifndef RPC_MESSAGE_H
#define RPC_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#define MESSAGE_CREDITS 8

enum message_kind {
	MESSAGE_FETCH_ADD = 1,	  /* word += operand; the reply has what it was       */
	MESSAGE_COMPARE_SWAP = 2, /* if word == compare: word = operand; the same     */
	/* The server moves bytes, when it has room, one-sided: between the extent and memory that the client
	 * has registered. */
	MESSAGE_PULL = 3, /* out of the client's memory: a write */
	MESSAGE_PUSH = 4, /* into the client's memory: a read    */
};

#define MESSAGE_MOVE_MAX ((uint64_t)1 << 20) /* bytes of a pull or a push */

/* On one 64-bit word of an extent, at a multiple of 8; or on `length` bytes. */
struct message_request {
	uint32_t kind; /* enum message_kind; 0 is none: what was not filled in */
	uint32_t tag;  /* the sender's, repeated in the reply */
	uint64_t extent;
	uint64_t offset;
	union {
		uint64_t operand;
		uint64_t length; /* of a pull or push: 1 to MESSAGE_MOVE_MAX */
	};
	union {
		uint64_t compare;
		uint64_t address; /* of the client's memory, as with any remote memory */
	};
	uint64_t key; /* of that */
};
_Static_assert(sizeof(struct message_request) == 48, "as docs/protocol.md says");

#define MESSAGE_ATOMIC_BYTES 40 /* of a request for an atomic, which ends before the key */

static inline bool message_is_move(uint32_t kind)
{
	return kind == MESSAGE_PULL || kind == MESSAGE_PUSH;
}

struct message_reply {
	uint32_t tag;
	int32_t status; /* 0, or a negative code */
	uint64_t value; /* of the word, before; 0 on failure */
};
_Static_assert(sizeof(struct message_reply) == 16, "as docs/protocol.md says");

#endif
