/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The metastore on a disk that loses its power. When it is opened again, all that was acknowledged is there, and
 * nothing else but what was being committed, wholly.
 *
 * This program stands between the store, with LMDB, and the C library. It knows of each file what was synced, and
 * what was written to each sector since. When the power goes, each sector has one of these contents, by the dice.
 * They are noted in the middle of a call; the call ends, and the next store begins with them. The power goes
 * while a store is opened, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include <afar/error.h>

#include "lib/base/effort.h"
#include "manager/metastore/metastore.h"

#define SECTOR	   ((size_t)512)
#define FILE_MAX   ((size_t)16 << 20)
#define NR_SECTORS (FILE_MAX / SECTOR)
#define NR_FILES   2
#define STORE_MAX  ((size_t)3 << 20)
#define NR_KEYS	   48U
#define VALUE_MAX  ((size_t)300 << 10)

/* ---- The disk */

struct write_of_sector {
	struct write_of_sector *older;
	uint8_t bytes[SECTOR];
};

static struct file {
	const char *name;
	ino_t inode; /* 0: is not written by anybody now */
	uint8_t *durable;
	size_t length;			 /* as of the last write: a sync makes it durable, too */
	struct write_of_sector **writes; /* of each sector, since it was synced */
	uint8_t *survives;		 /* the power cut */
	size_t length_survives;
} files[NR_FILES] = {{.name = "data.mdb"}, {.name = "redo.log"}};

static char folder[] = "/dev/shm/afar-test-power-XXXXXX";
static bool is_traced;
static uint64_t nr_events, cut_at;
static bool has_cut;
static bool may_refuse;	    /* the disk has no room for a page, now and then */
static unsigned log_fails;  /* the how many-th write of the log from now fails; 0: none */
static unsigned nr_failing; /* so many, one after the other */
static bool does_sync_fail;

static void cut_power(void)
{
	for (int i = 0; i < NR_FILES; i++) {
		struct file *file = &files[i];

		memcpy(file->survives, file->durable, file->length);
		file->length_survives = file->length;
		for (size_t s = 0; s < NR_SECTORS; s++)
			for (struct write_of_sector *w = file->writes[s]; w; w = w->older)
				if (random() % 2) {
					memcpy(file->survives + s * SECTOR, w->bytes, SECTOR);
					break;
				}
	}
	has_cut = true;
}

static void count_event(void)
{
	if (++nr_events == cut_at)
		cut_power();
}

static struct file *find_file(int fd)
{
	struct stat stat;

	if (!is_traced || fstat(fd, &stat) < 0)
		return NULL;
	for (int i = 0; i < NR_FILES; i++)
		if (files[i].inode == stat.st_ino)
			return &files[i];
	return NULL;
}

static void forget_writes(struct file *file, size_t sector)
{
	struct write_of_sector *write = file->writes[sector], *older;

	file->writes[sector] = NULL;
	for (; write; write = older) {
		older = write->older;
		free(write);
	}
}

static void sync_sectors(struct file *file, size_t first, size_t end)
{
	for (size_t s = first; s < end; s++) {
		if (file->writes[s])
			memcpy(file->durable + s * SECTOR, file->writes[s]->bytes, SECTOR);
		forget_writes(file, s);
	}
}

static void note_write(struct file *file, const uint8_t *bytes, size_t length, size_t offset)
{
	const size_t end = offset + length;

	assert_true(end <= FILE_MAX);
	while (offset < end) {
		struct write_of_sector *write = calloc(1, sizeof(*write));
		size_t sector = offset / SECTOR, within = offset % SECTOR;
		size_t some = SECTOR - within < end - offset ? SECTOR - within : end - offset;

		/* The rest of it is as it was. */
		memcpy(write->bytes,
		       file->writes[sector] ? file->writes[sector]->bytes
					    : file->durable + sector * SECTOR,
		       SECTOR);
		memcpy(write->bytes + within, bytes, some);
		write->older = file->writes[sector];
		file->writes[sector] = write;
		bytes += some;
		offset += some;
	}
	if (file->length < end)
		file->length = end;
}

