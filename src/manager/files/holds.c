/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Holds of files that sessions have open. They are in memory: opening commits nothing. A file that
 * is held outlives its last name, and what it has of the pool is not taken away under another
 * session.
 *
 * When a session ends, its holds stay until its servers are fenced (files_session_left()): until then
 * what it has posted may still land. After a restart of the manager nobody knows who holds what until
 * the sessions of before have told it. Until then nothing is changed (files_wait()).
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "manager/files/holds.h"
#include "manager/files/names.h"
#include "manager/files/pool.h"
#include "manager/files/table.h"

#define HOLDS_MAX	  1048576U	      /* handles of one reclaim */
#define APPEND_KEPT_NS	  UINT64_C(100000000) /* the end of a file is kept so long for what follows, */
#define APPEND_LONGEST_NS UINT64_C(500000000) /* and for all that follows together */

/* ---- Beside a batch: holds are in memory alone */

static void mark(struct file *file, uint64_t number)
{
	const struct core *core = fs_core(file->fs);
	struct session *session = state_session(core->state, number);

	store_mark(core->store, &file->holds_mark);
	if (session)
		store_mark(core->store, &session->holds_mark);
}

/* Notes that the answer reads what the session has open. */
static void look_at_session(const struct fs *fs, uint64_t number)
{
	const struct core *core = fs_core(fs);
	const struct session *session = state_session(core->state, number);

	if (session)
		store_look(core->store, session->holds_mark);
}

/* Likewise notes that it reads who has the file open. */
static void look(const struct file *file, uint64_t number)
{
	store_look(fs_core(file->fs)->store, file->holds_mark);
	look_at_session(file->fs, number);
}

/* ---- Opening */

static int add(struct file *file, uint64_t session, uint64_t handle, uint32_t access)
{
	struct undo *undo = fs_core(file->fs)->undo;
	struct hold *hold = hold_find(file->fs, session, handle);
	int ret;

	look(file, session);
	if (handle == 0)
		return error_fail(-EINVAL, "open a file: its handle is 0");
	if (hold && (hold->file != file || ((hold->access ^ access) & (R_OK | W_OK))))
		return error_fail(-EINVAL, "open a file: its handle %llu is another one's",
				  (unsigned long long)handle);
	if (hold)
		return 0;
	/* This may be taken back, and that may not: nobody is alone then, who was. */
	if ((access & W_OK) && file->alone != session)
		file->alone = 0;
	hold = calloc(1, sizeof(*hold));
	ret = hold ? undo_room(undo, 3) : error_code(-ENOMEM);
	if (ret < 0) {
		free(hold);
		return ret;
	}
	*hold = (struct hold){.file = file, .session = session, .handle = handle, .access = access};
	undo_made(undo, hold, free);
	undo_link(undo, &hold->node, &file->holds);
	mark(file, session);
	return undo_tree_add(undo, &file->fs->holds_by_handle, hold, holds_compare);
}

int hold_add(struct file *file, const struct session *session, uint64_t handle, uint32_t access)
{
	return add(file, session->number, handle, access & (R_OK | W_OK | FILE_KEEPS_PAGES));
}

bool file_is_written_elsewhere(const struct file *file, uint64_t session)
{
	const struct hold *hold;

	cds_list_for_each_entry (hold, &file->holds, node)
		if (hold->session != session && (hold->access & W_OK))
			return true;
	return false;
}

uint64_t hold_alone(struct file *file, uint64_t session)
{
	if (file_is_written_elsewhere(file, session))
		return 0;
	if (file->alone != session)
		file->alone_number = ++file->fs->files->last_alone;
	file->alone = session;
	return file->alone_number;
}

