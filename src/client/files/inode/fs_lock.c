/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks of files. The manager gives them. They are noted with the inode, because a manager that has restarted
 * is told of them (fs_reclaim.c). Called by programs; the control thread reads the notes.
 *
 * A wait is calls of a few seconds each. The manager keeps the place in the queue, because each tells how long the
 * caller has waited already.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "client/base/abi.h"
#include "client/base/call.h"
#include "client/files/file.h"
#include "client/files/inode/fs_call.h"

#define LAST_BYTE ((uint64_t)INT64_MAX)
/* One call waits so long. If the manager hears of a cancellation before it hears of the call, the wait ends with
 * the call. */
#define WAIT_MS 5000U

/* A program's request. */
struct asking {
	struct afar_file *file;
	struct fs_lock lock;
	struct fs_lock *spares[2];    /* for the notes, which must not fail */
	const uint32_t *is_cancelled; /* may be NULL */
	uint64_t wait;		      /* its number */
	uint64_t began;
};

/* A thread waits in afar_file_lock(). */
struct fs_lock_wait {
	struct cds_list_head node; /* of the fs; guarded by its lock */
	const uint32_t *is_cancelled;
	uint64_t number;
};

/* ---- What the manager has given. The fs's lock is held */

static bool is_of_owner(const struct fs_lock *lock, const struct fs_lock *of)
{
	return lock->kind == of->kind && lock->owner == of->owner;
}

static bool overlap(const struct fs_lock *lock, const struct fs_lock *other)
{
	return lock->first <= other->last && other->first <= lock->last;
}

/* Returns whether the two are one together. */
static bool is_one(const struct fs_lock *lock, const struct fs_lock *wanted)
{
	return lock->mode == wanted->mode && lock->handle == wanted->handle &&
	       lock->pid == wanted->pid && lock->first <= wanted->last + 1 &&
	       wanted->first <= lock->last + 1;
}

static void take_out(struct fs_lock *lock)
{
	cds_list_del(&lock->node);
	free(lock);
}

static struct fs_lock *take_spare(struct asking *asking)
{
	struct fs_lock *spare = asking->spares[0];

	asking->spares[0] = asking->spares[1];
	asking->spares[1] = NULL;
	return spare;
}

/* Takes the range of what is asked out of a lock. */
static void cut(struct asking *asking, struct fs_lock *lock)
{
	const struct fs_lock *asked = &asking->lock;
	struct fs_lock *rest;

	if (lock->first >= asked->first && lock->last <= asked->last) {
		take_out(lock);
		return;
	}
	if (lock->first >= asked->first) {
		lock->first = asked->last + 1;
		return;
	}
	if (lock->last > asked->last) {
		rest = take_spare(asking);
		*rest = *lock;
		rest->first = asked->last + 1;
		cds_list_add(&rest->node, &lock->node);
	}
	lock->last = asked->first - 1;
}

/* Notes what was asked for and given, as the manager does (manager/files/locks.c). */
static void note(struct asking *asking)
{
	const struct fs_lock *asked = &asking->lock;
	struct cds_list_head *locks = &asking->file->inode->locks;
	struct fs_lock all = *asked, *lock, *next;

	cds_list_for_each_entry_safe (lock, next, locks, node) {
		if (!is_of_owner(lock, asked))
			continue;
		if (is_one(lock, asked)) {
			all.first = lock->first < all.first ? lock->first : all.first;
			all.last = lock->last > all.last ? lock->last : all.last;
			take_out(lock);
		} else if (overlap(lock, asked)) {
			cut(asking, lock);
		}
	}
	if (asked->mode == AFAR_LOCK_NONE)
		return;
	lock = take_spare(asking);
	*lock = all;
	cds_list_add_tail(&lock->node, locks);
}

void fs_locks_end(const struct fs_hold *hold)
{
	struct fs_lock *lock, *next;

	cds_list_for_each_entry_safe (lock, next, &hold->inode->locks, node)
		if (lock->handle == hold->handle)
			take_out(lock);
}

