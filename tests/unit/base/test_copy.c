/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies in parts and by vectors: whole, and nothing beyond, for lengths about the parts' ends and places about pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/copy.h"
#include "unit/group.h"

static void test_copies_of_any_length(void **state)
{
	const size_t lengths[] = {
		0, 1, COPY_PART - 1, COPY_PART, COPY_PART + 1, 2 * COPY_PART, 3 * COPY_PART + 7};
	const size_t room = 4 * COPY_PART;
	uint8_t *from = malloc(room), *to = malloc(room), *expected = malloc(room);

	(void)state;
	for (size_t i = 0; i < room; i++)
		from[i] = (uint8_t)(i * 31 + i / 251 + i / COPY_PART + 1);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		memset(to, 0xee, room);
		memset(expected, 0xee, room);
		memcpy(expected + 3, from + 5, lengths[i]);
		copy_memory(to + 3, from + 5, lengths[i]);
		assert_memory_equal(to, expected, room);
	}
	free(from);
	free(to);
	free(expected);
}

/* The destination is so many bytes further into its page than the source is into its own. */
static void test_copies_to_any_place(void **state)
{
	const size_t lengths[] = {1, 127, COPY_REP_MIN, COPY_REP_MIN + 1, 4096, COPY_PART + 129};
	const size_t room = 2 * COPY_PART;
	uint8_t *from = aligned_alloc(4096, room), *to = aligned_alloc(4096, room);

	(void)state;
	for (size_t i = 0; i < room; i++)
		from[i] = (uint8_t)(i * 31 + i / 251 + 1);
	for (size_t ahead = 0; ahead <= 40; ahead++) {
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			memset(to, 0xee, room);
			copy_memory(to + 4096 + ahead, from + 4096, lengths[i]);
			assert_memory_equal(to + 4096 + ahead, from + 4096, lengths[i]);
			for (size_t at = 0; at < 4096 + ahead; at++)
				assert_int_equal(to[at], 0xee);
			assert_int_equal(to[4096 + ahead + lengths[i]], 0xee);
			assert_int_equal(
				copy_is_slow_by_rep(to + 4096 + ahead, from + 4096, lengths[i]),
				ahead >= 1 && ahead <= 31 && lengths[i] > COPY_REP_MIN);
		}
	}
	free(from);
	free(to);
}

TEST_GROUP(copy)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies_of_any_length),
		cmocka_unit_test(test_copies_to_any_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
