/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the commands on files; see files.h. Owns the file systems that the command has open. */
#include "files.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct files_open {
	struct files_open *next;
	char name[AFAR_NAME_MAX + 1];
	struct afar_fs *fs;
};

/* ---- Beginning and ending */

int files_begin(struct cli *cli, const struct cli_command *command, bool is_read_only,
		struct files *out)
{
	*out = (struct files){.cli = cli, .command = command, .is_read_only = is_read_only};
	return cli_open(cli);
}

int files_end(struct files *files, int status)
{
	struct files_open *open;

	while ((open = files->open)) {
		files->open = open->next;
		afar_fs_close(open->fs);
		free(open);
	}
	return cli_close(files->cli, status);
}

int files_sync(struct files *files)
{
	int ret, error = 0;

	for (struct files_open *open = files->open; open; open = open->next) {
		ret = afar_fs_sync(open->fs);
		if (ret)
			error = cli_fail_last(ret);
	}
	return error;
}

int files_open(struct files *files, const struct files_path *path, struct afar_fs **out)
{
	const struct afar_fs_options options = {
		.size = sizeof(options),
		.flags = files->is_read_only ? AFAR_FS_READ_ONLY : 0,
	};
	struct files_open *open;
	int ret;

	*out = NULL;
	for (open = files->open; open; open = open->next) {
		if (!strcmp(open->name, path->fs)) {
			*out = open->fs;
			return 0;
		}
	}
	open = calloc(1, sizeof(*open));
	if (!open)
		return cli_fail("open the file system %s: out of memory", path->fs);
	ret = afar_fs_open(files->cli->session, path->fs, &options, &open->fs);
	if (ret) {
		free(open);
		return cli_fail_last(ret);
	}
	strcpy(open->name, path->fs);
	open->next = files->open;
	files->open = open;
	*out = open->fs;
	return 0;
}

/* ---- Failing */

/* Returns why, and what to do, in words for a user of files. NULL: the library's line says it better. */
static const char *reason(int error)
{
	switch (error < 0 ? -error : error) {
	case ENOENT:
		return "there is no such file or directory; 'afar ls' shows what is there";
	case EEXIST:
		return "there is something of that name; remove it first, or take another name";
	case ENOTDIR:
		return "a part of the path is not a directory; 'afar stat' shows what it is";
	case EISDIR:
		return "it is a directory; name a file";
	case ENOTEMPTY:
		return "the directory is not empty; 'afar rm -r' removes what is in it, too";
	case EROFS:
		return "you may only read there; ask the owner for 'afar ns grant FS YOU rw'";
	case ELOOP:
		return "too many symbolic links; one may lead to itself: remove it";
	case ENAMETOOLONG:
		return "a name has more than 255 bytes, or the path more than 4095; take a "
		       "shorter one";
	case ENOSPC:
		return "no room is left; remove files, or add a server ('afar df' shows the room)";
	case EDQUOT:
		return "the file system, or its owner, may have no more; remove files ('afar ns "
		       "stat FS' shows the limits)";
	case EMLINK:
		return "it has as many names as a file can have; copy it instead";
	case ESTALE:
		return "it was removed meanwhile; look again with 'afar ls'";
	case EXDEV:
		return "the two are on different file systems; copy it, and remove the first";
	case ENOMEM:
		return "out of memory; end other programs";
	default:
		return NULL;
	}
}

int files_fail(const char *what, const char *path, int error)
{
	const char *why = reason(error);

	if (!why)
		why = afar_last_error();
	return cli_fail("%s %s: %s", what, path, *why ? why : afar_strerror(error));
}

/* ---- Paths */

char *files_join(const char *folder, const char *name)
{
	size_t length = strlen(folder);
	char *path;

	if (asprintf(&path, "%s%s%s", folder, length && folder[length - 1] == '/' ? "" : "/",
		     name) < 0)
		return NULL;
	return path;
}

char *files_folder(const char *path)
{
	char *copy = strdup(path), *folder = copy ? strdup(dirname(copy)) : NULL;

	free(copy);
	return folder;
}

/* Copies the path behind the file system's name, without the slashes that say nothing. False: it is too
 * long. */
static bool take_path(const char *text, char out[AFAR_FILE_PATH_MAX + 1])
{
	size_t length = 0;

	while (*text) {
		size_t name;

		text += strspn(text, "/");
		name = strcspn(text, "/");
		if (!name)
			break;
		if (name > AFAR_FILE_PATH_MAX - 1 - length)
			return false;
		out[length++] = '/';
		memcpy(out + length, text, name);
		length += name;
		text += name;
	}
	if (!length)
		out[length++] = '/';
	out[length] = '\0';
	return true;
}

int files_path_parse(const struct cli_command *command, const char *text, struct files_path *out)
{
	const char *name = text + strspn(text, "/");
	size_t length = strcspn(name, "/");

	*out = (struct files_path){.text = text};
	if (*text != '/' || !length)
		return cli_misuse(command,
				  "'%.64s' is not /FS/path with a file system's name (afar ls)",
				  text);
	if (length > AFAR_NAME_MAX)
		return cli_misuse(command, "a file system's name has at most %d bytes",
				  AFAR_NAME_MAX);
	memcpy(out->fs, name, length);
	out->is_folder = name[length] && text[strlen(text) - 1] == '/';
	if (!take_path(name + length, out->path))
		return cli_misuse(command, "a path has at most %u bytes", AFAR_FILE_PATH_MAX);
	return 0;
}

