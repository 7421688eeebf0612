/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files from C, against real daemons. This session and another read at once what is written. Files
 * grow, shrink and have holes; many small ones are moved together. `memory` or `flash` says on which
 * tier. Daemons are killed in test_files_killed.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <afar/file.h>
#include <afar/volume.h>

#include "lib/api/api.h"

#define NR_THREADS 4U
#define NR_CUTS	   200U
#define UNIT	   ((uint64_t)AFAR_FILE_BLOCK)

static uint32_t tier;
static struct afar_fs *fs;
static uint64_t root;

/* ---- Helpers */

static void open_in(struct afar_session *in, unsigned flags, struct afar_fs **out)
{
	const struct afar_fs_options options = {.size = sizeof(options), .flags = flags};

	assert_int_equal(afar_fs_open(in, "files", &options, out), 0);
}

static int begin(void **state)
{
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy),
					      .tier = tier,
					      .stripe_bytes = 64 * KIB},
		.uid = geteuid(),
		.gid = getegid(),
	};
	struct afar_fs_stat stat = {.size = sizeof(stat)};

	(void)state;
	assert_int_equal(afar_fs_create(session, "files", &policy, NULL), 0);
	open_in(session, 0, &fs);
	assert_int_equal(afar_fs_stat(fs, &stat), 0);
	root = stat.root;
	return 0;
}

static int end(void **state)
{
	(void)state;
	assert_int_equal(afar_fs_close(fs), 0);
	assert_int_equal(afar_fs_delete(session, "files"), 0);
	return 0;
}

#define FILES_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

static struct afar_file *make_file(const char *name, int flags)
{
	struct afar_file *file;

	assert_int_equal(afar_file_create(fs, NULL, root, name, 0644, flags | O_EXCL, &file, NULL),
			 0);
	return file;
}

static void close_file(struct afar_file *file)
{
	assert_int_equal(afar_file_close(file), 0);
}

static uint64_t size_of(struct afar_fs *in, uint64_t ino)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_fs_getattr(in, ino, &stat), 0);
	return stat.bytes;
}

static uint64_t allocated(struct afar_file *file)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_file_stat(file, &stat), 0);
	return stat.allocated;
}

static void write_bytes(struct afar_file *file, const void *data, uint64_t length, uint64_t offset)
{
	ssize_t ret = afar_file_pwrite(file, data, length, offset);

	if (ret != (ssize_t)length)
		fail_msg("write %llu at %llu: %zd: %s", (unsigned long long)length,
			 (unsigned long long)offset, ret, afar_last_error());
}

/* All of the file is these bytes. */
static void expect_content(struct afar_file *file, const uint8_t *data, uint64_t length)
{
	uint8_t *got = malloc(length + 10);

	assert_non_null(got);
	memset(got, 0xee, length + 10);
	assert_int_equal(afar_file_pread(file, got, length + 10, 0), (ssize_t)length);
	assert_memory_equal(got, data, length);
	assert_int_equal(count_bytes(got + length, 10, 0xee), 10);
	free(got);
}

/* ---- Reading and writing */

static void test_any_range(void **state)
{
	static const struct {
		uint64_t offset, length;
	} ranges[] = {{0, 1},	     {1, 4095},	     {4090, 12},	 {100 * KIB, 1},
		      {64 * KIB, 9}, {3 * MIB, 777}, {MIB - 1, MIB + 2}, {5 * MIB, 65536}};
	static uint8_t model[6 * MIB], part[2 * MIB];
	struct afar_file *file = make_file("ranges", O_RDWR);
	uint64_t size = 0;

	(void)state;
	memset(model, 0, sizeof(model));
	for (unsigned i = 0; i < sizeof(ranges) / sizeof(*ranges); i++) {
		fill(part, ranges[i].length, i + 1);
		memcpy(model + ranges[i].offset, part, ranges[i].length);
		write_bytes(file, part, ranges[i].length, ranges[i].offset);
		if (ranges[i].offset + ranges[i].length > size)
			size = ranges[i].offset + ranges[i].length;
		assert_int_equal(size_of(fs, afar_file_ino(file)), size);
		expect_content(file, model, size);
	}
	assert_int_equal(afar_file_pread(file, part, 10, size), 0);
	assert_int_equal(afar_file_pread(file, part, 10, size + MIB), 0);
	assert_int_equal(afar_file_sync(file), 0);
	close_file(file);
	assert_int_equal(afar_file_open(fs, NULL, 12345678, O_RDONLY, &file), -ESTALE);
}

static void test_lists(void **state)
{
	static uint8_t data[NR_THREADS * 3 * KIB], got[sizeof(data)];
	struct afar_file_vector vectors[NR_THREADS];
	struct afar_file *file = make_file("lists", O_RDWR);

	(void)state;
	fill(data, sizeof(data), 1);
	for (unsigned i = 0; i < NR_THREADS; i++)
		vectors[i] = (struct afar_file_vector){(NR_THREADS - i) * 100 * KIB,
						       data + i * 3 * KIB, 3 * KIB};
	assert_int_equal(afar_file_writex(file, vectors, NR_THREADS), sizeof(data));
	for (unsigned i = 0; i < NR_THREADS; i++)
		vectors[i].data = got + i * 3 * KIB;
	assert_int_equal(afar_file_readx(file, vectors, NR_THREADS), sizeof(data));
	assert_memory_equal(data, got, sizeof(data));
	vectors[1].offset = NR_THREADS * 100 * KIB + 2 * KIB; /* 1 KiB of it is inside */
	memset(got, 0xee, sizeof(got));
	assert_int_equal(afar_file_readx(file, vectors, 2), 4 * KIB);
	assert_memory_equal(got + 3 * KIB, data + 2 * KIB, KIB);
	assert_int_equal(count_bytes(got + 4 * KIB, 2 * KIB, 0xee), 2 * KIB);
	close_file(file);
}

