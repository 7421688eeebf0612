/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paged memory over local: transfers of peers, through an exchange, to memory that a pager brings
 * and keeps. Here the test is the pager and its device, and makes the target progress. Peers are
 * clients of ours, or sockets with an exchange in which they write what they like.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fabric/local/exchange.h"
#include "fabric/mapped.h"
#include "fabric/paged.h"
#include "fabric/sums.h"
#include "lib/fabric/fabric_fixture.h"
#include "lib/fabric/local_peer.h"
#include "lib/fabric/paged_store.h"
#include "unit/group.h"

#define WORD  64U
#define LONG  (200U << 10) /* several slices */
#define BLOCK CHECKSUM_BLOCK

struct world {
	struct client client; /* its target has no thread */
	struct target *target;
	struct folder folder;
	struct paged_store store;
};

/* ---- The world */

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	world->target = &world->client.target;
	world->folder = make_folder();
	target_open(world->target, world->folder.address);
	assert_int_equal(fabric_open("local", &world->client.fabric), 0);
	assert_int_equal(fabric_queue_open(world->client.fabric, 128, &world->client.queue), 0);
	fill(world->target->data, LENT, 1);
	paged_store_open(&world->store, world->target->fabric->domain);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	paged_store_close(&world->store);
	fabric_queue_close(world->client.queue);
	close_fabric(world->client.fabric);
	target_close(world->target);
	remove_folder(&world->folder);
	free(world);
	return 0;
}

static void poll_target(struct world *world)
{
	struct fabric_completion completion;

	assert_int_equal(fabric_queue_poll(world->target->queue, &completion, 1), 0);
}

/* Both ends sleep when they may, and each wakes the other. */
static struct fabric_completion complete(struct world *world)
{
	struct fabric_queue *ours = world->client.queue, *theirs = world->target->queue;
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

static void settle(struct world *world)
{
	for (unsigned i = 0; i < 2 * 128 + 2; i++) /* it looks at cold connections now and then */
		poll_target(world);
}

static struct fabric_endpoint *open_pair(struct world *world, struct fabric_endpoint **accepted)
{
	struct fabric_endpoint *connected;

	connect_pair(&world->client, world->target, &connected, accepted);
	return connected;
}

static void close_pair(struct fabric_endpoint *connected, struct fabric_endpoint *accepted)
{
	fabric_endpoint_close(connected);
	fabric_endpoint_close(accepted);
}

static int start(struct fabric_endpoint *endpoint, enum paged_kind kind, void *data, size_t length,
		 uint64_t key, uint64_t offset, uint64_t context)
{
	/* In two pieces. */
	const struct fabric_piece pieces[2] = {
		{data, length / 3, NULL},
		{(uint8_t *)data + length / 3, length - length / 3, NULL}};

	return paged_begin(endpoint, kind, pieces, offset, key, context);
}

static struct fabric_completion transfer(struct world *world, struct fabric_endpoint *endpoint,
					 enum paged_kind kind, void *data, size_t length,
					 uint64_t offset)
{
	assert_int_equal(start(endpoint, kind, data, length, world->store.paged.key, offset, 7), 0);
	return complete(world);
}

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
	uint8_t *mine = allocate(FABRIC_PAGED_MAX);
	struct fabric_endpoint *connected, *accepted;
	unsigned nr = 0;

	connected = open_pair(world, &accepted);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]) * NR_KINDS; i++, nr++) {
		const enum paged_kind kind = i % NR_KINDS;
		const uint64_t offset = cases[i / NR_KINDS].offset,
			       length = cases[i / NR_KINDS].length;

		fill(mine, length, 100 + i);
		paged_expect_done(transfer(world, connected, kind, mine, length, offset));
		assert_memory_equal(mine, world->store.bytes + offset, length);
		assert_int_equal(world->store.pages[nr].copy.is_write, paged_kind_writes(kind));
		assert_int_equal(world->store.pages[nr].copy.is_durable,
				 kind == DURABLE || kind == CHECKED_DURABLE);
		assert_int_equal(world->store.pages[nr].copy.is_checked, kind >= CHECKED_READ);
		assert_int_equal(world->store.pages[nr].copy.length, length);
	}
	/* Bytes that are no whole blocks. */
	paged_expect_done(transfer(world, connected, READ, mine, 2, 4095));
	assert_memory_equal(mine, world->store.bytes + 4095, 2);
	for (enum paged_kind kind = READ; kind < NR_KINDS; kind++)
		paged_expect_done(transfer(world, connected, kind, mine, 0, PAGED_BYTES));
	settle(world);
	assert_int_equal(world->store.nr_left, nr + 1);
	close_pair(connected, accepted);
	free(mine);
}

