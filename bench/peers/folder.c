/* SPDX-License-Identifier: BSD-3-Clause */
/* See folder.h. Owns nothing but the folders that it was asked for. */
#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "harness/harness.h"
#include "peer.h"

#define IN_MEMORY "/dev/shm"
#define FILES_MAX 64 /* that nftw() keeps open */

#define IMAGE	    ".image"
#define IMAGE_BYTES ((size_t)1 << 30)

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

int folder_make_on_ext4(struct folder *folder)
{
	return make(on_disk(), folder);
}

/* ---- Names that are durable */

/* Its journal has a folder in /proc/fs/jbd2, whose name begins with the device's. */
static bool has_journal(const char *path)
{
	char link[64], target[256], *name;
	struct stat stat_of_path;
	struct dirent *entry;
	bool is_there = false;
	ssize_t length;
	DIR *journals;

	if (stat(path, &stat_of_path) < 0)
		return false;
	snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(stat_of_path.st_dev),
		 minor(stat_of_path.st_dev));
	length = readlink(link, target, sizeof(target) - 2);
	if (length < 0)
		return false;
	target[length] = '\0';
	name = strrchr(target, '/') + 1;
	strcat(name, "-");
	journals = opendir("/proc/fs/jbd2");
	while (journals && (entry = readdir(journals)))
		is_there |= strncmp(entry->d_name, name, strlen(name)) == 0;
	if (journals)
		closedir(journals);
	return is_there;
}

const char *folder_dirsync_missing(void)
{
	const char *missing = folder_ext4_missing();

	if (missing || has_journal(on_disk()))
		return missing;
	if (!peer_is_installed("mkfs.ext4"))
		return "not installed: apt install e2fsprogs";
	if (geteuid() != 0)
		return "not measured: the ext4 has no journal, and only root can mount another";
	return access("/dev/loop-control", W_OK)
		       ? "not measured: the ext4 has no journal, and there are no loop devices"
		       : NULL;
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

/* A disk of zeros that are written, so that the file below changes no metadata. */
static int make_image(const char *path)
{
	static const char zeros[1 << 20];
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), ret = 0;
	char command[128];

	for (size_t i = 0; fd >= 0 && !ret && i < IMAGE_BYTES / sizeof(zeros); i++)
		if (write(fd, zeros, sizeof(zeros)) != (ssize_t)sizeof(zeros))
			ret = -errno;
	if (fd < 0 || fsync(fd))
		ret = -errno;
	if (fd >= 0)
		close(fd);
	snprintf(command, sizeof(command), "mkfs.ext4 -q -F %s", path);
	if (!ret && system(command))
		ret = -EIO;
	return ret ? bench_fail(ret, "an ext4 in %s: %s", path, strerror(-ret)) : 0;
}

/* Has a loop device that goes when nobody uses it. Returns its descriptor. */
static int attach(const char *image, char *device, size_t length)
{
	struct loop_config config = {.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO};
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), loop = -1, nr;

	config.fd = (uint32_t)open(image, O_RDWR | O_CLOEXEC);
	nr = ioctl(control, LOOP_CTL_GET_FREE);
	snprintf(device, length, "/dev/loop%d", nr);
	if (nr >= 0)
		loop = open(device, O_RDWR | O_CLOEXEC);
	if (loop >= 0 && ioctl(loop, LOOP_CONFIGURE, &config)) {
		close(loop);
		loop = -1;
	}
	if (loop < 0)
		bench_fail(-errno, "a loop device for %s: %s", image, strerror(errno));
	close((int)config.fd);
	close(control);
	return loop;
}

static int mount_own(struct folder *folder)
{
	char image[sizeof(folder->path) + sizeof(IMAGE)], device[32];
	int loop, ret;

	snprintf(image, sizeof(image), "%s" IMAGE, folder->path);
	ret = make_image(image);
	if (ret)
		return ret;
	loop = attach(image, device, sizeof(device));
	if (loop < 0)
		return -EIO;
	folder->is_mounted = mount(device, folder->path, "ext4", MS_DIRSYNC, NULL) == 0;
	if (!folder->is_mounted)
		ret = bench_fail(-errno, "mount %s: %s", folder->path, strerror(errno));
	close(loop);
	return ret;
}

int folder_make_dirsync(struct folder *folder)
{
	int ret = make(on_disk(), folder);

	if (!ret)
		ret = has_journal(on_disk()) ? set_dirsync(folder->path) : mount_own(folder);
	if (ret)
		folder_remove(folder);
	return ret;
}

/* ---- Removing */

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
	(void)stat;
	(void)kind;
	(void)place;
	return remove(path);
}

void folder_remove(struct folder *folder)
{
	char image[sizeof(folder->path) + sizeof(IMAGE)];

	if (folder->is_mounted)
		umount2(folder->path, MNT_DETACH);
	folder->is_mounted = false;
	snprintf(image, sizeof(image), "%s" IMAGE, folder->path);
	if (folder->path[0])
		unlink(image);
	if (folder->path[0])
		nftw(folder->path, remove_one, FILES_MAX, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	folder->path[0] = '\0';
}