/* Ranges that follow each other in memory, from before the end of the file to behind all that there can be. */
static void test_ranges_at_ends(void **state)
{
	uint8_t data[40], got[48];
	struct afar_file_vector ranges[] = {
		{30, got, 4},	  {34, got + 4, 0},	    {34, got + 4, 4},
		{38, got + 8, 4}, {42, got + 12, 4},	    {0, got + 16, 4},
		{4, NULL, 0},	  {4, got + 20, 4},	    {8, got + 24, 4},
		{7, got + 28, 4}, {~0ULL - 3, got + 32, 4}, {0, got + 36, 4},
	};
	const unsigned nr = sizeof(ranges) / sizeof(*ranges);
	struct afar_file *file = make_file("ends", O_RDWR);

	(void)state;
	fill(data, sizeof(data), 3);
	memset(got, 0xee, sizeof(got));
	write_bytes(file, data, sizeof(data), 0);
	assert_int_equal(afar_file_readx(file, ranges, 0), 0);
	assert_int_equal(afar_file_writex(file, ranges, 0), 0);
	assert_int_equal(afar_file_readx(file, NULL, 0), 0);
	assert_int_equal(count_bytes(got, sizeof(got), 0xee), sizeof(got));
	assert_int_equal(afar_file_readx(file, ranges, nr), 10 + 12 + 4 + 4);
	assert_memory_equal(got, data + 30, 10);
	assert_int_equal(count_bytes(got + 10, 6, 0xee), 6);
	assert_memory_equal(got + 16, data, 12);
	assert_memory_equal(got + 28, data + 7, 4);
	assert_int_equal(count_bytes(got + 32, 4, 0xee), 4);
	assert_memory_equal(got + 36, data, 4);
	assert_int_equal(count_bytes(got + 40, 8, 0xee), 8);
	ranges[0].offset = ~0ULL - 3;
	assert_int_equal(afar_file_writex(file, ranges, nr), -EFBIG);
	close_file(file);
}

#define NR_TOUCHING 4096U

/* Cuts bytes into ranges that touch in the file, `gap` apart in memory, and shuffles the list if told so. */
static void cut(struct afar_file_vector *ranges, uint8_t *memory, uint64_t length, uint64_t gap,
		bool is_shuffled)
{
	unsigned random = 1;

	for (unsigned i = 0; i < NR_TOUCHING; i++)
		ranges[i] = (struct afar_file_vector){1 + i * length, memory + i * (length + gap),
						      length};
	for (unsigned i = NR_TOUCHING - 1; i > 0 && is_shuffled; i--) {
		struct afar_file_vector range = ranges[i];
		unsigned other;

		random = random * 1103515245 + 12345;
		other = (random >> 8) % (i + 1);
		ranges[i] = ranges[other];
		ranges[other] = range;
	}
}

/* Writes and reads short ranges that touch: the bytes beside them, in the file and in memory, stay as they are. */
static void check_touching(uint64_t length, uint64_t gap, bool is_shuffled)
{
	const uint64_t sum = NR_TOUCHING * length, all = NR_TOUCHING * (length + gap);
	struct afar_file_vector *ranges = calloc(NR_TOUCHING, sizeof(*ranges));
	uint8_t *data = malloc(all), *got = malloc(all), *model = malloc(sum + 2);
	struct afar_file *file = make_file("touching", O_RDWR);

	assert_true(ranges && data && got && model);
	fill(data, all, (unsigned)length);
	memset(got, 0xee, all);
	memset(model, 0xdd, sum + 2);
	write_bytes(file, model, sum + 2, 0);
	cut(ranges, data, length, gap, is_shuffled);
	assert_int_equal(afar_file_writex(file, ranges, NR_TOUCHING), (ssize_t)sum);
	cut(ranges, got, length, gap, is_shuffled);
	assert_int_equal(afar_file_readx(file, ranges, NR_TOUCHING), (ssize_t)sum);
	for (uint64_t i = 0; i < NR_TOUCHING; i++) {
		uint64_t at = i * (length + gap);

		memcpy(model + 1 + i * length, data + at, length);
		assert_memory_equal(got + at, data + at, length);
		assert_int_equal(count_bytes(got + at + length, gap, 0xee), gap);
	}
	expect_content(file, model, sum + 2);
	close_file(file);
	assert_int_equal(afar_fs_unlink(fs, NULL, root, "touching"), 0);
	free(ranges);
	free(data);
	free(got);
	free(model);
}

static void test_touching_ranges(void **state)
{
	(void)state;
	check_touching(8, 0, false);
	check_touching(700, 0, false); /* more than one transfer has */
	check_touching(64, 3, false);
	check_touching(64, 0, true);
	check_touching(200, 1, true);
	check_touching(512, 0, true);
}

/* Ranges that overlap are written in no order; each byte is one of those that it was given. Reads may overlap as they like. */
static void test_overlapping_ranges(void **state)
{
	enum { LENGTH = 100, STEP = 60, NR = 200, SUM = STEP * (NR - 1) + LENGTH };
	static uint8_t data[NR][LENGTH], got[NR][LENGTH], all[SUM];
	static struct afar_file_vector ranges[NR];
	struct afar_file *file = make_file("overlapping", O_RDWR);

	(void)state;
	for (unsigned i = 0; i < NR; i++) {
		memset(data[i], (int)(1 + i), LENGTH);
		ranges[i] = (struct afar_file_vector){(uint64_t)i * STEP, data[i], LENGTH};
	}
	assert_int_equal(afar_file_writex(file, ranges, NR), (ssize_t)sizeof(data));
	assert_int_equal(afar_file_pread(file, all, SUM, 0), SUM);
	for (unsigned at = 0; at < SUM; at++) {
		unsigned last = at / STEP < NR ? at / STEP : NR - 1;
		unsigned first = at % STEP < LENGTH - STEP && last > 0 ? last - 1 : last;

		assert_true(all[at] == 1 + first || all[at] == 1 + last);
	}
	for (unsigned i = 0; i < NR; i++)
		ranges[i].data = got[i];
	assert_int_equal(afar_file_readx(file, ranges, NR), (ssize_t)sizeof(got));
	for (unsigned i = 0; i < NR; i++)
		assert_memory_equal(got[i], all + (size_t)i * STEP, LENGTH);
	close_file(file);
}

#define SIEVED_BYTES (64 * UNIT + 1234)

/* Writes a file in single units beside another, with holes in it, so that what lies between its bytes is not always its own. */
static struct afar_file *make_mixed(uint8_t *model)
{
	struct afar_file *file = make_file("mixed", O_RDWR), *other = make_file("other", O_RDWR);
	static uint8_t others[UNIT];

	memset(others, 0xcc, sizeof(others));
	memset(model, 0, SIEVED_BYTES);
	fill(model, SIEVED_BYTES, 5);
	for (uint64_t at = 0; at < SIEVED_BYTES; at += UNIT) {
		uint64_t length = SIEVED_BYTES - at < UNIT ? SIEVED_BYTES - at : UNIT;

		if (at / UNIT % 8 == 5)
			memset(model + at, 0, length);
		else
			write_bytes(file, model + at, length, at);
		if (at / UNIT % 4 == 0)
			write_bytes(other, others, UNIT, at);
	}
	close_file(other);
	return file;
}

