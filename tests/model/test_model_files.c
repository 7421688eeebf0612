/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Searches the model of file.c for a state in which a file has another's bytes, bytes that were cut off, or a wrong
 * size. Also for one from which the pool never becomes free. Then breaks each of its rules in turn and sees that the
 * search notices. AFAR_LONG=1 searches larger worlds, for minutes and gigabytes.
 *
 *   test_model_files [BUG]    shows the way to what is wrong with that rule broken, by its name in file.h
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "file.h"

/* Breaks a rule in the smallest world where that shows: some need a second client. */
static struct search_result search_broken(enum file_bug bug, bool is_shown)
{
	const struct file_world alone = {1, 1, 1, FILE_ENDLESS, bug};
	const struct file_world together = {2, 1, 1, FILE_ENDLESS, bug};
	struct search_result result = file_search(&alone, is_shown);

	return result.wrong ? result : file_search(&together, is_shown);
}

static void expect_sound(struct file_world world)
{
	struct search_result result = file_search(&world, true);

	printf("%u clients, %u files, %u units: %zu states\n", world.nr_clients, world.nr_files,
	       world.nr_units, result.nr_states);
	if (result.wrong)
		fail_msg("after %zu steps, as above: %s", result.nr_steps, result.wrong);
}

static void test_rules_hold(void **state)
{
	(void)state;
	expect_sound((struct file_world){2, 1, 1, FILE_ENDLESS, FILE_BUG_NONE});
	expect_sound((struct file_world){1, 2, 1, FILE_ENDLESS, FILE_BUG_NONE});
	expect_sound((struct file_world){1, 1, 2, FILE_ENDLESS, FILE_BUG_NONE});
}

static void test_rules_hold_in_larger_worlds(void **state)
{
	(void)state;
	if (!getenv("AFAR_LONG"))
		skip();
	expect_sound((struct file_world){2, 1, 2, 1, FILE_BUG_NONE});
	expect_sound((struct file_world){1, 2, 2, FILE_ENDLESS, FILE_BUG_NONE});
}

static void test_each_broken_rule_is_noticed(void **state)
{
	(void)state;
	for (enum file_bug bug = FILE_BUG_NONE + 1; bug < NR_FILE_BUGS; bug++) {
		struct search_result result = search_broken(bug, false);

		if (!result.wrong)
			fail_msg("%s went unnoticed: %s", file_bug_name(bug),
				 file_bug_sentence(bug));
		printf("%s: in %zu steps, %s\n", file_bug_name(bug), result.nr_steps, result.wrong);
	}
}

static int show_bug(const char *name)
{
	for (enum file_bug bug = FILE_BUG_NONE + 1; bug < NR_FILE_BUGS; bug++) {
		struct search_result result;

		if (strcmp(name, file_bug_name(bug)) != 0)
			continue;
		printf("%s\n", file_bug_sentence(bug));
		result = search_broken(bug, true);
		printf("%s\n", result.wrong ? result.wrong : "it went unnoticed");
		return result.wrong ? 0 : 1;
	}
	fprintf(stderr, "test_model_files: no rule to break is called %s; see file.h\n", name);
	return 1;
}

int main(int argc, char **argv)
{
	if (argc == 2)
		return show_bug(argv[1]);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules_hold),
		cmocka_unit_test(test_rules_hold_in_larger_worlds),
		cmocka_unit_test(test_each_broken_rule_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
