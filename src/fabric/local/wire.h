/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The format of the messages and of the shared memory between two processes of one machine. Whole
 * packets go over the socket: a hello from the connecting end, then messages both ways. The
 * accepting end makes the link, which is memory that both ends map, and sends it with its welcome.
 * The link has a ring for each direction.
 *
 * The peer can change anything in the link at any moment. Therefore each word is read once, and
 * checked.
 */
#ifndef FABRIC_LOCAL_WIRE_H
#define FABRIC_LOCAL_WIRE_H

#include <stdatomic.h>
#include <stdint.h>

#include "fabric/mapped.h"

#define LOCAL_WIRE_MAGIC   0x6c666161U /* "aafl" */
#define LOCAL_WIRE_VERSION 4U

/* Private data is sent at its real length, not padded. */
struct local_hello {
	uint32_t magic;
	uint16_t version;
	uint16_t private_length;
	uint8_t private_data[FABRIC_PRIVATE_MAX];
};
#define LOCAL_HELLO_HEAD 8U
_Static_assert(offsetof(struct local_hello, private_data) == LOCAL_HELLO_HEAD, "no padding");

enum local_message_type {
	LOCAL_WELCOME = 1, /* comes with the link's descriptor; length: the link's */
	LOCAL_ASK,	   /* asks for the memory behind `key`; access: LOCAL_TAKES_REFERENCES */
	LOCAL_LEND,	   /* the answer: `length` bytes, for `access`, with their descriptor */
	LOCAL_REVOKE,	   /* `key` has ended: unmap its memory */
	LOCAL_WAKE,	   /* the link has changed since its reader went to sleep */
	/* The answer if a pager has the memory. The first on a connection comes with the descriptor
	 * of its exchange (exchange.h). It was added last: only those who ask for keys of paged memory
	 * hear it. */
	LOCAL_PAGED,
	/* With descriptors, to those alone who take references (references.h). A page says whether this
	 * end lives; slab `key` comes in the place of an earlier one. */
	LOCAL_LIFE,
	LOCAL_SLAB,
};
#define LOCAL_TAKES_REFERENCES 0x80U /* earlier versions do not look at it */

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
#define LOCAL_RING_ALIGN 8U	/* messages begin at multiples of this */

/* One end's words to the other. Only that end writes them, with two exceptions. The other end
 * resets is_asleep and wants_room when it sends LOCAL_WAKE. It sets nr_revoked to LOCAL_ENDED when
 * this end has died. */
struct local_side {
	/* Bytes put into this end's ring, and bytes taken out of the other's. They only grow. */
	_Alignas(64) atomic_uint written;
	_Alignas(64) atomic_uint taken;
	_Alignas(64) atomic_uint is_asleep; /* wants LOCAL_WAKE when the other ring has more */
	atomic_uint wants_room;		    /* wants LOCAL_WAKE when its own ring has more room */
	/* LOCAL_REVOKEs sent so far; LOCAL_ENDED: all keys have ended. Read before and after memory
	 * is touched, and therefore alone in its cache line. */
	_Alignas(64) atomic_uint nr_revoked;
	/* How many accesses of this end to the other's memory may be under way. It counts each
	 * before it reads the other's nr_revoked, and only then touches memory. An end that has set
	 * LOCAL_ENDED and then reads 0 knows that nobody touches its memory any more. */
	_Alignas(64) atomic_uint nr_touching;
	struct fabric_inside
		at_windows[EPOCH_NUMBERS]; /* as nr_touching, of threads that use windows */
	/* Constant. Between setting LOCAL_ENDED and reading the counts, this end has the kernel put
	 * barriers into the other end's threads (epoch_reach_all()). */
	_Alignas(64) bool reaches_all;
};
#define LOCAL_ENDED UINT32_MAX

enum local_side_index { LOCAL_CONNECTING_SIDE, LOCAL_ACCEPTING_SIDE, LOCAL_NR_SIDES };

struct local_link {
	struct local_side sides[LOCAL_NR_SIDES];
	/* Each message is its length and 0, of 32 bits each; its bytes; and padding of any value,
	 * up to a multiple of LOCAL_RING_ALIGN. */
	_Alignas(4096) uint8_t rings[LOCAL_NR_SIDES][LOCAL_RING_BYTES];
};
_Static_assert(sizeof(struct local_link) % 4096 == 0, "it is mapped");

#endif
