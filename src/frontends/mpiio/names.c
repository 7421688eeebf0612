/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of files as MPI programs give them: "afar:/FS/PATH", or paths in a mounted file system. */
#include "mpiio.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SCHEME	   "afar:"
#define MOUNT_TYPE "fuse.afar"
#define FUSE_MAGIC 0x65735546

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

/* ---- Mounts */

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

static bool is_below(const char *path, const char *place)
{
	size_t length = strcmp(place, "/") == 0 ? 0 : strlen(place);

	return strncmp(path, place, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* Finds the mount that a path is in. Returns whether it is one of ours; what it mounts into `source`, and how many bytes
 * of the path lead to it. */
static bool find_mount(const char *path, char source[PATH_MAX], size_t *length)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char *line = NULL, *dash;
	char type[64], at[PATH_MAX], from[PATH_MAX];
	bool is_ours = false;
	size_t size = 0;

	*length = 0;
	while (mounts && getline(&line, &size, mounts) > 0) {
		dash = strstr(line, " - ");
		if (!dash || sscanf(dash, " - %63s %4095s", type, from) != 2 ||
		    sscanf(line, "%*d %*d %*s %*s %4095s", at) != 1)
			continue;
		unescape(at);
		/* Later ones cover earlier ones. */
		if (!is_below(path, at) || strlen(at) < *length)
			continue;
		is_ours = strcmp(type, MOUNT_TYPE) == 0;
		unescape(from);
		snprintf(source, PATH_MAX, "%s", from);
		*length = strlen(at);
	}
	free(line);
	if (mounts)
		fclose(mounts);
	return is_ours;
}

bool mpiio_name_find_mounted(const char *text, struct mpiio_name *out)
{
	const char *slash = strrchr(text, '/');
	const char *name = slash ? slash + 1 : text;
	char above[PATH_MAX], source[PATH_MAX], whole[PATH_MAX + AFAR_FILE_NAME_MAX + 2];
	struct statfs statfs_of;
	char *folder;
	size_t length;
	bool is_found;

	if (snprintf(above, sizeof(above), "%.*s", (int)(name - text), text) >=
		    (int)sizeof(above) ||
	    *name == '\0' || strlen(name) > AFAR_FILE_NAME_MAX)
		return false;
	/* A symbolic link may lead out of the mount: then the kernel is to follow it. */
	if (readlink(text, whole, sizeof(whole)) >= 0)
		return false;
	if (statfs(*above ? above : ".", &statfs_of) || statfs_of.f_type != FUSE_MAGIC)
		return false;
	folder = realpath(*above ? above : ".", NULL);
	is_found = folder && find_mount(folder, source, &length);
	if (is_found) {
		int n = snprintf(whole, sizeof(whole), "%s%s/%s", source, folder + length, name);

		is_found = n > 0 && (size_t)n < sizeof(whole) && split(whole, out);
		out->is_mounted = true;
	}
	free(folder);
	return is_found;
}
