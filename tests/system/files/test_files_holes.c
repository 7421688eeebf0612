/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes into holes ask the manager seldom. It commits what it is asked for, and its store counts commits. A list asks once for all
 * of its holes. A file of which each 16th block is written asks for few of them. Unwritten room goes back when the writer closes the
 * file. If he is killed, it goes back when somebody removes the file.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <afar/file.h>

#include "lib/api/api.h"
#include "lib/base/child.h"
#include "lib/base/effort.h"

#define UNIT	     ((uint64_t)AFAR_FILE_BLOCK)
#define NR_WRITTEN   1024U
#define STEP	     16U /* one of so many units is written */
#define NR_LISTED    4000U
#define RETURNED_MAX 30000U /* looks */

static struct afar_fs *fs;
static char *memory; /* a unit for each range of a list */
static struct afar_file_vector vectors[NR_LISTED];

/* ---- The manager's commits */

#define PAGE_BYTES 4096U
#define COMMIT_OF_A_PAGE \
	144U /* where LMDB puts the number of the commit that wrote a page of its first two */

static uint64_t count_commits(void)
{
	const char *key = strstr(cluster_uri(cluster), "key=") + strlen("key=");
	const char *end = strrchr(key, '/');
	uint64_t nr = 0;
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%.*s/manager/data.mdb", (int)(end - key), key);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	for (unsigned page = 0; page < 2; page++) {
		uint64_t number;

		assert_int_equal(
			pread(fd, &number, sizeof(number), page * PAGE_BYTES + COMMIT_OF_A_PAGE),
			sizeof(number));
		nr = number > nr ? number : nr;
	}
	close(fd);
	assert_true(nr != 0);
	return nr;
}

/* ---- What the tests do with files */

static int begin(void **state)
{
	if (start(state))
		return -1;
	memory = calloc(NR_LISTED, UNIT);
	if (!memory || afar_fs_create(session, "room", NULL, NULL))
		return -1;
	return afar_fs_open(session, "room", NULL, &fs);
}

static int end(void **state)
{
	if (afar_fs_close(fs) || afar_fs_delete(session, "room"))
		return -1;
	free(memory);
	return stop(state);
}

static struct afar_file *make(struct afar_fs *of, const char *name, uint64_t size)
{
	struct afar_fs_stat stat = {.size = sizeof(stat)};
	struct afar_file *file;

	assert_int_equal(afar_fs_stat(of, &stat), 0);
	assert_int_equal(afar_file_create(of, NULL, stat.root, name, 0644, O_RDWR, &file, NULL), 0);
	assert_int_equal(afar_file_truncate(file, size), 0);
	return file;
}

static void drop(const char *name)
{
	struct afar_fs_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_fs_stat(fs, &stat), 0);
	assert_int_equal(afar_fs_unlink(fs, NULL, stat.root, name), 0);
}

static uint64_t used_bytes(void)
{
	struct afar_fs_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_fs_stat(fs, &stat), 0);
	return stat.pool_bytes - stat.free_bytes;
}

static void expect_used(uint64_t bytes)
{
	for (unsigned i = 0; used_bytes() != bytes; i++) {
		if (i == RETURNED_MAX)
			fail_msg("files have %llu bytes, and not %llu",
				 (unsigned long long)used_bytes(), (unsigned long long)bytes);
		test_pause();
	}
}

static void set_content(char *unit, uint64_t number)
{
	memset(unit, (int)(number % 251) + 1, UNIT);
}

static void expect_content(struct afar_file *file, uint64_t number, bool is_written)
{
	char wanted[UNIT], found[UNIT];

	memset(wanted, 0, sizeof(wanted));
	if (is_written)
		set_content(wanted, number);
	assert_int_equal(afar_file_pread(file, found, sizeof(found), number * UNIT), UNIT);
	assert_memory_equal(found, wanted, UNIT);
}

/* ---- Lists */

/* Each second unit, from the end to the beginning. */
static void write_list(struct afar_file *file)
{
	for (uint64_t i = 0; i < NR_LISTED; i++) {
		const uint64_t number = 2 * (NR_LISTED - 1 - i);

		set_content(memory + i * UNIT, number);
		vectors[i] = (struct afar_file_vector){
			.offset = number * UNIT, .data = memory + i * UNIT, .length = UNIT};
	}
	assert_int_equal(afar_file_writex(file, vectors, NR_LISTED), NR_LISTED * UNIT);
}

