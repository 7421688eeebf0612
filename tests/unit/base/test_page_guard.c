/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guards of pages: a model of one owner and one reader. The owner changes a page, tells that it has, and shows other
 * bytes in the same place. The reader knows the page as it was. All orders of their steps are tried. Each rule is
 * broken in turn, and some order must show it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/page_guard.h"
#include "unit/group.h"

#define STEPS 5U

enum step {
	NOTHING,
	HIDE,
	TELL, /* whoever begins to read from now on must not see the old page */
	WRITE_FIRST,
	WRITE_SECOND,
	SHOW,
	SHOW_AGAIN, /* with the old generation */
	START,
	BEGIN,
	READ_FIRST,
	READ_SECOND,
	END,
};

enum { OLD = 1, NEW = 2 }; /* generations, and bytes */

static struct {
	struct page_guard guard;
	int page[2];
	bool has_told;
	int seen[2]; /* the reader's */
	bool must_fail, has_failed;
} world;

static void run(enum step step)
{
	switch (step) {
	case NOTHING:
		break;
	case HIDE:
		page_guard_hide(&world.guard);
		break;
	case TELL:
		world.has_told = true;
		break;
	case WRITE_FIRST:
	case WRITE_SECOND:
		world.page[step - WRITE_FIRST] = NEW;
		break;
	case SHOW:
	case SHOW_AGAIN:
		page_guard_show(&world.guard, step == SHOW ? NEW : OLD);
		break;
	case START:
		world.must_fail = world.has_told;
		break;
	case BEGIN:
		world.has_failed |= !page_guard_begin(&world.guard, OLD);
		break;
	case READ_FIRST:
	case READ_SECOND:
		world.seen[step - READ_FIRST] = world.page[step - READ_FIRST];
		break;
	case END:
		world.has_failed |= !page_guard_end(&world.guard, OLD);
		break;
	}
}

/* In the order of the bits: 1 is a step of the owner's. Returns whether the reader believes what he may not. */
static bool is_wrong(const enum step owner[STEPS], const enum step reader[STEPS], unsigned order)
{
	unsigned nr_owner = 0, nr_reader = 0;

	world = (typeof(world)){.page = {OLD, OLD}};
	page_guard_show(&world.guard, OLD);
	for (unsigned i = 0; i < 2 * STEPS; i++)
		run(order >> i & 1 ? owner[nr_owner++] : reader[nr_reader++]);
	return !world.has_failed &&
	       (world.must_fail || world.seen[0] != OLD || world.seen[1] != OLD);
}

static unsigned count_wrong(const enum step owner[STEPS], const enum step reader[STEPS])
{
	unsigned nr = 0;

	for (unsigned order = 0; order < 1U << (2 * STEPS); order++)
		nr += (unsigned)__builtin_popcount(order) == STEPS &&
		      is_wrong(owner, reader, order);
	return nr;
}

static const enum step good_owner[STEPS] = {HIDE, TELL, WRITE_FIRST, WRITE_SECOND, SHOW};
static const enum step good_reader[STEPS] = {START, BEGIN, READ_FIRST, READ_SECOND, END};

static void test_rules_are_kept(void **state)
{
	(void)state;
	assert_int_equal(count_wrong(good_owner, good_reader), 0);
}

static void test_broken_rules_are_found(void **state)
{
	static const enum step owners[][STEPS] = {
		{TELL, HIDE, WRITE_FIRST, WRITE_SECOND, SHOW},
		{WRITE_FIRST, HIDE, TELL, WRITE_SECOND, SHOW},
		{HIDE, TELL, WRITE_FIRST, SHOW_AGAIN, WRITE_SECOND},
		{HIDE, TELL, WRITE_FIRST, WRITE_SECOND, SHOW_AGAIN},
		{TELL, WRITE_FIRST, WRITE_SECOND, SHOW, NOTHING},
	};
	static const enum step readers[][STEPS] = {
		{START, BEGIN, READ_FIRST, READ_SECOND, NOTHING},
		{START, BEGIN, END, READ_FIRST, READ_SECOND},
		{START, BEGIN, READ_FIRST, END, READ_SECOND},
		{BEGIN, END, START, READ_FIRST, READ_SECOND},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(owners) / sizeof(owners[0]); i++)
		assert_true(count_wrong(owners[i], good_reader) > 0);
	for (unsigned i = 0; i < sizeof(readers) / sizeof(readers[0]); i++)
		assert_true(count_wrong(good_owner, readers[i]) > 0);
}

TEST_GROUP(page_guard)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules_are_kept),
		cmocka_unit_test(test_broken_rules_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
