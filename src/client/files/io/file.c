/* SPDX-License-Identifier: BSD-3-Clause */
/* Open files: opening, making, closing, describing and syncing them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "client/base/call.h"
#include "client/files/file.h"
#include "client/files/inode/fs_call.h"
#include "client/files/io/fs_ends.h"

/* ---- Opening */

static uint32_t access_of(int flags)
{
	switch (flags & O_ACCMODE) {
	case O_RDONLY:
		return R_OK;
	case O_WRONLY:
		return W_OK;
	default:
		return R_OK | W_OK;
	}
}

static int check_flags(const struct afar_fs *fs, int flags)
{
	if ((flags & O_ACCMODE) == O_ACCMODE)
		return error_fail(-EINVAL, "open a file: its access mode is none");
	if (access_of(flags) & W_OK || flags & O_TRUNC)
		return fs_check_writable(fs, "open a file to write");
	return 0;
}

static struct afar_file *file_new(struct afar_fs *fs, const struct fs_who *who, int flags)
{
	struct afar_file *file = handle_new(HANDLE_FILE, sizeof(*file));

	if (!file) {
		error_code(-ENOMEM);
		return NULL;
	}
	file->fs = fs;
	file->flags = flags;
	file->access = access_of(flags) | (flags & O_TRUNC ? W_OK : 0);
	fs_who_copy(&file->who, who);
	handle_use(&fs->handle);
	return file;
}

/* Frees a file that was not given to the program. */
static void file_discard(struct afar_file *file)
{
	fs_hold_end(file->fs, file->hold);
	if (file->inode)
		inode_put(file->inode);
	handle_unuse(&file->fs->handle);
	handle_discard(file);
}

static int call_close(struct afar_fs *fs, uint64_t handle)
{
	Afar__FileClose message = AFAR__FILE_CLOSE__INIT;

	message.handle = handle;
	return fs_hold_one(fs, NULL, FILE_HOLD(CLOSE, close, &message), NULL);
}

/* Closes at the manager what cannot be finished here, and keeps the error. */
static int give_up(struct afar_fs *fs, uint64_t handle, int status)
{
	char why[ERROR_LINE_BYTES];

	strncpy(why, error_last_line(), sizeof(why) - 1);
	why[sizeof(why) - 1] = '\0';
	call_close(fs, handle);
	return error_fail(status, "%s", why);
}

/* `is_kept`: the manager has it open with this handle already. */
static int call_open(struct afar_file *file, bool is_kept, struct fs_answer *answer)
{
	Afar__FileOpen message = AFAR__FILE_OPEN__INIT;
	uint64_t nr_reclaims = fs_count_reclaims(file->fs);
	int ret;

	message.ino = file->inode->ino;
	message.handle = file->hold->handle;
	message.access = file->hold->access;
	message.wants_delegation = !(file->access & W_OK);
	ret = fs_hold_one(file->fs, &file->who, FILE_HOLD(OPEN, open, &message), answer);
	/* The manager was told of it as if it had been opened. */
	if (ret && !is_kept && nr_reclaims != fs_count_reclaims(file->fs))
		return give_up(file->fs, message.handle, ret);
	return ret;
}

/* Notes what others have it open for. */
static void take_others(struct afar_file *file, const Afar__FileResult *result)
{
	enum inode_kept kept = INODE_NOT_KEPT;

	/* A manager of before does not tell, and asks for nothing to be dropped. */
	if (result->writers != 1)
		file->hold->access &= ~FS_KEEPS_PAGES;
	/* Nobody else begins to keep pages as long as it is open to write. */
	if (result->is_kept && file->access & W_OK)
		atomic_compare_exchange_strong(&file->inode->kept, &kept, INODE_KEPT);
}

/* Takes what the manager has told of a file that is open there. `before`: as of inode_adopt(). */
static int finish_open(struct afar_file *file, const Afar__FileResult *result, uint64_t before)
{
	int ret = inode_adopt(file->inode, result, before);

	if (ret)
		return ret;
	take_others(file, result);
	file->is_directory = S_ISDIR(result->attributes->mode);
	if (!(file->flags & O_TRUNC) || file->is_directory)
		return 0;
	if (result->attributes->size != 0)
		return file_resize(file, &file->who, 0);
	/* It is no shorter, but it counts as changed. */
	inode_touch(file->inode);
	return 0;
}

