/* SPDX-License-Identifier: BSD-3-Clause */
/* The work that file systems do by themselves, in its order: in a batch of the core's own (files_work()), or between batches
 * (files_drive()). A file that has such work is called from here. */
#include <errno.h>

#include "manager/dispatch/files_surplus.h"
#include "manager/dispatch/files_work.h"
#include "manager/files/files.h"
#include "manager/files/holds.h"
#include "manager/files/pool.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

#define END_AT_ONCE 256U /* in one commit */

/* Ends one of whom nobody has told that he holds it, or what it has ahead. */
static int end_one(struct file *file)
{
	/* The record stays until that is known, whoever has it open. */
	if (end_may_be_lost(file))
		return file_note_ahead(file, true) ?: end_lose(file);
	/* The sessions that hold it close it later; it may get a name before. */
	if (file_is_held(file))
		return file_note_ahead(file, true) ?: file_settle(file);
	record_delete_ahead(file->fs, file->ino);
	return file->inode->nlink != 0 ? file_trim_closed(file) : file_settle(file);
}

/* Units of what older records have may be others' by now. */
static bool can_end_left(const struct fs *fs)
{
	const struct namespace *ns = fs_namespace(fs);

	return fs->nr_unreclaimed == 0 && fs->nr_left != 0 && ns && !ns->is_suspect;
}

static int end_left(struct fs *fs)
{
	struct file *file;
	int ret;

	for (unsigned i = 0; i < END_AT_ONCE && fs->nr_left != 0; i++) {
		uint64_t ino = fs->left[fs->nr_left - 1];
		size_t mark = undo_mark(fs_undo(fs));

		ret = file_get(fs, ino, &file);
		if (ret == 0) {
			ret = end_one(file);
		} else if (ret == -ESTALE) {
			record_delete_ahead(fs, ino);
			ret = 0;
		}
		ret = fs_may_fail(fs, ino, mark, ret);
		if (ret == 0)
			ret = undo_room(fs_undo(fs), 1);
		if (ret < 0)
			return ret;
		undo_set(fs_undo(fs), fs->nr_left, fs->nr_left - 1);
	}
	return 0;
}

/* Work that failed is tried again, but not at once. It holds up nobody else. */
static void end_work(struct core *core, size_t mark, int ret)
{
	if (undo_end(core->undo, mark, ret) < 0)
		core->files->retry_at = core_now(core) + CORE_RETRY_NS;
}

void files_work(struct core *core)
{
	struct files *files = core->files;
	struct fs *fs;
	size_t mark;

	if (files->retry_at > core_now(core))
		return;
	files->retry_at = 0;
	cds_list_for_each_entry (fs, &files->systems, node) {
		mark = undo_mark(core->undo);
		if (can_end_left(fs))
			end_work(core, mark, end_left(fs));
		mark = undo_mark(core->undo);
		end_work(core, mark, gone_work(fs));
		mark = undo_mark(core->undo);
		end_work(core, mark, ends_work(fs));
		mark = undo_mark(core->undo);
		end_work(core, mark, shrink_work(fs));
	}
	if (files->nr_emptied != 0) {
		bool is_over = false;
		int ret;

		mark = undo_mark(core->undo);
		ret = record_empty(core, files->emptied[files->nr_emptied - 1], &is_over);
		if (ret == 0 && is_over)
			ret = undo_room(core->undo, 1);
		if (ret == 0 && is_over)
			undo_set(core->undo, files->nr_emptied, files->nr_emptied - 1);
		end_work(core, mark, ret);
	}
}

void files_drive(struct core *core)
{
	struct fs *fs;

	cds_list_for_each_entry (fs, &core->files->systems, node) {
		gone_drive(fs);
		drops_drive(fs);
		silence_drive(fs);
		ends_drive(fs);
		scrubs_drive(fs);
		fs_forget_idle(fs);
		shrink_drive(fs);
	}
}

/* When there is work of one to do. */
static uint64_t next_work(const struct fs *fs)
{
	uint64_t gone = gone_next(fs), shrink = shrink_next(fs), silence = silence_next(fs);
	uint64_t next = gone < shrink ? gone : shrink, ends = ends_next(fs);

	next = next < ends ? next : ends;
	if (can_end_left(fs))
		return 0;
	return next < silence ? next : silence;
}

uint64_t files_next(const struct core *core)
{
	const struct files *files = core->files;
	uint64_t next = files->nr_emptied != 0 ? 0 : CORE_NEVER, work;
	const struct fs *fs;

	cds_list_for_each_entry (fs, &files->systems, node) {
		work = next_work(fs);
		next = work < next ? work : next;
	}
	if (next < files->retry_at)
		next = files->retry_at;
	cds_list_for_each_entry (fs, &files->systems, node)
		if (fs->retry_at != 0 && fs->retry_at < next)
			next = fs->retry_at;
	return next;
}
