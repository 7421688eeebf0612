/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Driven connections: the serving end moves bytes between peers and what a pager brings and keeps. The fabric
 * below knows nothing of that. Here the test is the pager and its device,
 * and makes both ends go on. Peers are clients of ours, or ends of the fabric below that send what
 * they like. By AFAR_TEST_TRANSPORT, over tcp or verbs.
 */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <urcu/compiler.h>

#include "base/clock.h"
#include "fabric/driven/wire.h"
#include "fabric/paged.h"
#include "fabric/sums.h"
#include "lib/base/transport.h"
#include "lib/fabric/fabric_fixture.h"
#include "lib/fabric/paged_store.h"
#include "unit/group.h"

#define MINE  (2 * MIB)
#define WORD  64U
#define LONG  (200U << 10)
#define BLOCK CHECKSUM_BLOCK

struct world {
	struct fabric *fabrics[2]; /* ours, theirs */
	struct fabric_queue *queues[2];
	struct fabric_listener *listener;
	struct fabric_memory memory;
	uint8_t *mine; /* MINE bytes, lent */
	struct paged_store store;
};

/* ---- The world */

static const char *below(void)
{
	return is_on_verbs() ? "verbs" : "tcp";
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	char transport[32];

	assert_non_null(world);
	snprintf(transport, sizeof(transport), "%s-driven", below());
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(fabric_open_at(transport, any_port(), &world->fabrics[i]), 0);
		assert_int_equal(fabric_queue_open(world->fabrics[i], DEPTH, &world->queues[i]), 0);
	}
	assert_string_equal(world->fabrics[0]->attributes.transport, transport);
	assert_int_equal(fabric_listen(world->fabrics[1], any_port(), &world->listener), 0);
	world->mine = allocate(MINE);
	paged_store_open(&world->store, world->fabrics[1]->domain);
	world->store.is_moved_in_place = true;
	assert_int_equal(
		fabric_memory_register(world->fabrics[0]->domain, world->mine, MINE,
				       FABRIC_LOCAL | FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE,
				       &world->memory),
		0);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	paged_store_close(&world->store);
	fabric_memory_deregister(&world->memory);
	fabric_listener_close(world->listener);
	for (unsigned i = 0; i < 2; i++) {
		fabric_queue_close(world->queues[i]);
		fabric_close(world->fabrics[i]);
	}
	free(world->store.arena);
	free(world->mine);
	free(world);
	return 0;
}

/* The pager's memory is lent beforehand. */
static int setup_with_arena(void **state)
{
	struct world *world;

	setup(state);
	world = *state;
	world->store.arena = allocate(PAGED_BYTES);
	assert_int_equal(fabric_paged_lend(world->fabrics[1], world->store.arena, PAGED_BYTES), 0);
	return 0;
}

/* True: the serving end has told of a completion. */
static bool poll_target(struct world *world)
{
	struct fabric_completion completion;

	return fabric_queue_poll(world->queues[1], &completion, 1) > 0;
}

/* Both ends sleep when they may, and each wakes the other. */
static struct fabric_completion complete(struct world *world)
{
	struct fabric_queue *ours = world->queues[0], *theirs = world->queues[1];
	struct pollfd ready[2] = {{fabric_queue_fd(ours), POLLIN, 0},
				  {fabric_queue_fd(theirs), POLLIN, 0}};
	struct fabric_completion completion;
	bool is_asleep;

	while (fabric_queue_poll(ours, &completion, 1) == 0) {
		is_asleep = fabric_queue_arm(ours) == 0;
		is_asleep &= fabric_queue_arm(theirs) == 0;
		if (is_asleep)
			assert_true(poll(ready, 2, GRACE_MS) > 0);
		poll_target(world);
	}
	return completion;
}

/* Has both ends go on. */
static void poll_both(struct world *world)
{
	struct fabric_completion completion;

	assert_int_equal(fabric_queue_poll(world->queues[0], &completion, 1), 0);
	poll_target(world);
}

static bool have_begun(const struct world *world, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		if (i >= world->store.nr_pages || !world->store.pages[i].has_begun)
			return false;
	}
	return true;
}

/* Has both ends go on until so many transfers have begun. */
static void await_pages(struct world *world, unsigned nr)
{
	const uint64_t deadline = clock_deadline_ms(GRACE_MS);

	while (!have_begun(world, nr)) {
		poll_both(world);
		assert_true(clock_ns() < deadline);
	}
}

