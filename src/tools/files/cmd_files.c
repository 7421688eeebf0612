/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The commands on files and directories of file systems: the table of all, and those that make, move
 * and remove one name each. The others are in files_*.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd_fs.h"
#include "files.h"
#include "tools/cli/commands.h"

/* ---- Directories */

struct mkdir_options {
	const char *parents;
	uint32_t mode;
};

/* Makes a directory, with those that lead to it. Returns 0 or the library's error. */
static int make_parents(struct afar_fs *fs, struct files_path *path, uint32_t mode)
{
	struct afar_file_stat stat;
	struct files_place place;
	char *slash = path->path;
	int ret = 0;

	while (!ret && slash) {
		slash = strchr(slash + 1, '/');
		if (slash)
			*slash = '\0';
		ret = files_walk(fs, path, 0, &stat);
		if (ret == -ENOENT) {
			ret = files_parent(fs, path, &place);
			if (!ret)
				ret = afar_fs_make(fs, NULL, place.dir, place.name, S_IFDIR | mode,
						   0, NULL, NULL);
			/* Another may have made it since. */
			if (ret == -EEXIST)
				ret = files_walk(fs, path, 0, &stat);
		} else if (!ret && !S_ISDIR(stat.mode)) {
			ret = -ENOTDIR;
		}
		if (slash)
			*slash = '/';
	}
	return ret;
}

/* Makes one directory. Returns an exit status. */
static int make_one(struct files *files, const char *text, uint32_t mode)
{
	struct files_place place;
	struct files_path path;
	struct afar_fs *fs;
	int ret, status;

	status = files_path_parse(files->command, text, &path);
	if (!status)
		status = files_open(files, &path, &fs);
	if (status)
		return status;
	ret = files_path_is_root(&path) ? -EEXIST : files_parent(fs, &path, &place);
	if (ret == -ENOENT)
		return cli_fail("make %s: the directory that it would be in is not there; -p makes "
				"that, too",
				text);
	if (ret)
		return files_fail_place("make", text, ret);
	ret = afar_fs_make(fs, NULL, place.dir, place.name, S_IFDIR | mode, 0, NULL, NULL);
	return ret ? files_fail("make", text, ret) : 0;
}

static int mkdir_one(struct files *files, const char *text, void *context)
{
	const struct mkdir_options *options = context;
	struct files_path path;
	struct afar_fs *fs;
	int ret, status;

	if (!options->parents)
		return make_one(files, text, options->mode);
	status = files_path_parse(files->command, text, &path);
	if (!status)
		status = files_open(files, &path, &fs);
	if (status)
		return status;
	path.is_folder = false;
	ret = make_parents(fs, &path, options->mode);
	return ret ? files_fail("make", text, ret) : 0;
}

static mode_t get_umask(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return mask;
}

static int files_mkdir(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	struct mkdir_options options = {.mode = 0777 & ~get_umask()};
	const char *mode = NULL;
	const struct cli_flag flags[] = {
		{"p", NULL, "those that lead to it, too; fine if it is there", &options.parents},
		{"m", "OCTAL", "permissions (default: 0777 without your umask)", &mode},
		{0},
	};
	struct files files;
	char **arguments;
	int n, status;

	n = cli_argument_list(cli, command, flags, argc, argv, 1, -1, &arguments, &status);
	if (n < 0)
		return status;
	if (mode && fs_mode_parse(mode, &options.mode))
		return cli_misuse(command, "-m '%.64s' is not an octal number up to 7777", mode);
	status = files_begin(cli, command, false, &files);
	if (!status)
		status = files_each(&files, arguments, n, mkdir_one, &options);
	return files_end(&files, status);
}

static int rmdir_one(struct files *files, const char *text, void *context)
{
	struct files_place place;
	int ret, status = files_find_place(files, "remove", text, &place);

	(void)context;
	if (status)
		return status;
	ret = afar_fs_rmdir(place.fs, NULL, place.dir, place.name);
	return ret ? files_fail("remove", text, ret) : 0;
}

static int files_rmdir(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	struct files files;
	char **arguments;
	int n, status;

	n = cli_argument_list(cli, command, NULL, argc, argv, 1, -1, &arguments, &status);
	if (n < 0)
		return status;
	status = files_begin(cli, command, false, &files);
	if (!status)
		status = files_each(&files, arguments, n, rmdir_one, NULL);
	return files_end(&files, status);
}

/* ---- Moving and linking */

struct move {
	const char *target;
	const char *no_replace;
};

static int mv_one(struct files *files, const char *text, void *context)
{
	const struct move *move = context;
	struct files_place from, to;
	int ret, status;

	status = files_find_place(files, "move", text, &from);
	if (!status)
		status = files_find_target(files, "move to", move->target, from.name, &to, NULL);
	if (status)
		return status;
	if (from.fs != to.fs)
		return files_fail("move", text, -EXDEV);
	ret = afar_fs_rename(from.fs, NULL, from.dir, from.name, to.dir, to.name,
			     move->no_replace ? AFAR_RENAME_NOREPLACE : 0);
	if (ret == -EINVAL)
		return cli_fail("move %s: a directory cannot go into itself; name another place",
				text);
	return ret ? files_fail("move", text, ret) : 0;
}

static int files_mv(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	struct move move = {0};
	const struct cli_flag flags[] = {
		{"n", NULL, "fail if something has the new name", &move.no_replace},
		{0},
	};
	struct files files;
	char **arguments;
	int n, status;

	n = cli_argument_list(cli, command, flags, argc, argv, 2, -1, &arguments, &status);
	if (n < 0)
		return status;
	move.target = arguments[n - 1];
	status = files_begin(cli, command, false, &files);
	if (!status && n > 2)
		status = files_check_folder(&files, "move to", move.target);
	if (!status)
		status = files_each(&files, arguments, n - 1, mv_one, &move);
	return files_end(&files, status);
}

