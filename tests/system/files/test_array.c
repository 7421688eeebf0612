/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays in regions and files. Random parts are written, and random parts are read as a plain array in memory has them. Another handle, that
 * has found the array by its header, reads the same. Threads read what they have written, also with blocks that are read ahead. Impossible
 * calls are refused in one line. `flash`: on that tier.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <afar/array.h>
#include <afar/cow.h>

#include "lib/api/api.h"
#include "lib/base/effort.h"

#define NR_TURNS     20U
#define RECORD	     6U
#define UNIT	     (64 * KIB)
#define RECORDS	     (EXTENT_0 * EXTENT_1 * EXTENT_2)
#define EXTENT_0     31U
#define EXTENT_1     45U
#define EXTENT_2     52U
#define MEMORY_BYTES (2 * RECORDS * RECORD)

static bool is_on_flash;
static unsigned seed = 1;

static unsigned roll(unsigned sides)
{
	return (unsigned)rand_r(&seed) % sides;
}

static struct afar_array_shape make_shape(unsigned flags)
{
	return (struct afar_array_shape){.size = sizeof(struct afar_array_shape),
					 .nr_dimensions = 3,
					 .flags = flags,
					 .record_bytes = RECORD,
					 .extent = {EXTENT_0, EXTENT_1, EXTENT_2},
					 .block = {8, 9, 20},
					 .type = "V6"};
}

/* ---- The plain array, in C's order, and parts of it */

static uint8_t plain[EXTENT_0][EXTENT_1][EXTENT_2][RECORD];
static uint8_t memory[MEMORY_BYTES], expected[MEMORY_BYTES];

/* A part with memory in C's order, some of it backwards; `from` is the byte of its first record. */
struct part {
	struct afar_slab slab;
	int64_t strides[3];
	int64_t from;
};

static void roll_part(struct part *part)
{
	static const unsigned extents[3] = {EXTENT_0, EXTENT_1, EXTENT_2};
	int64_t at = RECORD;

	memset(part, 0, sizeof(*part));
	part->slab.size = sizeof(part->slab);
	part->slab.memory_stride = part->strides;
	for (unsigned i = 3; i-- > 0;) {
		int64_t stride = roll(3) == 0 ? (int64_t)roll(9) - 4 : 1;
		unsigned start = roll(extents[i]);
		unsigned room = stride < 0 ? start : extents[i] - 1 - start;
		unsigned nr = roll(room / (unsigned)labs(stride ? stride : 1) + 1) + 1;

		part->slab.start[i] = start;
		part->slab.count[i] = nr;
		part->slab.stride[i] = stride;
		part->strides[i] = roll(4) == 0 ? -at : at;
		if (part->strides[i] < 0)
			part->from += at * (nr - 1);
		at *= nr;
	}
}

/* Moves a part between the plain array and memory. */
static void move_plain(const struct part *part, uint8_t *bytes, bool is_write)
{
	const struct afar_slab *slab = &part->slab;
	uint64_t at[3];

	for (at[0] = 0; at[0] < slab->count[0]; at[0]++)
		for (at[1] = 0; at[1] < slab->count[1]; at[1]++)
			for (at[2] = 0; at[2] < slab->count[2]; at[2]++) {
				uint64_t index[3];
				int64_t place = part->from;
				uint8_t *record;

				for (unsigned i = 0; i < 3; i++) {
					int64_t stride = slab->stride[i] ? slab->stride[i] : 1;

					index[i] = slab->start[i] +
						   (uint64_t)((int64_t)at[i] * stride);
					place += (int64_t)at[i] * part->strides[i];
				}
				record = plain[index[0]][index[1]][index[2]];
				if (is_write)
					memcpy(record, bytes + place, RECORD);
				else
					memcpy(bytes + place, record, RECORD);
			}
}

static ssize_t bytes_of(const struct afar_slab *slab)
{
	return (ssize_t)(slab->count[0] * slab->count[1] * slab->count[2] * RECORD);
}

static void write_part(struct afar_array *array)
{
	struct part part;

	roll_part(&part);
	fill(memory, sizeof(memory), roll(1000));
	move_plain(&part, memory, true);
	if (afar_array_write(array, &part.slab, memory + part.from) != bytes_of(&part.slab))
		fail_msg("%s", afar_last_error());
}

