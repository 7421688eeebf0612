/* SPDX-License-Identifier: BSD-3-Clause */
/* See fuse_mount.h. Each mount is a process in the foreground, which ends with this one and unmounts then. */
#include "fuse_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness/harness.h"
#include "harness/program.h"

#define START_TIMEOUT_MS 20000
#define READ_AHEAD_KB	 "1024\n" /* what `afar mount` asks for */
#define BY_HANDLES	 "passthrough_ll"
#define BY_PATHS	 "passthrough_fh"

static const char *const no_environment[] = {NULL};

const char *fuse_mount_missing(void)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return "not measured: /dev/fuse cannot be opened here";
	close(fd);
	return geteuid() == 0 || peer_is_installed("fusermount3") ? NULL
								  : "not installed: apt install "
								    "fuse3";
}

const char *fuse_passthrough_missing(void)
{
	char program[PATH_MAX];

	return peer_find_built("peer_" BY_HANDLES, program) ||
			       peer_find_built("peer_" BY_PATHS, program)
		       ? "not built: apt install libfuse3-dev, whose examples it is, and build "
			 "again"
		       : NULL;
}

/* ---- Beginning and end */

static int open_place(struct fuse_mount *mount)
{
	int ret = peer_open(&mount->peer);

	if (ret)
		return ret;
	snprintf(mount->place, sizeof(mount->place), "%s/mount", mount->peer.folder);
	return mkdir(mount->place, 0700)
		       ? bench_fail(-errno, "%s: %s", mount->place, strerror(errno))
		       : 0;
}

/* It asks the mount itself, whose answer says that it works. */
static bool is_mounted(const struct fuse_mount *mount)
{
	struct stat above, there;

	return stat(mount->peer.folder, &above) == 0 && stat(mount->place, &there) == 0 &&
	       above.st_dev != there.st_dev;
}

static int await(struct fuse_mount *mount, const char *what)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	uint64_t deadline = clock_deadline_ms(START_TIMEOUT_MS);

	while (!is_mounted(mount)) {
		if (bench_is_interrupted())
			return -EINTR;
		if (!peer_is_alive(&mount->peer) || !clock_remaining_ms(deadline))
			return peer_fail(&mount->peer, what, -ETIMEDOUT);
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* `arguments` name the place, so they are made when it is known. */
static int run(struct fuse_mount *mount, const char *const *arguments, const char *what)
{
	int ret = peer_run(&mount->peer, arguments, no_environment);

	if (!ret)
		ret = await(mount, what);
	if (ret)
		fuse_mount_end(mount);
	return ret;
}

void fuse_mount_end(struct fuse_mount *mount)
{
	peer_stop(&mount->peer);
	/* A process that was killed has left it. */
	if (mount->place[0])
		umount2(mount->place, MNT_DETACH);
	peer_close(&mount->peer);
	mount->place[0] = '\0';
}

/* ---- The kinds */

int fuse_mount_afar(struct fuse_mount *mount, const char *uri, const char *fs, const char *options)
{
	char afar[PATH_MAX];
	const char *const arguments[] = {
		afar,		"--cluster", uri,  "mount",	fs,	 mount->place,
		"--foreground", "--retry",   "20", "--options", options, NULL};
	int ret;

	program_find(PROGRAM_AFAR, afar);
	ret = open_place(mount);
	return ret ? ret : run(mount, arguments, "afar mount did not mount");
}

/* Root alone may tell the kernel; for others it stays at what the kernel does by itself. */
static void read_ahead(const struct fuse_mount *mount)
{
	struct stat stat_of;
	ssize_t written;
	char path[64];
	int fd;

	if (stat(mount->place, &stat_of))
		return;
	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", major(stat_of.st_dev),
		 minor(stat_of.st_dev));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	written = write(fd, READ_AHEAD_KB, strlen(READ_AHEAD_KB));
	(void)written;
	close(fd);
}

static int mount_example(struct fuse_mount *mount, const char *name, const char *options)
{
	char program[PATH_MAX];
	const char *const arguments[] = {program, "-f", "-o", options, mount->place, NULL};
	int ret = peer_find_built(name, program);

	if (ret)
		return bench_fail(ret, "%s: it was not built", name);
	ret = open_place(mount);
	if (!ret)
		ret = run(mount, arguments, "libfuse's passthrough did not mount");
	if (!ret)
		read_ahead(mount);
	return ret;
}

int fuse_mount_passthrough(struct fuse_mount *mount, const char *folder, const char *cache,
			   unsigned old_s)
{
	char options[128];

	snprintf(options, sizeof(options), "source=%s,cache=%s,timeout=%u", folder, cache, old_s);
	return mount_example(mount, "peer_" BY_HANDLES, options);
}

int fuse_mount_passthrough_paths(struct fuse_mount *mount, const char *folder)
{
	char options[128];

	snprintf(options, sizeof(options), "modules=subdir,subdir=%s", folder);
	return mount_example(mount, "peer_" BY_PATHS, options);
}

int fuse_mount_gluster(struct fuse_mount *mount, const char *volume)
{
	const char *const arguments[] = {"glusterfs",
					 "--no-daemon",
					 "--volfile",
					 volume,
					 "--log-file",
					 "/dev/stderr",
					 "--attribute-timeout=0",
					 "--entry-timeout=0",
					 mount->place,
					 NULL};
	int ret = open_place(mount);

	return ret ? ret : run(mount, arguments, "GlusterFS did not mount");
}
