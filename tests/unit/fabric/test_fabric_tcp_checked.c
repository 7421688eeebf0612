/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checked transfers over tcp: sums that go with the bytes. A target with a thread lends memory by a
 * pager of this test's, which knows the sums of what it keeps. Peers are clients of ours, plain
 * sockets that say what they like, and liars.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/checksum.h"
#include "fabric/paged.h"
#include "lib/fabric/fabric_fixture.h"
#include "lib/fabric/tcp_peer.h"
#include "unit/group.h"

#define BLOCK	    CHECKSUM_BLOCK
#define PAGED_BYTES (4 * MIB)
#define LONG	    (25 * BLOCK) /* more than the stage */

struct world {
	struct client *client;
	struct fabric_pager pager;
	struct fabric_memory paged, read_only;
	uint8_t *store;
	struct fabric_paged last; /* as it began */
	int take_status;
	uint32_t lie; /* of the first block's sum */
};

static unsigned nr_blocks(uint64_t length)
{
	return (unsigned)((length + BLOCK - 1) / BLOCK);
}

/* The sum of block `i` of so many bytes, with zeros behind. */
static uint32_t sum_of(const uint8_t *bytes, uint64_t length, unsigned i)
{
	uint8_t block[BLOCK] = {0};
	uint64_t left = length - i * BLOCK;

	memcpy(block, bytes + i * BLOCK, left < BLOCK ? left : BLOCK);
	return checksum_crc32c(block, BLOCK);
}

/* ---- A pager, on the target's thread */

static int take(struct fabric_pager *pager, struct fabric_paged *paged)
{
	const struct world *world = caa_container_of(pager, struct world, pager);

	if (world->take_status)
		return world->take_status;
	paged->addr = allocate(paged->length);
	paged->sums = paged->is_checked ? malloc(tcp_sums_bytes(paged->length)) : NULL;
	return 0;
}

static int keep(struct world *world, const struct fabric_paged *paged)
{
	for (unsigned i = 0; paged->sums && i < nr_blocks(paged->length); i++) {
		if (sum_of(paged->addr, paged->length, i) != paged->sums[i])
			return -EBADMSG;
	}
	memcpy(world->store + paged->offset, paged->addr, paged->length);
	return 0;
}

static int bring(struct world *world, const struct fabric_paged *paged)
{
	const uint8_t *stored = world->store + paged->offset;

	memcpy(paged->addr, stored, paged->length);
	for (unsigned i = 0; paged->sums && i < nr_blocks(paged->length); i++)
		paged->sums[i] = sum_of(stored, paged->length, i) ^ (i ? 0 : world->lie);
	return 0;
}

static void begin(struct fabric_pager *pager, struct fabric_paged *paged)
{
	struct world *world = caa_container_of(pager, struct world, pager);

	world->last = *paged;
	fabric_paged_ended(paged, paged->is_write ? keep(world, paged) : bring(world, paged));
}

static void leave(struct fabric_pager *pager, struct fabric_paged *paged)
{
	(void)pager;
	free(paged->addr);
	free(paged->sums);
}

/* ---- The world */

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	void *client;

	assert_non_null(world);
	client_setup(&client);
	world->client = client;
	world->pager = (struct fabric_pager){.take = take, .begin = begin, .leave = leave};
	world->store = allocate(PAGED_BYTES);
	fill(world->store, PAGED_BYTES, 2);
	assert_int_equal(fabric_memory_register_paged(
				 world->client->target.fabric->domain, &world->pager, PAGED_BYTES,
				 FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, &world->paged),
			 0);
	assert_int_equal(fabric_memory_register_paged(world->client->target.fabric->domain,
						      &world->pager, PAGED_BYTES,
						      FABRIC_REMOTE_READ, &world->read_only),
			 0);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;
	void *client = world->client;

	fabric_memory_deregister(&world->paged);
	fabric_memory_deregister(&world->read_only);
	client_teardown(&client);
	free(world->store);
	free(world);
	return 0;
}

enum kind { KIND_READ, KIND_WRITE, KIND_DURABLE };