/* Bytes of memory that are not the part's stay as they are. */
static void read_part(struct afar_array *array)
{
	struct part part;

	roll_part(&part);
	memset(memory, 0xee, sizeof(memory));
	memset(expected, 0xee, sizeof(expected));
	move_plain(&part, expected, false);
	if (afar_array_read(array, &part.slab, memory + part.from) != bytes_of(&part.slab))
		fail_msg("%s", afar_last_error());
	assert_memory_equal(memory, expected, sizeof(memory));
}

static void write_all(struct afar_array *array)
{
	const int64_t strides[3] = {EXTENT_1 * EXTENT_2 * RECORD, EXTENT_2 * RECORD, RECORD};
	const struct afar_slab all = {.size = sizeof(all),
				      .count = {EXTENT_0, EXTENT_1, EXTENT_2},
				      .memory_stride = strides};

	fill(plain, sizeof(plain), 3);
	assert_int_equal(afar_array_write(array, &all, plain), sizeof(plain));
}

static void write_and_read(struct afar_array *array, struct afar_array *other)
{
	const uint64_t nr = test_effort(NR_TURNS, 5 * NR_TURNS, 500 * NR_TURNS);

	write_all(array);
	for (uint64_t i = 0; i < nr; i++) {
		write_part(i % 2 ? array : other);
		read_part(array);
		read_part(other);
	}
}

/* ---- In regions and files */

static struct afar_namespace *make_space(uint64_t reserve)
{
	const struct afar_policy policy = {.size = sizeof(policy),
					   .tier = is_on_flash ? AFAR_TIER_FLASH : AFAR_TIER_DRAM,
					   .stripe_bytes = UNIT};
	struct afar_namespace *ns;

	assert_int_equal(afar_namespace_create(session, "arrays", &policy, &ns), 0);
	assert_int_equal(afar_namespace_reserve(ns, reserve), 0);
	return ns;
}

static void expect_shape(struct afar_array *array, const struct afar_array_shape *shape)
{
	struct afar_array_shape stat = {.size = sizeof(stat)};

	assert_int_equal(afar_array_stat(array, &stat), 0);
	assert_memory_equal(&stat, shape, sizeof(stat));
}

static void test_regions(void **state)
{
	struct afar_namespace *ns = make_space(8 * MIB);

	(void)state;
	for (unsigned flags = 0; flags < 4; flags++) {
		const struct afar_array_shape shape = make_shape(flags);
		struct afar_array *array, *other;
		struct afar_region *region;
		struct view view;
		uint64_t bytes;

		assert_int_equal(afar_array_bytes(&shape, &bytes), 0);
		assert_int_equal(afar_region_create(ns, "a", bytes, 0, &region), 0);
		if (flags == 0) /* later ones have what is left of earlier ones */
			expect_error(afar_array_open(region, &array), -EINVAL);
		assert_int_equal(afar_array_create(region, &shape, &array), 0);
		open_view(&view, "arrays", "a");
		assert_int_equal(afar_array_open(view.region, &other), 0);
		expect_shape(other, &shape);
		write_and_read(array, other);

		expect_error(afar_region_close(region), -EBUSY);
		assert_int_equal(afar_array_close(other), 0);
		assert_int_equal(afar_array_close(array), 0);
		expect_error(afar_array_close(array), -EINVAL);
		close_view(&view);
		drop_region(region);
	}
	drop_namespace(ns, "arrays");
}