/* Has both ends go on until all transfers have left. */
static void await_left(struct world *world)
{
	const uint64_t deadline = clock_deadline_ms(GRACE_MS);

	while (world->store.nr_left < world->store.nr_pages) {
		poll_both(world);
		assert_true(clock_ns() < deadline);
	}
}

/* Has both ends go on until the pager has refused a transfer. */
static void await_refusal(struct world *world)
{
	const uint64_t deadline = clock_deadline_ms(GRACE_MS);

	while (world->store.nr_refused == 0) {
		poll_both(world);
		assert_true(clock_ns() < deadline);
	}
}

/* Accepts a connection to the target from a queue, and waits until both ends are up. */
static void pair(struct world *world, struct fabric_queue *from, struct fabric_endpoint **connected,
		 struct fabric_endpoint **accepted)
{
	struct fabric_queue *queues[] = {from, world->queues[1]};
	const uint64_t deadline = clock_deadline_ms(GRACE_MS);
	struct fabric_completion completion;
	struct fabric_request request;
	struct fabric_event event;
	unsigned nr_up = 0;

	*connected = connect_start(from, world->listener->address, "");
	while (fabric_listener_next(world->listener, &request) != 0) {
		assert_int_equal(fabric_queue_event(from, &event), 0);
		assert_true(clock_ns() < deadline);
	}
	assert_int_equal(fabric_accept(&request, world->queues[1], world->fabrics[1]->domain, world,
				       accepted),
			 0);
	while (nr_up < 2) {
		for (unsigned i = 0; i < 2; i++) {
			fabric_queue_poll(queues[i], &completion, 1);
			if (fabric_queue_event(queues[i], &event) != 1)
				continue;
			assert_int_equal(event.kind, FABRIC_CONNECTED);
			nr_up++;
		}
		assert_true(clock_ns() < deadline);
	}
}

static struct fabric_endpoint *open_pair(struct world *world, struct fabric_endpoint **accepted)
{
	struct fabric_endpoint *connected;

	pair(world, world->queues[0], &connected, accepted);
	return connected;
}

static void close_pair(struct fabric_endpoint *connected, struct fabric_endpoint *accepted)
{
	fabric_endpoint_close(connected);
	fabric_endpoint_close(accepted);
}

/* In two pieces, at `at` in our memory. */
static int start(struct world *world, struct fabric_endpoint *endpoint, enum paged_kind kind,
		 size_t at, size_t length, uint64_t offset, uint64_t context)
{
	uint8_t *data = world->mine + at;
	const struct fabric_piece pieces[2] = {
		{data, length / 3, world->memory.descriptor},
		{data + length / 3, length - length / 3, world->memory.descriptor}};

	return paged_begin(endpoint, kind, pieces, offset, world->store.paged.key, context);
}

static struct fabric_completion transfer(struct world *world, struct fabric_endpoint *endpoint,
					 enum paged_kind kind, size_t length, uint64_t offset)
{
	assert_int_equal(start(world, endpoint, kind, 0, length, offset, 7), 0);
	return complete(world);
}

/* ---- Transfers */

static void moves_bytes_both_ways(void **state)
{
	static const struct {
		uint64_t offset, length;
	} cases[] = {
		{0, BLOCK},
		{BLOCK, 1},
		{3 * BLOCK, LONG + 1},
		{0, FABRIC_PAGED_MAX},
		{PAGED_BYTES - FABRIC_PAGED_MAX, FABRIC_PAGED_MAX},
	};
	struct world *world = *state;
	struct fabric_endpoint *connected, *accepted;
	unsigned nr = 0;

	connected = open_pair(world, &accepted);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]) * NR_KINDS; i++, nr++) {
		const enum paged_kind kind = i % NR_KINDS;
		const uint64_t offset = cases[i / NR_KINDS].offset,
			       length = cases[i / NR_KINDS].length;

		fill(world->mine, length, 100 + i);
		paged_expect_done(transfer(world, connected, kind, length, offset));
		assert_memory_equal(world->mine, world->store.bytes + offset, length);
		assert_int_equal(world->store.pages[nr].copy.is_write, paged_kind_writes(kind));
		assert_int_equal(world->store.pages[nr].copy.is_durable,
				 kind == DURABLE || kind == CHECKED_DURABLE);
		assert_int_equal(world->store.pages[nr].copy.is_checked, kind >= CHECKED_READ);
		assert_int_equal(world->store.pages[nr].copy.length, length);
	}
	/* Bytes that are no whole blocks. */
	paged_expect_done(transfer(world, connected, READ, 2, 4095));
	assert_memory_equal(world->mine, world->store.bytes + 4095, 2);
	for (enum paged_kind kind = READ; kind < NR_KINDS; kind++)
		paged_expect_done(transfer(world, connected, kind, 0, PAGED_BYTES));
	assert_int_equal(start(world, connected, READ, 0, FABRIC_PAGED_MAX + 1, 0, 7), -EMSGSIZE);
	assert_int_equal(world->store.nr_pages, nr + 1);
	close_pair(connected, accepted);
}

