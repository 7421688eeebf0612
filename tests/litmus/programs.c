/* SPDX-License-Identifier: BSD-3-Clause */
/* The litmus tests' programs, as docs/memory-model.md has them: two for each, which run in processes of their own. */
#include "programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <afar/barrier.h>

#include "lib/base/transport.h"
#include "party.h"

/* ---- Message passing: the writer */

/* All but those through two queues. */
static void publish(struct party *party, enum order order, unsigned slot)
{
	struct afar_op data = party_op(party, AFAR_OP_WRITE, 0, PARTY_DATA, slot);
	struct afar_op flag = party_op(party, AFAR_OP_WRITE, AFAR_OP_AFTER, PARTY_FLAG_BYTE, slot);
	struct afar_op flush = party_flush(party, 0, slot);

	switch (order) {
	case BY_NOTHING:
		flag.flags = 0;
		/* fall through */
	case BY_AFTER:
	case BY_AFTER_EARLY:
		party_submit(party, slot, (struct afar_op[]){data, flag}, 2);
		break;
	default:
		party_submit(party, slot, (struct afar_op[]){data, flush, flag}, 3);
	}
}

/* Data and flush through one; as soon as they have completed, the flag through the next. */
static void publish_through_two(struct party *party)
{
	unsigned nr_published = 0;
	bool is_published[PARTY_SLOTS] = {false};

	for (unsigned slot = 0; slot < party->nr_slots; slot++)
		party_submit(party, slot,
			     (struct afar_op[]){
				     party_op(party, AFAR_OP_WRITE, 0, PARTY_DATA, slot),
				     party_flush(party, 0, slot),
			     },
			     2);
	while (nr_published < party->nr_slots) {
		party_poll(party);
		for (unsigned slot = 0; slot < party->nr_slots; slot++) {
			struct afar_op flag =
				party_op(party, AFAR_OP_WRITE, 0, PARTY_FLAG_BYTE, slot);

			if (is_published[slot] || party->nr_left[slot])
				continue;
			party_submit(party, (slot + 1) % party->nr_queues, &flag, 1);
			is_published[slot] = true;
			nr_published++;
		}
	}
}

static void fill_slot(struct party *party, const struct role *role, unsigned slot, uint64_t round)
{
	uint64_t *data = party_memory(party, PARTY_DATA, slot);

	for (size_t i = 0; i < role->data_bytes / sizeof(uint64_t); i++)
		data[i] = round;
	*(uint8_t *)party_memory(party, PARTY_FLAG_BYTE, slot) = (uint8_t)round;
}

static bool is_early(const struct role *role)
{
	return role->order == BY_FLUSH_EARLY || role->order == BY_AFTER_EARLY;
}

/* Returns whether the reader says through the servers that it has read all of it. This keeps them as busy as they are
 * under programs, and shows many times what is to be seen when the two meet elsewhere. On verbs it takes too long, and
 * is done only where the writer has to go on polling, for the writes that it holds back. */
static bool is_answered(const struct role *role)
{
	return !is_on_verbs() || is_early(role);
}

static void await_answer(struct party *party, uint64_t round)
{
	const uint8_t *answer = party_memory(party, PARTY_OTHER_BYTE, 0);
	const struct afar_op look = party_op(party, AFAR_OP_READ, 0, PARTY_OTHER_BYTE, 0);

	/* Not through the queue of the slot's data: a read behind that pushes it to where it is seen. */
	do {
		party_submit(party, 1, &look, 1);
		party_await(party);
	} while (*answer != (uint8_t)round);
}

static void write_rounds(struct party *party, const struct role *role)
{
	for (uint64_t round = 1; round <= role->nr_rounds; round++) {
		for (unsigned slot = 0; slot < party->nr_slots; slot++)
			fill_slot(party, role, slot, round);
		if (role->order == BY_TWO_QUEUES) {
			publish_through_two(party);
		} else {
			for (unsigned slot = 0; slot < party->nr_slots; slot++)
				publish(party, role->order, slot);
		}
		party_await(party);
		if (is_answered(role))
			await_answer(party, round);
		else
			meeting_wait(party->meeting);
	}
}

/* ---- Message passing: the reader */