/* Gives a file a hold of its own. */
static int begin_hold(struct afar_file *file, uint64_t ino)
{
	file->inode = inode_get(file->fs, ino);
	if (file->inode)
		file->hold =
			fs_hold_new(file->inode, fs_new_handle(file->fs), file_hold_access(file));
	if (!file->hold)
		return -ENOMEM;
	file_let_writer(file);
	return 0;
}

static int open_at_manager(struct afar_file *file, uint64_t ino, uint64_t before)
{
	const bool is_kept = file->hold;
	struct fs_answer answer;
	int ret = is_kept ? 0 : begin_hold(file, ino);

	if (ret == 0)
		ret = call_open(file, is_kept, &answer);
	if (ret)
		return !is_kept || file_leave_kept(file)
			       ? ret
			       : give_up(file->fs, file->hold->handle, ret);
	file_begin_losses(file);
	ret = finish_open(file, answer.results[0], before);
	fs_answer_free(&answer);
	return ret ? give_up(file->fs, file->hold->handle, ret) : 0;
}

int file_open(struct afar_fs *fs, const struct fs_who *who, uint64_t ino, int flags,
	      struct afar_file **out)
{
	struct afar_file *file = file_new(fs, who, flags);
	uint64_t before = inode_count_outdated(fs);
	int ret = 0;

	if (!file)
		return -ENOMEM;
	if (file_take_kept(file, ino))
		file_begin_losses(file);
	else
		ret = open_at_manager(file, ino, before);
	if (ret)
		file_discard(file);
	else
		*out = file;
	return ret;
}

PUBLIC_CALL(int, afar_file_open,
	    (struct afar_fs *fs, const struct afar_who *given, uint64_t ino, int flags,
	     struct afar_file **out),
	    (fs, given, ino, flags, out))
{
	struct fs_who who;
	int ret = fs_who_take(given, &who);

	if (ret == 0)
		ret = fs_enter(fs);
	if (ret)
		return ret;
	ret = out ? check_flags(fs, flags) : error_fail(-EINVAL, "open a file: out is null");
	if (ret == 0)
		ret = file_open(fs, &who, ino, flags, out);
	handle_unuse(&fs->handle);
	return ret;
}

/* ---- Making */

/* How things were before the manager was asked. */
struct before {
	uint64_t nr_outdated, nr_reclaims;
};

/* Takes a file that the manager has opened. */
static int adopt(struct afar_file *file, uint64_t handle, uint32_t access,
		 const struct before *before, const Afar__FileResult *result)
{
	int ret = fs_check_attributes(result->attributes);

	if (ret)
		return ret;
	file->inode = inode_get(file->fs, result->attributes->ino);
	file->hold = file->inode ? fs_hold_new(file->inode, handle, access) : NULL;
	if (!file->hold)
		return -ENOMEM;
	file_let_writer(file);
	file_begin_losses(file);
	if (before->nr_reclaims != fs_count_reclaims(file->fs)) {
		ret = fs_reclaim_again(file->fs, file->hold);
		/* Nobody held it for a while: the manager may have given back what the answer tells of. */
		inode_set_outdated(file->fs, file->inode->ino);
	}
	return ret ? ret : finish_open(file, result, before->nr_outdated);
}

/* Notes the room that came with the making: it is there, and counts as nobody's. */
static void note_prepared(struct file_inode *inode, const Afar__FileResult *result)
{
	atomic_store(&inode->has_grown, true);
	if (result->n_runs != 0 && result->attributes->allocated == 0)
		atomic_store(&inode->is_prepared, true);
}

static int create(struct afar_fs *fs, const struct fs_who *who, Afar__FileMake *make, int flags,
		  struct afar_file **out, struct afar_file_stat *stat)
{
	const struct before before = {inode_count_outdated(fs), fs_count_reclaims(fs)};
	Afar__FileChange operation = AFAR__FILE_CHANGE__INIT;
	struct afar_file *file = file_new(fs, who, flags);
	struct fs_answer answer;
	int ret;

