/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes that are changed between a client and a server: a checked operation says so, and the store keeps what
 * it has. Between client and server a relay changes one bit.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <afar/afar.h>

#include "harness/cluster.h"
#include "relay.h"

#define MIB	      ((uint64_t)1 << 20)
#define BLOCK	      4096U
#define BYTES	      (20 * BLOCK + 77)
#define REQUEST_BYTES 32U /* what is before the bytes of a write */
#define REPLY_BYTES   16U /* … and of a read */
#define SUMS_BYTES    (21 * 4U)

static struct {
	struct cluster *cluster;
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_queue *queue; /* over connection 0 */
	uint8_t mine[BYTES], back[BYTES];
} scene;

static int open_scene(void **state)
{
	struct afar_policy policy = {.size = sizeof(policy), .tier = AFAR_TIER_FLASH};

	(void)state;
	relay_start();
	assert_int_equal(cluster_start_flash(1, 8 * MIB, 128 * MIB, &scene.cluster), 0);
	assert_int_equal(afar_session_open(cluster_uri(scene.cluster), NULL, &scene.session), 0);
	assert_int_equal(afar_namespace_create(scene.session, "n", &policy, &scene.ns), 0);
	assert_int_equal(afar_namespace_reserve(scene.ns, 4 * MIB), 0);
	assert_int_equal(afar_region_alloc(scene.ns, BYTES, 0, &scene.region), 0);
	assert_int_equal(afar_queue_open(scene.session, NULL, &scene.queue), 0);
	assert_int_equal(afar_queue_connect(scene.queue, afar_region_target(scene.region)), 0);
	return 0;
}

static int close_scene(void **state)
{
	(void)state;
	assert_int_equal(afar_queue_close(scene.queue), 0);
	assert_int_equal(afar_region_close(scene.region), 0);
	assert_int_equal(afar_namespace_close(scene.ns), 0);
	assert_int_equal(afar_session_close(scene.session), 0);
	cluster_stop(scene.cluster);
	relay_stop();
	return 0;
}

/* All of the region. */
static int64_t run(uint16_t opcode, uint32_t flags)
{
	struct afar_iov pieces[2] = {
		{.addr = opcode == AFAR_OP_WRITE ? scene.mine : scene.back, .length = 8 * BLOCK}};
	const struct afar_op op = {.opcode = opcode,
				   .flags = flags,
				   .nr_iov = 2,
				   .target = afar_region_target(scene.region),
				   .iov = pieces};
	struct afar_completion done;

	pieces[1].addr = (uint8_t *)pieces[0].addr + pieces[0].length;
	pieces[1].length = BYTES - pieces[0].length;
	assert_int_equal(afar_queue_submit(scene.queue, &op, 1), 1);
	assert_int_equal(afar_queue_wait(scene.queue, &done, 1, 1, -1), 1);
	assert_int_equal(afar_queue_explain(scene.queue, &done), done.result < 0 ? done.result : 0);
	return done.result;
}

static void fill_mine(uint8_t seed)
{
	for (size_t i = 0; i < BYTES; i++)
		scene.mine[i] = (uint8_t)(seed + i + i / 256);
}

static void expect_line(const char *said)
{
	const char *const all[] = {said, "of the region at 0x", "store ", "/flash at server "};

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (!strstr(afar_last_error(), all[i]))
			fail_msg("'%s' is not in: %s", all[i], afar_last_error());
	}
}

/* In the first block, in later ones, in the one that the region ends in, and in the sums. */
static const uint32_t places[] = {
	0, BLOCK - 1, BLOCK, 13 * BLOCK + 100, 20 * BLOCK, BYTES - 1, BYTES, BYTES + SUMS_BYTES - 1,
};
#define NR_PLACES (sizeof(places) / sizeof(places[0]))

/* Which block is to blame for what was changed at a place. */
static uint32_t block_of(uint32_t place)
{
	return place < BYTES ? place / BLOCK : (place - BYTES) / 4;
}

static void test_a_write_is_refused(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * NR_PLACES; i++) {
		const uint32_t place = places[i / 2], at = block_of(place) * BLOCK;
		const size_t length = BYTES - at < BLOCK ? BYTES - at : BLOCK;
		const uint32_t flags = AFAR_OP_CHECKED | (i % 2 ? AFAR_OP_DURABLE : 0);
		uint8_t old[BLOCK];

		fill_mine((uint8_t)(2 * i));
		assert_int_equal(run(AFAR_OP_WRITE, flags), BYTES);
		memcpy(old, scene.mine + at, length);
		fill_mine((uint8_t)(2 * i + 1));
		relay_change(0, false, REQUEST_BYTES + place);
		assert_int_equal(run(AFAR_OP_WRITE, flags), -EBADMSG);
		expect_line("got other bytes than were sent");
		assert_true(relay_has_changed(0));
		/* The connection goes on, and the block is as it was. */
		assert_int_equal(run(AFAR_OP_READ, AFAR_OP_CHECKED), BYTES);
		assert_memory_equal(scene.back + at, old, length);
	}
	assert_int_equal(run(AFAR_OP_WRITE, AFAR_OP_CHECKED), BYTES);
	assert_int_equal(run(AFAR_OP_READ, AFAR_OP_CHECKED), BYTES);
	assert_memory_equal(scene.back, scene.mine, BYTES);
}

