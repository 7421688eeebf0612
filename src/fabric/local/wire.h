/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What two processes of one machine say to each other. Over the socket go whole packets: a hello from the
 * connecting end, then messages both ways. The accepting end makes the link, memory that both have mapped, with
 * a ring for each direction, and sends it with its welcome.
 *
 * Whatever lies in the link can change at any moment to anything: each word is read once, and checked.
 */
#ifndef FABRIC_LOCAL_WIRE_H
#define FABRIC_LOCAL_WIRE_H

#include <stdatomic.h>
#include <stdint.h>

#include "fabric/fabric.h"

#define LOCAL_WIRE_MAGIC   0x6c666161U /* "aafl" */
#define LOCAL_WIRE_VERSION 4U

/* Of the private data comes what there is. */
struct local_hello {
	uint32_t magic;
	uint16_t version;
	uint16_t private_length;
	uint8_t private_data[FABRIC_PRIVATE_MAX];
};
#define LOCAL_HELLO_HEAD 8U
_Static_assert(offsetof(struct local_hello, private_data) == LOCAL_HELLO_HEAD, "no padding");

enum local_message_type {
	LOCAL_WELCOME =
		1,    /* length: the link's; with its descriptor                               */
	LOCAL_ASK,    /* for the memory behind `key`                                           */
	LOCAL_LEND,   /* the answer: `length` bytes, for `access`, with their descriptor       */
	LOCAL_REVOKE, /* `key` has ended: its memory is to be unmapped                         */
	LOCAL_WAKE,   /* something has changed in the link since its reader went to sleep      */
};

struct local_message {
	uint32_t magic;
	uint16_t version;
	uint8_t type;
	uint8_t access; /* FABRIC_REMOTE_* */
	uint64_t key;
	uint64_t length;
};
_Static_assert(sizeof(struct local_message) == 24, "no padding");

#define LOCAL_RING_BYTES 32768U /* a power of two, and a multiple of LOCAL_RING_ALIGN */
#define LOCAL_RING_ALIGN 8U	/* messages begin at multiples of it                   */

/* What one end tells the other. Only that end writes it, but for the two that are taken back by whoever
 * has acted on them. */
struct local_side {
	/* Bytes put into the ring that this end writes, and taken out of the other. They only grow. */
	_Alignas(64) atomic_uint written;
	_Alignas(64) atomic_uint taken;
	_Alignas(64)
		atomic_uint is_asleep; /* wants LOCAL_WAKE when the other ring has more           */
	atomic_uint wants_room; /* wants LOCAL_WAKE when its own ring has been emptied some */
	/* Looked at before and after memory is touched, so alone in its line. */
	_Alignas(64)
		atomic_uint nr_revoked; /* LOCAL_REVOKE that were sent before; LOCAL_ENDED: all */
	/* How much of this end may be at the other's memory just now, each of which is counted before it looks at the
	 * other's nr_revoked, and then at the memory: who has ended all and finds 0 knows that nobody comes any more. */
	_Alignas(64) atomic_uint nr_touching;
	struct fabric_inside
		at_windows[HOLD_NUMBERS]; /* the same, of threads that come and go by themselves */
	/* The kernel puts barriers between its ending all and its looking who touches: constant. */
	_Alignas(64) bool reaches_all;
};
#define LOCAL_ENDED UINT32_MAX

enum local_side_index { LOCAL_CONNECTING_SIDE, LOCAL_ACCEPTING_SIDE, LOCAL_NR_SIDES };

struct local_link {
	struct local_side sides[LOCAL_NR_SIDES];
	/* Messages: a length and 0, 32 bits each; the bytes; up to LOCAL_RING_ALIGN - 1 of any. */
	_Alignas(4096) uint8_t rings[LOCAL_NR_SIDES][LOCAL_RING_BYTES];
};
_Static_assert(sizeof(struct local_link) % 4096 == 0, "it is mapped");

#endif