/* More than may be under way, ended backwards. */
static void completes_many_at_once(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *connected, *accepted;
	unsigned nr = 0, nr_done = 0;
	bool is_done[100] = {false};

	connected = open_pair(world, &accepted);
	world->store.is_waiting = true;
	while (nr_done < 100) {
		int ret = 0;

		while (nr < 100 && ret == 0) {
			ret = start(world, connected, nr % 3 ? READ : WRITE, nr * BLOCK, BLOCK,
				    nr * BLOCK, nr);
			nr += ret == 0;
		}
		assert_true(ret == 0 || ret == -EAGAIN);
		await_pages(world, nr);
		for (unsigned i = nr; i > nr_done; i--)
			paged_store_end(&world->store, i - 1, 0);
		for (; nr_done < nr; nr_done++) {
			struct fabric_completion completion = complete(world);

			assert_int_equal(completion.status, 0);
			assert_false(is_done[completion.context]);
			is_done[completion.context] = true;
		}
	}
	assert_memory_equal(world->mine, world->store.bytes, 100 * BLOCK);
	close_pair(connected, accepted);
}

static void waits_for_memory(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *connected[2], *accepted[2];
	uint64_t first;

	for (unsigned i = 0; i < 2; i++) {
		connected[i] = open_pair(world, &accepted[i]);
		paged_expect_done(transfer(world, connected[i], READ, WORD, 0));
	}
	await_left(world);
	world->store.room = WORD;
	world->store.is_waiting = true;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(start(world, connected[i], READ, i * WORD, WORD, i, i), 0);
	await_pages(world, 3);
	await_refusal(world);
	paged_store_end(&world->store, 2, 0);
	assert_int_not_equal(fabric_queue_arm(world->queues[1]), 0);
	first = complete(world).context;
	await_pages(world, 4);
	paged_store_end(&world->store, 3, 0);
	assert_int_equal(complete(world).context, 1 - first);
	/* One that goes while it waits. */
	await_left(world);
	world->store.room = 0;
	world->store.nr_refused = 0;
	assert_int_equal(start(world, connected[0], READ, 0, WORD, 0, 7), 0);
	await_refusal(world);
	for (unsigned i = 0; i < 2; i++)
		close_pair(connected[i], accepted[i]);
	poll_target(world);
}

static void fails_one_by_one(void **state)
{
	static const int statuses[] = {-EIO, -ENOSPC, -EBADMSG, -10005};
	struct world *world = *state;
	struct fabric_endpoint *connected, *accepted;

	connected = open_pair(world, &accepted);
	for (unsigned i = 0; i < sizeof(statuses) / sizeof(statuses[0]) * NR_KINDS * 2; i++) {
		const int status = statuses[i / NR_KINDS / 2];
		struct fabric_completion completion;

		world->store.take_status = i % 2 ? status : 0;
		world->store.prompt_status = status;
		memset(world->mine, 0xbb, BLOCK);
		completion = transfer(world, connected, i / 2 % NR_KINDS, BLOCK, 0);
		assert_int_equal(completion.context, 7);
		assert_int_equal(completion.status, status);
		assert_true(completion.is_alone);
		assert_false(completion.is_altered);
		assert_int_equal(count_bytes(world->mine, BLOCK, 0xbb), BLOCK);
		world->store.take_status = world->store.prompt_status = 0;
		paged_expect_done(transfer(world, connected, READ, BLOCK, i * BLOCK));
		assert_memory_equal(world->mine, world->store.bytes + i * BLOCK, BLOCK);
	}
	world->store.lie = 1;
	assert_int_equal(start(world, connected, CHECKED_READ, 0, BLOCK, 0, 7), 0);
	assert_true(complete(world).is_altered);
	close_pair(connected, accepted);
}