/* More than the exchange has room for, ended backwards. */
static void completes_many_at_once(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *connected, *accepted;
	uint8_t *mine = allocate(100 * 2 * LONG);
	unsigned nr = 0, nr_done = 0;
	bool is_done[100] = {false};

	connected = open_pair(world, &accepted);
	paged_expect_done(transfer(world, connected, READ, mine, WORD, 0));
	world->store.is_waiting = true;
	while (nr_done < 100) {
		struct fabric_completion completion;
		int ret = 0;

		while (nr < 100 && ret == 0) {
			ret = start(connected, READ, mine + nr * 2 * LONG, nr % 2 ? 2 * LONG : WORD,
				    world->store.paged.key, nr * WORD, nr);
			nr += ret == 0;
		}
		assert_true(ret == 0 || ret == -EAGAIN);
		settle(world);
		for (unsigned i = world->store.nr_pages; i > 1; i--) {
			if (!world->store.pages[i - 1].has_ended &&
			    world->store.pages[i - 1].has_begun)
				paged_store_end(&world->store, i - 1, 0);
		}
		completion = complete(world);
		assert_int_equal(completion.status, 0);
		assert_false(is_done[completion.context]);
		is_done[completion.context] = true;
		nr_done++;
	}
	for (unsigned i = 0; i < 100; i++)
		assert_memory_equal(mine + i * 2 * LONG, world->store.bytes + i * WORD,
				    i % 2 ? 2 * LONG : WORD);
	close_pair(connected, accepted);
	free(mine);
}

/* The first transfers name keys that are not there yet. */
static void waits_for_keys(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *connected, *accepted;
	uint8_t words[40][WORD];

	connected = open_pair(world, &accepted);
	for (unsigned i = 0; i < 40; i++)
		assert_int_equal(start(connected, READ, words[i], WORD,
				       i % 2 ? world->store.paged.key : world->store.read_only.key,
				       i, 7),
				 0);
	for (unsigned i = 0; i < 40; i++)
		paged_expect_done(complete(world));
	for (unsigned i = 0; i < 40; i++)
		assert_memory_equal(words[i], world->store.bytes + i, WORD);
	close_pair(connected, accepted);
}

static void waits_for_memory(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *connected[2], *accepted[2];
	uint8_t words[2][WORD];
	uint64_t first;

	for (unsigned i = 0; i < 2; i++) {
		connected[i] = open_pair(world, &accepted[i]);
		paged_expect_done(transfer(world, connected[i], READ, words[i], WORD, 0));
	}
	world->store.room = WORD;
	world->store.is_waiting = true;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(
			start(connected[i], READ, words[i], WORD, world->store.paged.key, i, i), 0);
	settle(world);
	assert_int_equal(world->store.nr_pages, 3);
	assert_true(world->store.nr_refused > 0);
	assert_int_equal(fabric_queue_arm(world->target->queue), 0); /* nothing keeps it awake */
	paged_store_end(&world->store, 2, 0);
	assert_int_not_equal(fabric_queue_arm(world->target->queue), 0);
	first = complete(world).context;
	settle(world);
	assert_int_equal(world->store.nr_pages, 4);
	paged_store_end(&world->store, 3, 0);
	assert_int_equal(complete(world).context, 1 - first);
	/* One that goes while it waits. */
	world->store.room = 0;
	assert_int_equal(start(connected[0], READ, words[0], WORD, world->store.paged.key, 0, 7),
			 0);
	settle(world);
	for (unsigned i = 0; i < 2; i++)
		close_pair(connected[i], accepted[i]);
	settle(world);
}

