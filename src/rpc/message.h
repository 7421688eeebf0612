/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages on data connections: what a client has the server's CPU do. One request has one reply, in the
 * order of the requests; a client has at most MESSAGE_CREDITS requests on a connection that are not
 * replied to, because the server waits for so many.
 *
 * On the wire, little-endian.
 */
#ifndef RPC_MESSAGE_H
#define RPC_MESSAGE_H

#include <stdint.h>

#define MESSAGE_CREDITS 8

enum message_kind {
	MESSAGE_FETCH_ADD = 1,	  /* word += operand; the reply has what it was       */
	MESSAGE_COMPARE_SWAP = 2, /* if word == compare: word = operand; the same     */
};

/* On one 64-bit word of an extent, at a multiple of 8. */
struct message_request {
	uint32_t kind; /* enum message_kind; 0 is none: what was not filled in */
	uint32_t tag;  /* the sender's, repeated in the reply */
	uint64_t extent;
	uint64_t offset;
	uint64_t operand;
	uint64_t compare;
};
_Static_assert(sizeof(struct message_request) == 40, "as docs/protocol.md says");

struct message_reply {
	uint32_t tag;
	int32_t status; /* 0, or a negative code */
	uint64_t value; /* of the word, before; 0 on failure */
};
_Static_assert(sizeof(struct message_reply) == 16, "as docs/protocol.md says");

#endif
