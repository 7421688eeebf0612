/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of files as MPI programs give them: "afar:/FS/PATH", or paths in a mounted file system. */
#include "mpiio.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "frontends/bypass.h"

#define SCHEME "afar:"

/* Finds what follows the scheme; NULL: there is none. */
static const char *behind_scheme(const char *text)
{
	char here[PATH_MAX];
	size_t length;

	if (strncmp(text, SCHEME, strlen(SCHEME)) == 0)
		return text + strlen(SCHEME);
	if (*text != '/' || !getcwd(here, sizeof(here)))
		return NULL;
	length = strcmp(here, "/") == 0 ? 0 : strlen(here);
	if (strncmp(text, here, length) != 0 ||
	    strncmp(text + length, "/" SCHEME, strlen("/" SCHEME)) != 0)
		return NULL;
	return text + length + strlen("/" SCHEME);
}

static bool split(const char *text, struct mpiio_name *out)
{
	const char *system = text + strspn(text, "/");
	size_t length = strcspn(system, "/");

	*out = (struct mpiio_name){0};
	/* A name that is too long stays without a path, and is refused with that. */
	if (length > AFAR_NAME_MAX || strlen(system + length) > AFAR_FILE_PATH_MAX)
		return false;
	memcpy(out->system, system, length);
	strcpy(out->path, system + length);
	return true;
}

bool mpiio_name_parse(const char *text, struct mpiio_name *out)
{
	const char *rest = behind_scheme(text);

	if (!rest)
		return false;
	split(rest, out);
	return true;
}

int mpiio_name_directory(struct afar_fs *fs, const struct mpiio_name *name, uint64_t *out)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	char above[AFAR_FILE_PATH_MAX + 1];
	const char *slash = strrchr(name->path, '/');
	int ret = 0;

	*out = name->dir;
	if (slash) {
		snprintf(above, sizeof(above), "%.*s", (int)(slash - name->path + 1), name->path);
		ret = afar_fs_walk(fs, NULL, 0, above, 0, 0, &stat);
		*out = stat.ino;
	}
	return ret;
}

/* ---- Mounts */

/* Asks the mount that a directory is in. Returns whether it is one of ours, and lets programs go around it. */
static bool ask_mount(const char *directory, struct bypass_answer *out)
{
	const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat stat;
	bool is_allowed;

	if (fd < 0)
		return false;
	/* Mounts of FUSE have devices of no driver. Others are not to be asked what they may take for something else. */
	is_allowed = fstat(fd, &stat) == 0 && major(stat.st_dev) == 0 &&
		     ioctl(fd, BYPASS_ASK, out) == 0 && out->version == BYPASS_VERSION &&
		     out->flags & BYPASS_ALLOWED;
	close(fd);
	return is_allowed && memchr(out->fs, '\0', sizeof(out->fs)) &&
	       strlen(out->fs) <= AFAR_NAME_MAX;
}

bool mpiio_name_find_mounted(const char *text, struct mpiio_name *out)
{
	const char *slash = strrchr(text, '/');
	const char *name = slash ? slash + 1 : text;
	char directory[PATH_MAX], link[1];
	struct bypass_answer answer;

	if (snprintf(directory, sizeof(directory), "%.*s", (int)(name - text), text) >=
		    (int)sizeof(directory) ||
	    *name == '\0' || strlen(name) > AFAR_FILE_NAME_MAX)
		return false;
	/* A symbolic link may lead out of the mount: then the kernel is to follow it. */
	if (readlink(text, link, sizeof(link)) >= 0 ||
	    !ask_mount(*directory ? directory : ".", &answer))
		return false;
	*out = (struct mpiio_name){.dir = answer.ino, .identity = answer.identity};
	strcpy(out->system, answer.fs);
	strcpy(out->path, name);
	return true;
}
