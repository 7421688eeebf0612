/* SPDX-License-Identifier: BSD-3-Clause */
/* Placement and free space: properties over many random cases. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "manager/tables/placement.h"
#include "unit/group.h"

#define UNIT PLACEMENT_EXTENT_UNIT
#define MIB  ((uint64_t)1 << 20)

/* Gives the same numbers in every run. */
static uint64_t seed = 1;

static uint64_t random_below(uint64_t limit)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 24) % limit;
}

/* ---- Free space against a map of units */

#define SPACE_UNITS 64

static void check_space(const struct space *space, const bool *taken)
{
	uint64_t free_units = 0, run = 0, longest = 0;

	for (size_t i = 0; i < SPACE_UNITS; i++) {
		free_units += !taken[i];
		run = taken[i] ? 0 : run + 1;
		longest = run > longest ? run : longest;
	}
	assert_int_equal(space->free_bytes, free_units * SPACE_UNIT);
	assert_int_equal(space->longest, longest * SPACE_UNIT);
	for (size_t i = 0; i + 1 < space->nr_runs; i++)
		assert_true(space->runs[i].offset + space->runs[i].length <
			    space->runs[i + 1].offset);
}

static bool is_all(const bool *taken, uint64_t first, uint64_t nr, bool value)
{
	for (uint64_t i = first; i < first + nr; i++)
		if (taken[i] != value)
			return false;
	return true;
}

static void test_space_against_a_map(void **state)
{
	bool taken[SPACE_UNITS] = {false};
	struct space space;
	uint64_t offset;

	(void)state;
	assert_int_equal(space_begin(&space, SPACE_UNITS * SPACE_UNIT), 0);
	for (int step = 0; step < 20000; step++) {
		uint64_t first = random_below(SPACE_UNITS);
		uint64_t nr = 1 + random_below(SPACE_UNITS - first);
		uint64_t kind = random_below(3);
		int rc;

		nr = nr > 6 && random_below(4) != 0 ? 1 + nr % 6 : nr;
		if (kind == 0) {
			rc = space_take(&space, nr * SPACE_UNIT, &offset);
			if (rc == 0) {
				assert_true(is_all(taken, offset / SPACE_UNIT, nr, false));
				memset(&taken[offset / SPACE_UNIT], true, nr);
			}
		} else if (kind == 1) {
			rc = space_take_at(&space, first * SPACE_UNIT, nr * SPACE_UNIT);
			assert_int_equal(rc, is_all(taken, first, nr, false) ? 0 : -EINVAL);
			if (rc == 0)
				memset(&taken[first], true, nr);
		} else {
			rc = space_give(&space, first * SPACE_UNIT, nr * SPACE_UNIT);
			assert_int_equal(rc, is_all(taken, first, nr, true) ? 0 : -EINVAL);
			if (rc == 0)
				memset(&taken[first], false, nr);
		}
		check_space(&space, taken);
	}
	assert_int_equal(space_give(&space, 0, 0), -EINVAL);
	assert_int_equal(space_give(&space, 1, SPACE_UNIT), -EINVAL);
	assert_int_equal(space_take_at(&space, SPACE_UNITS * SPACE_UNIT, SPACE_UNIT), -EINVAL);
	assert_int_equal(space_take_at(&space, UINT64_MAX - SPACE_UNIT + 1, SPACE_UNIT), -EINVAL);
	space_end(&space);
}

/* ---- Reservations */

