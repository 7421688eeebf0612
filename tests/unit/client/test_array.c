/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays: a naive reference finds where each record of a random part is, and a plan has it there, in one piece. There are no more
 * pieces than need be. Shapes and parts that cannot be are refused in one line, also at the ends of the numbers. Headers
 * come back as they went in.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "client/array/array_header.h"
#include "client/array/array_plan.h"
#include "lib/base/effort.h"
#include "unit/group.h"

#define EXTENT_MAX 7U
#define NR_PLANS   3000U

static unsigned seed = 1;

static unsigned roll(unsigned sides)
{
	return (unsigned)rand_r(&seed) % sides;
}

/* ---- The naive reference: by the program's own dimensions, record by record. */

/* Returns where a record is, counted in dimensions that go from `sizes[0]` on, the fastest as the order says. */
static uint64_t place_in(const struct afar_array_shape *shape, const uint64_t *sizes,
			 const uint64_t *index)
{
	uint64_t place = 0;

	for (unsigned k = 0; k < shape->nr_dimensions; k++) {
		unsigned i = shape->flags & AFAR_ARRAY_FORTRAN ? shape->nr_dimensions - 1 - k : k;

		place = place * sizes[i] + index[i];
	}
	return place;
}

static uint64_t offset_of(const struct afar_array_shape *shape, const uint64_t *index)
{
	uint64_t size[DIMENSIONS_MAX], grid[DIMENSIONS_MAX], block[DIMENSIONS_MAX],
		in[DIMENSIONS_MAX];
	uint64_t of_block = 1;

	for (unsigned i = 0; i < shape->nr_dimensions; i++) {
		bool is_whole = !(shape->flags & AFAR_ARRAY_BLOCKED) || !shape->block[i];

		size[i] = is_whole ? shape->extent[i] : shape->block[i];
		grid[i] = (shape->extent[i] + size[i] - 1) / size[i];
		block[i] = index[i] / size[i];
		in[i] = index[i] % size[i];
		of_block *= size[i];
	}
	return AFAR_ARRAY_HEADER_BYTES +
	       (place_in(shape, grid, block) * of_block + place_in(shape, size, in)) *
		       shape->record_bytes;
}

/* Goes to the next index of a part. False: that was the last. */
static bool step(const struct afar_array_shape *shape, const struct afar_slab *slab, uint64_t *at)
{
	for (unsigned i = 0; i < shape->nr_dimensions; i++) {
		if (++at[i] < slab->count[i])
			return true;
		at[i] = 0;
	}
	return false;
}

/* ---- Random arrays, and parts of them */

#define NR_MAX 4U /* dimensions; more are no different */

static void roll_shape(struct afar_array_shape *shape)
{
	*shape = (struct afar_array_shape){
		.size = sizeof(*shape),
		.nr_dimensions = 1 + roll(NR_MAX),
		.flags = roll(4),
		.record_bytes = 1 + roll(9),
	};
	for (unsigned i = 0; i < shape->nr_dimensions; i++) {
		shape->extent[i] = 1 + roll(EXTENT_MAX);
		shape->block[i] = roll((unsigned)shape->extent[i] + 1);
	}
}

static void roll_slab(const struct afar_array_shape *shape, struct afar_slab *slab)
{
	*slab = (struct afar_slab){.size = sizeof(*slab)};
	for (unsigned i = 0; i < shape->nr_dimensions; i++) {
		unsigned extent = (unsigned)shape->extent[i];
		int64_t stride = (int64_t)roll(7) - 3;
		uint64_t start = roll(extent), room;

		slab->start[i] = start;
		slab->stride[i] = stride;
		room = stride < 0 ? start : extent - 1 - start;
		slab->count[i] =
			1 + roll((unsigned)(room / (uint64_t)llabs(stride ? stride : 1)) + 1);
	}
}

/* Strides of memory that keep records apart: in a random order of the dimensions, with gaps, and some backwards. Returns the bytes before the first
 * record. */
