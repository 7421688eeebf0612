/* SPDX-License-Identifier: BSD-3-Clause */
/* The three calls about files: their operations one by one, each with its own result. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "manager/connections/rights.h"
#include "manager/files/asks.h"
#include "manager/files/holds.h"
#include "manager/files/names.h"
#include "manager/files/pool.h"
#include "manager/files/table.h"

#define OPERATIONS_MAX 256U
#define UNWRITTEN_MAX  65536U /* ranges of one closing */

/* ---- What results tell */

/* -EBUSY: where it ends cannot be told. */
static int tell(struct file *file, const struct session *session, Afar__FileResult *result)
{
	int ret = end_check_known(file, session);

	if (ret < 0)
		return ret;
	result->attributes = attributes_of(file);
	return result->attributes ? 0 : error_code(-ENOMEM);
}

/* With the runs that touch [offset, offset + length). */
static int tell_both(struct file *file, const struct session *session, uint64_t offset,
		     uint64_t length, Afar__FileResult *result)
{
	uint64_t end = length < UINT64_MAX - offset ? offset + length : UINT64_MAX;
	const struct units units = {offset / FILE_UNIT, end / FILE_UNIT + 1};
	int ret = tell(file, session, result);

	return ret == 0 ? file_tell_runs(file, &units, 1, result) : ret;
}

/* Tells all of a file that the session has just opened, and what others have it open for. If it asks once more, a writer
 * may have closed it meanwhile. It keeps no pages then either, because nobody will ask it to drop them. */
static int tell_opened(struct file *file, const struct session *session, uint64_t handle,
		       uint32_t access, Afar__FileResult *result)
{
	const struct hold *held = hold_find(file->fs, session->number, handle);
	bool may_keep = !file_is_written_elsewhere(file, session->number) &&
			(!(access & FILE_KEEPS_PAGES) || (held && held->access & FILE_KEEPS_PAGES));

	result->writers = may_keep ? 1 : 2;
	result->is_kept = file_has_kept_pages(file, session->number);
	return tell_both(file, session, 0, UINT64_MAX, result);
}

/* ---- Delegating */

/* Tells of a directory, too. Returns whether it is delegated. */
static bool give_directory(struct fs *fs, const struct session *session, uint64_t ino,
			   Afar__FileResult *result)
{
	struct file *dir = file_cached(fs, ino);

	if (!dir || !dir->inode || !delegation_give(dir, session))
		return false;
	result->dir = attributes_of(dir);
	return result->dir;
}

static bool give_inode(const struct fs *fs, const struct session *session,
		       const Afar__FileAttributes *attributes)
{
	struct file *file = attributes ? file_cached(fs, attributes->ino) : NULL;

	return file && delegation_give(file, session);
}

static bool give_entries(const struct fs *fs, const struct session *session,
			 const Afar__FileResult *result)
{
	for (size_t i = 0; i < result->n_entries; i++) {
		const Afar__FileAttributes *attributes = result->entries[i]->attributes;

		if (!attributes || attributes->nlink == 0 || !give_inode(fs, session, attributes))
			return false;
	}
	return true;
}

/* Delegates what a result of looking tells. `ret`: of the look. */
static bool give_looked(struct fs *fs, const struct session *session, const Afar__FileLook *ask,
			int ret, Afar__FileResult *result)
{
	switch (ask->what_case) {
	case AFAR__FILE_LOOK__WHAT_LOOKUP:
		return (ret == 0 || ret == -ENOENT) &&
		       give_directory(fs, session, ask->lookup->dir, result) &&
		       (ret != 0 || give_inode(fs, session, result->attributes));
	case AFAR__FILE_LOOK__WHAT_STAT:
		return ret == 0 && give_inode(fs, session, result->attributes);
	case AFAR__FILE_LOOK__WHAT_LIST:
		return ret == 0 && ask->list->with_attributes &&
		       give_directory(fs, session, ask->list->dir, result) &&
		       give_entries(fs, session, result);
	default:
		return false;
	}
}