/* Returns the mode of some lock of the owner in the range. */
static uint32_t mode_of(struct asking *asking)
{
	struct afar_fs *fs = asking->file->fs;
	uint32_t mode = AFAR_LOCK_NONE;
	const struct fs_lock *lock;

	pthread_mutex_lock(&fs->lock);
	cds_list_for_each_entry (lock, &asking->file->inode->locks, node)
		if (is_of_owner(lock, &asking->lock) && overlap(lock, &asking->lock))
			mode = lock->mode;
	pthread_mutex_unlock(&fs->lock);
	return mode;
}

/* ---- Asking the manager */

void fs_lock_message(const struct fs_lock *lock, Afar__FileLock *out)
{
	afar__file_lock__init(out);
	out->handle = lock->handle;
	out->owner = lock->owner;
	out->kind = lock->kind;
	out->mode = lock->mode;
	out->pid = lock->pid;
	out->start = lock->first;
	out->length = lock->last == LAST_BYTE ? 0 : lock->last - lock->first + 1;
}

static void message_of(const struct asking *asking, uint32_t wait_ms, Afar__FileLock *out)
{
	uint64_t waited_ms = (clock_ns() - asking->began) / 1000000U;

	fs_lock_message(&asking->lock, out);
	out->wait_ms = wait_ms;
	out->waited_ms = waited_ms < UINT32_MAX ? (uint32_t)waited_ms : UINT32_MAX;
	out->wait = asking->wait;
}

/* Notes what the manager has answered. Returns false if it has been told of all locks since it was asked, without
 * this one: it may have forgotten its answer. */
static bool note_answer(struct asking *asking, uint64_t nr_reclaims)
{
	struct afar_fs *fs = asking->file->fs;
	bool is_new;

	pthread_mutex_lock(&fs->lock);
	is_new = fs->nr_reclaims == nr_reclaims;
	if (is_new)
		note(asking);
	pthread_mutex_unlock(&fs->lock);
	return is_new;
}

static int call_lock(struct asking *asking, uint32_t wait_ms)
{
	struct afar_fs *fs = asking->file->fs;
	Afar__FileLock message;
	uint64_t nr_reclaims;
	int ret;

	do {
		nr_reclaims = fs_count_reclaims(fs);
		message_of(asking, wait_ms, &message);
		ret = fs_hold_one(fs, NULL, FILE_HOLD(LOCK, lock, &message), NULL);
	} while (ret == 0 && !note_answer(asking, nr_reclaims));
	if (ret == -ETIMEDOUT)
		atomic_store(&asking->file->inode->has_unsure_locks, true);
	return ret;
}

static int unlock(struct asking *asking)
{
	/* Every close of a file of a mount comes here. */
	if (!atomic_load(&asking->file->inode->has_unsure_locks) &&
	    mode_of(asking) == AFAR_LOCK_NONE)
		return 0;
	return call_lock(asking, 0);
}

/* The lock that a whole file has goes first, as flock(2) says: two that make theirs exclusive would wait for each
 * other. */
static int unlock_to_convert(struct asking *asking)
{
	const uint32_t mode = asking->lock.mode, had = mode_of(asking);
	int ret;

	if (asking->lock.kind != FS_LOCK_FILE || had == AFAR_LOCK_NONE || had == mode)
		return 0;
	asking->lock.mode = AFAR_LOCK_NONE;
	ret = call_lock(asking, 0);
	asking->lock.mode = mode;
	return ret;
}

/* ---- Waiting */

static bool is_cancelled(const struct asking *asking)
{
	return asking->is_cancelled && __atomic_load_n(asking->is_cancelled, __ATOMIC_ACQUIRE) != 0;
}

static int wait_for(struct asking *asking, uint64_t deadline)
{
	const unsigned long long ino = asking->file->inode->ino;
	int ret = -EAGAIN, left;

	while (ret == -EAGAIN) {
		if (is_cancelled(asking))
			return error_fail(-EINTR, "lock inode %llu: the wait was cancelled", ino);
		left = clock_remaining_ms(deadline);
		if (left == 0)
			return error_fail(
				-ETIMEDOUT,
				"lock inode %llu: others have kept it locked all the time", ino);
		ret = call_lock(asking, left < 0 || left > (int)WAIT_MS ? WAIT_MS : (uint32_t)left);
	}
	return ret;
}