/* Reads short ranges with gaps of up to `gap` bytes, from `at` to behind the end of the file. */
static void check_sieved(struct afar_file *file, const uint8_t *model, uint64_t at, uint64_t gap)
{
	enum { NR = 512, MOST = 300, APART = MOST + 20 };
	static uint8_t got[NR * APART];
	static struct afar_file_vector ranges[NR];
	unsigned nr = 0, random = 9;
	uint64_t sum = 0;

	memset(got, 0xee, sizeof(got));
	for (; nr < NR && at < SIEVED_BYTES + 2 * UNIT; nr++) {
		random = random * 1103515245 + 12345;
		ranges[nr] =
			(struct afar_file_vector){at, got + nr * APART, 1 + (random >> 8) % MOST};
		if (at < SIEVED_BYTES)
			sum += ranges[nr].length < SIEVED_BYTES - at ? ranges[nr].length
								     : SIEVED_BYTES - at;
		at += ranges[nr].length + (random >> 16) % (gap + 1);
	}
	assert_int_equal(afar_file_readx(file, ranges, nr), (ssize_t)sum);
	for (unsigned i = 0; i < nr; i++) {
		uint64_t inside =
			ranges[i].offset < SIEVED_BYTES ? SIEVED_BYTES - ranges[i].offset : 0;

		if (inside > ranges[i].length)
			inside = ranges[i].length;
		if (inside > 0)
			assert_memory_equal(got + i * APART, model + ranges[i].offset, inside);
		assert_int_equal(count_bytes(got + i * APART + inside, APART - inside, 0xee),
				 APART - inside);
	}
}

/* Ranges that nearly touch are read together, with what lies between them. Only these get bytes, and only the file's own. */
static void test_sieved_ranges(void **state)
{
	static uint8_t model[SIEVED_BYTES];
	struct afar_file *file = make_mixed(model);

	(void)state;
	for (uint64_t gap = 1; gap <= 16 * KIB; gap *= 4)
		for (uint64_t at = 0; at < 3; at++)
			check_sieved(file, model, at * 1001, gap);
	check_sieved(file, model, SIEVED_BYTES - 500, 40);
	check_sieved(file, model, SIEVED_BYTES + 100, 100);
	close_file(file);
}

static void test_access(void **state)
{
	struct afar_file *file = make_file("access", O_WRONLY), *other;
	struct afar_fs *reader;
	struct afar_session *another;
	char byte = 1;

	(void)state;
	write_bytes(file, &byte, 1, 0);
	expect_error(afar_file_pread(file, &byte, 1, 0), -EBADF);
	assert_int_equal(afar_file_open(fs, NULL, afar_file_ino(file), O_RDONLY, &other), 0);
	expect_error(afar_file_pwrite(other, &byte, 1, 0), -EBADF);
	close_file(other);
	expect_error(afar_fs_close(fs), -EBUSY);
	close_file(file);
	expect_error(afar_file_open(fs, NULL, root, O_RDWR, &file), -EISDIR);
	assert_int_equal(afar_file_open(fs, NULL, root, O_RDONLY, &file), 0);
	expect_error(afar_file_pread(file, &byte, 1, 0), -EISDIR);
	close_file(file);

	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &another), 0);
	open_in(another, AFAR_FS_READ_ONLY, &reader);
	expect_error(afar_fs_make(reader, NULL, root, "new", S_IFREG | 0644, 0, NULL, NULL),
		     -EROFS);
	expect_error(afar_file_create(reader, NULL, root, "access", 0644, O_RDONLY, &file, NULL),
		     -EROFS);
	assert_int_equal(afar_fs_close(reader), 0);
	assert_int_equal(afar_session_close(another), 0);
}

/* ---- Two sessions */

static void test_two_sessions(void **state)
{
	static uint8_t data[300 * KIB];
	struct afar_session *another;
	struct afar_fs *there;
	struct afar_file *here = make_file("shared", O_RDWR), *file;

	(void)state;
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &another), 0);
	open_in(another, 0, &there);
	assert_int_equal(afar_file_open(there, NULL, afar_file_ino(here), O_RDWR, &file), 0);
	fill(data, sizeof(data), 7);
	for (uint64_t at = 0; at < sizeof(data); at += 25 * KIB) {
		struct afar_file *writer = at / (25 * KIB) % 2 ? file : here;
		struct afar_file *reader = writer == here ? file : here;

		write_bytes(writer, data + at, 25 * KIB, at);
		assert_int_equal(size_of(writer == here ? there : fs, afar_file_ino(here)),
				 at + 25 * KIB);
		expect_content(reader, data, at + 25 * KIB);
	}
	data[1000] ^= 1;
	write_bytes(file, data + 1000, 1, 1000);
	expect_content(here, data, sizeof(data));
	/* Others give it up when it is made shorter, and go on with what is left. */
	assert_int_equal(afar_file_truncate(here, 70001), 0);
	expect_content(file, data, 70001);
	memset(data + 70001, 0, sizeof(data) - 70001);
	data[sizeof(data) - 1] = 9;
	write_bytes(file, data + sizeof(data) - 1, 1, sizeof(data) - 1);
	expect_content(here, data, sizeof(data));
	assert_int_equal(afar_file_allocate(file, AFAR_ALLOCATE_PUNCH | AFAR_ALLOCATE_KEEP_SIZE,
					    10000, 30000),
			 0);
	memset(data + 10000, 0, 30000);
	expect_content(here, data, sizeof(data));
	expect_content(file, data, sizeof(data));
	/* The file outlives its name. */
	assert_int_equal(afar_fs_unlink(fs, NULL, root, "shared"), 0);
	close_file(here);
	expect_content(file, data, sizeof(data));
	close_file(file);
	assert_int_equal(afar_fs_close(there), 0);
	assert_int_equal(afar_session_close(another), 0);
}

/* Another session makes the file shorter: who wrote it before says no more how long it was. */
static void test_cut_by_another(void **state)
{
	static uint8_t data[20 * KIB];
	struct afar_session *another;
	struct afar_fs *there;
	struct afar_file *here = make_file("cut", O_RDWR), *file;
	uint64_t ino = afar_file_ino(here);

	(void)state;
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &another), 0);
	open_in(another, 0, &there);
	assert_int_equal(afar_file_open(there, NULL, ino, O_RDWR, &file), 0);
	fill(data, sizeof(data), 8);
	write_bytes(here, data, sizeof(data), 0);
	assert_int_equal(afar_file_truncate(file, 1000), 0);
	assert_int_equal(afar_file_sync(here), 0);
	assert_int_equal(size_of(there, ino), 1000);
	close_file(here);
	assert_int_equal(size_of(there, ino), 1000);
	expect_content(file, data, 1000);
	close_file(file);
	assert_int_equal(afar_fs_unlink(fs, NULL, root, "cut"), 0);
	assert_int_equal(afar_fs_close(there), 0);
	assert_int_equal(afar_session_close(another), 0);
}

struct late_write {
	struct afar_file *file;
	unsigned pauses;
	ssize_t ret;
};

static void *write_late(void *argument)
{
	static uint8_t ones[UNIT];
	struct late_write *late = argument;

	memset(ones, 1, sizeof(ones));
	for (unsigned i = 0; i < late->pauses; i++)
		sched_yield();
	late->ret = afar_file_pwrite(late->file, ones, sizeof(ones), 0);
	return NULL;
}