/* Tells of all that an operation has changed. It tells the number alone of an inode that is gone, or whose end cannot be told. */
static int tell_changed(const struct fs *fs, const struct session *session,
			Afar__FileResult *result)
{
	size_t nr = fs->nr_edited < FS_EDITED_MAX ? fs->nr_edited : FS_EDITED_MAX;

	result->is_more_changed = fs->nr_edited > FS_EDITED_MAX;
	result->changed = calloc(nr + 1, sizeof(*result->changed));
	if (!result->changed)
		return error_code(-ENOMEM);
	for (size_t i = 0; i < nr; i++) {
		struct file *file = fs->edited[i];
		Afar__FileAttributes *attributes;

		if (result->attributes && result->attributes->ino == file->ino)
			continue;
		attributes = file->inode && end_check_known(file, session) == 0
				     ? attributes_of(file)
				     : MESSAGE_NEW(afar__file_attributes, Afar__FileAttributes);
		if (!attributes)
			return error_code(-ENOMEM);
		attributes->ino = file->ino;
		result->changed[result->n_changed++] = attributes;
	}
	return 0;
}

/* ---- Looking */

static int look(struct fs *fs, const struct who *who, const struct session *session,
		const Afar__FileLook *ask, Afar__FileResult *result)
{
	struct file *file = NULL;
	int ret;

	switch (ask->what_case) {
	case AFAR__FILE_LOOK__WHAT_LOOKUP:
		ret = name_lookup(fs, who, ask->lookup->dir, ask->lookup->name, &file);
		break;
	case AFAR__FILE_LOOK__WHAT_WALK:
		ret = name_walk(fs, who, ask->walk, &file);
		break;
	case AFAR__FILE_LOOK__WHAT_STAT:
		ret = file_get(fs, ask->stat->ino, &file);
		break;
	case AFAR__FILE_LOOK__WHAT_LIST:
		return name_list(fs, who, session, ask->list, result);
	case AFAR__FILE_LOOK__WHAT_READ_LINK:
		ret = file_get(fs, ask->read_link->ino, &file);
		if (ret == 0 && !S_ISLNK(file->inode->mode))
			return error_fail(-EINVAL, "read inode %llu as a symbolic link: it is none",
					  (unsigned long long)ask->read_link->ino);
		if (ret < 0)
			return ret;
		result->data.data = (uint8_t *)strdup(file->inode->target);
		result->data.len = strlen(file->inode->target);
		return result->data.data ? 0 : error_code(-ENOMEM);
	case AFAR__FILE_LOOK__WHAT_GET_XATTR:
		return file_get_xattr(fs, who, ask->get_xattr, result);
	case AFAR__FILE_LOOK__WHAT_LIST_XATTRS:
		return file_list_xattrs(fs, who, ask->list_xattrs, result);
	case AFAR__FILE_LOOK__WHAT_MAP:
		ret = file_get(fs, ask->map->ino, &file);
		return ret == 0 ? tell_both(file, session, ask->map->offset, ask->map->length,
					    result)
				: ret;
	case AFAR__FILE_LOOK__WHAT_CHECK:
		return files_check(fs, result);
	case AFAR__FILE_LOOK__WHAT_LOST:
		return lost_list(fs, ask->lost, result);
	case AFAR__FILE_LOOK__WHAT_SYSTEM:
		result->system = files_info(fs_core(fs), fs_namespace(fs));
		return result->system ? 0 : error_code(-ENOMEM);
	default:
		return error_fail(-EOPNOTSUPP, "look at a file: the manager does not know this");
	}
	return ret == 0 ? tell(file, session, result) : ret;
}

/* ---- Holding */

static int open_file(struct fs *fs, const struct who *who, const struct session *session,
		     const Afar__FileOpen *ask, Afar__FileResult *result)
{
	struct file *file;
	int ret = hold_open(fs, who, session, ask, &file);

	if (ret == 0)
		ret = tell_opened(file, session, ask->handle, ask->access, result);
	if (ret == 0 && ask->wants_delegation)
		result->is_delegated = delegation_give(file, session);
	return ret;
}

