/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables; see table.h. Called by `afar top`, `afar status` and `afar store ls`. */
#include "table.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "printable.h"

#define GAP 2 /* columns between two */

struct cell {
	char *text; /* printable; NULL: empty */
	size_t columns;
};

struct table {
	size_t nr_columns;
	size_t cell_max; /* columns of a cell */
	size_t gap;
	bool is_right[TABLE_COLUMNS_MAX];
	size_t width[TABLE_COLUMNS_MAX];
	struct cell *cells; /* the headings first */
	size_t nr_cells, room;
};

static struct table *new_table(const char *const headings[], size_t cell_max, size_t gap)
{
	struct table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->cell_max = cell_max;
	table->gap = gap;
	while (headings[table->nr_columns] && table->nr_columns < TABLE_COLUMNS_MAX) {
		table->is_right[table->nr_columns] = *headings[table->nr_columns] == '>';
		table->nr_columns++;
	}
	for (size_t i = 0; i < table->nr_columns; i++)
		table_cell(table, headings[i] + table->is_right[i]);
	return table;
}

struct table *table_new(const char *const headings[])
{
	return new_table(headings, TABLE_CELL_MAX, GAP);
}

struct table *table_new_whole(const char *const headings[])
{
	return new_table(headings, SIZE_MAX, 1);
}

void table_free(struct table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->nr_cells; i++)
		free(table->cells[i].text);
	free(table->cells);
	free(table);
}

static bool grow(struct table *table)
{
	size_t room = table->room ? table->room * 2 : 64;
	struct cell *cells;

	if (table->nr_cells < table->room)
		return true;
	cells = reallocarray(table->cells, room, sizeof(*cells));
	if (!cells)
		return false;
	table->cells = cells;
	table->room = room;
	return true;
}

void table_cell(struct table *table, const char *text)
{
	size_t column = table->nr_cells % table->nr_columns;
	struct cell cell = {0};

	if (!grow(table))
		return;
	cell.text = cli_printable(text, &cell.columns);
	if (cell.text && cell.columns > table->cell_max) {
		cell.text[cli_printable_fit(cell.text, table->cell_max - 1)] = '\0';
		cell.columns = table->cell_max;
	}
	if (cell.columns > table->width[column])
		table->width[column] = cell.columns;
	table->cells[table->nr_cells++] = cell;
}

static void print_spaces(FILE *out, size_t nr, size_t *left)
{
	for (; nr && *left; nr--, --*left)
		fputc(' ', out);
}

static void print_text(FILE *out, const struct cell *cell, size_t *left)
{
	size_t bytes;

	if (!cell->text)
		return;
	bytes = cli_printable_fit(cell->text, *left);
	fwrite(cell->text, 1, bytes, out);
	*left -= cell->columns < *left ? cell->columns : *left;
}

/* Prints the first cell of a row, and those from `first` up to `behind`. */
static void print_cells(const struct table *table, size_t row, size_t first, size_t behind,
			FILE *out, size_t columns)
{
	size_t left = columns ? columns : SIZE_MAX;

	for (size_t i = 0; i < behind; i = i == 0 ? first : i + 1) {
		size_t at = row * table->nr_columns + i;
		struct cell cell = at < table->nr_cells ? table->cells[at] : (struct cell){0};
		size_t padding = table->width[i] - cell.columns;
		bool is_last = i + 1 == behind;

		if (table->is_right[i])
			print_spaces(out, padding, &left);
		print_text(out, &cell, &left);
		if (!table->is_right[i] && !is_last)
			print_spaces(out, padding, &left);
		if (!is_last)
			print_spaces(out, table->gap, &left);
	}
	fputc('\n', out);
}

static size_t count_rows(const struct table *table)
{
	return (table->nr_cells + table->nr_columns - 1) / table->nr_columns;
}

/* Returns behind which column a line that goes on with `first` ends. */
static size_t fold_at(const struct table *table, size_t first, size_t columns)
{
	size_t width = table->width[0], i = first;

	do
		width += table->gap + table->width[i++];
	while (i < table->nr_columns &&
	       (!columns || width + table->gap + table->width[i] <= columns));
	return i;
}

void table_print_folded(const struct table *table, FILE *out, size_t columns)
{
	size_t nr_rows = count_rows(table), behind;

	for (size_t first = 1; first < table->nr_columns; first = behind) {
		behind = fold_at(table, first, columns);
		for (size_t row = 0; row < nr_rows; row++)
			print_cells(table, row, first, behind, out, 0);
	}
}

size_t table_print(const struct table *table, FILE *out, size_t lines, size_t columns)
{
	size_t nr_rows = count_rows(table);
	size_t nr_shown = nr_rows;

	if (lines && nr_rows > lines)
		nr_shown = lines - 1;
	for (size_t row = 0; row < nr_shown; row++)
		print_cells(table, row, 1, table->nr_columns, out, columns);
	if (nr_shown == nr_rows)
		return nr_rows;
	fprintf(out, "(%zu more)\n", nr_rows - nr_shown);
	return lines;
}