/* Another session writes where a file is to end just now: that is before or behind, and shows no more if it was before. */
static void test_cut_under_a_write(void **state)
{
	static uint8_t data[UNIT], got[UNIT];
	struct afar_session *another;
	struct afar_fs *there;
	struct afar_file *here = make_file("under", O_RDWR), *file;
	uint64_t ino = afar_file_ino(here);

	(void)state;
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &another), 0);
	open_in(another, 0, &there);
	assert_int_equal(afar_file_open(there, NULL, ino, O_RDWR, &file), 0);
	memset(data, 2, sizeof(data));
	for (unsigned i = 0; i < NR_CUTS; i++) {
		struct late_write late = {.file = file, .pauses = i % 100};
		pthread_t thread;

		write_bytes(here, data, sizeof(data), 0);
		assert_int_equal(afar_file_pread(file, got, sizeof(got), 0), sizeof(got));
		assert_int_equal(pthread_create(&thread, NULL, write_late, &late), 0);
		assert_int_equal(afar_file_truncate(here, 1000), 0);
		pthread_join(thread, NULL);
		assert_int_equal(late.ret, sizeof(data));
		if (size_of(fs, ino) != 1000)
			continue;
		assert_int_equal(afar_file_truncate(here, sizeof(got)), 0);
		assert_int_equal(afar_file_pread(here, got, sizeof(got), 0), sizeof(got));
		assert_int_equal(count_bytes(got + 1000, sizeof(got) - 1000, 0),
				 sizeof(got) - 1000);
	}
	close_file(here);
	close_file(file);
	assert_int_equal(afar_fs_unlink(fs, NULL, root, "under"), 0);
	assert_int_equal(afar_fs_close(there), 0);
	assert_int_equal(afar_session_close(another), 0);
}

static void test_once_a_session(void **state)
{
	struct afar_fs *again;

	(void)state;
	expect_error(afar_fs_open(session, "files", NULL, &again), -EBUSY);
}

/* ---- Lengths and holes */

static void test_truncates(void **state)
{
	static uint8_t data[200 * KIB];
	struct afar_file *file = make_file("truncated", O_RDWR);
	struct afar_file_stat stat = {.size = sizeof(stat)}, to = {.size = sizeof(to)};

	(void)state;
	fill(data, sizeof(data), 3);
	write_bytes(file, data, sizeof(data), 0);
	assert_int_equal(afar_file_truncate(file, 70001), 0);
	expect_content(file, data, 70001);
	assert_true(allocated(file) <= 18 * UNIT);
	/* Bytes that were cut off do not come back. */
	memset(data + 70001, 0, sizeof(data) - 70001);
	assert_int_equal(afar_file_truncate(file, sizeof(data)), 0);
	expect_content(file, data, sizeof(data));
	data[sizeof(data) - 1] = 1;
	write_bytes(file, data + sizeof(data) - 1, 1, sizeof(data) - 1);
	expect_content(file, data, sizeof(data));
	to.bytes = 5;
	assert_int_equal(afar_fs_setattr(fs, NULL, afar_file_ino(file), AFAR_SET_SIZE, &to, &stat),
			 0);
	assert_int_equal(stat.bytes, 5);
	expect_content(file, data, 5);
	close_file(file);
	assert_int_equal(afar_file_open(fs, NULL, stat.ino, O_RDWR | O_TRUNC, &file), 0);
	expect_content(file, data, 0);
	assert_int_equal(allocated(file), 0);
	close_file(file);
}

static void test_holes(void **state)
{
	static uint8_t data[40 * KIB];
	struct afar_file *file = make_file("holes", O_RDWR);

	(void)state;
	fill(data, sizeof(data), 4);
	write_bytes(file, data, sizeof(data), 0);
	assert_int_equal(afar_file_allocate(file, AFAR_ALLOCATE_PUNCH | AFAR_ALLOCATE_KEEP_SIZE,
					    5000, 20000),
			 0);
	memset(data + 5000, 0, 20000);
	expect_content(file, data, sizeof(data));
	assert_int_equal(afar_file_seek(file, 0, true), 2 * UNIT);
	assert_int_equal(afar_file_seek(file, 2 * UNIT, false), 6 * UNIT);
	assert_int_equal(afar_file_seek(file, 6 * UNIT, true), sizeof(data));
	expect_error(afar_file_seek(file, sizeof(data), true), -ENXIO);
	expect_error(afar_file_seek(file, sizeof(data), false), -ENXIO);
	assert_int_equal(
		afar_file_allocate(file, AFAR_ALLOCATE_ZERO, 30000, sizeof(data) - 30000 + 10), 0);
	memset(data + 30000, 0, sizeof(data) - 30000);
	assert_int_equal(size_of(fs, afar_file_ino(file)), sizeof(data) + 10);
	assert_int_equal(afar_file_truncate(file, sizeof(data)), 0);
	expect_content(file, data, sizeof(data));
	assert_int_equal(afar_file_allocate(file, AFAR_ALLOCATE_KEEP_SIZE, MIB, MIB), 0);
	assert_int_equal(size_of(fs, afar_file_ino(file)), sizeof(data));
	assert_true(allocated(file) >= MIB);
	assert_int_equal(afar_file_allocate(file, 0, 0, 2 * MIB), 0);
	assert_int_equal(size_of(fs, afar_file_ino(file)), 2 * MIB);
	assert_int_equal(allocated(file), 2 * MIB);
	expect_error(afar_file_allocate(file, AFAR_ALLOCATE_PUNCH, 0, 1), -EOPNOTSUPP);
	expect_error(afar_file_allocate(file, 0, 0, 0), -EINVAL);
	close_file(file);
}

/* A file gives back at its close what it had ahead; what was freed shows as zeros again. */
static void test_frees(void **state)
{
	static uint8_t data[MIB];
	struct afar_file *file = make_file("frees", O_RDWR);
	struct afar_file_stat stat = {.size = sizeof(stat)};

	(void)state;
	fill(data, sizeof(data), 5);
	for (uint64_t at = 0; at < sizeof(data); at += 64 * KIB)
		write_bytes(file, data + at, 64 * KIB, at);
	close_file(file);
	assert_int_equal(afar_fs_lookup(fs, NULL, root, "frees", &stat), 0);
	assert_int_equal(stat.allocated, MIB);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(afar_file_open(fs, NULL, stat.ino, O_RDWR, &file), 0);
		assert_int_equal(afar_file_truncate(file, 0), 0);
		write_bytes(file, data, 1, sizeof(data) - 1);
		memset(data, 0, sizeof(data) - 1);
		data[sizeof(data) - 1] = data[0];
		memset(data, 0, 1);
		write_bytes(file, data, sizeof(data), 0);
		expect_content(file, data, sizeof(data));
		fill(data, sizeof(data), i);
		close_file(file);
	}
}

