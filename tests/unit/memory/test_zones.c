/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zones of buffers: which buffer a wish gets, that nobody gets more than his share, and that whoever comes gets something. Then
 * a walk at random beside the rules written down a second time, over counts instead of lists. AFAR_LONG=1 walks longer.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory/zones.h"
#include "unit/group.h"

#define KIB	    ((size_t)1024)
#define NR_HOLDERS  6U
#define NR_MAX	    (2 * 63U) /* buffers of two times ZONES_BYTES */
#define NR_STEPS    20000U
#define STAMP_BYTES sizeof(uint64_t)

static int open_zones(void **state)
{
	struct zones *zones;

	assert_int_equal(zones_open(ZONES_BYTES, &zones), 0);
	*state = zones;
	return 0;
}

static int close_zones(void **state)
{
	zones_close(*state);
	return 0;
}

static void expect_whole(const struct zones *zones, uint64_t bytes)
{
	struct zones_stat stat;

	zones_stat(zones, &stat);
	assert_true(stat.bytes == bytes);
	assert_true(stat.free_bytes == bytes);
	for (unsigned zone = 0; zone < NR_ZONES; zone++)
		assert_int_equal(stat.nr_free[zone] * (ZONE_LEAST << zone), bytes / NR_ZONES);
}

static void test_bad_sizes(void **state)
{
	struct zones *zones;

	(void)state;
	assert_int_equal(zones_open(0, &zones), -EINVAL);
	assert_int_equal(zones_open(UINT64_MAX, &zones), -EINVAL);
	zones_close(NULL);
	assert_int_equal(zones_open(ZONES_BYTES + 1, &zones), 0);
	expect_whole(zones, 2 * ZONES_BYTES);
	zones_close(zones);
}

static void test_smallest_that_suffices(void **state)
{
	static const struct {
		size_t length, expected;
	} cases[] = {
		{1, 64 * KIB},
		{64 * KIB, 64 * KIB},
		{64 * KIB + 1, 128 * KIB},
		{256 * KIB, 256 * KIB},
		{1024 * KIB - 1, 1024 * KIB},
		{1024 * KIB + 1, 2048 * KIB},
		{2048 * KIB, 2048 * KIB},
	};
	struct zone_holder holder = {0};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct zone_buffer *buffer = zones_take(*state, &holder, cases[i].length);

		assert_non_null(buffer);
		assert_int_equal(buffer->length, cases[i].expected);
		assert_int_equal((uintptr_t)buffer->addr % buffer->length, 0);
		zones_give(*state, buffer);
	}
	assert_true(holder.bytes == 0);
	expect_whole(*state, ZONES_BYTES);
}

/* The one buffer of 2 MiB goes first; who wants as much gets smaller ones. A small request gets a larger one when its own
 * zone is empty. */
static void test_larger_and_smaller(void **state)
{
	struct zone_holder holders[2] = {0};
	struct zone_buffer *large, *smaller[2], *small[33];
	struct zones_stat stat;
	unsigned nr;

	large = zones_take(*state, &holders[0], ZONE_MOST);
	assert_int_equal(large->length, ZONE_MOST);
	for (nr = 0; nr < 2; nr++) {
		smaller[nr] = zones_take(*state, &holders[1], ZONE_MOST);
		assert_int_equal(smaller[nr]->length, 1024 * KIB);
	}
	zones_stat(*state, &stat);
	assert_int_equal(stat.nr_smaller, 2);
	while (nr > 0)
		zones_give(*state, smaller[--nr]);
	for (nr = 0; nr < 33; nr++) {
		small[nr] = zones_take(*state, &holders[1], 1);
		assert_int_equal(small[nr]->length, nr < 32 ? ZONE_LEAST : 2 * ZONE_LEAST);
	}
	zones_stat(*state, &stat);
	assert_int_equal(stat.nr_larger, 1);
	assert_int_equal(stat.nr_taken, 36);
	while (nr > 0)
		zones_give(*state, small[--nr]);
	zones_give(*state, large);
	expect_whole(*state, ZONES_BYTES);
}

