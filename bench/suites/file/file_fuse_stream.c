/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `file` on mounts: one file, read and written from its beginning by system calls, through
 * `afar mount`. The reference is the same through libfuse's passthrough, so both sides pay for FUSE. A file
 * system in memory is compared with passthrough over tmpfs, one on flash with passthrough over ext4.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "file.h"
#include "peers/folder.h"
#include "peers/fuse_mount.h"

#define BYTES	    (256 * MIB)
#define SMALL_BYTES (32 * MIB) /* that rows of small calls move */
#define ROOM_BYTES  (2 * BYTES)
#define FLASH_BYTES (4 * BYTES)
#define MEMORY_MAX  MIB
#define NAME	    "stream"
#define BAR	    0.9

struct fuse_stream {
	bool is_write;
	size_t size;
};

struct fuse_kind {
	uint32_t tier;
	const char *options; /* of `afar mount` */
	const char *cache;   /* of the peer */
	struct bench_row *rows;
	unsigned nr_rows;
};

struct fuse_stage {
	const struct fuse_kind *kind;
	struct cluster *cluster;
	struct folder folder; /* the peer's files */
	struct fuse_mount ours, peer;
	char *memory;
};

static bool is_flash(const struct fuse_stage *stage)
{
	return stage->kind->tier == AFAR_TIER_FLASH;
}

/* ---- Measuring */

static ssize_t move_once(int fd, const struct fuse_stream *stream, char *memory, uint64_t offset)
{
	return stream->is_write ? pwrite(fd, memory, stream->size, (off_t)offset)
				: pread(fd, memory, stream->size, (off_t)offset);
}

/* On flash a write counts when it is durable. */
static int move_all(int fd, const struct fuse_stream *stream, uint64_t bytes, char *memory,
		    bool is_durable)
{
	for (uint64_t done = 0; done < bytes; done += stream->size) {
		ssize_t nr = move_once(fd, stream, memory, done);

		if (nr != (ssize_t)stream->size)
			return nr < 0 ? -errno : -EIO;
		if (bench_is_interrupted())
			return -EINTR;
	}
	return is_durable && stream->is_write && fsync(fd) ? -errno : 0;
}

