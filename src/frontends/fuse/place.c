/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looks before anything is begun, because what fusermount3 and the kernel say afterwards helps
 * nobody. Called by main() while there is one thread. Owns nothing.
 */
#include "place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <afar/error.h>

#include "say.h"

#define MOUNT_TYPE "fuse.afar"
#define DEVICE	   "/dev/fuse"
#define SETTINGS   "/etc/fuse.conf"
#define DEAD_MAX   8 /* mounts over each other at one place */

/* ---- What the machine must have */

static bool is_in_path(const char *program)
{
	const char *paths = getenv("PATH");
	char path[PATH_MAX];

	for (paths = paths ? paths : "/bin:/usr/bin"; *paths;) {
		size_t length = strcspn(paths, ":");

		snprintf(path, sizeof(path), "%.*s/%s", (int)length, paths, program);
		if (access(path, X_OK) == 0)
			return true;
		paths += length + (paths[length] == ':');
	}
	return false;
}

/* libfuse looks for it there, too. */
static bool has_fusermount(void)
{
	return is_in_path("fusermount3") || access("/usr/bin/fusermount3", X_OK) == 0 ||
	       access("/usr/local/bin/fusermount3", X_OK) == 0;
}

/* Returns whether /etc/fuse.conf lets users mount for other users. */
static bool may_be_for_others(void)
{
	FILE *file = fopen(SETTINGS, "re");
	bool is_found = false;
	char line[256], word[256];

	while (file && fgets(line, sizeof(line), file))
		is_found |= sscanf(line, " %255s", word) == 1 && !strcmp(word, "user_allow_other");
	if (file)
		fclose(file);
	return is_found;
}

static int check_machine(const struct mount_options *options)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);

	if (fd < 0 && (errno == ENOENT || errno == ENODEV || errno == ENXIO))
		return say_failed("%s: there is no " DEVICE " here; load the kernel's module "
				  "(modprobe fuse), or let the container have the device",
				  options->asked);
	if (fd < 0)
		return say_failed("%s: open " DEVICE ": %s; ask the machine's operator for it",
				  options->asked, afar_strerror(errno));
	close(fd);
	if (geteuid() == 0)
		return 0;
	if (!has_fusermount())
		return say_failed("%s: find fusermount3, which mounts for users: it is not in "
				  "PATH; install it: apt install fuse3",
				  options->asked);
	if (options->is_for_others && !may_be_for_others())
		return say_failed(
			"%s: allow_other is only for root here; have user_allow_other put "
			"into " SETTINGS ", or leave it out",
			options->asked);
	return 0;
}

/* ---- Dead mounts */

/* Returns whether what is mounted there last is ours. */
static bool is_ours(const char *place)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	struct mntent entry;
	char texts[3 * PATH_MAX];
	bool is_found = false;

	while (mounts && getmntent_r(mounts, &entry, texts, sizeof(texts))) {
		if (strcmp(entry.mnt_dir, place) == 0)
			is_found = strcmp(entry.mnt_type, MOUNT_TYPE) == 0;
	}
	if (mounts)
		endmntent(mounts);
	return is_found;
}

