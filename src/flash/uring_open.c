/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening what a device is on, so that no second opener gets it, and asking the kernel what it is like. Creating files for
 * it. uring.c calls it, and owns the descriptor.
 */
#include "flash/uring_open.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "flash/uring.h"

#define SECTOR_SMALL	512U
#define SECTOR_LARGE	4096U
#define SYSFS_PATH_SIZE 96
#define NR_PAUSES	50U /* of 10 ms */

/* ---- What the kernel says */

/* A number of the queue of a block device, which a partition shares with its disk. 0: it does not say. */
static uint64_t queue_number(dev_t device, const char *name)
{
	static const char *const queues[] = {"queue", "../queue"};
	char path[SYSFS_PATH_SIZE];
	unsigned long long number = 0;

	for (unsigned i = 0; i < 2 && number == 0; i++) {
		FILE *file;

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s/%s", major(device),
			 minor(device), queues[i], name);
		file = fopen(path, "re");
		if (!file)
			continue;
		if (fscanf(file, "%llu", &number) != 1)
			number = 0;
		fclose(file);
	}
	return number;
}

/* 0 unless it is a multiple of the sector that fits. */
static uint32_t discard_unit_of(uint64_t granularity, uint32_t sector)
{
	if (granularity < sector)
		granularity = granularity ? sector : 0;
	return granularity <= UINT32_MAX && granularity % sector == 0 ? (uint32_t)granularity : 0;
}

static int ask_block_device(const char *path, dev_t device, struct uring_target *target)
{
	int sector = 0;

	if (ioctl(target->fd, BLKGETSIZE64, &target->size) || ioctl(target->fd, BLKSSZGET, &sector))
		return error_fail(-errno, "open %s: its size: %s", path, strerror(errno));
	if (sector != (int)SECTOR_SMALL && sector != (int)SECTOR_LARGE)
		return error_fail(-ENOTSUP, "open %s: its sectors have %d bytes: it takes %u or %u",
				  path, sector, SECTOR_SMALL, SECTOR_LARGE);
	target->sector = (uint32_t)sector;
	if (queue_number(device, "discard_max_bytes") > 0)
		target->discard_unit = discard_unit_of(queue_number(device, "discard_granularity"),
						       target->sector);
	return 0;
}

/* A kernel before 6.1 does not say; larger sectors are right for it wherever smaller ones are. */
static uint32_t file_sector(int fd)
{
	struct statx stat = {0};

	if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stat) == 0 &&
	    (stat.stx_mask & STATX_DIOALIGN) && stat.stx_dio_offset_align == SECTOR_SMALL &&
	    stat.stx_dio_mem_align <= SECTOR_SMALL)
		return SECTOR_SMALL;
	return SECTOR_LARGE;
}

static void ask_file(const struct stat *stat, unsigned flags, struct uring_target *target)
{
	target->sector = file_sector(target->fd);
	target->size = (uint64_t)stat->st_size;
	if (flags & FLASH_DEVICE_THIN)
		target->discard_unit = discard_unit_of((uint64_t)stat->st_blksize, target->sector);
}

/* ---- For one opener */

/*
 * Of a block device nothing but O_EXCL is needed, which a mounted file system has too, and by whatever name it is opened. A
 * lock on it would get in the way of udev, which takes it for moments.
 */
static int try_alone(const char *path, unsigned flags, const struct stat *stat)
{
	int access = flags & FLASH_DEVICE_READ_ONLY ? O_RDONLY : O_RDWR;
	int exclusive = S_ISBLK(stat->st_mode) ? O_EXCL : 0;
	int fd = open(path, access | exclusive | O_DIRECT | O_CLOEXEC), error;

	if (fd < 0)
		return -errno;
	if (!S_ISREG(stat->st_mode) || flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	error = errno == EWOULDBLOCK ? EBUSY : errno;
	close(fd);
	return -error;
}

/* Of a process that was killed, and is gone, the kernel lets go of what its ring had at the device a moment later. */
static int open_alone(const char *path, unsigned flags, const struct stat *stat)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	int fd = try_alone(path, flags, stat);

	for (unsigned i = 0; fd == -EBUSY && i < NR_PAUSES; i++) {
		nanosleep(&pause, NULL);
		fd = try_alone(path, flags, stat);
	}
	if (fd == -EBUSY)
		return error_fail(fd, "open %s: it is mounted or another has it open: end that",
				  path);
	if (fd == -EINVAL)
		return error_fail(-ENOTSUP,
				  "open %s: its file system cannot go around the page cache: "
				  "take a file elsewhere",
				  path);
	return fd < 0 ? error_fail(fd, "open %s: %s", path, strerror(-fd)) : fd;
}

