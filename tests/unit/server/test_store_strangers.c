/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store on a driven lane, and clients that ask for what they like. They name keys that are not theirs, and bytes
 * that are not there. They ask for all at once, and die. Each ends its own connection at most, and the store has all
 * of its memory again. By AFAR_TEST_TRANSPORT, over tcp or verbs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fabric/driven/wire.h"
#include "lib/base/effort.h"
#include "lib/base/transport.h"
#include "lib/server/flash_gate.h"
#include "lib/server/store_bed.h"
#include "memory/zones.h"
#include "unit/group.h"

#define OTHER	   (NAMESPACE + 1)
#define BLOCK	   FTL_BLOCK
#define NR_ANSWERS FABRIC_RECEIVE_MAX
#define NR_ASKS	   (DRIVEN_DEPTH + DRIVEN_DEPTH / 2) /* that a server takes at once */

/* ---- A client that speaks the fabric below */

struct stranger {
	struct fabric *fabric;
	struct fabric_queue *queue;
	struct fabric_endpoint *endpoint;
	struct fabric_memory memory; /* of what is its own */
	struct {
		struct driven_message out[NR_ASKS], in[NR_ANSWERS];
		uint8_t bytes[BLOCK];
	} * own;
	unsigned nr_said, nr_sent, nr_answers;
	int status; /* of the last answer */
};

static const char *below;

static void wait_for_answer(struct stranger *stranger, unsigned i)
{
	const struct fabric_piece piece = {&stranger->own->in[i], sizeof(stranger->own->in[i]),
					   stranger->memory.descriptor};

	assert_int_equal(fabric_receive(stranger->endpoint, &piece, 1000 + i), 0);
}

/* Hears what has come. False: the connection is over. */
static bool hear(struct stranger *stranger)
{
	struct fabric_completion completion;
	struct fabric_event event;
	uint32_t sums[DRIVEN_SUMS_MAX], number, nr_sums;

	if (fabric_queue_poll(stranger->queue, &completion, 1) == 1) {
		if (completion.status != 0)
			return false;
		if (completion.context < 1000) {
			stranger->nr_sent++;
			return true;
		}
		assert_null(driven_decode_answer(&stranger->own->in[completion.context - 1000],
						 &number, &stranger->status, sums, &nr_sums));
		stranger->nr_answers++;
		wait_for_answer(stranger, (unsigned)completion.context - 1000);
	}
	return fabric_queue_event(stranger->queue, &event) == 0;
}

static void meet(struct bed *bed, struct stranger *stranger, bool may_write)
{
	const uint64_t words[3] = {99, NAMESPACE, may_write};
	const uint64_t deadline = clock_deadline_ms(DATA_CLIENT_PATIENCE_MS);
	struct fabric_completion completion;
	struct fabric_event event;

	*stranger = (struct stranger){0};
	assert_int_equal(fabric_open_at(below, any_port(), &stranger->fabric), 0);
	assert_int_equal(fabric_queue_open(stranger->fabric, 2 * NR_ASKS, &stranger->queue), 0);
	stranger->own = calloc(1, sizeof(*stranger->own));
	assert_non_null(stranger->own);
	assert_int_equal(fabric_memory_register(
				 stranger->fabric->domain, stranger->own, sizeof(*stranger->own),
				 FABRIC_LOCAL | FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE,
				 &stranger->memory),
			 0);
	assert_int_equal(fabric_connect(stranger->queue, store_lane_address(bed->store, 1), words,
					sizeof(words), stranger, &stranger->endpoint),
			 0);
	for (unsigned i = 0; i < NR_ANSWERS; i++)
		wait_for_answer(stranger, i);
	while (fabric_queue_event(stranger->queue, &event) == 0) {
		assert_int_equal(fabric_queue_poll(stranger->queue, &completion, 1), 0);
		assert_true(clock_ns() < deadline);
	}
	assert_int_equal(event.kind, FABRIC_CONNECTED);
}

static void part(struct stranger *stranger)
{
	fabric_endpoint_close(stranger->endpoint);
	fabric_memory_deregister(&stranger->memory);
	fabric_queue_close(stranger->queue);
	fabric_close(stranger->fabric);
	free(stranger->own);
}

/* A read of a block that is allowed. */
static struct driven_ask good_ask(const struct stranger *stranger, const struct extent_key *key)
{
	const uint64_t at =
		(uint64_t)((const uint8_t *)stranger->own->bytes - (const uint8_t *)stranger->own);

	return (struct driven_ask){
		.key = key->on[0].key,
		.offset = key->on[0].origin,
		.length = BLOCK,
		.nr_pieces = 1,
		.pieces = {{stranger->memory.base + at, stranger->memory.key, BLOCK, 0}},
	};
}

