/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The manager has parts of a namespace's memory zeroed: those and nothing else, all or none, and
 * never after the server has joined again. Trims of stores are in test_server_store.c.
 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "lib/server/moment.h"
#include "lib/server/server_cluster.h"
#include "memory/segment.h"
#include "server/memory/trim.h"
#include "unit/group.h"

#define BLOCK	    UINT64_C(4096)
#define FILL	    0x5a
#define RANGES_MAX  4096U			/* of a call, docs/protocol.md says */
#define LONG	    (TRIM_STEP_BYTES + 4 * MIB) /* takes a second step */
#define EXTENTS_MAX 16U

struct bed {
	struct cluster cluster;
	struct fake_extent extent; /* of NAMESPACE: 2 MiB */
	struct key_of key;
	uint8_t *bytes; /* what is expected of it */
};

static void write_bytes(struct bed *bed, const struct key_of *key, uint8_t value)
{
	memset(bed->bytes, value, 2 * MIB);
	for (uint64_t at = 0; at < key->length; at += 2 * MIB)
		assert_int_equal(data_client_write(&bed->cluster.data, bed->bytes, 2 * MIB,
						   key->origin + at, key->key),
				 0);
}

static void bed_open(struct bed *bed)
{
	cluster_open(&bed->cluster, 0);
	bed->bytes = malloc(2 * MIB);
	assert_non_null(bed->bytes);
	bed->extent = reserve_one(&bed->cluster, &bed->key);
	assert_int_equal(connect_data(&bed->cluster, SESSION), 0);
	write_bytes(bed, &bed->key, FILL);
}

static void bed_close(struct bed *bed)
{
	free(bed->bytes);
	cluster_close(&bed->cluster);
}

/* The extent has the bytes that are expected, and no others. */
static void expect_bytes(struct bed *bed)
{
	uint8_t *read = malloc(2 * MIB);

	assert_non_null(read);
	assert_int_equal(
		data_client_read(&bed->cluster.data, read, 2 * MIB, bed->key.origin, bed->key.key),
		0);
	assert_memory_equal(read, bed->bytes, 2 * MIB);
	free(read);
}

static void expect_byte(struct bed *bed, const struct key_of *key, uint64_t offset, uint8_t value)
{
	uint8_t byte = (uint8_t)~value;

	assert_int_equal(
		data_client_read(&bed->cluster.data, &byte, 1, key->origin + offset, key->key), 0);
	assert_int_equal(byte, value);
}

static void send_trim(struct bed *bed, struct fake_call *call, uint64_t namespace,
		      const struct extent_range *ranges, size_t nr_ranges)
{
	Afar__TrimRange *asked = calloc(nr_ranges + 1, sizeof(*asked));
	Afar__TrimRange **pointers = calloc(nr_ranges + 1, sizeof(Afar__TrimRange *));
	Afar__ExtentsTrim trim = AFAR__EXTENTS_TRIM__INIT;

	assert_true(asked && pointers);
	for (size_t i = 0; i < nr_ranges; i++) {
		afar__trim_range__init(&asked[i]);
		asked[i].extent = ranges[i].extent;
		asked[i].offset = ranges[i].offset;
		asked[i].length = ranges[i].length;
		pointers[i] = &asked[i];
	}
	trim.namespace_ = namespace;
	trim.n_ranges = nr_ranges;
	trim.ranges = pointers;
	fake_manager_send(&bed->cluster.manager, RPC_REQUEST(EXTENTS_TRIM, extents_trim, &trim),
			  call);
	free(pointers);
	free(asked);
}

static int trim(struct bed *bed, uint64_t namespace, const struct extent_range *ranges,
		size_t nr_ranges)
{
	struct fake_call call;

	send_trim(bed, &call, namespace, ranges, nr_ranges);
	return fake_call_await(&call);
}

/* ---- What is zeroed */

