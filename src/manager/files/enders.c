/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which session has the end of a file for itself, and which ends are lost; see ends.c, which reads these. The undo takes back who has one, but
 * not that one is lost.
 */
#include <errno.h>
#include <stdlib.h>

#include "manager/files/holds.h"
#include "manager/files/pool.h"
#include "manager/files/table.h"
#include "rpc/end_slot.h"

#define GIVEN_NS ((uint64_t)END_GIVEN_MS * 1000000U)

const struct run *end_slot_of(const struct file *file)
{
	const struct runs *runs = file->runs;
	const struct run *last = runs && runs->nr != 0 ? &runs->run[runs->nr - 1] : NULL;

	return last && last->unit >= FILE_SLOT_UNIT ? last : NULL;
}

/* ---- Giving and taking */

int end_set(struct file *file, uint64_t session, uint64_t until)
{
	struct fs *fs = file->fs;
	struct undo *undo = fs_undo(fs);
	int ret = undo_room(undo, 2);

	if (ret < 0)
		return ret;
	/* It stays there until no batch can be taken back: ends_drive(). */
	if (session != 0 && cds_list_empty(&file->ended))
		cds_list_add_tail(&file->ended, &fs->enders);
	store_mark(fs_core(fs)->store, &file->holds_mark);
	undo_set(undo, file->ender, session);
	undo_set(undo, file->ender_until, until);
	file->is_ender_asked = false;
	return 0;
}

struct lost_end *end_find_lost(const struct fs *fs, uint64_t ino)
{
	struct lost_end *lost;

	cds_list_for_each_entry (lost, &fs->lost_ends, node)
		if (lost->ino == ino)
			return lost;
	return NULL;
}

bool end_is_lost(const struct file *file)
{
	return end_find_lost(file->fs, file->ino);
}

int end_check(const struct file *file, const struct session *session)
{
	const struct lost_end *lost = end_find_lost(file->fs, file->ino);

	if (!lost || lost->session == session->number)
		return 0;
	return error_fail(-EBUSY,
			  "change inode %llu: the session that wrote it last has ended, and the "
			  "server that knows where the file ends does not answer; try again when "
			  "it is back, see 'afar status'",
			  (unsigned long long)file->ino);
}

int end_give(struct file *file, const struct session *session, bool *is_given)
{
	const uint64_t now = core_now(fs_core(file->fs));
	int ret = file_load_runs(file);

	*is_given = false;
	if (ret < 0 || !fs_core(file->fs)->gives_ends || file_is_shared(file, session) ||
	    file->end_quiet_until > now || file->recaller != 0 || end_is_lost(file) ||
	    !end_slot_of(file))
		return ret;
	*is_given = true;
	return end_set(file, session->number, now + GIVEN_NS);
}

int end_take(struct file *file, uint64_t session)
{
	return file->ender == session ? end_set(file, 0, 0) : 0;
}

int end_add_lost(struct file *file, bool is_silent)
{
	struct fs *fs = file->fs;
	struct lost_end *lost;
	int ret = file_load_runs(file);

	if (ret < 0 || !end_slot_of(file) || end_find_lost(fs, file->ino))
		return ret;
	lost = calloc(1, sizeof(*lost));
	if (!lost)
		return error_code(-ENOMEM);
	lost->ino = file->ino;
	lost->session = is_silent ? file->ender : 0;
	lost->number = ++fs->files->last_recall;
	lost->offset = end_slot_of(file)->pool_unit * FILE_UNIT;
	lost->length = END_SLOT_BYTES;
	cds_list_add_tail(&lost->node, &fs->lost_ends);
	return 0;
}

int end_lose(struct file *file)
{
	int ret = end_add_lost(file, false);

	return ret == 0 && file->ender != 0 ? end_set(file, 0, 0) : ret;
}

bool end_may_be_lost(struct file *file)
{
	return file->inode && file->inode->nlink != 0 && file_load_runs(file) == 0 &&
	       end_slot_of(file);
}