static void test_files(void **state)
{
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy),
					      .tier = is_on_flash ? AFAR_TIER_FLASH
								  : AFAR_TIER_DRAM,
					      .stripe_bytes = UNIT},
		.uid = geteuid(),
		.gid = getegid(),
	};
	const struct afar_open_options options = {.size = sizeof(options), .mode = 0644};
	const struct afar_slab one = {
		.size = sizeof(one), .start = {30, 44, 51}, .count = {1, 1, 1}};
	struct afar_fs *fs;

	(void)state;
	assert_int_equal(afar_fs_create(session, "files", &policy, &fs), 0);
	for (unsigned flags = 0; flags < 4; flags++) {
		const struct afar_array_shape shape = make_shape(flags);
		struct afar_array *array, *other, *none;
		struct afar_file *file, *second, *appended;
		uint8_t record[RECORD];

		assert_int_equal(afar_file_open_path(fs, NULL, 0, "/a", O_RDWR | O_CREAT | O_TRUNC,
						     &options, &file),
				 0);
		expect_error(afar_array_open_file(file, &array), -EINVAL);
		assert_int_equal(afar_array_create_file(file, &shape, &array), 0);
		assert_int_equal(afar_file_open_path(fs, NULL, 0, "/a", O_RDWR, NULL, &second), 0);
		assert_int_equal(afar_array_open_file(second, &other), 0);
		expect_shape(other, &shape);
		/* Nobody has written it. */
		assert_int_equal(afar_array_read(other, &one, record), RECORD);
		assert_int_equal(count_bytes(record, RECORD, 0), RECORD);
		write_and_read(array, other);

		expect_error(afar_file_close(file), -EBUSY);
		assert_int_equal(
			afar_file_open_path(fs, NULL, 0, "/a", O_RDWR | O_APPEND, NULL, &appended),
			0);
		expect_error(afar_array_open_file(appended, &none), -EINVAL);
		assert_int_equal(afar_file_close(appended), 0);
		assert_int_equal(afar_file_truncate(second, 5000), 0);
		expect_error(afar_array_read(other, &one, record), -ERANGE);
		assert_int_equal(afar_array_close(other), 0);
		expect_error(afar_array_open_file(second, &other), -ERANGE);
		assert_int_equal(afar_array_close(array), 0);
		assert_int_equal(afar_file_close(second), 0);
		assert_int_equal(afar_file_close(file), 0);
	}
	assert_int_equal(afar_fs_close(fs), 0);
	assert_int_equal(afar_fs_delete(session, "files"), 0);
}

/* ---- Blocks, and what cannot be */

static void test_blocks(void **state)
{
	const struct afar_array_shape shape = make_shape(AFAR_ARRAY_BLOCKED);
	const uint64_t edge[] = {3, 4, 2}, outside[] = {3, 5, 2};
	struct afar_slab slab = {.size = sizeof(slab)};
	struct afar_namespace *ns = make_space(8 * MIB);
	struct afar_array *array;
	struct afar_region *region;
	uint64_t bytes;

	(void)state;
	assert_int_equal(afar_array_bytes(&shape, &bytes), 0);
	assert_int_equal(afar_region_create(ns, "a", bytes, 0, &region), 0);
	assert_int_equal(afar_array_create(region, &shape, NULL), 0);
	assert_int_equal(afar_array_open(region, &array), 0);
	write_all(array);

	assert_int_equal(afar_array_block(array, edge, &slab), 0);
	assert_int_equal(slab.start[0], 24);
	assert_int_equal(slab.count[0], 7);
	assert_int_equal(slab.start[1], 36);
	assert_int_equal(slab.count[1], 9);
	assert_int_equal(slab.start[2], 40);
	assert_int_equal(slab.count[2], 12);
	assert_int_equal(afar_array_read(array, &slab, memory), 7 * 9 * 12 * RECORD);
	assert_memory_equal(memory, plain[24][36][40], 12 * RECORD);
	assert_memory_equal(memory + (7 * 9 - 1) * 12 * RECORD, plain[30][44][40], 12 * RECORD);
	expect_error(afar_array_block(array, outside, &slab), -ERANGE);
	expect_error(afar_array_block(array, NULL, &slab), -EINVAL);

	assert_int_equal(afar_array_close(array), 0);
	drop_region(region);
	drop_namespace(ns, "arrays");
}

