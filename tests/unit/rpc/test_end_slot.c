/* SPDX-License-Identifier: BSD-3-Clause */
/* Slots of files' ends: what was written is read, also if one of the copies is torn. Nothing else is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rpc/end_slot.h"
#include "unit/group.h"

#define INO    7U
#define LAYOUT 9U

static void write_copy(uint8_t *bytes, unsigned copy, uint64_t end)
{
	const struct end_slot slot = {INO, LAYOUT, end};

	end_slot_write(bytes + (size_t)copy * END_SLOT_COPY_BYTES, &slot);
}

static void expect(const uint8_t *bytes, uint64_t wanted)
{
	uint64_t end = 1;

	assert_true(end_slot_read(bytes, END_SLOT_BYTES, INO, LAYOUT, &end));
	assert_int_equal(end, wanted);
}

static void test_turns(void **state)
{
	uint8_t bytes[END_SLOT_BYTES] = {0};
	uint64_t end = 1;

	(void)state;
	assert_false(end_slot_read(bytes, sizeof(bytes), INO, LAYOUT, &end));
	assert_int_equal(end, 1);
	write_copy(bytes, 0, 100);
	expect(bytes, 100);
	write_copy(bytes, 1, 5000);
	expect(bytes, 5000);
	write_copy(bytes, 0, UINT64_MAX);
	expect(bytes, UINT64_MAX);
}

/* However far a copy has been written, the other one counts. */
static void test_torn(void **state)
{
	uint8_t bytes[END_SLOT_BYTES] = {0}, next[END_SLOT_BYTES];

	(void)state;
	write_copy(bytes, 0, 100);
	write_copy(bytes, 1, 200);
	memcpy(next, bytes, sizeof(next));
	write_copy(next, 0, 300);
	for (size_t nr = 0; nr < END_SLOT_COPY_BYTES; nr++) {
		uint8_t torn[END_SLOT_BYTES];

		memcpy(torn, bytes, sizeof(torn));
		memcpy(torn, next, nr);
		expect(torn, 200);
	}
	expect(next, 300);
}

static void test_altered(void **state)
{
	uint8_t bytes[END_SLOT_BYTES] = {0};
	uint64_t end;

	(void)state;
	write_copy(bytes, 1, 4096);
	assert_false(end_slot_read(bytes, sizeof(bytes), INO + 1, LAYOUT, &end));
	assert_false(end_slot_read(bytes, sizeof(bytes), INO, LAYOUT - 1, &end));
	for (size_t i = 0; i < 8 * END_SLOT_COPY_BYTES; i++) {
		uint8_t *byte = &bytes[END_SLOT_COPY_BYTES + i / 8];
		uint8_t bit = (uint8_t)(1U << i % 8);

		*byte ^= bit;
		assert_false(end_slot_read(bytes, sizeof(bytes), INO, LAYOUT, &end));
		*byte ^= bit;
	}
	expect(bytes, 4096);
}

static void test_short(void **state)
{
	uint8_t bytes[END_SLOT_BYTES + 1] = {0};
	uint64_t end;

	(void)state;
	write_copy(bytes, 0, 4096);
	for (size_t nr = 0; nr < END_SLOT_COPY_BYTES; nr++)
		assert_false(end_slot_read(bytes, nr, INO, LAYOUT, &end));
	assert_true(end_slot_read(bytes, END_SLOT_COPY_BYTES, INO, LAYOUT, &end));
	assert_true(end_slot_read(bytes, sizeof(bytes), INO, LAYOUT, &end));
}

TEST_GROUP(end_slot)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_torn),
		cmocka_unit_test(test_altered),
		cmocka_unit_test(test_short),
	};

	return cmocka_run_group_tests_name("end_slot", tests, NULL, NULL);
}
