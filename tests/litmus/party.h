/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A party of a litmus test: a process with a session, one region that all parties share, and two queues
 * connected to it. Ends its process with a line when anything fails that should not.
 *
 * The region is striped over two servers, so that data is on both and flags are where most of it is not.
 */
#ifndef TESTS_PARTY_H
#define TESTS_PARTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <afar/afar.h>

#define PARTY_NAME	   "litmus" /* of the namespace and the region */
#define PARTY_STRIPE	   ((uint64_t)64 << 10)
#define PARTY_DATA_MAX	   ((size_t)512 << 10)
#define PARTY_FLAG	   (PARTY_DATA_MAX + PARTY_STRIPE) /* second server */
#define PARTY_ANSWER	   (PARTY_DATA_MAX)		   /* first server */
#define PARTY_BARRIER	   (PARTY_FLAG + PARTY_STRIPE)	   /* first server */
#define PARTY_REGION_BYTES ((uint64_t)1 << 20)

struct party {
	const char *name;
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_queue *queues[2];
	struct afar_buffer *buffer; /* of PARTY_DATA_MAX bytes and two pages */
	uint64_t *data;
	uint8_t *flag, *answer;
	struct afar_iov iovs[3]; /* of these */
};

enum party_piece { PARTY_DATA, PARTY_FLAG_BYTE, PARTY_ANSWER_BYTE };

/* `is_early`: its writes complete before they are in the server's memory, as on verbs, and flushes read behind
 * them. */
void party_open(struct party *party, const char *name, const char *uri, bool is_early);
void party_close(struct party *party);

/* An operation on one of the pieces, of `length` bytes. */
struct afar_op party_op(struct party *party, unsigned opcode, unsigned flags,
			enum party_piece piece, size_t length);
struct afar_op party_flush(struct party *party, unsigned flags);

/* Submits them to one of the queues at once, and waits for all. */
void party_run(struct party *party, unsigned queue, const struct afar_op *ops, unsigned n);

_Noreturn void party_fail(const struct party *party, const char *what);

#endif