/* More than the pool has at first. */
static void test_grows(void **state)
{
	struct afar_fs_stat before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
	struct afar_file *file = make_file("grows", O_RDWR);
	uint8_t *data = malloc(8 * MIB);
	uint64_t length = 0;

	(void)state;
	assert_non_null(data);
	assert_int_equal(afar_fs_stat(fs, &before), 0);
	while (length < before.pool_bytes + 8 * MIB) {
		fill(data, 8 * MIB, (unsigned)(length / MIB));
		write_bytes(file, data, 8 * MIB, length);
		length += 8 * MIB;
	}
	assert_int_equal(afar_fs_stat(fs, &after), 0);
	assert_true(after.pool_bytes > before.pool_bytes);
	for (uint64_t at = 0; at < length; at += 8 * MIB) {
		uint8_t *got = malloc(8 * MIB);

		assert_non_null(got);
		fill(data, 8 * MIB, (unsigned)(at / MIB));
		assert_int_equal(afar_file_pread(file, got, 8 * MIB, at), 8 * MIB);
		assert_memory_equal(got, data, 8 * MIB);
		free(got);
	}
	/* And more than there is: nothing was written. */
	expect_error(afar_file_allocate(file, 0, 0, (uint64_t)1 << 40), -ENOSPC);
	assert_int_equal(size_of(fs, afar_file_ino(file)), length);
	free(data);
	close_file(file);
}

static void test_limit(void **state)
{
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy),
					      .tier = tier,
					      .max_bytes = 4 * MIB},
		.uid = geteuid(),
	};
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	struct afar_file *file, *empty;
	struct afar_fs *small;
	static uint8_t data[5 * MIB];

	(void)state;
	assert_int_equal(afar_fs_create(session, "limited", &policy, NULL), 0);
	expect_error(afar_fs_create(session, "limited", &policy, NULL), -EEXIST);
	assert_int_equal(afar_fs_stat_by_name(session, "limited", &stat), 0);
	assert_int_equal(stat.max_bytes, 4 * MIB);
	assert_int_equal(afar_fs_open(session, "limited", NULL, &small), 0);
	assert_int_equal(
		afar_file_create(small, NULL, stat.root, "file", 0600, O_RDWR, &file, NULL), 0);
	expect_error(afar_file_pwrite(file, data, sizeof(data), 0), -EDQUOT);
	assert_int_equal(size_of(small, afar_file_ino(file)), 0);
	write_bytes(file, data, 3 * MIB, 0);
	/* A file without bytes needs no room. */
	assert_int_equal(afar_file_allocate(file, AFAR_ALLOCATE_KEEP_SIZE, 0, 4 * MIB), 0);
	assert_int_equal(
		afar_file_create(small, NULL, stat.root, "empty", 0600, O_RDWR, &empty, NULL), 0);
	expect_error(afar_file_pwrite(empty, data, 1, 0), -EDQUOT);
	close_file(empty);
	close_file(file);
	assert_int_equal(afar_fs_close(small), 0);
	assert_int_equal(afar_fs_delete(session, "limited"), 0);
	expect_error(afar_fs_stat_by_name(session, "limited", &stat), -ENOENT);
}

/* ---- What others see */

static struct afar_file_stat stat_of(struct afar_fs *in, uint64_t ino)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_fs_getattr(in, ino, &stat), 0);
	return stat;
}

/* A new file has its first unit when it is made, but shows that to nobody. */
static void test_first_unit(void **state)
{
	struct afar_file *file = make_file("first", O_RDWR);
	const uint64_t ino = afar_file_ino(file);

	(void)state;
	assert_int_equal(stat_of(fs, ino).allocated, 0);
	write_bytes(file, (const uint8_t *)"x", 1, MIB);
	assert_int_equal(afar_file_seek(file, 0, false), MIB);
	assert_int_equal(stat_of(fs, ino).allocated, AFAR_FILE_BLOCK);
	close_file(file);
	file = make_file("empty", O_WRONLY);
	close_file(file);
	file = make_file("small", O_WRONLY);
	write_bytes(file, (const uint8_t *)"x", 1, 0);
	assert_int_equal(stat_of(fs, afar_file_ino(file)).allocated, AFAR_FILE_BLOCK);
	close_file(file);
}

static void test_flush(void **state)
{
	struct afar_session *another;
	struct afar_fs *there;
	struct afar_file *file = make_file("flushed", O_RDWR);
	const uint64_t ino = afar_file_ino(file);
	int64_t before;

	(void)state;
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &another), 0);
	open_in(another, 0, &there);
	write_bytes(file, (const uint8_t *)"xy", 2, 0);
	assert_int_equal(afar_file_flush(file), 0);
	before = stat_of(there, ino).mtime;
	write_bytes(file, (const uint8_t *)"z", 1, 1);
	assert_int_equal(afar_file_flush(file), 0);
	assert_true(stat_of(there, ino).mtime > before);
	close_file(file);
	assert_int_equal(afar_fs_close(there), 0);
	assert_int_equal(afar_session_close(another), 0);
}

/* ---- Threads */

struct appender {
	pthread_t thread;
	struct afar_file *file;
	unsigned number;
	int status;
};

#define LINES	   50U
#define LINE_BYTES 100U

static void *append_lines(void *argument)
{
	struct appender *appender = argument;
	char line[LINE_BYTES + 1];

	for (unsigned i = 0; i < LINES && appender->status == 0; i++) {
		snprintf(line, sizeof(line), "%02u %04u %092d", appender->number, i, 0);
		if (afar_file_pwrite(appender->file, line, LINE_BYTES, 0) != LINE_BYTES)
			appender->status = 1;
	}
	return NULL;
}

static void test_appends(void **state)
{
	struct afar_file *file = make_file("appended", O_RDWR | O_APPEND);
	struct appender appenders[NR_THREADS] = {0};
	unsigned seen[NR_THREADS] = {0};
	char line[LINE_BYTES];

	(void)state;
	for (unsigned i = 0; i < NR_THREADS; i++) {
		appenders[i].file = file;
		appenders[i].number = i;
		assert_int_equal(
			pthread_create(&appenders[i].thread, NULL, append_lines, &appenders[i]), 0);
	}
	for (unsigned i = 0; i < NR_THREADS; i++) {
		pthread_join(appenders[i].thread, NULL);
		assert_int_equal(appenders[i].status, 0);
	}
	for (unsigned i = 0; i < NR_THREADS * LINES; i++) {
		unsigned number, count;

		assert_int_equal(afar_file_pread(file, line, sizeof(line), i * LINE_BYTES),
				 LINE_BYTES);
		assert_int_equal(sscanf(line, "%u %u", &number, &count), 2);
		assert_true(number < NR_THREADS);
		assert_int_equal(count, seen[number]++);
	}
	assert_int_equal(afar_file_pread(file, line, 1, (uint64_t)NR_THREADS * LINES * LINE_BYTES),
			 0);
	close_file(file);
}

