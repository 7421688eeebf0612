/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Damage to the files of a metastore: flipped bits, files that are cut, missing, or of another time. Whatever is found, nothing wrong
 * is read. Then stores from before records had sums, which get them.
 */
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <malloc.h>
#include <setjmp.h>
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

#include "base/checksum.h"
#include "lib/base/child.h"
#include "lib/base/effort.h"
#include "manager/metastore/metastore.h"
#include "manager/metastore/redo.h"
#include "unit/group.h"

#define SIZE	  ((size_t)4 << 20)
#define NR_PAIRS  260U
#define VALUE_MAX 9000U

static char folder[] = "/dev/shm/afar-test-damage-XXXXXX";

/* ---- What is in the store */

static struct meta_bytes key_at(unsigned i, char key[32])
{
	snprintf(key, 32, "%c%08u%s", 'A' + i % 5, i, i % 3 == 0 ? "name" : "");
	return (struct meta_bytes){key, strlen(key)};
}

/* Some have pages of their own. */
static struct meta_bytes value_at(unsigned i, uint8_t value[VALUE_MAX])
{
	size_t length = i % 40 == 7 ? VALUE_MAX - i : i % 60;

	for (size_t j = 0; j < length; j++)
		value[j] = (uint8_t)(i * 7 + j * 13);
	return (struct meta_bytes){value, length};
}

/* Puts pairs, in one commit. */
static void put_some(struct metastore *store, unsigned from, unsigned to, unsigned step)
{
	static uint8_t values[NR_PAIRS + 20][VALUE_MAX];
	static char keys[NR_PAIRS + 20][32];
	struct meta_put puts[NR_PAIRS + 20];
	size_t nr = 0;

	for (unsigned i = from; i < to; i += step)
		puts[nr++] = (struct meta_put){key_at(i, keys[i]), value_at(i, values[i])};
	assert_int_equal(store->ops->commit(store, NULL, 0, puts, nr, NULL, 0), 0);
}

static void put(struct metastore *store, unsigned i)
{
	put_some(store, i, i + 1, 1);
}

static struct metastore *open_store(void)
{
	struct metastore *store = NULL;

	assert_int_equal(metastore_lmdb_open(folder, SIZE, &store), 0);
	return store;
}

static void path_of(const char *file, char path[128])
{
	snprintf(path, 128, "%s/%s", folder, file);
}

static void fill(struct metastore *store)
{
	struct meta_bytes keys[20];
	char text[20][32];

	put_some(store, 0, NR_PAIRS + 20, 1);
	for (unsigned i = 0; i < 20; i++) /* leaves pages that are free */
		keys[i] = key_at(NR_PAIRS + i, text[i]);
	assert_int_equal(store->ops->commit(store, NULL, 0, NULL, 0, keys, 20), 0);
}

struct seen {
	unsigned nr;
	bool is_wrong;
};

static bool is_right(struct meta_bytes key, struct meta_bytes value)
{
	static uint8_t wanted[VALUE_MAX];
	unsigned i =
		key.length < 9 ? NR_PAIRS : (unsigned)strtoul((const char *)key.data + 1, NULL, 10);
	struct meta_bytes expected;
	char text[32];

	if (i >= NR_PAIRS)
		return false;
	expected = key_at(i, text);
	if (expected.length != key.length || memcmp(text, key.data, key.length) != 0)
		return false;
	expected = value_at(i, wanted);
	return expected.length == value.length && memcmp(wanted, value.data, value.length) == 0;
}

static int see(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	struct seen *seen = argument;
	char copy[64] = "";

	memcpy(copy, key.data, key.length < sizeof(copy) ? key.length : sizeof(copy) - 1);
	seen->nr++;
	seen->is_wrong |= !is_right((struct meta_bytes){copy, key.length}, value);
	return 0;
}

/* Reads all, each by itself and together. Returns how many are damaged, which are told to be that. */
static unsigned read_all(struct metastore *store)
{
	const struct meta_bytes none = {"", 0};
	struct seen seen = {0};
	unsigned nr_damaged = 0;
	int ret;

	for (unsigned i = 0; i < NR_PAIRS; i++) {
		struct meta_bytes key;
		char text[32];
		size_t length;
		void *value;

		key = key_at(i, text);
		ret = store->ops->get(store, key, &value, &length);
		if (ret == -EBADMSG) {
			nr_damaged++;
			continue;
		}
		assert_int_equal(ret, 0);
		assert_true(is_right(key, (struct meta_bytes){value, length}));
		free(value);
	}
	ret = store->ops->range(store, none, none, SIZE_MAX, see, &seen);
	assert_false(seen.is_wrong);
	assert_int_equal(ret, nr_damaged ? -EBADMSG : 0);
	if (nr_damaged == 0)
		assert_int_equal(seen.nr, NR_PAIRS);
	return nr_damaged;
}