static void expect_broken(struct world *world, struct fabric_endpoint *connected,
			  struct fabric_endpoint *accepted)
{
	await_closed(accepted, -ECONNRESET);
	fabric_endpoint_close(accepted);
	assert_int_not_equal(complete(world).status, 0);
	await_closed(connected, -ECONNRESET);
	fabric_endpoint_close(connected);
}

static void outlives_its_key(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *connected, *accepted;

	world->store.is_waiting = true;
	connected = open_pair(world, &accepted);
	assert_int_equal(start(world, connected, READ, 0, WORD, 0, 7), 0);
	await_pages(world, 1);
	fabric_memory_deregister(&world->store.paged);
	paged_store_end(&world->store, 0, 0);
	paged_expect_done(complete(world));
	assert_memory_equal(world->mine, world->store.bytes, WORD);
	assert_int_equal(start(world, connected, READ, 0, WORD, 0, 7), 0);
	expect_broken(world, connected, accepted);
	paged_store_register(&world->store, world->fabrics[1]->domain, FABRIC_REMOTE_READ,
			     &world->store.paged);
}

/* Nothing of what was asked touches memory afterwards, at either end. */
static void ends_in_the_middle(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *connected, *accepted;

	for (unsigned i = 0; i < 2; i++) {
		const unsigned before = world->store.nr_pages;

		world->store.is_waiting = false;
		connected = open_pair(world, &accepted);
		paged_expect_done(transfer(world, connected, READ, WORD, 0));
		world->store.is_waiting = true;
		assert_int_equal(start(world, connected, READ, 0, LONG, 0, 7), 0);
		assert_int_equal(start(world, connected, WRITE, 0, LONG, 0, 7), 0);
		await_pages(world, before + 3);
		if (i == 0) {
			fabric_endpoint_close(connected);
			await_closed(accepted, -ECONNRESET);
			fabric_endpoint_close(accepted);
		} else {
			fabric_endpoint_close(accepted);
			assert_int_not_equal(complete(world).status, 0);
			assert_int_not_equal(complete(world).status, 0);
			fabric_endpoint_close(connected);
		}
		assert_int_equal(world->store.nr_left, world->store.nr_pages);
		paged_store_end(&world->store, before + 1, 0);
	}
}

/* Those of the fabric's users, in both directions. */
static void carries_messages(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *ends[2];
	struct fabric_completion completion;
	uint8_t sent[2 * DRIVEN_NOTE_MAX], received[FABRIC_RECEIVE_MAX][WORD];

	ends[0] = open_pair(world, &ends[1]);
	fill(sent, sizeof(sent), 4);
	for (unsigned end = 0; end < 2; end++) {
		unsigned nr_sent = 0, nr_received = 0;

		for (unsigned i = 0; i < FABRIC_RECEIVE_MAX; i++) {
			const struct fabric_piece to = {received[i], WORD, NULL};
			const struct fabric_piece from = {sent + i, WORD - i, NULL};

			memset(received[i], 0xcc, WORD);
			assert_int_equal(fabric_receive(ends[1 - end], &to, 100 + i), 0);
			assert_int_equal(fabric_send(ends[end], &from, 200 + i), 0);
		}
		while (nr_received < FABRIC_RECEIVE_MAX || nr_sent < FABRIC_RECEIVE_MAX) {
			for (unsigned i = 0; i < 2; i++) {
				if (fabric_queue_poll(world->queues[i], &completion, 1) == 0)
					continue;
				assert_int_equal(completion.status, 0);
				if (i == end)
					assert_int_equal(completion.context, 200 + nr_sent++);
				else
					assert_int_equal(completion.context, 100 + nr_received++);
			}
		}
		for (unsigned i = 0; i < FABRIC_RECEIVE_MAX; i++) {
			assert_memory_equal(received[i], sent + i, WORD - i);
			assert_int_equal(count_bytes(received[i] + WORD - i, i, 0xcc), i);
		}
	}
	assert_int_equal(
		fabric_send(ends[0], &(struct fabric_piece){sent, DRIVEN_NOTE_MAX + 1, NULL}, 1),
		-EMSGSIZE);
	close_pair(ends[0], ends[1]);
}

/* ---- Peers that send what they like */

struct stranger {
	struct fabric *fabric;
	struct fabric_queue *queue;
	struct fabric_endpoint *endpoint, *accepted;
	struct fabric_memory memory; /* of the message, and of bytes that are lent */
	struct {
		struct driven_message message, answer;
		uint8_t bytes[BLOCK];
	} * own;
};