	if (!file)
		return -ENOMEM;
	operation.what_case = AFAR__FILE_CHANGE__WHAT_MAKE;
	operation.make = make;
	ret = fs_change_one(fs, who, &operation, &answer);
	/* It may become no file of bytes. A writer makes room then, or hears that there is none. */
	if ((ret == -ENOSPC || ret == -EDQUOT) && make->bytes != 0) {
		make->bytes = 0;
		ret = fs_change_one(fs, who, &operation, &answer);
	}
	if (ret)
		goto out_discard;
	ret = adopt(file, make->handle, make->access, &before, answer.results[0]);
	if (ret == 0 && make->bytes != 0)
		note_prepared(file->inode, answer.results[0]);
	if (ret == 0 && stat) {
		fs_give_attributes(answer.results[0]->attributes, stat);
		if (flags & O_TRUNC)
			stat->bytes = 0;
	}
	fs_answer_free(&answer);
	if (ret) {
		ret = give_up(fs, make->handle, ret);
		goto out_discard;
	}
	*out = file;
	return 0;

out_discard:
	file_discard(file);
	return ret;
}

int file_create(struct afar_fs *fs, const struct afar_who *given, uint64_t dir, const char *name,
		const struct afar_open_options *options, int flags, struct afar_file **out,
		struct afar_file_stat *stat)
{
	const bool is_nameless = (flags & O_TMPFILE) == O_TMPFILE;
	Afar__FileMake make = AFAR__FILE_MAKE__INIT;
	struct afar_file *file = NULL;
	unsigned finding, nr = 0;
	struct fs_who who;
	int ret = fs_who_take(given, &who);

	if (ret == 0)
		ret = fs_check_stat(stat, true);
	if (ret == 0 && !name != is_nameless)
		ret = error_fail(-EINVAL, "create a file: its name is null, or O_TMPFILE has one");
	if (ret == 0 && name && strlen(name) > AFAR_FILE_NAME_MAX)
		ret = error_fail(-ENAMETOOLONG, "create a file: its name has %zu bytes; at most %u",
				 strlen(name), AFAR_FILE_NAME_MAX);
	if (ret == 0)
		ret = fs_enter(fs);
	if (ret)
		return ret;
	make.dir = dir;
	make.name = (char *)(name ? name : "");
	make.mode = S_IFREG | (options->mode & 07777U);
	make.width = options->width;
	make.stripe_bytes = options->stripe_bytes;
	make.may_exist = !is_nameless && !(flags & O_EXCL);
	make.is_nameless = is_nameless;
	make.is_linkable = is_nameless && !(flags & O_EXCL);
	make.handle = fs_new_handle(fs);
	make.access = access_of(flags) | (flags & O_TRUNC ? W_OK : 0) |
		      (fs->drops.tell && !(flags & O_APPEND) ? FS_KEEPS_PAGES : 0);
	/* Most files are written at once, and small. */
	make.bytes = make.access & W_OK ? FILE_UNIT : 0;
	make.goes_without = true;
	do {
		ret = check_flags(fs, flags);
		finding = used_begin(fs);
		if (ret == 0)
			ret = fs_check_writable(fs, "create a file");
		if (ret == 0)
			ret = create(fs, &who, &make, flags, &file, stat);
		used_end(fs, finding, ret == 0 && stat ? stat->ino : 0);
	} while (used_again(fs, ret, &nr));
	handle_unuse(&fs->handle);
	if (ret || !out)
		return ret ? ret : afar_file_close(file);
	*out = file;
	return 0;
}

/* ---- Telling the manager of what was written */

/* A commit has failed. Writes since it began count more. */
static void touch_again(struct file_inode *inode, enum inode_touched touched)
{
	enum inode_touched untouched = INODE_UNTOUCHED;
	enum inode_kept kept = INODE_KEPT;

	atomic_compare_exchange_strong(&inode->touched, &untouched, touched);
	atomic_compare_exchange_strong(&inode->kept, &kept, INODE_KEPT_OLD);
}