static void test_spread_properties(void **state)
{
	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct placement_server servers[10];
		size_t nr = 1 + random_below(10), nr_used = 0, nr_with_room = 0;
		uint64_t units = 1 + random_below(60), sum = 0, room = 0;
		uint32_t width = (uint32_t)(1 + random_below(12));
		int rc;

		for (size_t i = 0; i < nr; i++) {
			servers[i].free_bytes = random_below(20 * UNIT);
			room += servers[i].free_bytes / UNIT;
			nr_with_room += servers[i].free_bytes >= UNIT;
		}
		rc = placement_spread(servers, nr, units * UNIT, width, random_below(100));
		if (units > room) {
			assert_int_equal(rc, -ENOSPC);
			continue;
		}
		assert_int_equal(rc, 0);
		for (size_t i = 0; i < nr; i++) {
			assert_int_equal(servers[i].share % UNIT, 0);
			assert_true(servers[i].share <= servers[i].free_bytes);
			nr_used += servers[i].share != 0;
			sum += servers[i].share;
		}
		assert_int_equal(sum, units * UNIT);
		assert_true(nr_used >= (width < nr_with_room ? width : nr_with_room) ||
			    nr_used == units);
	}
}

static void test_spread_is_even_and_takes_turns(void **state)
{
	struct placement_server servers[3] = {{100 * UNIT, 0}, {100 * UNIT, 0}, {100 * UNIT, 0}};

	(void)state;
	assert_int_equal(placement_spread(servers, 3, 30 * UNIT, 64, 0), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(servers[i].share, 10 * UNIT);
	for (size_t turn = 0; turn < 6; turn++) {
		assert_int_equal(placement_spread(servers, 3, UNIT, 64, turn), 0);
		assert_int_equal(servers[turn % 3].share, UNIT);
	}
	/* The emptiest first. */
	servers[1].free_bytes = 101 * UNIT;
	assert_int_equal(placement_spread(servers, 3, UNIT, 64, 0), 0);
	assert_int_equal(servers[1].share, UNIT);
	assert_int_equal(placement_spread(servers, 0, UNIT, 64, 0), -ENOSPC);
}

/* ---- Regions */

#define SOURCES_MAX 12

struct field {
	struct space spaces[SOURCES_MAX];
	struct placement_source sources[SOURCES_MAX];
	size_t nr_sources;
	uint64_t free_bytes;
};

static void open_field(struct field *field, uint64_t size_units)
{
	uint64_t server = 1;

	memset(field, 0, sizeof(*field));
	field->nr_sources = 1 + random_below(SOURCES_MAX);
	for (size_t i = 0; i < field->nr_sources; i++) {
		uint64_t length = (1 + random_below(size_units)) * SPACE_UNIT;

		assert_int_equal(space_begin(&field->spaces[i], length), 0);
		field->sources[i] = (struct placement_source){
			.home = {.server = server}, .number = i, .space = &field->spaces[i]};
		server += random_below(2);
		field->free_bytes += length;
	}
}

static void close_field(struct field *field)
{
	for (size_t i = 0; i < field->nr_sources; i++)
		space_end(&field->spaces[i]);
}

/* The parts are what the copies say. */
static void check_parts(const struct field *field, const struct placement *placement)
{
	const struct layout *layout = placement->layout;

	assert_int_equal(placement->nr_parts, layout->nr_copies);
	for (uint32_t i = 0; i < layout->nr_copies; i++) {
		const struct layout_copy *copy = &layout->copies[i];

		assert_ptr_equal(placement->parts[i].space, field->sources[copy->extent].space);
		assert_int_equal(placement->parts[i].offset, copy->offset);
		assert_int_equal(placement->parts[i].length,
				 layout->groups[copy->group].chunk_bytes);
		assert_int_equal(layout_home_of(layout, copy)->server,
				 field->sources[copy->extent].home.server);
		assert_int_equal(copy->offset % SPACE_UNIT, 0);
	}
}

static void check_layout(const struct field *field, const struct placement *placement,
			 const struct placement_wish *wish)
{
	const struct layout *layout = placement->layout;
	uint64_t sum = 0;

	check_parts(field, placement);
	for (uint32_t i = 0; i < layout->nr_groups; i++) {
		const struct layout_group *group = &layout->groups[i];
		const struct layout_copy *copies = &layout->copies[group->first_chunk];

		assert_true(group->nr_chunks >= 1 && group->nr_chunks <= wish->width);
		assert_int_equal(group->start, sum);
		assert_int_equal(group->length, group->nr_chunks * group->chunk_bytes);
		for (uint32_t j = 0; j < group->nr_chunks; j++)
			for (uint32_t k = 0; k < j; k++)
				assert_int_not_equal(copies[j].home, copies[k].home);
		if (group->nr_chunks > 1)
			assert_int_equal(group->chunk_bytes % wish->stripe_bytes, 0);
		sum += group->length;
	}
	assert_int_equal(sum, wish->bytes);
	assert_int_equal(layout->length, wish->bytes);
}

static void test_take_succeeds_exactly_when_there_is_room(void **state)
{
	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct placement placed[64];
		struct field field;
		size_t nr = 0;

		open_field(&field, 64);
		while (nr < 64) {
			struct placement_wish wish = {
				.bytes = (1 + random_below(100)) * SPACE_UNIT,
				.stripe_bytes = SPACE_UNIT << random_below(4),
				.width = (uint32_t)(1 + random_below(8)),
				.start = random_below(1000),
			};
			int rc =
				placement_take(field.sources, field.nr_sources, &wish, &placed[nr]);

			assert_int_equal(rc, wish.bytes <= field.free_bytes ? 0 : -ENOSPC);
			if (rc == 0) {
				check_layout(&field, &placed[nr], &wish);
				field.free_bytes -= wish.bytes;
				nr++;
			}
			/* Give some back, so that it is in pieces. */
			if (nr > 0 && random_below(3) == 0) {
				size_t which = random_below(nr);

				for (size_t i = 0; i < placed[which].nr_parts; i++)
					field.free_bytes += placed[which].parts[i].length;
				placement_undo(&placed[which]);
				placement_close(&placed[which]);
				placed[which] = placed[--nr];
			}
			if (random_below(40) == 0)
				break;
		}
		while (nr > 0) {
			placement_undo(&placed[--nr]);
			placement_close(&placed[nr]);
		}
		for (size_t i = 0; i < field.nr_sources; i++)
			assert_int_equal(field.spaces[i].longest, field.spaces[i].length);
		close_field(&field);
	}
}

