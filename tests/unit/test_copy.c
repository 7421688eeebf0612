/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies in parts: whole, and nothing beyond, for lengths about the parts' ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/copy.h"
#include "group.h"

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

TEST_GROUP(copy)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies_of_any_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