bool files_path_is_root(const struct files_path *path)
{
	return !path->path[1];
}

static bool is_dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

const char *files_path_name(const struct files_path *path)
{
	const char *name = strrchr(path->path, '/') + 1;

	if (files_path_is_root(path))
		return path->fs;
	return is_dots(name) ? "" : name;
}

int files_walk(struct afar_fs *fs, const struct files_path *path, unsigned flags,
	       struct afar_file_stat *out)
{
	int ret;

	*out = (struct afar_file_stat){.size = sizeof(*out)};
	if (path->is_folder)
		flags &= ~AFAR_WALK_NOFOLLOW;
	ret = afar_fs_walk(fs, NULL, 0, path->path, flags, 0, out);
	if (!ret && path->is_folder && !S_ISDIR(out->mode))
		return -ENOTDIR;
	return ret;
}

int files_parent(struct afar_fs *fs, const struct files_path *path, struct files_place *out)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	char folder[AFAR_FILE_PATH_MAX + 1];
	const char *name = strrchr(path->path, '/') + 1;
	int ret;

	if (!*name || is_dots(name))
		return -EINVAL;
	if (strlen(name) > AFAR_FILE_NAME_MAX)
		return -ENAMETOOLONG;
	snprintf(folder, sizeof(folder), "%.*s", (int)(name - path->path), path->path);
	ret = afar_fs_walk(fs, NULL, 0, folder, 0, 0, &stat);
	if (!ret && !S_ISDIR(stat.mode))
		ret = -ENOTDIR;
	out->fs = fs;
	out->dir = stat.ino;
	out->is_folder = path->is_folder;
	strcpy(out->name, name);
	return ret;
}

/* Parses the path and opens its file system. Returns 0, or an exit status with a line. */
static int open_path(struct files *files, const char *text, struct files_path *path,
		     struct afar_fs **fs)
{
	int status = files_path_parse(files->command, text, path);

	return status ? status : files_open(files, path, fs);
}

int files_find_inode(struct files *files, const char *what, const char *text, unsigned flags,
		     struct afar_fs **fs, struct afar_file_stat *out)
{
	struct files_path path;
	int ret, status = open_path(files, text, &path, fs);

	if (status)
		return status;
	ret = files_walk(*fs, &path, flags, out);
	return ret ? files_fail(what, text, ret) : 0;
}

int files_fail_place(const char *what, const char *text, int error)
{
	if (error == -EINVAL)
		return cli_fail("%s %s: its last part is no name in a directory; write the whole "
				"path",
				what, text);
	return files_fail(what, text, error);
}

int files_find_place(struct files *files, const char *what, const char *text,
		     struct files_place *out)
{
	struct files_path path;
	struct afar_fs *fs;
	int ret, status = open_path(files, text, &path, &fs);

	if (status)
		return status;
	ret = files_parent(fs, &path, out);
	return ret ? files_fail_place(what, text, ret) : 0;
}

int files_find_target(struct files *files, const char *what, const char *text, const char *name,
		      struct files_place *out, bool *is_inside)
{
	struct afar_file_stat stat;
	struct files_path path;
	struct afar_fs *fs;
	int ret, status = open_path(files, text, &path, &fs);
	bool is_there;

	if (status)
		return status;
	ret = files_walk(fs, &path, 0, &stat);
	is_there = !ret && S_ISDIR(stat.mode);
	if (is_inside)
		*is_inside = is_there;
	if (is_there) {
		*out = (struct files_place){.fs = fs, .dir = stat.ino};
		if (strlen(name) > AFAR_FILE_NAME_MAX)
			return files_fail(what, text, -ENAMETOOLONG);
		strcpy(out->name, name);
		return 0;
	}
	if (ret && ret != -ENOENT)
		return files_fail(what, text, ret);
	ret = files_parent(fs, &path, out);
	return ret ? files_fail_place(what, text, ret) : 0;
}

int files_check_folder(struct files *files, const char *what, const char *text)
{
	struct afar_file_stat stat;
	struct files_path path;
	struct afar_fs *fs;
	int ret, status = open_path(files, text, &path, &fs);

	if (status)
		return status;
	ret = files_walk(fs, &path, 0, &stat);
	if (ret && ret != -ENOENT && ret != -ENOTDIR)
		return files_fail(what, text, ret);
	if (ret || !S_ISDIR(stat.mode))
		return cli_fail("%s %s: it is no directory, and several are to go there; make it "
				"with 'afar mkdir'",
				what, text);
	return 0;
}

/* ---- Arguments */

int files_each(struct files *files, char **arguments, int nr, files_one *one, void *context)
{
	int first = 0, status;

	for (int i = 0; i < nr; i++) {
		status = one(files, arguments[i], context);
		if (!first)
			first = status;
	}
	return first;
}
