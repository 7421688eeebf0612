/* SPDX-License-Identifier: BSD-3-Clause */
/* Making a file by its name; opening one by its path, and making it if need be, as open(2) does in one call. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/files/file.h"

#define MODE_MAX 07777U

/* Where a new name is to be. */
struct place {
	uint64_t dir;
	char name[AFAR_FILE_NAME_MAX + 1];
};

static int check(const char *path, int flags, const struct afar_open_options *given,
		 struct afar_open_options *options, struct afar_file **out)
{
	if (!path || !out)
		return error_fail(-EINVAL, "open a file: %s is null", path ? "out" : "its path");
	if (*path == '\0')
		return error_fail(-ENOENT, "open a file: its path is empty");
	if ((flags & O_TMPFILE) == O_TMPFILE)
		return error_fail(-EINVAL, "open '%s': a file without a name has no path", path);
	if (given)
		return ABI_TAKE(options, given, afar_open_options, width);
	options->mode = 0666;
	return 0;
}

static int open_there(struct afar_fs *fs, const struct afar_who *who, uint64_t dir,
		      const char *path, int flags, struct afar_file **out)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	int ret = afar_fs_walk(fs, who, dir, path, flags & O_NOFOLLOW ? AFAR_WALK_NOFOLLOW : 0, 0,
			       &stat);

	return ret ? ret : afar_file_open(fs, who, stat.ino, flags, out);
}

/* Finds the directory that the last name of a path is in. -EISDIR: the path can lead to a directory alone. */
static int find_place(struct afar_fs *fs, const struct afar_who *who, uint64_t dir,
		      const char *path, struct place *place)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	char above[AFAR_FILE_PATH_MAX + 1];
	int ret;

	if (strlen(path) > AFAR_FILE_PATH_MAX || strlen(name) > AFAR_FILE_NAME_MAX)
		return error_fail(-ENAMETOOLONG,
				  "open a file: its path has %zu bytes, its name %zu; at most %u "
				  "and %u",
				  strlen(path), strlen(name), AFAR_FILE_PATH_MAX,
				  AFAR_FILE_NAME_MAX);
	if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return error_fail(-EISDIR, "make '%s': that is a directory's name", path);
	strcpy(place->name, name);
	place->dir = dir;
	if (!slash)
		return 0;
	memcpy(above, path, (size_t)(name - path));
	above[name - path] = '\0';
	ret = afar_fs_walk(fs, who, dir, above, 0, 0, &stat);
	place->dir = stat.ino;
	return ret;
}

PUBLIC_CALL_OF_CALLS(int, afar_file_create,
	    (struct afar_fs *fs, const struct afar_who *given, uint64_t dir, const char *name,
	     uint32_t mode, int flags, struct afar_file **out, struct afar_file_stat *stat),
	    (fs, given, dir, name, mode, flags, out, stat))
{
	const struct afar_open_options options = {.mode = mode};

	return file_create(fs, given, dir, name, &options, flags, out, stat);
}

PUBLIC_CALL_OF_CALLS(int, afar_file_open_path,
	    (struct afar_fs *fs, const struct afar_who *who, uint64_t dir, const char *path,
	     int flags, const struct afar_open_options *given, struct afar_file **out),
	    (fs, who, dir, path, flags, given, out))
{
	struct afar_open_options options = {0};
	struct place place;
	int ret = check(path, flags, given, &options, out);

	if (ret)
		return ret;
	if (options.mode > MODE_MAX)
		return error_fail(-EINVAL, "open '%s': mode 0%o is not one of permissions", path,
				  options.mode);
	if (!(flags & O_CREAT))
		return open_there(fs, who, dir, path, flags, out);
	/* Mostly it is there, or it may be a symbolic link to what is. */
	ret = flags & O_EXCL ? -ENOENT : open_there(fs, who, dir, path, flags, out);
	if (ret != -ENOENT)
		return ret;
	ret = find_place(fs, who, dir, path, &place);
	return ret ? ret : file_create(fs, who, place.dir, place.name, &options, flags, out, NULL);
}
