/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A party of a litmus test: a process with a session, one region that both parties share, and queues
 * connected to it. Ends its process with a line when anything fails that should not.
 *
 * Programs are played in slots, each with data, flags and a queue of its own. On verbs these are several at once,
 * so that a round does not cost the time of each of its transfers, which are slow there. Elsewhere there is one,
 * as more of them hide from each other what one of them would show.
 *
 * The region is striped over two servers, so that data is on both and flags are where most of it is not.
 */
#ifndef TESTS_PARTY_H
#define TESTS_PARTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <afar/afar.h>

#include "meeting.h"

#define PARTY_NAME	   "litmus" /* of the namespace and the region */
#define PARTY_SLOTS	   8U
#define PARTY_STRIPE	   ((uint64_t)64 << 10)
#define PARTY_DATA_MAX	   ((size_t)512 << 10)
#define PARTY_FLAG	   (PARTY_DATA_MAX + PARTY_STRIPE) /* second server */
#define PARTY_OTHER_FLAG   (PARTY_DATA_MAX)		   /* first server */
#define PARTY_BARRIER	   (PARTY_FLAG + PARTY_STRIPE)	   /* first server */
#define PARTY_REGION_BYTES ((uint64_t)1 << 20)

_Static_assert(PARTY_SLOTS <= MEETING_SAW_MAX, "each slot's byte is told");

enum party_piece { PARTY_DATA, PARTY_FLAG_BYTE, PARTY_OTHER_BYTE, PARTY_PIECES };

struct party {
	const char *name;
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_queue *queues[PARTY_SLOTS]; /* one for each slot, and two at least */
	struct afar_buffer *buffer;		/* laid out as the region is, up to the flags */
	uint64_t slot_bytes;			/* of data */
	unsigned nr_slots, nr_queues;
	struct afar_iov iovs[PARTY_PIECES][PARTY_SLOTS];
	unsigned nr_left[PARTY_SLOTS]; /* operations that have not completed, by their slot  */
	unsigned nr_in[PARTY_SLOTS];   /* the same, by the queue that they are in            */
	struct meeting *meeting;
};

/* `is_early`: its writes complete before they are in the server's memory, as on verbs, and flushes read behind
 * them. Makes as many slots as there is room for with data of that size. */
void party_open(struct party *party, const char *name, const char *uri, int meeting_fd,
		size_t data_bytes, bool is_early);
void party_close(struct party *party);

unsigned party_slots(size_t data_bytes);

/* A slot's piece in this process's memory. */
void *party_memory(const struct party *party, enum party_piece piece, unsigned slot);

/* An operation on a slot's piece: all of its data, or its byte. */
struct afar_op party_op(const struct party *party, unsigned opcode, unsigned flags,
			enum party_piece piece, unsigned slot);
struct afar_op party_flush(const struct party *party, unsigned flags, unsigned slot);

/* Submits operations of one slot to one of the queues. */
void party_submit(struct party *party, unsigned queue, const struct afar_op *ops, unsigned n);
/* Sleeps until something has completed. */
void party_poll(struct party *party);
/* Until nothing is left. */
void party_await(struct party *party);

_Noreturn void party_fail(const struct party *party, const char *what);

#endif