/* The reader has asked for this in a slot. */
enum asking { FOR_FLAG, FOR_DATA, FOR_NOTHING };

static void ask_for_flag(struct party *party, const struct role *role, unsigned slot)
{
	const struct afar_op ops[] = {
		party_op(party, AFAR_OP_READ, 0, PARTY_FLAG_BYTE, slot),
		party_op(party, AFAR_OP_READ, AFAR_OP_AFTER, PARTY_DATA, slot),
	};

	party_submit(party, slot, ops, role->is_pair ? 2 : 1);
}

static bool is_stale(const struct party *party, const struct role *role, unsigned slot,
		     uint64_t round)
{
	const uint64_t *data = party_memory(party, PARTY_DATA, slot);

	for (size_t i = 0; i < role->data_bytes / sizeof(uint64_t); i++) {
		if (data[i] != round)
			return true;
	}
	return false;
}

/* All that was asked for in a slot is there: what to ask for next. */
static enum asking look(struct party *party, const struct role *role, unsigned slot, uint64_t round,
			enum asking asking, struct findings *findings)
{
	const uint8_t flag = *(uint8_t *)party_memory(party, PARTY_FLAG_BYTE, slot);
	const struct afar_op data = party_op(party, AFAR_OP_READ, 0, PARTY_DATA, slot);

	if (asking == FOR_FLAG && flag != (uint8_t)round) {
		findings->nr_back += flag != (uint8_t)(round - 1);
		ask_for_flag(party, role, slot);
		return FOR_FLAG;
	}
	if (asking == FOR_FLAG && !role->is_pair) {
		party_submit(party, slot, &data, 1);
		return FOR_DATA;
	}
	findings->nr_stale += is_stale(party, role, slot, round);
	return FOR_NOTHING;
}

static void read_round(struct party *party, const struct role *role, uint64_t round,
		       struct findings *findings)
{
	enum asking asking[PARTY_SLOTS] = {FOR_FLAG};
	unsigned nr_asking = party->nr_slots;

	for (unsigned slot = 0; slot < party->nr_slots; slot++)
		ask_for_flag(party, role, slot);
	while (nr_asking) {
		party_poll(party);
		for (unsigned slot = 0; slot < party->nr_slots; slot++) {
			if (asking[slot] == FOR_NOTHING || party->nr_left[slot])
				continue;
			asking[slot] = look(party, role, slot, round, asking[slot], findings);
			nr_asking -= asking[slot] == FOR_NOTHING;
		}
	}
}

static void give_answer(struct party *party, uint64_t round)
{
	/* The last must not be under way when the process ends. */
	const struct afar_op answer[] = {
		party_op(party, AFAR_OP_WRITE, 0, PARTY_OTHER_BYTE, 0),
		party_flush(party, 0, 0),
	};

	*(uint8_t *)party_memory(party, PARTY_OTHER_BYTE, 0) = (uint8_t)round;
	party_submit(party, 0, answer, 2);
	party_await(party);
}

static void read_rounds(struct party *party, const struct role *role, struct findings *findings)
{
	for (uint64_t round = 1; round <= role->nr_rounds; round++) {
		read_round(party, role, round, findings);
		if (is_answered(role))
			give_answer(party, round);
		else
			meeting_wait(party->meeting);
	}
}

/* ---- Two that do the same: the first has the flag for its byte, the second the other flag */

/* An operation on the byte of one of them. */
static struct afar_op byte_op(const struct party *party, unsigned opcode, unsigned flags,
			      unsigned whose, unsigned slot)
{
	return party_op(party, opcode, flags, whose ? PARTY_OTHER_BYTE : PARTY_FLAG_BYTE, slot);
}

static uint8_t *byte_of(const struct party *party, unsigned whose, unsigned slot)
{
	return party_memory(party, whose ? PARTY_OTHER_BYTE : PARTY_FLAG_BYTE, slot);
}