static int64_t roll_memory(const struct afar_array_shape *shape, const struct afar_slab *slab,
			   int64_t *strides)
{
	unsigned order[NR_MAX] = {0, 1, 2, 3};
	int64_t at = (int64_t)(shape->record_bytes + roll(3)), before = 0;

	for (unsigned i = shape->nr_dimensions; i-- > 0;) {
		unsigned with = roll(i + 1), kept = order[i];

		order[i] = order[with];
		order[with] = kept;
	}
	for (unsigned k = 0; k < shape->nr_dimensions; k++) {
		const unsigned i = order[k];
		const int64_t last = (int64_t)slab->count[i] - 1;

		strides[i] = roll(2) ? at : -at;
		before += strides[i] < 0 ? last * at : 0;
		at = at * (last + 1) + (int64_t)roll(3);
	}
	return before;
}

static void pack_memory(const struct afar_array_shape *shape, const struct afar_slab *slab,
			int64_t *strides)
{
	int64_t at = (int64_t)shape->record_bytes;

	for (unsigned k = 0; k < shape->nr_dimensions; k++) {
		unsigned i = shape->flags & AFAR_ARRAY_FORTRAN ? k : shape->nr_dimensions - 1 - k;

		strides[i] = at;
		at *= (int64_t)slab->count[i];
	}
}

/* ---- What a plan covers */

#define PLACES (1U << 17) /* more than any such array has bytes, or memory of it */

static int64_t found[PLACES]; /* byte of the array → its memory; or NOWHERE */
#define NOWHERE INT64_MIN

/* Takes all slices of a plan. Returns how many pieces they had. */
static unsigned take_plan(const struct array_form *form, const struct array_slab *slab)
{
	const unsigned max = 1 + roll(5);
	struct array_piece pieces[5];
	struct array_plan plan;
	unsigned nr, sum = 0;

	for (unsigned i = 0; i < PLACES; i++)
		found[i] = NOWHERE;
	array_plan_begin(&plan, form, slab);
	while ((nr = array_plan_next(&plan, pieces, max)) != 0) {
		assert_true(nr <= max);
		sum += nr;
		for (unsigned i = 0; i < nr; i++)
			for (uint64_t k = 0; k < pieces[i].length; k++) {
				assert_true(pieces[i].offset + k < form->bytes);
				assert_true(found[pieces[i].offset + k] == NOWHERE);
				found[pieces[i].offset + k] = pieces[i].memory + (int64_t)k;
			}
	}
	assert_int_equal(array_plan_next(&plan, pieces, max), 0);
	return sum;
}

static void expect_plan(const struct afar_array_shape *shape, const struct afar_slab *slab,
			const int64_t *strides)
{
	uint64_t at[DIMENSIONS_MAX] = {0}, nr_records = 0, nr_found = 0;

	do {
		uint64_t index[DIMENSIONS_MAX], offset;
		int64_t memory = 0;

		for (unsigned i = 0; i < shape->nr_dimensions; i++) {
			int64_t stride = slab->stride[i] ? slab->stride[i] : 1;

			index[i] = slab->start[i] + (uint64_t)((int64_t)at[i] * stride);
			memory += (int64_t)at[i] * strides[i];
		}
		offset = offset_of(shape, index);
		for (uint64_t k = 0; k < shape->record_bytes; k++)
			assert_true(found[offset + k] == memory + (int64_t)k);
		nr_records++;
	} while (step(shape, slab, at));
	for (unsigned i = 0; i < PLACES; i++)
		nr_found += found[i] != NOWHERE;
	assert_int_equal(nr_found, nr_records * shape->record_bytes);
}

static void test_random_plans(void **state)
{
	const uint64_t nr = test_effort(NR_PLANS / 10, NR_PLANS, 100 * NR_PLANS);

	(void)state;
	for (uint64_t turn = 0; turn < nr; turn++) {
		struct afar_array_shape shape;
		struct array_form form;
		struct array_slab checked;
		struct afar_slab slab;
		int64_t strides[NR_MAX] = {0};

		roll_shape(&shape);
		roll_slab(&shape, &slab);
		if (roll(2)) {
			roll_memory(&shape, &slab, strides);
			slab.memory_stride = strides;
		} else {
			pack_memory(&shape, &slab, strides);
		}
		assert_int_equal(array_form_make(&shape, &form), 0);
		assert_int_equal(array_slab_make(&form, &slab, "read", true, &checked), 0);
		take_plan(&form, &checked);
		expect_plan(&shape, &slab, strides);
	}
}

