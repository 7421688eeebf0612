/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of driven connections, and their encoding. All fields are little-endian on the wire.
 * Each message begins with its kind and its length in bytes. The functions touch nothing but their
 * arguments.
 */
#ifndef FABRIC_DRIVEN_WIRE_H
#define FABRIC_DRIVEN_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/checksum.h"
#include "fabric/paged.h"

#define DRIVEN_DEPTH	32U /* asks of a connection without an answer */
#define DRIVEN_SUMS_MAX (FABRIC_PAGED_MAX / CHECKSUM_BLOCK)

enum driven_kind {
	DRIVEN_NOTE = 1, /* a message of those above the fabric: its bytes follow */
	DRIVEN_ASK = 2,
	DRIVEN_ANSWER = 3,
};

struct driven_head {
	uint32_t kind;	 /* enum driven_kind; 0 is none: a message that was not filled in */
	uint32_t length; /* bytes of the message, these included */
};

/* A piece of the asking end's memory, as its fabric lends it. */
struct driven_piece {
	uint64_t addr, key;
	uint32_t length, reserved;
};

enum driven_flags { DRIVEN_WRITE = 0x1, DRIVEN_DURABLE = 0x2, DRIVEN_CHECKED = 0x4 };
#define DRIVEN_FLAGS 0x7U

/* A transfer that is asked for. The sums of a checked write follow. */
struct driven_ask {
	struct driven_head head;
	uint32_t number; /* below DRIVEN_DEPTH: comes back with the answer */
	uint32_t flags;	 /* DRIVEN_… */
	uint64_t key, offset;
	uint32_t length;
	uint32_t nr_pieces;
	struct driven_piece pieces[FABRIC_IOV_MAX];
};
_Static_assert(sizeof(struct driven_ask) == 136, "as docs/protocol.md says");

/* The sums of a checked read follow, if it has succeeded. */
struct driven_answer {
	struct driven_head head;
	uint32_t number;
	int32_t status; /* 0, or a negative code: the transfer has failed alone */
};
_Static_assert(sizeof(struct driven_answer) == 16, "as docs/protocol.md says");

/* Any message. */
struct driven_message {
	union {
		struct driven_head head;
		struct driven_ask ask;
		struct driven_answer answer;
		uint8_t bytes[sizeof(struct driven_ask) + DRIVEN_SUMS_MAX * sizeof(uint32_t)];
	};
};

static inline uint32_t driven_nr_sums(uint64_t length)
{
	return (uint32_t)((length + CHECKSUM_BLOCK - 1) / CHECKSUM_BLOCK);
}

/* Encoding sets the head, too, and returns how many bytes the message has. Decoding takes the
 * message as it came, and returns what is wrong with it, as the end of a sentence; NULL: nothing. */

/* `length` is at most DRIVEN_NOTE_MAX. */
#define DRIVEN_NOTE_MAX (sizeof(struct driven_message) - sizeof(struct driven_head))
size_t driven_encode_note(struct driven_message *out, const void *bytes, size_t length);
const char *driven_decode_note(const struct driven_message *message, const void **bytes,
			       size_t *length);

/* `sums`: of a checked write; NULL: none. */
size_t driven_encode_ask(struct driven_message *out, const struct driven_ask *ask,
			 const uint32_t *sums);
const char *driven_decode_ask(const struct driven_message *message, struct driven_ask *out);
/* Takes the sums of a checked write that was decoded without a fault. `sums` has room for them. */
void driven_take_sums(const struct driven_message *message, const struct driven_ask *ask,
		      uint32_t *sums);

/* `sums` are `nr_sums`, of a checked read. */
size_t driven_encode_answer(struct driven_message *out, uint32_t number, int status,
			    const uint32_t *sums, uint32_t nr_sums);
/* `sums` has room for DRIVEN_SUMS_MAX; `*nr_sums` tells how many there are. */
const char *driven_decode_answer(const struct driven_message *message, uint32_t *number,
				 int *status, uint32_t *sums, uint32_t *nr_sums);

/* Returns the kind that a message says that it is. */
uint32_t driven_kind_of(const struct driven_message *message);

#endif