static void test_zeroes_the_ranges(void **state)
{
	struct extent_range ranges[] = {{0, BLOCK, 2 * BLOCK}, {0, 2 * MIB - BLOCK, BLOCK}};
	struct bed bed;

	(void)state;
	bed_open(&bed);
	for (size_t i = 0; i < 2; i++) {
		ranges[i].extent = bed.extent.extent;
		memset(bed.bytes + ranges[i].offset, 0, ranges[i].length);
	}
	assert_int_equal(trim(&bed, NAMESPACE, ranges, 2), 0);
	expect_bytes(&bed);
	/* All of it, on the connection and with the key of before: nobody is cut off. */
	ranges[0] = (struct extent_range){bed.extent.extent, 0, 2 * MIB};
	memset(bed.bytes, 0, 2 * MIB);
	assert_int_equal(trim(&bed, NAMESPACE, ranges, 1), 0);
	expect_bytes(&bed);
	write_bytes(&bed, &bed.key, FILL);
	expect_bytes(&bed);
	assert_int_equal(trim(&bed, NAMESPACE, NULL, 0), 0);
	expect_bytes(&bed);
	bed_close(&bed);
}

static void test_as_many_as_may_be(void **state)
{
	struct extent_range *ranges = calloc(RANGES_MAX + 1, sizeof(*ranges));
	struct bed bed;

	(void)state;
	bed_open(&bed);
	assert_non_null(ranges);
	for (size_t i = 0; i <= RANGES_MAX; i++)
		ranges[i] = (struct extent_range){bed.extent.extent, i % 128 * BLOCK, BLOCK};
	assert_int_equal(trim(&bed, NAMESPACE, ranges, RANGES_MAX + 1), -EINVAL);
	expect_bytes(&bed);
	memset(bed.bytes, 0, 128 * BLOCK);
	assert_int_equal(trim(&bed, NAMESPACE, ranges, RANGES_MAX), 0);
	expect_bytes(&bed);
	free(ranges);
	bed_close(&bed);
}

/* Refuses `bad` alone, and behind a range that is good, which stays as it was. */
static void expect_refused(struct bed *bed, uint64_t namespace, struct extent_range bad, int status)
{
	const struct extent_range ranges[] = {{bed->extent.extent, 0, BLOCK}, bad};

	assert_int_equal(trim(bed, namespace, &bad, 1), status);
	assert_int_equal(trim(bed, namespace, ranges, 2), status);
	expect_bytes(bed);
}

static uint64_t reserve_for(struct bed *bed, uint64_t namespace, uint32_t class)
{
	Afar__ExtentsReserve reserve = AFAR__EXTENTS_RESERVE__INIT;
	Afar__Frame *frame;
	uint64_t extent;

	reserve.namespace_ = namespace;
	reserve.bytes = 2 * MIB;
	reserve.class_ = class;
	assert_int_equal(fake_manager_call(&bed->cluster.manager,
					   RPC_REQUEST(EXTENTS_RESERVE, extents_reserve, &reserve),
					   &frame),
			 0);
	assert_int_equal(frame->reply->extents->n_extents, 1);
	extent = frame->reply->extents->extents[0]->extent;
	afar__frame__free_unpacked(frame, NULL);
	return extent;
}

