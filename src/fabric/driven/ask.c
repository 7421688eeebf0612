/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The asking end: transfers to a peer's paged memory, each a message and its answer. Called through the
 * fabric seam, and by endpoint.c and queue.c. An endpoint that connects owns its part here.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/error.h"
#include "fabric/driven/driven.h"
#include "fabric/sums.h"

_Static_assert(DRIVEN_DEPTH <= UINT8_MAX, "a byte is a number");

int driven_ask_open(struct driven_endpoint *endpoint)
{
	endpoint->asked = calloc(DRIVEN_DEPTH, sizeof(*endpoint->asked));
	if (!endpoint->asked)
		return error_code(-ENOMEM);
	endpoint->nr_free = DRIVEN_DEPTH;
	for (unsigned i = 0; i < DRIVEN_DEPTH; i++)
		endpoint->free[i] = (uint8_t)(DRIVEN_DEPTH - 1 - i);
	return 0;
}

void driven_ask_close(struct driven_endpoint *endpoint)
{
	free(endpoint->asked);
}

/* ---- Asking */

/* Says where the pieces are for the peer. False: one is in no memory that is lent. */
static bool describe_pieces(const struct fabric_piece *pieces, unsigned nr_pieces,
			    struct driven_ask *ask)
{
	for (unsigned i = 0; i < nr_pieces; i++) {
		const struct driven_memory *memory = pieces[i].descriptor;

		if (pieces[i].length == 0)
			continue;
		if (!memory)
			return false;
		ask->pieces[ask->nr_pieces++] = (struct driven_piece){
			.addr = memory->below.base +
				(uint64_t)((uint8_t *)pieces[i].addr - memory->addr),
			.key = memory->below.key,
			.length = (uint32_t)pieces[i].length,
		};
	}
	return true;
}

static uint64_t length_of(const struct fabric_piece *pieces, unsigned nr_pieces)
{
	uint64_t length = 0;

	for (unsigned i = 0; i < nr_pieces; i++) {
		if (__builtin_add_overflow(length, pieces[i].length, &length))
			return UINT64_MAX;
	}
	return length;
}

static void make_sums(const struct fabric_piece *pieces, unsigned nr_pieces, uint64_t length,
		      uint32_t *sums)
{
	struct iovec iov[FABRIC_IOV_MAX];

	for (unsigned i = 0; i < nr_pieces; i++)
		iov[i] = (struct iovec){pieces[i].addr, pieces[i].length};
	fabric_sums_make(iov, length, sums);
}

static size_t encode(struct driven_message *message, const struct driven_ask *ask,
		     const struct fabric_piece *pieces, unsigned nr_pieces)
{
	uint32_t sums[DRIVEN_SUMS_MAX];

	if ((ask->flags & DRIVEN_WRITE) == 0 || (ask->flags & DRIVEN_CHECKED) == 0)
		return driven_encode_ask(message, ask, NULL);
	make_sums(pieces, nr_pieces, ask->length, sums);
	return driven_encode_ask(message, ask, sums);
}

static void take_place(struct driven_endpoint *endpoint, const struct driven_ask *ask,
		       const struct fabric_piece *pieces, unsigned nr_pieces, uint64_t context)
{
	struct driven_asked *asked = &endpoint->asked[ask->number];

	endpoint->nr_free--;
	*asked = (struct driven_asked){
		.context = context,
		.length = ask->length,
		.flags = ask->flags,
		.nr_pieces = nr_pieces,
		.is_under_way = true,
		.is_sending = true,
	};
	memcpy(asked->pieces, pieces, nr_pieces * sizeof(*pieces));
}

static int transfer(struct fabric_endpoint *base, const struct fabric_piece *pieces,
		    unsigned nr_pieces, const struct driven_ask *like, uint64_t context)
{
	struct driven_endpoint *endpoint = driven_container(base, struct driven_endpoint);
	const uint64_t length = nr_pieces <= FABRIC_IOV_MAX ? length_of(pieces, nr_pieces) : 0;
	struct driven_ask ask = *like;
	struct driven_message *message;
	int ret;

	if (!endpoint->is_connected || endpoint->is_broken || !endpoint->asked)
		return -ENOTCONN;
	if (nr_pieces == 0 || nr_pieces > FABRIC_IOV_MAX || context > FABRIC_CONTEXT_MAX)
		return -EINVAL;
	if (length > FABRIC_PAGED_MAX)
		return -EMSGSIZE;
	if (endpoint->nr_free == 0)
		return -EAGAIN;
	ask.length = (uint32_t)length;
	ask.number = endpoint->free[endpoint->nr_free - 1];
	if (!describe_pieces(pieces, nr_pieces, &ask))
		return -EINVAL;
	message = &endpoint->slots->out[ask.number];
	ret = driven_post_message(endpoint, message, encode(message, &ask, pieces, nr_pieces),
				  DRIVEN_SEND_ASK | ask.number);
	if (ret == 0)
		take_place(endpoint, &ask, pieces, nr_pieces, context);
	return ret;
}

