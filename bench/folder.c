/* SPDX-License-Identifier: BSD-3-Clause */
/* See folder.h. Owns nothing but the folders that it was asked for. */
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "harness.h"

#define IN_MEMORY "/dev/shm"
#define FILES_MAX 64 /* that nftw() keeps open */

static const char *on_disk(void)
{
	const char *named = getenv("TMPDIR");

	return named && *named && strlen(named) < 32 ? named : "/tmp";
}

static bool is_on(const char *path, long kind)
{
	struct statfs stat;

	return statfs(path, &stat) == 0 && stat.f_type == kind;
}

const char *folder_tmpfs_missing(void)
{
	return is_on(IN_MEMORY, TMPFS_MAGIC) ? NULL : "not measured: " IN_MEMORY " is no tmpfs";
}

const char *folder_ext4_missing(void)
{
	return is_on(on_disk(), EXT4_SUPER_MAGIC)
		       ? NULL
		       : "not measured: /tmp is no ext4; TMPDIR=FOLDER names another";
}

static int make(const char *parent, struct folder *folder)
{
	snprintf(folder->path, sizeof(folder->path), "%s/afar-bench-files-XXXXXX", parent);
	if (mkdtemp(folder->path))
		return 0;
	folder->path[0] = '\0';
	return bench_fail(-errno, "a folder in %s: %s", parent, strerror(errno));
}

int folder_make_on_tmpfs(struct folder *folder)
{
	return make(IN_MEMORY, folder);
}

static int set_dirsync(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int flags = 0, ret = 0;

	if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags))
		ret = -errno;
	flags |= FS_DIRSYNC_FL;
	if (!ret && ioctl(fd, FS_IOC_SETFLAGS, &flags))
		ret = -errno;
	if (fd >= 0)
		close(fd);
	return ret ? bench_fail(ret, "dirsync of %s: %s", path, strerror(-ret)) : 0;
}

int folder_make_on_ext4(bool is_dirsync, struct folder *folder)
{
	int ret = make(on_disk(), folder);

	if (!ret && is_dirsync)
		ret = set_dirsync(folder->path);
	if (ret)
		folder_remove(folder);
	return ret;
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
	(void)stat;
	(void)kind;
	(void)place;
	return remove(path);
}

void folder_remove(struct folder *folder)
{
	if (folder->path[0])
		nftw(folder->path, remove_one, FILES_MAX, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	folder->path[0] = '\0';
}