/* Returns whether this write is to fail: a page of LMDB's, for which the disk has no room. */
static bool is_refused(const struct file *file, off_t offset)
{
	const bool is_head = offset < 2 * 4096;

	return file == &files[0] && !is_head && may_refuse && random() % 40 == 0;
}

static bool does_log_fail(void)
{
	if (log_fails == 0 || --log_fails > 0)
		return false;
	log_fails = --nr_failing > 0;
	return true;
}

static ssize_t fail_with(int error)
{
	errno = error;
	return -1;
}

/* The store and LMDB call these. */
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset)
{
	struct file *file = find_file(fd);
	ssize_t n;

	if (is_refused(file, offset))
		return fail_with(ENOSPC);
	if (file == &files[1] && does_log_fail()) {
		if (random() % 2)
			syscall(SYS_pwrite64, fd, data, length, offset);
		return fail_with(EIO);
	}
	n = syscall(SYS_pwrite64, fd, data, length, offset);
	if (!file || n < 0)
		return n;
	note_write(file, data, (size_t)n, (size_t)offset);
	count_event();
	if (fcntl(fd, F_GETFL) & O_DSYNC)
		sync_sectors(file, (size_t)offset / SECTOR,
			     ((size_t)offset + (size_t)n + SECTOR - 1) / SECTOR);
	return n;
}

/* LMDB's calls have the older name; this program's have pwrite64. */
ssize_t pwrite_of_lmdb(int fd, const void *data, size_t length, off_t offset) __asm__("pwrite");

ssize_t pwrite_of_lmdb(int fd, const void *data, size_t length, off_t offset)
{
	return pwrite(fd, data, length, offset);
}

ssize_t writev(int fd, const struct iovec *iov, int nr)
{
	struct file *file = find_file(fd);
	off_t offset = file ? lseek(fd, 0, SEEK_CUR) : 0;
	size_t left;
	ssize_t n;

	if (is_refused(file, offset))
		return fail_with(ENOSPC);
	n = syscall(SYS_writev, fd, iov, nr);
	left = n > 0 ? (size_t)n : 0;
	for (int i = 0; file && i < nr && left; i++) {
		size_t length = left < iov[i].iov_len ? left : iov[i].iov_len;

		note_write(file, iov[i].iov_base, length, (size_t)offset);
		offset += (off_t)length;
		left -= length;
	}
	if (file)
		count_event();
	return n;
}

int fdatasync(int fd)
{
	struct file *file = find_file(fd);

	if (!file)
		return 0;
	if (does_sync_fail)
		return (int)fail_with(EIO);
	count_event();
	sync_sectors(file, 0, NR_SECTORS);
	return 0;
}

/* ---- What is in the store */

struct content {
	uint32_t versions[NR_KEYS]; /* 0: no such key */
};

static struct content acknowledged, committing;
static uint32_t next_version = 1;

/* A key's value, in `bytes`: its length and its bytes follow from key and version. */
static size_t make_value(unsigned key, uint32_t version, uint8_t *bytes)
{
	uint64_t dice = (key + 1) * 0x9e3779b97f4a7c15U + version * 0xbf58476d1ce4e5b9U;
	size_t length;

	dice ^= dice >> 29;
	length = dice % 4 == 0 ? dice / 16 % VALUE_MAX : dice / 16 % 2000;
	length += sizeof(version);
	memset(bytes, (int)(dice & 0xff), length);
	memcpy(bytes, &version, sizeof(version));
	return length;
}

static int see(void *argument, struct meta_bytes key, struct meta_bytes value)
{
	static uint8_t wanted[VALUE_MAX + 8];
	struct content *content = argument;
	unsigned index = *(const uint8_t *)key.data;
	uint32_t version;

	assert_int_equal(key.length, 1);
	assert_true(value.length >= sizeof(version));
	memcpy(&version, value.data, sizeof(version));
	assert_int_equal(make_value(index, version, wanted), value.length);
	assert_memory_equal(wanted, value.data, value.length);
	content->versions[index] = version;
	return 0;
}

static struct content read_all(struct metastore *store)
{
	struct content content = {0};
	const struct meta_bytes none = {"", 0};

	assert_int_equal(store->ops->range(store, none, none, SIZE_MAX, see, &content), 0);
	return content;
}

