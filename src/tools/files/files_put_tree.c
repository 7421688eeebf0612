/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a tree is put: directories, symbolic links, further names, and small files in rounds of many. A
 * file that replaces another has a name of its own until it is whole. Called by tree.c; large files are in
 * files_large.c, the command in files_put.c.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files_put.h"
#include "tools/copy/ends.h"

/* ---- What is at the target already */

/* Looks what has the entry's name. Returns 0, -ENOENT or another error. */
static int look(const struct tree_entry *entry, struct afar_file_stat *out)
{
	*out = (struct afar_file_stat){.size = sizeof(*out)};
	return afar_fs_lookup(entry->dir->fs, NULL, entry->dir->ino, entry->as, out);
}

/* Fails an entry because of what is at the target. Returns CLI_FAILED. */
static int fail_target(const struct tree_entry *entry, const char *why)
{
	char *path = tree_target(entry);

	tree_fail_text(entry->dir->tree, "put %s: %s", path ? path : entry->as, why);
	free(path);
	return CLI_FAILED;
}

int put_look(const struct tree_entry *entry, uint32_t *mode)
{
	struct tree *tree = entry->dir->tree;
	struct afar_file_stat old;
	int ret = look(entry, &old);

	*mode = tree_mode(tree, entry->stat.mode);
	if (ret)
		return ret == -ENOENT ? 0 : ret;
	if (S_ISDIR(old.mode)) {
		fail_target(entry, "it is a directory, and a file should take its place; remove "
				   "it, or put the file elsewhere");
		return -ECANCELED;
	}
	if (!tree->is_exact && S_ISREG(old.mode))
		*mode = old.mode & 07777;
	return 0;
}

int put_rename(const struct tree_entry *entry, const char *aside)
{
	const struct tree_dir *dir = entry->dir;
	int ret = afar_fs_rename(dir->fs, NULL, dir->ino, aside, dir->ino, entry->as, 0);

	if (ret)
		afar_fs_unlink(dir->fs, NULL, dir->ino, aside);
	return ret;
}

int put_attributes(const struct tree_entry *entry, uint64_t ino)
{
	const struct tree *tree = entry->dir->tree;
	unsigned mask = AFAR_SET_MTIME;

	if (!tree->is_exact)
		return 0;
	if (tree->is_root)
		mask |= AFAR_SET_UID | AFAR_SET_GID;
	/* A change of owner may take setuid bits. */
	if (!S_ISLNK(entry->stat.mode))
		mask |= AFAR_SET_MODE;
	return afar_fs_setattr(entry->dir->fs, NULL, ino, mask, &entry->stat, NULL);
}

/* ---- Directories */

void put_stat(const struct stat *from, struct tree_entry *entry)
{
	entry->device = from->st_dev;
	entry->stat = (struct afar_file_stat){
		.size = sizeof(entry->stat),
		.ino = from->st_ino,
		.bytes = (uint64_t)from->st_size,
		.allocated = (uint64_t)from->st_blocks * 512,
		.atime = afar_file_time(from->st_atim),
		.mtime = afar_file_time(from->st_mtim),
		.mode = from->st_mode,
		.nlink = (uint32_t)from->st_nlink,
		.uid = from->st_uid,
		.gid = from->st_gid,
	};
}

/* Makes the directory, or finds it. The caller can write into a new one, whatever its permissions become. */
static int make_dir(struct tree_entry *entry, struct tree_dir *dir)
{
	const uint32_t mode = S_IFDIR | 0700 | (tree_mode(dir->tree, entry->stat.mode) & 0777);
	struct afar_file_stat made = {.size = sizeof(made)};
	int ret;

	if (!*entry->as) { /* its content alone is meant */
		dir->ino = entry->dir->ino;
		return 0;
	}
	ret = afar_fs_make(dir->fs, NULL, entry->dir->ino, entry->as, mode, 0, NULL, &made);
	dir->is_new = !ret;
	if (ret == -EEXIST) {
		ret = look(entry, &made);
		if (!ret && !S_ISDIR(made.mode))
			return fail_target(entry,
					   "it is there and is no directory; remove it, or put "
					   "the tree elsewhere");
	}
	if (ret)
		return tree_fail(dir->tree, "make", dir->target, ret);
	dir->ino = made.ino;
	return 0;
}

/* Adds what a name is in the folder that `fd` has open. */
static int add(struct tree_dir *dir, int fd, const char *name, struct pool_worker *worker)
{
	struct tree_entry *entry;
	struct stat stat;

	entry = tree_entry_new(dir, name, name);
	if (!entry)
		return tree_fail(dir->tree, "put", dir->source, -ENOMEM);
	if (fstatat(fd, name, &stat, AT_SYMLINK_NOFOLLOW)) {
		tree_done_local(entry, errno);
		return 0;
	}
	put_stat(&stat, entry);
	if (S_ISDIR(stat.st_mode) || S_ISREG(stat.st_mode) || S_ISLNK(stat.st_mode)) {
		tree_add(entry, worker);
		return 0;
	}
	tree_note(dir->tree, "put %s/%s: skipped: it is no file, directory or symbolic link",
		  dir->source, name);
	tree_done(entry, 0, 0);
	return 0;
}

