/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paged memory over tcp: transfers of peers to memory that a pager brings and keeps. Here the test
 * is the pager and its device, and makes the target progress, step by step. Peers are clients of
 * ours, or plain sockets where it matters what is on the wire and when.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "afar/error.h"
#include "base/clock.h"
#include "fabric/paged.h"
#include "lib/fabric/fabric_fixture.h"
#include "lib/fabric/paged_store.h"
#include "lib/fabric/tcp_peer.h"
#include "unit/group.h"

#define WORD	    64U
#define LONG	    (100U << 10) /* more than the stage, and than one frame of it */
#define QUIET_POLLS 50U

struct world {
	struct client client; /* its target has no thread */
	struct target *target;
	bool is_crowd; /* the target leaves its peers to epoll at once */
	struct paged_store store;
};

/* ---- The world */

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	world->target = &world->client.target;
	target_open(world->target, "127.0.0.1:0");
	fill(world->target->data, LENT, 1);
	assert_int_equal(fabric_open("tcp", &world->client.fabric), 0);
	assert_int_equal(fabric_queue_open(world->client.fabric, DEPTH, &world->client.queue), 0);
	paged_store_open(&world->store, world->target->fabric->domain);
	world->store.owner = world->target;
	world->store.is_waiting = true;
	*state = world;
	return 0;
}

static int setup_crowd(void **state)
{
	setup(state);
	((struct world *)*state)->is_crowd = true;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	paged_store_close(&world->store);
	fabric_queue_close(world->client.queue);
	close_fabric(world->client.fabric);
	target_close(world->target);
	free(world);
	return 0;
}

static void poll_target(struct world *world)
{
	struct fabric_completion completion;

	if (world->is_crowd)
		caa_container_of(world->target->queue, struct tcp_queue, base)->nr_moved_before =
			UINT32_MAX;
	assert_int_equal(fabric_queue_poll(world->target->queue, &completion, 1), 0);
}

/* Nothing more is to come of what was said so far. */
static void settle(struct world *world)
{
	for (unsigned i = 0; i < QUIET_POLLS; i++)
		poll_target(world);
}

/* Goes on as a server does: it sleeps when it may, unless the peer is to do something. */
static void step(struct world *world, int peer)
{
	struct pollfd ready[2] = {{fabric_queue_fd(world->target->queue), POLLIN, 0},
				  {peer, POLLIN, 0}};

	if (fabric_queue_arm(world->target->queue) == 0)
		assert_true(poll(ready, 2, GRACE_MS) > 0);
	poll_target(world);
}

static void await_pages(struct world *world, unsigned nr)
{
	while (world->store.nr_pages < nr) {
		step(world, -1);
	}
	assert_int_equal(world->store.nr_pages, nr);
}

static void await_begun(struct world *world, unsigned index)
{
	while (!world->store.pages[index].has_begun) {
		step(world, -1);
	}
}

/* The connection waits for memory. */
static void await_lacking(struct world *world, const struct fabric_endpoint *endpoint)
{
	while (!caa_container_of(endpoint, const struct tcp_endpoint, base)->lacks_memory) {
		step(world, -1);
	}
}

/* The target sleeps, and nothing wakes it. */
static void expect_asleep(struct world *world)
{
	struct fabric_queue *queue = world->target->queue;
	struct pollfd ready = {.fd = fabric_queue_fd(queue), .events = POLLIN};
	uint64_t deadline = clock_deadline_ms(GRACE_MS);

	/* The target may still have to take in what was said last. */
	while (fabric_queue_arm(queue) != 0 || poll(&ready, 1, 0) != 0) {
		poll_target(world);
		assert_true(clock_ns() < deadline);
	}
	settle(world);
	assert_int_equal(fabric_queue_arm(queue), 0);
	assert_int_equal(poll(&ready, 1, 20), 0);
}

