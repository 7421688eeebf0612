/* SPDX-License-Identifier: BSD-3-Clause */
/* The processes of litmus tests: set-up, and operations in short. */
#include "party.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/session.h"
#include "early.h"
#include "lib/base/transport.h"

#define FLAG_STRIDE  64U /* flags do not lie in one line */
#define AT_ONCE	     16
#define BUFFER_BYTES (PARTY_FLAG + PARTY_STRIPE)

void party_fail(const struct party *party, const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", party->name, what, afar_last_error());
	_exit(2);
}

#define try(call)                                 \
	do {                                      \
		if ((call) < 0)                   \
			party_fail(party, #call); \
	} while (0)

/* ---- Where things are, in the region and in the buffer */

static uint64_t offset_of(const struct party *party, enum party_piece piece, unsigned slot)
{
	switch (piece) {
	case PARTY_FLAG_BYTE:
		return PARTY_FLAG + slot * FLAG_STRIDE;
	case PARTY_OTHER_BYTE:
		return PARTY_OTHER_FLAG + slot * FLAG_STRIDE;
	default:
		return slot * party->slot_bytes;
	}
}

void *party_memory(const struct party *party, enum party_piece piece, unsigned slot)
{
	return (char *)afar_buffer_data(party->buffer) + offset_of(party, piece, slot);
}

unsigned party_slots(size_t data_bytes)
{
	return is_on_verbs() && data_bytes * PARTY_SLOTS <= PARTY_DATA_MAX ? PARTY_SLOTS : 1;
}

static void describe_pieces(struct party *party)
{
	for (enum party_piece piece = 0; piece < PARTY_PIECES; piece++) {
		for (unsigned slot = 0; slot < party->nr_slots; slot++)
			party->iovs[piece][slot] = (struct afar_iov){
				.buffer = party->buffer,
				.addr = party_memory(party, piece, slot),
				.length = piece == PARTY_DATA ? party->slot_bytes : 1,
			};
	}
}

/* ---- Beginning and end */

void party_open(struct party *party, const char *name, const char *uri, int meeting_fd,
		size_t data_bytes, bool is_early)
{
	*party = (struct party){
		.name = name,
		.slot_bytes = data_bytes,
		.nr_slots = party_slots(data_bytes),
		.nr_queues = party_slots(data_bytes) == 1 ? 2 : PARTY_SLOTS,
		.meeting = meeting_join(meeting_fd),
	};
	try(afar_session_open(uri, NULL, &party->session));
	if (is_early) {
		unsigned number;

		try(fabrics_get(&party->session->fabrics, test_transport(), any_port(), &number));
		early_begin(fabrics_at(&party->session->fabrics, number));
	}
	try(afar_namespace_open(party->session, PARTY_NAME, &party->ns));
	try(afar_region_open(party->ns, PARTY_NAME, &party->region));
	try(afar_buffer_alloc(party->session, BUFFER_BYTES, &party->buffer));
	describe_pieces(party);
	for (unsigned i = 0; i < party->nr_queues; i++) {
		try(afar_queue_open(party->session, NULL, &party->queues[i]));
		try(afar_queue_connect(party->queues[i], afar_region_target(party->region)));
	}
}

void party_close(struct party *party)
{
	for (unsigned i = 0; i < party->nr_queues; i++)
		try(afar_queue_close(party->queues[i]));
	try(afar_buffer_unregister(party->buffer));
	try(afar_region_close(party->region));
	try(afar_namespace_close(party->ns));
	try(afar_session_close(party->session));
}

/* ---- Operations */

struct afar_op party_op(const struct party *party, unsigned opcode, unsigned flags,
			enum party_piece piece, unsigned slot)
{
	return (struct afar_op){
		.opcode = (uint16_t)opcode,
		.flags = (uint16_t)flags,
		.nr_iov = 1,
		.iov = &party->iovs[piece][slot],
		.offset = offset_of(party, piece, slot),
		.target = afar_region_target(party->region),
		.user_data = slot,
	};
}

struct afar_op party_flush(const struct party *party, unsigned flags, unsigned slot)
{
	return (struct afar_op){
		.opcode = AFAR_OP_FLUSH,
		.flags = (uint16_t)flags,
		.target = afar_region_target(party->region),
		.user_data = slot,
	};
}

void party_submit(struct party *party, unsigned queue, const struct afar_op *ops, unsigned n)
{
	if (afar_queue_submit(party->queues[queue], ops, n) != (int)n)
		party_fail(party, "submit");
	party->nr_left[ops[0].user_data] += n;
	party->nr_in[queue] += n;
}

/* Takes what has completed of one queue. */
static unsigned reap(struct party *party, unsigned queue)
{
	struct afar_completion completions[AT_ONCE];
	int count = afar_queue_wait(party->queues[queue], completions, AT_ONCE, 0, 0);

	if (count < 0)
		party_fail(party, "wait");
	for (int i = 0; i < count; i++) {
		if (completions[i].result < 0)
			party_fail(party, afar_strerror((int)completions[i].result));
		party->nr_left[completions[i].user_data]--;
	}
	party->nr_in[queue] -= (unsigned)count;
	return (unsigned)count;
}

static unsigned reap_all(struct party *party)
{
	unsigned count = 0;

	for (unsigned i = 0; i < party->nr_queues; i++)
		count += party->nr_in[i] ? reap(party, i) : 0;
	return count;
}

static void sleep_on_all(struct party *party)
{
	struct pollfd waits[PARTY_SLOTS];
	unsigned nr_waits = 0;

	for (unsigned i = 0; i < party->nr_queues; i++) {
		int ret = party->nr_in[i] ? afar_queue_arm(party->queues[i]) : 0;

		if (ret == -EAGAIN)
			return;
		if (ret)
			party_fail(party, "arm");
		if (party->nr_in[i])
			waits[nr_waits++] = (struct pollfd){.fd = afar_queue_fd(party->queues[i]),
							    .events = POLLIN};
	}
	poll(waits, nr_waits, -1);
}

void party_poll(struct party *party)
{
	while (!reap_all(party))
		sleep_on_all(party);
}

void party_await(struct party *party)
{
	for (unsigned slot = 0; slot < party->nr_slots; slot++) {
		while (party->nr_left[slot])
			party_poll(party);
	}
}