static int hold(struct fs *fs, const struct who *who, const struct session *session,
		const Afar__FileHold *ask, Afar__FileResult *result)
{
	struct file *file;
	int ret;

	switch (ask->what_case) {
	case AFAR__FILE_HOLD__WHAT_OPEN:
		return open_file(fs, who, session, ask->open, result);
	case AFAR__FILE_HOLD__WHAT_END:
		ret = hold_end(fs, session, ask->end, &file);
		if (ret == 0 && ask->end->wants_end) {
			bool is_given;

			ret = end_give(file, session, !ask->end->asks_to_append, &is_given);
			result->has_end = is_given;
		}
		/* A session that tells does not wait for what others know. */
		if (ret == 0 && !ask->end->voids_slot && end_check_known(file, session) < 0)
			return 0;
		return ret == 0 ? tell(file, session, result) : ret;
	case AFAR__FILE_HOLD__WHAT_CLOSE:
		return ask->close->is_told ? hold_close_told(fs, session, ask->close->handle)
					   : hold_close(fs, session, ask->close->handle);
	case AFAR__FILE_HOLD__WHAT_APPEND:
		ret = hold_append(fs, session, ask->append->ino, &file);
		return ret == 0 ? tell(file, session, result) : ret;
	case AFAR__FILE_HOLD__WHAT_APPENDED:
		return hold_appended(fs, session, ask->appended);
	case AFAR__FILE_HOLD__WHAT_RECLAIM:
		return hold_reclaim(fs, session, ask->reclaim);
	case AFAR__FILE_HOLD__WHAT_LOCK:
		return lock_set(fs, session, ask->lock);
	case AFAR__FILE_HOLD__WHAT_LOCK_LOOK:
		return lock_look(fs, session, ask->lock_look->lock, result);
	case AFAR__FILE_HOLD__WHAT_LOCK_CANCEL:
		lock_cancel(fs, session, ask->lock_cancel);
		return 0;
	case AFAR__FILE_HOLD__WHAT_FORGET:
		return hold_forget(fs, session, ask->forget);
	default:
		return error_fail(-EOPNOTSUPP, "hold a file: the manager does not know this");
	}
}

/* ---- Changing */

static int make(struct fs *fs, const struct who *who, const struct session *session,
		const Afar__FileMake *ask, Afar__FileResult *result)
{
	struct file *file;
	bool is_made;
	int ret = name_make(fs, who, ask, &file, &is_made);

	if (ret < 0)
		return ret;
	result->is_delegated = is_made && !ask->is_nameless && delegation_give(file, session);
	if (ask->handle == 0)
		return tell(file, session, result);
	/* Its maker may write it, whatever its permissions say. */
	if (is_made) {
		ret = hold_add(file, session, ask->handle, ask->access);
		if (ret == 0)
			ret = file_settle(file); /* it may have no name */
	} else {
		Afar__FileOpen open = AFAR__FILE_OPEN__INIT;

		open.ino = file->ino;
		open.handle = ask->handle;
		open.access = ask->access;
		ret = hold_open(fs, who, session, &open, &file);
	}
	return ret == 0 ? tell_opened(file, session, ask->handle, ask->access, result) : ret;
}

/* Those who wait to hear where its bytes are may be told, whatever has become of the change. */
static void end_recall(const struct fs *fs, uint64_t ino)
{
	struct file *file = file_cached(fs, ino);

	if (file)
		recall_end(file);
}

static int set(struct fs *fs, const struct who *who, const struct session *session,
	       const Afar__FileSet *ask, Afar__FileResult *result)
{
	struct file *file;
	int ret = file_set(fs, who, session, ask, &file);

	if ((ask->mask & FILE_SET_SIZE) && !(ask->only_asks && ret == 0))
		end_recall(fs, ask->ino);
	return ret == 0 ? tell(file, session, result) : ret;
}

/* Finds a file that the session has open. `access`: as that, at least. */
static int find_open(struct fs *fs, const struct session *session, uint64_t ino, uint32_t access,
		     struct file **out)
{
	const struct hold *held;
	int ret = file_get(fs, ino, out);

	if (ret < 0)
		return ret;
	cds_list_for_each_entry (held, &(*out)->holds, node)
		if (held->session == session->number && (held->access & access) == access)
			return 0;
	return error_fail(-EBADF, "change inode %llu: the session has not opened it%s",
			  (unsigned long long)ino, access & W_OK ? " to write" : "");
}

static int find_held(struct fs *fs, const struct session *session, uint64_t ino, struct file **out)
{
	int ret = find_open(fs, session, ino, W_OK, out);

	return ret == 0 ? end_check(*out, session) : ret;
}

static int set_extended(struct file *file, const struct session *session,
			const Afar__FileExtend *ask, Afar__FileResult *result)
{
	struct inode *inode = file_edit(file);

	if (!inode)
		return error_code(-ENOMEM);
	if (ask->size > inode->size && ask->size <= FILE_SIZE_MAX) {
		inode->size = ask->size;
		inode_touch(inode);
	}
	file_put(file);
	if (inode->spare_to > inode->spare_from) {
		result->ahead_from = inode->spare_from;
		result->ahead_to = inode->spare_to;
	}
	result->alone = hold_alone(file, session->number);
	return tell(file, session, result);
}

