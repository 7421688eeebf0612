/* SPDX-License-Identifier: BSD-3-Clause */
/* The metastore seam, as its LMDB implementation keeps it: order, prefixes, compares, atomic and durable
 * commits, one owner, a full store. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <afar/error.h>

#include "lib/base/child.h"
#include "manager/metastore/metastore.h"
#include "unit/group.h"

#define SIZE ((size_t)64 << 20)

static char folder[] = "/tmp/afar-test-metastore-XXXXXX";

static struct meta_bytes bytes(const char *text)
{
	return (struct meta_bytes){text, strlen(text)};
}

static int put(struct metastore *store, const char *key, const char *value)
{
	struct meta_put one = {bytes(key), bytes(value)};

	return store->ops->commit(store, NULL, 0, &one, 1, NULL, 0);
}

static void assert_value(struct metastore *store, const char *key, const char *expected)
{
	size_t length;
	void *value;
	int rc = store->ops->get(store, bytes(key), &value, &length);

	if (expected == NULL) {
		assert_int_equal(rc, -ENOENT);
		return;
	}
	assert_int_equal(rc, 0);
	assert_int_equal(length, strlen(expected));
	assert_memory_equal(value, expected, length);
	free(value);
}

static void remove_files(void)
{
	DIR *directory = opendir(folder);
	struct dirent *entry;
	char name[512];

	while (directory != NULL && (entry = readdir(directory)) != NULL) {
		snprintf(name, sizeof(name), "%s/%s", folder, entry->d_name);
		unlink(name);
	}
	if (directory != NULL)
		closedir(directory);
}

static int range_all(struct metastore *store, const char *prefix,
		     int (*visit)(void *argument, struct meta_bytes key, struct meta_bytes value),
		     void *argument)
{
	return store->ops->range(store, bytes(prefix), bytes(""), SIZE_MAX, visit, argument);
}

static int setup(void **state)
{
	struct metastore *store;

	if (metastore_lmdb_open(folder, SIZE, &store) < 0)
		return -1;
	*state = store;
	return 0;
}

static int teardown(void **state)
{
	struct metastore *store = *state;

	if (store != NULL)
		store->ops->close(store);
	remove_files();
	return 0;
}

struct seen {
	char text[256];
	int stop_after;
};

static int see(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	struct seen *seen = argument;

	strncat(seen->text, key.data, key.length);
	strcat(seen->text, "=");
	strncat(seen->text, value.data, value.length);
	strcat(seen->text, " ");
	return --seen->stop_after == 0 ? 7 : 0;
}

static void test_range_is_ordered_and_has_the_prefix(void **state)
{
	struct metastore *store = *state;
	struct seen seen = {0};

	assert_int_equal(put(store, "b2", "4"), 0);
	assert_int_equal(put(store, "a", "1"), 0);
	assert_int_equal(put(store, "b", "2"), 0);
	assert_int_equal(put(store, "c", "5"), 0);
	assert_int_equal(put(store, "b1", "3"), 0);
	assert_int_equal(range_all(store, "b", see, &seen), 0);
	assert_string_equal(seen.text, "b=2 b1=3 b2=4 ");

	seen = (struct seen){0};
	assert_int_equal(range_all(store, "", see, &seen), 0);
	assert_string_equal(seen.text, "a=1 b=2 b1=3 b2=4 c=5 ");

	seen = (struct seen){0};
	assert_int_equal(range_all(store, "d", see, &seen), 0);
	assert_string_equal(seen.text, "");

	seen = (struct seen){.stop_after = 2};
	assert_int_equal(range_all(store, "b", see, &seen), 7);
	assert_string_equal(seen.text, "b=2 b1=3 ");
}

static void test_binary_keys_sort_as_bytes(void **state)
{
	struct metastore *store = *state;
	const uint8_t low[] = {'k', 0x00, 0x01}, high[] = {'k', 0xff}, end[] = {'k', 0xff, 0x00};
	struct meta_put puts[] = {
		{{end, sizeof(end)}, {"3", 1}},
		{{high, sizeof(high)}, {"2", 1}},
		{{low, sizeof(low)}, {"1", 1}},
	};
	struct seen seen = {0};

	assert_int_equal(store->ops->commit(store, NULL, 0, puts, 3, NULL, 0), 0);
	assert_int_equal(store->ops->range(store, (struct meta_bytes){high, 2},
					   (struct meta_bytes){0}, SIZE_MAX, see, &seen),
			 0);
	assert_non_null(strstr(seen.text, "=2 "));
	assert_non_null(strstr(seen.text, "=3 "));
	assert_null(strstr(seen.text, "=1 "));
}

static void test_compare_fails_and_nothing_is_done(void **state)
{
	struct metastore *store = *state;
	struct meta_compare absent = {bytes("a"), {NULL, 0}};
	struct meta_compare is_one = {bytes("a"), bytes("1")};
	struct meta_compare both[] = {is_one, {bytes("z"), bytes("")}};
	struct meta_put puts[] = {{bytes("a"), bytes("1")}, {bytes("b"), bytes("1")}};
	struct meta_bytes deletes[] = {bytes("b"), bytes("nothing")};

	assert_int_equal(store->ops->commit(store, &is_one, 1, puts, 2, NULL, 0), -EAGAIN);
	assert_value(store, "a", NULL);
	assert_int_equal(store->ops->commit(store, &absent, 1, puts, 2, NULL, 0), 0);
	assert_value(store, "b", "1");
	assert_int_equal(store->ops->commit(store, &absent, 1, NULL, 0, deletes, 2), -EAGAIN);
	assert_int_equal(store->ops->commit(store, both, 2, NULL, 0, deletes, 2), -EAGAIN);
	assert_value(store, "b", "1");
	assert_int_equal(store->ops->commit(store, &is_one, 1, NULL, 0, deletes, 2), 0);
	assert_value(store, "b", NULL);
	assert_value(store, "a", "1");
}

static void test_bad_keys_are_refused_and_nothing_is_done(void **state)
{
	struct metastore *store = *state;
	char key[METASTORE_KEY_MAX + 1];
	struct meta_put puts[] = {{bytes("good"), bytes("1")},
				  {{key, sizeof(key)}, bytes("1")},
				  {{key, 0}, bytes("1")}};

	memset(key, 'k', sizeof(key));
	assert_int_equal(store->ops->commit(store, NULL, 0, puts, 2, NULL, 0), -EINVAL);
	assert_int_equal(store->ops->commit(store, NULL, 0, &puts[2], 1, NULL, 0), -EINVAL);
	assert_value(store, "good", NULL);
	puts[1].key.length = METASTORE_KEY_MAX;
	assert_int_equal(store->ops->commit(store, NULL, 0, puts, 2, NULL, 0), 0);
	assert_value(store, "good", "1");
}

static void test_second_opener_is_told(void **state)
{
	struct metastore *store = *state, *second;
	int status;
	pid_t child;

	assert_int_equal(metastore_lmdb_open(folder, SIZE, &second), -EBUSY);
	assert_non_null(strstr(afar_last_error(), "another manager"));
	child = fork_child();
	if (child == 0)
		_exit(metastore_lmdb_open(folder, SIZE, &second) == -EBUSY ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	store->ops->close(store);
	assert_int_equal(metastore_lmdb_open(folder, SIZE, &second), 0);
	*state = second;
}

static void test_files_are_private(void **state)
{
	DIR *directory = opendir(folder);
	struct dirent *entry;
	struct stat stat;
	char name[512];
	int nr = 0;

	(void)state;
	while ((entry = readdir(directory)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", folder, entry->d_name);
		assert_int_equal(lstat(name, &stat), 0);
		assert_int_equal(stat.st_mode & 0777, 0600);
		nr++;
	}
	closedir(directory);
	assert_true(nr >= 2);
}

static void name_of(char *name, size_t length, const char *file)
{
	snprintf(name, length, "%s/%s", folder, file);
}

/* One that is damaged is not taken for none. */
static void test_damaged_redo_log_is_refused(void **state)
{
	struct metastore *store = *state;
	static uint8_t zeros[1 << 20];
	char name[512];
	int fd;

	store->ops->close(store);
	*state = NULL;
	name_of(name, sizeof(name), "redo.log");
	fd = open(name, O_WRONLY);
	assert_int_equal(pwrite(fd, zeros, sizeof(zeros), 0), sizeof(zeros));
	close(fd);
	assert_int_equal(metastore_lmdb_open(folder, SIZE, &store), -EILSEQ);
	assert_non_null(strstr(afar_last_error(), "redo.log: it is damaged"));
}

