/* SPDX-License-Identifier: BSD-3-Clause */
/* File systems and inodes in memory. See table.h. */
#include "manager/files/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "manager/files/records.h"

COMPARE_BY(compare_files, file, ino)

/* ---- Times */

int64_t files_now(void)
{
	static int64_t last; /* on the writer's thread alone */
	struct timespec time;
	int64_t now;

	clock_gettime(CLOCK_REALTIME, &time);
	now = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
	last = now > last ? now : last + 1;
	return last;
}

void inode_touch_change(struct inode *inode)
{
	inode->ctime = files_now();
	inode->change++;
}

void inode_touch(struct inode *inode)
{
	inode_touch_change(inode);
	inode->mtime = inode->ctime;
}

/* ---- File systems */

struct fs *files_find(const struct core *core, uint64_t number)
{
	struct fs *fs;

	cds_list_for_each_entry (fs, &core->files->systems, node)
		if (fs->number == number && !fs->is_deleted)
			return fs;
	return NULL;
}

struct namespace *fs_namespace(const struct fs *fs)
{
	return state_namespace(fs_core(fs)->state, fs->number);
}

bool fs_is_suspect(const struct fs *fs)
{
	const struct namespace *ns = fs_namespace(fs);

	return ns && ns->is_suspect;
}

void fs_put(struct fs *fs)
{
	record_put_system(fs);
}

/* ---- Inodes */

struct file *file_cached(const struct fs *fs, uint64_t ino)
{
	const struct file wanted = {.ino = ino};

	return tree_find(&fs->files_by_ino, &wanted, compare_files);
}

/* Finds its place in memory, or makes it one, which is not noted: it says nothing. */
static int find_place(struct fs *fs, uint64_t ino, struct file **out)
{
	struct file *file = file_cached(fs, ino);
	void *hidden;
	int ret;

	*out = file;
	if (file)
		return 0;
	file = calloc(1, sizeof(*file));
	if (!file)
		return error_code(-ENOMEM);
	file->fs = fs;
	file->ino = ino;
	CDS_INIT_LIST_HEAD(&file->holds);
	CDS_INIT_LIST_HEAD(&file->locks);
	ret = tree_add(&fs->files_by_ino, file, compare_files, &hidden);
	if (ret < 0) {
		free(file);
		return ret;
	}
	cds_list_add_tail(&file->idle, &fs->idle);
	fs->nr_files++;
	*out = file;
	return 0;
}

static int fail_gone(uint64_t ino)
{
	return error_fail(-ESTALE, "use inode %llu: it is gone", (unsigned long long)ino);
}

int file_get(struct fs *fs, uint64_t ino, struct file **out)
{
	struct file *file = file_cached(fs, ino);
	struct inode *inode;
	int ret;

	if (file) {
		*out = file;
		store_look(fs_core(fs)->store, file->mark);
		if (!file->is_pinned) {
			cds_list_del(&file->idle);
			cds_list_add_tail(&file->idle, &fs->idle);
		}
		return file->inode ? 0 : fail_gone(ino);
	}
	ret = record_get_inode(fs, ino, &inode);
	if (ret < 0)
		return ret == -ENOENT ? fail_gone(ino) : ret;
	ret = find_place(fs, ino, out);
	if (ret < 0) {
		free(inode);
		return ret;
	}
	(*out)->inode = inode;
	return 0;
}

int file_get_directory(struct fs *fs, uint64_t ino, struct file **out)
{
	int ret = file_get(fs, ino, out);

	/* Fails as for a directory that was removed while somebody worked in it. */
	if (ret == -ESTALE)
		return error_fail(-ENOENT, "use directory %llu: it was removed",
				  (unsigned long long)ino);
	if (ret < 0 || inode_is_directory((*out)->inode))
		return ret;
	return error_fail(-ENOTDIR, "use inode %llu as a directory: it is none",
			  (unsigned long long)ino);
}

static int set_inode(struct file *file, struct inode *inode)
{
	struct undo *undo = fs_undo(file->fs);
	int ret = undo_room(undo, 3);

	if (ret < 0) {
		free(inode);
		return ret;
	}
	if (inode)
		undo_made(undo, inode, free);
	if (file->inode)
		undo_gone(undo, file->inode, free);
	undo_set(undo, file->inode, inode);
	store_mark(fs_core(file->fs)->store, &file->mark);
	return 0;
}