static unsigned count_pieces(const struct afar_array_shape *shape, const struct afar_slab *slab)
{
	struct array_form form;
	struct array_slab checked;

	assert_int_equal(array_form_make(shape, &form), 0);
	assert_int_equal(array_slab_make(&form, slab, "read", true, &checked), 0);
	return take_plan(&form, &checked);
}

/* A block that is stored as one is one piece, and so are whole rows. */
static void test_few_pieces(void **state)
{
	struct afar_array_shape shape = {.size = sizeof(shape),
					 .nr_dimensions = 3,
					 .record_bytes = 8,
					 .extent = {8, 12, 16},
					 .block = {4, 4, 8}};
	struct afar_slab slab = {.size = sizeof(slab), .start = {4, 8, 8}, .count = {4, 4, 8}};
	const struct afar_slab all = {.size = sizeof(slab), .count = {8, 12, 16}};

	(void)state;
	assert_int_equal(count_pieces(&shape, &slab), 16);
	assert_int_equal(count_pieces(&shape, &all), 1);
	shape.flags = AFAR_ARRAY_BLOCKED;
	assert_int_equal(count_pieces(&shape, &slab), 1);
	shape.flags |= AFAR_ARRAY_FORTRAN;
	assert_int_equal(count_pieces(&shape, &slab), 1);
	/* One row of three blocks of the middle dimension, in C. */
	shape.flags = AFAR_ARRAY_BLOCKED;
	slab = (struct afar_slab){.size = sizeof(slab), .start = {1, 0, 0}, .count = {1, 12, 8}};
	assert_int_equal(count_pieces(&shape, &slab), 3);
	/* Nothing. */
	slab.count[1] = 0;
	assert_int_equal(count_pieces(&shape, &slab), 0);
	slab.start[1] = 12;
	assert_int_equal(count_pieces(&shape, &slab), 0);
}

/* ---- What is wrong */

#define expect_error(call, code)                                       \
	do {                                                           \
		error_line("nothing");                                 \
		assert_int_equal(call, code);                          \
		assert_string_not_equal(error_last_line(), "nothing"); \
	} while (0)

static void test_bad_shapes(void **state)
{
	const uint64_t big = UINT64_C(1) << 31;
	const struct afar_array_shape bad[] = {
		{.nr_dimensions = 0, .record_bytes = 1},
		{.nr_dimensions = 9, .record_bytes = 1, .extent = {1, 1, 1, 1, 1, 1, 1, 1}},
		{.nr_dimensions = 1, .record_bytes = 0, .extent = {1}},
		{.nr_dimensions = 1, .record_bytes = 1, .extent = {0}},
		{.nr_dimensions = 1, .record_bytes = 1, .extent = {1, 1}},
		{.nr_dimensions = 1, .record_bytes = 1, .extent = {1}, .block = {0, 1}},
		{.nr_dimensions = 1, .record_bytes = 1, .extent = {4}, .block = {5}},
		{.nr_dimensions = 1, .record_bytes = 1, .extent = {1}, .flags = 4},
		{.nr_dimensions = 1, .record_bytes = 1, .extent = {1}, .type = "\n"},
		/* Products that are too large, some of which are small again in 64 bits. */
		{.nr_dimensions = 2, .record_bytes = 2, .extent = {big, big}},
		{.nr_dimensions = 2, .record_bytes = 8, .extent = {big, big}},
		{.nr_dimensions = 1, .record_bytes = UINT64_MAX, .extent = {1}},
		{.nr_dimensions = 1, .record_bytes = 1, .extent = {UINT64_MAX}},
		{.nr_dimensions = 1, .record_bytes = 1, .extent = {INT64_MAX - 4095}},
		{.nr_dimensions = 4, .record_bytes = 1, .extent = {big, big, big, big}},
		/* Because of what the blocks at the edges take. */
		{.nr_dimensions = 1,
		 .record_bytes = 1,
		 .extent = {(UINT64_C(1) << 62) + 1},
		 .block = {UINT64_C(1) << 62},
		 .flags = AFAR_ARRAY_BLOCKED},
	};
	struct afar_array_shape endless = {.nr_dimensions = 1, .record_bytes = 1, .extent = {1}};
	struct array_form form;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		expect_error(array_form_make(&bad[i], &form), -EINVAL);
	memset(endless.type, 'x', sizeof(endless.type));
	expect_error(array_form_make(&endless, &form), -EINVAL);
	endless.type[AFAR_ARRAY_TYPE_MAX] = '\0';
	assert_int_equal(array_form_make(&endless, &form), 0);
	endless.extent[0] = INT64_MAX - AFAR_ARRAY_HEADER_BYTES;
	assert_int_equal(array_form_make(&endless, &form), 0);
	assert_int_equal(form.bytes, INT64_MAX);
}