/* Blocks come from memory, in all orders and at the edges, until something is written through the handle. */
static void test_read_ahead(void **state)
{
	const uint64_t factor[] = {2, 1, 0}, huge[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
	struct afar_namespace *ns = make_space(8 * MIB);

	(void)state;
	for (unsigned flags = 0; flags < 4; flags++) {
		const struct afar_array_shape shape = make_shape(flags);
		struct afar_slab slab = {.size = sizeof(slab)};
		struct afar_array *array;
		struct afar_region *region;
		uint64_t bytes;
		uint8_t byte;

		assert_int_equal(afar_array_bytes(&shape, &bytes), 0);
		assert_int_equal(afar_region_create(ns, "a", bytes, 0, &region), 0);
		assert_int_equal(afar_array_create(region, &shape, &array), 0);
		write_all(array);
		for (unsigned turn = 0; turn < 90; turn++) {
			const uint64_t index[] = {roll(4), roll(5), roll(3)};
			ssize_t got;

			if (turn % 30 == 0)
				assert_int_equal(afar_array_read_ahead(array, turn == 0	   ? factor
									      : turn == 30 ? huge
											   : NULL),
						 0);
			assert_int_equal(afar_array_block(array, index, &slab), 0);
			assert_int_equal(afar_array_read(array, &slab, expected), bytes_of(&slab));
			got = afar_array_read_block(array, index, memory);
			assert_int_equal(got, bytes_of(&slab));
			assert_memory_equal(memory, expected, (size_t)got);
			if (turn % 5 == 0)
				write_part(array);
		}
		/* Bytes that others have written are not looked for; the next group's are. */
		assert_int_equal(afar_array_read_ahead(array, factor), 0);
		assert_true(afar_array_read_block(array, (const uint64_t[]){0, 0, 0}, memory) > 0);
		assert_int_equal(afar_region_pread(region, &byte, 1, AFAR_ARRAY_HEADER_BYTES), 1);
		byte ^= 1;
		assert_int_equal(afar_region_pwrite(region, &byte, 1, AFAR_ARRAY_HEADER_BYTES), 1);
		assert_true(afar_array_read_block(array, (const uint64_t[]){0, 0, 0}, expected) >
			    0);
		assert_memory_equal(expected, memory, RECORD);
		assert_true(afar_array_read_block(array, (const uint64_t[]){2, 0, 0}, expected) >
			    0);
		assert_true(afar_array_read_block(array, (const uint64_t[]){0, 0, 0}, expected) >
			    0);
		assert_int_equal(expected[0], byte);

		expect_error(afar_array_read_block(array, (const uint64_t[]){4, 0, 0}, memory),
			     -ERANGE);
		expect_error(afar_array_read_block(array, (const uint64_t[]){0, 0, 0}, NULL),
			     -EINVAL);
		assert_int_equal(afar_array_close(array), 0);
		expect_error(afar_array_read_ahead(array, factor), -EINVAL);
		drop_region(region);
	}
	drop_namespace(ns, "arrays");
}

/* ---- Threads */

#define NR_THREADS 4U

struct writer {
	struct afar_array *array;
	uint64_t row; /* of blocks, which is its own */
	pthread_t thread;
	const char *wrong; /* NULL: nothing */
};

/* Writes its blocks, and reads what it has written, though other writers' blocks are in the same group. */
static void *write_blocks(void *argument)
{
	struct writer *writer = argument;
	static _Thread_local uint8_t wrote[8 * 9 * 20 * RECORD], read[8 * 9 * 20 * RECORD];

	for (uint64_t turn = 0; turn < 60 && !writer->wrong; turn++) {
		const uint64_t index[] = {writer->row, turn % 5, turn % 3};
		struct afar_slab slab = {.size = sizeof(slab)};
		ssize_t bytes;

		fill(wrote, sizeof(wrote), (unsigned)(turn * NR_THREADS + writer->row));
		if (afar_array_block(writer->array, index, &slab))
			writer->wrong = "no block";
		bytes = bytes_of(&slab);
		if (afar_array_write(writer->array, &slab, wrote) != bytes ||
		    afar_array_read_block(writer->array, index, read) != bytes)
			writer->wrong = "not moved";
		else if (memcmp(wrote, read, (size_t)bytes) != 0)
			writer->wrong = "old bytes";
	}
	return NULL;
}

static void test_threads(void **state)
{
	const struct afar_array_shape shape = make_shape(AFAR_ARRAY_BLOCKED);
	const uint64_t factor[] = {4, 2, 2};
	struct afar_namespace *ns = make_space(8 * MIB);
	struct writer writers[NR_THREADS];
	struct afar_array *array;
	struct afar_region *region;
	uint64_t bytes;

	(void)state;
	assert_int_equal(afar_array_bytes(&shape, &bytes), 0);
	assert_int_equal(afar_region_create(ns, "a", bytes, 0, &region), 0);
	assert_int_equal(afar_array_create(region, &shape, &array), 0);
	assert_int_equal(afar_array_read_ahead(array, factor), 0);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		writers[i] = (struct writer){.array = array, .row = i};
		assert_int_equal(
			pthread_create(&writers[i].thread, NULL, write_blocks, &writers[i]), 0);
	}
	for (unsigned i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_join(writers[i].thread, NULL), 0);
	for (unsigned i = 0; i < NR_THREADS; i++)
		if (writers[i].wrong)
			fail_msg("writer %u: %s", i, writers[i].wrong);
	assert_int_equal(afar_array_close(array), 0);
	drop_region(region);
	drop_namespace(ns, "arrays");
}

