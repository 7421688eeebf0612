/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Searches the model of chunk.c for a state in which two namespaces could write the same memory, or which
 * nobody comes out of. Then breaks each of its rules in turn and sees that the search notices. AFAR_LONG=1
 * searches larger worlds, for minutes and gigabytes.
 *
 *   test_model [BUG]    shows the way to what is wrong with that rule broken, by its name in chunk.h
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chunk.h"

/* Every bug shows in one of these: alone with a server, with a session that lends its key, with a stranger. */
static const struct chunk_world alone = {1, 1, CHUNK_ENDLESS, BUG_NONE};
static const struct chunk_world with_stranger = {1, 2, CHUNK_ENDLESS, BUG_NONE};
static const struct chunk_world with_accomplice = {1, 3, CHUNK_ENDLESS, BUG_NONE};

static struct chunk_world world_for(enum chunk_bug bug)
{
	struct chunk_world world = bug == BUG_FENCE_ONLY_WHO_WAS_GRANTED ? with_accomplice
				   : bug == BUG_ONE_DOMAIN		 ? with_stranger
									 : alone;

	world.bug = bug;
	return world;
}

static void expect_sound(struct chunk_world world)
{
	struct search_result result = chunk_search(&world, true);

	printf("%u servers, %u sessions: %zu states\n", world.nr_servers, world.nr_sessions,
	       result.nr_states);
	if (result.wrong)
		fail_msg("after %zu steps, as above: %s", result.nr_steps, result.wrong);
}

static void test_rules_hold(void **state)
{
	(void)state;
	expect_sound((struct chunk_world){1, 2, CHUNK_ENDLESS, BUG_NONE});
	expect_sound((struct chunk_world){1, 3, 0, BUG_NONE});
	expect_sound((struct chunk_world){2, 1, 0, BUG_NONE});
}

static void test_rules_hold_in_larger_worlds(void **state)
{
	(void)state;
	if (!getenv("AFAR_LONG"))
		skip();
	expect_sound((struct chunk_world){1, 3, 1, BUG_NONE});
	expect_sound((struct chunk_world){2, 2, 0, BUG_NONE});
}

static void test_each_broken_rule_is_noticed(void **state)
{
	(void)state;
	for (enum chunk_bug bug = BUG_NONE + 1; bug < NR_CHUNK_BUGS; bug++) {
		struct chunk_world world = world_for(bug);
		struct search_result result = chunk_search(&world, false);

		if (!result.wrong)
			fail_msg("%s went unnoticed: %s", chunk_bug_name(bug),
				 chunk_bug_sentence(bug));
		printf("%s: in %zu steps, %s\n", chunk_bug_name(bug), result.nr_steps,
		       result.wrong);
	}
}

static int show_bug(const char *name)
{
	for (enum chunk_bug bug = BUG_NONE + 1; bug < NR_CHUNK_BUGS; bug++) {
		struct chunk_world world = world_for(bug);

		if (strcmp(name, chunk_bug_name(bug)) != 0)
			continue;
		printf("%s\n", chunk_bug_sentence(bug));
		printf("%s\n", chunk_search(&world, true).wrong);
		return 0;
	}
	fprintf(stderr, "test_model: no rule to break is called %s; see chunk.h\n", name);
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
