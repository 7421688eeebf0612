/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a tree is got: directories, symbolic links, further names, and small files in rounds of many. Each
 * file has a name of its own until it is whole. Called by tree.c; large files are in files_large.c,
 * the command in files_get.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files_get.h"
#include "files_walk.h"
#include "tools/copy/ends.h"

/* ---- Attributes */

static void fill_times(const struct tree_entry *entry, struct timespec out[2])
{
	const int64_t times[2] = {entry->stat.atime, entry->stat.mtime};

	for (int i = 0; i < 2; i++) {
		out[i].tv_sec = (time_t)(times[i] / 1000000000);
		out[i].tv_nsec = (long)(times[i] % 1000000000);
		if (out[i].tv_nsec < 0) {
			out[i].tv_nsec += 1000000000;
			out[i].tv_sec--;
		}
	}
}

/* Keeps owner, permissions and times of what is at `path`, as far as that was asked for. */
static int keep(const struct tree_entry *entry, const char *path, uint32_t mode, bool has_mode)
{
	const struct tree *tree = entry->dir->tree;
	struct timespec times[2];

	if (tree->is_exact && tree->is_root &&
	    fchownat(AT_FDCWD, path, entry->stat.uid, entry->stat.gid, AT_SYMLINK_NOFOLLOW))
		return -errno;
	if (has_mode && chmod(path, mode))
		return -errno;
	fill_times(entry, times);
	if (tree->is_exact && utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW))
		return -errno;
	return 0;
}

/* ---- Files */

/* Makes a path for what is not whole yet, beside the entry's target. */
static char *make_aside(const struct tree_entry *entry)
{
	char name[32];

	tree_aside(entry->dir->tree, name);
	return entry->dir->target ? files_join(entry->dir->target, name) : strdup(name);
}

/* Looks what has the name. Returns 0 or a negative errno. */
static int look(const struct tree_entry *entry, struct get_sink *sink)
{
	struct tree *tree = entry->dir->tree;
	struct stat old;

	sink->mode = tree_mode(tree, entry->stat.mode);
	if (lstat(sink->path, &old))
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(old.st_mode)) {
		tree_fail_text(tree,
			       "get into %s: it is a directory, and a file should take its "
			       "place; remove it, or name another place",
			       sink->path);
		return -ECANCELED;
	}
	if (S_ISREG(old.st_mode) && access(sink->path, W_OK))
		return -errno;
	if (S_ISREG(old.st_mode) && !tree->is_exact)
		sink->mode = old.st_mode & 07777;
	return 0;
}

