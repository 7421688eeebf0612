/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens a file or a block device for uring.c so that no second opener gets it. Asks the kernel for
 * its size and sectors. The caller owns the descriptor.
 */
#include "flash/device/uring_open.h"

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
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "flash/device/uring.h"

#define SECTOR_SMALL	512U
#define SECTOR_LARGE	4096U
#define SYSFS_PATH_SIZE 96
#define NR_PAUSES	50U /* of 10 ms */

/* ---- What the kernel says */

/* Reads a number from the queue folder of a block device in sysfs; a partition has its disk's. 0:
 * the kernel does not say. */
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

/*
 * Returns the discard unit for this granularity; 0 unless it fits and is a multiple of the sector.
 */
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

/*
 * Finds the sector for O_DIRECT. A kernel before 6.1 does not say; then it takes the larger one,
 * which works wherever the smaller does.
 */
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
 * Opens the file, and locks it. A block device is opened with O_EXCL instead: that also excludes a
 * mounted file system, and works by any name of the device. A lock on it would collide with udev,
 * which locks devices for moments. -EBUSY: another opener has it.
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

/*
 * Tries for half a second. The kernel releases a killed process's ring, and with it the file, only
 * a moment after the process is gone.
 */
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

/* Asks the kernel about the open file. Fails if `path` has been replaced since `before`. */
static int ask(const char *path, unsigned flags, const struct stat *before,
	       struct uring_target *target)
{
	struct stat stat;
	int ret = 0;

	if (fstat(target->fd, &stat))
		return error_fail(-errno, "open %s: %s", path, strerror(errno));
	if (stat.st_dev != before->st_dev || stat.st_ino != before->st_ino)
		return error_fail(-EBUSY, "open %s: it was replaced meanwhile", path);
	target->is_block_device = S_ISBLK(stat.st_mode);
	if (target->is_block_device)
		ret = ask_block_device(path, stat.st_rdev, target);
	else
		ask_file(&stat, flags, target);
	if (ret)
		return ret;
	target->size -= target->size % target->sector;
	return target->size > 0
		       ? 0
		       : error_fail(
				 -EINVAL,
				 "open %s: it is smaller than a sector of %u bytes: make it larger",
				 path, target->sector);
}

int uring_target_open(const char *path, unsigned flags, struct uring_target *out)
{
	struct stat before;
	int ret;

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
	ret = ask(path, flags, &before, out);
	if (ret)
		close(out->fd);
	return ret;
}