static void ask(const struct world *world, int fd, uint32_t type, uint64_t offset, uint64_t length)
{
	const struct tcp_frame frame = frame_of(type, world->store.paged.key, offset, length);

	say(fd, &frame, sizeof(frame));
}

static void ask_plain(const struct world *world, int fd, uint64_t offset, uint64_t length)
{
	const struct tcp_frame frame = frame_of(TCP_READ, world->target->all.key, offset, length);

	say(fd, &frame, sizeof(frame));
}

static void expect_silence(struct world *world, int fd)
{
	uint8_t byte;

	settle(world);
	assert_true(recv(fd, &byte, 1, MSG_DONTWAIT) < 0);
	assert_int_equal(errno, EAGAIN);
}

/* Progresses until the peer has something to hear. */
static void await_heard(struct world *world, int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};

	while (poll(&ready, 1, 0) == 0)
		step(world, fd);
}

/* For replies that fit into the sockets. */
static void expect_bytes(struct world *world, int fd, const uint8_t *bytes, size_t length)
{
	uint8_t *heard = allocate(length);

	await_heard(world, fd);
	expect_reply(fd, TCP_READ_REPLY, length);
	assert_true(hear(fd, heard, length));
	assert_memory_equal(heard, bytes, length);
	free(heard);
}

static void expect_ack(struct world *world, int fd, uint64_t length)
{
	await_heard(world, fd);
	expect_reply(fd, TCP_WRITE_ACK, length);
}

static void expect_failed(struct world *world, int fd, int status, uint64_t length)
{
	struct tcp_frame reply;

	await_heard(world, fd);
	assert_true(hear(fd, &reply, TCP_FRAME_SHORT));
	assert_int_equal(le32toh(reply.type), TCP_FAILED);
	assert_int_equal(le32toh(reply.word), -status);
	assert_int_equal(le64toh(reply.length), length);
}

/* ---- A client of ours */

static struct fabric_completion complete(struct world *world)
{
	struct fabric_queue *queue = world->client.queue;
	struct fabric_completion completion;

	while (fabric_queue_poll(queue, &completion, 1) == 0) {
		if (fabric_queue_arm(queue) == 0)
			step(world, fabric_queue_fd(queue));
		else
			poll_target(world);
	}
	return completion;
}

static struct fabric_endpoint *open_pair(struct world *world, struct fabric_endpoint **accepted)
{
	struct fabric_endpoint *connected;

	connect_pair(&world->client, world->target, &connected, accepted);
	(*accepted)->owner = world->target;
	return connected;
}

static void close_pair(struct fabric_endpoint *connected, struct fabric_endpoint *accepted)
{
	fabric_endpoint_close(connected);
	fabric_endpoint_close(accepted);
}

enum kind { KIND_READ, KIND_WRITE, KIND_DURABLE };

static struct fabric_completion transfer(struct world *world, struct fabric_endpoint *endpoint,
					 enum kind kind, void *data, size_t length,
					 const struct fabric_memory *memory, uint64_t offset)
{
	/* In two pieces. */
	const struct fabric_piece pieces[2] = {
		{data, length / 3, NULL},
		{(uint8_t *)data + length / 3, length - length / 3, NULL}};

	assert_int_equal(
		fabric_paged_transfer(endpoint,
				      (kind == KIND_READ ? 0 : FABRIC_PAGED_WRITE) |
					      (kind == KIND_DURABLE ? FABRIC_PAGED_DURABLE : 0),
				      pieces, 2, offset, memory->key, 7),
		0);
	return complete(world);
}

