/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages on data connections. A client sends requests that the server carries out. Each request
 * has one reply, in the order of the requests. A client has at most MESSAGE_CREDITS requests
 * without a reply on a connection, because the server waits for so many.
 *
 * All fields are little-endian on the wire.
 */
#ifndef RPC_MESSAGE_H
#define RPC_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#define MESSAGE_CREDITS 8

enum message_kind {
	MESSAGE_FETCH_ADD = 1,	  /* word += operand; the reply has the old word */
	MESSAGE_COMPARE_SWAP = 2, /* if word == compare: word = operand; reply as above */
	/* The server moves bytes when it has room, one-sided, between the extent and memory that
	 * the client has registered. */
	MESSAGE_PULL = 3, /* from the client's memory to the extent */
	MESSAGE_PUSH = 4, /* from the extent to the client's memory */
	/* When the reply comes, all that has ended on a store, by anybody, survives the loss of
	 * power. The operand is the store's opening that the sender remembers. The reply's value is
	 * the present one, also with the status -AFAR_EUNSYNCED: an opening since then ended
	 * unclean. */
	MESSAGE_SYNC = 5,
	/* Has `length` bytes read as zeros. The flags are those of MESSAGE_ZERO_…. */
	MESSAGE_ZERO = 6,
	/* A store brings the pages that have these `length` bytes into its cache, as far as it likes. The
	 * reply, at once, says whether it knows them. */
	MESSAGE_WILL_NEED = 7,
};

#define MESSAGE_MOVE_MAX ((uint64_t)1 << 20) /* bytes of a pull or a push */
/* Bytes of a zero: in memory few, because the processor writes them; in a store they are trimmed. */
#define MESSAGE_ZERO_MAX       ((uint64_t)1 << 20)
#define MESSAGE_ZERO_STORE_MAX ((uint64_t)256 << 20)

#define MESSAGE_NEED_MAX ((uint64_t)1 << 20) /* bytes that will be needed */

#define MESSAGE_ZERO_DURABLE 1U /* in a store: it survives the loss of power when the reply comes */
/* It may leave as they were: bytes of a block of a store of which only a part is given; in memory,
 * all. */
#define MESSAGE_ZERO_TRIM 2U

/* A request is about one 64-bit word of an extent, at a multiple of 8, or about `length` bytes. */
struct message_request {
	uint32_t kind; /* enum message_kind; 0 is none: a request that was not filled in */
	uint32_t tag;  /* the sender's, repeated in the reply */
	uint64_t extent;
	uint64_t offset;
	union {
		uint64_t operand;
		/* 1 to MESSAGE_MOVE_MAX for a pull or push. 1 to MESSAGE_ZERO_MAX or
		 * MESSAGE_ZERO_STORE_MAX for a zero. 1 to MESSAGE_NEED_MAX for what is needed. */
		uint64_t length;
	};
	union {
		uint64_t compare;
		uint64_t flags;	  /* MESSAGE_ZERO_… */
		uint64_t address; /* of the client's memory, as with any remote memory */
	};
	uint64_t key; /* the key of the client's memory */
};
_Static_assert(sizeof(struct message_request) == 48, "as docs/protocol.md says");

#define MESSAGE_ATOMIC_BYTES 40 /* a request that is no move ends before the key */

static inline bool message_is_move(uint32_t kind)
{
	return kind == MESSAGE_PULL || kind == MESSAGE_PUSH;
}

struct message_reply {
	uint32_t tag;
	int32_t status; /* 0, or a negative code */
	uint64_t value; /* the old word; 0 on failure */
};
_Static_assert(sizeof(struct message_reply) == 16, "as docs/protocol.md says");

#endif