static int start(const struct world *world, struct fabric_endpoint *endpoint, enum kind kind,
		 void *data, size_t length, uint64_t offset)
{
	/* In pieces that end in the midst of blocks. */
	const struct fabric_piece pieces[4] = {
		{data, length / 3, NULL},
		{(uint8_t *)data + length / 3, 0, NULL},
		{(uint8_t *)data + length / 3, length / 5, NULL},
		{(uint8_t *)data + length / 3 + length / 5, length - length / 3 - length / 5, NULL},
	};

	return fabric_paged_transfer(endpoint,
				     FABRIC_PAGED_CHECKED |
					     (kind == KIND_READ ? 0 : FABRIC_PAGED_WRITE) |
					     (kind == KIND_DURABLE ? FABRIC_PAGED_DURABLE : 0),
				     pieces, 4, offset, world->paged.key, 7);
}

static struct fabric_completion transfer(const struct world *world,
					 struct fabric_endpoint *endpoint, enum kind kind,
					 void *data, size_t length, uint64_t offset)
{
	assert_int_equal(start(world, endpoint, kind, data, length, offset), 0);
	return await_completion(world->client->queue);
}

static void expect_done(struct fabric_completion completion)
{
	assert_int_equal(completion.context, 7);
	assert_int_equal(completion.status, 0);
	assert_false(completion.is_alone || completion.is_altered);
}

static const struct {
	uint64_t offset, length;
} cases[] = {
	{0, 1},
	{BLOCK, BLOCK},
	{2 * BLOCK, BLOCK - 1},
	{PAGED_BYTES - BLOCK, BLOCK},
	{5 * BLOCK, LONG + 1},
	{MIB, FABRIC_PAGED_MAX - 1},
	{PAGED_BYTES - FABRIC_PAGED_MAX, FABRIC_PAGED_MAX},
};
#define NR_CASES (sizeof(cases) / sizeof(cases[0]))

/* The pager has compared the sums of writes, and sent those of reads. */
static void moves_bytes_with_their_sums(void **state)
{
	struct world *world = *state;
	uint8_t *mine = allocate(FABRIC_PAGED_MAX);
	struct fabric_endpoint *endpoint = client_connect(world->client);

	for (unsigned i = 0; i < NR_CASES; i++) {
		uint8_t *stored = world->store + cases[i].offset;

		for (enum kind kind = KIND_READ; kind <= KIND_DURABLE; kind++) {
			fill(mine, cases[i].length, 100 + i + kind);
			expect_done(transfer(world, endpoint, kind, mine, cases[i].length,
					     cases[i].offset));
			assert_memory_equal(mine, stored, cases[i].length);
			assert_true(world->last.is_checked);
			assert_int_equal(world->last.offset, cases[i].offset);
			assert_int_equal(world->last.length, cases[i].length);
			assert_int_equal(world->last.is_write, kind != KIND_READ);
			assert_int_equal(world->last.is_durable, kind == KIND_DURABLE);
		}
	}
	/* Others have none, on the same connection. */
	assert_int_equal(start_one(endpoint, false, mine, 1, &world->paged, 0, 7), 0);
	expect_done(await_completion(world->client->queue));
	assert_false(world->last.is_checked);
	fabric_endpoint_close(endpoint);
	free(mine);
}

/* Keeps as many transfers in flight as may be, each with sums of its own. */
static void keeps_sums_apart(void **state)
{
	struct world *world = *state;
	uint8_t *mine = allocate(DEPTH * LONG);
	struct fabric_endpoint *endpoint = client_connect(world->client);
	struct fabric_queue *queue = world->client->queue;

	for (unsigned round = 0; round < 5; round++) {
		enum kind kind = round % 2 ? KIND_WRITE : KIND_READ;
		unsigned nr = 0;

		fill(mine, DEPTH * LONG, round);
		fabric_queue_hold(queue);
		while (nr < DEPTH &&
		       start(world, endpoint, kind, mine + nr * LONG, LONG, nr % 32 * LONG) == 0)
			nr++;
		fabric_queue_release(queue);
		assert_true(nr > 8);
		for (unsigned i = 0; i < nr; i++)
			expect_done(await_completion(queue));
	}
	fabric_endpoint_close(endpoint);
	free(mine);
}

/* ---- What was changed on the way */

/* One transfer fails, and the connection goes on. */
static void tells_of_sums_that_do_not_fit(void **state)
{
	struct world *world = *state;
	struct fabric_endpoint *endpoint = client_connect(world->client);
	uint8_t *mine = allocate(LONG);
	struct fabric_completion completion;

	world->lie = 1U << 31;
	completion = transfer(world, endpoint, KIND_READ, mine, LONG, 0);
	assert_int_equal(completion.context, 7);
	assert_int_equal(completion.status, -EBADMSG);
	assert_true(completion.is_alone && completion.is_altered);
	world->lie = 0;
	expect_done(transfer(world, endpoint, KIND_READ, mine, LONG, 0));
	fabric_endpoint_close(endpoint);
	free(mine);
}