/* Takes all that he may. */
static void grab(struct zones *zones, struct zone_holder *holder, struct zone_buffer **out,
		 unsigned *nr)
{
	struct zone_buffer *buffer;

	while ((buffer = zones_take(zones, holder, ZONE_LEAST)) != NULL)
		out[(*nr)++] = buffer;
}

/* Each takes all he can, and gives nothing back. Nobody has more than is left for the others. The next one finds some, if
 * only the one large buffer that is left, which nobody may take who has something. */
static void test_shares(void **state)
{
	static const uint64_t expected[] = {6 << 20, 3 << 20, 1 << 20, 2 << 20, 0};
	struct zone_holder holders[5] = {0};
	struct zone_buffer *taken[NR_MAX];
	struct zones_stat stat;
	unsigned nr = 0;

	for (unsigned i = 0; i < 5; i++) {
		grab(*state, &holders[i], taken, &nr);
		assert_true(holders[i].bytes == expected[i]);
	}
	zones_stat(*state, &stat);
	assert_int_equal(stat.free_bytes, 0);
	assert_int_equal(stat.nr_refused, 5);
	/* A buffer that comes back is for him who has none, not for those who have much. */
	zones_give(*state, taken[0]);
	taken[0] = taken[--nr];
	for (unsigned i = 0; i < 4; i++)
		assert_null(zones_take(*state, &holders[i], 1));
	taken[nr] = zones_take(*state, &holders[4], ZONE_MOST);
	assert_non_null(taken[nr]);
	assert_int_equal(taken[nr++]->length, ZONE_LEAST);
	while (nr > 0)
		zones_give(*state, taken[--nr]);
	expect_whole(*state, ZONES_BYTES);
}

/* Two who always want more have as much, whoever came first, once the first has given back what was too much. */
static void test_two_have_as_much(void **state)
{
	struct zone_holder holders[2] = {0};
	struct zone_buffer *taken[2][NR_MAX];
	unsigned nr[2] = {0};

	grab(*state, &holders[0], taken[0], &nr[0]);
	assert_true(holders[0].bytes == ZONES_BYTES / 2);
	for (unsigned round = 0; round < 200; round++) {
		for (unsigned i = 0; i < 2; i++) {
			if (nr[i] > 0) {
				zones_give(*state, taken[i][0]);
				memmove(&taken[i][0], &taken[i][1], --nr[i] * sizeof(taken[i][0]));
			}
			grab(*state, &holders[i], taken[i], &nr[i]);
		}
	}
	assert_true(holders[0].bytes + ZONE_MOST >= ZONES_BYTES / 3);
	assert_true(holders[1].bytes + ZONE_MOST >= ZONES_BYTES / 3);
	for (unsigned i = 0; i < 2; i++) {
		while (nr[i] > 0)
			zones_give(*state, taken[i][--nr[i]]);
	}
	expect_whole(*state, ZONES_BYTES);
}

/* ---- At random, beside counts */

static struct walk {
	struct zones *zones;
	struct zone_holder holders[NR_HOLDERS];
	struct {
		struct zone_buffer *buffer;
		uint64_t stamp;
	} taken[NR_MAX];
	unsigned nr_taken;
	/* The rules once more. */
	size_t nr_free[NR_ZONES];
	unsigned owner[NR_MAX]; /* of each that is taken */
	uint64_t random;
} walk;

static uint64_t dice(uint64_t sides)
{
	walk.random ^= walk.random << 13;
	walk.random ^= walk.random >> 7;
	walk.random ^= walk.random << 17;
	return (walk.random >> 16) % sides;
}

static size_t free_in_all(void)
{
	size_t sum = 0;

	for (unsigned zone = 0; zone < NR_ZONES; zone++)
		sum += walk.nr_free[zone] * (ZONE_LEAST << zone);
	return sum;
}

static size_t held_by(unsigned holder)
{
	size_t sum = 0;

	for (unsigned i = 0; i < walk.nr_taken; i++) {
		if (walk.owner[i] == holder)
			sum += walk.taken[i].buffer->length;
	}
	return sum;
}

/* Returns the least size that suffices, else the largest; 0: none. Only buffers that leave the others as much as he has count, or
 * all if he has none. */