static void test_a_read_says_so(void **state)
{
	(void)state;
	fill_mine(1);
	assert_int_equal(run(AFAR_OP_WRITE, 0), BYTES);
	for (unsigned i = 0; i < NR_PLACES; i++) {
		relay_change(0, true, REPLY_BYTES + places[i]);
		assert_int_equal(run(AFAR_OP_READ, AFAR_OP_CHECKED), -EBADMSG);
		expect_line("has sent other bytes than have come");
		assert_true(relay_has_changed(0));
		assert_int_equal(run(AFAR_OP_READ, AFAR_OP_CHECKED), BYTES);
		assert_memory_equal(scene.back, scene.mine, BYTES);
	}
}

/* It is the flag that notices: without it nobody does, and the store keeps what came. */
static void test_others_do_not_notice(void **state)
{
	(void)state;
	fill_mine(1);
	relay_change(0, false, REQUEST_BYTES + BLOCK + 5);
	assert_int_equal(run(AFAR_OP_WRITE, 0), BYTES);
	assert_true(relay_has_changed(0));
	assert_int_equal(run(AFAR_OP_READ, AFAR_OP_CHECKED), BYTES);
	assert_int_equal(scene.back[BLOCK + 5] ^ scene.mine[BLOCK + 5], 0x10);
	relay_change(0, true, REPLY_BYTES + BLOCK + 5);
	assert_int_equal(run(AFAR_OP_READ, 0), BYTES);
	assert_memory_equal(scene.back, scene.mine, BYTES);
}

/* Neither way, whatever is behind the region's end. */
static void test_only_whole_blocks(void **state)
{
	static const struct {
		uint64_t offset;
		size_t lengths[2];
		int64_t result;
	} cases[] = {
		{0, {BLOCK, BLOCK}, 2 * BLOCK},
		{BLOCK, {0, 3 * BLOCK}, 3 * BLOCK},
		{20 * BLOCK, {0, 77}, 77},
		{20 * BLOCK, {77, 0}, 77},
		{19 * BLOCK, {BLOCK, 77}, BLOCK + 77},
		{1, {BLOCK, 0}, -EINVAL},
		{BLOCK, {77, 0}, -EINVAL},
		{BLOCK, {77, BLOCK - 77}, -EINVAL},
		{20 * BLOCK, {70, 7}, -EINVAL},
		{20 * BLOCK, {76, 0}, -EINVAL},
		{20 * BLOCK + 1, {76, 0}, -EINVAL},
		{20 * BLOCK, {BLOCK, 0}, -ERANGE},
	};
	struct afar_completion done;

	(void)state;
	for (unsigned i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		const struct afar_iov pieces[2] = {
			{.addr = scene.mine, .length = cases[i / 2].lengths[0]},
			{.addr = scene.back, .length = cases[i / 2].lengths[1]}};
		const struct afar_op op = {.opcode = i % 2 ? AFAR_OP_WRITE : AFAR_OP_READ,
					   .flags = AFAR_OP_CHECKED,
					   .nr_iov = 2,
					   .target = afar_region_target(scene.region),
					   .offset = cases[i / 2].offset,
					   .iov = pieces};
		int ret = afar_queue_submit(scene.queue, &op, 1);

		if (cases[i / 2].result < 0) {
			assert_int_equal(ret, cases[i / 2].result);
			continue;
		}
		assert_int_equal(ret, 1);
		assert_int_equal(afar_queue_wait(scene.queue, &done, 1, 1, -1), 1);
		assert_int_equal(done.result, cases[i / 2].result);
	}
}

/* More pieces of memory than one transfer has. */
static void test_many_pieces(void **state)
{
	enum { NR = 11 };
	struct afar_iov pieces[NR];
	struct afar_op op = {.flags = AFAR_OP_CHECKED,
			     .nr_iov = NR,
			     .target = afar_region_target(scene.region),
			     .offset = 9 * BLOCK,
			     .iov = pieces};
	struct afar_completion done;

	(void)state;
	fill_mine(7);
	for (op.opcode = AFAR_OP_WRITE; op.opcode >= AFAR_OP_READ; op.opcode--) {
		uint8_t *memory = op.opcode == AFAR_OP_WRITE ? scene.mine : scene.back;

		for (unsigned i = 0; i < NR; i++)
			pieces[i] = (struct afar_iov){.addr = memory + (size_t)(NR - 1 - i) * BLOCK,
						      .length = BLOCK};
		assert_int_equal(afar_queue_submit(scene.queue, &op, 1), 1);
		assert_int_equal(afar_queue_wait(scene.queue, &done, 1, 1, -1), 1);
		assert_int_equal(done.result, NR * BLOCK);
	}
	assert_memory_equal(scene.back, scene.mine, NR * BLOCK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_write_is_refused, open_scene, close_scene),
		cmocka_unit_test_setup_teardown(test_a_read_says_so, open_scene, close_scene),
		cmocka_unit_test_setup_teardown(test_others_do_not_notice, open_scene, close_scene),
		cmocka_unit_test_setup_teardown(test_only_whole_blocks, open_scene, close_scene),
		cmocka_unit_test_setup_teardown(test_many_pieces, open_scene, close_scene),
	};

	setenv("AFAR_TEST_HOST", RELAY_HOST, 1);
	setenv("AFAR_TEST_TRANSPORT", "tcp", 1); /* what the relay understands */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