/* Puts or deletes `nr` keys, at random or all. */
static int commit(struct metastore *store, unsigned nr)
{
	static uint8_t keys[NR_KEYS], values[NR_KEYS][VALUE_MAX + 8];
	struct meta_put puts[NR_KEYS];
	struct meta_bytes deletes[NR_KEYS];
	size_t nr_puts = 0, nr_deletes = 0;
	bool does_delete = nr < NR_KEYS && random() % 3 == 0;

	committing = acknowledged;
	for (unsigned i = 0; i < nr; i++) {
		unsigned key = nr == NR_KEYS ? i : (unsigned)random() % NR_KEYS;
		struct meta_bytes name = {&keys[key], 1};

		keys[key] = (uint8_t)key;
		if (committing.versions[key] != acknowledged.versions[key])
			continue; /* once in a commit */
		if (does_delete) {
			deletes[nr_deletes++] = name;
			committing.versions[key] = 0;
			continue;
		}
		committing.versions[key] = next_version++;
		puts[nr_puts++] = (struct meta_put){
			name,
			{values[key], make_value(key, committing.versions[key], values[key])}};
	}
	return store->ops->commit(store, NULL, 0, puts, nr_puts, deletes, nr_deletes);
}

static int commit_some(struct metastore *store)
{
	return commit(store, random() % 40 ? 1 + (unsigned)random() % 4 : NR_KEYS);
}

/* ---- From one power cut to the next */

static void path_of(const struct file *file, char *path, size_t length)
{
	snprintf(path, length, "%s/%s", folder, file->name);
}

static void write_file(const struct file *file)
{
	char path[128];
	FILE *out;

	path_of(file, path, sizeof(path));
	out = fopen(path, "wb");
	assert_non_null(out);
	assert_int_equal(fwrite(file->survives, 1, file->length_survives, out),
			 file->length_survives);
	assert_int_equal(fclose(out), 0);
}

/* From now on what is in the folder is what the disk has. */
static void trace(void)
{
	for (int i = 0; i < NR_FILES; i++) {
		struct file *file = &files[i];
		struct stat stat;
		char path[128];
		FILE *in;

		path_of(file, path, sizeof(path));
		in = fopen(path, "rb");
		assert_non_null(in);
		assert_int_equal(fstat(fileno(in), &stat), 0);
		assert_true((size_t)stat.st_size <= FILE_MAX);
		memset(file->durable, 0, FILE_MAX);
		for (size_t s = 0; s < NR_SECTORS; s++)
			forget_writes(file, s);
		assert_int_equal(fread(file->durable, 1, FILE_MAX, in), stat.st_size);
		file->length = (size_t)stat.st_size;
		file->inode = stat.st_ino;
		fclose(in);
	}
	is_traced = true;
	has_cut = false;
	nr_events = 0;
	cut_at = 1 + (uint64_t)random() % (random() % 4 ? 40 : 400);
}

/* Commits until the power goes; the store is closed, but nobody knows. */
static void run_until_cut(uint64_t *nr_full)
{
	struct content before = acknowledged;
	struct metastore *store;
	struct content got;

	assert_int_equal(metastore_lmdb_open(folder, STORE_MAX, &store), 0);
	got = read_all(store);
	assert_memory_equal(&got, &before, sizeof(got));
	committing = acknowledged;
	while (!has_cut) {
		int ret;

		may_refuse = true;
		ret = commit_some(store);
		may_refuse = false;
		if (has_cut)
			break;
		if (ret == 0)
			acknowledged = committing;
		else
			assert_int_equal(ret, -ENOSPC);
		*nr_full += ret == -ENOSPC;
	}
	is_traced = false;
	store->ops->close(store);
}

/* The store has what it has acknowledged, and may have what it was committing. */
static void check_what_survived(void)
{
	struct metastore *store;
	struct content got;
	int ret;

	for (int i = 0; i < NR_FILES; i++)
		write_file(&files[i]);
	ret = metastore_lmdb_open(folder, STORE_MAX, &store);
	if (ret < 0)
		fail_msg("event %llu: %s", (unsigned long long)cut_at, afar_last_error());
	got = read_all(store);
	if (memcmp(&got, &committing, sizeof(got)) == 0)
		acknowledged = committing;
	assert_memory_equal(&got, &acknowledged, sizeof(got));
	store->ops->close(store);
	/* It is to be opened once more, as it was found. */
	for (int i = 0; i < NR_FILES; i++)
		write_file(&files[i]);
}

