/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C, at once and part by part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/checksum.h"
#include "group.h"

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

TEST_GROUP(checksum)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums_go_on)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