static void says_a_write(int fd, const struct world *world, uint32_t type, const uint8_t *bytes,
			 uint64_t length, uint32_t change)
{
	const struct tcp_frame frame = frame_of(type, world->paged.key, 0, length);

	say(fd, &frame, sizeof(frame));
	say(fd, bytes, length);
	for (unsigned i = 0; i < nr_blocks(length); i++) {
		uint32_t sum = htole32(sum_of(bytes, length, i) ^
				       (i == nr_blocks(length) - 1 ? change : 0));

		say(fd, &sum, sizeof(sum));
	}
}

static void expect_failed(int fd, int status, uint64_t length)
{
	struct tcp_frame reply;

	assert_true(hear(fd, &reply, TCP_FRAME_SHORT));
	assert_int_equal(le32toh(reply.type), TCP_FAILED);
	assert_int_equal(le32toh(reply.word), -status);
	assert_int_equal(le64toh(reply.length), length);
}

/* The sums are behind the bytes, little-endian; a failed write's are dropped with them. */
static void hears_sums_behind_the_bytes(void **state)
{
	static const uint64_t lengths[] = {1, BLOCK, LONG, LONG + 1};
	struct world *world = *state;
	const int fd = join(world->client->target.listener->address);
	uint8_t *bytes = allocate(LONG + 1), *heard = allocate(LONG + 1);

	for (unsigned i = 0; i < 2 * sizeof(lengths) / sizeof(lengths[0]); i++) {
		const uint64_t length = lengths[i / 2];
		const uint32_t type = i % 2 ? TCP_WRITE_CHECKED : TCP_WRITE_CHECKED_DURABLE;
		const struct tcp_frame read =
			frame_of(TCP_READ_CHECKED, world->paged.key, 0, length);

		fill(bytes, length, 50 + i);
		says_a_write(fd, world, type, bytes, length, 0);
		expect_reply(fd, TCP_WRITE_ACK, length);
		assert_memory_equal(world->store, bytes, length);
		bytes[0]++;
		says_a_write(fd, world, type, bytes, length, 1);
		expect_failed(fd, -EBADMSG, length);
		bytes[0]--;
		world->take_status = -ENOSPC;
		says_a_write(fd, world, type, bytes, length, 0);
		expect_failed(fd, -ENOSPC, length);
		world->take_status = 0;
		say(fd, &read, sizeof(read));
		expect_reply(fd, TCP_CHECKED_REPLY, length);
		assert_true(hear(fd, heard, length));
		assert_memory_equal(heard, bytes, length);
		for (unsigned block = 0; block < nr_blocks(length); block++) {
			uint32_t sum;

			assert_true(hear(fd, &sum, sizeof(sum)));
			assert_int_equal(le32toh(sum), sum_of(bytes, length, block));
		}
	}
	close(fd);
	free(bytes);
	free(heard);
}

/* ---- What is refused */

static void expect_refusal(struct world *world, uint32_t type, uint64_t key, uint64_t offset,
			   uint64_t length)
{
	const struct tcp_frame frame = frame_of(type, key, offset, length);
	int fd = join(world->client->target.listener->address);

	say(fd, &frame, sizeof(frame));
	expect_end(fd);
	assert_null(world->last.pager);
}

static void refuses_what_peers_may_not(void **state)
{
	struct world *world = *state;
	const struct client *client = world->client;
	const uint64_t key = world->paged.key;

	for (uint32_t type = TCP_READ_CHECKED; type <= TCP_WRITE_CHECKED_DURABLE; type++) {
		expect_refusal(world, type, key, 0, 0);
		expect_refusal(world, type, key, 1, BLOCK);
		expect_refusal(world, type, key, BLOCK - 1, 1);
		expect_refusal(world, type, key, BLOCK / 2, BLOCK / 2);
		expect_refusal(world, type, key, 0, FABRIC_PAGED_MAX + 1);
		expect_refusal(world, type, key, 0, UINT64_MAX);
		expect_refusal(world, type, key, 0, UINT64_MAX - BLOCK + 2);
		expect_refusal(world, type, key, PAGED_BYTES, 1);
		expect_refusal(world, type, key, PAGED_BYTES - BLOCK, BLOCK + 1);
		expect_refusal(world, type, key, UINT64_MAX - BLOCK + 1, BLOCK);
		expect_refusal(world, type, key ^ 1, 0, BLOCK);
		expect_refusal(world, type, client->target.all.key, 0, BLOCK);
		if (type != TCP_READ_CHECKED)
			expect_refusal(world, type, world->read_only.key, 0, BLOCK);
	}
	fabric_endpoint_close(client_connect(world->client));
}

