/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of ranges, against a list that is searched from its beginning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "memory/ranges.h"
#include "unit/group.h"

#define PAGE	 ((uintptr_t)4096)
#define NR_PAGES 64U
#define NR_MAX	 16U
#define NR_STEPS 200000U
#define LONGEST	 5U
#define SEED	 1U

struct model {
	struct range at[NR_MAX];
	int items[NR_MAX]; /* addresses of which are the items */
	bool is_there[NR_MAX];
	unsigned nr;
};

static bool overlap(struct range a, struct range b)
{
	return a.start < b.end && b.start < a.end;
}

static struct range any_range(void)
{
	uintptr_t first = (uintptr_t)rand() % NR_PAGES + 1;

	return (struct range){first * PAGE, (first + 1 + (uintptr_t)rand() % LONGEST) * PAGE};
}

static void insert(struct model *model, struct ranges *ranges)
{
	struct range range = any_range();
	bool is_free = model->nr < NR_MAX;
	unsigned slot = 0;

	for (unsigned i = 0; i < NR_MAX; i++)
		is_free = is_free && !(model->is_there[i] && overlap(model->at[i], range));
	while (slot < NR_MAX - 1 && model->is_there[slot])
		slot++;
	assert_int_equal(ranges_insert(ranges, range, &model->items[slot]), is_free);
	if (!is_free)
		return;
	model->at[slot] = range;
	model->is_there[slot] = true;
	model->nr++;
}

static void remove_any(struct model *model, struct ranges *ranges)
{
	unsigned slot = (unsigned)rand() % NR_MAX;
	size_t place;

	if (!model->is_there[slot])
		return;
	place = ranges_first_behind(ranges, model->at[slot].start);
	assert_ptr_equal(ranges->items[place], &model->items[slot]);
	ranges_remove(ranges, place);
	model->is_there[slot] = false;
	model->nr--;
}

static void look_up(const struct model *model, const struct ranges *ranges)
{
	struct range range = any_range();
	const void *expected = NULL;

	for (unsigned i = 0; i < NR_MAX; i++) {
		if (model->is_there[i] && model->at[i].start <= range.start &&
		    model->at[i].end >= range.end)
			expected = &model->items[i];
	}
	assert_ptr_equal(ranges_covering(ranges, range), expected);
}

static void does_what_a_list_does(void **state)
{
	struct model model = {.nr = 0};
	struct ranges ranges;

	(void)state;
	srand(SEED);
	assert_int_equal(ranges_open(&ranges, NR_MAX), 0);
	for (unsigned step = 0; step < NR_STEPS; step++) {
		if (rand() % 4 == 0)
			insert(&model, &ranges);
		else if (rand() % 4 == 0)
			remove_any(&model, &ranges);
		else
			look_up(&model, &ranges);
		assert_int_equal(ranges.nr, model.nr);
	}
	ranges_close(&ranges);
}

TEST_GROUP(ranges)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(does_what_a_list_does)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