static void moves_bytes_both_ways(void **state)
{
	static const struct {
		uint64_t offset, length;
	} cases[] = {
		{0, 1},
		{4095, 2},
		{PAGED_BYTES - 1, 1},
		{12345, LONG},
		{3, FABRIC_PAGED_MAX},
		{PAGED_BYTES - FABRIC_PAGED_MAX, FABRIC_PAGED_MAX},
	};
	struct world *world = *state;
	uint8_t *mine = allocate(FABRIC_PAGED_MAX);
	struct fabric_endpoint *connected, *accepted;

	world->store.is_waiting = false;
	connected = open_pair(world, &accepted);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t *stored = world->store.bytes + cases[i].offset;

		paged_expect_done(transfer(world, connected, KIND_READ, mine, cases[i].length,
					   &world->store.paged, cases[i].offset));
		assert_memory_equal(mine, stored, cases[i].length);
		fill(mine, cases[i].length, 100 + i);
		paged_expect_done(transfer(world, connected, KIND_WRITE, mine, cases[i].length,
					   &world->store.paged, cases[i].offset));
		assert_memory_equal(mine, stored, cases[i].length);
	}
	settle(world);
	assert_int_equal(world->store.nr_left, world->store.nr_pages);
	close_pair(connected, accepted);
	free(mine);
}

/* The pager is not asked about nothing, and peers are checked all the same. */
static void moves_nothing_by_itself(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *connected, *accepted;
	uint8_t byte = 0;

	connected = open_pair(world, &accepted);
	for (enum kind kind = KIND_READ; kind <= KIND_DURABLE; kind++) {
		paged_expect_done(
			transfer(world, connected, kind, &byte, 0, &world->store.paged, 0));
		paged_expect_done(transfer(world, connected, kind, &byte, 0, &world->store.paged,
					   PAGED_BYTES));
	}
	assert_int_equal(world->store.nr_pages, 0);
	close_pair(connected, accepted);
}

static void says_what_is_durable(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *connected, *accepted;
	uint8_t word[WORD];

	world->store.is_waiting = false;
	connected = open_pair(world, &accepted);
	for (enum kind kind = KIND_READ; kind <= KIND_DURABLE; kind++) {
		fill(word, WORD, 3 + kind);
		paged_expect_done(
			transfer(world, connected, kind, word, WORD, &world->store.paged, 8));
		assert_memory_equal(word, world->store.bytes + 8, WORD);
		assert_int_equal(world->store.pages[kind].copy.is_write, kind != KIND_READ);
		assert_int_equal(world->store.pages[kind].copy.is_durable, kind == KIND_DURABLE);
		assert_int_equal(world->store.pages[kind].copy.offset, 8);
		assert_int_equal(world->store.pages[kind].copy.length, WORD);
	}
	close_pair(connected, accepted);
}

static void is_not_everywhere(void **state)
{
	struct fabric_pager pager = {.take = NULL};
	struct fabric without = {.paged = NULL};
	struct fabric_domain domain = {.fabric = &without};
	struct fabric_memory memory;

	(void)state;
	assert_int_equal(fabric_memory_register_paged(&domain, &pager, PAGED_BYTES,
						      FABRIC_REMOTE_READ, &memory),
			 -EOPNOTSUPP);
}

/* ---- Order */

/* A reply leaves when it is decided and all before it have left; nothing of it is sent before. */
static void replies_in_order(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *endpoint;
	uint8_t word[WORD];
	int fd = accept_peer(world->target, &endpoint);

	fill(word, WORD, 9);
	ask(world, fd, TCP_READ, 0, LONG);
	ask(world, fd, TCP_READ, 1000, WORD);
	ask(world, fd, TCP_WRITE, 2000, WORD);
	say(fd, word, WORD);
	ask(world, fd, TCP_READ, 3000, WORD);
	ask_plain(world, fd, 5, WORD);
	await_begun(world, 2);
	await_begun(world, 3);
	paged_store_end(&world->store, 3, 0);
	paged_store_end(&world->store, 1, 0);
	expect_silence(world, fd);
	paged_store_end(&world->store, 0, 0);
	expect_bytes(world, fd, world->store.bytes, LONG);
	expect_bytes(world, fd, world->store.bytes + 1000, WORD);
	expect_silence(world, fd);
	assert_int_equal(world->store.nr_left, 2);
	paged_store_end(&world->store, 2, 0);
	expect_ack(world, fd, WORD);
	assert_memory_equal(world->store.bytes + 2000, word, WORD);
	expect_bytes(world, fd, world->store.bytes + 3000, WORD);
	expect_bytes(world, fd, world->target->data + 5, WORD);
	fabric_endpoint_close(endpoint);
	close(fd);
}

