/* SPDX-License-Identifier: BSD-3-Clause */
/* `afar rm`: removes files, and trees by several threads: what is in a directory first. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "files_walk.h"
#include "tools/cli/interrupts.h"
#include "tree.h"

#define ROUND_FILES 32U /* names that one thread removes one after the other */

struct listing {
	struct tree_dir *dir;
	struct pool_worker *worker;
};

static int add(const struct afar_dirent *found, void *context)
{
	const struct listing *listing = context;
	struct tree_entry *entry;

	if (atomic_load(&listing->dir->tree->is_stopping))
		return -EINTR;
	entry = tree_entry_new(listing->dir, found->name, found->name);
	if (!entry)
		return -ENOMEM;
	entry->stat = found->stat;
	tree_add(entry, listing->worker);
	return 0;
}

static int list(struct tree_entry *entry, struct tree_dir *dir, struct pool_worker *worker)
{
	struct listing listing = {dir, worker};
	int ret;

	dir->ino = entry->stat.ino;
	ret = files_list(dir->fs, dir->ino, false, add, &listing);
	return ret ? tree_fail(dir->tree, "list", dir->source, ret) : 0;
}

/* Removes a directory that should be empty now. */
static void leave(struct tree_dir *dir)
{
	const char *name = strrchr(dir->source, '/') + 1;
	int ret;

	if (atomic_load(&dir->has_failed))
		return; /* a line has been written */
	ret = afar_fs_rmdir(dir->fs, NULL, dir->parent->ino, name);
	if (!ret)
		return;
	atomic_store(&dir->has_failed, true);
	tree_fail(dir->tree, "remove", dir->source, ret);
}

static void round_rm(struct tree *tree, struct tree_entry *entries, struct pool_worker *worker)
{
	struct tree_entry *entry;

	(void)worker;
	while ((entry = entries)) {
		entries = entry->next;
		if (atomic_load(&tree->is_stopping))
			tree_done_failed(entry);
		else
			tree_done(
				entry,
				afar_fs_unlink(entry->dir->fs, NULL, entry->dir->ino, entry->name),
				0);
	}
}

static const struct tree_ops rm_ops = {
	.what = "remove",
	.list = list,
	.round = round_rm,
	.leave = leave,
	.round_files = ROUND_FILES,
};

struct rm {
	struct tree tree;
	const char *force;
};

/* Adds a tree, in the directory of the place. Returns an exit status. */
static int add_tree(struct rm *rm, const struct files_place *place, const char *text,
		    const struct afar_file_stat *stat)
{
	struct tree_dir *dir = tree_dir_new(&rm->tree, NULL);
	struct tree_entry *entry = NULL;

	if (dir) {
		dir->fs = place->fs;
		dir->ino = place->dir;
		dir->source = files_folder(text);
		entry = dir->source ? tree_entry_new(dir, place->name, place->name) : NULL;
		tree_dir_drop(dir);
	}
	if (!entry)
		return files_fail("remove", text, -ENOMEM);
	entry->stat = *stat;
	tree_add(entry, NULL);
	return 0;
}

static int rm_one(struct files *files, const char *text, void *context)
{
	struct afar_file_stat stat = {.size = sizeof(stat)};
	struct files_place place;
	struct rm *rm = context;
	struct files_path path;
	int ret, status;

	status = files_path_parse(files->command, text, &path);
	if (status)
		return status;
	if (files_path_is_root(&path))
		return cli_fail(
			"remove %s: it is a whole file system; 'afar fs rm %s' removes that", text,
			path.fs);
	status = files_open(files, &path, &place.fs);
	if (status)
		return status;
	ret = files_parent(place.fs, &path, &place);
	if (ret == -EINVAL)
		return files_fail_place("remove", text, ret);
	if (!ret)
		ret = afar_fs_lookup(place.fs, NULL, place.dir, place.name, &stat);
	if (ret == -ENOENT && rm->force)
		return 0;
	if (ret)
		return files_fail("remove", text, ret);
	if (S_ISDIR(stat.mode) && !rm->tree.is_recursive)
		return cli_fail(
			"remove %s: it is a directory; -r removes it with all that is in it", text);
	if (S_ISDIR(stat.mode))
		return add_tree(rm, &place, text, &stat);
	if (path.is_folder)
		return files_fail("remove", text, -ENOTDIR);
	ret = afar_fs_unlink(place.fs, NULL, place.dir, place.name);
	return ret && !(ret == -ENOENT && rm->force) ? files_fail("remove", text, ret) : 0;
}

int files_rm(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	struct rm rm = {.tree = {.ops = &rm_ops}};
	const char *recursive = NULL;
	const struct cli_flag flags[] = {
		{"r", NULL, "directories with all that is in them", &recursive},
		{"f", NULL, "fine if there is no such file", &rm.force},
		{0},
	};
	struct files files;
	char **arguments;
	int n, status, ended;

	n = cli_argument_list(cli, command, flags, argc, argv, 1, -1, &arguments, &status);
	if (n < 0)
		return status;
	rm.tree.files = &files;
	rm.tree.is_recursive = recursive;
	catch_interrupts();
	status = files_begin(cli, command, false, &files);
	if (!status)
		status = tree_begin(&rm.tree);
	if (status)
		return files_end(&files, status);
	status = files_each(&files, arguments, n, rm_one, &rm);
	ended = tree_end(&rm.tree);
	return files_end(&files, status ? status : ended);
}
