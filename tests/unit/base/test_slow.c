/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines about slow operations: which operations get one, and how many in a second. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/slow.h"
#include "unit/group.h"

#define SECOND UINT64_C(1000000000)

static FILE *lines;
static int own_stderr;

static int begin(void **state)
{
	(void)state;
	lines = tmpfile();
	own_stderr = dup(STDERR_FILENO);
	dup2(fileno(lines), STDERR_FILENO);
	log_set_level(LOG_LEVEL_WARN);
	return 0;
}

static int end(void **state)
{
	(void)state;
	dup2(own_stderr, STDERR_FILENO);
	close(own_stderr);
	fclose(lines);
	return 0;
}

/* Returns how many lines have this text, and how many there are. */
static unsigned count(const char *text, unsigned *nr)
{
	unsigned nr_with = 0;
	char line[512];

	*nr = 0;
	rewind(lines);
	while (fgets(line, sizeof(line), lines)) {
		*nr += 1;
		nr_with += strstr(line, text) != NULL;
	}
	return nr_with;
}

static void test_what_is_slow(void **state)
{
	(void)state;
	atomic_store(&slow_threshold_ns, 0);
	assert_false(slow_is_on());
	assert_false(slow_is(UINT64_MAX));
	atomic_store(&slow_threshold_ns, SECOND);
	assert_true(slow_is_on());
	assert_false(slow_is(SECOND - 1));
	assert_true(slow_is(SECOND));
	atomic_store(&slow_threshold_ns, 0);
}

static void test_few_in_a_second(void **state)
{
	unsigned nr;

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(slow_write(__FILE__, 50 * SECOND + i, NULL, 0, "slow: %u", i),
				 i < SLOW_SHOWN_MAX);
	slow_tell(51 * SECOND - 1);
	assert_int_equal(count("slow: ", &nr), SLOW_SHOWN_MAX);
	assert_int_equal(nr, SLOW_SHOWN_MAX);
	/* Nothing slow comes any more; yet it is told, once. */
	slow_tell(51 * SECOND);
	slow_tell(60 * SECOND);
	assert_int_equal(count("90 more slow operations not shown", &nr), 1);
	assert_int_equal(nr, SLOW_SHOWN_MAX + 1);
	assert_true(slow_write(__FILE__, 70 * SECOND, NULL, 0, "slow: again"));
	assert_int_equal(count("slow: again", &nr), 1);
	assert_int_equal(nr, SLOW_SHOWN_MAX + 2);
}

/* The next slow one tells, if no other operation has. */
static void test_the_next_tells(void **state)
{
	unsigned nr;

	(void)state;
	for (unsigned i = 0; i < SLOW_SHOWN_MAX + 1; i++)
		slow_write(__FILE__, 80 * SECOND, NULL, 0, "slow: %u", i);
	slow_write(__FILE__, 82 * SECOND, NULL, 0, "slow: next");
	assert_int_equal(count(" 1 more slow operations not shown", &nr), 1);
	assert_int_equal(nr, SLOW_SHOWN_MAX + 2);
}

#define SLOW_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

TEST_GROUP(slow)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_slow),
		SLOW_TEST(test_few_in_a_second),
		SLOW_TEST(test_the_next_tells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