/* Returns whether a commit tells of a write, or has others drop what they keep. */
static bool has_news(const struct file_inode *inode)
{
	return atomic_load(&inode->touched) != INODE_UNTOUCHED ||
	       atomic_load(&inode->kept) == INODE_KEPT_OLD;
}

/* Fills in what commits the size and times. `close`: a handle to close with that; 0: none. `is_trimmed`: it is the last one.
 * Returns what the inode was, for touch_again(). inode_end_commit() comes after the answer. The caller frees message->unwritten. */
static enum inode_touched fill_sync(struct file_inode *inode, uint64_t close, bool is_trimmed,
				    Afar__FileSync *message, Afar__FileChange *operation,
				    struct inode_commit *commit)
{
	enum inode_kept old = INODE_KEPT_OLD;
	/* First, because a write that begins meanwhile notes both: it is to find something to commit. */
	bool drops_pages = atomic_compare_exchange_strong(&inode->kept, &old, INODE_KEPT);
	enum inode_touched touched;

	/* First, too: until the call has ended, others are to find one of both. */
	inode_begin_commit(inode, commit);
	touched = atomic_exchange(&inode->touched, INODE_UNTOUCHED);
	afar__file_sync__init(message);
	/* This may arrive first, or alone. */
	if (touched == INODE_TELLING) {
		touched = INODE_UNTOLD;
		message->unless_told = atomic_load(&inode->telling);
	}
	message->ino = inode->ino;
	pthread_mutex_lock(&inode->lock);
	message->end = inode->end;
	message->layout = inode->layout;
	message->voids_slot = inode->ends.has_failed;
	if (is_trimmed) {
		message->alone = inode->around.alone;
		message->n_unwritten = file_around_list(&inode->around, &message->unwritten);
	}
	pthread_mutex_unlock(&inode->lock);
	message->is_written = touched == INODE_UNTOLD;
	if (!message->is_written)
		inode_end_commit(inode, commit);
	message->close = close;
	message->is_trimmed = is_trimmed;
	message->drops_pages = drops_pages;
	afar__file_change__init(operation);
	operation->what_case = AFAR__FILE_CHANGE__WHAT_SYNC;
	operation->sync = message;
	return touched;
}

/* Has the size and times committed, and closes a handle with that, as fill_sync(). */
static int commit(struct afar_file *file, uint64_t close, bool is_trimmed)
{
	struct file_inode *inode = file->inode;
	Afar__FileSync message;
	Afar__FileChange operation;
	struct inode_commit until;
	struct fs_answer answer;
	enum inode_touched touched =
		fill_sync(inode, close, is_trimmed, &message, &operation, &until);
	int ret;

	ret = fs_change_one(file->fs, &file->who, &operation, &answer);
	free(message.unwritten);
	if (ret)
		touch_again(inode, touched);
	inode_end_commit(inode, &until);
	if (ret)
		return ret;
	/* After a trim the inode is gone here, too. */
	if (!is_trimmed)
		ret = inode_take(inode, answer.results[0]);
	fs_answer_free(&answer);
	return ret;
}

int file_commit(struct afar_file *file)
{
	return commit(file, 0, false);
}

static int fail_lost_in(const struct afar_fs *fs, uint64_t ino)
{
	return error_fail(
		-AFAR_EUNSYNCED,
		"sync inode %llu of file system '%s': a server, or its device, failed before "
		"what was written since the last sync was durable; write it again",
		(unsigned long long)ino, fs->ns->name);
}

static int fail_lost(const struct afar_file *file)
{
	return fail_lost_in(file->fs, file->inode->ino);
}

/* ---- Closing */

void file_drop(struct afar_file *file)
{
	struct afar_fs *fs = file->fs;

	fs_hold_end(fs, file->hold);
	inode_put(file->inode);
	handle_unuse(&fs->handle);
	handle_retire(file);
}

/* A file that its program has closed, and the manager too, or who knows. */
static void end_file(struct afar_file *file, uint64_t nr_reclaims)
{
	/* The manager may have been told again that it is open. */
	if (nr_reclaims != fs_count_reclaims(file->fs))
		call_close(file->fs, file->hold->handle);
	file_drop(file);
}

