/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends that sessions have for themselves. A session that alone has a file open may keep its end in the file's slot (rpc/end_slot.h), and tells of
 * none for half a second. Before another one is told anything of the file, or opens it, the session is asked for the end, and gives it up
 * (FileRevoke.only_ends, FileEnd.gives_end).
 *
 * If it dies, or answers nothing in time, the end is lost, and read from the slot. Until then nobody changes the file, and its room behind the end that
 * the manager knows stays. A call that only looks waits for a second, and is then told that end.
 *
 * A slot is a run behind all that a file can have. Only its session writes there. A write that comes late harms nobody, because no other session gets the
 * end as long as that one has the file open.
 *
 * Enders are in memory alone. After a restart, a file that nobody holds, and that has a slot, has lost its end. Lost ends are never
 * taken back: reading in vain costs a question.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <afar/afar.h>

#include "base/log.h"
#include "manager/connections/live.h"
#include "manager/connections/outgoing.h"
#include "manager/files/holds.h"
#include "manager/files/names.h"
#include "manager/files/pool.h"
#include "manager/files/records.h"
#include "manager/files/table.h"
#include "rpc/end_slot.h"
#include "rpc/manager_features.h"

/* So long nobody has the end of a file for himself that others have asked for. */
#define QUIET_NS UINT64_C(100000000)
/* A call that only looks waits so long for a server. */
#define LOOK_NS UINT64_C(1000000000)
#define SOON_NS UINT64_C(1000000)

/* Units that a file system may still have, or no file gets a slot: a file may have all of the last ones. */
#define ROOM_MIN 1024U

static outgoing_answered answered;

/* ---- Slots */

static bool reads_slots(const struct core *core, const struct layout_home *home)
{
	const struct pool *pool = state_pool(core->state, home);

	return pool && pool_is_up(pool) && pool->server->live->features & RPC_SERVER_READS;
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
	/* Without room for one it goes without. */
	slot = end_slot_of(file);
	*out = slot ? slot->pool_unit + 1 : 0;
	return 0;
}

/* ---- Reading slots */

static Afar__Request *new_request(const struct fs *fs, const struct layout_home *home,
				  const struct layout_piece *piece, const struct lost_end *lost)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__ExtentRead *read = MESSAGE_NEW(afar__extent_read, Afar__ExtentRead);

	if (!request || !read) {
		free(request);
		free(read);
		return NULL;
	}
	read->store = home->is_store ? home->life : 0;
	read->namespace_ = fs->number;
	read->extent = piece->copy->extent;
	read->offset = piece->copy->offset + piece->offset;
	read->length = lost->length;
	read->is_zeroed = lost->is_tail;
	request->extent_read = read;
	request->call_case = AFAR__REQUEST__CALL_EXTENT_READ;
	return request;
}

/* Returns whether the rest of the unit is still the file's: it may have been cut or removed. -ENOMEM, -EIO: not known now. */
static int has_tail(struct fs *fs, const struct lost_end *lost)
{
	struct file *file;
	int ret = file_get(fs, lost->ino, &file);

	if (ret < 0)
		return ret == -ESTALE ? 0 : ret;
	ret = file->inode->layout == lost->layout;
	file_put(file);
	return ret;
}

static void ask(struct fs *fs, struct lost_end *lost)
{
	int ret = lost->is_tail ? has_tail(fs, lost) : 1;
	struct core *core = fs_core(fs);
	const struct namespace *ns = fs_namespace(fs);
	const struct layout *layout = ns ? volume_region(ns)->layout : NULL;
	struct layout_piece piece = {0};
	const struct layout_home *home;
	const struct pool *pool;
	struct outgoing *outgoing;
	Afar__Request *request;

	if (ret < 0) {
		lost->retry_at = core_now(core) + CORE_RETRY_NS;
		return;
	}
	if (layout && ret != 0)
		piece = layout_piece_at(layout, lost->offset, lost->length);
	lost->has_no_slot = !piece.copy || !state_extent_of(core->state, layout, piece.copy);
	if (lost->has_no_slot)
		return;
	home = layout_home_of(layout, piece.copy);
	pool = state_pool(core->state, home);
	lost->retry_at = core_now(core) + CORE_RETRY_NS;
	if (!pool || !pool_is_up(pool) || (lost->is_tail && pool->server->live->retry_at != 0))
		return;
	outgoing = outgoing_new(answered, pool->server->live);
	request = new_request(fs, home, &piece, lost);
	if (!outgoing || !request) {
		outgoing_free(outgoing);
		if (request)
			afar__request__free_unpacked(request, NULL);
		return;
	}
	/* It must not be zeroed later, when somebody writes there: the server drops orders of a connection that has ended. */
	outgoing->may_fail = !lost->is_tail;
	outgoing->fs = fs->number;
	outgoing->recall = lost->number;
	outgoing->extents.home = pool_home(pool);
	lost->is_asked = true;
	server_call(core, pool->server->live, server_timeout_ms(pool->server->live), request,
		    outgoing);
}