static void fails_one_by_one(void **state)
{
	static const int statuses[] = {-EIO, -ENOSPC, -EBADMSG, -10005};
	struct world *world = *state;
	struct fabric_endpoint *connected, *accepted;
	uint8_t block[BLOCK];

	connected = open_pair(world, &accepted);
	for (unsigned i = 0; i < sizeof(statuses) / sizeof(statuses[0]) * NR_KINDS * 2; i++) {
		const int status = statuses[i / NR_KINDS / 2];
		struct fabric_completion completion;

		world->store.take_status = i % 2 ? status : 0;
		world->store.prompt_status = status;
		memset(block, 0xbb, BLOCK);
		completion = transfer(world, connected, i / 2 % NR_KINDS, block, BLOCK, 0);
		assert_int_equal(completion.context, 7);
		assert_int_equal(completion.status, status);
		assert_true(completion.is_alone);
		assert_false(completion.is_altered);
		assert_int_equal(count_bytes(block, BLOCK, 0xbb), BLOCK);
		world->store.take_status = world->store.prompt_status = 0;
		paged_expect_done(transfer(world, connected, READ, block, BLOCK, i * BLOCK));
		assert_memory_equal(block, world->store.bytes + i * BLOCK, BLOCK);
	}
	world->store.lie = 1;
	assert_int_equal(start(connected, CHECKED_READ, block, BLOCK, world->store.paged.key, 0, 7),
			 0);
	assert_true(complete(world).is_altered);
	close_pair(connected, accepted);
}

static void outlives_its_key(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *connected, *accepted;
	uint8_t word[WORD];

	world->store.is_waiting = true;
	connected = open_pair(world, &accepted);
	assert_int_equal(start(connected, READ, word, WORD, world->store.paged.key, 0, 7), 0);
	while (world->store.nr_pages == 0) {
		struct fabric_completion completion;

		fabric_queue_poll(world->client.queue, &completion, 0);
		fabric_queue_poll(world->client.queue, &completion, 1);
		poll_target(world);
	}
	fabric_memory_deregister(&world->store.paged);
	paged_store_end(&world->store, 0, 0);
	paged_expect_done(complete(world));
	assert_memory_equal(word, world->store.bytes, WORD);
	assert_int_equal(start(connected, READ, word, WORD, world->store.paged.key, 0, 7), 0);
	assert_int_equal(complete(world).status, -ECONNRESET);
	close_pair(connected, accepted);
}

/* Nothing of what was asked touches memory afterwards, at either end. */
static void ends_in_the_middle(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *connected, *accepted;
	uint8_t *mine = allocate(LONG);

	for (unsigned i = 0; i < 2; i++) {
		const unsigned before = world->store.nr_pages;

		world->store.is_waiting = false;
		connected = open_pair(world, &accepted);
		paged_expect_done(transfer(world, connected, READ, mine, WORD, 0));
		world->store.is_waiting = true;
		assert_int_equal(start(connected, READ, mine, LONG, world->store.paged.key, 0, 7),
				 0);
		assert_int_equal(start(connected, WRITE, mine, LONG, world->store.paged.key, 0, 7),
				 0);
		poll_target(world);
		assert_int_equal(world->store.nr_pages, before + 3);
		if (i == 0) {
			fabric_endpoint_close(connected);
			await_closed(accepted, -ECONNRESET);
			fabric_endpoint_close(accepted);
		} else {
			fabric_endpoint_close(accepted);
			assert_int_equal(await_completion(world->client.queue).status, -ECONNRESET);
			assert_int_equal(await_completion(world->client.queue).status, -ECONNRESET);
			fabric_endpoint_close(connected);
		}
		assert_int_equal(world->store.nr_left, world->store.nr_pages);
		paged_store_end(&world->store, before + 1, 0);
	}
	free(mine);
}

/* A pager's memory is not there to be looked at, nor added to. */
static void is_no_memory(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *connected, *accepted;
	struct fabric_window window;
	uint8_t word[8];

	connected = open_pair(world, &accepted);
	paged_expect_done(transfer(world, connected, READ, word, sizeof(word), 0));
	assert_int_equal(fabric_prepare(connected, world->store.paged.key), 0);
	assert_int_equal(fabric_window(connected, world->store.paged.key, &window), 0);
	assert_null(window.addr);
	assert_false(
		window.pages->read(window.pages, world->store.paged.key, 0, word, sizeof(word)));
	fabric_gate_drop(window.gate);
	assert_int_equal(fabric_attach(connected, world->store.paged.key, 0, 4096, false, word),
			 -EINVAL);
	close_pair(connected, accepted);
	/* Nor is other memory a pager's. */
	connected = open_pair(world, &accepted);
	assert_int_equal(
		start(connected, DURABLE, word, sizeof(word), world->target->all.key, 0, 7), 0);
	assert_int_equal(complete(world).status, -ECONNRESET);
	close_pair(connected, accepted);
}

