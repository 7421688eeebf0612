/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table for a person: cells row by row, each column as wide as it needs. Lines are cut at the terminal's edge, or the
 * table is folded. The text of cells may come from anybody, so it is made printable.
 */
#ifndef TOOLS_TABLE_H
#define TOOLS_TABLE_H

#include <stddef.h>
#include <stdio.h>

#define TABLE_COLUMNS_MAX 16
#define TABLE_CELL_MAX	  48 /* columns of one cell; a longer one is cut */

struct table;

/* Makes a table. The headings end with NULL; one that begins with '>' makes its column flush right.
 * NULL: no memory. */
struct table *table_new(const char *const headings[]);
/* Makes one for table_print_folded(), whose cells are never cut. */
struct table *table_new_whole(const char *const headings[]);
void table_free(struct table *table);

/* Fills the next cell. After the last one of a row, the next row begins. Without memory the cell is
 * empty. */
void table_cell(struct table *table, const char *text);

/*
 * Prints the headings and the rows, in up to `lines` lines of up to `columns` columns (0: as many
 * as it takes). The last line says how many rows did not fit. Returns the number of lines.
 */
size_t table_print(const struct table *table, FILE *out, size_t lines, size_t columns);

/* Prints all of it. Cells that do not fit into so many columns (0: there is no limit) go into a table below. Each of its
 * rows begins with the row's first cell, too. */
void table_print_folded(const struct table *table, FILE *out, size_t columns);

#endif