static void test_bad_parts(void **state)
{
	const struct afar_array_shape shape = {
		.nr_dimensions = 2, .record_bytes = 8, .extent = {10, UINT64_C(1) << 40}};
	static const int64_t memory[][2] = {
		{0, 8}, {INT64_MAX, 8}, {INT64_MIN, 8}, {INT64_MAX / 2, INT64_MAX / 4}};
	const struct {
		uint64_t start, count;
		int64_t stride;
	} outside[] = {
		{0, 11, 1},
		{10, 1, 1},
		{11, 0, 1},
		{9, 2, 1},
		{0, 2, 10},
		{0, 4, 4},
		{2, 4, -1},
		{9, 2, -10},
		{0, UINT64_MAX, 1},
		{1, UINT64_MAX, 1},
		{UINT64_MAX, 1, 1},
		{1, 2, INT64_MAX},
		{0, 2, INT64_MIN},
		{9, UINT64_MAX, -1},
		{0, 5, INT64_MAX / 2 + 1},
		{9, 5, INT64_MIN / 2},
		{UINT64_MAX, 2, -1},
	};
	struct array_form form;
	struct array_slab slab;

	(void)state;
	assert_int_equal(array_form_make(&shape, &form), 0);
	for (unsigned i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
		const struct afar_slab part = {.start = {outside[i].start},
					       .count = {outside[i].count, 1},
					       .stride = {outside[i].stride}};

		expect_error(array_slab_make(&form, &part, "read", true, &slab), -ERANGE);
	}
	for (unsigned i = 0; i < sizeof(memory) / sizeof(memory[0]); i++) {
		const struct afar_slab part = {.count = {3, 3}, .memory_stride = memory[i]};

		expect_error(array_slab_make(&form, &part, "read", true, &slab), -EINVAL);
	}
	/* One place for all is good to write from; and what has one record goes nowhere. */
	{
		const struct afar_slab part = {.count = {3, 1}, .memory_stride = memory[0]};
		const struct afar_slab one = {
			.count = {1, 1}, .stride = {INT64_MIN}, .memory_stride = memory[2]};

		assert_int_equal(array_slab_make(&form, &part, "write", false, &slab), 0);
		assert_int_equal(array_slab_make(&form, &one, "read", true, &slab), 0);
	}
}

/* ---- Headers */

static void test_headers(void **state)
{
	const struct afar_array_shape shape = {.size = sizeof(shape),
					       .nr_dimensions = 8,
					       .flags = AFAR_ARRAY_BLOCKED | AFAR_ARRAY_FORTRAN,
					       .record_bytes = 24,
					       .extent = {1, 2, 3, 4, 5, 6, 7, 8},
					       .block = {0, 2, 1, 2, 0, 3, 7, 1},
					       .type = "<f8"};
	struct afar_array_shape back;
	struct array_header header, damaged;

	(void)state;
	array_header_encode(&header, &shape);
	assert_int_equal(array_header_decode(&header, &back), 0);
	assert_memory_equal(&back, &shape, sizeof(shape));
	for (unsigned i = 0; i < 8 * sizeof(header); i++) {
		damaged = header;
		((uint8_t *)&damaged)[i / 8] ^= (uint8_t)(1U << i % 8);
		expect_error(array_header_decode(&damaged, &back), i < 64 ? -EINVAL : -EBADMSG);
	}
}

TEST_GROUP(array)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_plans), cmocka_unit_test(test_few_pieces),
		cmocka_unit_test(test_bad_shapes),   cmocka_unit_test(test_bad_parts),
		cmocka_unit_test(test_headers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