/* ---- Files */

struct file {
	const char *name;
	uint8_t *bytes;
	size_t length;
};

static void read_file(struct file *file)
{
	struct stat stat;
	char path[128];
	int fd;

	path_of(file->name, path);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &stat), 0);
	file->length = (size_t)stat.st_size;
	file->bytes = realloc(file->bytes, file->length + 1);
	assert_int_equal(pread(fd, file->bytes, file->length, 0), file->length);
	close(fd);
}

static void write_file(const struct file *file)
{
	char path[128];
	int fd;

	path_of(file->name, path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, file->bytes, file->length, 0), file->length);
	close(fd);
}

static struct file data = {.name = "data.mdb"}, redo = {.name = "redo.log"};

static void remove_files(void)
{
	static const char *const names[] = {"data.mdb",	    "data.mdb.new", "redo.log",
					    "redo.log.new", "lock.mdb",	    "manager.lock"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[128];

		path_of(names[i], path);
		unlink(path);
	}
}

/* Makes a store, as one leaves it that is closed, or that is killed some commits after a checkpoint. */
static void make_store(bool is_killed)
{
	struct metastore *store;
	pid_t child;
	int status;

	remove_files();
	store = open_store();
	fill(store);
	store->ops->close(store);
	if (is_killed) {
		child = fork_child();
		if (child == 0) {
			store = open_store();
			put_some(store, 0, NR_PAIRS, 70);
			put_some(store, 1, NR_PAIRS, 50);
			_exit(0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	read_file(&data);
	read_file(&redo);
}

static void count_found(void *argument, struct meta_bytes key, const char *sentence)
{
	(void)key;
	assert_non_null(sentence);
	++*(unsigned *)argument;
}

/* Opens what is there: it is refused with a line, or right but for what is told to be damaged. */
static bool try_store(void)
{
	unsigned nr_found = 0, nr_damaged;
	struct metastore *store;
	int64_t checked;
	int ret;

	checked = metastore_lmdb_check(folder, count_found, &nr_found);
	ret = metastore_lmdb_open(folder, SIZE, &store);
	if (ret < 0) {
		assert_true(ret == -EBADMSG || ret == -EILSEQ);
		assert_non_null(strstr(afar_last_error(), folder));
		assert_true(checked < 0 || nr_found != 0);
		return false;
	}
	nr_damaged = read_all(store);
	if (nr_damaged == 0) { /* what is free is written to, and nothing else */
		put_some(store, 0, NR_PAIRS, 9);
		assert_int_equal(read_all(store), 0);
	}
	store->ops->close(store);
	if (nr_damaged != 0)
		assert_int_equal(nr_found, nr_damaged);
	return nr_damaged == 0;
}

/* ---- Flips */

/* Flips one bit of each `step` bytes of a file. Returns how many had an effect. */
static unsigned flip_each(struct file *file, size_t step, size_t end)
{
	unsigned nr = 0;

	for (size_t i = 0; i < file->length && i < end; i += step) {
		uint8_t bit = (uint8_t)(1U << random() % 8);

		file->bytes[i] ^= bit;
		write_file(&data);
		write_file(&redo);
		nr += !try_store();
		file->bytes[i] ^= bit;
	}
	return nr;
}

static void flip_data(bool is_killed)
{
	const size_t step = test_effort(797, 397, 3);
	unsigned nr;

	make_store(is_killed);
	assert_in_range(data.length, 20 * 4096, 100 * 4096);
	nr = flip_each(&data, step, SIZE_MAX);
	/* Most of the file is in use. */
	assert_in_range(nr, data.length / step / 4, data.length / step);
	write_file(&data);
	write_file(&redo);
	assert_true(try_store());
}

static void test_flips_in_a_closed_store(void **state)
{
	(void)state;
	flip_data(false);
}

static void test_flips_in_a_killed_store(void **state)
{
	(void)state;
	flip_data(true);
}

/* The header, what LMDB's heads were, and the first records. */
static void test_flips_in_the_log(void **state)
{
	(void)state;
	make_store(true);
	flip_each(&redo, test_effort(4001, 2003, 11), 2 * (4096 + REDO_HEADS_MAX) + 20 * 4096);
}

/* ---- Files that are not what they were */

static void test_cut_files(void **state)
{
	size_t whole;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		make_store(i == 1);
		whole = data.length;
		for (data.length = 0; data.length < whole;
		     data.length += 4096 - data.length / 8192) {
			bool is_right;

			write_file(&data);
			write_file(&redo);
			is_right = try_store();
			assert_false(is_right &&
				     i == 0); /* what came after a checkpoint is in the log */
		}
	}
}

static void test_missing_files(void **state)
{
	struct metastore *store;
	char path[128];

	(void)state;
	make_store(false);
	path_of("data.mdb", path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(metastore_lmdb_open(folder, SIZE, &store), -EBADMSG);
	assert_non_null(strstr(afar_last_error(), "data.mdb is missing"));
	write_file(&data);
	path_of("redo.log", path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(metastore_lmdb_open(folder, SIZE, &store), -EBADMSG);
	assert_non_null(strstr(afar_last_error(), "redo.log is missing"));
	write_file(&redo);
	assert_true(try_store());
}

/* One file is that of a copy. */
static void test_files_of_two_times(void **state)
{
	struct file old_data = {.name = "data.mdb"}, old_redo = {.name = "redo.log"};
	struct metastore *store;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		make_store(i == 1);
		read_file(&old_data);
		read_file(&old_redo);
		store = open_store();
		put(store, 3);
		put(store, NR_PAIRS + 1);
		store->ops->close(store);
		write_file(&old_data);
		assert_int_equal(metastore_lmdb_open(folder, SIZE, &store), -EBADMSG);
		assert_non_null(strstr(afar_last_error(), "put the whole folder back"));
		write_file(&old_redo);
		assert_true(try_store());
	}
	free(old_data.bytes);
	free(old_redo.bytes);
}

/* A file that is copied while it is written. */
static void test_hot_copy(void **state)
{
	struct metastore *store;

	(void)state;
	make_store(false);
	for (unsigned i = 0; i < 20; i++) {
		write_file(&data);
		write_file(&redo);
		store = open_store();
		put(store, i);
		read_file(&data);
		for (unsigned j = 0; j < 2 * NR_PAIRS; j++)
			put(store, j % NR_PAIRS);
		read_file(&redo);
		store->ops->close(store);
		write_file(&data);
		write_file(&redo);
		try_store();
		make_store(false);
	}
}

/* ---- Stores without sums */

static void old_change(MDB_txn *txn, MDB_dbi table, unsigned i)
{
	static uint8_t bytes[VALUE_MAX];
	struct meta_bytes value;
	char text[32];
	MDB_val name = {0, text}, stored;

	name.mv_size = key_at(i, text).length;
	value = value_at(i, bytes);
	stored = (MDB_val){value.length, bytes};
	assert_int_equal(mdb_put(txn, table, &name, &stored, 0), 0);
}

static void make_old_data(void)
{
	MDB_txn *txn;
	MDB_dbi table;
	MDB_env *env;

	remove_files();
	assert_int_equal(mdb_env_create(&env), 0);
	assert_int_equal(mdb_env_set_mapsize(env, SIZE), 0);
	assert_int_equal(mdb_env_open(env, folder, MDB_NOTLS, 0600), 0);
	assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
	assert_int_equal(mdb_dbi_open(txn, NULL, 0, &table), 0);
	for (unsigned i = 1; i < NR_PAIRS - 1; i++)
		old_change(txn, table, i);
	assert_int_equal(mdb_txn_commit(txn), 0);
	mdb_env_close(env);
	read_file(&data);
}

/* The header of a log had 48 bytes, the last 4 of no use, a sum before those, and another name. */
static void make_log_old(void)
{
	read_file(&redo);
	for (size_t slot = 0; slot < 2; slot++) {
		uint8_t *header = redo.bytes + slot * (4096 + REDO_HEADS_MAX);
		uint32_t length, sum;

		if (header[7] == 0 && header[6] == 0)
			continue;
		header[7] = '1';
		memcpy(&length, header + 32, sizeof(length));
		memmove(header + 48, header + 64, length);
		memset(header + 40, 0, 8);
		sum = checksum_crc32c_seeded(checksum_crc32c(header, 48), header + 48, length);
		memcpy(header + 40, &sum, sizeof(sum));
	}
	write_file(&redo);
}

/* A store of that time, whose last records are in the log alone. */
static void make_old_store(void)
{
	static uint8_t values[2][VALUE_MAX];
	struct redo_checkpoint checkpoint = {.length = 8192};
	struct meta_put puts[2];
	struct redo_log *log;
	char keys[2][32];

	make_old_data();
	checkpoint.heads = data.bytes;
	checkpoint.file_bytes = data.length;
	assert_int_equal(redo_make(folder, &checkpoint, &log), 0);
	puts[0] = (struct meta_put){key_at(0, keys[0]), value_at(0, values[0])};
	puts[1] =
		(struct meta_put){key_at(NR_PAIRS - 1, keys[1]), value_at(NR_PAIRS - 1, values[1])};
	assert_int_equal(redo_append(log, puts, 2, NULL, 0), 0);
	redo_close(log);
	make_log_old();
}

static void test_old_store_gets_sums(void **state)
{
	struct file old_data = {.name = "data.mdb"};
	char path[128], new_path[128];
	unsigned nr_found = 0;

	(void)state;
	make_old_store();
	read_file(&old_data);
	assert_int_equal(metastore_lmdb_check(folder, count_found, &nr_found), NR_PAIRS - 2);
	assert_int_equal(nr_found, 0);
	assert_true(try_store());
	read_file(&data);
	assert_true(try_store());
	/* Its manager had ended before the new file was renamed. */
	path_of("data.mdb", path);
	path_of("data.mdb.new", new_path);
	make_old_store();
	old_data.name = "data.mdb.new"; /* before the log was replaced */
	old_data.length /= 2;
	write_file(&old_data);
	assert_true(try_store());
	assert_int_equal(access(new_path, F_OK), -1);
	free(old_data.bytes);
}

static int fail_to_take(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	(void)argument;
	(void)key;
	(void)value;
	return -ENOSPC;
}

/* Values may be keys: none stays in the log's memory, also if a record could not be written, or not be taken. */
static void test_log_keeps_no_values(void **state)
{
	static const char secret[] = "a value that is a secret";
	static uint8_t large[2 << 20];
	const struct redo_checkpoint checkpoint = {.heads = large, .length = 8192};
	const struct meta_put puts[] = {{{"a", 1}, {secret, sizeof(secret)}},
					{{"b", 1}, {large, sizeof(large)}}};
	struct redo_log *log;

	(void)state;
	assert_int_equal(redo_make(folder, &checkpoint, &log), 0);
#define EXPECT_NONE() assert_null(memmem(log, malloc_usable_size(log), secret, sizeof(secret)))
	assert_int_equal(redo_append(log, puts, 2, NULL, 0), -E2BIG);
	EXPECT_NONE();
	assert_int_equal(redo_append(log, puts, 1, NULL, 0), 0);
	EXPECT_NONE();
	assert_int_equal(redo_append(log, puts, 2, NULL, 0), -ENOBUFS);
	EXPECT_NONE();
	redo_close(log);
	assert_int_equal(redo_open(folder, &log), 0);
	assert_int_equal(redo_replay(log, fail_to_take, NULL), -ENOSPC);
	EXPECT_NONE();
	redo_close(log);
#undef EXPECT_NONE
}

/* The new log is there, and the new file not yet renamed. */
static void test_old_store_is_half_renewed(void **state)
{
	struct file old_data = {.name = "data.mdb"};
	struct metastore *store;

	(void)state;
	make_old_store();
	read_file(&old_data);
	store = open_store();
	store->ops->close(store);
	read_file(&data);
	data.name = "data.mdb.new";
	write_file(&data);
	data.name = "data.mdb";
	write_file(&old_data);
	assert_true(try_store());
	free(old_data.bytes);
}

static void test_store_from_before_logs(void **state)
{
	struct metastore *store;
	struct meta_bytes key;
	char text[32];
	size_t length;
	void *value;

	(void)state;
	make_old_data();
	store = open_store();
	key = key_at(5, text);
	assert_int_equal(store->ops->get(store, key, &value, &length), 0);
	assert_true(is_right(key, (struct meta_bytes){value, length}));
	free(value);
	put(store, 0);
	put(store, NR_PAIRS - 1);
	store->ops->close(store);
	assert_true(try_store());
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	remove_files();
	free(data.bytes);
	free(redo.bytes);
	return rmdir(folder);
}

TEST_GROUP(metastore_damage)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flips_in_a_closed_store),
		cmocka_unit_test(test_flips_in_a_killed_store),
		cmocka_unit_test(test_flips_in_the_log),
		cmocka_unit_test(test_cut_files),
		cmocka_unit_test(test_missing_files),
		cmocka_unit_test(test_files_of_two_times),
		cmocka_unit_test(test_hot_copy),
		cmocka_unit_test(test_old_store_gets_sums),
		cmocka_unit_test(test_old_store_is_half_renewed),
		cmocka_unit_test(test_log_keeps_no_values),
		cmocka_unit_test(test_store_from_before_logs),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
