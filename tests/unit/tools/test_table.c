/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables for people: widths, what does not fit, and cells that come from a stranger. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/cli/table.h"
#include "unit/group.h"

/* Returns what is printed; `*nr_lines` is what table_print() says. */
static char *print(const struct table *table, size_t lines, size_t columns, size_t *nr_lines)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	*nr_lines = table_print(table, out, lines, columns);
	fclose(out);
	return text;
}

static void expect(const struct table *table, size_t lines, size_t columns, const char *wanted)
{
	size_t nr_lines, nr = 0;
	char *text = print(table, lines, columns, &nr_lines);

	assert_string_equal(text, wanted);
	for (const char *at = text; *at; at++)
		nr += *at == '\n';
	assert_int_equal(nr_lines, nr);
	free(text);
}

static struct table *two_columns(void)
{
	static const char *const headings[] = {"NAME", ">SIZE", NULL};
	struct table *table = table_new(headings);

	assert_non_null(table);
	return table;
}

static void test_columns(void **state)
{
	struct table *table = two_columns();

	(void)state;
	expect(table, 0, 0, "NAME  SIZE\n");
	table_cell(table, "a");
	table_cell(table, "12345");
	table_cell(table, "longer");
	expect(table, 0, 0, "NAME     SIZE\na       12345\nlonger       \n");
	table_cell(table, "");
	table_cell(table, "x");
	table_cell(table, "y");
	expect(table, 0, 0, "NAME     SIZE\na       12345\nlonger       \nx           y\n");
	expect(table, 4, 7, "NAME   \na      \nlonger \nx      \n");
	expect(table, 3, 9, "NAME     \na       1\n(2 more)\n");
	table_free(table);
}

/* No byte of a cell acts on a terminal, and none makes the table lose its shape. */
static void test_hostile_cells(void **state)
{
	struct table *table = two_columns();
	char longest[4096];
	size_t nr_lines;
	char *text;

	(void)state;
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	table_cell(table, "\033[2J\a\r\n\tevil\x7f");
	table_cell(table, "1");
	table_cell(table, "\xff\xc3\xc2\x9b"
			  "31m");
	table_cell(table, "2");
	table_cell(table, longest);
	table_cell(table, "3");
	table_cell(table, "\xe2\x80\xae"
			  "backwards");
	table_cell(table, "4");
	text = print(table, 0, 0, &nr_lines);
	assert_int_equal(nr_lines, 5);
	for (const char *at = text; *at; at++)
		assert_true(*at == '\n' || (unsigned char)*at >= ' ');
	assert_null(strchr(text, '\033'));
	assert_null(strchr(text, '\x7f'));
	assert_non_null(strstr(text, "\\x1b[2J\\x07\\x0d\\x0a\\x09evil\\x7f"));
	/* The control character of one byte is not let through in its two bytes either. */
	assert_null(strstr(text, "\xc2\x9b"));
	free(text);
	for (size_t columns = 1; columns < 100; columns++) {
		text = print(table, 0, columns, &nr_lines);
		for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
			assert_true(strlen(line) <= columns);
		free(text);
	}
	table_free(table);
}

static void test_wide_characters(void **state)
{
	struct table *table = two_columns();

	(void)state;
	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		skip();
	table_cell(table, "\xe6\xb5\xb7"); /* two columns wide */
	table_cell(table, "1");
	table_cell(table, "\xc3\xa4");
	table_cell(table, "2");
	expect(table, 0, 0, "NAME  SIZE\n\xe6\xb5\xb7       1\n\xc3\xa4        2\n");
	/* Half of one is not shown. */
	expect(table, 0, 1, "N\n\n\xc3\xa4\n");
	table_free(table);
	setlocale(LC_CTYPE, "C");
}

/* All is shown, however narrow: what does not fit is below, beside what it belongs to. */
static void test_folding(void **state)
{
	static const char *const headings[] = {"NAME", ">SIZE", "STATE", "PATH", NULL};
	static const struct {
		size_t columns;
		const char *wanted;
	} cases[] = {
		{0, "NAME SIZE STATE PATH\na      17 up    /x/y\n"},
		{20, "NAME SIZE STATE PATH\na      17 up    /x/y\n"},
		{19, "NAME SIZE STATE\na      17 up\nNAME PATH\na    /x/y\n"},
		{10, "NAME SIZE\na      17\nNAME STATE\na    up\nNAME PATH\na    /x/y\n"},
		{1, "NAME SIZE\na      17\nNAME STATE\na    up\nNAME PATH\na    /x/y\n"},
	};
	struct table *table = table_new_whole(headings);

	(void)state;
	assert_non_null(table);
	table_cell(table, "a");
	table_cell(table, "17");
	table_cell(table, "up");
	table_cell(table, "/x/y");
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);

		assert_non_null(out);
		table_print_folded(table, out, cases[i].columns);
		fclose(out);
		assert_string_equal(text, cases[i].wanted);
		free(text);
	}
	table_free(table);
}

TEST_GROUP(table)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_folding),
		cmocka_unit_test(test_hostile_cells),
		cmocka_unit_test(test_wide_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
