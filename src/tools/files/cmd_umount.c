/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `afar umount`: unmounts, and waits until the mount's process has synced what was open and has ended, or with --force
 * kills that. If the mount is in use, says by whom.
 *
 * The process listens at an abstract socket that is called after the mount's device
 * (src/frontends/fuse/device.c). Nothing is said there: the connection ends when the process does.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mount_name.h"
#include "tools/cli/commands.h"

#define MOUNT_TYPE "fuse.afar"
#define USERS_MAX  5 /* that are named */
#define SAY_MS	   3000

/* ---- What is mounted where */

struct mounted {
	char place[PATH_MAX];
	unsigned major, minor;
};

/* Turns the \NNN that the kernel writes for blanks into bytes, in place. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (text[0] == '\\' && isdigit(text[1]) && isdigit(text[2]) && isdigit(text[3])) {
			*to++ = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 + text[3] - '0');
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

/* Finds what is on top at `place`. Returns whether that is a mount of Afar. */
static bool find_mounted(const char *place, struct mounted *out)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char *line = NULL, *dash;
	char type[64], at[PATH_MAX];
	bool is_found = false;
	unsigned major, minor;
	size_t size = 0;

	while (mounts && getline(&line, &size, mounts) > 0) {
		dash = strstr(line, " - ");
		if (!dash || sscanf(dash, " - %63s", type) != 1 ||
		    sscanf(line, "%*d %*d %u:%u %*s %4095s", &major, &minor, at) != 3)
			continue;
		unescape(at);
		if (strcmp(at, place) != 0)
			continue;
		is_found = strcmp(type, MOUNT_TYPE) == 0;
		*out = (struct mounted){.major = major, .minor = minor};
		snprintf(out->place, sizeof(out->place), "%s", at);
	}
	free(line);
	if (mounts)
		fclose(mounts);
	return is_found;
}

/* Finds the mount by the name as it was typed, too: nothing can be asked of one that is dead. */
static bool find_asked(const char *directory, struct mounted *out)
{
	char here[PATH_MAX] = "", whole[2 * PATH_MAX];
	char *real;
	size_t length;
	bool is_found;

	if (*directory != '/' && !getcwd(here, sizeof(here)))
		return false;
	snprintf(whole, sizeof(whole), "%s%s%s", here, *here ? "/" : "", directory);
	for (length = strlen(whole); length > 1 && whole[length - 1] == '/'; length--)
		whole[length - 1] = '\0';
	if (find_mounted(whole, out))
		return true;
	real = realpath(directory, NULL);
	is_found = real && find_mounted(real, out);
	free(real);
	return is_found;
}

/* ---- Who uses it */

static bool is_inside(const char *path, const char *place)
{
	size_t length = strlen(place);

	return strncmp(path, place, length) == 0 && (path[length] == '/' || !path[length]);
}

static bool leads_inside(const char *link, const char *place)
{
	char target[PATH_MAX];
	ssize_t length = readlink(link, target, sizeof(target) - 1);

	target[length > 0 ? length : 0] = '\0';
	return is_inside(target, place);
}

static bool has_open_inside(const char *process, const char *place)
{
	char path[PATH_MAX];
	const struct dirent *entry;
	bool is_found = false;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%.32s/fd", process);
	folder = opendir(path);
	while (folder && !is_found && (entry = readdir(folder))) {
		snprintf(path, sizeof(path), "/proc/%.32s/fd/%.32s", process, entry->d_name);
		is_found = leads_inside(path, place);
	}
	if (folder)
		closedir(folder);
	return is_found;
}

static bool has_mapped_inside(const char *process, const char *place)
{
	char path[64], *line = NULL, *name;
	bool is_found = false;
	size_t size = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%.32s/maps", process);
	maps = fopen(path, "re");
	while (maps && !is_found && getline(&line, &size, maps) > 0) {
		name = strchr(line, '/');
		if (!name)
			continue;
		name[strcspn(name, "\n")] = '\0';
		is_found = is_inside(name, place);
	}
	free(line);
	if (maps)
		fclose(maps);
	return is_found;
}

static bool is_user(const char *process, const char *place)
{
	static const char *const links[] = {"cwd", "root", "exe"};
	char path[64];

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		snprintf(path, sizeof(path), "/proc/%.32s/%s", process, links[i]);
		if (leads_inside(path, place))
			return true;
	}
	return has_open_inside(process, place) || has_mapped_inside(process, place);
}