/* Leaves the store as a manager does that is killed after so many commits. */
static void commit_and_die(struct metastore *store, unsigned nr)
{
	char key[32];
	pid_t child;
	int status;

	store->ops->close(store);
	child = fork_child();
	if (child == 0) {
		if (metastore_lmdb_open(folder, SIZE, &store) < 0)
			_exit(1);
		for (unsigned i = 0; i < nr; i++) {
			snprintf(key, sizeof(key), "key%u", i);
			if (put(store, key, "1") < 0)
				_exit(1);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Changes a bit of each place where the log has these bytes. */
static void damage_log(const char *bytes)
{
	static uint8_t log[8 << 20];
	const size_t length = strlen(bytes);
	unsigned nr = 0;
	char name[512];
	ssize_t size;
	int fd;

	name_of(name, sizeof(name), "redo.log");
	fd = open(name, O_RDWR);
	size = pread(fd, log, sizeof(log), 0);
	assert_in_range(size, 1, sizeof(log) - 1);
	for (size_t i = 0; i + length <= (size_t)size; i++)
		if (memcmp(log + i, bytes, length) == 0) {
			log[i] ^= 1;
			nr++;
		}
	assert_true(nr > 0);
	assert_int_equal(pwrite(fd, log, (size_t)size, 0), size);
	close(fd);
}

/* Records behind one that is damaged were acknowledged, so it was, too. */
static void test_damaged_record_is_no_end(void **state)
{
	struct metastore *store = *state;

	*state = NULL;
	commit_and_die(store, 5);
	damage_log("key2");
	assert_int_equal(metastore_lmdb_open(folder, SIZE, &store), -EILSEQ);
	damage_log("jey2");
	assert_int_equal(metastore_lmdb_open(folder, SIZE, &store), 0);
	*state = store;
	assert_value(store, "key4", "1");
}

/* A program that opens the store's file shares this lock. */
static bool lock_as_reader(void)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
	char name[512];
	int fd;

	name_of(name, sizeof(name), "lock.mdb");
	fd = open(name, O_RDWR);
	return fd >= 0 && fcntl(fd, F_SETLK, &lock) == 0;
}

/* Which head of the file counts is remembered for all who have it open. */
static void test_reader_of_another_program(void **state)
{
	struct metastore *store = *state;
	int from_child[2], to_child[2], status;
	pid_t child;
	char word;

	*state = NULL;
	commit_and_die(store, 2);
	assert_int_equal(pipe(from_child), 0);
	assert_int_equal(pipe(to_child), 0);
	child = fork_child();
	if (child == 0) {
		close(to_child[1]);
		if (!lock_as_reader() || write(from_child[1], "r", 1) != 1)
			_exit(1);
		_exit(read(to_child[0], &word, 1) == 0 ? 0 : 1);
	}
	assert_int_equal(read(from_child[0], &word, 1), 1);
	assert_int_equal(metastore_lmdb_open(folder, SIZE, &store), -EBUSY);
	assert_non_null(strstr(afar_last_error(), "has its data.mdb open"));
	close(to_child[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(to_child[0]);
	close(from_child[0]);
	close(from_child[1]);
	assert_int_equal(metastore_lmdb_open(folder, SIZE, &store), 0);
	*state = store;
	assert_value(store, "key1", "1");
}

static void test_bad_folder_and_size(void **state)
{
	struct metastore *second;

	(void)state;
	assert_int_equal(metastore_lmdb_open("/nonexistent/folder", SIZE, &second), -ENOENT);
	assert_non_null(strstr(afar_last_error(), "/nonexistent/folder"));
	assert_int_equal(metastore_lmdb_open(folder, 1, &second), -EINVAL);
}

/* ---- A child that commits, killed */

/* Each commit i puts two keys: both or none must be there. Says i when it is done. */
static void commit_for_ever(int pipe_fd)
{
	struct metastore *store;
	char first[32], second[32];

	if (metastore_lmdb_open(folder, SIZE, &store) < 0)
		_exit(1);
	for (uint32_t i = 0;; i++) {
		struct meta_put puts[2];

		snprintf(first, sizeof(first), "first%08u", i);
		snprintf(second, sizeof(second), "second%08u", i);
		puts[0] = (struct meta_put){bytes(first), bytes("1")};
		puts[1] = (struct meta_put){bytes(second), bytes("2")};
		if (store->ops->commit(store, NULL, 0, puts, 2, NULL, 0) < 0 ||
		    write(pipe_fd, &i, sizeof(i)) != sizeof(i))
			_exit(1);
	}
}

static int count(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	(void)key;
	(void)value;
	(*(uint32_t *)argument)++;
	return 0;
}

static void test_kill_loses_nothing_acknowledged(void **state)
{
	struct metastore *store = *state;
	uint32_t nr_first = 0, nr_second = 0, last = 0, i;
	int pipe_fds[2], status;
	pid_t child;

	store->ops->close(store);
	*state = NULL;
	for (uint32_t wanted = 20; wanted <= 100; wanted += 40) {
		remove_files();
		assert_int_equal(pipe(pipe_fds), 0);
		child = fork_child();
		if (child == 0) {
			close(pipe_fds[0]);
			commit_for_ever(pipe_fds[1]);
		}
		close(pipe_fds[1]);
		do {
			assert_int_equal(read(pipe_fds[0], &last, sizeof(last)), sizeof(last));
		} while (last < wanted);
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status));
		while (read(pipe_fds[0], &i, sizeof(i)) == sizeof(i))
			last = i;
		close(pipe_fds[0]);

		assert_int_equal(metastore_lmdb_open(folder, SIZE, &store), 0);
		nr_first = nr_second = 0;
		range_all(store, "first", count, &nr_first);
		range_all(store, "second", count, &nr_second);
		assert_int_equal(nr_first, nr_second);
		assert_true(nr_first >= last + 1);
		store->ops->close(store);
	}
	assert_int_equal(metastore_lmdb_open(folder, SIZE, &store), 0);
	*state = store;
}

/* ---- A full store */

/* Puts values of one length until that is refused. */
static int fill(struct metastore *store, size_t length, uint32_t *nr_filled)
{
	static char value[2000];
	int rc = 0;

	while (*nr_filled < 100000 && rc == 0) {
		char key[32];
		struct meta_put one;

		snprintf(key, sizeof(key), "fill%08u", *nr_filled);
		one = (struct meta_put){bytes(key), {value, length}};
		rc = store->ops->commit(store, NULL, 0, &one, 1, NULL, 0);
		*nr_filled += rc == 0;
	}
	return rc;
}

static int delete_every_second(struct metastore *store, uint32_t nr_filled)
{
	struct meta_bytes *names = calloc(nr_filled, sizeof(*names));
	char(*keys)[32] = calloc(nr_filled, sizeof(*keys));
	size_t nr = 0;
	int rc;

	for (uint32_t i = 0; i < nr_filled; i += 2) {
		snprintf(keys[nr], sizeof(keys[nr]), "fill%08u", i);
		names[nr] = bytes(keys[nr]);
		nr++;
	}
	rc = store->ops->commit(store, NULL, 0, NULL, 0, names, nr);
	free(keys);
	free(names);
	return rc;
}

static void test_full_store_works_on(void **state)
{
	struct metastore *store = *state;
	uint32_t nr_filled = 0, nr = 0, again = 0;

	store->ops->close(store);
	*state = NULL;
	remove_files();
	assert_int_equal(metastore_lmdb_open(folder, (size_t)512 << 10, &store), 0);
	*state = store;

	/* To the brim: until not even one byte is taken. */
	for (size_t length = 2000; length >= 1; length /= 10) {
		assert_int_equal(fill(store, length, &nr_filled), -ENOSPC);
		assert_non_null(strstr(afar_last_error(), "limit"));
	}
	assert_true(nr_filled > 50);
	range_all(store, "fill", count, &nr);
	assert_int_equal(nr, nr_filled);

	/* Deleting works though it is full: what touches all of it at once, and the rest one by one. */
	assert_int_equal(delete_every_second(store, nr_filled), 0);
	for (uint32_t i = 1; i < nr_filled; i += 2) {
		struct meta_bytes name;
		char key[32];

		snprintf(key, sizeof(key), "fill%08u", i);
		name = bytes(key);
		assert_int_equal(store->ops->commit(store, NULL, 0, NULL, 0, &name, 1), 0);
	}
	nr = 0;
	range_all(store, "fill", count, &nr);
	assert_int_equal(nr, 0);
	assert_int_equal(put(store, "another", "1"), 0);
	assert_value(store, "another", "1");
	/* And the space can be used again, not more than before. */
	assert_int_equal(fill(store, 2000, &again), -ENOSPC);
	assert_true(again > 50);
	store->ops->close(store);
	assert_int_equal(metastore_lmdb_open(folder, (size_t)512 << 10, &store), 0);
	*state = store;
	assert_value(store, "another", "1");
}

TEST_GROUP(metastore)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_range_is_ordered_and_has_the_prefix, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_binary_keys_sort_as_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_compare_fails_and_nothing_is_done, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_bad_keys_are_refused_and_nothing_is_done,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_second_opener_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(test_files_are_private, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged_redo_log_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged_record_is_no_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reader_of_another_program, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_folder_and_size, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kill_loses_nothing_acknowledged, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_full_store_works_on, setup, teardown),
	};
	int failed;

	if (mkdtemp(folder) == NULL)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(folder);
	return failed;
}
