/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which session has the end of a file for itself, and which ends are lost; see ends.c, which reads these. The undo takes back who has one, but
 * not that one is lost.
 *
 * A lost end that was told of stays until the batch is committed: lost_ends_sort() forgets it then. So no tree is changed that a batch may
 * have to put back.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "manager/connections/live.h"
#include "manager/files/holds.h"
#include "manager/files/pool.h"
#include "manager/files/records.h"
#include "manager/files/table.h"
#include "rpc/end_slot.h"
#include "rpc/manager_features.h"

/* Units that a file system may still have, or no file gets a slot: a file may have all of the last ones. */
#define ROOM_MIN 1024U

#define GIVEN_NS ((uint64_t)END_GIVEN_MS * 1000000U)

const struct run *end_slot_of(const struct file *file)
{
	const struct runs *runs = file->runs;
	const struct run *last = runs && runs->nr != 0 ? &runs->run[runs->nr - 1] : NULL;

	return last && last->unit >= FILE_SLOT_UNIT ? last : NULL;
}

/* ---- Those that are lost */

COMPARE_BY(compare_lost, lost_end, ino)

void lost_ends_init(struct fs *fs)
{
	CDS_INIT_LIST_HEAD(&fs->lost_ends.fresh);
	CDS_INIT_LIST_HEAD(&fs->lost_ends.later);
	CDS_INIT_LIST_HEAD(&fs->lost_ends.over);
	CDS_INIT_LIST_HEAD(&fs->lost_ends.told);
}

static bool free_lost(void *argument, void *row)
{
	(void)argument;
	free(row);
	return true;
}

void lost_ends_free(struct fs *fs)
{
	tree_walk(fs->lost_ends.by_ino, free_lost, NULL);
	tree_close(&fs->lost_ends.by_ino);
}

static struct lost_end *find(const struct fs *fs, uint64_t ino)
{
	const struct lost_end key = {.ino = ino};

	return tree_find(&fs->lost_ends.by_ino, &key, compare_lost);
}

struct lost_end *end_find_lost(const struct fs *fs, uint64_t ino)
{
	struct lost_end *lost = fs->lost_ends.by_ino ? find(fs, ino) : NULL;

	return lost && !lost->is_settled ? lost : NULL;
}

struct lost_end *end_find_asked(const struct fs *fs, uint64_t ino, uint64_t number)
{
	struct lost_end *lost = end_find_lost(fs, ino);

	return lost && lost->number == number ? lost : NULL;
}

bool end_is_lost(const struct file *file)
{
	return end_find_lost(file->fs, file->ino);
}

/* One that was settled in this batch is lost anew. */
static struct lost_end *get_lost(struct fs *fs, uint64_t ino)
{
	struct lost_end *lost = find(fs, ino);
	void *hidden;

	if (lost) {
		cds_list_del(&lost->node);
		return lost;
	}
	lost = malloc(sizeof(*lost));
	if (!lost)
		return NULL;
	lost->ino = ino;
	if (tree_add(&fs->lost_ends.by_ino, lost, compare_lost, &hidden) == 0)
		return lost;
	free(lost);
	return NULL;
}

static int add(struct file *file, const struct lost_end *new)
{
	struct fs *fs = file->fs;
	struct lost_end *lost = get_lost(fs, file->ino);

	if (!lost)
		return error_code(-ENOMEM);
	*lost = *new;
	lost->ino = file->ino;
	lost->number = ++fs->files->last_recall;
	cds_list_add_tail(&lost->node, &fs->lost_ends.fresh);
	return 0;
}

int end_add_lost(struct file *file, uint64_t session)
{
	struct lost_end lost = {.session = session, .length = END_SLOT_BYTES};
	int ret = file_load_runs(file);

	if (ret < 0 || !end_slot_of(file) || end_is_lost(file))
		return ret;
	lost.offset = end_slot_of(file)->pool_unit * FILE_UNIT;
	return add(file, &lost);
}

