/* SPDX-License-Identifier: BSD-3-Clause */
/* The notes of a batch. Whatever was changed, in whatever order, is as before when it is taken
 * back, and as it was left when it is kept. Rows in two lists and a tree, the free space of an
 * extent, and marks within marks. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "manager/tables/undo.h"
#include "unit/group.h"

#define NR_KEYS	    12U
#define SPACE_BYTES (64 * SPACE_UNIT)
#define TAKEN_MAX   32U

struct row {
	struct cds_list_head node;
	uint64_t key;
	uint64_t value;
	char text[40]; /* more than one note holds */
};

static struct undo *undo;
static struct cds_list_head lists[2];
static void *tree;
static struct space space;
static struct {
	uint64_t offset, length;
} taken[TAKEN_MAX];
static size_t nr_taken;
static size_t nr_rows; /* that are allocated */
static uint64_t seed = 1;

COMPARE_BY(rows_by_key, row, key)

static uint64_t random_below(uint64_t limit)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 24) % limit;
}

static void destroy_row(void *row)
{
	nr_rows--;
	free(row);
}

static int setup(void **state)
{
	(void)state;
	tree = NULL;
	nr_taken = nr_rows = 0;
	CDS_INIT_LIST_HEAD(&lists[0]);
	CDS_INIT_LIST_HEAD(&lists[1]);
	return undo_open(&undo) < 0 || space_begin(&space, SPACE_BYTES) < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	struct row *row, *next;

	(void)state;
	undo_back(undo, 0);
	undo_close(undo);
	for (size_t i = 0; i < 2; i++)
		cds_list_for_each_entry_safe (row, next, &lists[i], node)
			free(row);
	tree_close(&tree);
	space_end(&space);
	return 0;
}

#define UNDO_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- What there is */

static bool print_row(void *argument, void *row)
{
	fprintf(argument, " %llu", (unsigned long long)((struct row *)row)->key);
	return true;
}

/* All of it, as text for the caller to free. */
static char *dump(void)
{
	size_t size;
	char *text;
	FILE *out = open_memstream(&text, &size);
	const struct row *row;

	assert_non_null(out);
	for (size_t i = 0; i < 2; i++) {
		fprintf(out, "list %zu:", i);
		cds_list_for_each_entry (row, &lists[i], node)
			fprintf(out, " %llu=%llu(%s)", (unsigned long long)row->key,
				(unsigned long long)row->value, row->text);
	}
	fprintf(out, "\ntree:");
	tree_walk(tree, print_row, out);
	fprintf(out, "\nspace: %llu %llu:", (unsigned long long)space.free_bytes,
		(unsigned long long)space.longest);
	for (size_t i = 0; i < space.nr_runs; i++)
		fprintf(out, " %llu+%llu", (unsigned long long)space.runs[i].offset,
			(unsigned long long)space.runs[i].length);
	fprintf(out, "\ntaken: %zu\n", nr_taken);
	fclose(out);
	return text;
}

static struct row *find(uint64_t key)
{
	struct row wanted = {.key = key};

	return tree_find(&tree, &wanted, rows_by_key);
}

/* ---- Changes */

static int add(uint64_t key)
{
	struct row *row = calloc(1, sizeof(*row));
	int ret;

	assert_non_null(row);
	nr_rows++;
	row->key = key;
	row->value = random_below(1000);
	assert_int_equal(undo_room(undo, 3), 0);
	undo_made(undo, row, destroy_row);
	ret = undo_tree_add(undo, &tree, row, rows_by_key);
	if (ret == 0)
		undo_link(undo, &row->node,
			  random_below(2) ? &lists[0] : lists[0].next); /* either end */
	return ret;
}

static void drop(struct row *row)
{
	assert_int_equal(undo_room(undo, 3), 0);
	undo_unlink(undo, &row->node);
	undo_tree_remove(undo, &tree, row, rows_by_key);
	undo_gone(undo, row, destroy_row);
}

static void set(struct row *row)
{
	assert_int_equal(undo_room(undo, 1 + UNDO_NOTES_OF(sizeof(row->text))), 0);
	undo_set(undo, row->value, random_below(1000));
	undo_save(undo, row->text, sizeof(row->text));
	memset(row->text, 'a' + (int)random_below(26), sizeof(row->text) - 1);
}

static void move(struct row *row)
{
	assert_int_equal(undo_room(undo, 2), 0);
	undo_unlink(undo, &row->node);
	undo_link(undo, &row->node, &lists[random_below(2)]);
}

static void take(void)
{
	uint64_t length = (1 + random_below(6)) * SPACE_UNIT, offset;

	assert_int_equal(undo_room(undo, 4), 0);
	if (nr_taken == TAKEN_MAX)
		return;
	if (undo_space_take(undo, &space, length, &offset) < 0)
		return;
	undo_save(undo, &taken[nr_taken], sizeof(taken[0]));
	taken[nr_taken].offset = offset;
	taken[nr_taken].length = length;
	undo_set(undo, nr_taken, nr_taken + 1);
}

static void give(void)
{
	size_t which;

	if (nr_taken == 0)
		return;
	which = random_below(nr_taken);
	assert_int_equal(undo_room(undo, 4), 0);
	assert_int_equal(undo_space_give(undo, &space, taken[which].offset, taken[which].length),
			 0);
	undo_save(undo, &taken[which], sizeof(taken[0]));
	taken[which] = taken[nr_taken - 1];
	undo_set(undo, nr_taken, nr_taken - 1);
}