static int set_runs(struct file *file, struct runs *runs)
{
	struct undo *undo = fs_undo(file->fs);
	int ret = undo_room(undo, 3);

	if (ret < 0) {
		free(runs);
		return ret;
	}
	if (runs)
		undo_made(undo, runs, free);
	if (file->runs)
		undo_gone(undo, file->runs, free);
	undo_set(undo, file->runs, runs);
	store_mark(fs_core(file->fs)->store, &file->mark);
	return 0;
}

int file_new(struct fs *fs, uint32_t mode, const char *target, struct file **out)
{
	size_t length = target ? strlen(target) : 0;
	struct inode *inode = calloc(1, sizeof(*inode) + length + 1);
	struct runs *runs = calloc(1, sizeof(*runs));
	int ret = inode && runs ? undo_room(fs_undo(fs), 2) : error_code(-ENOMEM);

	if (ret == 0)
		ret = find_place(fs, fs->next_ino, out);
	if (ret != 0) {
		free(inode);
		free(runs);
		return ret;
	}
	undo_set(fs_undo(fs), fs->next_ino, fs->next_ino + 1);
	undo_set(fs_undo(fs), fs->nr_inodes, fs->nr_inodes + 1);
	fs_put(fs);
	inode->mode = mode;
	inode->nlink = 1;
	inode->size = length;
	if (target)
		memcpy(inode->target, target, length + 1);
	inode_touch(inode);
	inode->atime = inode->mtime;
	ret = set_runs(*out, runs);
	if (ret != 0) {
		free(inode);
		return ret;
	}
	return set_inode(*out, inode);
}

/* An operation that changes more does not say so, and its session forgets what it knows: calls.c. */
static void note_edited(struct file *file)
{
	struct fs *fs = file->fs;

	for (size_t i = 0; i < fs->nr_edited && i < FS_EDITED_MAX; i++)
		if (fs->edited[i] == file)
			return;
	if (fs->nr_edited < FS_EDITED_MAX)
		fs->edited[fs->nr_edited] = file;
	fs->nr_edited++;
}

struct inode *file_edit(struct file *file)
{
	size_t bytes = sizeof(struct inode) + strlen(file->inode->target) + 1;
	struct inode *copy = malloc(bytes);

	if (!copy)
		return NULL;
	memcpy(copy, file->inode, bytes);
	if (set_inode(file, copy) < 0)
		return NULL;
	note_edited(file);
	return copy;
}

void file_put(struct file *file)
{
	record_put_inode(file->fs, file->ino, file->inode);
	if (!file->is_dirty)
		return;
	if (undo_room(fs_undo(file->fs), 1) < 0)
		undo_fail(fs_undo(file->fs), error_code(-ENOMEM));
	else
		undo_set(fs_undo(file->fs), file->is_dirty, false);
}

int file_set_dirty(struct file *file)
{
	int ret = undo_room(fs_undo(file->fs), 1);

	if (ret == 0)
		undo_set(fs_undo(file->fs), file->is_dirty, true);
	return ret;
}

/* ---- Leaving memory */

int file_delete_record(struct file *file)
{
	int ret;

	record_delete_inode(file->fs, file->ino);
	ret = set_runs(file, NULL);
	/* It may leave memory, once that is committed. */
	file_unpin(file);
	return ret == 0 ? set_inode(file, NULL) : ret;
}

void file_forget(struct file *file)
{
	cds_list_del(&file->idle);
	tree_hide(&file->fs->files_by_ino, file, compare_files);
	tree_remove_hidden(&file->fs->files_by_ino, file, compare_files);
	file->fs->nr_files--;
}

void file_unpin(struct file *file)
{
	if (!file->is_pinned)
		return;
	file->is_pinned = false;
	file->fs->nr_pinned--;
	cds_list_add_tail(&file->idle, &file->fs->idle);
}

/* ---- Holds */

int holds_compare(const void *left, const void *right)
{
	const struct hold *a = tree_row(left), *b = tree_row(right);
	int order = tree_order(a->session, b->session);

	return order != 0 ? order : tree_order(a->handle, b->handle);
}

struct hold *hold_find(const struct fs *fs, uint64_t session, uint64_t handle)
{
	const struct hold wanted = {.session = session, .handle = handle};

	return tree_find(&fs->holds_by_handle, &wanted, holds_compare);
}