/* ---- Peers that write what they like */

struct stranger {
	struct local_peer peer;
	struct local_exchange *exchange;
	struct fabric_endpoint *endpoint;
};

static struct local_message hear_message(struct world *world, struct stranger *stranger, int *fd)
{
	struct pollfd ready = {.fd = stranger->peer.fd, .events = POLLIN};
	struct local_message message;

	while (poll(&ready, 1, 0) == 0)
		poll_target(world);
	assert_true(local_peer_hear(&stranger->peer, &message, fd));
	return message;
}

static struct stranger meet(struct world *world)
{
	const struct local_hello hello = local_peer_hello(0);
	struct local_message ask = local_talk_message(LOCAL_ASK, world->store.paged.key);
	struct stranger stranger = {.peer = local_peer_open(world->target->listener->address)};
	struct fabric_request request;
	int fd;

	local_peer_say(&stranger.peer, &hello, LOCAL_HELLO_HEAD, NULL, 0);
	while (fabric_listener_next(world->target->listener, &request) != 0)
		;
	assert_int_equal(fabric_accept(&request, world->target->queue,
				       world->target->fabric->domain, world->target,
				       &stranger.endpoint),
			 0);
	local_peer_take_link(&stranger.peer);
	await_event(world->target->queue);
	local_peer_say_message(&stranger.peer, &ask, -1);
	assert_int_equal(hear_message(world, &stranger, &fd).type, LOCAL_PAGED);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 0), -1); /* nobody can pull it away */
	stranger.exchange = local_exchange_map(fd);
	assert_non_null(stranger.exchange);
	close(fd);
	ask.key = world->store.read_only.key;
	local_peer_say_message(&stranger.peer, &ask, -1);
	assert_int_equal(hear_message(world, &stranger, &fd).type, LOCAL_PAGED);
	assert_int_equal(fd, -1);
	return stranger;
}

static void part(struct stranger *stranger)
{
	fabric_endpoint_close(stranger->endpoint);
	local_exchange_unmap(stranger->exchange);
	local_peer_close(&stranger->peer);
}

static void put(const struct stranger *stranger, uint32_t at, const struct local_page_ask *ask)
{
	stranger->exchange->asks[at % LOCAL_DEPTH_MAX] = *ask;
	atomic_store(&stranger->exchange->asked, at + 1);
}

static void expect_end(struct world *world, struct stranger *stranger)
{
	await_closed(stranger->endpoint, -ECONNRESET);
	part(stranger);
	assert_int_equal(world->store.nr_left, world->store.nr_pages);
}