/* One that grows again may go on without telling of each end. Most files are written at once, and a slot costs more than it saves them. */
static int make_slot(struct file *file, const struct session *session, const Afar__FileExtend *ask,
		     Afar__FileResult *result)
{
	const struct inode *inode = file->inode;

	if (!ask->wants_end || inode->size == 0 || inode->spare_from >= inode->spare_to)
		return 0;
	return end_make_slot(file, session, &result->slot);
}

static int extend(struct fs *fs, const struct session *session, const Afar__FileExtend *ask,
		  Afar__FileResult *result)
{
	struct file_room room = {0};
	struct file_wish wish;
	struct file *file;
	int ret = file_wish_take(ask, &wish);

	if (ret == 0)
		ret = find_held(fs, session, ask->ino, &file);
	if (ret == 0)
		ret = file_extend(file, &wish, &room);
	if (ret == 0)
		ret = make_slot(file, session, ask, result);
	if (ret == 0)
		ret = file_tell_extra(&wish, &room, result);
	if (ret == 0)
		ret = set_extended(file, session, ask, result);
	if (ret == 0)
		ret = file_tell_runs(file, room.list, room.nr, result);
	free(room.list);
	free(wish.list);
	return ret;
}

static int punch(struct fs *fs, const struct session *session, const Afar__FilePunch *ask,
		 Afar__FileResult *result)
{
	struct file *file;
	int ret = find_held(fs, session, ask->ino, &file);

	/* Others may have written there since who asks was told that nobody had. */
	if (ret == 0 && (!ask->is_spare || file_is_spare(file, ask->offset, ask->length)))
		ret = file_punch(file, session, ask->offset, ask->length);
	end_recall(fs, ask->ino);
	return ret == 0 ? tell_both(file, session, 0, UINT64_MAX, result) : ret;
}

/* Gives back what the session has got and not written. Nobody else can have written there if it was alone all the time. */
static int give_back(struct file *file, const struct session *session, const Afar__FileSync *ask)
{
	size_t nr = ask->n_unwritten / 2;
	struct units *list;
	uint64_t end = 0;
	int ret = 0;

	if (nr == 0 || file->alone != session->number || file->alone_number != ask->alone)
		return 0;
	list = nr <= UNWRITTEN_MAX ? calloc(nr, sizeof(*list)) : NULL;
	if (!list)
		return nr <= UNWRITTEN_MAX ? error_code(-ENOMEM) : 0;
	for (size_t i = 0; i < nr && ret == 0; i++) {
		uint64_t from = ask->unwritten[2 * i], more = ask->unwritten[2 * i + 1];

		if (from < end || more == 0 || from > FILE_SIZE_MAX || more > FILE_SIZE_MAX)
			ret = error_fail(-EINVAL, "give room back: the list does not ascend");
		end = from + more;
		list[i] = (struct units){from, end};
	}
	if (ret == 0)
		ret = file_give_back(file, session, list, nr);
	free(list);
	return ret;
}

static int sync_file(struct fs *fs, const struct session *session, const Afar__FileSync *ask,
		     Afar__FileResult *result)
{
	/* Else it commits what others have told, no more. */
	bool is_change = ask->end != 0 || ask->is_written || ask->is_trimmed || ask->close != 0 ||
			 ask->n_unwritten != 0;
	struct inode *inode;
	struct file *file;
	int ret = find_open(fs, session, ask->ino, is_change ? W_OK : 0, &file);

	inode = ret == 0 ? file_edit(file) : NULL;
	if (!inode)
		return ret < 0 ? ret : error_code(-ENOMEM);
	/* It may have been made shorter since. */
	if (ask->layout == inode->layout && ask->end > inode->size && ask->end <= FILE_SIZE_MAX)
		inode->size = ask->end;
	if (ask->voids_slot && ask->layout == inode->layout)
		inode->layout++;
	if (ask->is_written &&
	    (ask->unless_told == 0 || !hold_has_told(file, session->number, ask->unless_told)))
		inode_touch(inode);
	if (ask->is_trimmed && ask->close != 0)
		ret = file_trim(file, session);
	if (ret == 0)
		ret = give_back(file, session, ask);
	if (ret == 0)
		ret = tell(file, session, result);
	if (ret < 0)
		return ret;
	file_put(file);
	if (ask->close == 0)
		return 0;
	return hold_close_told(fs, session, ask->close);
}