/* Requests of a client of ours, ended backwards. */
static void completes_many_at_once(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *connected, *accepted;
	uint8_t *mine = allocate(DEPTH * WORD);

	connected = open_pair(world, &accepted);
	for (unsigned i = 0; i < DEPTH; i++)
		assert_int_equal(start_one(connected, false, mine + i * WORD, WORD,
					   &world->store.paged, (uint64_t)i * 5000, i),
				 0);
	await_pages(world, DEPTH);
	for (unsigned i = DEPTH; i-- > 0;)
		paged_store_end(&world->store, i, i % 7 == 3 ? -EIO : 0);
	for (unsigned i = 0; i < DEPTH; i++) {
		struct fabric_completion completion = complete(world);

		assert_int_equal(completion.context, i);
		assert_int_equal(completion.status, i % 7 == 3 ? -EIO : 0);
		assert_int_equal(completion.is_alone, i % 7 == 3);
		if (completion.status == 0)
			assert_memory_equal(mine + i * WORD, world->store.bytes + i * 5000, WORD);
	}
	close_pair(connected, accepted);
	free(mine);
}

/* The pager has as many transfers as there may be, and the target sleeps meanwhile. */
static void takes_as_many_as_it_may_owe(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *endpoint;
	const unsigned nr = TCP_REPLIES_MAX + 40;
	int fd = accept_peer(world->target, &endpoint);

	for (unsigned i = 0; i < nr; i++)
		ask(world, fd, TCP_READ, i, WORD);
	await_pages(world, TCP_REPLIES_MAX);
	expect_asleep(world);
	paged_store_end(&world->store, 1, 0);
	expect_asleep(world);
	paged_store_end(&world->store, 0, 0);
	expect_bytes(world, fd, world->store.bytes, WORD);
	expect_bytes(world, fd, world->store.bytes + 1, WORD);
	await_pages(world, TCP_REPLIES_MAX + 2);
	expect_asleep(world);
	for (unsigned i = 2; i < nr; i++) {
		await_begun(world, i);
		paged_store_end(&world->store, i, 0);
		expect_bytes(world, fd, world->store.bytes + i, WORD);
	}
	fabric_endpoint_close(endpoint);
	close(fd);
}

/* ---- Sleep */

/* A transfer that ends while nobody polls is sent by the next poll, and nobody sleeps before. */
static void sends_what_ended_outside_of_a_poll(void **state)
{
	struct world *world = *state;
	struct fabric_queue *queue = world->target->queue;
	struct fabric_endpoint *endpoint;
	int fd = accept_peer(world->target, &endpoint);

	for (unsigned i = 0; i < 3; i++) {
		ask(world, fd, TCP_READ, i, WORD);
		await_pages(world, i + 1);
		expect_asleep(world);
		paged_store_end(&world->store, i, 0);
		assert_int_equal(fabric_queue_arm(queue), -EAGAIN);
		poll_target(world);
		expect_reply(fd, TCP_READ_REPLY, WORD);
		assert_true(hear(fd, (uint8_t[WORD]){0}, WORD));
		assert_int_equal(world->store.nr_left, i + 1);
		assert_int_equal(fabric_queue_arm(queue), 0);
	}
	fabric_endpoint_close(endpoint);
	close(fd);
}

/* ---- No memory */

