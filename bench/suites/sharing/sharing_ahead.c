/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows on reading ahead: a file on flash, read from front to back by small blocking calls, one after the other.
 * The reference is the same without read-ahead. A mount reads ahead of all programs, so there it is the file read from its end
 * on.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "peers/fuse_mount.h"
#include "suites/sharing/sharing.h"

#define SERVER_BYTES (256 * MIB)
#define FLASH_BYTES  (512 * MIB)
#define FILE_BYTES   (64 * MIB)
#define PLAIN_BYTES  (4 * MIB) /* that the reference reads of these */
#define PIECE_MAX    MIB

struct ahead_stage {
	struct file_scene at;
	struct afar_file *advised;
	struct fuse_mount mount;
};

/* ---- The library */

static int read_library(struct ahead_stage *stage, struct afar_file *file,
			const struct bench_row *row, uint64_t bytes, double *value)
{
	const size_t size = *(const size_t *)row->parameters;
	uint64_t begin = clock_ns();

	for (uint64_t done = 0; done < bytes; done += size) {
		ssize_t nr = afar_file_pread(file, stage->at.memory, size, done);

		if (nr != (ssize_t)size)
			return scene_fail(row->name, nr < 0 ? (int)nr : -EIO);
		if (bench_is_interrupted())
			return -EINTR;
	}
	*value = (double)bytes / (double)(clock_ns() - begin);
	return 0;
}

static int run_library(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct ahead_stage *stage = state;

	(void)repetition;
	return read_library(stage, stage->advised, row, bench_bytes(FILE_BYTES, PIECE_MAX), value);
}

static int run_library_plain(void *state, const struct bench_row *row, unsigned repetition,
			     double *value)
{
	struct ahead_stage *stage = state;

	(void)repetition;
	return read_library(stage, stage->at.file, row, bench_bytes(PLAIN_BYTES, PIECE_MAX), value);
}

/* ---- A mount that passes the kernel's pages by */

/* `is_backwards`: which nobody reads ahead of. */
static int read_mount(struct ahead_stage *stage, const struct bench_row *row, uint64_t bytes,
		      bool is_backwards, double *value)
{
	const size_t size = *(const size_t *)row->parameters;
	char path[sizeof(stage->mount.place) + sizeof(FILE_NAME) + 1];
	uint64_t begin;
	int fd, ret = 0;

	snprintf(path, sizeof(path), "%s/" FILE_NAME, stage->mount.place);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return bench_fail(-errno, "%s: %s", path, strerror(errno));
	begin = clock_ns();
	for (uint64_t done = 0; done < bytes && !ret; done += size) {
		/* Every fourth piece, from the end on. */
		const uint64_t at = is_backwards ? 4 * (bytes - size - done) : done;

		if (pread(fd, stage->at.memory, size, (off_t)at) != (ssize_t)size)
			ret = errno ? -errno : -EIO;
		if (bench_is_interrupted())
			ret = -EINTR;
	}
	*value = (double)bytes / (double)(clock_ns() - begin);
	close(fd);
	return ret ? bench_fail(ret, "%s: %s", row->name, strerror(-ret)) : 0;
}

static int run_mount(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	(void)repetition;
	return read_mount(state, row, bench_bytes(FILE_BYTES / 2, PIECE_MAX), false, value);
}

static int run_mount_plain(void *state, const struct bench_row *row, unsigned repetition,
			   double *value)
{
	(void)repetition;
	return read_mount(state, row, bench_bytes(PLAIN_BYTES, PIECE_MAX), true, value);
}

/* ---- The stages */

static void teardown(void *state)
{
	struct ahead_stage *stage = state;

	if (!stage)
		return;
	fuse_mount_end(&stage->mount);
	if (stage->advised)
		afar_file_close(stage->advised);
	file_scene_end(stage);
}

static int fill(struct ahead_stage *stage)
{
	ssize_t nr = 0;

	for (uint64_t offset = 0; offset < FILE_BYTES && nr >= 0; offset += PIECE_MAX)
		nr = afar_file_pwrite(stage->at.file, stage->at.memory, PIECE_MAX, offset);
	if (nr >= 0)
		nr = afar_file_sync(stage->at.file);
	return nr < 0 ? scene_fail("fill a file", (int)nr) : 0;
}

/* The one who has written closes, and both read. */
static int open_twice(struct ahead_stage *stage)
{
	const uint64_t ino = afar_file_ino(stage->at.file);
	int ret = afar_file_close(stage->at.file);

	stage->at.file = NULL;
	if (!ret)
		ret = afar_file_open(stage->at.fs, NULL, ino, O_RDONLY, &stage->at.file);
	if (!ret)
		ret = afar_file_open(stage->at.fs, NULL, ino, O_RDONLY, &stage->advised);
	if (!ret)
		ret = afar_file_advise(stage->advised, AFAR_ADVICE_SEQUENTIAL);
	return ret ? scene_fail("open a file", ret) : 0;
}

static int begin(struct ahead_stage **out)
{
	const struct file_setting setting = {.server_bytes = SERVER_BYTES,
					     .flash_bytes = FLASH_BYTES,
					     .memory_bytes = PIECE_MAX};
	struct ahead_stage *stage;
	int ret = file_scene_make(&setting, sizeof(*stage), (void **)&stage);

	if (!ret)
		ret = fill(stage);
	if (!ret)
		ret = open_twice(stage);
	return file_scene_ready(ret, stage, teardown, (void **)out);
}

static int setup(void **state)
{
	return begin((struct ahead_stage **)state);
}

#define SIZES(name, run, run_plain, bar, bar_64)                                              \
	{"read 4 KiB ahead" name,  "GB/s", BENCH_HIGHER, "without read-ahead", bar,           \
	 &(const size_t){4 * KIB}, run,	   run_plain},                                        \
	{                                                                                     \
		"read 64 KiB ahead" name, "GB/s", BENCH_HIGHER, "without read-ahead", bar_64, \
			&(const size_t){64 * KIB}, run, run_plain                             \
	}

static const struct bench_row rows[] = {
	SIZES(", flash", run_library, run_library_plain, 4, 1),
};
const struct bench_stage sharing_ahead_stage = {setup, teardown, rows, NR_ROWS(rows)};

static struct bench_row mount_rows[] = {
	SIZES(", fuse direct, on flash", run_mount, run_mount_plain, 4, 1),
};

static int setup_mount(void **state)
{
	struct ahead_stage *stage;
	int ret;

	*state = NULL;
	if (fuse_mount_missing()) {
		bench_skip(mount_rows, NR_ROWS(mount_rows), fuse_mount_missing());
		return 0;
	}
	ret = begin(&stage);
	if (!ret)
		ret = fuse_mount_afar(&stage->mount, cluster_uri(stage->at.cluster), FILE_FS,
				      "direct");
	return file_scene_ready(ret, stage, teardown, state);
}

const struct bench_stage sharing_ahead_fuse_stage = {setup_mount, teardown, mount_rows,
						     NR_ROWS(mount_rows)};