int hold_open(struct fs *fs, const struct who *who, const struct session *session,
	      const Afar__FileOpen *ask, struct file **out)
{
	const struct inode *inode;
	int ret = file_get(fs, ask->ino, out);

	if (ret < 0)
		return ret;
	inode = (*out)->inode;
	if (inode_is_directory(inode) && (ask->access & W_OK))
		return error_fail(-EISDIR, "open inode %llu to write: it is a directory",
				  (unsigned long long)ask->ino);
	if (!S_ISREG(inode->mode) && !inode_is_directory(inode))
		return error_fail(-EINVAL, "open inode %llu: it is neither file nor directory",
				  (unsigned long long)ask->ino);
	ret = check_access(who, inode, ask->access & (R_OK | W_OK));
	if (ret == 0)
		ret = ask->access & W_OK ? end_check(*out, session)
					 : end_check_known(*out, session);
	if (ret < 0)
		return ret;
	look(*out, session->number);
	return hold_add(*out, session, ask->handle,
			file_is_written_elsewhere(*out, session->number)
				? ask->access & ~FILE_KEEPS_PAGES
				: ask->access);
}

static bool holds_to_write(const struct file *file, uint64_t session)
{
	const struct hold *hold;

	cds_list_for_each_entry (hold, &file->holds, node)
		if (hold->session == session && (hold->access & W_OK))
			return true;
	return false;
}

bool hold_is_writer_but(const struct file *file, uint64_t session, uint64_t handle)
{
	const struct hold *hold;

	cds_list_for_each_entry (hold, &file->holds, node)
		if (hold->session == session && hold->handle != handle && (hold->access & W_OK))
			return true;
	return false;
}

/* ---- The end of a file, for whoever appends */

/* `until`: 0: until the session says that it has appended. `since`: it has kept the end. */
static int set_appender(struct file *file, uint64_t session, uint64_t since, uint64_t until)
{
	struct undo *undo = fs_core(file->fs)->undo;
	int ret = undo_room(undo, 4);

	if (ret < 0)
		return ret;
	mark(file, session);
	undo_set(undo, file->is_appender_forced, false);
	undo_set(undo, file->appender, session);
	undo_set(undo, file->appender_since, since);
	undo_set(undo, file->appender_until, until);
	return 0;
}

int hold_set_silent(struct file *file, uint64_t session)
{
	struct undo *undo = fs_core(file->fs)->undo;
	int ret = undo_room(undo, 2);

	if (ret < 0)
		return ret;
	mark(file, session);
	undo_set(undo, file->silent_ender, session);
	/* It may be the appender already, for a time only. */
	if (!file->may_ender_append || (file->appender != 0 && file->appender_until == 0))
		return 0;
	ret = set_appender(file, session, 0, 0);
	if (ret == 0)
		ret = undo_room(undo, 1);
	if (ret == 0)
		undo_set(undo, file->is_appender_forced, true);
	return ret;
}

static int end_silence(struct file *file, uint64_t session)
{
	struct undo *undo = fs_core(file->fs)->undo;
	int ret = file->silent_ender == session ? undo_room(undo, 1) : 0;

	if (ret < 0 || file->silent_ender != session)
		return ret;
	undo_set(undo, file->silent_ender, 0);
	return file->is_appender_forced && file->appender == session ? set_appender(file, 0, 0, 0)
								     : 0;
}

int hold_give_end(struct file *file, uint64_t session)
{
	int ret = end_silence(file, session);

	return ret == 0 ? end_take(file, session) : ret;
}

uint64_t hold_append_until(const struct file *file, uint64_t session)
{
	if (file->appender == 0 || file->appender == session)
		return 0;
	if (file->appender_until == 0)
		return CORE_NEVER;
	return file->appender_until > core_now(fs_core(file->fs)) ? file->appender_until : 0;
}

/* True: the session has the end of a file, and nobody else could have been given it. */
static bool has_end(const struct file *file, uint64_t session)
{
	return file->appender == session &&
	       (file->appender_until == 0 || file->appender_until > core_now(fs_core(file->fs)));
}

