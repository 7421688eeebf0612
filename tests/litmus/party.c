/* SPDX-License-Identifier: BSD-3-Clause */
/* The processes of litmus tests: set-up, and operations in short. */
#include "party.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../transport.h"
#include "client/session.h"
#include "early.h"

#define PAGE	4096
#define OPS_MAX 8

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

static void describe_pieces(struct party *party)
{
	char *memory = afar_buffer_data(party->buffer);

	party->data = (void *)memory;
	party->flag = (uint8_t *)memory + PARTY_DATA_MAX;
	party->answer = party->flag + PAGE;
	party->iovs[PARTY_DATA] = (struct afar_iov){party->buffer, party->data, 0};
	party->iovs[PARTY_FLAG_BYTE] = (struct afar_iov){party->buffer, party->flag, 1};
	party->iovs[PARTY_ANSWER_BYTE] = (struct afar_iov){party->buffer, party->answer, 1};
}

void party_open(struct party *party, const char *name, const char *uri, bool is_early)
{
	*party = (struct party){.name = name};
	try(afar_session_open(uri, NULL, &party->session));
	if (is_early) {
		unsigned number;

		try(fabrics_get(&party->session->fabrics, test_transport(), any_port(), &number));
		early_begin(fabrics_at(&party->session->fabrics, number));
	}
	try(afar_namespace_open(party->session, PARTY_NAME, &party->ns));
	try(afar_region_open(party->ns, PARTY_NAME, &party->region));
	try(afar_buffer_alloc(party->session, PARTY_DATA_MAX + 2 * PAGE, &party->buffer));
	describe_pieces(party);
	for (unsigned i = 0; i < 2; i++) {
		try(afar_queue_open(party->session, NULL, &party->queues[i]));
		try(afar_queue_connect(party->queues[i], afar_region_target(party->region)));
	}
}

void party_close(struct party *party)
{
	for (unsigned i = 0; i < 2; i++)
		try(afar_queue_close(party->queues[i]));
	try(afar_buffer_unregister(party->buffer));
	try(afar_region_close(party->region));
	try(afar_namespace_close(party->ns));
	try(afar_session_close(party->session));
}

struct afar_op party_op(struct party *party, unsigned opcode, unsigned flags,
			enum party_piece piece, size_t length)
{
	static const uint64_t offsets[] = {0, PARTY_FLAG, PARTY_ANSWER};

	party->iovs[piece].length = length;
	return (struct afar_op){
		.opcode = (uint16_t)opcode,
		.flags = (uint16_t)flags,
		.nr_iov = 1,
		.iov = &party->iovs[piece],
		.offset = offsets[piece],
		.target = afar_region_target(party->region),
	};
}

struct afar_op party_flush(struct party *party, unsigned flags)
{
	return (struct afar_op){
		.opcode = AFAR_OP_FLUSH,
		.flags = (uint16_t)flags,
		.target = afar_region_target(party->region),
	};
}

void party_run(struct party *party, unsigned queue, const struct afar_op *ops, unsigned n)
{
	struct afar_completion completions[OPS_MAX];

	if (afar_queue_submit(party->queues[queue], ops, n) != (int)n)
		party_fail(party, "submit");
	if (afar_queue_wait(party->queues[queue], completions, OPS_MAX, n, -1) != (int)n)
		party_fail(party, "wait");
	for (unsigned i = 0; i < n; i++) {
		if (completions[i].result < 0)
			party_fail(party, afar_strerror((int)completions[i].result));
	}
}