/* Store buffering: each writes its own byte, then reads the other's. */
static void store_and_look(struct party *party, enum order order, unsigned self, unsigned slot)
{
	struct afar_op ops[3] = {
		byte_op(party, AFAR_OP_WRITE, 0, self, slot),
		party_flush(party, 0, slot),
		byte_op(party, AFAR_OP_READ, AFAR_OP_AFTER, !self, slot),
	};

	if (order == BY_NOTHING)
		ops[1] = byte_op(party, AFAR_OP_READ, 0, !self, slot);
	party_submit(party, slot, ops, order == BY_NOTHING ? 2 : 3);
}

static void store_rounds(struct party *party, const struct role *role, struct findings *findings)
{
	const unsigned self = role->name == 'y';
	const uint8_t *saw[2] = {party->meeting->saw[0], party->meeting->saw[1]};

	for (uint64_t round = 1; round <= role->nr_rounds; round++) {
		for (unsigned slot = 0; slot < party->nr_slots; slot++)
			*byte_of(party, self, slot) = (uint8_t)round;
		meeting_wait(party->meeting);
		for (unsigned slot = 0; slot < party->nr_slots; slot++)
			store_and_look(party, role->order, self, slot);
		party_await(party);
		for (unsigned slot = 0; slot < party->nr_slots; slot++)
			party->meeting->saw[self][slot] = *byte_of(party, !self, slot);
		meeting_wait(party->meeting);
		/* Both would count the same. */
		for (unsigned slot = 0; self == 0 && slot < party->nr_slots; slot++)
			findings->nr_stale +=
				saw[0][slot] != (uint8_t)round && saw[1][slot] != (uint8_t)round;
	}
}

/* A barrier: each writes its own byte, and reads the other's behind the barrier. */
static void barrier_rounds(struct party *party, const struct role *role, struct findings *findings)
{
	const unsigned self = role->name == 'c';
	const struct afar_barrier_options options = {
		.size = sizeof(options),
		.offset = PARTY_BARRIER,
		.nr_members = 2,
		.member = self,
	};
	const struct afar_op publish[] = {byte_op(party, AFAR_OP_WRITE, 0, self, 0),
					  party_flush(party, 0, 0)};
	const struct afar_op look = byte_op(party, AFAR_OP_READ, 0, !self, 0);
	struct afar_barrier *barrier;

	if (afar_barrier_open(party->region, &options, -1, &barrier))
		party_fail(party, "open the barrier");
	for (uint64_t round = 1; round <= role->nr_rounds; round++) {
		*byte_of(party, self, 0) = (uint8_t)round;
		party_submit(party, 0, publish, 2);
		party_await(party);
		if (afar_barrier_wait(barrier, -1))
			party_fail(party, "wait at the barrier");
		party_submit(party, 0, &look, 1);
		party_await(party);
		findings->nr_stale += *byte_of(party, !self, 0) != (uint8_t)round;
		/* Nobody writes the next before both have looked. */
		meeting_wait(party->meeting);
	}
	afar_barrier_close(barrier);
}

/* ---- Which of them this process runs */

static void run(struct party *party, const struct role *role, struct findings *findings)
{
	switch (role->name) {
	case 'w':
		write_rounds(party, role);
		break;
	case 'r':
		read_rounds(party, role, findings);
		break;
	case 'x':
	case 'y':
		store_rounds(party, role, findings);
		break;
	default:
		barrier_rounds(party, role, findings);
	}
}

void role_write(const struct role *role, char *out)
{
	snprintf(out, ROLE_TEXT_MAX, "%c %u %u %u %u %d", role->name, role->order, role->nr_rounds,
		 role->data_bytes, role->is_pair, role->meeting);
}

int role_run(char **argv)
{
	static struct party party;
	struct findings findings = {0};
	int say = atoi(argv[3]);
	struct role role;
	char ready = 0;

	if (sscanf(argv[1], "%c %u %u %u %u %d", &role.name, &role.order, &role.nr_rounds,
		   &role.data_bytes, &role.is_pair, &role.meeting) != 6)
		return 1;
	party_open(&party, argv[1], argv[2], role.meeting, role.data_bytes, is_early(&role));
	if (write(say, &ready, 1) != 1)
		return 1;
	meeting_wait(party.meeting);
	run(&party, &role, &findings);
	if (write(say, &findings, sizeof(findings)) != sizeof(findings))
		return 1;
	party_close(&party);
	return 0;
}