static void test_misuse(void **state)
{
	struct afar_array_shape shape = make_shape(0);
	struct afar_slab slab = {.size = sizeof(slab), .count = {1, 1, 1}};
	struct afar_namespace *ns = make_space(8 * MIB);
	struct afar_array *array;
	struct afar_region *region;
	uint64_t bytes;
	uint8_t byte;

	(void)state;
	assert_int_equal(afar_array_bytes(&shape, &bytes), 0);
	assert_int_equal(bytes, AFAR_ARRAY_HEADER_BYTES + RECORDS * RECORD);
	assert_int_equal(afar_region_create(ns, "a", bytes - 1, 0, &region), 0);
	expect_error(afar_array_create(region, &shape, &array), -ERANGE);
	expect_error(afar_array_bytes(&shape, NULL), -EINVAL);
	expect_error(afar_array_create(NULL, &shape, &array), -EINVAL);
	expect_error(afar_array_create(region, NULL, &array), -EINVAL);
	expect_error(afar_array_open(NULL, &array), -EINVAL);
	expect_error(afar_array_open(region, NULL), -EINVAL);
	expect_error(afar_array_open_file(NULL, &array), -EINVAL);
	shape.extent[0]--;
	assert_int_equal(afar_array_create(region, &shape, &array), 0);

	expect_error(afar_array_read(array, NULL, memory), -EINVAL);
	expect_error(afar_array_read(array, &slab, NULL), -EINVAL);
	expect_error(afar_array_read(NULL, &slab, memory), -EINVAL);
	slab.size = 8;
	expect_error(afar_array_read(array, &slab, memory), -EINVAL);
	slab.size = sizeof(slab);
	slab.start[0] = EXTENT_0 - 1;
	expect_error(afar_array_write(array, &slab, memory), -ERANGE);
	assert_non_null(strstr(afar_last_error(), "dimension 0"));
	slab.count[0] = 0;
	assert_int_equal(afar_array_write(array, &slab, NULL), 0);

	/* Nobody writes a sealed one, and all read it. */
	slab = (struct afar_slab){.size = sizeof(slab), .count = {1, 1, 1}};
	if (!is_on_flash) {
		assert_int_equal(afar_region_seal(region), 0);
		expect_error(afar_array_write(array, &slab, memory), -EROFS);
	}
	assert_int_equal(afar_array_read(array, &slab, memory), RECORD);
	assert_int_equal(afar_array_close(array), 0);
	expect_error(afar_array_read(array, &slab, memory), -EINVAL);
	drop_region(region);

	/* A header that somebody has written over. */
	assert_int_equal(afar_region_create(ns, "a", bytes, 0, &region), 0);
	assert_int_equal(afar_array_create(region, &shape, NULL), 0);
	assert_int_equal(afar_region_pread(region, &byte, 1, 30), 1);
	byte ^= 1;
	assert_int_equal(afar_region_pwrite(region, &byte, 1, 30), 1);
	expect_error(afar_array_open(region, &array), -EBADMSG);
	drop_region(region);
	drop_namespace(ns, "arrays");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_regions), cmocka_unit_test(test_files),
		cmocka_unit_test(test_blocks),	cmocka_unit_test(test_read_ahead),
		cmocka_unit_test(test_threads), cmocka_unit_test(test_misuse),
	};

	is_on_flash = argc == 2 && strcmp(argv[1], "flash") == 0;
	return cmocka_run_group_tests(tests, start, stop);
}