int get_sink_open(const struct tree_entry *entry, struct get_sink *out)
{
	int ret;

	*out = (struct get_sink){.path = tree_target(entry), .aside = make_aside(entry), .fd = -1};
	ret = out->path && out->aside ? look(entry, out) : -ENOMEM;
	if (!ret) {
		out->fd = open(out->aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		ret = out->fd < 0 ? -errno : 0;
	}
	if (ret)
		get_sink_close(entry, out, ret);
	return ret;
}

int get_sink_close(const struct tree_entry *entry, struct get_sink *sink, int error)
{
	bool is_open = sink->fd >= 0;

	if (is_open && close(sink->fd) && !error)
		error = -errno;
	if (!error)
		error = keep(entry, sink->aside, sink->mode, true);
	if (!error && rename(sink->aside, sink->path))
		error = -errno;
	if (error && is_open)
		unlink(sink->aside);
	free(sink->path);
	free(sink->aside);
	*sink = (struct get_sink){.fd = -1};
	return error;
}

/* ---- Directories */

/* Makes the local directory, or finds it. A link is not followed, because the tree could have made it. */
static int make_dir(const struct tree_entry *entry, struct tree_dir *dir)
{
	struct stat old;

	if (!*entry->as) /* its content alone is meant */
		return 0;
	if (mkdir(dir->target, 0700 | (tree_mode(dir->tree, dir->stat.mode) & 0777)) == 0) {
		dir->is_new = true;
		return 0;
	}
	if (errno != EEXIST || lstat(dir->target, &old))
		return tree_fail_local(dir->tree, "make", dir->target, errno);
	if (!S_ISDIR(old.st_mode))
		return tree_fail_text(dir->tree,
				      "get into %s: it is there and is no directory; "
				      "remove it, or name another place",
				      dir->target);
	return 0;
}

struct listing {
	struct tree_dir *dir;
	struct pool_worker *worker;
};

/* Returns whether a peer's name stays in its directory here. */
static bool is_name(const char *name)
{
	return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int add(const struct afar_dirent *found, void *context)
{
	const struct listing *listing = context;
	struct tree_dir *dir = listing->dir;
	uint32_t type = found->stat.mode & S_IFMT;
	struct tree_entry *entry;

	if (atomic_load(&dir->tree->is_stopping))
		return -EINTR;
	if (!is_name(found->name))
		return -AFAR_EMALFORMED;
	entry = tree_entry_new(dir, found->name, found->name);
	if (!entry)
		return -ENOMEM;
	entry->stat = found->stat;
	entry->device = (uintptr_t)dir->fs;
	if (type == S_IFREG || type == S_IFDIR || type == S_IFLNK) {
		tree_add(entry, listing->worker);
		return 0;
	}
	tree_note(dir->tree, "get %s/%s: skipped: it is no file, directory or symbolic link",
		  dir->source, found->name);
	tree_done(entry, 0, 0);
	return 0;
}

static int list(struct tree_entry *entry, struct tree_dir *dir, struct pool_worker *worker)
{
	struct listing listing = {dir, worker};
	int ret = make_dir(entry, dir);

	if (ret)
		return ret;
	dir->ino = entry->stat.ino;
	ret = files_list(dir->fs, dir->ino, true, add, &listing);
	return ret ? tree_fail(dir->tree, "list", dir->source, ret) : 0;
}

/* Gives a directory its own permissions and times, which filling it has changed. */
static void leave(struct tree_dir *dir)
{
	const struct tree *tree = dir->tree;
	const struct tree_entry entry = {.dir = dir, .stat = dir->stat};
	uint32_t mode = tree_mode(tree, dir->stat.mode);
	int ret;

	if (!dir->ino || (!tree->is_exact && !dir->is_new))
		return;
	ret = keep(&entry, dir->target, mode, tree->is_exact || (mode & 0700) != 0700);
	if (ret)
		tree_fail_local(dir->tree, "set the permissions of", dir->target, ret);
}

/* ---- Symbolic links, and further names */

/* Makes something beside the entry's name by `make`, and gives it that. Returns 0 or a negative errno. */
static int make_over(const struct tree_entry *entry, int (*make)(const char *from, const char *to),
		     const char *from)
{
	struct get_sink sink = {.path = tree_target(entry), .aside = make_aside(entry), .fd = -1};
	int ret = sink.path && sink.aside ? look(entry, &sink) : -ENOMEM;

	if (!ret && make(from, sink.aside))
		ret = -errno;
	if (!ret && S_ISLNK(entry->stat.mode))
		ret = keep(entry, sink.aside, 0, false);
	if (!ret && rename(sink.aside, sink.path))
		ret = -errno;
	/* Renaming does nothing where both are one file. */
	if (sink.aside)
		unlink(sink.aside);
	free(sink.path);
	free(sink.aside);
	return ret;
}

static void get_symlink(struct tree_entry *entry)
{
	char target[AFAR_FILE_PATH_MAX + 1];
	ssize_t length;
	int ret;

	length = afar_fs_readlink(entry->dir->fs, entry->stat.ino, target, AFAR_FILE_PATH_MAX);
	if (length < 0) {
		tree_done(entry, (int)length, 0);
		return;
	}
	target[length] = '\0';
	ret = make_over(entry, symlink, target);
	if (ret)
		tree_done_local(entry, ret);
	else
		tree_done(entry, 0, 0);
}

static int get_link(struct tree_entry *entry)
{
	int ret = make_over(entry, link, entry->file->path);

	if (ret) {
		char *path = tree_target(entry);

		tree_fail_local(entry->dir->tree, "make", path ? path : entry->as, ret);
		free(path);
	}
	return ret ? -ECANCELED : 0;
}

/* ---- Small files */

struct batch {
	unsigned nr;
	struct tree_entry *entries[TREE_ROUND_FILES];
	struct afar_small_file files[TREE_ROUND_FILES];
};

/* Writes one that has been read. */
static void write_file(struct tree_entry *entry, const struct afar_small_file *file)
{
	struct get_sink sink;
	int ret = get_sink_open(entry, &sink);

	if (!ret) {
		const struct end end = {.kind = &end_local, .fd = sink.fd};

		ret = end_local.write(&end, file->data, file->length, 0);
		ret = get_sink_close(entry, &sink, ret);
	}
	if (!ret && entry->file)
		entry->file->path = tree_target(entry);
	if (ret)
		tree_done_local(entry, ret);
	else
		tree_done(entry, 0, file->length);
}

/* Reads the files of the batch, of one file system, and writes them. */
static void batch_get(struct batch *batch, struct pool_worker *worker)
{
	unsigned nr = batch->nr;

	batch->nr = 0;
	if (!nr)
		return;
	afar_fs_read_files(batch->entries[0]->dir->fs, NULL, batch->files, nr);
	for (unsigned i = 0; i < nr; i++) {
		struct tree_entry *entry = batch->entries[i];
		const struct afar_small_file *file = &batch->files[i];

		if (file->status)
			tree_done(entry, file->status, 0);
		else if (file->length > entry->stat.bytes) /* it has grown, who knows how far */
			get_large(entry, worker);
		else
			write_file(entry, file);
	}
}

static void get_round(struct tree *tree, struct tree_entry *entries, struct pool_worker *worker)
{
	struct batch *batch = calloc(1, sizeof(*batch));
	struct tree_entry *entry;
	size_t used = 0, room;

	while ((entry = entries)) {
		entries = entry->next;
		if (!batch) {
			tree_done(entry, -ENOMEM, 0);
			continue;
		}
		if (atomic_load(&tree->is_stopping)) {
			tree_done_failed(entry);
			continue;
		}
		if (S_ISLNK(entry->stat.mode)) {
			get_symlink(entry);
			continue;
		}
		room = entry->stat.bytes + 1; /* one more shows that it has grown */
		if (batch->nr && (batch->entries[0]->dir->fs != entry->dir->fs ||
				  used + room > TREE_BUFFER_BYTES)) {
			batch_get(batch, worker);
			used = 0;
		}
		batch->entries[batch->nr] = entry;
		batch->files[batch->nr++] =
			(struct afar_small_file){.size = sizeof(struct afar_small_file),
						 .ino = entry->stat.ino,
						 .data = worker->buffer + used,
						 .length = room};
		used += room;
	}
	if (batch)
		batch_get(batch, worker);
	free(batch);
}

const struct tree_ops get_ops = {
	.what = "get",
	.local_what = "get into",
	.is_local_target = true,
	.list = list,
	.round = get_round,
	.large = get_large,
	.leave = leave,
	.link = get_link,
	.round_files = TREE_ROUND_FILES,
};
