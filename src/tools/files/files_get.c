/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar get` and `afar cat`: files and trees of file systems into local ones, or to standard output. */
#include "files_get.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli/interrupts.h"
#include "tools/copy/copy.h"
#include "tools/copy/failure.h"

/* ---- Streams */

int get_stream(struct afar_fs *fs, uint64_t ino, const char *what, const char *path, int fd,
	       const char *target)
{
	struct afar_file *file;
	struct copy copy;
	int ret = afar_file_open(fs, NULL, ino, O_RDONLY, &file);

	if (ret)
		return files_fail(what, path, ret);
	ret = copy_open_file(file, path, &copy);
	if (!ret) {
		ret = copy_out(&copy, fd);
		copy_close(&copy);
	}
	afar_file_close(file);
	if (!ret)
		return 0;
	if (is_interrupted())
		return CLI_INTERRUPTED;
	if (copy.is_far_error)
		return cli_fail("%s %s", what, app_failure());
	if (ret == -EPIPE)
		return CLI_NO_READER;
	return cli_fail("%s into %s: %s", what, target, afar_strerror(ret));
}

/* Finds a file to stream. Returns 0, or an exit status with a line. */
static int find_file(struct files *files, const char *what, const char *text, struct afar_fs **fs,
		     struct afar_file_stat *stat)
{
	int status = files_find_inode(files, what, text, 0, fs, stat);

	if (status)
		return status;
	if (S_ISDIR(stat->mode))
		return files_fail(what, text, -EISDIR);
	if (!S_ISREG(stat->mode))
		return cli_fail("%s %s: it is no file, directory or symbolic link, and has no "
				"content",
				what, text);
	return 0;
}

static int cat_one(struct files *files, const char *text, void *context)
{
	struct afar_file_stat stat;
	struct afar_fs *fs;
	int status = find_file(files, context, text, &fs, &stat);

	if (status)
		return status;
	if (is_interrupted())
		return CLI_INTERRUPTED;
	return get_stream(fs, stat.ino, context, text, STDOUT_FILENO, "standard output");
}

int files_cat(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	struct files files;
	char **arguments;
	int n, status;

	n = cli_argument_list(cli, command, NULL, argc, argv, 1, -1, &arguments, &status);
	if (n < 0)
		return status;
	catch_interrupts();
	status = files_begin(cli, command, true, &files);
	if (!status)
		status = files_each(&files, arguments, n, cat_one, (char *)"cat");
	return files_end(&files, status);
}

/* ---- Files and trees */

struct get {
	struct tree tree;
	const char *target;
	struct stat there; /* what the target is; st_mode 0: nothing */
};

/* Makes the entry for what goes under `name` into the folder, or NULL with a line. */
static struct tree_entry *make_entry(struct get *get, struct afar_fs *fs, const char *source,
				     const char *folder, const char *name)
{
	struct tree_dir *dir = tree_dir_new(&get->tree, NULL);
	struct tree_entry *entry = NULL;

	if (dir) {
		dir->fs = fs;
		dir->target = strdup(folder);
		entry = dir->target ? tree_entry_new(dir, source, name) : NULL;
		tree_dir_drop(dir);
	}
	if (!entry)
		files_fail("get", source, -ENOMEM);
	return entry;
}

/* Makes the entry of a copy in the target's place. A symbolic link stays, and what it leads to is
 * replaced. */
static struct tree_entry *make_entry_there(struct get *get, struct afar_fs *fs, const char *source)
{
	struct tree_entry *entry = NULL;
	char *path, *folder, *name;

	path = get->there.st_mode ? realpath(get->target, NULL) : strdup(get->target);
	if (!path) {
		cli_fail("get into %s: %s", get->target, afar_strerror(errno));
		return NULL;
	}
	for (size_t length = strlen(path); length > 1 && path[length - 1] == '/'; length--)
		path[length - 1] = '\0';
	folder = files_folder(path);
	name = strrchr(path, '/');
	name = name ? name + 1 : path;
	if (folder)
		entry = make_entry(get, fs, source, folder, name);
	free(folder);
	free(path);
	return entry;
}

/* Gets something into a device or a pipe. Returns an exit status. */
static int get_into_stream(struct get *get, struct afar_fs *fs, const struct afar_file_stat *stat,
			   const char *text)
{
	bool is_output = !strcmp(get->target, "-");
	const char *target = is_output ? "standard output" : get->target;
	int fd = is_output ? STDOUT_FILENO : open(get->target, O_WRONLY | O_CLOEXEC);
	int status;

	if (fd < 0)
		return cli_fail("get into %s: %s", target, afar_strerror(errno));
	status = get_stream(fs, stat->ino, "get", text, fd, target);
	if (!is_output && close(fd) && !status)
		status = cli_fail("get into %s: %s", target, afar_strerror(errno));
	return status;
}

static bool is_stream(const struct get *get)
{
	return !strcmp(get->target, "-") ||
	       (get->there.st_mode && !S_ISDIR(get->there.st_mode) && !S_ISREG(get->there.st_mode));
}

/* Refuses what has no place. Returns 0, or CLI_FAILED with a line. */
static int check(const struct get *get, const struct afar_file_stat *stat, const char *text)
{
	bool is_dir = S_ISDIR(stat->mode), is_there = get->there.st_mode;

	if (is_dir && !get->tree.is_recursive)
		return cli_fail("get %s: it is a directory; -r gets it with all that is in it",
				text);
	if (!is_dir && !S_ISREG(stat->mode) && !S_ISLNK(stat->mode))
		return cli_fail("get %s: it is no file, directory or symbolic link", text);
	if (is_dir && is_stream(get))
		return cli_fail("get %s into %s: a directory has no content of its own; name a "
				"folder",
				text, get->target);
	if (is_dir && is_there && !S_ISDIR(get->there.st_mode))
		return cli_fail("get %s into %s: it is no folder; name another", text, get->target);
	if (!is_dir && !is_there && get->target[strlen(get->target) - 1] == '/')
		return cli_fail("get into %s: there is no such folder; make it first", get->target);
	return 0;
}

static int get_one(struct files *files, const char *text, void *context)
{
	struct get *get = context;
	struct afar_file_stat stat;
	struct tree_entry *entry;
	struct files_path path;
	struct afar_fs *fs;
	int ret, status;

	status = files_path_parse(files->command, text, &path);
	if (!status)
		status = files_open(files, &path, &fs);
	if (status)
		return status;
	ret = files_walk(fs, &path,
			 get->tree.is_recursive && !is_stream(get) ? AFAR_WALK_NOFOLLOW : 0, &stat);
	if (ret)
		return files_fail("get", text, ret);
	status = check(get, &stat, text);
	if (status)
		return status;
	if (is_stream(get))
		return get_into_stream(get, fs, &stat, text);
	entry = S_ISDIR(get->there.st_mode)
			? make_entry(get, fs, text, get->target, files_path_name(&path))
			: make_entry_there(get, fs, text);
	if (!entry)
		return CLI_FAILED;
	entry->stat = stat;
	entry->device = (uintptr_t)fs;
	tree_add(entry, NULL);
	return 0;
}

int files_get(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *recursive = NULL, *exact = NULL;
	const struct cli_flag flags[] = {
		{"r", NULL, "directories with all that is in them", &recursive},
		{"p", NULL, "keep permissions and times; for root, owners, too", &exact},
		{0},
	};
	struct get get = {.tree = {.ops = &get_ops}};
	struct files files;
	char **arguments;
	int n, status, ended;

	n = cli_argument_list(cli, command, flags, argc, argv, 2, -1, &arguments, &status);
	if (n < 0)
		return status;
	get.target = arguments[n - 1];
	if (!*get.target)
		return cli_misuse(command, "an empty FILE is no place");
	if (stat(get.target, &get.there))
		get.there.st_mode = 0;
	if (n > 2 && !S_ISDIR(get.there.st_mode) && !is_stream(&get))
		return cli_fail("get into %s: it is no folder, and several are to go there; make "
				"it first",
				get.target);
	get.tree.files = &files;
	get.tree.is_recursive = recursive;
	get.tree.is_exact = exact;
	catch_interrupts();
	status = files_begin(cli, command, true, &files);
	if (!status)
		status = tree_begin(&get.tree);
	if (status)
		return files_end(&files, status);
	status = files_each(&files, arguments, n - 1, get_one, &get);
	ended = tree_end(&get.tree);
	return files_end(&files, status ? status : ended);
}