void ends_drive(struct fs *fs)
{
	const uint64_t now = core_now(fs_core(fs));
	struct file *file, *next;
	struct lost_end *lost;

	cds_list_for_each_entry_safe (file, next, &fs->enders, ended) {
		if (file->ender != 0)
			continue;
		cds_list_del(&file->ended);
		CDS_INIT_LIST_HEAD(&file->ended);
	}
	if (!fs_namespace(fs))
		return;
	cds_list_for_each_entry (lost, &fs->lost_ends, node)
		if (!lost->is_asked && !lost->has_no_slot && lost->retry_at <= now)
			ask(fs, lost);
}

uint64_t ends_next(const struct fs *fs)
{
	uint64_t next = CORE_NEVER;
	const struct lost_end *lost;

	if (!fs_namespace(fs))
		return next;
	cds_list_for_each_entry (lost, &fs->lost_ends, node) {
		uint64_t due = lost->has_no_slot ? 0 : lost->retry_at;

		if (!lost->is_asked && due < next)
			next = due;
	}
	return next;
}

/* ---- What a slot said */

/* Returns where the last run of a file's own ends, in bytes. */
static uint64_t end_of_room(const struct file *file)
{
	const struct runs *runs = file->runs;
	size_t nr = runs->nr - (end_slot_of(file) != NULL);

	return nr != 0 ? (runs->run[nr - 1].unit + runs->run[nr - 1].nr) * FILE_UNIT : 0;
}

/* A faulty session may have written anything: no end is behind the room that the file has. */
static int take_end(struct file *file, const uint8_t *bytes, size_t length)
{
	struct inode *inode = file->inode;
	uint64_t end;
	int ret = file_load_runs(file);

	if (ret < 0 || !end_slot_read(bytes, length, file->ino, inode->layout, &end) ||
	    end <= inode->size || end > end_of_room(file))
		return ret;
	inode = file_edit(file);
	if (!inode)
		return error_code(-ENOMEM);
	inode->size = end;
	inode_touch(inode);
	return file_set_dirty(file);
}

/* Its session may append what it has begun. So nobody else does until it has said that it does not. */
static int keep_others_out(struct file *file, uint64_t session)
{
	const struct hold *hold;

	cds_list_for_each_entry (hold, &file->holds, node)
		if (hold->session == session && (hold->access & W_OK))
			return file->appender == 0 ? hold_force_appender(file, session) : 0;
	return 0;
}

static int end_file(struct file *file)
{
	int ret;

	if (file_is_held(file))
		return 0;
	file_put(file);
	ret = file_trim_closed(file);
	return ret == 0 ? file_settle(file) : ret;
}

static int forget(struct fs *fs, struct lost_end *lost)
{
	int ret = undo_room(fs_undo(fs), 2);

	if (ret < 0)
		return ret;
	undo_unlink(fs_undo(fs), &lost->node);
	undo_gone(fs_undo(fs), lost, free);
	return 0;
}

static int end_lost(struct fs *fs, struct lost_end *lost, struct file *file)
{
	size_t mark;
	int ret = forget(fs, lost);

	mark = undo_mark(fs_undo(fs));
	return ret == 0 ? fs_may_fail(fs, file->ino, mark, end_file(file)) : ret;
}

/* The dead session may have begun to write behind the end. If nobody else writes there, the rest of the last unit is to be zeroed. Returns whether it
 * is; -ENOMEM. The session that had the end waits for that, too. */
static int begin_tail(struct lost_end *lost, const struct file *file)
{
	struct undo *undo = fs_undo(file->fs);
	const uint64_t size = file->inode->size, from = size % FILE_UNIT;
	size_t at = runs_find(file->runs, size / FILE_UNIT);
	const struct run *run = at < file->runs->nr ? &file->runs->run[at] : NULL;
	int ret;

	if (from == 0 || file_is_written_elsewhere(file, 0) || !run || run->unit > size / FILE_UNIT)
		return 0;
	ret = undo_room(undo, 6);
	if (ret < 0)
		return ret;
	undo_set(undo, lost->offset,
		 (run->pool_unit + size / FILE_UNIT - run->unit) * FILE_UNIT + from);
	undo_set(undo, lost->length, FILE_UNIT - from);
	undo_set(undo, lost->is_tail, true);
	undo_set(undo, lost->session, 0);
	undo_set(undo, lost->layout, file->inode->layout);
	undo_set(undo, lost->retry_at, 0);
	return 1;
}