static void starts_none_that_is_wrong(void **state)
{
	struct world *world = *state;
	uint8_t *mine = allocate(FABRIC_PAGED_MAX + 1);
	struct fabric_endpoint *endpoint = client_connect(world->client);

	for (enum kind kind = KIND_READ; kind <= KIND_DURABLE; kind++) {
		assert_int_equal(start(world, endpoint, kind, mine, 0, 0), -EINVAL);
		assert_int_equal(start(world, endpoint, kind, mine, BLOCK, 1), -EINVAL);
		assert_int_equal(start(world, endpoint, kind, mine, FABRIC_PAGED_MAX + 1, 0),
				 -EMSGSIZE);
	}
	expect_done(transfer(world, endpoint, KIND_READ, mine, BLOCK, 0));
	fabric_endpoint_close(endpoint);
	free(mine);
}

/* Has a client of ours read `length` bytes of a liar, whose answer is `frame` and all of 0x55. */
static struct fabric_completion ask_liar(struct world *world, struct tcp_frame frame,
					 uint64_t length, uint8_t *mine)
{
	uint8_t noise[2 * BLOCK];
	struct tcp_frame request;
	struct liar liar;
	struct fabric_completion completion;

	memset(noise, 0x55, sizeof(noise));
	liar_join(&liar, world->client);
	assert_int_equal(start(world, liar.endpoint, KIND_READ, mine, length, 0), 0);
	assert_true(hear(liar.fd, &request, sizeof(request)));
	assert_int_equal(le32toh(request.type), TCP_READ_CHECKED);
	say(liar.fd, &frame, TCP_FRAME_SHORT);
	say(liar.fd, noise, length + tcp_sums_bytes(length));
	completion = await_completion(world->client->queue);
	liar_close(&liar);
	return completion;
}

/* Bytes alone are no answer to who wants sums, nor the other way round. */
static void believes_sums_only(void **state)
{
	struct world *world = *state;
	struct fabric_completion completion;
	uint8_t mine[BLOCK];
	struct tcp_frame request;
	struct liar liar;

	for (uint64_t length = 1; length <= BLOCK; length += BLOCK - 1) {
		completion =
			ask_liar(world, frame_of(TCP_CHECKED_REPLY, 0, 0, length), length, mine);
		assert_int_equal(completion.status, -EBADMSG);
		assert_true(completion.is_alone && completion.is_altered);
		assert_int_equal(
			ask_liar(world, frame_of(TCP_READ_REPLY, 0, 0, length), length, mine)
				.status,
			-ECONNRESET);
		assert_int_equal(
			ask_liar(world, frame_of(TCP_CHECKED_REPLY, 0, 0, length + 1), length, mine)
				.status,
			-ECONNRESET);
		assert_int_equal(
			ask_liar(world, frame_of(TCP_WRITE_ACK, 0, 0, length), length, mine).status,
			-ECONNRESET);
	}
	liar_join(&liar, world->client);
	assert_int_equal(start_one(liar.endpoint, false, mine, BLOCK, &world->paged, 0, 7), 0);
	assert_true(hear(liar.fd, &request, sizeof(request)));
	request = frame_of(TCP_CHECKED_REPLY, 0, 0, BLOCK);
	say(liar.fd, &request, TCP_FRAME_SHORT);
	assert_int_equal(await_completion(world->client->queue).status, -ECONNRESET);
	liar_close(&liar);
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

TEST_GROUP(fabric_tcp_checked)
{
	const struct CMUnitTest tests[] = {
		IN_WORLD(moves_bytes_with_their_sums),
		IN_WORLD(keeps_sums_apart),
		IN_WORLD(tells_of_sums_that_do_not_fit),
		IN_WORLD(hears_sums_behind_the_bytes),
		IN_WORLD(refuses_what_peers_may_not),
		IN_WORLD(starts_none_that_is_wrong),
		IN_WORLD(believes_sums_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