/* One connection waits for memory; others, and the target's sleep, do not suffer. */
static void waits_for_memory(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *endpoints[2];
	uint8_t word[WORD];
	int fds[2];

	world->store.is_waiting = false;
	world->store.room = WORD - 1;
	for (unsigned i = 0; i < 2; i++)
		fds[i] = accept_peer(world->target, &endpoints[i]);
	fill(word, WORD, 4);
	ask(world, fds[0], TCP_WRITE, 0, WORD);
	await_lacking(world, endpoints[0]);
	say(fds[0], word, WORD);
	ask_plain(world, fds[0], 0, WORD);
	expect_asleep(world);
	ask(world, fds[1], TCP_READ, 100, WORD - 1);
	expect_bytes(world, fds[1], world->store.bytes + 100, WORD - 1);
	ask_plain(world, fds[1], 0, WORD);
	expect_bytes(world, fds[1], world->target->data, WORD);
	expect_silence(world, fds[0]);
	/* The pager has memory again, and its server polls. */
	world->store.room = WORD;
	poll_target(world);
	expect_ack(world, fds[0], WORD);
	assert_memory_equal(world->store.bytes, word, WORD);
	expect_bytes(world, fds[0], world->target->data, WORD);
	for (unsigned i = 0; i < 2; i++) {
		fabric_endpoint_close(endpoints[i]);
		close(fds[i]);
	}
}

/* The connection that began to wait first is first, and memory that one gives back is another's at
 * once. */
static void hands_memory_on_in_turn(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *endpoints[4];
	int fds[4];

	world->store.room = WORD;
	for (unsigned i = 0; i < 4; i++)
		fds[i] = accept_peer(world->target, &endpoints[i]);
	for (unsigned i = 0; i < 4; i++) {
		ask(world, fds[3 - i], TCP_READ, 10 * i, WORD);
		if (i > 0)
			await_lacking(world, endpoints[3 - i]);
		else
			await_pages(world, 1);
	}
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(world->store.nr_pages, i + 1);
		expect_asleep(world);
		paged_store_end(&world->store, i, 0);
		expect_bytes(world, fds[3 - i], world->store.bytes + 10 * i, WORD);
		/* It has left in that poll: the next one waits for no other event. */
		if (i < 3 && world->store.nr_pages == i + 1) {
			assert_int_equal(fabric_queue_arm(world->target->queue), -EAGAIN);
			poll_target(world);
		}
	}
	for (unsigned i = 0; i < 4; i++) {
		fabric_endpoint_close(endpoints[i]);
		close(fds[i]);
	}
}

/* Memory comes back as a connection is closed, by its peer or here, and another waits for it. */
static void hands_memory_of_the_closed_on(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *endpoints[3];
	int fds[3];

	world->store.room = WORD;
	for (unsigned i = 0; i < 3; i++) {
		fds[i] = accept_peer(world->target, &endpoints[i]);
		ask(world, fds[i], TCP_WRITE, i, WORD);
		if (i > 0)
			await_lacking(world, endpoints[i]);
		else
			await_pages(world, 1);
	}
	expect_asleep(world);
	fabric_endpoint_close(endpoints[0]);
	assert_int_equal(fabric_queue_arm(world->target->queue), -EAGAIN);
	poll_target(world);
	assert_int_equal(world->store.nr_pages, 2);
	close(fds[1]);
	await_closed(endpoints[1], -ECONNRESET);
	await_pages(world, 3);
	fabric_endpoint_close(endpoints[1]);
	fabric_endpoint_close(endpoints[2]);
	close(fds[0]);
	close(fds[2]);
}

/* A connection that waits for memory and dies, or is closed, is not tried again. */
static void forgets_who_waits_for_memory(void **state)
{
	const struct linger at_once = {.l_onoff = 1};
	struct world *world = *state;
	struct fabric_endpoint *endpoints[2];
	int fds[2];

	world->store.room = 0;
	for (unsigned i = 0; i < 2; i++) {
		fds[i] = accept_peer(world->target, &endpoints[i]);
		ask(world, fds[i], TCP_READ, 0, WORD);
		await_lacking(world, endpoints[i]);
	}
	expect_asleep(world);
	assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
	close(fds[0]);
	await_closed(endpoints[0], -ECONNRESET);
	fabric_endpoint_close(endpoints[0]);
	fabric_endpoint_close(endpoints[1]);
	world->store.room = MIB;
	settle(world);
	assert_int_equal(world->store.nr_pages, 0);
	close(fds[1]);
}