static int list(struct tree_entry *entry, struct tree_dir *dir, struct pool_worker *worker)
{
	struct dirent *found;
	DIR *folder;
	int ret = make_dir(entry, dir);

	if (ret)
		return ret;
	folder = opendir(dir->source);
	if (!folder)
		return tree_fail_local(dir->tree, "list", dir->source, errno);
	errno = 0;
	while (!ret && !atomic_load(&dir->tree->is_stopping) && (found = readdir(folder))) {
		if (strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0)
			ret = add(dir, dirfd(folder), found->d_name, worker);
		errno = 0;
	}
	if (!ret && errno)
		ret = tree_fail_local(dir->tree, "list", dir->source, errno);
	closedir(folder);
	return ret;
}

/* Gives a directory its own permissions and times, which filling it has changed. */
static void leave(struct tree_dir *dir)
{
	const struct tree *tree = dir->tree;
	struct afar_file_stat to = dir->stat;
	unsigned mask = 0;
	int ret;

	if (!dir->ino)
		return;
	to.mode = tree_mode(tree, to.mode);
	if (tree->is_exact)
		mask = AFAR_SET_MODE | AFAR_SET_MTIME;
	else if (dir->is_new && (to.mode & 0700) != 0700)
		mask = AFAR_SET_MODE;
	if (tree->is_exact && tree->is_root)
		mask |= AFAR_SET_UID | AFAR_SET_GID;
	ret = mask ? afar_fs_setattr(dir->fs, NULL, dir->ino, mask, &to, NULL) : 0;
	if (ret)
		tree_fail(dir->tree, "set the permissions of", dir->target, ret);
}

/* ---- Symbolic links, and further names */

/* Makes something under the entry's name by `make`, in place of what is there. Returns 0 or an error. */
static int make_over(struct tree_entry *entry,
		     int (*make)(const struct tree_entry *entry, const char *as, void *context,
				 uint64_t *ino),
		     void *context, uint64_t *ino)
{
	uint32_t mode;
	char aside[32];
	int ret = make(entry, entry->as, context, ino);

	if (ret != -EEXIST)
		return ret;
	ret = put_look(entry, &mode);
	if (ret)
		return ret;
	tree_aside(entry->dir->tree, aside);
	ret = make(entry, aside, context, ino);
	return ret ? ret : put_rename(entry, aside);
}

static int make_symlink(const struct tree_entry *entry, const char *as, void *context,
			uint64_t *ino)
{
	struct afar_file_stat made = {.size = sizeof(made)};
	int ret = afar_fs_make(entry->dir->fs, NULL, entry->dir->ino, as, S_IFLNK | 0777, 0,
			       context, &made);

	*ino = made.ino;
	return ret;
}

static int make_name(const struct tree_entry *entry, const char *as, void *context, uint64_t *ino)
{
	(void)context;
	*ino = entry->file->ino;
	return afar_fs_link(entry->dir->fs, NULL, entry->file->ino, entry->dir->ino, as, NULL);
}

/* Reads the local link. Returns 0 or a negative errno. */
static int read_target(const struct tree_entry *entry, char out[AFAR_FILE_PATH_MAX + 1])
{
	char *path = tree_source(entry);
	ssize_t length;

	if (!path)
		return -ENOMEM;
	length = readlink(path, out, AFAR_FILE_PATH_MAX + 1);
	if (length < 0)
		length = -errno;
	free(path);
	if (length > (ssize_t)AFAR_FILE_PATH_MAX)
		return -ENAMETOOLONG;
	if (length >= 0)
		out[length] = '\0';
	return length < 0 ? (int)length : 0;
}

static void put_symlink(struct tree_entry *entry)
{
	char target[AFAR_FILE_PATH_MAX + 1];
	uint64_t ino;
	int ret = read_target(entry, target);

	if (ret) {
		tree_done_local(entry, ret);
		return;
	}
	ret = make_over(entry, make_symlink, target, &ino);
	if (!ret)
		ret = put_attributes(entry, ino);
	tree_done(entry, ret, 0);
}

static int put_link(struct tree_entry *entry)
{
	uint64_t ino;

	return make_over(entry, make_name, NULL, &ino);
}

/* ---- Small files */

/* The files of a round, with the entries that they are of. */
struct batch {
	struct tree *tree;
	unsigned nr;
	struct tree_entry *entries[TREE_ROUND_FILES];
	struct afar_small_file files[TREE_ROUND_FILES];
	char asides[TREE_ROUND_FILES][32];
};