static void meet(struct world *world, struct stranger *stranger)
{
	*stranger = (struct stranger){0};
	assert_int_equal(fabric_open_at(below(), any_port(), &stranger->fabric), 0);
	assert_int_equal(fabric_queue_open(stranger->fabric, DEPTH, &stranger->queue), 0);
	stranger->own = calloc(1, sizeof(*stranger->own));
	assert_int_equal(fabric_memory_register(
				 stranger->fabric->domain, stranger->own, sizeof(*stranger->own),
				 FABRIC_LOCAL | FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE,
				 &stranger->memory),
			 0);
	pair(world, stranger->queue, &stranger->endpoint, &stranger->accepted);
}

static void part(struct stranger *stranger)
{
	fabric_endpoint_close(stranger->endpoint);
	fabric_memory_deregister(&stranger->memory);
	fabric_queue_close(stranger->queue);
	fabric_close(stranger->fabric);
	free(stranger->own);
}

static void say(struct stranger *stranger, size_t length)
{
	const struct fabric_piece piece = {&stranger->own->message, length,
					   stranger->memory.descriptor};

	assert_int_equal(fabric_send(stranger->endpoint, &piece, 1), 0);
}

/* The target ends the connection, and no other. */
static void expect_end(struct world *world, struct stranger *stranger)
{
	const uint64_t deadline = clock_deadline_ms(GRACE_MS);
	struct fabric_completion completion;
	struct fabric_event event;

	while (fabric_queue_event(world->queues[1], &event) == 0) {
		poll_target(world);
		fabric_queue_poll(stranger->queue, &completion, 1);
		assert_true(clock_ns() < deadline);
	}
	assert_int_equal(event.kind, FABRIC_CLOSED);
	assert_ptr_equal(event.endpoint, stranger->accepted);
	fabric_endpoint_close(stranger->accepted);
	part(stranger);
}

static uint64_t address_of(const struct stranger *stranger, const void *addr)
{
	return stranger->memory.base +
	       (uint64_t)((const uint8_t *)addr - (const uint8_t *)stranger->own);
}

static struct driven_ask good_ask(const struct world *world, const struct stranger *stranger)
{
	return (struct driven_ask){
		.key = world->store.paged.key,
		.length = BLOCK,
		.nr_pieces = 1,
		.pieces = {{address_of(stranger, stranger->own->bytes), stranger->memory.key, BLOCK,
			    0}},
	};
}

/* Each ends the stranger's connection; that of a client goes on. */
static void refuses_what_peers_may_not(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *connected, *accepted;
	enum {
		NO_KEY = 1,
		READ_ONLY,
		BEHIND,
		UNEVEN,
		EMPTY_PIECE,
		LONGER,
		MANY_PIECES,
		NUMBER,
		FLAGS,
		DURABLE_READ,
		SUMS,
		INSIDE_BLOCK,
		TOO_LONG,
		BAD_PIECE_KEY,
		BEHIND_PIECE,
		BAD_PIECE_WRITE,
		KIND,
		SHORT,
		LENGTH,
		ANSWER,
		NOTE,
		NR_WRONGS
	};

	connected = open_pair(world, &accepted);
	for (unsigned wrong = NO_KEY; wrong < NR_WRONGS; wrong++) {
		struct stranger stranger;
		struct driven_ask ask;
		uint32_t sums[DRIVEN_SUMS_MAX] = {0};
		size_t length;

		meet(world, &stranger);
		ask = good_ask(world, &stranger);
		switch (wrong) {
		case NO_KEY:
			ask.key ^= 1;
			break;
		case READ_ONLY:
			ask.key = world->store.read_only.key;
			ask.flags = DRIVEN_WRITE;
			break;
		case BEHIND:
			ask.offset = PAGED_BYTES - BLOCK + 1;
			break;
		case UNEVEN:
			ask.pieces[0].length--;
			break;
		case EMPTY_PIECE:
			ask.nr_pieces = 2;
			break;
		case LONGER:
			ask.pieces[0].addr = UINT64_MAX - 1;
			break;
		case NUMBER:
			ask.number = DRIVEN_DEPTH;
			break;
		case FLAGS:
			ask.flags = 0x8;
			break;
		case DURABLE_READ:
			ask.flags = DRIVEN_DURABLE;
			break;
		case SUMS:
			ask.flags = DRIVEN_WRITE | DRIVEN_CHECKED;
			break;
		case INSIDE_BLOCK:
			ask.flags = DRIVEN_CHECKED;
			ask.offset = 1;
			break;
		case TOO_LONG:
			ask.length = ask.pieces[0].length = FABRIC_PAGED_MAX + 1;
			break;
		case BAD_PIECE_KEY:
			ask.pieces[0].key ^= 0xff00;
			break;
		case BEHIND_PIECE:
			ask.pieces[0].addr += 1;
			break;
		case BAD_PIECE_WRITE:
			ask.flags = DRIVEN_WRITE;
			ask.pieces[0].key ^= 0xff00;
			break;
		default:
			break;
		}
		length = driven_encode_ask(&stranger.own->message, &ask,
					   ask.flags & DRIVEN_CHECKED && wrong != SUMS ? sums
										       : NULL);
		if (wrong == INSIDE_BLOCK || wrong == KIND)
			length = driven_encode_ask(&stranger.own->message, &ask, NULL);
		if (wrong == MANY_PIECES)
			stranger.own->message.ask.nr_pieces = htole32(FABRIC_IOV_MAX + 1);
		if (wrong == KIND)
			stranger.own->message.head.kind = htole32(77);
		if (wrong == SHORT)
			length = 4;
		if (wrong == LENGTH)
			stranger.own->message.head.length = htole32(UINT32_MAX);
		if (wrong == ANSWER)
			length = driven_encode_answer(&stranger.own->message, 0, 0, NULL, 0);
		if (wrong == NOTE) /* nobody waits for one */
			length = driven_encode_note(&stranger.own->message, sums, 16);
		say(&stranger, length);
		expect_end(world, &stranger);
		paged_expect_done(transfer(world, connected, READ, BLOCK, 0));
		assert_memory_equal(world->mine, world->store.bytes, BLOCK);
	}
	close_pair(connected, accepted);
}