/* Waits where a cancellation finds it. */
static int wait_listed(struct asking *asking, int timeout_ms)
{
	struct afar_fs *fs = asking->file->fs;
	struct fs_lock_wait wait = {.is_cancelled = asking->is_cancelled,
				    .number = fs_new_handle(fs)};
	int ret;

	asking->wait = wait.number;
	pthread_mutex_lock(&fs->lock);
	cds_list_add(&wait.node, &fs->lock_waits);
	pthread_mutex_unlock(&fs->lock);
	ret = wait_for(asking, clock_deadline_ms(timeout_ms));
	pthread_mutex_lock(&fs->lock);
	cds_list_del(&wait.node);
	pthread_mutex_unlock(&fs->lock);
	return ret;
}

static int lock(struct asking *asking, int timeout_ms)
{
	int ret;

	if (asking->lock.mode == AFAR_LOCK_NONE)
		return unlock(asking);
	ret = unlock_to_convert(asking);
	if (ret)
		return ret;
	/* A caller that need not wait is not listed. */
	ret = call_lock(asking, 0);
	return ret == -EAGAIN && timeout_ms != 0 ? wait_listed(asking, timeout_ms) : ret;
}

/* ---- The program's calls */

/* Checks what the program gives, and takes it over. */
static int take(const struct afar_file *file, const struct afar_lock *given, struct fs_lock *out)
{
	struct afar_lock ask;
	int ret = given ? ABI_TAKE(&ask, given, afar_lock, is_cancelled)
			: error_fail(-EINVAL, "lock a file: the lock is null");

	if (ret)
		return ret;
	if (ask.mode > AFAR_LOCK_EXCLUSIVE || ask.is_whole > 1 || ask.reserved)
		return error_fail(-EINVAL,
				  "lock inode %llu: its mode or is_whole is none, or what is "
				  "reserved is not 0",
				  (unsigned long long)file->inode->ino);
	if (!ask.is_whole && (ask.start > LAST_BYTE || ask.length > LAST_BYTE - ask.start + 1))
		return error_fail(-EINVAL,
				  "lock inode %llu: %llu bytes at %llu end behind 2^63, where no "
				  "file has any",
				  (unsigned long long)file->inode->ino,
				  (unsigned long long)ask.length, (unsigned long long)ask.start);
	*out = (struct fs_lock){
		.handle = file->hold->handle,
		.owner = ask.owner,
		.kind = ask.is_whole ? FS_LOCK_FILE : FS_LOCK_RANGE,
		.mode = ask.mode,
		.pid = ask.pid,
		.last = LAST_BYTE,
	};
	if (ask.is_whole)
		return 0;
	out->first = ask.start;
	if (ask.length != 0)
		out->last = ask.start + ask.length - 1;
	return 0;
}

static bool has_spares(struct asking *asking)
{
	for (unsigned i = 0; i < 2; i++) {
		asking->spares[i] = calloc(1, sizeof(*asking->spares[i]));
		if (!asking->spares[i])
			return false;
	}
	return true;
}

PUBLIC_CALL(int, afar_file_lock,
	    (struct afar_file *file, const struct afar_lock *given, int timeout_ms),
	    (file, given, timeout_ms))
{
	struct asking asking = {.file = file, .began = clock_ns()};
	int ret = file_enter(file);

	if (ret)
		return ret;
	ret = take(file, given, &asking.lock);
	if (ret == 0 && !has_spares(&asking))
		ret = error_code(-ENOMEM);
	if (ret == 0)
		asking.is_cancelled = given->is_cancelled;
	if (ret == 0)
		ret = lock(&asking, timeout_ms);
	free(asking.spares[0]);
	free(asking.spares[1]);
	handle_unuse(&file->handle);
	return ret;
}