struct writer {
	pthread_t thread;
	struct afar_file *file;
	const uint8_t *data;
	unsigned number;
	int status;
};

#define PART (16 * KIB)
#define ALL  (64 * PART)

/* Each writes every fourth part, backwards. */
static void *write_parts(void *argument)
{
	struct writer *writer = argument;

	for (uint64_t i = ALL / PART; i-- > 0 && writer->status == 0;) {
		if (i % NR_THREADS != writer->number)
			continue;
		if (afar_file_pwrite(writer->file, writer->data + i * PART, PART, i * PART) !=
		    (ssize_t)PART)
			writer->status = 1;
	}
	return NULL;
}

static void test_parallel_writers(void **state)
{
	static uint8_t data[ALL];
	struct afar_file *file = make_file("parallel", O_RDWR);
	struct writer writers[NR_THREADS] = {0};

	(void)state;
	fill(data, sizeof(data), 9);
	for (unsigned i = 0; i < NR_THREADS; i++) {
		writers[i].file = file;
		writers[i].data = data;
		writers[i].number = i;
		assert_int_equal(pthread_create(&writers[i].thread, NULL, write_parts, &writers[i]),
				 0);
	}
	for (unsigned i = 0; i < NR_THREADS; i++) {
		pthread_join(writers[i].thread, NULL);
		assert_int_equal(writers[i].status, 0);
	}
	expect_content(file, data, sizeof(data));
	close_file(file);
}

/* ---- Closing */

#define NR_CLOSINGS 100U

static void *fail_to_close(void *argument)
{
	(void)argument;
	return (void *)(intptr_t)afar_fs_close(fs);
}

static uint64_t count_inodes(struct afar_fs *in)
{
	struct afar_fs_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_fs_stat(in, &stat), 0);
	return stat.nr_inodes;
}

/* Closing the file system fails, because a file is open. A file that is closed meanwhile without waiting is closed by
 * itself: no call takes it along. */
static void test_closed_later_under_a_close_that_fails(void **state)
{
	struct afar_file *open = make_file("open", O_RDWR), *file;
	struct afar_session *another;
	struct afar_fs *there;
	pthread_t thread;
	uint64_t before;
	void *ret;

	(void)state;
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &another), 0);
	open_in(another, 0, &there);
	before = count_inodes(there);
	for (unsigned i = 0; i < NR_CLOSINGS; i++) {
		file = make_file("late", O_RDWR);
		assert_int_equal(afar_fs_unlink(there, NULL, root, "late"), 0);
		assert_int_equal(count_inodes(there), before + 1);
		assert_int_equal(pthread_create(&thread, NULL, fail_to_close, NULL), 0);
		for (unsigned pauses = i % 16; pauses > 0; pauses--)
			sched_yield();
		assert_int_equal(afar_file_close_later(file), 0);
		pthread_join(thread, &ret);
		assert_int_equal((intptr_t)ret, -EBUSY);
		while (count_inodes(there) != before)
			sched_yield();
	}
	close_file(open);
	assert_int_equal(afar_fs_close(there), 0);
	assert_int_equal(afar_session_close(another), 0);
}

/* ---- Names */

static void test_names(void **state)
{
	struct afar_file_stat stat = {.size = sizeof(stat)}, to = {.size = sizeof(to)};
	struct afar_file_stat dir = {.size = sizeof(dir)};
	struct afar_dirent entries[4] = {{.size = sizeof(entries[0])}};
	char target[32];

	(void)state;
	assert_int_equal(afar_fs_make(fs, NULL, root, "dir", S_IFDIR | 0755, 0, NULL, &dir), 0);
	assert_int_equal(afar_fs_make(fs, NULL, dir.ino, "a", S_IFREG | 0644, 0, NULL, &stat), 0);
	assert_int_equal(afar_fs_make(fs, NULL, dir.ino, "b", S_IFREG | 0644, 0, NULL, NULL), 0);
	assert_int_equal(afar_fs_make(fs, NULL, root, "link", S_IFLNK | 0777, 0, "dir/a", NULL), 0);
	expect_error(afar_fs_make(fs, NULL, root, "dir", S_IFREG | 0644, 0, NULL, NULL), -EEXIST);
	assert_int_equal(afar_fs_walk(fs, NULL, root, "/link", 0, R_OK, &to), 0);
	assert_int_equal(to.ino, stat.ino);
	assert_int_equal(afar_fs_walk(fs, NULL, root, "link", AFAR_WALK_NOFOLLOW, 0, &to), 0);
	assert_true(S_ISLNK(to.mode));
	assert_int_equal(afar_fs_readlink(fs, to.ino, target, 3), 3);
	assert_int_equal(afar_fs_readlink(fs, to.ino, target, sizeof(target)), 5);
	assert_memory_equal(target, "dir/a", 5);
	expect_error(afar_fs_walk(fs, NULL, root, "dir/none", 0, 0, &to), -ENOENT);
	expect_error(afar_fs_walk(fs, NULL, root, "link/none", 0, 0, &to), -ENOTDIR);

	assert_int_equal(afar_fs_link(fs, NULL, stat.ino, root, "again", &to), 0);
	assert_int_equal(to.nlink, 2);
	expect_error(afar_fs_rename(fs, NULL, dir.ino, "a", dir.ino, "b", AFAR_RENAME_NOREPLACE),
		     -EEXIST);
	assert_int_equal(afar_fs_rename(fs, NULL, dir.ino, "a", dir.ino, "b", 0), 0);
	assert_int_equal(afar_fs_readdir(fs, NULL, root, NULL, true, entries, 4), 3);
	assert_string_equal(entries[0].name, "again");
	assert_int_equal(entries[0].stat.nlink, 2);
	assert_string_equal(entries[2].name, "link");
	assert_int_equal(afar_fs_readdir(fs, NULL, root, "again", false, entries, 1), 1);
	assert_string_equal(entries[0].name, "dir");
	assert_true(S_ISDIR(entries[0].stat.mode));
	assert_int_equal(afar_fs_readdir(fs, NULL, root, "link", false, entries, 1), 0);

	to = (struct afar_file_stat){.size = sizeof(to), .mode = 0600, .mtime = 12345};
	assert_int_equal(
		afar_fs_setattr(fs, NULL, stat.ino, AFAR_SET_MODE | AFAR_SET_MTIME, &to, &stat), 0);
	assert_int_equal(stat.mode, S_IFREG | 0600);
	assert_int_equal(stat.mtime, 12345);
	assert_int_equal(afar_fs_setxattr(fs, NULL, stat.ino, "user.x", "value", 5, 0), 0);
	assert_int_equal(afar_fs_getxattr(fs, NULL, stat.ino, "user.x", NULL, 0), 5);
	expect_error(afar_fs_getxattr(fs, NULL, stat.ino, "user.x", target, 2), -ERANGE);
	assert_int_equal(afar_fs_getxattr(fs, NULL, stat.ino, "user.x", target, 9), 5);
	assert_memory_equal(target, "value", 5);
	assert_int_equal(afar_fs_listxattr(fs, NULL, stat.ino, target, 9), 7);
	assert_string_equal(target, "user.x");
	assert_int_equal(afar_fs_removexattr(fs, NULL, stat.ino, "user.x"), 0);
	expect_error(afar_fs_getxattr(fs, NULL, stat.ino, "user.x", NULL, 0), -ENODATA);

	expect_error(afar_fs_rmdir(fs, NULL, root, "dir"), -ENOTEMPTY);
	expect_error(afar_fs_unlink(fs, NULL, root, "dir"), -EISDIR);
	assert_int_equal(afar_fs_unlink(fs, NULL, dir.ino, "b"), 0);
	assert_int_equal(afar_fs_rmdir(fs, NULL, root, "dir"), 0);
}