int hold_append(struct fs *fs, const struct session *session, uint64_t ino, struct file **out)
{
	int ret = file_get(fs, ino, out);

	if (ret != 0)
		return ret;
	ret = end_check(*out, session);
	if (ret != 0)
		return ret;
	if (hold_append_until(*out, session->number) != 0)
		return error_fail(-EBUSY,
				  "append to inode %llu: session %llx is appending, and does not "
				  "end; try again",
				  (unsigned long long)ino, (unsigned long long)(*out)->appender);
	if (holds_to_write(*out, session->number))
		return set_appender(*out, session->number,
				    has_end(*out, session->number) ? (*out)->appender_since : 0, 0);
	return error_fail(-EBADF, "append to inode %llu: the session has not opened it to write",
			  (unsigned long long)ino);
}

int hold_appended(struct fs *fs, const struct session *session, const Afar__FileAppended *ask)
{
	struct file *file = file_cached(fs, ask->ino);
	const uint64_t now = core_now(fs_core(fs));
	uint64_t since;

	if (!file || file->appender != session->number)
		return 0;
	since = file->appender_since ? file->appender_since : now;
	/* Records that look as if more of them followed, one after another, must not keep others out. */
	return ask->is_more && now - since < APPEND_LONGEST_NS
		       ? set_appender(file, session->number, since, now + APPEND_KEPT_NS)
		       : set_appender(file, 0, 0, 0);
}

static bool holds(const struct file *file, uint64_t session)
{
	const struct hold *hold;

	cds_list_for_each_entry (hold, &file->holds, node)
		if (hold->session == session)
			return true;
	return false;
}

/* ---- Closing */

/* The last one has closed it, or has ended: whatever is the matter with the file, he has. */
static int end_unheld(struct file *file)
{
	size_t mark = undo_mark(fs_core(file->fs)->undo);
	int ret = fs_may_fail(file->fs, file->ino, mark, file_trim_closed(file));

	mark = undo_mark(fs_core(file->fs)->undo);
	return ret == 0 ? fs_may_fail(file->fs, file->ino, mark, file_settle(file)) : ret;
}

/* A hold of the session's was dropped. If that was the last one to write, its slot alone may know the end. `has_left`: it cannot tell any more. */
static int leave_end(struct file *file, uint64_t session, bool has_left)
{
	bool was_owner = file->slot_owner == session;
	bool was_ender = file->ender == session || file->silent_ender == session;
	int ret = 0;

	if (holds_to_write(file, session))
		return 0;
	if (was_owner)
		ret = end_set_owner(file, 0);
	if (ret == 0)
		ret = end_silence(file, session);
	if (ret == 0 && was_ender)
		return end_lose(file);
	return ret == 0 && was_owner && has_left ? end_clear_tail(file) : ret;
}

static int drop(struct hold *hold, bool has_left)
{
	struct file *file = hold->file;
	struct undo *undo = fs_core(file->fs)->undo;
	bool is_writer = hold->access & W_OK;
	int ret = locks_drop(hold);

	if (ret == 0)
		ret = undo_room(undo, 4);
	if (ret < 0)
		return ret;
	mark(file, hold->session);
	undo_tree_remove(undo, &file->fs->holds_by_handle, hold, holds_compare);
	undo_unlink(undo, &hold->node);
	undo_gone(undo, hold, free);
	if (file->recaller == hold->session && !holds(file, hold->session))
		recall_end(file);
	if (file->appender == hold->session && !holds_to_write(file, hold->session)) {
		ret = set_appender(file, 0, 0, 0);
		if (ret != 0)
			return ret;
	}
	ret = leave_end(file, hold->session, has_left);
	if (ret < 0)
		return ret;
	/* If its session has ended, nobody else reclaims what it wrote after a restart. */
	if (file->is_dirty && file->inode && (is_writer || !file_is_held(file)))
		file_put(file);
	return file_is_held(file) ? file_settle(file) : end_unheld(file);
}