static void test_refuses_as_a_whole(void **state)
{
	uint64_t other, sealed, released;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	other = reserve_for(&bed, NAMESPACE + 1, CLASS_DRAM);
	sealed = reserve_for(&bed, NAMESPACE, CLASS_DRAM_SEALED);
	released = reserve_for(&bed, NAMESPACE, CLASS_DRAM);
	assert_int_equal(fake_manager_release(&bed.cluster.manager, released), 0);
	const struct {
		struct extent_range range;
		int status;
	} bad[] = {
		{{bed.extent.extent, 0, 0}, -EINVAL},
		{{bed.extent.extent, 512, BLOCK}, -EINVAL},
		{{bed.extent.extent, 0, BLOCK + 512}, -EINVAL},
		{{bed.extent.extent, 2 * MIB, BLOCK}, -ERANGE},
		{{bed.extent.extent, 2 * MIB - BLOCK, 2 * BLOCK}, -ERANGE},
		{{bed.extent.extent, BLOCK, 0 - BLOCK}, -ERANGE},
		{{bed.extent.extent, 0 - BLOCK, BLOCK}, -ERANGE},
		{{UINT64_MAX, 0, BLOCK}, -AFAR_ELOST},
		{{other, 0, BLOCK}, -AFAR_ELOST},
		{{sealed, 0, BLOCK}, -AFAR_ELOST},
		{{released, 0, BLOCK}, -AFAR_ELOST},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		expect_refused(&bed, NAMESPACE, bad[i].range, bad[i].status);
	expect_refused(&bed, NAMESPACE + 1, (struct extent_range){bed.extent.extent, 0, BLOCK},
		       -AFAR_ELOST);
	bed_close(&bed);
}

/* ---- In steps, and never late */

void __real_segment_scrub(void *addr, size_t length);
void __wrap_segment_scrub(void *addr, size_t length);

/* The scrubber comes here too, but it has nothing to do while a test waits for the moment. */
void __wrap_segment_scrub(void *addr, size_t length)
{
	moment_pass();
	__real_segment_scrub(addr, length);
}

/* More memory of NAMESPACE, filled: LONG bytes of it are in these ranges. */
struct long_trim {
	struct extent_range ranges[EXTENTS_MAX];
	struct key_of keys[EXTENTS_MAX];
	size_t nr;
	struct fake_call call;
};

static void long_trim_open(struct bed *bed, struct long_trim *trim)
{
	struct fake_extent extents[EXTENTS_MAX];

	trim->nr = EXTENTS_MAX;
	assert_int_equal(
		fake_manager_reserve(&bed->cluster.manager, NAMESPACE, LONG, extents, &trim->nr),
		0);
	for (size_t i = 0; i < trim->nr; i++) {
		trim->ranges[i] = (struct extent_range){extents[i].extent, 0, extents[i].length};
		assert_int_equal(
			get_keys(&bed->cluster, NAMESPACE, &extents[i].extent, 1, &trim->keys[i]),
			0);
		write_bytes(bed, &trim->keys[i], FILL);
	}
}

/* Has the server be at the first step of it, until moment_close(). */
static void begin_long_trim(struct bed *bed, struct long_trim *trim)
{
	moment_open();
	send_trim(bed, &trim->call, NAMESPACE, trim->ranges, trim->nr);
	moment_await();
}

static uint64_t last_byte(const struct long_trim *trim)
{
	return trim->ranges[trim->nr - 1].length - 1;
}

static void expect_ends(struct bed *bed, const struct long_trim *trim, uint8_t first, uint8_t last)
{
	expect_byte(bed, &trim->keys[0], 0, first);
	expect_byte(bed, &trim->keys[trim->nr - 1], last_byte(trim), last);
}

/* The manager goes, and its next life comes when the server has noticed. */
static void reconnect(struct bed *bed)
{
	struct fake_manager *manager = &bed->cluster.manager;

	fake_manager_vanish(manager);
	while (server_is_joined(bed->cluster.server))
		sched_yield();
	fake_manager_listen(manager, manager->address);
}

/* The server has done all that it still does for earlier connections: this is queued behind it. */
static void await_earlier_orders(struct bed *bed)
{
	assert_int_equal(fake_manager_release(&bed->cluster.manager, UINT64_MAX), 0);
}

static atomic_uint nr_answers;

static bool is_first_answer(void)
{
	return atomic_fetch_add(&nr_answers, 1) == 0;
}

static bool is_third_answer(void)
{
	return atomic_fetch_add(&nr_answers, 1) == 2;
}

/* A reservation's answer does not wait for connections. */
static void send_reserve(struct bed *bed, struct fake_call *call)
{
	Afar__ExtentsReserve reserve = AFAR__EXTENTS_RESERVE__INIT;

	reserve.namespace_ = NAMESPACE;
	reserve.bytes = 2 * MIB;
	fake_manager_send(&bed->cluster.manager,
			  RPC_REQUEST(EXTENTS_RESERVE, extents_reserve, &reserve), call);
}

/* Others need not wait until a long trim is done, except for later trims. */
static void test_others_have_turns(void **state)
{
	struct fake_call small, other;
	struct extent_range range;
	struct long_trim long_one;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	long_trim_open(&bed, &long_one);
	range = (struct extent_range){bed.extent.extent, 0, BLOCK};
	nr_answers = 0;
	bed.cluster.manager.is_held = is_first_answer;
	begin_long_trim(&bed, &long_one);
	send_reserve(&bed, &other);
	bed.cluster.manager.is_held = is_third_answer;
	send_trim(&bed, &small, NAMESPACE, &range, 1);
	fake_manager_ping(&bed.cluster.manager, 1);
	moment_close();
	assert_int_equal(fake_call_await(&other), 0);
	assert_true(other.was_held);
	assert_int_equal(fake_call_await(&small), 0);
	assert_true(small.was_held);
	assert_int_equal(fake_call_await(&long_one.call), 0);
	expect_ends(&bed, &long_one, 0, 0);
	memset(bed.bytes, FILL, 2 * MIB);
	memset(bed.bytes, 0, BLOCK);
	expect_bytes(&bed);
	bed_close(&bed);
}

static void send_release(struct bed *bed, struct fake_call *call, uint64_t extent)
{
	Afar__ExtentsRelease release = AFAR__EXTENTS_RELEASE__INIT;

	release.n_extents = 1;
	release.extents = &extent;
	fake_manager_send(&bed->cluster.manager,
			  RPC_REQUEST(EXTENTS_RELEASE, extents_release, &release), call);
}

/* An extent that is released between two steps is left alone from then on. */
static void test_released_meanwhile(void **state)
{
	struct long_trim long_one;
	struct fake_call release;
	struct bed bed;

	(void)state;
	bed_open(&bed);
	long_trim_open(&bed, &long_one);
	begin_long_trim(&bed, &long_one);
	send_release(&bed, &release, long_one.ranges[long_one.nr - 1].extent);
	fake_manager_ping(&bed.cluster.manager, 1);
	moment_close();
	assert_int_equal(fake_call_await(&release), 0);
	assert_int_equal(fake_call_await(&long_one.call), -AFAR_ELOST);
	/* The next one is not held up. */
	assert_int_equal(
		trim(&bed, NAMESPACE, &(struct extent_range){bed.extent.extent, 0, BLOCK}, 1), 0);
	bed_close(&bed);
}

/* When the connection ends, the step that is under way is the last. */
static void test_no_step_after_the_join(void **state)
{
	struct long_trim long_one;
	struct bed bed;
	unsigned nr_joins;

	(void)state;
	bed_open(&bed);
	long_trim_open(&bed, &long_one);
	nr_joins = bed.cluster.manager.nr_joins;
	begin_long_trim(&bed, &long_one);
	reconnect(&bed);
	moment_close();
	fake_manager_await(&bed.cluster.manager, bed.cluster.manager.nr_joins > nr_joins);
	assert_int_not_equal(fake_call_await(&long_one.call), 0);
	expect_ends(&bed, &long_one, 0, FILL);
	await_earlier_orders(&bed);
	expect_ends(&bed, &long_one, 0, FILL);
	/* Asked again, it is done. */
	assert_int_equal(trim(&bed, NAMESPACE, long_one.ranges, long_one.nr), 0);
	expect_ends(&bed, &long_one, 0, 0);
	bed_close(&bed);
}

/* One that waits for its turn when the connection ends is dropped. */
static void test_late_trims_are_dropped(void **state)
{
	struct long_trim long_one;
	struct extent_range range;
	struct fake_call late;
	struct bed bed;
	unsigned nr_joins;

	(void)state;
	bed_open(&bed);
	long_trim_open(&bed, &long_one);
	range = (struct extent_range){bed.extent.extent, 0, 2 * MIB};
	nr_joins = bed.cluster.manager.nr_joins;
	begin_long_trim(&bed, &long_one);
	send_trim(&bed, &late, NAMESPACE, &range, 1);
	fake_manager_ping(&bed.cluster.manager, 1);
	reconnect(&bed);
	moment_close();
	fake_manager_await(&bed.cluster.manager, bed.cluster.manager.nr_joins > nr_joins);
	assert_int_not_equal(fake_call_await(&long_one.call), 0);
	assert_int_not_equal(fake_call_await(&late), 0);
	await_earlier_orders(&bed);
	memset(bed.bytes, FILL, 2 * MIB);
	expect_bytes(&bed);
	bed_close(&bed);
}

TEST_GROUP(server_trim)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_zeroes_the_ranges),
		cmocka_unit_test(test_as_many_as_may_be),
		cmocka_unit_test(test_refuses_as_a_whole),
		cmocka_unit_test(test_others_have_turns),
		cmocka_unit_test(test_released_meanwhile),
		cmocka_unit_test(test_no_step_after_the_join),
		cmocka_unit_test(test_late_trims_are_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