static int measure(struct fuse_stage *stage, const struct fuse_mount *mount,
		   const struct bench_row *row, double *value)
{
	const struct fuse_stream *stream = row->parameters;
	const uint64_t bytes =
		bench_bytes(stream->size < 64 * KIB ? SMALL_BYTES : BYTES, MEMORY_MAX);
	char path[sizeof(mount->place) + sizeof(NAME) + 1];
	uint64_t begin = clock_ns();
	int fd, ret;

	snprintf(path, sizeof(path), "%s/" NAME, mount->place);
	fd = open(path, (stream->is_write ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
	if (fd < 0)
		return bench_fail(-errno, "%s: %s", path, strerror(errno));
	ret = move_all(fd, stream, bytes, stage->memory, is_flash(stage));
	if (close(fd) && !ret)
		ret = -errno;
	*value = (double)bytes / (double)(clock_ns() - begin);
	return ret ? bench_fail(ret, "%s: %s", row->name, strerror(-ret)) : 0;
}

/* Has the file's bytes come from the device when they are read next, as they do from a store. */
static int forget_pages(const struct fuse_stage *stage)
{
	char path[sizeof(stage->folder.path) + sizeof(NAME) + 1];
	int fd, ret = 0;

	snprintf(path, sizeof(path), "%s/" NAME, stage->folder.path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fdatasync(fd))
		ret = -errno;
	if (!ret)
		ret = -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (fd >= 0)
		close(fd);
	return ret ? bench_fail(ret, "drop pages of %s: %s", path, strerror(-ret)) : 0;
}

static int run_afar(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	struct fuse_stage *stage = state;

	(void)repetition;
	return measure(stage, &stage->ours, row, value);
}

static int run_passthrough(void *state, const struct bench_row *row, unsigned repetition,
			   double *value)
{
	struct fuse_stage *stage = state;
	int ret = is_flash(stage) ? forget_pages(stage) : 0;

	(void)repetition;
	return ret ? ret : measure(stage, &stage->peer, row, value);
}

/* ---- The stages */

static void teardown(void *state)
{
	struct fuse_stage *stage = state;

	fuse_mount_end(&stage->ours);
	fuse_mount_end(&stage->peer);
	folder_remove(&stage->folder);
	cluster_stop(stage->cluster);
	free(stage->memory);
	free(stage);
}

static int fill(struct fuse_stage *stage, const struct fuse_mount *mount)
{
	const struct fuse_stream stream = {.is_write = true, .size = MEMORY_MAX};
	char path[sizeof(mount->place) + sizeof(NAME) + 1];
	int fd, ret;

	snprintf(path, sizeof(path), "%s/" NAME, mount->place);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ret = fd < 0 ? -errno
		     : move_all(fd, &stream, bench_bytes(BYTES, MEMORY_MAX), stage->memory, true);
	if (fd >= 0 && close(fd) && !ret)
		ret = -errno;
	return ret ? bench_fail(ret, "fill %s: %s", path, strerror(-ret)) : 0;
}

static int mount_ours(struct fuse_stage *stage)
{
	const char *const uri = cluster_uri(stage->cluster);
	int ret = file_fs_make(uri, stage->kind->tier);

	return ret ? ret : fuse_mount_afar(&stage->ours, uri, FILE_FS, stage->kind->options);
}

static int mount_peer(struct fuse_stage *stage)
{
	int ret = is_flash(stage) ? folder_make_on_ext4(&stage->folder)
				  : folder_make_on_tmpfs(&stage->folder);

	return ret ? ret
		   : fuse_mount_passthrough(&stage->peer, stage->folder.path, stage->kind->cache,
					    0);
}

static int begin(struct fuse_stage *stage)
{
	int ret = is_flash(stage) ? cluster_start_flash(1, ROOM_BYTES, FLASH_BYTES, &stage->cluster)
				  : cluster_start_over("local", 1, ROOM_BYTES, &stage->cluster);

	if (!ret)
		ret = mount_ours(stage);
	if (!ret)
		ret = mount_peer(stage);
	if (!ret)
		ret = fill(stage, &stage->ours);
	return ret ? ret : fill(stage, &stage->peer);
}

static const char *what_is_missing(const struct fuse_kind *kind)
{
	if (fuse_mount_missing())
		return fuse_mount_missing();
	if (fuse_passthrough_missing())
		return fuse_passthrough_missing();
	return kind->tier == AFAR_TIER_FLASH ? folder_ext4_missing() : folder_tmpfs_missing();
}

static int setup(const struct fuse_kind *kind, void **state)
{
	struct fuse_stage *stage;
	int ret;

	*state = NULL;
	if (what_is_missing(kind)) {
		bench_skip(kind->rows, kind->nr_rows, what_is_missing(kind));
		return 0;
	}
	stage = calloc(1, sizeof(*stage));
	if (!stage)
		return bench_fail(-ENOMEM, "no memory for the suite");
	stage->kind = kind;
	stage->memory = aligned_alloc(4 * KIB, MEMORY_MAX);
	if (stage->memory)
		memset(stage->memory, 0x5A, MEMORY_MAX);
	ret = stage->memory ? begin(stage) : bench_fail(-ENOMEM, "no memory for the suite");
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

#define STREAM(name, reference, write, bytes)                                                \
	{                                                                                    \
		name, "GB/s", BENCH_HIGHER, reference, BAR,                                  \
			&(const struct fuse_stream){write, bytes}, run_afar, run_passthrough \
	}
#define STREAMS(of, reference)                                          \
	STREAM("read 4 KiB, " of, reference, false, 4 * KIB),           \
		STREAM("read 64 KiB, " of, reference, false, 64 * KIB), \
		STREAM("read 1 MiB, " of, reference, false, MIB),       \
		STREAM("write 4 KiB, " of, reference, true, 4 * KIB),   \
		STREAM("write 64 KiB, " of, reference, true, 64 * KIB), \
		STREAM("write 1 MiB, " of, reference, true, MIB)

/* file_fuse_NAME_stage. Its rows are not constant: bench_skip(). */
#define STAGE(name, tier, options, cache, ...)                                              \
	static struct bench_row name##_rows[] = {STREAMS(__VA_ARGS__)};                     \
	static const struct fuse_kind name = {tier, options, cache, name##_rows,            \
					      NR_ROWS(name##_rows)};                        \
	static int setup_##name(void **state)                                               \
	{                                                                                   \
		return setup(&name, state);                                                 \
	}                                                                                   \
	static void teardown_##name(void *state)                                            \
	{                                                                                   \
		if (state)                                                                  \
			teardown(state);                                                    \
	}                                                                                   \
	const struct bench_stage file_fuse_##name##_stage = {setup_##name, teardown_##name, \
							     name##_rows, NR_ROWS(name##_rows)};

#define TMPFS "libfuse's passthrough over tmpfs, "
#define EXT4  "libfuse's passthrough over ext4, pages dropped before reads, fsync after writes, "
STAGE(dram_cached, AFAR_TIER_DRAM, "cached", "auto", "fuse cached", TMPFS "cache=auto,timeout=0")
STAGE(dram_direct, AFAR_TIER_DRAM, "direct", "never", "fuse direct", TMPFS "cache=never,timeout=0")
STAGE(flash_cached, AFAR_TIER_FLASH, "cached", "auto", "fuse cached, flash",
      EXT4 "cache=auto,timeout=0")
STAGE(flash_direct, AFAR_TIER_FLASH, "direct", "never", "fuse direct, flash",
      EXT4 "cache=never,timeout=0")