/* ---- Failure */

/* A failed transfer ends alone: by `take`, or in the device. The ones behind it go on. */
static void fails_one_by_one(void **state)
{
	static const int statuses[] = {-EIO, -ENOSPC, -EINTR, -4095, -AFAR_ELOST};
	struct world *world = *state;
	struct fabric_endpoint *connected, *accepted;
	struct fabric_completion completion;
	uint8_t *mine = allocate(LONG);

	world->store.is_waiting = false;
	connected = open_pair(world, &accepted);
	for (unsigned i = 0; i < 2 * 3 * sizeof(statuses) / sizeof(statuses[0]); i++) {
		const int status = statuses[i / 6];

		world->store.take_status = i % 2 ? status : 0;
		world->store.prompt_status = status;
		memset(mine, 0xbb, LONG);
		completion =
			transfer(world, connected, i / 2 % 3, mine, LONG, &world->store.paged, i);
		assert_int_equal(completion.context, 7);
		assert_int_equal(completion.status, status);
		assert_true(completion.is_alone);
		assert_int_equal(count_bytes(mine, LONG, 0xbb), LONG);
		world->store.take_status = world->store.prompt_status = 0;
		paged_expect_done(
			transfer(world, connected, KIND_READ, mine, LONG, &world->store.paged, i));
		assert_memory_equal(mine, world->store.bytes + i, LONG);
		paged_expect_done(
			transfer(world, connected, KIND_READ, mine, WORD, &world->target->all, i));
		assert_memory_equal(mine, world->target->data + i, WORD);
		fill(mine, LONG, i);
		paged_expect_done(transfer(world, connected, KIND_WRITE, mine, LONG,
					   &world->target->all, MIB));
		assert_memory_equal(mine, world->target->data + MIB, LONG);
	}
	settle(world);
	assert_int_equal(world->store.nr_left, world->store.nr_pages);
	close_pair(connected, accepted);
	free(mine);
}

/* Codes that there are not do not reach the wire. */
static void says_only_codes_that_there_are(void **state)
{
	static const int statuses[] = {1, 4095, -4096, -9999, -10000, -20000, INT32_MAX, INT32_MIN};
	struct world *world = *state;
	struct fabric_endpoint *endpoint;
	int fd = accept_peer(world->target, &endpoint);

	world->store.is_waiting = false;
	for (unsigned i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		world->store.prompt_status = statuses[i];
		ask(world, fd, TCP_READ, 0, WORD);
		expect_failed(world, fd, -EIO, WORD);
	}
	fabric_endpoint_close(endpoint);
	close(fd);
}

/* The payload of a failed write is dropped, however it is cut, and nothing of what follows it. */
static void drops_the_payload_of_a_failed_write(void **state)
{
	const uint32_t lengths[] = {1, WORD, TCP_STAGE_BYTES - 40, 3 * TCP_STAGE_BYTES + 1, LONG};
	struct world *world = *state;
	struct fabric_endpoint *endpoint;
	uint8_t *noise = allocate(LONG);
	int fd = accept_peer(world->target, &endpoint);

	memset(noise, 0, LONG);
	for (unsigned i = 0; i < 2 * sizeof(lengths) / sizeof(lengths[0]); i++) {
		const uint32_t length = lengths[i / 2], first = i % 2 ? length / 2 : length;

		world->store.take_status = -ENOSPC;
		ask(world, fd, i % 3 ? TCP_WRITE : TCP_WRITE_DURABLE, 0, length);
		say(fd, noise, first);
		if (i % 2)
			expect_silence(world, fd);
		say(fd, noise, length - first);
		ask_plain(world, fd, i, WORD);
		expect_failed(world, fd, -ENOSPC, length);
		expect_bytes(world, fd, world->target->data + i, WORD);
	}
	assert_int_equal(world->store.nr_pages, 0);
	fabric_endpoint_close(endpoint);
	close(fd);
	free(noise);
}