/* `bytes`: of the slot. NULL: they are lost. */
static int take_slot(struct fs *fs, struct lost_end *lost, struct file *file, const uint8_t *bytes,
		     size_t length)
{
	size_t mark = undo_mark(fs_undo(fs));
	uint64_t session = lost->session;
	int ret = bytes ? take_end(file, bytes, length) : 0;

	/* Else it has told the end since. */
	if (ret == 0 && session != 0 && file->ender == session)
		ret = keep_others_out(file, session);
	if (ret == 0 && session != 0 && file->ender == session)
		ret = end_set(file, 0, 0);
	ret = fs_may_fail(fs, lost->ino, mark, ret);
	if (ret < 0)
		return ret;
	ret = bytes && file->runs ? begin_tail(lost, file) : 0;
	if (ret != 0)
		return ret < 0 ? ret : 0;
	return end_lost(fs, lost, file);
}

static int settle(struct fs *fs, struct lost_end *lost, const uint8_t *bytes, size_t length)
{
	struct file *file;
	int ret = file_get(fs, lost->ino, &file);

	if (ret < 0)
		return ret == -ESTALE ? forget(fs, lost) : ret;
	return lost->is_tail ? end_lost(fs, lost, file) : take_slot(fs, lost, file, bytes, length);
}

int ends_work(struct fs *fs)
{
	struct lost_end *lost, *next;
	int ret = 0;

	cds_list_for_each_entry_safe (lost, next, &fs->lost_ends, node) {
		if (!lost->has_no_slot || !fs_namespace(fs) || ret < 0)
			continue;
		if (!lost->is_tail)
			log_warn_some(
				"file system '%s': what a session wrote last to inode %llu may be "
				"lost, with the server that knew where the file ends",
				fs_namespace(fs)->name, (unsigned long long)lost->ino);
		ret = settle(fs, lost, NULL, 0);
	}
	return ret;
}

static int answered(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	const Afar__Reply *answer = event->answer;
	struct fs *fs = files_find(core, outgoing->fs);
	struct lost_end *lost, *found = NULL;

	if (!fs)
		return 0;
	cds_list_for_each_entry (lost, &fs->lost_ends, node)
		if (lost->number == outgoing->recall)
			found = lost;
	if (!found)
		return 0;
	found->is_asked = false;
	found->retry_at = core_now(core) + CORE_RETRY_NS;
	if (is_done && answer->result_case == AFAR__REPLY__RESULT_EXTENT_BYTES)
		return settle(fs, found, answer->extent_bytes->data.data,
			      answer->extent_bytes->data.len);
	/* Others may pass. */
	found->has_no_slot = answer && (answer->status == -AFAR_ELOST ||
					answer->status == -ERANGE || answer->status == -EBADMSG);
	return 0;
}

void ends_free(struct fs *fs)
{
	struct lost_end *lost, *next;

	cds_list_for_each_entry_safe (lost, next, &fs->lost_ends, node)
		free(lost);
}

/* ---- Who waits */

/* A call that is looked at before it is carried out. */
struct looking {
	struct core *core;
	struct event *event;
	struct fs *fs;
	uint64_t until;
};

static void wait_until(struct looking *looking, uint64_t until)
{
	if (until > looking->event->answer_by)
		until = looking->event->answer_by;
	if (until > looking->until)
		looking->until = until;
}

/* A call that only looks waits no longer than that. */
static uint64_t look_until(const struct looking *looking)
{
	if (looking->event->end_until == 0)
		looking->event->end_until = core_now(looking->core) + LOOK_NS;
	return looking->event->end_until;
}

static void wait_for_lost(struct looking *looking, bool is_change)
{
	wait_until(looking, is_change ? looking->event->answer_by : look_until(looking));
}

static void wait_for(struct looking *looking, uint64_t ino, bool is_change)
{
	const struct lost_end *lost = end_find_lost(looking->fs, ino);
	const uint64_t now = core_now(looking->core);
	struct file *file = file_cached(looking->fs, ino);

	if (lost) {
		if (lost->session != looking->event->session)
			wait_for_lost(looking, is_change);
		return;
	}
	if (!file || file->ender == 0 || file->ender == looking->event->session)
		return;
	file->end_quiet_until = now + QUIET_NS;
	/* One who has not written for long lives, as far as anybody knows: he has a second, too. */
	if (file->ender_until <= now && !file->is_ender_asked)
		file->ender_until = now + LOOK_NS;
	if (file->ender_until > now) {
		file->is_ender_asked = true;
		end_ask(file);
		wait_until(looking, file->ender_until);
	} else if (end_add_lost(file, true) == 0 && end_is_lost(file)) {
		wait_for_lost(looking, is_change);
	}
}

static void wait_for_name(struct looking *looking, uint64_t dir, const char *name, bool is_change)
{
	uint32_t type;
	uint64_t ino;

	if (check_name(name) == 0 && record_get_name(looking->fs, dir, name, &ino, &type) == 0)
		wait_for(looking, ino, is_change);
}