static void test_shape_of_layouts(void **state)
{
	struct placement_wish wish = {.bytes = 64 * MIB, .stripe_bytes = MIB, .width = 64};
	struct placement_source sources[4];
	struct placement placement;
	struct space spaces[4];

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(space_begin(&spaces[i], 64 * MIB), 0);
		sources[i] =
			(struct placement_source){.home = {.server = i + 1}, .space = &spaces[i]};
	}
	/* Striped over all. */
	assert_int_equal(placement_take(sources, 4, &wish, &placement), 0);
	assert_int_equal(placement.layout->nr_groups, 1);
	assert_int_equal(placement.layout->nr_chunks, 4);
	placement_undo(&placement);
	placement_close(&placement);
	/* Not wider than the policy. */
	wish.width = 2;
	assert_int_equal(placement_take(sources, 4, &wish, &placement), 0);
	assert_int_equal(placement.layout->groups[0].nr_chunks, 2);
	placement_undo(&placement);
	placement_close(&placement);
	/* Up to one stripe unit: one chunk, each on the next server. */
	wish.bytes = MIB;
	for (wish.start = 0; wish.start < 8; wish.start++) {
		assert_int_equal(placement_take(sources, 4, &wish, &placement), 0);
		assert_int_equal(placement.layout->nr_chunks, 1);
		assert_ptr_equal(placement.parts[0].space, &spaces[wish.start % 4]);
		placement_undo(&placement);
		placement_close(&placement);
	}
	for (size_t i = 0; i < 4; i++)
		space_end(&spaces[i]);
}

TEST_GROUP(placement)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_against_a_map),
		cmocka_unit_test(test_spread_properties),
		cmocka_unit_test(test_spread_is_even_and_takes_turns),
		cmocka_unit_test(test_take_succeeds_exactly_when_there_is_room),
		cmocka_unit_test(test_shape_of_layouts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
