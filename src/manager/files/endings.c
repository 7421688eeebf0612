/* SPDX-License-Identifier: BSD-3-Clause */
/* Inodes that end: nothing is left of them, no name and no holder, and what they have goes back. */
#include <errno.h>

#include "base/log.h"
#include "manager/files/holds.h"
#include "manager/files/pool.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

struct xattrs_deletion {
	struct fs *fs;
	uint64_t ino;
};

static int delete_xattr(void *argument, const char *name)
{
	const struct xattrs_deletion *deletion = argument;

	record_delete_xattr(deletion->fs, deletion->ino, name);
	return 0;
}

static int give_runs(struct file *file)
{
	const struct units all = {0, UINT64_MAX};
	struct run *cuts;
	size_t nr;
	int ret = file_load_runs(file);

	if (ret == 0)
		ret = file_cut_runs(file, &all, 1, &cuts, &nr);
	return ret == 0 ? pool_give(file->fs, cuts, nr) : ret;
}

int file_destroy(struct file *file)
{
	struct xattrs_deletion deletion = {file->fs, file->ino};
	struct fs *fs = file->fs;
	int ret = 0;

	if (file->inode->nr_units != 0)
		ret = give_runs(file);
	if (ret == 0 && file->inode->nr_xattrs != 0)
		ret = record_range_xattrs(fs, file->ino, delete_xattr, &deletion);
	if (ret == 0)
		ret = undo_room(fs_undo(fs), 2);
	if (ret < 0)
		return ret;
	undo_set(fs_undo(fs), fs->nr_inodes, fs->nr_inodes - 1);
	undo_set(fs_undo(fs), file->is_dirty, false);
	ret = file_note_ahead(file, false);
	if (ret < 0)
		return ret;
	fs_put(fs);
	return file_delete_record(file);
}

int file_settle(struct file *file)
{
	if (!file->inode || file->inode->nlink != 0)
		return 0;
	/* After a restart others may have it open, and have still to tell: end_left(). */
	if (file_is_held(file) || file->fs->nr_unreclaimed != 0) {
		record_put_unlinked(file->fs, file->ino);
		return 0;
	}
	/* Its units may be others' by now, until an operator says that they are not. */
	if (gone_must_ask(file) || fs_is_suspect(file->fs)) {
		record_put_unlinked(file->fs, file->ino);
		return gone_add(file);
	}
	record_delete_unlinked(file->fs, file->ino);
	return file_destroy(file);
}

int fs_may_fail(struct fs *fs, uint64_t ino, size_t mark, int ret)
{
	ret = undo_end(fs_undo(fs), mark, ret);
	if (ret == 0 || ret == -ENOMEM)
		return ret;
	log_warn_some(
		"file system '%s': what inode %llu has and nobody uses is not given back: %s; "
		"the manager tries that again when it starts",
		fs_namespace(fs)->name, (unsigned long long)ino, error_last_line());
	return 0;
}