int hold_close(struct fs *fs, const struct session *session, uint64_t handle)
{
	struct hold *hold = hold_find(fs, session->number, handle);

	look_at_session(fs, session->number);
	if (!hold)
		return 0;
	look(hold->file, session->number);
	store_look(fs_core(fs)->store, hold->file->mark);
	return drop(hold, false);
}

int hold_close_told(struct fs *fs, const struct session *session, uint64_t handle)
{
	const struct hold *hold = hold_find(fs, session->number, handle);
	int ret = 0;

	if (hold && !hold_is_writer_but(hold->file, session->number, handle))
		ret = hold_give_end(hold->file, session->number);
	return ret == 0 ? hold_close(fs, session, handle) : ret;
}

int hold_forget(struct fs *fs, const struct session *session, const Afar__FileForget *ask)
{
	int ret = 0;

	for (size_t i = 0; i < ask->n_inos && ret == 0; i++)
		ret = hold_close(fs, session, FILE_USED | ask->inos[i]);
	return ret;
}

/* The holds of one session. */
struct search {
	uint64_t session;
	struct hold **found;
	size_t nr, max;
	int status;
};

static bool find_of_session(void *argument, void *row)
{
	struct search *search = argument;
	struct hold *hold = row;

	if (hold->session != search->session)
		return hold->session < search->session;
	if (search->nr == search->max) {
		size_t max = 2 * search->max + 16;
		struct hold **more = reallocarray(search->found, max, sizeof(*more));

		if (!more) {
			search->status = error_code(-ENOMEM);
			return false;
		}
		search->found = more;
		search->max = max;
	}
	search->found[search->nr++] = hold;
	return true;
}

/* Returns whether it was one that had not reclaimed. */
static bool set_reclaimed(struct fs *fs, uint64_t session)
{
	bool was_unreclaimed = false;

	for (size_t i = 0; i < fs->nr_unreclaimed; i++)
		if (fs->unreclaimed[i] == session) {
			fs->unreclaimed[i--] = fs->unreclaimed[--fs->nr_unreclaimed];
			was_unreclaimed = true;
		}
	return was_unreclaimed;
}

int files_session_left(struct core *core, const struct namespace *ns, uint64_t session)
{
	struct fs *fs = files_find(core, ns->number);
	const struct session *live = state_session(core->state, session);
	struct search search = {.session = session};
	int ret;

	if (!fs)
		return 0;
	/* It holds nothing any more, whatever becomes of the batch. */
	if (set_reclaimed(fs, session))
		delegations_await_silent(fs);
	delegations_leave(fs, session, live && !live->is_ending);
	tree_walk(fs->holds_by_handle, find_of_session, &search);
	ret = search.status;
	if (ret == 0)
		ret = gone_leave(fs, session);
	for (size_t i = 0; i < search.nr && ret == 0; i++)
		ret = drop(search.found[i], true);
	free(search.found);
	return ret;
}

/* ---- Sizes of what is open */

/* It has several handles perhaps, and closes any of them first. */
static int note_told(struct file *file, uint64_t session, uint64_t number)
{
	struct undo *undo = fs_core(file->fs)->undo;
	struct hold *hold;
	int ret = 0;

	cds_list_for_each_entry (hold, &file->holds, node) {
		if (hold->session != session || hold->told >= number)
			continue;
		ret = undo_room(undo, 1);
		if (ret < 0)
			break;
		undo_set(undo, hold->told, number);
	}
	return ret;
}

bool hold_has_told(const struct file *file, uint64_t session, uint64_t number)
{
	const struct hold *hold;

	cds_list_for_each_entry (hold, &file->holds, node)
		if (hold->session == session && hold->told >= number)
			return true;
	return false;
}

/* A slot does not count under another layout. The new one is committed, because sessions claim ends of layouts that are known. */
static int void_slot(struct file *file, const Afar__FileEnd *ask)
{
	struct inode *inode = file_edit(file);

	if (!inode)
		return error_code(-ENOMEM);
	if (ask->end > inode->size && ask->end <= FILE_SIZE_MAX)
		inode->size = ask->end;
	if (!ask->keeps_times)
		inode_touch(inode);
	inode->layout++;
	file_put(file);
	return 0;
}