static void test_permissions(void **state)
{
	const struct afar_who nobody = {.size = sizeof(nobody), .uid = 65534, .gid = 65534};
	struct afar_file *file = make_file("mine", O_RDWR), *other;
	struct afar_file_stat stat = {.size = sizeof(stat)};

	(void)state;
	assert_int_equal(afar_file_open(fs, &nobody, afar_file_ino(file), O_RDONLY, &other), 0);
	close_file(other);
	expect_error(afar_file_open(fs, &nobody, afar_file_ino(file), O_RDWR, &other), -EACCES);
	expect_error(afar_fs_unlink(fs, &nobody, root, "mine"), -EACCES);
	stat.bytes = 0;
	expect_error(afar_fs_setattr(fs, &nobody, afar_file_ino(file), AFAR_SET_SIZE, &stat, NULL),
		     -EACCES);
	close_file(file);
}

/* ---- Many small files */

#define NR_SMALL 600U

static void test_small_files(void **state)
{
	struct afar_small_file *files = calloc(NR_SMALL, sizeof(*files));
	char(*names)[16] = calloc(NR_SMALL, sizeof(*names));
	uint8_t *data = malloc(NR_SMALL * 10 * KIB), *got = malloc(NR_SMALL * 10 * KIB);
	struct afar_file_stat stat = {.size = sizeof(stat)};

	(void)state;
	assert_true(files && names && data && got);
	fill(data, NR_SMALL * 10 * KIB, 11);
	for (unsigned i = 0; i < NR_SMALL; i++) {
		snprintf(names[i], sizeof(names[i]), "small-%u", i);
		files[i] = (struct afar_small_file){
			.size = sizeof(struct afar_small_file),
			.dir = root,
			.name = names[i],
			.mode = 0640,
			.mtime = i % 2 ? 1000 + i : 0,
			.data = data + i * 10 * KIB,
			.length = i * 37 % (10 * KIB),
		};
	}
	if (afar_fs_write_files(fs, NULL, files, NR_SMALL) != 0)
		fail_msg("%s", afar_last_error());
	for (unsigned i = 0; i < NR_SMALL; i++) {
		assert_int_equal(files[i].status, 0);
		assert_int_equal(afar_fs_getattr(fs, files[i].ino, &stat), 0);
		assert_int_equal(stat.bytes, i * 37 % (10 * KIB));
		if (i % 2)
			assert_int_equal(stat.mtime, 1000 + i);
		files[i].data = got + i * 10 * KIB;
		files[i].length = 10 * KIB;
	}
	assert_int_equal(afar_fs_read_files(fs, NULL, files, NR_SMALL), 0);
	for (unsigned i = 0; i < NR_SMALL; i++) {
		assert_int_equal(files[i].length, i * 37 % (10 * KIB));
		assert_memory_equal(files[i].data, data + i * 10 * KIB, files[i].length);
	}
	/* Those that fail stop none of the others. */
	files[3].ino = 99999999;
	files[4].ino = root;
	assert_int_equal(afar_fs_read_files(fs, NULL, files, 6), -ESTALE);
	assert_int_equal(files[3].status, -ESTALE);
	assert_int_equal(files[4].status, -EISDIR);
	assert_int_equal(files[5].status, 0);
	files[1].name = "another";
	assert_int_equal(afar_fs_write_files(fs, NULL, files, 2), -EEXIST);
	assert_int_equal(files[0].status, -EEXIST);
	assert_int_equal(files[1].status, 0);
	assert_int_equal(afar_fs_lookup(fs, NULL, root, "another", &stat), 0);
	free(got);
	free(data);
	free(names);
	free(files);
}

#define NR_CUT	  40U
#define CUT_BYTES (5 * UNIT + 100)

struct cutter {
	pthread_t thread;
	struct afar_fs *fs;
	const uint64_t *inos;
	const uint8_t *data;
	unsigned first; /* it cuts every second file */
	atomic_bool is_over;
	atomic_uint nr_cuts;
	atomic_int status;
};

/* Makes files shorter, by whole units, and writes the same again. */
static void *cut_files(void *argument)
{
	struct cutter *cutter = argument;

	for (unsigned i = cutter->first; !cutter->is_over && cutter->status == 0; i += 2) {
		struct afar_file *file;

		cutter->status =
			afar_file_open(cutter->fs, NULL, cutter->inos[i % NR_CUT], O_RDWR, &file);
		if (cutter->status)
			break;
		cutter->status = afar_file_truncate(file, i / 2 % 4 * UNIT);
		if (cutter->status == 0 &&
		    afar_file_pwrite(file, cutter->data, CUT_BYTES, 0) != (ssize_t)CUT_BYTES)
			cutter->status = -EIO;
		if (afar_file_close(file) != 0)
			cutter->status = -EIO;
		cutter->nr_cuts++;
	}
	return NULL;
}

/* A session that reads and writes the same same-host bytes at once has a data race, on purpose. */
static bool is_race_seen(void)
{
#ifdef __SANITIZE_THREAD__
	const char *transport = getenv("AFAR_TEST_TRANSPORT");

	return transport && strcmp(transport, "local") == 0;
#else
	return false;
#endif
}

/* Small files are read while this session and another one make them shorter and longer. A read brings
 * what was written, as far as it goes. */