/* ---- Requests that end the connection */

static void expect_refusal(struct world *world, uint32_t type, uint64_t key, uint64_t offset,
			   uint64_t length)
{
	const struct tcp_frame frame = frame_of(type, key, offset, length);
	struct fabric_endpoint *endpoint;
	int fd = accept_peer(world->target, &endpoint);

	say(fd, &frame, sizeof(frame));
	await_closed(endpoint, -ECONNRESET);
	fabric_endpoint_close(endpoint);
	expect_end(fd);
	assert_int_equal(world->store.nr_pages + world->store.nr_refused, 0);
}

static void refuses_what_peers_may_not(void **state)
{
	static const uint32_t types[] = {TCP_READ, TCP_WRITE, TCP_WRITE_DURABLE};
	struct world *world = *state;
	const uint64_t key = world->store.paged.key;

	for (unsigned i = 0; i < 3; i++) {
		expect_refusal(world, types[i], key, 0, FABRIC_PAGED_MAX + 1);
		expect_refusal(world, types[i], key, 0, UINT64_MAX);
		expect_refusal(world, types[i], key, PAGED_BYTES, 1);
		expect_refusal(world, types[i], key, PAGED_BYTES + 1, 0);
		expect_refusal(world, types[i], key, UINT64_MAX, 2);
		expect_refusal(world, types[i], key ^ 1, 0, 1);
		if (types[i] == TCP_READ)
			continue;
		expect_refusal(world, types[i], world->store.read_only.key, 0, 1);
		expect_refusal(world, types[i], world->store.read_only.key, 0, 0);
	}
	expect_refusal(world, TCP_WRITE_DURABLE, world->target->all.key, 0, 1);
	expect_refusal(world, TCP_WRITE_DURABLE, world->target->all.key, 0, 0);
}

/* A transfer that has begun outlives its key; another does not begin. */
static void outlives_its_key(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *endpoint;
	int fd = accept_peer(world->target, &endpoint);

	ask(world, fd, TCP_READ, 0, WORD);
	await_begun(world, 0);
	fabric_memory_deregister(&world->store.paged);
	paged_store_end(&world->store, 0, 0);
	expect_bytes(world, fd, world->store.bytes, WORD);
	ask(world, fd, TCP_READ, 0, WORD);
	await_closed(endpoint, -ECONNRESET);
	fabric_endpoint_close(endpoint);
	expect_end(fd);
}

/* ---- The end in the middle */

/* One transfer whose payload is still to come, and before it some that have ended, in part. */
static int start_middle(struct world *world, struct fabric_endpoint **endpoint)
{
	const uint8_t noise[WORD] = {0};
	int fd = accept_peer(world->target, endpoint);

	ask(world, fd, TCP_READ, 0, WORD);
	ask(world, fd, TCP_READ, 0, LONG);
	ask(world, fd, TCP_WRITE, 0, WORD);
	say(fd, noise, WORD);
	ask(world, fd, TCP_READ, 0, WORD);
	ask(world, fd, TCP_WRITE, 0, LONG);
	say(fd, noise, WORD);
	await_pages(world, 5);
	paged_store_end(&world->store, 0, 0);
	expect_bytes(world, fd, world->store.bytes, WORD);
	paged_store_end(&world->store, 3, -EIO);
	assert_int_equal(world->store.nr_left, 1);
	return fd;
}

/* Each has left once (see leave() and teardown()), and is not touched when its device ends. */
static void leaves_when_it_is_closed(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *endpoint;
	int fd = start_middle(world, &endpoint);

	fabric_endpoint_close(endpoint);
	assert_int_equal(world->store.nr_left, 5);
	assert_null(world->store.pages[3].memory);
	assert_null(world->store.pages[4].memory);
	assert_non_null(world->store.pages[1].memory);
	assert_non_null(world->store.pages[2].memory);
	paged_store_end(&world->store, 1, 0);
	paged_store_end(&world->store, 2, -EIO);
	settle(world);
	expect_end(fd);
}