static void say(struct stranger *stranger, const struct driven_ask *ask)
{
	struct driven_message *out = &stranger->own->out[stranger->nr_said % NR_ASKS];
	struct fabric_piece piece = {out, driven_encode_ask(out, ask, NULL),
				     stranger->memory.descriptor};

	assert_int_equal(fabric_send(stranger->endpoint, &piece, stranger->nr_said % NR_ASKS), 0);
	stranger->nr_said++;
}

/* Has a block read. */
static void expect_answer(struct stranger *stranger, const struct extent_key *key, int status)
{
	const uint64_t deadline = clock_deadline_ms(DATA_CLIENT_PATIENCE_MS);
	const struct driven_ask ask = good_ask(stranger, key);
	const unsigned before = stranger->nr_answers;

	say(stranger, &ask);
	while (stranger->nr_answers == before) {
		assert_true(hear(stranger));
		assert_true(clock_ns() < deadline);
	}
	assert_int_equal(stranger->status, status);
}

static void await_end(struct stranger *stranger)
{
	const uint64_t deadline = clock_deadline_ms(DATA_CLIENT_PATIENCE_MS);

	while (hear(stranger))
		assert_true(clock_ns() < deadline);
}

/* ---- What the store has */

struct look {
	const struct bed *bed;
	struct order order;
	struct zones_stat stat;
};

static void run_look(void *argument)
{
	struct look *look = argument;

	zones_stat(look->bed->store->pages.stage.zones, &look->stat);
	on_done(&look->order, 0);
}

static uint64_t bytes_lent(const struct bed *bed)
{
	struct look look = {.bed = bed};

	open_order(&look.order);
	assert_int_equal(progress_run(store_progress(bed->store), run_look, &look), 0);
	assert_int_equal(await_order(&look.order), 0);
	return look.stat.bytes - look.stat.free_bytes;
}

static void await_memory(const struct bed *bed)
{
	const uint64_t deadline = clock_deadline_ms(DATA_CLIENT_PATIENCE_MS);

	while (bytes_lent(bed) > 0) {
		assert_true(clock_ns() < deadline);
		test_pause();
	}
}

static void expect_good(struct bed *bed, const struct extent_key *key)
{
	memset(bed->bytes, 0, MIB);
	assert_int_equal(
		data_client_read(&bed->client, bed->bytes, MIB, key->on[0].origin, key->on[0].key),
		0);
	for (size_t i = 0; i < MIB; i++)
		assert_int_equal(bed->bytes[i], 7);
}

static void on_keys(struct store_keys *keys, int status)
{
	on_done(caa_container_of(keys, struct order, keys), status);
}

/* The key of an extent on the driven lane. */
static struct extent_key key_for(const struct bed *bed, uint64_t extent, struct reach reach)
{
	struct order order;

	open_order(&order);
	order.keys = (struct store_keys){
		.reach = reach,
		.extents = &extent,
		.nr_extents = 1,
		.keys = &order.key,
		.done = on_keys,
	};
	assert_int_equal(store_get_keys(bed->store, &order.keys), 0);
	assert_int_equal(await_order(&order), 0);
	order.key.on[0] = order.key.on[1];
	return order.key;
}

/* Returns the number of an extent that begins with a MiB of sevens. */
static uint64_t open_written(struct bed *bed, struct extent_key *key)
{
	uint64_t extent;

	bed_open(bed);
	extent = reserve(bed).extent;
	*key = key_for(bed, extent, (struct reach){NAMESPACE, true});
	connect_as(bed, 1);
	write_mib(bed, key);
	return extent;
}

static uint64_t reserve_others(const struct bed *bed)
{
	struct made made = {0};

	open_order(&made.order);
	assert_int_equal(
		store_reserve(bed->store, OTHER, EXTENT_BYTES, CLOCK_NEVER, on_reserved, &made), 0);
	assert_int_equal(await_order(&made.order), 0);
	return made.info.extent;
}

/* ---- The tests */

enum wrong { KEY, BEHIND, FAR_BEHIND, WRITE, OTHERS_KEY, NO_MEMORY, OTHERS_MEMORY, NR_WRONGS };