static void test_power_cuts(void **state)
{
	const uint64_t nr = test_effort(60, 100, 10000);
	struct metastore *store;
	uint64_t nr_full = 0;

	(void)state;
	srandom(11);
	assert_int_equal(metastore_lmdb_open(folder, STORE_MAX, &store), 0);
	store->ops->close(store);
	for (uint64_t i = 0; i < nr; i++) {
		trace();
		run_until_cut(&nr_full);
		check_what_survived();
	}
	assert_true(nr_full > 0);
}

/* Commits until one fails, and then once more. Returns whether that went well. */
static bool fail_once(struct metastore *store, unsigned nr_keys)
{
	const struct meta_bytes none = {"", 0};
	struct content got, failed;
	int ret;

	while ((ret = commit(store, nr_keys)) != -EIO)
		if (ret == 0)
			acknowledged = committing;
	failed = committing;
	/* Nothing was done; or nothing can be read. */
	got = (struct content){0};
	ret = store->ops->range(store, none, none, SIZE_MAX, see, &got);
	assert_true(ret == -EIO || (ret == 0 && memcmp(&got, &acknowledged, sizeof(got)) == 0));
	ret = commit(store, 2);
	if (ret == 0) {
		acknowledged = committing;
		return true;
	}
	assert_int_equal(ret, -EIO);
	assert_non_null(strstr(afar_last_error(), "restart the manager"));
	committing = failed;
	return false;
}

/* A commit that the log does not take is refused, and does not come back. If it cannot be said whether it will, nothing is
 * committed any more. */
static void test_disk_fails(void **state)
{
	unsigned nr_going_on = 0, nr_come_back = 0;
	const unsigned nr = 120;

	(void)state;
	for (unsigned i = 0; i < nr; i++) {
		struct metastore *store;
		struct content got;
		bool is_going_on;

		assert_int_equal(metastore_lmdb_open(folder, 3 * STORE_MAX, &store), 0);
		acknowledged = read_all(store);
		trace();
		cut_at = 0;
		log_fails = i % 6 == 5 ? 0 : 1 + i % 5;
		does_sync_fail = !log_fails;
		nr_failing = 1 + i / 6 % 2;
		is_going_on = fail_once(store, i % 4 == 0 ? NR_KEYS : 2);
		nr_going_on += is_going_on;
		is_traced = does_sync_fail = false;
		log_fails = 0;
		store->ops->close(store);
		assert_int_equal(metastore_lmdb_open(folder, 3 * STORE_MAX, &store), 0);
		got = read_all(store);
		if (!is_going_on && memcmp(&got, &acknowledged, sizeof(got)) != 0) {
			nr_come_back++;
			acknowledged = committing;
		}
		assert_memory_equal(&got, &acknowledged, sizeof(got));
		store->ops->close(store);
	}
	assert_in_range(nr_going_on, 1, nr - 1);
	assert_in_range(nr_come_back, 1, nr - 1);
}

static int start(void **state)
{
	(void)state;
	for (int i = 0; i < NR_FILES; i++) {
		files[i].durable = calloc(1, FILE_MAX);
		files[i].survives = calloc(1, FILE_MAX);
		files[i].writes = calloc(NR_SECTORS, sizeof(*files[i].writes));
		if (!files[i].durable || !files[i].survives || !files[i].writes)
			return -1;
	}
	return mkdtemp(folder) ? 0 : -1;
}

static int stop(void **state)
{
	static const char *const names[] = {"data.mdb", "lock.mdb", "manager.lock", "redo.log"};
	char path[128];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	for (int i = 0; i < NR_FILES; i++) {
		for (size_t s = 0; s < NR_SECTORS; s++)
			forget_writes(&files[i], s);
		free(files[i].durable);
		free(files[i].survives);
		free(files[i].writes);
	}
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_power_cuts),
					   cmocka_unit_test(test_disk_fails)};

	return cmocka_run_group_tests(tests, start, stop);
}