/* What was looked at by name may be another thing by now. */
static int ask(const char *path, unsigned flags, const struct stat *before,
	       struct uring_target *target)
{
	struct stat stat;
	int status = 0;

	if (fstat(target->fd, &stat))
		return error_fail(-errno, "open %s: %s", path, strerror(errno));
	if (stat.st_dev != before->st_dev || stat.st_ino != before->st_ino)
		return error_fail(-EBUSY, "open %s: it was replaced meanwhile", path);
	target->is_block_device = S_ISBLK(stat.st_mode);
	if (target->is_block_device)
		status = ask_block_device(path, stat.st_rdev, target);
	else
		ask_file(&stat, flags, target);
	if (status)
		return status;
	target->size -= target->size % target->sector;
	return target->size > 0
		       ? 0
		       : error_fail(-EINVAL,
				    "open %s: it has not a sector of %u bytes: make it larger",
				    path, target->sector);
}

int uring_target_open(const char *path, unsigned flags, struct uring_target *out)
{
	struct stat before;
	int status;

	*out = (struct uring_target){.fd = -1};
	/* Opening anything else could wait, or do something. */
	if (stat(path, &before))
		return error_fail(-errno, "open %s: %s", path, strerror(errno));
	if (!S_ISREG(before.st_mode) && !S_ISBLK(before.st_mode))
		return error_fail(
			-ENOTSUP,
			"open %s: it is neither a regular file nor a block device: name one", path);
	out->fd = open_alone(path, flags, &before);
	if (out->fd < 0)
		return out->fd;
	status = ask(path, flags, &before, out);
	if (status)
		close(out->fd);
	return status;
}

/* ---- Creating */

/* The name survives the loss of power with it. */
static int sync_folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder =
		!slash ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
	int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int status = fd < 0 || fsync(fd) ? -errno : 0;

	if (fd >= 0)
		close(fd);
	free(folder);
	return status;
}

/* Asked first: a file system may give all it has before it finds that this is not enough, and nobody else gets any meanwhile. */
static bool has_room(int fd, uint64_t size)
{
	struct statvfs stat;

	return fstatvfs(fd, &stat) || size / stat.f_frsize <= stat.f_bavail;
}

static int take_room(int fd, uint64_t size)
{
	if (!has_room(fd, size))
		return -ENOSPC;
	while (fallocate(fd, 0, 0, (off_t)size)) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static int fill_file(int fd, const char *path, uint64_t size)
{
	int status = take_room(fd, size);

	if (status == -ENOSPC)
		return error_fail(status,
				  "create %s: no room for %llu bytes: make some, or take less",
				  path, (unsigned long long)size);
	if (!status && fsync(fd))
		status = -errno;
	if (!status)
		status = sync_folder_of(path);
	return status ? error_fail(status, "create %s: %s", path, strerror(-status)) : 0;
}

int flash_device_create_file(const char *path, uint64_t size)
{
	int fd, status;

	if (size == 0 || size % SECTOR_LARGE != 0 || size > INT64_MAX)
		return error_fail(-EINVAL, "create %s: its size must be a multiple of %u bytes",
				  path, SECTOR_LARGE);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST)
		return error_fail(-EEXIST, "create %s: it is there already: take another name",
				  path);
	if (fd < 0)
		return error_fail(-errno, "create %s: %s", path, strerror(errno));
	status = fill_file(fd, path, size);
	close(fd);
	if (status)
		unlink(path);
	return status;
}
