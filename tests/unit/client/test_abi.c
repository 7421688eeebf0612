/* SPDX-License-Identifier: BSD-3-Clause */
/* Structs of other releases: older ones are filled up, newer ones are taken as far as they are known. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/abi.h"
#include "unit/group.h"

/* One struct in three releases; the library has the second. */
struct first {
	size_t size;
	uint64_t a;
};
struct second {
	size_t size;
	uint64_t a, b;
};
struct third {
	size_t size;
	uint64_t a, b, c;
};

static int take(struct second *known, const void *given)
{
	memset(known, 0xee, sizeof(*known));
	return abi_take(known, sizeof(*known), sizeof(struct first), given, "second");
}

static void test_options(void **state)
{
	struct first old = {.size = sizeof(old), .a = 1};
	struct second same = {.size = sizeof(same), .a = 1, .b = 2};
	struct third new = {.size = sizeof(new), .a = 1, .b = 2};
	struct second known;

	(void)state;
	assert_int_equal(take(&known, &old), 0);
	assert_int_equal(known.a, 1);
	assert_int_equal(known.b, 0);
	assert_int_equal(take(&known, &same), 0);
	assert_int_equal(known.b, 2);
	assert_int_equal(take(&known, &new), 0);
	assert_int_equal(known.b, 2);
	new.c = (uint64_t)1 << 63;
	assert_int_equal(take(&known, &new), -EINVAL);
}

/* A struct's size in the release in which a member was the last; its end is padded. */
static void test_sizes_by_members(void **state)
{
	struct padded {
		size_t size;
		uint32_t a, b;
		char c[3];
	};

	(void)state;
	assert_int_equal(ABI_SIZE(third, a), sizeof(struct first));
	assert_int_equal(ABI_SIZE(third, b), sizeof(struct second));
	assert_int_equal(ABI_SIZE(padded, a), 16);
	assert_int_equal(ABI_SIZE(padded, b), 16);
	assert_int_equal(ABI_SIZE(padded, c), sizeof(struct padded));
}

static void test_sizes_that_are_none(void **state)
{
	static const size_t sizes[] = {0, 1, 8, 15, 17, 23, 1 << 20, SIZE_MAX, SIZE_MAX - 7};
	struct second given = {0}, known;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		given.size = sizes[i];
		assert_int_equal(take(&known, &given), -EINVAL);
		assert_int_equal(abi_check_out(&given, sizeof(struct first), "second"), -EINVAL);
	}
}

static void test_results(void **state)
{
	const struct second known = {.a = 1, .b = 2};
	struct {
		struct first out;
		uint64_t behind;
	} old = {.out.size = sizeof(old.out), .behind = 77};
	struct third new = {.size = sizeof(new), .c = 77};

	(void)state;
	assert_int_equal(abi_check_out(&old.out, sizeof(struct first), "second"), 0);
	abi_give(&old.out, old.out.size, &known, sizeof(known));
	assert_int_equal(old.out.size, sizeof(struct first));
	assert_int_equal(old.out.a, 1);
	assert_int_equal(old.behind, 77);
	assert_int_equal(abi_check_out(&new, sizeof(struct first), "second"), 0);
	abi_give(&new, new.size, &known, sizeof(known));
	assert_int_equal(new.size, sizeof(struct third));
	assert_int_equal(new.b, 2);
	assert_int_equal(new.c, 0);
}

TEST_GROUP(abi)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_sizes_by_members),
		cmocka_unit_test(test_sizes_that_are_none),
		cmocka_unit_test(test_results),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
