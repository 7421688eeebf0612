/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar put`: local files, trees and standard input into a file system. */
#include "files_put.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/interrupts.h"
#include "tools/copy/copy.h"
#include "tools/copy/failure.h"

/* ---- Standard input */

/* Writes standard input into the file. Returns an exit status. */
static int copy_input(struct afar_file *file, const char *target)
{
	struct copy copy;
	int ret = copy_open_file(file, target, &copy);

	if (!ret) {
		ret = copy_in(&copy, STDIN_FILENO);
		copy_close(&copy);
	}
	if (!ret)
		return 0;
	if (is_interrupted())
		return CLI_INTERRUPTED;
	if (copy.is_far_error)
		return cli_fail("put - %s", app_failure());
	return cli_fail("put - %s: %s", target, afar_strerror(ret));
}

/* Puts standard input under the entry's name, once it is whole. Returns an exit status. */
static int put_input(struct tree_entry *entry, const char *target)
{
	const struct tree_dir *dir = entry->dir;
	struct afar_file *file;
	uint32_t mode;
	char aside[32];
	int ret, status;

	ret = put_look(entry, &mode);
	if (ret)
		return ret == -ECANCELED ? CLI_FAILED : files_fail("put -", target, ret);
	tree_aside(dir->tree, aside);
	ret = afar_file_create(dir->fs, NULL, dir->ino, aside, mode, O_WRONLY | O_EXCL, &file,
			       NULL);
	if (ret)
		return files_fail("put -", target, ret);
	status = copy_input(file, target);
	ret = afar_file_close(file);
	if (ret && !status)
		status = files_fail("put -", target, ret);
	if (status) {
		afar_fs_unlink(dir->fs, NULL, dir->ino, aside);
		return status;
	}
	ret = put_rename(entry, aside);
	return ret ? files_fail("put -", target, ret) : 0;
}

/* ---- Arguments */

/* Returns the name that a local path's copy gets; empty: it is "." or "..", whose content alone is meant. */
static char *last_name(const char *path)
{
	char *copy = strdup(path), *name = NULL;

	if (copy) {
		name = basename(copy);
		name = strdup(strcmp(name, ".") && strcmp(name, "..") && strcmp(name, "/") ? name
											   : "");
	}
	free(copy);
	return name;
}

struct put {
	struct tree tree;
	const char *target;
};

/*
 * Makes the entry for one argument, which goes under `name` into the target if that is a directory, else in
 * its place. NULL: it has failed with a line, and `*status` says how.
 */
static struct tree_entry *find_target(struct put *put, const char *source, const char *name,
				      bool is_dir, int *status)
{
	struct tree *tree = &put->tree;
	struct files_place place = {0};
	struct tree_entry *entry = NULL;
	struct tree_dir *dir;
	bool is_inside;

	*status = files_find_target(tree->files, "put into", put->target, name, &place, &is_inside);
	if (!*status && !is_dir && place.is_folder)
		*status = files_fail("put into", put->target, -ENOENT);
	if (!*status && is_inside && !strcmp(source, "-"))
		*status = cli_fail("put - into %s: it is a directory; name a file in it",
				   put->target);
	if (*status)
		return NULL;
	dir = tree_dir_new(tree, NULL);
	if (dir) {
		dir->fs = place.fs;
		dir->ino = place.dir;
		dir->target = is_inside ? strdup(put->target) : files_folder(put->target);
		entry = dir->target ? tree_entry_new(dir, source, place.name) : NULL;
		tree_dir_drop(dir);
	}
	if (!entry)
		*status = files_fail("put", source, -ENOMEM);
	return entry;
}

/* Looks at a local path. Returns 0, or an exit status with a line. */
static int look_at_source(const struct put *put, const char *source, struct stat *out)
{
	if (put->tree.is_recursive ? lstat(source, out) : stat(source, out))
		return cli_fail("put %s: %s", source, afar_strerror(errno));
	if (S_ISDIR(out->st_mode) && !put->tree.is_recursive)
		return cli_fail("put %s: it is a directory; -r puts it with all that is in it",
				source);
	if (!S_ISDIR(out->st_mode) && !S_ISREG(out->st_mode) && !S_ISLNK(out->st_mode))
		return cli_fail("put %s: it is no file, directory or symbolic link; put what it "
				"gives through '-'",
				source);
	return 0;
}

static int put_one(struct files *files, const char *source, void *context)
{
	struct put *put = context;
	struct tree_entry *entry;
	struct stat stat;
	char *name;
	int status;

	(void)files;
	if (!strcmp(source, "-")) {
		entry = find_target(put, source, source, false, &status);
		if (!entry)
			return status;
		entry->stat.mode = S_IFREG | 0666;
		status = put_input(entry, put->target);
		tree_done_failed(entry);
		return status;
	}
	status = look_at_source(put, source, &stat);
	if (status)
		return status;
	name = last_name(source);
	if (!name)
		return files_fail("put", source, -ENOMEM);
	entry = find_target(put, source, name, S_ISDIR(stat.st_mode), &status);
	free(name);
	if (!entry)
		return status;
	put_stat(&stat, entry);
	tree_add(entry, NULL);
	return 0;
}

int files_put(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	const char *recursive = NULL, *exact = NULL;
	const struct cli_flag flags[] = {
		{"r", NULL, "directories with all that is in them", &recursive},
		{"p", NULL, "keep permissions and times; for root, owners, too", &exact},
		{0},
	};
	struct put put = {.tree = {.ops = &put_ops}};
	struct files files;
	char **arguments;
	int n, status, ended;

	n = cli_argument_list(cli, command, flags, argc, argv, 2, -1, &arguments, &status);
	if (n < 0)
		return status;
	put.target = arguments[n - 1];
	put.tree.files = &files;
	put.tree.is_recursive = recursive;
	put.tree.is_exact = exact;
	catch_interrupts();
	status = files_begin(cli, command, false, &files);
	if (!status && n > 2)
		status = files_check_folder(&files, "put into", put.target);
	if (!status)
		status = tree_begin(&put.tree);
	if (status)
		return files_end(&files, status);
	status = files_each(&files, arguments, n - 1, put_one, &put);
	ended = tree_end(&put.tree);
	if (!status)
		status = ended;
	if (status != CLI_INTERRUPTED && files_sync(&files) && !status)
		status = CLI_FAILED;
	return files_end(&files, status);
}
