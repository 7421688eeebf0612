/* SPDX-License-Identifier: BSD-3-Clause */
/* Making files for layers. Called by the command line and the daemon. */
#include "flash/device/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "flash/ftl.h"

#define WRITE_BYTES ((size_t)4 << 20) /* of one write, and between two calls of `progress` */

/* Syncs the file's folder, so that its name survives the loss of power. */
static int sync_folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder =
		!slash ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
	int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int ret = fd < 0 || fsync(fd) ? -errno : 0;

	if (fd >= 0)
		close(fd);
	free(folder);
	return ret;
}

/*
 * Returns whether the file system has room for the file. The caller asks first, because a file
 * system may allocate all that it has before it finds that this is not enough. Others get none
 * meanwhile.
 */
static bool has_room(int fd, uint64_t size)
{
	struct statvfs stat;

	return fstatvfs(fd, &stat) || size / stat.f_frsize <= stat.f_bavail;
}

static bool may_go_on(const struct flash_file_options *options, uint64_t written)
{
	return !options->progress || options->progress(options->context, written);
}

static int set_aside(int fd, uint64_t size, const struct flash_file_options *options)
{
	if (!has_room(fd, size))
		return -ENOSPC;
	while (fallocate(fd, 0, 0, (off_t)size)) {
		if (errno != EINTR)
			return -errno;
		/* Signals that come again and again would have it begin anew for ever. */
		if (!may_go_on(options, 0))
			return -ECANCELED;
	}
	return 0;
}

static int write_at(int fd, const char *zeros, size_t length, uint64_t offset)
{
	while (length > 0) {
		ssize_t nr = pwrite(fd, zeros, length, (off_t)offset);

		if (nr < 0 && errno == EINTR)
			continue;
		if (nr <= 0)
			return nr < 0 ? -errno : -EIO;
		offset += (uint64_t)nr;
		length -= (size_t)nr;
	}
	return 0;
}

static int write_zeros(int fd, uint64_t size, const struct flash_file_options *options)
{
	char *zeros = aligned_alloc(FTL_BLOCK, WRITE_BYTES);
	int ret = zeros ? 0 : -ENOMEM;

	if (zeros)
		memset(zeros, 0, WRITE_BYTES);
	for (uint64_t at = 0; at < size && !ret; at += WRITE_BYTES) {
		if (!may_go_on(options, at))
			ret = -ECANCELED;
		else
			ret = write_at(fd, zeros, size - at < WRITE_BYTES ? size - at : WRITE_BYTES,
				       at);
	}
	free(zeros);
	return ret;
}

/* Goes around the page cache, if the file system can: the zeros need not stay there. */
static void go_around_cache(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0)
		fcntl(fd, F_SETFL, flags | O_DIRECT);
}

static int fill(int fd, uint64_t size, const struct flash_file_options *options)
{
	int ret;

	if (options->is_sparse)
		return ftruncate(fd, (off_t)size) ? -errno : 0;
	ret = set_aside(fd, size, options);
	if (ret)
		return ret;
	go_around_cache(fd);
	return write_zeros(fd, size, options);
}

static int fail(const char *path, uint64_t size, int ret)
{
	if (ret == -ENOSPC)
		return error_fail(ret, "create %s: no room for %llu bytes: make some, or take less",
				  path, (unsigned long long)size);
	if (ret == -ECANCELED)
		return error_fail(ret, "create %s: it was cancelled; nothing is left of it", path);
	return error_fail(ret, "create %s: %s", path, strerror(-ret));
}

int flash_file_create(const char *path, uint64_t size, const struct flash_file_options *options)
{
	static const struct flash_file_options none;
	int fd, ret;

	if (size == 0 || size % FTL_BLOCK != 0 || size > INT64_MAX)
		return error_fail(-EINVAL, "create %s: its size must be a multiple of %u bytes",
				  path, FTL_BLOCK);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST)
		return error_fail(-EEXIST, "create %s: it is there already: take another name",
				  path);
	if (fd < 0)
		return error_fail(-errno, "create %s: %s", path, strerror(errno));
	ret = fill(fd, size, options ? options : &none);
	if (!ret && fsync(fd))
		ret = -errno;
	close(fd);
	if (!ret)
		ret = sync_folder_of(path);
	if (!ret)
		return 0;
	unlink(path);
	return fail(path, size, ret);
}

int flash_file_rename(const char *path, const char *name)
{
	int ret = rename(path, name) ? -errno : sync_folder_of(name);

	return ret ? error_fail(ret, "rename %s to %s: %s", path, name, strerror(-ret)) : 0;
}