int put_open(const struct tree_entry *entry)
{
	char *path = tree_source(entry);
	int fd;

	if (!path)
		return -ENOMEM;
	/* Not to wait for a fifo's writer, if one has taken the file's place. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		fd = -errno;
	free(path);
	return fd;
}

/* Reads a whole file into the buffer. Returns its length; -EFBIG: it is longer than it was. */
static ssize_t read_file(const struct tree_entry *entry, char *buffer, uint64_t room)
{
	const struct end file = {.kind = &end_local, .fd = put_open(entry)};
	ssize_t length;

	if (file.fd < 0)
		return file.fd;
	/* A byte more shows that it has grown. */
	if (room > entry->stat.bytes + 1)
		room = entry->stat.bytes + 1;
	length = end_local.read(&file, buffer, room, 0);
	close(file.fd);
	return length > (ssize_t)entry->stat.bytes ? -EFBIG : length;
}

static void batch_add(struct batch *batch, struct tree_entry *entry, char *data, size_t length)
{
	const struct tree *tree = batch->tree;

	batch->entries[batch->nr] = entry;
	batch->files[batch->nr++] = (struct afar_small_file){
		.size = sizeof(struct afar_small_file),
		.dir = entry->dir->ino,
		.name = entry->as,
		.mode = tree_mode(tree, entry->stat.mode),
		.uid = entry->stat.uid,
		.gid = entry->stat.gid,
		.has_owner = tree->is_exact && tree->is_root,
		.mtime = tree->is_exact ? entry->stat.mtime : 0,
		.data = data,
		.length = length,
	};
}

/* Is done with one that has been written under its name. */
static void done(struct tree_entry *entry, const struct afar_small_file *file)
{
	int ret = 0;

	if (entry->file)
		entry->file->ino = file->ino;
	/* Writing takes these bits. */
	if (file->mode & (S_ISUID | S_ISGID))
		ret = put_attributes(entry, file->ino);
	tree_done(entry, ret, file->length);
}

/* Writes the files of the batch, and is done with those that went well or have failed. Files that remain in
 * it had a name that is there. */
static void batch_write(struct batch *batch)
{
	struct afar_fs *fs = batch->entries[0]->dir->fs;
	unsigned nr = batch->nr;

	batch->nr = 0;
	afar_fs_write_files(fs, NULL, batch->files, nr);
	for (unsigned i = 0; i < nr; i++) {
		struct tree_entry *entry = batch->entries[i];
		const struct afar_small_file *file = &batch->files[i];

		if (file->status == -EEXIST) {
			batch->entries[batch->nr] = entry;
			batch->files[batch->nr++] = *file;
			continue;
		}
		if (file->status)
			tree_done(entry, file->status, 0);
		else
			done(entry, file);
	}
}

/* Replaces the files that are there: writes them under other names, and renames those. */
static void batch_replace(struct batch *batch)
{
	struct afar_fs *fs = batch->entries[0]->dir->fs;
	unsigned nr = batch->nr;
	int ret;

	batch->nr = 0;
	for (unsigned i = 0; i < nr; i++) {
		struct tree_entry *entry = batch->entries[i];
		struct afar_small_file file = batch->files[i];

		ret = put_look(entry, &file.mode);
		if (ret) {
			tree_done(entry, ret, 0);
			continue;
		}
		tree_aside(batch->tree, batch->asides[batch->nr]);
		file.name = batch->asides[batch->nr];
		batch->entries[batch->nr] = entry;
		batch->files[batch->nr++] = file;
	}
	if (batch->nr)
		afar_fs_write_files(fs, NULL, batch->files, batch->nr);
	for (unsigned i = 0; i < batch->nr; i++) {
		struct tree_entry *entry = batch->entries[i];
		const struct afar_small_file *file = &batch->files[i];

		ret = file->status;
		if (!ret)
			ret = put_rename(entry, file->name);
		if (ret)
			tree_done(entry, ret, 0);
		else
			done(entry, file);
	}
}

/* Takes an entry into the batch. Returns how much of the buffer it takes. */
static size_t take(struct batch *batch, struct tree_entry *entry, char *buffer, size_t room,
		   struct pool_worker *worker)
{
	ssize_t length;

	if (S_ISLNK(entry->stat.mode)) {
		put_symlink(entry);
		return 0;
	}
	length = read_file(entry, buffer, room);
	if (length == -EFBIG) {
		put_large(entry, worker);
		return 0;
	}
	if (length < 0) {
		tree_done_local(entry, (int)length);
		return 0;
	}
	batch_add(batch, entry, buffer, (size_t)length);
	return (size_t)length;
}

static void put_round(struct tree *tree, struct tree_entry *entries, struct pool_worker *worker)
{
	struct batch *batch = calloc(1, sizeof(*batch));
	struct tree_entry *entry;
	size_t used = 0;

	if (batch)
		batch->tree = tree;
	while ((entry = entries)) {
		entries = entry->next;
		if (!batch)
			tree_done(entry, -ENOMEM, 0);
		else if (atomic_load(&tree->is_stopping))
			tree_done_failed(entry);
		else
			used += take(batch, entry, worker->buffer + used, TREE_BUFFER_BYTES - used,
				     worker);
	}
	if (batch && batch->nr)
		batch_write(batch);
	if (batch && batch->nr)
		batch_replace(batch);
	free(batch);
}

const struct tree_ops put_ops = {
	.what = "put",
	.local_what = "put",
	.list = list,
	.round = put_round,
	.large = put_large,
	.leave = leave,
	.link = put_link,
	.round_files = TREE_ROUND_FILES,
};