static int change(struct fs *fs, const struct who *who, const struct session *session,
		  const Afar__FileChange *ask, Afar__FileResult *result)
{
	struct file *file;
	int ret;

	switch (ask->what_case) {
	case AFAR__FILE_CHANGE__WHAT_MAKE:
		return make(fs, who, session, ask->make, result);
	case AFAR__FILE_CHANGE__WHAT_REMOVE:
		return name_remove(fs, who, ask->remove);
	case AFAR__FILE_CHANGE__WHAT_RENAME:
		return name_rename(fs, who, ask->rename);
	case AFAR__FILE_CHANGE__WHAT_LINK:
		ret = name_link(fs, who, ask->link, &file);
		return ret == 0 ? tell(file, session, result) : ret;
	case AFAR__FILE_CHANGE__WHAT_SET:
		return set(fs, who, session, ask->set, result);
	case AFAR__FILE_CHANGE__WHAT_EXTEND:
		return extend(fs, session, ask->extend, result);
	case AFAR__FILE_CHANGE__WHAT_PUNCH:
		return punch(fs, session, ask->punch, result);
	case AFAR__FILE_CHANGE__WHAT_SYNC:
		return sync_file(fs, session, ask->sync, result);
	case AFAR__FILE_CHANGE__WHAT_SET_XATTR:
		return file_set_xattr(fs, who, ask->set_xattr);
	case AFAR__FILE_CHANGE__WHAT_REMOVE_XATTR:
		return file_remove_xattr(fs, who, ask->remove_xattr);
	default:
		return error_fail(-EOPNOTSUPP, "change a file: the manager does not know this");
	}
}

/* ---- The calls */

static int find_fs(const struct core *core, const struct session *session, uint64_t number,
		   uint32_t rights, size_t nr, struct fs **out)
{
	struct namespace *ns;
	int ret = core_namespace(core, session, "use files", number, rights, &ns);

	if (ret == 0)
		ret = namespace_check_records(ns, "use files");
	if (ret < 0)
		return ret;
	*out = files_find(core, number);
	if (!*out)
		return error_fail(-EINVAL,
				  "use files of '%s': it is no file system; see 'afar fs ls'",
				  ns->name);
	if (nr > OPERATIONS_MAX)
		return error_fail(-E2BIG,
				  "use files of '%s': %zu operations; at most %u go together",
				  ns->name, nr, OPERATIONS_MAX);
	return 0;
}

static int begin_results(struct event *event, size_t nr)
{
	Afar__FileResults *results = MESSAGE_NEW(afar__file_results, Afar__FileResults);

	if (!results)
		return error_code(-ENOMEM);
	event->reply->file_results = results;
	event->reply->result_case = AFAR__REPLY__RESULT_FILE_RESULTS;
	results->results = calloc(nr + 1, sizeof(*results->results));
	return results->results ? 0 : error_code(-ENOMEM);
}

static Afar__FileResult *add_result(struct event *event)
{
	Afar__FileResults *results = event->reply->file_results;
	Afar__FileResult *result = MESSAGE_NEW(afar__file_result, Afar__FileResult);

	if (result)
		results->results[results->n_results++] = result;
	return result;
}

/* An operation that fails leaves nothing of what it did, nor of its result. */
static int end_operation(struct core *core, size_t mark, int ret, struct event *event)
{
	Afar__FileResults *results = event->reply->file_results;
	Afar__FileResult *failed, *last;

	ret = undo_end(core->undo, mark, ret);
	if (ret >= 0)
		return 0;
	failed = MESSAGE_NEW(afar__file_result, Afar__FileResult);
	if (!failed)
		return error_code(-ENOMEM);
	failed->status = ret;
	failed->message = strdup(error_last_line());
	last = results->results[results->n_results - 1];
	/* The answer that a name is not there may be delegated. */
	failed->dir = last->dir;
	failed->is_delegated = last->is_delegated;
	last->dir = NULL;
	afar__file_result__free_unpacked(last, NULL);
	results->results[results->n_results - 1] = failed;
	return failed->message ? 0 : error_code(-ENOMEM);
}