/* Gives the file one more name. Returns an exit status. */
static int link_one(struct files *files, const char *text, const char *link)
{
	struct files_place from, to;
	struct afar_file_stat stat;
	struct afar_fs *fs;
	int ret, status;

	status = files_find_place(files, "link", text, &from);
	if (!status)
		status = files_find_inode(files, "link", text, AFAR_WALK_NOFOLLOW, &fs, &stat);
	if (!status)
		status = files_find_target(files, "make", link, from.name, &to, NULL);
	if (status)
		return status;
	if (to.is_folder)
		return files_fail("make", link, -ENOENT);
	if (fs != to.fs)
		return cli_fail("link %s: %s is on another file system; copy it, or use -s", text,
				link);
	if (S_ISDIR(stat.mode))
		return cli_fail("link %s: a directory has one name alone; use -s", text);
	ret = afar_fs_link(fs, NULL, stat.ino, to.dir, to.name, NULL);
	return ret ? files_fail("make", link, ret) : 0;
}

static int symlink_one(struct files *files, const char *target, const char *link)
{
	const char *slash = strrchr(target, '/');
	struct files_place place;
	int ret, status;

	status = files_find_target(files, "make", link, slash ? slash + 1 : target, &place, NULL);
	if (status)
		return status;
	if (place.is_folder)
		return files_fail("make", link, -ENOENT);
	ret = afar_fs_make(place.fs, NULL, place.dir, place.name, S_IFLNK | 0777, 0, target, NULL);
	return ret ? files_fail("make", link, ret) : 0;
}

static int files_ln(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *arguments[CLI_ARGUMENTS_MAX];
	const char *symbolic = NULL;
	const struct cli_flag flags[] = {
		{"s", NULL, "a symbolic link, to any text", &symbolic},
		{0},
	};
	struct files files;
	int status;

	if (cli_arguments(cli, command, flags, argc, argv, 2, 2, arguments, &status) < 0)
		return status;
	status = files_begin(cli, command, false, &files);
	if (!status)
		status = (symbolic ? symlink_one : link_one)(&files, arguments[0], arguments[1]);
	return files_end(&files, status);
}

/* ---- Times */

/* Makes an empty file. Returns 0 or the library's error. */
static int touch_new(struct afar_fs *fs, const struct files_path *path)
{
	struct files_place place;
	int ret;

	if (path->is_folder)
		return -ENOENT;
	ret = files_parent(fs, path, &place);
	if (ret)
		return ret;
	return afar_fs_make(fs, NULL, place.dir, place.name,
			    S_IFREG | (0666 & ~(uint32_t)get_umask()), 0, NULL, NULL);
}

static int touch_one(struct files *files, const char *text, void *context)
{
	const unsigned now = AFAR_SET_ATIME_NOW | AFAR_SET_MTIME_NOW;
	struct afar_file_stat stat;
	struct files_path path;
	struct afar_fs *fs;
	int ret, status;

	(void)context;
	status = files_path_parse(files->command, text, &path);
	if (!status)
		status = files_open(files, &path, &fs);
	if (status)
		return status;
	ret = files_walk(fs, &path, 0, &stat);
	if (ret == -ENOENT)
		ret = touch_new(fs, &path);
	else if (!ret)
		ret = afar_fs_setattr(fs, NULL, stat.ino, now, &stat, NULL);
	return ret ? files_fail("touch", text, ret) : 0;
}

static int files_touch(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	struct files files;
	char **arguments;
	int n, status;

	n = cli_argument_list(cli, command, NULL, argc, argv, 1, -1, &arguments, &status);
	if (n < 0)
		return status;
	status = files_begin(cli, command, false, &files);
	if (!status)
		status = files_each(&files, arguments, n, touch_one, NULL);
	return files_end(&files, status);
}

/* ---- All */

const struct cli_command files_commands[] = {
	{"put", "[-r] [-p] FILE|-... /FS/PATH", "local files into a file system", files_put},
	{"get", "[-r] [-p] /FS/PATH... FILE|-", "files of file systems into local ones", files_get},
	{"cat", "/FS/PATH...", "files to standard output", files_cat},
	{"ls", "[-l] [-a] [-R] [-d] [/FS/PATH...] [--json]",
	 "list the file systems, or directories", files_ls},
	{"stat", "/FS/PATH... [--json]", "show what is known of a file or directory", files_stat},
	{"find", "/FS/PATH... [--name GLOB] [--type f|d|l] [--print0]",
	 "list what is below directories", files_walk_find},
	{"du", "[-s] [--bytes] /FS/PATH...", "show how much room directories take", files_du},
	{"df", "[FS]", "show how much room file systems have", files_df},
	{"mkdir", "[-p] [-m OCTAL] /FS/PATH...", "make directories", files_mkdir},
	{"rm", "[-r] [-f] /FS/PATH...", "remove files, or trees", files_rm},
	{"rmdir", "/FS/PATH...", "remove empty directories", files_rmdir},
	{"mv", "[-n] /FS/PATH... /FS/PATH", "rename, or move within a file system", files_mv},
	{"ln", "[-s] /FS/PATH /FS/PATH", "give a file one more name, or make a symbolic link",
	 files_ln},
	{"touch", "/FS/PATH...", "make empty files, or set times to now", files_touch},
	{"chmod", "[-R] OCTAL /FS/PATH...", "set permissions", files_chmod},
	{"chown", "[-R] USER[:GROUP] /FS/PATH...", "set owners", files_chown},
	{0},
};
