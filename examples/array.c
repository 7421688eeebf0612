/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An array: a table of 1000 × 1000 numbers in a region, stored in blocks of 100 × 100, and parts of it.
 *
 *   ./array NAMESPACE       makes the region `table`, and prints the sums of a block and of every third number of a column
 */
#include <stdio.h>
#include <stdlib.h>

#include <afar/afar.h>
#include <afar/array.h>

#define SIDE  1000U
#define BLOCK 100U

static void check(ssize_t ret)
{
	if (ret < 0) {
		fprintf(stderr, "array: %s\n", afar_last_error());
		exit(1);
	}
}

static double sum_of(struct afar_array *array, const struct afar_slab *slab)
{
	static double numbers[SIDE * SIDE];
	double sum = 0;

	check(afar_array_read(array, slab, numbers));
	for (uint64_t i = 0; i < slab->count[0] * slab->count[1]; i++)
		sum += numbers[i];
	return sum;
}

int main(int argc, char **argv)
{
	const struct afar_array_shape shape = {
		.size = sizeof(shape),
		.nr_dimensions = 2,
		.flags = AFAR_ARRAY_BLOCKED,
		.record_bytes = sizeof(double),
		.extent = {SIDE, SIDE},
		.block = {BLOCK, BLOCK},
		.type = "<f8",
	};
	const struct afar_slab all = {.size = sizeof(all), .count = {SIDE, SIDE}};
	/* Every third number of column 7, from the last one on, backwards. */
	const struct afar_slab column = {.size = sizeof(column),
					 .start = {SIDE - 1, 7},
					 .count = {SIDE / 3, 1},
					 .stride = {-3}};
	struct afar_slab block = {.size = sizeof(block)};
	static double table[SIDE][SIDE];
	struct afar_session *session;
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_array *array;
	uint64_t bytes;

	if (argc != 2) {
		fprintf(stderr, "usage: array NAMESPACE\n");
		return 2;
	}
	for (unsigned row = 0; row < SIDE; row++)
		for (unsigned i = 0; i < SIDE; i++)
			table[row][i] = row + i / 1000.0;

	check(afar_session_open(NULL, NULL, &session));
	check(afar_namespace_open(session, argv[1], &ns));
	check(afar_array_bytes(&shape, &bytes));
	check(afar_region_create(ns, "table", bytes, 0, &region));
	check(afar_array_create(region, &shape, &array));
	check(afar_array_write(array, &all, table));

	check(afar_array_block(array, (const uint64_t[]){2, 9}, &block)); /* table[200:300, 900:] */
	printf("block %.1f\n", sum_of(array, &block));
	printf("column %.1f\n", sum_of(array, &column));

	check(afar_array_close(array));
	check(afar_region_close(region));
	check(afar_namespace_close(ns));
	check(afar_session_close(session));
	return 0;
}
