/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C, at once and part by part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/checksum.h"
#include "unit/group.h"

static void test_sums_go_on(void **state)
{
	static const char text[] = "123456789";

	(void)state;
	assert_int_equal(checksum_crc32c_seeded(0, text, 9), 0xe3069283);
	for (size_t cut = 0; cut <= 9; cut++)
		assert_int_equal(
			checksum_crc32c_seeded(checksum_crc32c(text, cut), text + cut, 9 - cut),
			0xe3069283);
	assert_int_equal(checksum_crc32c_seeded(0xdeadbeef, "", 0), 0xdeadbeef);
	assert_int_not_equal(checksum_crc32c_seeded(1, text, 9), 0xe3069283);
}

/* A start changes the sum of each block by as much. */
static void test_starts_are_carried_over_blocks(void **state)
{
	static uint8_t block[CHECKSUM_BLOCK];
	unsigned dice = 1;

	(void)state;
	assert_int_equal(checksum_crc32c(block, sizeof(block)), CHECKSUM_OF_ZEROS);
	assert_int_equal(checksum_carried(0), 0);
	for (unsigned i = 0; i < 200; i++) {
		uint32_t start = i < 32 ? 1U << i : (uint32_t)rand_r(&dice) * 3;

		for (size_t at = 0; at < sizeof(block); at++)
			block[at] = (uint8_t)rand_r(&dice);
		assert_int_equal(checksum_crc32c_seeded(start, block, sizeof(block)),
				 checksum_crc32c(block, sizeof(block)) ^ checksum_carried(start));
	}
}

TEST_GROUP(checksum)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums_go_on),
					   cmocka_unit_test(test_starts_are_carried_over_blocks)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