int hold_end(struct fs *fs, const struct session *session, const Afar__FileEnd *ask,
	     struct file **out)
{
	struct inode *inode;
	int ret = file_get(fs, ask->ino, out);

	if (ret < 0)
		return ret;
	look(*out, session->number);
	if (!holds_to_write(*out, session->number))
		return error_fail(
			-EBADF,
			"tell of what was written to inode %llu: the session has not opened "
			"it to write",
			(unsigned long long)ask->ino);
	if (ask->gives_end || ask->wants_end)
		ret = hold_give_end(*out, session->number);
	if (ret < 0)
		return ret;
	if (ask->layout != (*out)->inode->layout && ask->gives_end)
		return 0;
	if (ask->layout != (*out)->inode->layout)
		return error_fail(-ESTALE,
				  "tell of what was written to inode %llu: it was made shorter "
				  "meanwhile; write again",
				  (unsigned long long)ask->ino);
	if (ask->voids_slot)
		return void_slot(*out, ask);
	if (ask->keeps_times && ask->end <= (*out)->inode->size)
		return 0;
	inode = file_edit(*out);
	if (!inode)
		return error_code(-ENOMEM);
	if (ask->end > inode->size && ask->end <= FILE_SIZE_MAX)
		inode->size = ask->end;
	if (!ask->keeps_times)
		inode_touch(inode);
	ret = note_told(*out, session->number, ask->number);
	return ret < 0 ? ret : file_set_dirty(*out);
}

/* ---- After a restart */

static int reclaim_one(struct fs *fs, const struct session *session, const Afar__FileReclaim *ask,
		       size_t i)
{
	struct inode *inode;
	struct file *file;
	int ret = file_get(fs, ask->inos[i], &file);

	/* It ended with the last of its holders before this one told: its handle finds that out. */
	if (ret == -ESTALE)
		return 0;
	if (ret == 0)
		ret = hold_add(file, session, ask->handles[i], ask->accesses[i]);
	/* Its end covers what the slot says. */
	if (ret == 0 && (ask->accesses[i] & W_OK) && (ask->accesses[i] & FILE_HAS_SLOT))
		ret = end_set_owner(file, session->number);
	/* The end that it reclaims covers what it was appending, and all that its slot says. */
	if (ret == 0)
		ret = end_silence(file, session->number);
	if (ret == 0 && file->appender == session->number)
		ret = set_appender(file, 0, 0, 0);
	if (ret < 0 || ask->ends[i] <= file->inode->size || ask->ends[i] > FILE_SIZE_MAX)
		return ret;
	/* It was made shorter, and the session has not heard of that yet. */
	if (ask->layouts[i] != file->inode->layout)
		return 0;
	inode = file_edit(file);
	if (!inode)
		return error_code(-ENOMEM);
	inode->size = ask->ends[i];
	inode_touch(inode);
	return file_set_dirty(file);
}

int hold_reclaim(struct fs *fs, const struct session *session, const Afar__FileReclaim *ask)
{
	int ret = 0;

	if (ask->n_handles != ask->n_inos || ask->n_handles != ask->n_accesses ||
	    ask->n_handles != ask->n_ends || ask->n_handles != ask->n_layouts ||
	    ask->n_handles > HOLDS_MAX)
		return error_fail(-EINVAL, "reclaim open files: the lists have different lengths");
	for (size_t i = 0; i < ask->n_handles && ret == 0; i++)
		ret = reclaim_one(fs, session, ask, i);
	for (size_t i = 0; i < ask->n_locks && ret == 0; i++)
		ret = lock_reclaim(fs, session, ask->locks[i]);
	if (ret == 0 && ask->answers_gone)
		ret = gone_join(fs, session);
	if (ret == 0 && ask->is_last)
		set_reclaimed(fs, session->number);
	return ret;
}