/* If the manager refuses the commit, it closes the file all the same. */
static int commit_and_close(struct afar_file *file, bool is_trimmed)
{
	int ret = commit(file, file->hold->handle, is_trimmed);

	if (ret == 0 || ret == -ETIMEDOUT || ret == -AFAR_EMANAGER || ret == -AFAR_ESESSION)
		return ret;
	return give_up(file->fs, file->hold->handle, ret);
}

int file_close(struct afar_file *file)
{
	struct afar_fs *fs = file->fs;
	uint64_t handle = file->hold->handle, nr_reclaims = fs_count_reclaims(fs),
		 ino = file->inode->ino;
	bool is_writable = file->access & W_OK, is_trimmed, is_lost = file_take_loss(file, false);
	int ret;

	if (file_keep(file) || (is_writable && closings_hold_back(file)))
		return is_lost ? fail_lost_in(fs, ino) : 0;
	/* The last one to close it gives room back: not one that nobody waits for. */
	if (is_writable && !inode_is_alone(file->inode) && closings_are_pending(fs))
		closings_flush(fs);
	if (is_writable && inode_is_only_writer(file->inode))
		file_give_back(file);
	is_trimmed = inode_end(file->inode) && is_writable && inode_has_spare(file->inode);
	ret = is_trimmed || (is_writable && has_news(file->inode))
		      ? commit_and_close(file, is_trimmed)
		      : call_close(fs, handle);
	if (ret == 0 && is_lost)
		ret = fail_lost(file);
	end_file(file, nr_reclaims);
	if (fs_has_many_unsynced(fs))
		fs_sync_pool(fs);
	return ret;
}

bool file_has_to_commit(const struct afar_file *file)
{
	return file->access & W_OK && (has_news(file->inode) || inode_has_spare(file->inode));
}

void file_begin_close(struct late_close *closing)
{
	struct afar_file *file = closing->file;

	closing->nr_reclaims = fs_count_reclaims(file->fs);
	if (closing->is_change) {
		closing->is_trimmed = inode_end(file->inode) && inode_has_spare(file->inode);
		closing->touched =
			(int)fill_sync(file->inode, file->hold->handle, closing->is_trimmed,
				       &closing->sync, &closing->change, &closing->commit);
		return;
	}
	fs_fill_close(&closing->hold, &closing->close, file->hold->handle);
	/* The call that takes it along may open the file again: the manager must not have to find out where it ends. */
	closing->close.is_told = end_is_told(file->inode);
}

void file_undo_close(struct late_close *closing)
{
	if (!closing->is_change)
		return;
	free(closing->sync.unwritten);
	/* It may have been done: then its room is another file's. Nobody uses the inode. */
	if (closing->is_trimmed) {
		view_close(&closing->file->inode->view);
		inode_forget(closing->file->inode);
	}
	touch_again(closing->file->inode, (enum inode_touched)closing->touched);
	inode_end_commit(closing->file->inode, &closing->commit);
	inode_go_on(closing->file->inode);
}

void file_end_close(struct late_close *closing, int ret, const Afar__FileResult *result)
{
	struct file_inode *inode = closing->file->inode;
	bool is_done = ret == 0 && result->status == 0;

	if (closing->is_change)
		free(closing->sync.unwritten);
	if (closing->is_change && !is_done) {
		touch_again(inode, (enum inode_touched)closing->touched);
		if (ret == 0)
			call_close(closing->file->fs, closing->file->hold->handle);
	}
	if (closing->is_change)
		inode_end_commit(inode, &closing->commit);
	/* After a trim the inode is gone here, too. */
	if (closing->is_change && is_done && !closing->is_trimmed)
		inode_take(inode, result);
	end_file(closing->file, closing->nr_reclaims);
}

/* Ends the handle, and the target that goes with it. */
static int close_handles(struct afar_file *file)
{
	int ret = file_check_handle(file);

	if (ret == 0)
		ret = file_close_target(file);
	if (ret)
		return ret;
	ret = handle_close(file, HANDLE_FILE);
	if (ret == -EBUSY) {
		file_reopen_target(file);
		return error_fail(ret, "close a file: calls on it are under way");
	}
	if (ret)
		return error_fail(ret, "close a file: it is closed already");
	file_stream_end(file);
	inode_tell_ends(file->inode);
	return 0;
}

