/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file of unit tests is a group, and the groups of a layer are one program. `unit_LAYER GROUP [ARG...]`
 * runs one group, `unit_LAYER` runs all of them, one after the other.
 *
 *	TEST_GROUP(zones)
 *	{
 *		const struct CMUnitTest tests[] = {cmocka_unit_test(test_takes), ...};
 *
 *		return cmocka_run_group_tests(tests, NULL, NULL);
 *	}
 */
#ifndef AFAR_TESTS_UNIT_GROUP_H
#define AFAR_TESTS_UNIT_GROUP_H

struct test_group {
	const char *name;
	int (*run)(int argc, char **argv); /* argv[0] is the name; returns the exit status */
	struct test_group *next;
};

/* Makes a group known to the program. Runs before main(). */
void test_group_add(struct test_group *group);

#define TEST_GROUP(group_name)                                                         \
	static int run_group(int argc, char **argv);                                   \
	static struct test_group this_group = {.name = #group_name, .run = run_group}; \
	__attribute__((constructor)) static void add_group(void)                       \
	{                                                                              \
		test_group_add(&this_group);                                           \
	}                                                                              \
	static int run_group(int argc __attribute__((unused)), char **argv __attribute__((unused)))

#endif