static void wait_for_path(struct looking *looking, const Afar__FileWho *asker,
			  const Afar__FileWalk *ask)
{
	const struct who who = who_from(asker);
	struct file *file;

	if (name_walk(looking->fs, &who, ask, &file) == 0)
		wait_for(looking, file->ino, false);
}

static int look_at_entry(void *argument, const char *name, uint64_t ino, uint32_t type)
{
	(void)name;
	(void)type;
	wait_for(argument, ino, false);
	return 0;
}

static void wait_for_look(struct looking *looking, const Afar__FileWho *who,
			  const Afar__FileLook *ask)
{
	switch (ask->what_case) {
	case AFAR__FILE_LOOK__WHAT_LOOKUP:
		wait_for_name(looking, ask->lookup->dir, ask->lookup->name, false);
		break;
	case AFAR__FILE_LOOK__WHAT_WALK:
		wait_for_path(looking, who, ask->walk);
		break;
	case AFAR__FILE_LOOK__WHAT_STAT:
		wait_for(looking, ask->stat->ino, false);
		break;
	case AFAR__FILE_LOOK__WHAT_LIST:
		if (ask->list->with_attributes)
			record_range_names(looking->fs, ask->list->dir, ask->list->after,
					   ask->list->max != 0 ? ask->list->max : SIZE_MAX,
					   look_at_entry, looking);
		break;
	case AFAR__FILE_LOOK__WHAT_MAP:
		wait_for(looking, ask->map->ino, false);
		break;
	default:
		break;
	}
}

static void wait_for_hold(struct looking *looking, const Afar__FileHold *ask)
{
	if (ask->what_case == AFAR__FILE_HOLD__WHAT_OPEN)
		wait_for(looking, ask->open->ino, ask->open->access & W_OK);
	else if (ask->what_case == AFAR__FILE_HOLD__WHAT_APPEND)
		wait_for(looking, ask->append->ino, true);
}

static void wait_for_change(struct looking *looking, const Afar__FileChange *ask)
{
	switch (ask->what_case) {
	case AFAR__FILE_CHANGE__WHAT_MAKE:
		if (!ask->make->is_nameless)
			wait_for_name(looking, ask->make->dir, ask->make->name,
				      ask->make->access & W_OK);
		break;
	case AFAR__FILE_CHANGE__WHAT_LINK:
		wait_for(looking, ask->link->ino, false);
		break;
	case AFAR__FILE_CHANGE__WHAT_SET:
		wait_for(looking, ask->set->ino, ask->set->mask & FILE_SET_SIZE);
		break;
	case AFAR__FILE_CHANGE__WHAT_EXTEND:
		wait_for(looking, ask->extend->ino, true);
		break;
	case AFAR__FILE_CHANGE__WHAT_PUNCH:
		wait_for(looking, ask->punch->ino, true);
		break;
	case AFAR__FILE_CHANGE__WHAT_SYNC:
		wait_for(looking, ask->sync->ino, false);
		break;
	default:
		break;
	}
}

/* Returns whether there is nothing to wait for: the usual case. After a restart, ends may be about to be lost. */
static bool is_idle(struct looking *looking)
{
	const struct fs *fs = looking->fs;
	const uint64_t until = looking->event->request->call_case == AFAR__REQUEST__CALL_FILES_LOOK
				       ? look_until(looking)
				       : looking->event->answer_by;

	if (looking->core->gives_ends && fs->nr_left != 0 && fs->nr_unreclaimed == 0 &&
	    !fs_is_suspect(fs) && until > core_now(looking->core))
		wait_until(looking, core_now(looking->core) + SOON_NS);
	return fs->enders.next == &fs->enders && fs->lost_ends.next == &fs->lost_ends;
}

uint64_t ends_wait(struct core *core, struct event *event, struct fs *fs)
{
	struct looking looking = {.core = core, .event = event, .fs = fs};
	const Afar__Request *request = event->request;

	if (is_idle(&looking))
		return looking.until;
	switch (request->call_case) {
	case AFAR__REQUEST__CALL_FILES_LOOK:
		for (size_t i = 0; i < request->files_look->n_operations; i++)
			wait_for_look(&looking, request->files_look->who,
				      request->files_look->operations[i]);
		break;
	case AFAR__REQUEST__CALL_FILES_HOLD:
		for (size_t i = 0; i < request->files_hold->n_operations; i++)
			wait_for_hold(&looking, request->files_hold->operations[i]);
		break;
	default:
		for (size_t i = 0; i < request->files_change->n_operations; i++)
			wait_for_change(&looking, request->files_change->operations[i]);
		break;
	}
	return looking.until;
}