static void add_user(const char *process, char *out, size_t size)
{
	char path[64], name[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%.32s/comm", process);
	file = fopen(path, "re");
	if (file && fgets(name, sizeof(name), file))
		name[strcspn(name, "\n")] = '\0';
	if (file)
		fclose(file);
	snprintf(out + strlen(out), size - strlen(out), "%s%s (%s)", *out ? ", " : "", name,
		 process);
}

/* Names processes: "bash (12), vim (345)"; those of other users only root can see. */
static void name_users(const char *place, char *out, size_t size)
{
	DIR *folder = opendir("/proc");
	const struct dirent *entry;
	int nr = 0;

	*out = '\0';
	while (folder && nr <= USERS_MAX && (entry = readdir(folder))) {
		if (!isdigit(entry->d_name[0]) || !is_user(entry->d_name, place))
			continue;
		if (nr++ < USERS_MAX)
			add_user(entry->d_name, out, size);
		else
			snprintf(out + strlen(out), size - strlen(out), " and others");
	}
	if (folder)
		closedir(folder);
	if (!*out)
		snprintf(out, size, "a process that waits in a call there, or that you cannot see");
}

/* ---- Unmounting */

/* Returns the mount's process as a connection that ends with it; -1: it cannot be reached. */
static int connect_to(const struct mounted *mounted, pid_t *pid)
{
	struct sockaddr_un address;
	const socklen_t length =
		mount_name(&address, mounted->major, mounted->minor, mounted->place);
	struct ucred peer;
	socklen_t size = sizeof(peer);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, length) == 0 &&
	    /* Anybody may take such a name. */
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	    (peer.uid == 0 || peer.uid == getuid() || getuid() == 0)) {
		*pid = peer.pid;
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Returns whether it has ended within `timeout_ms`; -1: whenever that is. */
static bool has_ended(int fd, int timeout_ms)
{
	struct pollfd ended = {.fd = fd, .events = POLLIN};
	int ret;

	do
		ret = poll(&ended, 1, timeout_ms);
	while (ret < 0 && errno == EINTR);
	return ret != 0;
}

/* Waits for as long as it takes: only the process knows what is not synced yet. */
static void wait_for_end(const char *place, int fd, pid_t pid)
{
	if (has_ended(fd, SAY_MS))
		return;
	fprintf(stderr,
		"afar: umount %s: waiting for process %d, which syncs what was written, or whose "
		"file system a container has, too ('grep -l %s /proc/*/mountinfo' names its "
		"processes); if the manager or a server is away for good, 'kill -9 %d' gives that "
		"up\n",
		place, (int)pid, place, (int)pid);
	has_ended(fd, -1);
}

/* Users need fusermount3, which is setuid. Returns 0 or an errno. */
static int unmount_as_user(const char *place, bool is_lazy)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		execlp("fusermount3", "fusermount3", "-u", "-q", is_lazy ? "-z" : "-u", "--", place,
		       (char *)NULL);
		_exit(errno == ENOENT ? 127 : 126);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return ENOSYS;
	return status ? EBUSY : 0;
}

static int unmount(const struct mounted *mounted, bool is_lazy)
{
	if (geteuid() != 0)
		return unmount_as_user(mounted->place, is_lazy);
	return umount2(mounted->place, UMOUNT_NOFOLLOW | (is_lazy ? MNT_DETACH : 0)) ? errno : 0;
}

static int run_umount(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX], *is_lazy = NULL, *is_forced = NULL;
	const struct cli_flag flags[] = {
		{"lazy", NULL, "out of sight at once; it ends when nobody uses it any more",
		 &is_lazy},
		{"force", NULL, "give up what is not synced; programs that wait there get errors",
		 &is_forced},
		{0},
	};
	struct mounted mounted;
	char users[512];
	int fd, ret, status;
	pid_t pid = 0;

	if (cli_arguments(cli, command, flags, argc, argv, 1, 1, arguments, &status) < 0)
		return status;
	if (!find_asked(arguments[0], &mounted))
		return cli_fail("umount %s: no file system of Afar is mounted there; 'findmnt -t "
				"fuse.afar' lists them",
				arguments[0]);
	fd = is_lazy && !is_forced ? -1 : connect_to(&mounted, &pid);
	ret = is_forced && fd >= 0 && kill(pid, SIGKILL) ? errno : 0;
	if (!ret)
		ret = unmount(&mounted, is_lazy || is_forced);
	if (!ret && fd >= 0)
		wait_for_end(arguments[0], fd, pid);
	if (fd >= 0)
		close(fd);
	if (!ret)
		return 0;
	if (ret == ENOSYS)
		return cli_fail("umount %s: find fusermount3, which unmounts for users: it is not "
				"in PATH; install it: apt install fuse3",
				arguments[0]);
	if (ret != EBUSY)
		return cli_fail("umount %s: %s", arguments[0], afar_strerror(ret));
	name_users(mounted.place, users, sizeof(users));
	return cli_fail("umount %s: it is in use by %s; end that first, or say --lazy; if the "
			"manager or a server is away for good, --force gives up what is not synced",
			arguments[0], users);
}

const struct cli_command umount_commands[] = {
	{"umount", "DIR [--lazy] [--force]", "unmount a file system", run_umount},
	{0},
};