/* A call, whichever of the three it is. */
struct call {
	uint64_t fs;
	const Afar__FileWho *who;
	size_t nr;
	uint32_t rights; /* on the namespace */
	bool asks_who;	 /* permissions matter */
	/* Carries out one of its operations. */
	int (*run)(struct fs *fs, const struct who *who, const struct session *session,
		   const Afar__Request *request, size_t i, Afar__FileResult *result);
};

static int run_call(struct core *core, struct session *session, struct event *event,
		    const struct call *call)
{
	const struct who who = who_from(call->who);
	struct fs *fs;
	int ret = find_fs(core, session, call->fs, call->rights, call->nr, &fs);

	if (ret == 0)
		ret = files_check_reclaimed(fs, event->request);
	if (ret == 0 && call->asks_who)
		ret = check_who(core, session, &who);
	if (ret == 0)
		ret = begin_results(event, call->nr);
	for (size_t i = 0; i < call->nr && ret == 0; i++) {
		size_t mark = undo_mark(core->undo);
		Afar__FileResult *result = add_result(event);

		if (!result)
			return error_code(-ENOMEM);
		ret = call->run(fs, &who, session, event->request, i, result);
		ret = end_operation(core, mark, ret, event);
	}
	return ret;
}

static int run_look(struct fs *fs, const struct who *who, const struct session *session,
		    const Afar__Request *request, size_t i, Afar__FileResult *result)
{
	const Afar__FileLook *ask = request->files_look->operations[i];
	int ret = look(fs, who, session, ask, result);

	if (request->files_look->wants_delegation)
		result->is_delegated = give_looked(fs, session, ask, ret, result);
	return ret;
}

int files_look(struct core *core, struct session *session, struct event *event)
{
	const Afar__FilesLook *ask = event->request->files_look;
	const struct call call = {
		ask->fs, ask->who, ask->n_operations, rights_to_look(ask), looks_ask_who(ask),
		run_look};
	struct fs *fs = files_find(core, ask->fs);
	int ret;

	if (fs && ask->wants_delegation)
		delegation_begin(fs, session, ask->dropped, ask->takes_many);
	ret = run_call(core, session, event, &call);
	if (fs && ask->wants_delegation && ret == 0)
		delegation_renew(fs, session, event->reply->file_results);
	return ret;
}

static int run_hold(struct fs *fs, const struct who *who, const struct session *session,
		    const Afar__Request *request, size_t i, Afar__FileResult *result)
{
	return hold(fs, who, session, request->files_hold->operations[i], result);
}

int files_hold(struct core *core, struct session *session, struct event *event)
{
	const Afar__FilesHold *ask = event->request->files_hold;
	const struct call call = {
		ask->fs, ask->who, ask->n_operations, rights_to_hold(ask), holds_ask_who(ask),
		run_hold};
	struct fs *fs = holds_want_delegation(ask) ? files_find(core, ask->fs) : NULL;
	int ret;

	if (fs)
		delegation_begin(fs, session, ask->dropped, ask->takes_many);
	ret = run_call(core, session, event, &call);
	if (fs && ret == 0)
		delegation_renew(fs, session, event->reply->file_results);
	return ret;
}

static int run_change(struct fs *fs, const struct who *who, const struct session *session,
		      const Afar__Request *request, size_t i, Afar__FileResult *result)
{
	int ret;

	fs->nr_edited = 0;
	ret = change(fs, who, session, request->files_change->operations[i], result);
	return ret == 0 ? tell_changed(fs, session, result) : ret;
}

int files_change(struct core *core, struct session *session, struct event *event)
{
	const Afar__FilesChange *ask = event->request->files_change;
	const struct call call = {
		ask->fs, ask->who, ask->n_operations, RIGHT_ALL, changes_ask_who(ask), run_change};

	event->outcome_kind = OUTCOME_RESULTS;
	event->outcome_value = event->request_id;
	return run_call(core, session, event, &call);
}

int files_reply(struct core *core, const struct session *session, uint64_t request_id,
		Afar__Reply *reply)
{
	size_t length;
	void *packed;
	int ret;

	if (reply->result_case == AFAR__REPLY__RESULT_FILE_RESULTS)
		return 0;
	ret = store_get_result(core->store, session, request_id, &packed, &length);
	if (ret < 0)
		return ret;
	reply->file_results = afar__file_results__unpack(NULL, length, packed);
	free(packed);
	if (!reply->file_results)
		return error_code(-EIO);
	reply->result_case = AFAR__REPLY__RESULT_FILE_RESULTS;
	return 0;
}