static bool is_written(const struct file *file)
{
	const struct hold *hold;

	cds_list_for_each_entry (hold, &file->holds, node)
		if (hold->access & W_OK)
			return true;
	return false;
}

uint64_t end_tail_of(const struct file *file, uint64_t *offset)
{
	const uint64_t size = file->inode->size, unit = size / FILE_UNIT, from = size % FILE_UNIT;
	size_t at = runs_find(file->runs, unit);
	const struct run *run = at < file->runs->nr ? &file->runs->run[at] : NULL;

	if (from == 0 || is_written(file) || !run || run->unit > unit)
		return 0;
	*offset = (run->pool_unit + unit - run->unit) * FILE_UNIT + from;
	return FILE_UNIT - from;
}

int end_clear_tail(struct file *file)
{
	struct lost_end lost = {.is_tail = true};
	int ret = file->inode ? file_load_runs(file) : 0;

	if (ret < 0 || !file->inode || file->inode->nlink == 0 || end_is_lost(file))
		return ret;
	lost.layout = file->inode->layout;
	lost.length = end_tail_of(file, &lost.offset);
	return lost.length != 0 ? add(file, &lost) : 0;
}

int end_lose(struct file *file)
{
	/* One without a name ends with whoever has it open. */
	int ret = file->inode && file->inode->nlink != 0 ? end_add_lost(file, 0) : 0;

	return ret == 0 && file->ender != 0 ? end_set(file, 0, 0) : ret;
}

static void forget(struct fs *fs, struct lost_end *lost)
{
	tree_hide(&fs->lost_ends.by_ino, lost, compare_lost);
	tree_remove_hidden(&fs->lost_ends.by_ino, lost, compare_lost);
	free(lost);
}

void lost_ends_sort(struct fs *fs)
{
	struct lost_ends *ends = &fs->lost_ends;
	struct lost_end *lost, *next;

	cds_list_for_each_entry_safe (lost, next, &ends->told, node) {
		cds_list_del(&lost->node);
		if (lost->is_settled)
			forget(fs, lost);
		else if (lost->is_tail && lost->retry_at == 0)
			cds_list_add_tail(&lost->node, &ends->fresh);
		else
			cds_list_add_tail(&lost->node, &ends->later);
	}
}

/* ---- Who is told */

bool end_may_be_lost(struct file *file)
{
	const struct inode *inode = file->inode;

	return inode && inode->nlink != 0 && inode->nr_units != 0 && file->slot_owner == 0 &&
	       file_load_runs(file) == 0 && end_slot_of(file);
}

/* A copy of the records that nobody has accepted says what is old in any case. */
bool end_is_left(struct file *file)
{
	const struct fs *fs = file->fs;

	return fs_has_left(fs, file->ino) && !fs_is_suspect(fs) && end_may_be_lost(file);
}

static int fail_unknown(const struct file *file)
{
	return error_fail(-EBUSY,
			  "use inode %llu: the session that wrote it last has not told where it "
			  "ends, and the server that knows does not answer; try again when it is "
			  "back, see 'afar status'",
			  (unsigned long long)file->ino);
}

/* Returns whether another session than that one knows the end, or a slot does. */
static bool is_others(struct file *file, const struct lost_end *lost, uint64_t session)
{
	if (file->ender != 0 && file->ender != session)
		return true;
	return lost ? !lost->is_told && (lost->session == 0 || lost->session != session)
		    : end_is_left(file);
}

int end_check_known(struct file *file, const struct session *session)
{
	const struct lost_end *lost = end_find_lost(file->fs, file->ino);

	if (lost && lost->is_tail)
		return 0;
	return is_others(file, lost, session->number) ? fail_unknown(file) : 0;
}

int end_check(struct file *file, const struct session *session)
{
	return is_others(file, end_find_lost(file->fs, file->ino), session->number)
		       ? fail_unknown(file)
		       : 0;
}

/* ---- Slots */

static bool reads_slots(const struct core *core, const struct layout_home *home)
{
	const struct pool *pool = state_pool(core->state, home);

	return pool && pool_is_up(pool) && pool->server->live->features & RPC_SERVER_READS;
}