/* Takes it away also if programs are still in it. Users need fusermount3 for that. */
static bool unmount(const char *place)
{
	int status = -1;
	pid_t pid;

	if (geteuid() == 0)
		return umount2(place, MNT_DETACH | UMOUNT_NOFOLLOW) == 0;
	pid = fork();
	if (pid == 0) {
		execlp("fusermount3", "fusermount3", "-u", "-z", "-q", "--", place, (char *)NULL);
		_exit(EXIT_FAILED);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0;
}

/* Returns 0 or an errno. A mount whose process has died answers nothing but ENOTCONN. The kernel may tell lstat() what it
 * remembers of such a one; statfs() it always passes on. */
static int look_at(const char *place)
{
	struct stat stat;
	struct statfs about;

	if (lstat(place, &stat))
		return errno;
	return is_ours(place) && statfs(place, &about) && errno == ENOTCONN ? ENOTCONN : 0;
}

/* Returns what is said of the place once no dead mount is there any more: 0 or an errno. */
static int clear_dead(const char *place)
{
	int ret;

	for (int i = 0;; i++) {
		ret = look_at(place);
		if (ret != ENOTCONN || i == DEAD_MAX || !is_ours(place) || !unmount(place))
			return ret;
		say_note("%s: cleared away a mount whose process had died", place);
	}
}

/* ---- The directory */

/* Finds the whole name without looking at the last part, which may be a dead mount. */
static char *find_whole(const char *place)
{
	char folder[PATH_MAX], real[PATH_MAX], *last, *whole;
	size_t length = strlen(place);

	while (length > 1 && place[length - 1] == '/')
		length--;
	if (length >= sizeof(folder))
		return NULL;
	memcpy(folder, place, length);
	folder[length] = '\0';
	last = strrchr(folder, '/');
	if (last && last != folder)
		*last++ = '\0';
	else
		last = last ? last + 1 : folder;
	if (!*last || !strcmp(last, ".") || !strcmp(last, ".."))
		return realpath(place, NULL);
	if (!realpath(last == folder ? "." : (last == folder + 1 ? "/" : folder), real))
		return NULL;
	if (asprintf(&whole, "%s/%s", strcmp(real, "/") ? real : "", last) < 0)
		return NULL;
	return whole;
}

/* Returns 0, an errno, or ENOTEMPTY. */
static int look_inside(const char *place)
{
	DIR *folder = opendir(place);
	const struct dirent *entry;
	int ret = 0;

	if (!folder)
		return errno;
	while (!ret && (entry = readdir(folder))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			ret = ENOTEMPTY;
	}
	closedir(folder);
	return ret;
}

static int check_directory(const struct mount_options *options)
{
	struct stat stat;
	int ret;

	if (lstat(options->place, &stat))
		return say_failed("%s: %s", options->asked, afar_strerror(errno));
	if (!S_ISDIR(stat.st_mode))
		return say_failed("%s: it is no directory; make one to mount over: mkdir",
				  options->asked);
	if (is_ours(options->place))
		return say_failed("%s: a file system of Afar is mounted there; unmount it first: "
				  "afar umount %s",
				  options->asked, options->place);
	ret = look_inside(options->place);
	if (ret == ENOTEMPTY && !options->is_over_others)
		return say_failed("%s: the directory is not empty; choose an empty one, or say -o "
				  "nonempty, to have what is there hidden meanwhile",
				  options->asked);
	if (geteuid() != 0 && access(options->place, W_OK))
		return say_failed("%s: the directory is not yours to write, so fusermount3 refuses "
				  "it; choose one of your own",
				  options->asked);
	return 0;
}

int place_prepare(struct mount_options *options)
{
	char *whole = find_whole(options->place), *real;
	int ret = whole ? clear_dead(whole) : errno;

	if (!whole && !ret)
		ret = ENOMEM;
	if (ret == ENOENT || ret == ENOTDIR)
		return say_failed("%s: there is no such directory; make it: mkdir", options->asked);
	if (ret == ENOTCONN)
		return say_failed("%s: a mount is there whose process has died, and that cannot be "
				  "taken away; unmount it first",
				  options->asked);
	if (ret)
		return say_failed("%s: find the directory: %s", options->asked, afar_strerror(ret));
	/* It may be a symbolic link. */
	real = realpath(whole, NULL);
	if (real)
		free(whole);
	options->place = real ? real : whole;
	ret = check_machine(options);
	return ret ? ret : check_directory(options);
}

/* ---- Read only, or not */

/* The kernel takes those that are not named as not wanted any more. */
static unsigned long flags_of(const struct statvfs *stat)
{
	static const struct {
		unsigned long theirs, ours;
	} bits[] = {
		{ST_NOSUID, MS_NOSUID},		  {ST_NODEV, MS_NODEV},
		{ST_NOEXEC, MS_NOEXEC},		  {ST_NOATIME, MS_NOATIME},
		{ST_RELATIME, MS_RELATIME},	  {ST_NODIRATIME, MS_NODIRATIME},
		{ST_SYNCHRONOUS, MS_SYNCHRONOUS},
	};
	unsigned long flags = 0;

	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		if (stat->f_flag & bits[i].theirs)
			flags |= bits[i].ours;
	return flags;
}

int place_remount(const struct mount_options *options)
{
	char *real = realpath(options->place, NULL);
	const bool is_there = real && is_ours(real);
	struct statvfs stat;
	int ret = 0;

	if (!is_there)
		ret = say_failed("%s: no file system of Afar is mounted there", options->asked);
	else if (statvfs(real, &stat) ||
		 mount(NULL, real, NULL,
		       MS_REMOUNT | flags_of(&stat) | (options->is_read_only ? MS_RDONLY : 0),
		       NULL))
		ret = say_failed("%s: %s", options->asked,
				 errno == EBUSY
					 ? "programs have files there open to write; 'fuser -vm "
					   "DIRECTORY' names them"
					 : strerror(errno));
	free(real);
	return ret;
}