static void test_small_files_that_are_cut(void **state)
{
	static uint8_t data[CUT_BYTES], got[NR_CUT * CUT_BYTES];
	struct afar_small_file files[NR_CUT] = {0};
	struct cutter cutters[2] = {0};
	struct afar_session *another;
	struct afar_fs *there;
	uint64_t inos[NR_CUT];
	char names[NR_CUT][16];

	(void)state;
	fill(data, sizeof(data), 12);
	for (unsigned i = 0; i < NR_CUT; i++) {
		snprintf(names[i], sizeof(names[i]), "cut-%u", i);
		files[i] = (struct afar_small_file){.size = sizeof(struct afar_small_file),
						    .dir = root,
						    .name = names[i],
						    .mode = 0600,
						    .data = data,
						    .length = CUT_BYTES};
	}
	assert_int_equal(afar_fs_write_files(fs, NULL, files, NR_CUT), 0);
	for (unsigned i = 0; i < NR_CUT; i++)
		inos[i] = files[i].ino;
	assert_int_equal(afar_session_open(cluster_uri(cluster), NULL, &another), 0);
	open_in(another, 0, &there);
	for (unsigned i = 0; i < 2; i++) {
		cutters[i].fs = i == 0 && !is_race_seen() ? fs : there;
		cutters[i].inos = inos;
		cutters[i].data = data;
		cutters[i].first = i;
		assert_int_equal(pthread_create(&cutters[i].thread, NULL, cut_files, &cutters[i]),
				 0);
	}
	while ((cutters[0].nr_cuts < 300 || cutters[1].nr_cuts < 300) && cutters[0].status == 0 &&
	       cutters[1].status == 0) {
		for (unsigned i = 0; i < NR_CUT; i++) {
			files[i].data = got + i * CUT_BYTES;
			files[i].length = CUT_BYTES;
		}
		assert_int_equal(afar_fs_read_files(fs, NULL, files, NR_CUT), 0);
		for (unsigned i = 0; i < NR_CUT; i++)
			assert_memory_equal(files[i].data, data, files[i].length);
	}
	for (unsigned i = 0; i < 2; i++) {
		cutters[i].is_over = true;
		pthread_join(cutters[i].thread, NULL);
		assert_int_equal(cutters[i].status, 0);
	}
	assert_int_equal(afar_fs_close(there), 0);
	assert_int_equal(afar_session_close(another), 0);
}

/* ---- What else is a namespace */

static void test_kinds(void **state)
{
	struct afar_namespace_stat namespaces[8] = {{.size = sizeof(*namespaces)}};
	struct afar_volume_stat volumes[2] = {{.size = sizeof(*volumes)}};
	struct afar_fs_stat systems[2] = {{.size = sizeof(*systems)}};
	struct afar_volume *volume;
	struct afar_fs *other;

	(void)state;
	assert_int_equal(afar_fs_list(session, NULL, systems, 2), 1);
	assert_string_equal(systems[0].name, "files");
	assert_int_equal(systems[0].nr_clients, 1);
	assert_int_equal(systems[0].tier, tier);
	assert_int_equal(afar_volume_list(session, NULL, volumes, 2), 0);
	assert_int_equal(afar_namespace_list(session, NULL, namespaces, 8), 1);
	expect_error(afar_volume_open(session, "files", NULL, &volume), -ENOENT);
	expect_error(afar_volume_stat_by_name(session, "files", volumes), -ENOENT);
	expect_error(afar_volume_delete(session, "files"), -EINVAL);
	assert_int_equal(afar_volume_create(session, "disk", MIB, NULL, NULL), 0);
	expect_error(afar_fs_open(session, "disk", NULL, &other), -ENOENT);
	expect_error(afar_fs_stat_by_name(session, "disk", systems), -ENOENT);
	assert_int_equal(afar_volume_delete(session, "disk"), 0);
}

/* Whatever is made is opened, too, unless nobody wants the handle. */
static void test_making(void **state)
{
	struct afar_namespace *ns;
	struct afar_region *region;
	struct afar_volume *volume;
	struct afar_fs *other;

	(void)state;
	assert_int_equal(afar_namespace_create(session, "made", NULL, NULL), 0);
	assert_int_equal(afar_namespace_open(session, "made", &ns), 0);
	assert_int_equal(afar_namespace_reserve(ns, 4 * MIB), 0);
	assert_int_equal(afar_region_alloc(ns, UNIT, AFAR_ALLOC_FIRST, NULL), 0);
	assert_int_equal(afar_region_delete_at(ns, AFAR_FIRST_ADDRESS), 0);
	assert_int_equal(afar_region_create(ns, "region", UNIT, 0, NULL), 0);
	assert_int_equal(afar_region_open(ns, "region", &region), 0);
	drop_region(region);
	drop_namespace(ns, "made");
	assert_int_equal(afar_volume_create(session, "made", UNIT, NULL, &volume), 0);
	assert_int_equal(afar_volume_pwrite(volume, "x", 1, 0, 0), 1);
	assert_int_equal(afar_volume_close(volume), 0);
	assert_int_equal(afar_volume_delete(session, "made"), 0);
	assert_int_equal(afar_fs_create(session, "made", NULL, &other), 0);
	assert_int_equal(afar_fs_close(other), 0);
	assert_int_equal(afar_fs_delete(session, "made"), 0);
	assert_int_equal(afar_file_create(fs, NULL, root, "made", 0644, O_RDWR, NULL, NULL), 0);
	assert_int_equal(afar_fs_unlink(fs, NULL, root, "made"), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		FILES_TEST(test_any_range),
		FILES_TEST(test_lists),
		FILES_TEST(test_ranges_at_ends),
		FILES_TEST(test_touching_ranges),
		FILES_TEST(test_overlapping_ranges),
		FILES_TEST(test_sieved_ranges),
		FILES_TEST(test_access),
		FILES_TEST(test_two_sessions),
		FILES_TEST(test_cut_by_another),
		FILES_TEST(test_cut_under_a_write),
		FILES_TEST(test_once_a_session),
		FILES_TEST(test_truncates),
		FILES_TEST(test_holes),
		FILES_TEST(test_frees),
		FILES_TEST(test_grows),
		FILES_TEST(test_limit),
		FILES_TEST(test_first_unit),
		FILES_TEST(test_flush),
		FILES_TEST(test_appends),
		FILES_TEST(test_parallel_writers),
		FILES_TEST(test_names),
		FILES_TEST(test_permissions),
		FILES_TEST(test_small_files),
		FILES_TEST(test_small_files_that_are_cut),
		FILES_TEST(test_kinds),
		FILES_TEST(test_making),
		FILES_TEST(test_closed_later_under_a_close_that_fails),
	};

	if (argc > 2) /* one of them */
		cmocka_set_test_filter(argv[2]);
	tier = argc > 1 && strcmp(argv[1], "flash") == 0 ? AFAR_TIER_FLASH : AFAR_TIER_DRAM;
	return cmocka_run_group_tests(tests, start, stop);
}