int driven_read(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	const struct driven_ask ask = {.key = key, .offset = remote};

	return transfer(endpoint, pieces, nr_pieces, &ask, context);
}

int driven_write(struct fabric_endpoint *endpoint, const struct fabric_piece *pieces,
		 unsigned nr_pieces, uint64_t remote, uint64_t key, uint64_t context)
{
	const struct driven_ask ask = {.flags = DRIVEN_WRITE, .key = key, .offset = remote};

	return transfer(endpoint, pieces, nr_pieces, &ask, context);
}

_Static_assert((unsigned)DRIVEN_WRITE == FABRIC_PAGED_WRITE &&
		       (unsigned)DRIVEN_DURABLE == FABRIC_PAGED_DURABLE &&
		       (unsigned)DRIVEN_CHECKED == FABRIC_PAGED_CHECKED,
	       "flags go as they are");

/* Hints do not go along. */
int driven_paged_transfer(struct fabric_endpoint *endpoint, unsigned flags,
			  const struct fabric_piece *pieces, unsigned nr_pieces, uint64_t remote,
			  uint64_t key, uint64_t context)
{
	const struct driven_ask ask = {.flags = flags & DRIVEN_FLAGS, .key = key, .offset = remote};

	return transfer(endpoint, pieces, nr_pieces, &ask, context);
}

/* ---- Answers */

/* Its place is free when the message's memory is, and it was answered. */
static void give_place(struct driven_endpoint *endpoint, uint32_t number)
{
	const struct driven_asked *asked = &endpoint->asked[number];

	if (!asked->is_sending && !asked->is_under_way)
		endpoint->free[endpoint->nr_free++] = (uint8_t)number;
}

void driven_ask_sent(struct driven_endpoint *endpoint, uint32_t number)
{
	endpoint->asked[number].is_sending = false;
	give_place(endpoint, number);
}

/* The bytes of a read have come before its answer. */
static bool are_sums_right(const struct driven_asked *asked, const uint32_t *theirs)
{
	uint32_t sums[DRIVEN_SUMS_MAX];

	make_sums(asked->pieces, asked->nr_pieces, asked->length, sums);
	return memcmp(sums, theirs, driven_nr_sums(asked->length) * sizeof(*sums)) == 0;
}

static void finish(struct driven_endpoint *endpoint, uint32_t number, int status,
		   struct fabric_completion *out)
{
	struct driven_asked *asked = &endpoint->asked[number];

	*out = (struct fabric_completion){.context = asked->context, .status = status};
	asked->is_under_way = false;
	give_place(endpoint, number);
}

const char *driven_ask_answered(struct driven_endpoint *endpoint,
				const struct driven_message *message, struct fabric_completion *out)
{
	struct driven_queue *queue = driven_queue_of(endpoint);
	uint32_t sums[DRIVEN_SUMS_MAX], number, nr_sums;
	const struct driven_asked *asked;
	int status;
	const char *problem = driven_decode_answer(message, &number, &status, sums, &nr_sums);
	bool is_checked_read;

	if (problem)
		return problem;
	asked = &endpoint->asked[number];
	if (!asked->is_under_way)
		return "an answer to what nobody asked";
	is_checked_read = (asked->flags & (DRIVEN_WRITE | DRIVEN_CHECKED)) == DRIVEN_CHECKED;
	if (nr_sums != (is_checked_read && status == 0 ? driven_nr_sums(asked->length) : 0))
		return "an answer with too many or too few sums";
	if (status == 0)
		counter_add((asked->flags & DRIVEN_WRITE) != 0 ? &queue->base.bytes_out
							       : &queue->base.bytes_in,
			    asked->length);
	if (status == 0 && is_checked_read && !are_sums_right(asked, sums)) {
		finish(endpoint, number, -EBADMSG, out);
		out->is_altered = true;
	} else {
		finish(endpoint, number, status, out);
	}
	out->is_alone = out->status != 0;
	return NULL;
}

bool driven_ask_fail(struct driven_endpoint *endpoint, struct fabric_completion *out)
{
	for (uint32_t i = 0; i < DRIVEN_DEPTH && endpoint->asked; i++) {
		if (!endpoint->asked[i].is_under_way)
			continue;
		finish(endpoint, i, endpoint->status, out);
		return true;
	}
	return false;
}