static void refuses_what_peers_may_not(void **state)
{
	struct world *world = *state;
	const uint64_t key = world->store.paged.key, outside = world->target->all.key;
	const struct local_page_ask asks[] = {
		{key, 0, WORD, 0, 0, FABRIC_PAGED_COLD << 1},
		{key, 0, WORD, 0, 0, FABRIC_PAGED_DURABLE},
		{key, 0, WORD, 0, 0, UINT32_MAX},
		{key, 0, WORD, 0, 0, FABRIC_PAGED_BRIEF},
		{key, 0, WORD, 0, 0, FABRIC_PAGED_ONCE | FABRIC_PAGED_COLD},
		{key, 0, WORD, 0, 0, FABRIC_PAGED_WRITE | FABRIC_PAGED_ONCE},
		{key, 0, WORD, 0, 0, FABRIC_PAGED_WRITE | FABRIC_PAGED_BRIEF | FABRIC_PAGED_COLD},
		{key, 0, FABRIC_PAGED_MAX + 1, 0, 0, 0},
		{key, 0, UINT32_MAX, 0, 0, FABRIC_PAGED_WRITE},
		{key, PAGED_BYTES, 1, 0, 0, 0},
		{key, PAGED_BYTES + 1, 0, 0, 0, 0},
		{key, UINT64_MAX, 2, 0, 0, FABRIC_PAGED_WRITE},
		{key, 0, 1, LOCAL_EXCHANGE_PAGES, 0, 0},
		{key, 0, 1, UINT32_MAX, 0, FABRIC_PAGED_WRITE},
		{key, 0, LOCAL_PAGE + 1, LOCAL_EXCHANGE_PAGES - 1, 0, 0},
		{key, 0, LOCAL_PAGE, LOCAL_EXCHANGE_PAGES - 1, 0, FABRIC_PAGED_CHECKED},
		{key, 1, WORD, 0, 0, FABRIC_PAGED_CHECKED},
		{key ^ 1, 0, WORD, 0, 0, 0},
		{outside, 0, WORD, 0, 0, 0},
		{world->store.read_only.key, 0, WORD, 0, 0, FABRIC_PAGED_WRITE},
		{world->store.read_only.key, 0, 0, 0, 0, FABRIC_PAGED_WRITE},
	};

	for (unsigned i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
		struct stranger stranger = meet(world);

		put(&stranger, 0, &asks[i]);
		expect_end(world, &stranger);
		assert_int_equal(world->store.nr_pages + world->store.nr_refused, 0);
	}
}

static void believes_no_impossible_counters(void **state)
{
	static const uint32_t counters[] = {LOCAL_DEPTH_MAX + 1, UINT32_MAX, 1U << 31};
	struct world *world = *state;

	for (unsigned i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		struct stranger stranger = meet(world);

		atomic_store(&stranger.exchange->asked, counters[i]);
		expect_end(world, &stranger);
	}
	/* The peer asks for as many as there may be, and then for one more. */
	for (unsigned i = 0; i < 2; i++) {
		struct stranger stranger = meet(world);
		const struct local_page_ask ask = {world->store.paged.key, 0, WORD, 0, 0, 0};
		const unsigned before = world->store.nr_pages;

		world->store.is_waiting = true;
		for (unsigned at = 0; at < LOCAL_DEPTH_MAX; at++)
			put(&stranger, at, &ask);
		settle(world);
		assert_int_equal(world->store.nr_pages, before + LOCAL_DEPTH_MAX);
		atomic_store(&stranger.exchange->answered, UINT32_MAX); /* is nothing to us */
		put(&stranger, LOCAL_DEPTH_MAX, &ask);
		expect_end(world, &stranger);
		for (unsigned at = before; at < world->store.nr_pages; at++)
			paged_store_end(&world->store, at, 0);
	}
}

/* A write's bytes are copied once: later changes reach neither the pager nor its sums. */
static void keeps_what_it_has_copied(void **state)
{
	struct world *world = *state;
	struct stranger stranger = meet(world);
	const struct local_page_ask ask = {world->store.paged.key, 0, WORD, 5, 0,
					   FABRIC_PAGED_WRITE};
	uint8_t word[WORD];

	world->store.is_waiting = true;
	fill(word, WORD, 9);
	memcpy(stranger.exchange->bytes + 5 * LOCAL_PAGE, word, WORD);
	put(&stranger, 0, &ask);
	while (world->store.nr_pages == 0 || !world->store.pages[0].has_begun)
		poll_target(world);
	memset(stranger.exchange->bytes + 5 * LOCAL_PAGE, 0, WORD);
	paged_store_end(&world->store, 0, 0);
	assert_memory_equal(world->store.bytes, word, WORD);
	part(&stranger);
}

TEST_GROUP(fabric_local_paged)
{
#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		IN_WORLD(moves_bytes_both_ways),
		IN_WORLD(completes_many_at_once),
		IN_WORLD(waits_for_keys),
		IN_WORLD(waits_for_memory),
		IN_WORLD(fails_one_by_one),
		IN_WORLD(outlives_its_key),
		IN_WORLD(ends_in_the_middle),
		IN_WORLD(is_no_memory),
		IN_WORLD(refuses_what_peers_may_not),
		IN_WORLD(believes_no_impossible_counters),
		IN_WORLD(keeps_what_it_has_copied),
	};

	setenv("AFAR_TEST_TRANSPORT", "local", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