PUBLIC_CALL(int, afar_file_close, (struct afar_file *file), (file))
{
	int ret = close_handles(file);

	return ret ? ret : file_close(file);
}

static bool may_close_later(const struct afar_file *file)
{
	bool has_locks;

	pthread_mutex_lock(&file->fs->lock);
	has_locks = !cds_list_empty(&file->inode->locks);
	pthread_mutex_unlock(&file->fs->lock);
	return !has_locks && inode_is_alone(file->inode);
}

PUBLIC_CALL(int, afar_file_close_later, (struct afar_file *file), (file))
{
	int ret = close_handles(file), lost = 0;

	if (ret)
		return ret;
	if (file_take_loss(file, false))
		lost = fail_lost(file);
	if (file_keep(file) || (may_close_later(file) && late_close_add(file) == 0))
		return lost;
	return file_close(file) ?: lost;
}

/* ---- Describing and syncing */

uint64_t afar_file_ino(const struct afar_file *file)
{
	return handle_is(file, HANDLE_FILE) ? file->inode->ino : 0;
}

PUBLIC_CALL(int, afar_file_stat, (struct afar_file *file, struct afar_file_stat *out), (file, out))
{
	Afar__FileStat stat = AFAR__FILE_STAT__INIT;
	struct fs_answer answer;
	int ret = file_enter(file);

	if (ret)
		return ret;
	stat.ino = file->inode->ino;
	stat.asks_writers = true;
	ret = fs_check_stat(out, false);
	if (ret == 0 && attr_cache_stat(file->fs, stat.ino, out) == 0)
		goto out_known;
	if (ret == 0)
		ret = fs_look_one(file->fs, NULL, FILE_LOOK(STAT, stat, &stat), &answer);
	if (ret == 0) {
		ret = fs_give(answer.results[0], out);
		fs_answer_free(&answer);
	}
out_known:
	if (ret == 0)
		inode_add_writes(file->fs, out);
	handle_unuse(&file->handle);
	return ret;
}

/* Has the data made durable. Says once if something of it is lost. */
static int sync_data(struct afar_file *file)
{
	int ret = fs_sync_pool(file->fs);

	return ret == 0 && file_take_loss(file, true) ? fail_lost(file) : ret;
}

/* Has committed what the manager has been told of an inode that is open here to read. */
static int commit_told(struct afar_file *file)
{
	Afar__FileSync message = AFAR__FILE_SYNC__INIT;
	struct fs_answer answer;
	int ret;

	message.ino = file->inode->ino;
	ret = fs_change_one(file->fs, &file->who, FILE_CHANGE(SYNC, sync, &message), &answer);
	if (ret)
		return ret;
	ret = inode_take(file->inode, answer.results[0]);
	fs_answer_free(&answer);
	return ret;
}

int file_sync(struct afar_file *file)
{
	int ret = sync_data(file);

	if (ret || file->is_directory)
		return ret;
	if (file->access & W_OK)
		return file_commit(file);
	/* Others of this process may have written, and not committed that yet. */
	return inode_is_written(file->inode) ? commit_told(file) : 0;
}

PUBLIC_CALL(int, afar_file_sync, (struct afar_file *file), (file))
{
	int ret = file_enter(file);

	if (ret)
		return ret;
	ret = file_sync(file);
	handle_unuse(&file->handle);
	return ret;
}

PUBLIC_CALL(int, afar_file_flush, (struct afar_file *file), (file))
{
	int ret = file_enter(file);

	if (ret)
		return ret;
	if ((file->access & W_OK) && (atomic_load(&file->inode->touched) == INODE_UNTOLD ||
				      atomic_load(&file->inode->kept) == INODE_KEPT_OLD))
		ret = file_commit(file);
	if (ret == 0 && file_take_loss(file, false))
		ret = fail_lost(file);
	handle_unuse(&file->handle);
	return ret;
}