static void leaves_when_its_peer_has_gone(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *endpoint;
	int fd = start_middle(world, &endpoint);

	close(fd);
	await_closed(endpoint, -ECONNRESET);
	assert_int_equal(world->store.nr_left, 5);
	paged_store_end(&world->store, 1, 0);
	fabric_endpoint_close(endpoint);
	assert_int_equal(world->store.nr_left, 5);
}

/* ---- A peer that does not read */

/* It holds what its transfers took, and no more; others are served, and nobody is kept awake. */
static void outlasts_who_does_not_read(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *endpoints[2];
	uint8_t *heard = allocate(FABRIC_PAGED_MAX);
	const unsigned nr = 40;
	int fds[2], bytes = 64 << 10;

	world->store.is_waiting = false;
	world->store.room = 8 * FABRIC_PAGED_MAX;
	for (unsigned i = 0; i < 2; i++)
		fds[i] = accept_peer(world->target, &endpoints[i]);
	assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)), 0);
	for (unsigned i = 0; i < nr; i++)
		ask(world, fds[0], TCP_READ, i, FABRIC_PAGED_MAX);
	await_lacking(world, endpoints[0]);
	expect_asleep(world);
	assert_int_equal(world->store.nr_pages - world->store.nr_left, 8);
	assert_int_equal(world->store.room, 0);
	ask_plain(world, fds[1], 7, WORD);
	expect_bytes(world, fds[1], world->target->data + 7, WORD);
	for (unsigned i = 0; i < nr; i++) {
		size_t nr_heard = 0;

		await_heard(world, fds[0]);
		expect_reply(fds[0], TCP_READ_REPLY, FABRIC_PAGED_MAX);
		while (nr_heard < FABRIC_PAGED_MAX) {
			ssize_t part;

			await_heard(world, fds[0]);
			part = recv(fds[0], heard + nr_heard, FABRIC_PAGED_MAX - nr_heard, 0);
			assert_true(part > 0);
			nr_heard += (size_t)part;
		}
		assert_memory_equal(heard, world->store.bytes + i, FABRIC_PAGED_MAX);
	}
	settle(world);
	assert_int_equal(world->store.nr_left, nr);
	for (unsigned i = 0; i < 2; i++) {
		fabric_endpoint_close(endpoints[i]);
		close(fds[i]);
	}
	free(heard);
}

TEST_GROUP(fabric_tcp_paged)
{
#define IN_WORLD(test)                                          \
	cmocka_unit_test_setup_teardown(test, setup, teardown), \
		cmocka_unit_test_setup_teardown(test, setup_crowd, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_not_everywhere),
		IN_WORLD(moves_bytes_both_ways),
		IN_WORLD(moves_nothing_by_itself),
		IN_WORLD(says_what_is_durable),
		IN_WORLD(replies_in_order),
		IN_WORLD(completes_many_at_once),
		IN_WORLD(takes_as_many_as_it_may_owe),
		IN_WORLD(sends_what_ended_outside_of_a_poll),
		IN_WORLD(waits_for_memory),
		IN_WORLD(hands_memory_on_in_turn),
		IN_WORLD(hands_memory_of_the_closed_on),
		IN_WORLD(forgets_who_waits_for_memory),
		IN_WORLD(fails_one_by_one),
		IN_WORLD(says_only_codes_that_there_are),
		IN_WORLD(drops_the_payload_of_a_failed_write),
		IN_WORLD(refuses_what_peers_may_not),
		IN_WORLD(outlives_its_key),
		IN_WORLD(leaves_when_it_is_closed),
		IN_WORLD(leaves_when_its_peer_has_gone),
		IN_WORLD(outlasts_who_does_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
