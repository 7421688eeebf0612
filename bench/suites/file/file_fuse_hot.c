/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of suite `file` on mounts: what a kernel answers itself. A file is read again whose pages the kernel has; one that nobody has
 * changed is opened, read and closed again. The reference is libfuse's passthrough, which lets names and attributes be a second old.
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

#define BYTES	    (64 * KIB)
#define ROOM_BYTES  (64 * MIB)
#define NAME	    "hot"
#define READS	    64U /* between looks at the clock */
#define SPAN_NS	    UINT64_C(500000000)
#define BAR	    0.8
#define PASSTHROUGH "libfuse's passthrough over tmpfs, cache=auto,timeout=1"
#define OLD_S	    1 /* so old may be what the peer's kernel knows */

struct hot_stage {
	struct cluster *cluster;
	struct folder folder; /* the peer's files */
	struct fuse_mount ours, peer;
};

struct hot_row {
	/* Goes on until then, and counts. */
	int (*run)(const char *path, uint64_t until, unsigned *nr);
};

static int read_once(int fd)
{
	char memory[4 * KIB];
	const ssize_t nr = pread(fd, memory, sizeof(memory), 0);

	if (nr == (ssize_t)sizeof(memory))
		return 0;
	return nr < 0 ? -errno : -EIO;
}

static int read_again(const char *path, uint64_t until, unsigned *nr)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret = fd < 0 ? -errno : 0;

	do {
		for (unsigned i = 0; i < READS && !ret; i++)
			ret = read_once(fd);
		*nr += READS;
	} while (!ret && clock_ns() < until);
	if (fd >= 0 && close(fd) && !ret)
		ret = -errno;
	return ret;
}

static int open_again(const char *path, uint64_t until, unsigned *nr)
{
	int fd, ret = 0;

	do {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		ret = fd < 0 ? -errno : read_once(fd);
		if (fd >= 0 && close(fd) && !ret)
			ret = -errno;
		++*nr;
	} while (!ret && clock_ns() < until);
	return ret;
}

static int measure(const struct fuse_mount *mount, const struct bench_row *row, double *value)
{
	const struct hot_row *hot = row->parameters;
	char path[sizeof(mount->place) + sizeof(NAME) + 1];
	const uint64_t begin = clock_ns();
	unsigned nr = 0;
	int ret;

	snprintf(path, sizeof(path), "%s/" NAME, mount->place);
	ret = hot->run(path, begin + bench_span_ns(SPAN_NS), &nr);
	*value = (double)nr * 1e6 / (double)(clock_ns() - begin);
	if (!ret && bench_is_interrupted())
		ret = -EINTR;
	return ret ? bench_fail(ret, "%s: %s", path, strerror(-ret)) : 0;
}

static int run_afar(void *state, const struct bench_row *row, unsigned repetition, double *value)
{
	const struct hot_stage *stage = state;

	(void)repetition;
	return measure(&stage->ours, row, value);
}

static int run_passthrough(void *state, const struct bench_row *row, unsigned repetition,
			   double *value)
{
	const struct hot_stage *stage = state;

	(void)repetition;
	return measure(&stage->peer, row, value);
}

/* ---- The stage */

/* Not constant: bench_skip(). */
static struct bench_row rows[] = {
	{"read 4 KiB again, fuse", "k/s", BENCH_HIGHER, PASSTHROUGH, BAR,
	 &(const struct hot_row){read_again}, run_afar, run_passthrough},
	{"open, read 4 KiB, close again, fuse", "k/s", BENCH_HIGHER, PASSTHROUGH, BAR,
	 &(const struct hot_row){open_again}, run_afar, run_passthrough},
};

static void teardown(void *state)
{
	struct hot_stage *stage = state;

	if (!stage)
		return;
	fuse_mount_end(&stage->ours);
	fuse_mount_end(&stage->peer);
	folder_remove(&stage->folder);
	cluster_stop(stage->cluster);
	free(stage);
}

static int fill(const struct fuse_mount *mount)
{
	char path[sizeof(mount->place) + sizeof(NAME) + 1];
	static const char bytes[BYTES];
	int fd, ret = 0;

	snprintf(path, sizeof(path), "%s/" NAME, mount->place);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes))
		ret = errno ? -errno : -EIO;
	if (fd >= 0 && close(fd) && !ret)
		ret = -errno;
	return ret ? bench_fail(ret, "fill %s: %s", path, strerror(-ret)) : 0;
}

static int begin(struct hot_stage *stage)
{
	int ret = cluster_start_over("local", 1, ROOM_BYTES, &stage->cluster);

	if (!ret)
		ret = file_fs_make(cluster_uri(stage->cluster), AFAR_TIER_DRAM);
	if (!ret)
		ret = fuse_mount_afar(&stage->ours, cluster_uri(stage->cluster), FILE_FS, "cached");
	if (!ret)
		ret = folder_make_on_tmpfs(&stage->folder);
	if (!ret)
		ret = fuse_mount_passthrough(&stage->peer, stage->folder.path, "auto", OLD_S);
	if (!ret)
		ret = fill(&stage->ours);
	return ret ? ret : fill(&stage->peer);
}

static const char *what_is_missing(void)
{
	const char *missing = fuse_mount_missing();

	if (!missing)
		missing = fuse_passthrough_missing();
	return missing ? missing : folder_tmpfs_missing();
}

static int setup(void **state)
{
	struct hot_stage *stage;
	int ret;

	*state = NULL;
	if (what_is_missing()) {
		bench_skip(rows, NR_ROWS(rows), what_is_missing());
		return 0;
	}
	stage = calloc(1, sizeof(*stage));
	ret = stage ? begin(stage) : bench_fail(-ENOMEM, "no memory for the suite");
	if (ret)
		teardown(stage);
	else
		*state = stage;
	return ret;
}

const struct bench_stage file_fuse_hot_stage = {setup, teardown, rows, NR_ROWS(rows)};