static void test_a_list_asks_once(void **state)
{
	uint64_t used = used_bytes(), nr;
	struct afar_file *file = make(fs, "list", 2 * NR_LISTED * UNIT);

	(void)state;
	nr = count_commits();
	write_list(file);
	nr = count_commits() - nr;
	/* The pool may have to grow, and the manager has work of its own. */
	if (nr > 8)
		fail_msg("a list asked %llu times", (unsigned long long)nr);
	for (uint64_t number = 0; number < 2 * NR_LISTED; number += 251)
		expect_content(file, number, number % 2 == 0);
	assert_int_equal(afar_file_close(file), 0);
	expect_used(used + NR_LISTED * UNIT);
	drop("list");
	expect_used(used);
}

/* Another process, from before this one has threads: writes when it is told where, and kills itself. */
static pid_t writer;
static int writer_told;

static _Noreturn void run_writer(int told)
{
	struct afar_session *own;
	struct afar_fs *his;
	char uri[1024] = "";

	memory = calloc(NR_LISTED, UNIT);
	if (!memory || read(told, uri, sizeof(uri) - 1) <= 0 ||
	    afar_session_open(uri, NULL, &own) || afar_fs_open(own, "room", NULL, &his))
		_exit(1);
	write_list(make(his, "killed", 4 * NR_LISTED * UNIT));
	raise(SIGKILL);
	_exit(1);
}

static void fork_writer(void)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	writer = fork_child();
	if (writer == 0) {
		close(ends[1]);
		run_writer(ends[0]);
	}
	close(ends[0]);
	writer_told = ends[1];
}

static void test_a_killed_writer_loses_no_room(void **state)
{
	const char *uri = cluster_uri(cluster);
	uint64_t used = used_bytes();
	int status;

	(void)state;
	assert_int_equal(write(writer_told, uri, strlen(uri)), strlen(uri));
	assert_int_equal(waitpid(writer, &status, 0), writer);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_true(used_bytes() >= used + NR_LISTED * UNIT);
	drop("killed");
	expect_used(used);
}

/* ---- Sparse files */

enum order { ASCENDING, DESCENDING, RANDOM };

static void put_in_order(uint64_t *units, enum order order)
{
	unsigned seed = 1;

	for (uint64_t i = 0; i < NR_WRITTEN; i++) {
		uint64_t at = order == RANDOM ? (unsigned)rand_r(&seed) % (i + 1) : i;

		units[i] = units[at];
		units[at] = STEP * (order == DESCENDING ? NR_WRITTEN - 1 - i : i);
	}
}

static void test_sparse_files_ask_seldom(void **state)
{
	uint64_t units[NR_WRITTEN], used = used_bytes(), nr;

	(void)state;
	for (enum order order = ASCENDING; order <= RANDOM; order++) {
		struct afar_file *file = make(fs, "sparse", STEP * NR_WRITTEN * UNIT);

		put_in_order(units, order);
		nr = count_commits();
		for (unsigned i = 0; i < NR_WRITTEN; i++) {
			set_content(memory, units[i]);
			assert_int_equal(afar_file_pwrite(file, memory, UNIT, units[i] * UNIT),
					 UNIT);
		}
		nr = count_commits() - nr;
		if (nr > NR_WRITTEN / 4)
			fail_msg("in order %d, %u writes asked %llu times", (int)order, NR_WRITTEN,
				 (unsigned long long)nr);
		for (uint64_t unit = 0; unit < STEP * NR_WRITTEN; unit += 251)
			expect_content(file, unit, unit % STEP == 0);
		assert_int_equal(afar_file_close(file), 0);
		expect_used(used + NR_WRITTEN * UNIT);
		drop("sparse");
		expect_used(used);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_list_asks_once),
		cmocka_unit_test(test_a_killed_writer_loses_no_room),
		cmocka_unit_test(test_sparse_files_ask_seldom),
	};

	fork_writer();
	return cmocka_run_group_tests_name("files_holes", tests, begin, end);
}