static size_t expected_size(unsigned holder, size_t length)
{
	size_t least = 0, largest = 0;

	for (unsigned zone = 0; zone < NR_ZONES; zone++) {
		size_t size = ZONE_LEAST << zone;

		if (walk.nr_free[zone] == 0 ||
		    (held_by(holder) > 0 && held_by(holder) + size > free_in_all() - size))
			continue;
		largest = size;
		if (size >= length && least == 0)
			least = size;
	}
	return least ? least : largest;
}

static void stamp(unsigned i)
{
	struct zone_buffer *buffer = walk.taken[i].buffer;

	walk.taken[i].stamp = dice(UINT64_MAX);
	memcpy(buffer->addr, &walk.taken[i].stamp, STAMP_BYTES);
	memcpy(buffer->addr + buffer->length - STAMP_BYTES, &walk.taken[i].stamp, STAMP_BYTES);
}

static void step_take(void)
{
	unsigned holder = (unsigned)dice(NR_HOLDERS);
	size_t length = 1 + dice(dice(2) ? ZONE_MOST : 3 * ZONE_LEAST);
	size_t expected = expected_size(holder, length);
	struct zone_buffer *buffer = zones_take(walk.zones, &walk.holders[holder], length);

	assert_int_equal(buffer ? buffer->length : 0, expected);
	if (!buffer)
		return;
	for (unsigned zone = 0; zone < NR_ZONES; zone++)
		walk.nr_free[zone] -= (ZONE_LEAST << zone) == expected;
	walk.owner[walk.nr_taken] = holder;
	walk.taken[walk.nr_taken].buffer = buffer;
	stamp(walk.nr_taken++);
}

/* Both its ends still hold what was written there: nobody else has had it. */
static void step_give(void)
{
	unsigned i = (unsigned)dice(walk.nr_taken);
	struct zone_buffer *buffer = walk.taken[i].buffer;

	assert_memory_equal(buffer->addr, &walk.taken[i].stamp, STAMP_BYTES);
	assert_memory_equal(buffer->addr + buffer->length - STAMP_BYTES, &walk.taken[i].stamp,
			    STAMP_BYTES);
	for (unsigned zone = 0; zone < NR_ZONES; zone++)
		walk.nr_free[zone] += (ZONE_LEAST << zone) == buffer->length;
	zones_give(walk.zones, buffer);
	walk.nr_taken--;
	walk.taken[i] = walk.taken[walk.nr_taken];
	walk.owner[i] = walk.owner[walk.nr_taken];
}

static void expect_counts(void)
{
	struct zones_stat stat;

	zones_stat(walk.zones, &stat);
	assert_true(stat.free_bytes == free_in_all());
	assert_memory_equal(stat.nr_free, walk.nr_free, sizeof(walk.nr_free));
	for (unsigned holder = 0; holder < NR_HOLDERS; holder++)
		assert_true(walk.holders[holder].bytes == held_by(holder));
}

static void test_at_random(void **state)
{
	unsigned nr_steps = getenv("AFAR_LONG") ? 50 * NR_STEPS : NR_STEPS;
	uint64_t bytes = 2 * ZONES_BYTES;

	(void)state;
	walk = (struct walk){.random = 4711};
	assert_int_equal(zones_open(bytes, &walk.zones), 0);
	for (unsigned zone = 0; zone < NR_ZONES; zone++)
		walk.nr_free[zone] = bytes / NR_ZONES / (ZONE_LEAST << zone);
	for (unsigned i = 0; i < nr_steps; i++) {
		/* For a while rather one, then rather the other: full, and empty. */
		if (walk.nr_taken == 0 || dice(10) < (i / 200 % 2 ? 3 : 7))
			step_take();
		else
			step_give();
		expect_counts();
	}
	while (walk.nr_taken > 0)
		step_give();
	expect_whole(walk.zones, bytes);
	zones_close(walk.zones);
}

TEST_GROUP(zones)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_sizes),
		cmocka_unit_test_setup_teardown(test_smallest_that_suffices, open_zones,
						close_zones),
		cmocka_unit_test_setup_teardown(test_larger_and_smaller, open_zones, close_zones),
		cmocka_unit_test_setup_teardown(test_shares, open_zones, close_zones),
		cmocka_unit_test_setup_teardown(test_two_have_as_much, open_zones, close_zones),
		cmocka_unit_test(test_at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