/* More asks than a client of ours would send: they wait, and are all answered. */
static void bears_many_asks(void **state)
{
	struct world *world = *state;
	const uint64_t deadline = clock_deadline_ms(GRACE_MS);
	struct fabric_completion completion;
	struct stranger stranger;
	struct driven_ask ask;
	unsigned nr_sent = 0, nr_over = 0;
	size_t length;

	meet(world, &stranger);
	ask = good_ask(world, &stranger);
	length = driven_encode_ask(&stranger.own->message, &ask, NULL);
	for (unsigned i = 0; i < FABRIC_RECEIVE_MAX; i++) {
		const struct fabric_piece piece = {&stranger.own->answer,
						   sizeof(stranger.own->answer),
						   stranger.memory.descriptor};

		assert_int_equal(fabric_receive(stranger.endpoint, &piece, 2), 0);
	}
	while (nr_over < 300) {
		const struct fabric_piece in = {&stranger.own->answer, sizeof(stranger.own->answer),
						stranger.memory.descriptor},
					  out = {&stranger.own->message, length,
						 stranger.memory.descriptor};

		if (nr_sent < 300 && nr_sent - nr_over < 30)
			nr_sent += fabric_send(stranger.endpoint, &out, 1) == 0;
		poll_target(world);
		assert_true(clock_ns() < deadline);
		if (fabric_queue_poll(stranger.queue, &completion, 1) == 0)
			continue;
		assert_int_equal(completion.status, 0);
		if (completion.context == 1)
			continue;
		assert_int_equal(fabric_receive(stranger.endpoint, &in, 2), 0);
		nr_over++;
	}
	assert_memory_equal(stranger.own->bytes, world->store.bytes, BLOCK);
	fabric_endpoint_close(stranger.accepted);
	part(&stranger);
}

TEST_GROUP(fabric_driven)
{
#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define WITH_ARENA(test)                                                          \
	{                                                                         \
#test " with lent memory", test, setup_with_arena, teardown, NULL \
	}
	const struct CMUnitTest tests[] = {
		IN_WORLD(moves_bytes_both_ways),      WITH_ARENA(moves_bytes_both_ways),
		IN_WORLD(completes_many_at_once),     IN_WORLD(waits_for_memory),
		IN_WORLD(fails_one_by_one),	      IN_WORLD(outlives_its_key),
		IN_WORLD(ends_in_the_middle),	      IN_WORLD(carries_messages),
		IN_WORLD(refuses_what_peers_may_not), IN_WORLD(bears_many_asks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