static void change(void)
{
	uint64_t key = random_below(NR_KEYS);
	struct row *row = find(key);

	switch (random_below(6)) {
	case 0:
	case 1:
		if (row)
			drop(row);
		else
			assert_int_equal(add(key), 0);
		break;
	case 2:
		if (row)
			set(row);
		break;
	case 3:
		if (row)
			move(row);
		break;
	case 4:
		take();
		break;
	case 5:
		give();
		break;
	}
}

static void expect_same(char *before)
{
	char *after = dump();

	assert_string_equal(after, before);
	free(after);
}

/* Changes, with more of them below that are taken back or not; in the end all is, or nothing. */
static void change_some(unsigned depth, bool is_taken_back)
{
	size_t mark = undo_mark(undo);
	char *before = dump();

	for (uint64_t i = random_below(20); i > 0; i--) {
		if (depth < 3 && random_below(4) == 0)
			change_some(depth + 1, random_below(2) == 0);
		else
			change();
	}
	if (is_taken_back) {
		assert_int_equal(undo_end(undo, mark, -EIO), -EIO);
		expect_same(before);
	} else {
		assert_int_equal(undo_end(undo, mark, 1), 1);
	}
	free(before);
}

/* ---- Tests */

static void count_node(const struct row *row, size_t *nr)
{
	assert_ptr_equal(find(row->key), row);
	(*nr)++;
}

static void test_random_changes(void **state)
{
	(void)state;
	for (int round = 0; round < 3000; round++) {
		const struct row *row;
		size_t nr = 0;
		char *after;

		change_some(0, round % 3 == 0);
		if (round % 3 == 1) { /* the commit failed */
			undo_back(undo, 0);
		} else {
			after = dump();
			undo_keep(undo);
			expect_same(after);
			free(after);
		}
		for (size_t i = 0; i < 2; i++)
			cds_list_for_each_entry (row, &lists[i], node)
				count_node(row, &nr);
		assert_int_equal(nr_rows, nr); /* none is lost, and none freed too early */
	}
}

/* Another row takes the place of one that was removed, in one batch. */
static void test_same_key_again(void **state)
{
	struct row *first, *second;

	(void)state;
	assert_int_equal(add(5), 0);
	assert_int_equal(add(5), -EEXIST);
	first = find(5);
	undo_back(undo, 0);
	assert_null(find(5));
	assert_int_equal(nr_rows, 0);
	for (int is_kept = 0; is_kept < 2; is_kept++) {
		assert_int_equal(add(5), 0);
		undo_keep(undo);
		first = find(5);
		drop(first);
		assert_null(find(5));
		assert_int_equal(add(5), 0);
		second = find(5);
		assert_ptr_not_equal(first, second);
		drop(second);
		assert_int_equal(add(5), 0);
		assert_int_equal(nr_rows, 3);
		if (is_kept) {
			undo_keep(undo);
			assert_non_null(find(5));
			assert_ptr_not_equal(find(5), second);
		} else {
			undo_back(undo, 0);
			assert_ptr_equal(find(5), first);
		}
		assert_int_equal(nr_rows, 1);
		drop(find(5));
		undo_keep(undo);
		assert_null(tree);
		assert_int_equal(nr_rows, 0);
	}
}

static char calls[16];

static void back(void *argument)
{
	strcat(calls, "-");
	strcat(calls, argument);
}

static void keep(void *argument)
{
	strcat(calls, "+");
	strcat(calls, argument);
}

static void call(char *name)
{
	assert_int_equal(undo_room(undo, 1), 0);
	undo_call(undo, back, keep, name);
}

static void test_calls_come_in_order(void **state)
{
	size_t mark;

	(void)state;
	calls[0] = '\0';
	call((char[]){"1"});
	mark = undo_mark(undo);
	call((char[]){"2"});
	call((char[]){"3"});
	undo_back(undo, mark);
	assert_string_equal(calls, "-3-2");
	call((char[]){"4"});
	undo_keep(undo);
	assert_string_equal(calls, "-3-2+1+4");
	undo_keep(undo);
	undo_back(undo, 0);
	assert_string_equal(calls, "-3-2+1+4");
}

/* If a function that returns nothing could not do its work, what runs fails, once. */
static void test_failure_is_told_at_the_end(void **state)
{
	uint64_t field = 1;
	size_t mark;

	(void)state;
	assert_int_equal(undo_room(undo, 3), 0);
	undo_set(undo, field, 2);
	mark = undo_mark(undo);
	undo_set(undo, field, 3);
	undo_fail(undo, -ENOMEM);
	undo_fail(undo, -EIO);
	assert_int_equal(undo_end(undo, mark, 0), -ENOMEM);
	assert_int_equal(field, 2);
	undo_set(undo, field, 4);
	assert_int_equal(undo_end(undo, mark, 0), 0);
	assert_int_equal(undo_end(undo, 0, -EIO), -EIO);
	assert_int_equal(field, 1);
}

static void test_too_much_room(void **state)
{
	(void)state;
	assert_int_equal(undo_room(undo, SIZE_MAX), -ENOMEM);
	assert_int_equal(undo_room(undo, 100000), 0);
	undo_back(undo, 0);
	assert_int_equal(undo_room(undo, 1), 0);
	undo_keep(undo);
}

TEST_GROUP(manager_undo)
{
	const struct CMUnitTest tests[] = {
		UNDO_TEST(test_random_changes),	     UNDO_TEST(test_same_key_again),
		UNDO_TEST(test_calls_come_in_order), UNDO_TEST(test_failure_is_told_at_the_end),
		UNDO_TEST(test_too_much_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