static struct driven_ask invent(enum wrong wrong, const struct stranger *stranger,
				const struct extent_key *key, const struct extent_key *others,
				const struct fabric_memory *memory)
{
	struct driven_ask ask = good_ask(stranger, key);

	switch (wrong) {
	case KEY:
		ask.key ^= 0xff0000;
		break;
	case BEHIND:
		ask.offset += EXTENT_BYTES - BLOCK + 1;
		break;
	case FAR_BEHIND:
		ask.offset = UINT64_MAX - BLOCK / 2;
		break;
	case WRITE:
		ask.flags = DRIVEN_WRITE;
		break;
	case OTHERS_KEY:
		ask.key = others->on[0].key;
		break;
	case NO_MEMORY:
		ask.pieces[0].key ^= 0xff00;
		break;
	default:
		ask.pieces[0].addr = memory->base;
		ask.pieces[0].key = memory->key;
	}
	return ask;
}

/* Each ends the connection of the one that asks, and nothing of what others have is touched. */
static void test_what_is_invented(void **state)
{
	struct extent_key key, read_only, others;
	struct fabric_memory memory;
	uint8_t victim[BLOCK];
	uint64_t extent;
	struct stranger owner;
	struct bed bed;

	(void)state;
	extent = open_written(&bed, &key);
	read_only = key_for(&bed, extent, (struct reach){NAMESPACE, false});
	others = key_for(&bed, reserve_others(&bed), (struct reach){OTHER, true});
	memset(victim, 0xcc, sizeof(victim));
	meet(&bed, &owner, true);
	assert_int_equal(fabric_memory_register(
				 owner.fabric->domain, victim, sizeof(victim),
				 FABRIC_LOCAL | FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE, &memory),
			 0);
	for (enum wrong wrong = KEY; wrong < NR_WRONGS; wrong++) {
		struct stranger stranger;
		struct driven_ask ask;

		meet(&bed, &stranger, wrong != WRITE);
		expect_answer(&stranger, wrong == WRITE ? &read_only : &key, 0);
		assert_int_equal(stranger.own->bytes[BLOCK - 1], 7);
		ask = invent(wrong, &stranger, wrong == WRITE ? &read_only : &key, &others,
			     &memory);
		say(&stranger, &ask);
		await_end(&stranger);
		expect_good(&bed, &key);
		part(&stranger);
		await_memory(&bed);
		for (size_t i = 0; i < sizeof(victim); i++)
			assert_int_equal(victim[i], 0xcc);
	}
	fabric_memory_deregister(&memory);
	part(&owner);
	bed_close(&bed);
}

/* Reads that fail leave nothing behind while their connection lives. */
static void test_what_fails(void **state)
{
	struct stranger stranger;
	struct extent_key key;
	struct bed bed;

	(void)state;
	open_written(&bed, &key);
	meet(&bed, &stranger, true);
	flash_gate_fail(FLASH_IO_READ, -EIO);
	for (unsigned i = 0; i < 4 * NR_ANSWERS; i++)
		expect_answer(&stranger, &key, -EIO);
	await_memory(&bed);
	flash_gate_fail(FLASH_IO_READ, 0);
	expect_good(&bed, &key);
	part(&stranger);
	bed_close(&bed);
}

/* One that asks for all that it may, half of it with keys that it made up, and dies while the device works. */
static void test_who_asks_and_dies(void **state)
{
	const uint64_t deadline = clock_deadline_ms(DATA_CLIENT_PATIENCE_MS);
	struct stranger stranger;
	struct extent_key key;
	struct bed bed;

	(void)state;
	open_written(&bed, &key);
	for (unsigned round = 0; round < 4; round++) {
		meet(&bed, &stranger, true);
		flash_gate_hold(FLASH_IO_READ);
		for (unsigned i = 0; i < NR_ASKS; i++) {
			struct driven_ask ask = good_ask(&stranger, &key);

			ask.offset += (uint64_t)i * BLOCK;
			if (i % 2 == 1)
				ask.pieces[0].key ^= 0xff00;
			say(&stranger, &ask);
		}
		while (flash_gate_nr_held(FLASH_IO_READ) < 2) {
			assert_true(hear(&stranger));
			assert_true(clock_ns() < deadline);
		}
		assert_true(bytes_lent(&bed) > 0);
		if (round % 2 == 0)
			part(&stranger);
		flash_gate_release();
		if (round % 2 == 1) {
			await_end(&stranger);
			part(&stranger);
		}
		await_memory(&bed);
		expect_good(&bed, &key);
	}
	bed_close(&bed);
}

TEST_GROUP(store_strangers)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_invented),
		cmocka_unit_test(test_what_fails),
		cmocka_unit_test(test_who_asks_and_dies),
	};

	if (!is_on_driven())
		setenv("AFAR_TEST_TRANSPORT", "tcp-driven", 1);
	below = strcmp(test_transport(), "verbs-driven") == 0 ? "verbs" : "tcp";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