bool end_reads_slot(const struct file *file)
{
	const struct region *region = volume_region(fs_namespace(file->fs));
	const struct run *slot = end_slot_of(file);
	struct layout_piece piece = {0};

	if (slot && region)
		piece = layout_piece_at(region->layout, slot->pool_unit * FILE_UNIT, FILE_UNIT);
	return piece.copy &&
	       reads_slots(fs_core(file->fs), layout_home_of(region->layout, piece.copy));
}

/* All servers must be able to read slots, because a slot may come to be at any of them. */
static bool has_readers(const struct fs *fs)
{
	const struct namespace *ns = fs_namespace(fs);
	const struct region *region = ns ? volume_region(ns) : NULL;

	for (uint32_t i = 0; region && i < region->layout->nr_homes; i++)
		if (!reads_slots(fs_core(fs), &region->layout->homes[i]))
			return false;
	return region;
}

int end_make_slot(struct file *file, const struct session *session, uint64_t *out)
{
	struct undo *undo = fs_undo(file->fs);
	const struct run *slot;
	size_t mark;
	int ret;

	*out = 0;
	if (!fs_core(file->fs)->gives_ends || file_is_shared(file, session) ||
	    fs_is_suspect(file->fs))
		return 0;
	if (!end_slot_of(file) && limits_room(file->fs) >= ROOM_MIN && has_readers(file->fs)) {
		mark = undo_mark(undo);
		ret = undo_end(undo, mark, file_take_slot(file));
		if (ret == -ENOMEM)
			return ret;
	}
	/* Without room for one it goes without, and while its server is away. */
	slot = end_reads_slot(file) ? end_slot_of(file) : NULL;
	*out = slot ? slot->pool_unit + 1 : 0;
	return slot ? end_set_owner(file, session->number) : 0;
}

/* ---- Giving and taking */

int end_set(struct file *file, uint64_t session, uint64_t until)
{
	struct fs *fs = file->fs;
	struct undo *undo = fs_undo(fs);
	int ret = undo_room(undo, 3);

	if (ret < 0)
		return ret;
	store_mark(fs_core(fs)->store, &file->holds_mark);
	undo_set(undo, fs->nr_enders, fs->nr_enders + (session != 0) - (file->ender != 0));
	undo_set(undo, file->ender, session);
	undo_set(undo, file->ender_until, until);
	file->is_ender_asked = false;
	return 0;
}

int end_set_owner(struct file *file, uint64_t session)
{
	int ret = file->slot_owner != session ? undo_room(fs_undo(file->fs), 1) : 0;

	if (ret == 0 && file->slot_owner != session)
		undo_set(fs_undo(file->fs), file->slot_owner, session);
	return ret;
}

int end_give(struct file *file, const struct session *session, bool may_append, bool *is_given)
{
	const uint64_t now = core_now(fs_core(file->fs));
	int ret = file_load_runs(file);

	*is_given = false;
	if (ret < 0 || !fs_core(file->fs)->gives_ends || file_is_shared(file, session) ||
	    file->end_quiet_until > now || file->recaller != 0 || end_is_lost(file) ||
	    !end_reads_slot(file) || file->slot_owner != session->number)
		return ret;
	*is_given = true;
	ret = undo_room(fs_undo(file->fs), 1);
	if (ret < 0)
		return ret;
	undo_set(fs_undo(file->fs), file->may_ender_append, may_append);
	return end_set(file, session->number, now + GIVEN_NS);
}

int end_take(struct file *file, uint64_t session)
{
	struct lost_end *lost = end_find_lost(file->fs, file->ino);
	int ret = 0;

	/* It is read all the same, but nobody waits for that. */
	if (lost && !lost->is_tail && lost->session == session)
		ret = undo_room(fs_undo(file->fs), 1);
	if (ret < 0)
		return ret;
	if (lost && !lost->is_tail && lost->session == session)
		undo_set(fs_undo(file->fs), lost->is_told, true);
	return file->ender == session ? end_set(file, 0, 0) : 0;
}