/* Returns the number of a wait; 0: there is none. */
static uint64_t find_wait(struct afar_fs *fs, const uint32_t *is_cancelled)
{
	const struct fs_lock_wait *wait;
	uint64_t number = 0;

	pthread_mutex_lock(&fs->lock);
	cds_list_for_each_entry (wait, &fs->lock_waits, node)
		if (wait->is_cancelled == is_cancelled)
			number = wait->number;
	pthread_mutex_unlock(&fs->lock);
	return number;
}

static void tell_cancelled(struct afar_fs *fs, uint64_t number)
{
	Afar__FileLockCancel message = AFAR__FILE_LOCK_CANCEL__INIT;
	Afar__FileHold operation = AFAR__FILE_HOLD__INIT, *operations = &operation;
	Afar__FilesHold hold = AFAR__FILES_HOLD__INIT;

	message.wait = number;
	operation.what_case = AFAR__FILE_HOLD__WHAT_LOCK_CANCEL;
	operation.lock_cancel = &message;
	hold.fs = fs->ns->number;
	hold.operations = &operations;
	hold.n_operations = 1;
	/* If it does not arrive, the call that is under way ends by itself. */
	session_tell(fs->ns->session, RPC_REQUEST(FILES_HOLD, files_hold, &hold));
}

PUBLIC_CALL(int, afar_file_lock_cancel, (struct afar_file *file, uint32_t *is_cancelled),
	    (file, is_cancelled))
{
	uint64_t number;
	int ret = file_enter(file);

	if (ret)
		return ret;
	if (is_cancelled) {
		__atomic_store_n(is_cancelled, 1U, __ATOMIC_RELEASE);
		number = find_wait(file->fs, is_cancelled);
		if (number != 0)
			tell_cancelled(file->fs, number);
	} else {
		ret = error_fail(-EINVAL, "cancel the wait for a lock: is_cancelled is null");
	}
	handle_unuse(&file->handle);
	return ret;
}

static int give_look(const Afar__FileResult *result, struct afar_lock *out)
{
	const Afar__FileLock *lock = result->lock;
	struct afar_lock known = {.size = sizeof(known)};

	if (!lock || lock->mode > AFAR_LOCK_EXCLUSIVE)
		return error_fail(-AFAR_EMALFORMED,
				  "look at a lock: the manager answered something else");
	known.mode = lock->mode;
	known.is_whole = lock->kind == FS_LOCK_FILE;
	known.owner = lock->owner;
	known.start = lock->start;
	known.length = lock->length;
	known.pid = lock->pid;
	abi_give(out, out->size, &known, sizeof(known));
	return 0;
}

PUBLIC_CALL(int, afar_file_lock_stat, (struct afar_file *file, struct afar_lock *given),
	    (file, given))
{
	Afar__FileLockLook look = AFAR__FILE_LOCK_LOOK__INIT;
	struct fs_answer answer;
	Afar__FileLock message;
	struct fs_lock asked;
	int ret = file_enter(file);

	if (ret)
		return ret;
	ret = take(file, given, &asked);
	if (ret == 0) {
		fs_lock_message(&asked, &message);
		look.lock = &message;
		ret = fs_hold_one(file->fs, NULL, FILE_HOLD(LOCK_LOOK, lock_look, &look), &answer);
	}
	if (ret == 0) {
		ret = give_look(answer.results[0], given);
		fs_answer_free(&answer);
	}
	handle_unuse(&file->handle);
	return ret;
}

PUBLIC_CALL(int, afar_file_nr_locks, (struct afar_file *file), (file))
{
	const struct fs_lock *lock;
	int ret = file_enter(file), nr = 0;

	if (ret)
		return ret;
	pthread_mutex_lock(&file->fs->lock);
	cds_list_for_each_entry (lock, &file->inode->locks, node)
		nr += lock->handle == file->hold->handle;
	pthread_mutex_unlock(&file->fs->lock);
	handle_unuse(&file->handle);
	return nr;
}
