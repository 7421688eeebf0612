/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client that may write a file system writes anywhere in its pool, and tells the manager of ends that it has no room for. It can
 * spoil that file system's bytes, as docs/files.md says. Sizes, names and other file systems stay, and nothing falls over.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include <afar/file.h>

#include "client/files/inode/fs_call.h"
#include "lib/api/api.h"

#define NR_FILES  20U
#define LENGTH(i) ((i)*7001U + 1)

static struct afar_fs *make_fs(const char *name)
{
	const struct afar_fs_policy policy = {
		.size = sizeof(policy),
		.pool = &(struct afar_policy){.size = sizeof(struct afar_policy),
					      .stripe_bytes = 64 * KIB},
	};
	struct afar_fs *fs;

	assert_int_equal(afar_fs_create(session, name, &policy, NULL), 0);
	assert_int_equal(afar_fs_open(session, name, NULL, &fs), 0);
	return fs;
}

static uint64_t root_of(struct afar_fs *fs)
{
	struct afar_fs_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_fs_stat(fs, &stat), 0);
	return stat.root;
}

static struct afar_file *make_file(struct afar_fs *fs, unsigned i)
{
	static uint8_t data[LENGTH(NR_FILES)];
	struct afar_file *file;
	char name[16];

	snprintf(name, sizeof(name), "f%u", i);
	assert_int_equal(afar_file_create(fs, NULL, root_of(fs), name, 0644, O_RDWR, &file, NULL),
			 0);
	fill(data, LENGTH(i), i);
	assert_int_equal(afar_file_pwrite(file, data, LENGTH(i), 0), LENGTH(i));
	return file;
}

static void scribble(struct afar_fs *fs)
{
	struct afar_target *pool = fs_pool(fs);
	static uint8_t noise[1 * MIB];

	fill(noise, sizeof(noise), 4711);
	for (uint64_t at = 0; at + sizeof(noise) <= pool->length; at += sizeof(noise)) {
		const struct afar_iov iov = {.addr = noise, .length = sizeof(noise)};

		assert_int_equal(
			target_transfer(pool, AFAR_OP_WRITE, 0, &iov, 1, at, sizeof(noise)), 0);
	}
}

/* Says that a file was written up to there, which nobody has. */
static int tell_end(struct afar_file *file, uint64_t end)
{
	Afar__FileEnd message = AFAR__FILE_END__INIT;
	Afar__FileHold operation = AFAR__FILE_HOLD__INIT;

	message.ino = file->inode->ino;
	message.end = end;
	message.layout = file->inode->layout;
	operation.what_case = AFAR__FILE_HOLD__WHAT_END;
	operation.end = &message;
	return fs_hold_one(file->fs, NULL, &operation, NULL);
}

static uint64_t size_of(struct afar_fs *fs, struct afar_file *file)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};

	assert_int_equal(afar_fs_getattr(fs, file->inode->ino, &stat), 0);
	return stat.bytes;
}

static void test_scribbled(void **state)
{
	static uint8_t got[LENGTH(NR_FILES)], wanted[LENGTH(NR_FILES)];
	struct afar_fs *spoilt = make_fs("spoilt"), *good = make_fs("good");
	struct afar_file *bad[NR_FILES], *kept[NR_FILES];
	uint64_t end;

	(void)state;
	for (unsigned i = 0; i < NR_FILES; i++) {
		bad[i] = make_file(spoilt, i);
		kept[i] = make_file(good, i);
	}
	scribble(spoilt);
	for (unsigned i = 0; i < NR_FILES; i++) {
		assert_int_equal(size_of(spoilt, bad[i]), LENGTH(i));
		assert_int_equal(afar_file_pread(bad[i], got, sizeof(got), 0), LENGTH(i));
		fill(wanted, LENGTH(i), i);
		assert_int_equal(afar_file_pread(kept[i], got, sizeof(got), 0), LENGTH(i));
		assert_memory_equal(got, wanted, LENGTH(i));
	}
	/* An end without room is as if the file had been made longer: there is a hole, and nobody's bytes. */
	for (unsigned shift = 20; shift < 64; shift += 3) {
		tell_end(bad[1], UINT64_C(1) << shift);
		end = size_of(spoilt, bad[1]);
		assert_in_range(end, LENGTH(1), UINT64_C(1) << 56);
		memset(got, 0xee, sizeof(got));
		assert_int_equal(afar_file_pread(bad[1], got, 4096, end - 4096), 4096);
		for (unsigned i = 0; i < 4096; i++)
			assert_int_equal(got[i], 0);
	}
	for (unsigned i = 0; i < NR_FILES; i++) {
		assert_int_equal(afar_file_close(bad[i]), 0);
		assert_int_equal(afar_file_close(kept[i]), 0);
	}
	assert_int_equal(afar_fs_close(spoilt), 0);
	assert_int_equal(afar_fs_close(good), 0);
	assert_int_equal(afar_fs_delete(session, "spoilt"), 0);
	assert_int_equal(afar_fs_delete(session, "good"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_scribbled)};

	return cmocka_run_group_tests_name("files_scribbled", tests, start, stop);
}
