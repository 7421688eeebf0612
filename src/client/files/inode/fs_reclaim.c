/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tells the manager of open files and their locks after it may have restarted. The manager keeps in memory who has
 * which file open, and forgets that when it ends. Until all sessions have told it again, it changes nothing. The
 * control thread tells it when the session resumes, before any other call goes on.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "client/files/inode/fs_call.h"

#define RECLAIM_MAX	  65536U /* holds of one message */
#define RECLAIM_LOCKS_MAX 4096U

/* ---- Holds */

uint64_t fs_new_handle(struct afar_fs *fs)
{
	return atomic_fetch_add(&fs->ns->session->nr_file_handles, 1) + 1;
}

struct fs_hold *fs_hold_new(struct file_inode *inode, uint64_t handle, uint32_t access)
{
	struct fs_hold *hold = calloc(1, sizeof(*hold));

	if (!hold) {
		error_code(-ENOMEM);
		return NULL;
	}
	hold->inode = inode;
	hold->handle = handle;
	hold->access = access;
	pthread_mutex_lock(&inode->fs->lock);
	cds_list_add_tail(&hold->node, &inode->fs->holds);
	inode->nr_writers += !!(access & W_OK);
	inode->fs->nr_writings[inode->ino % FS_BUCKETS] += !!(access & W_OK);
	pthread_mutex_unlock(&inode->fs->lock);
	return hold;
}

void fs_hold_end(struct afar_fs *fs, struct fs_hold *hold)
{
	if (!hold)
		return;
	pthread_mutex_lock(&fs->lock);
	cds_list_del(&hold->node);
	hold->inode->nr_writers -= !!(hold->access & W_OK);
	fs_locks_end(hold);
	pthread_mutex_unlock(&fs->lock);
	free(hold);
}

uint64_t fs_count_reclaims(struct afar_fs *fs)
{
	uint64_t nr;

	pthread_mutex_lock(&fs->lock);
	nr = fs->nr_reclaims;
	pthread_mutex_unlock(&fs->lock);
	return nr;
}

/* Gives the end that we have told of, or relied on, and the layout that it goes by. A write inside the size that another
 * session had told of was not told. Returns the access to claim. */
static uint32_t look_at_end(const struct fs_hold *hold, uint64_t *end, uint64_t *layout)
{
	uint32_t access = hold->access;

	pthread_mutex_lock(&hold->inode->lock);
	*end = hold->access & W_OK ? hold->inode->end : 0;
	if ((hold->access & W_OK) && hold->inode->size > *end)
		*end = hold->inode->size;
	/* Others append behind what we are appending, if the manager has forgotten of it. */
	if ((hold->access & W_OK) && hold->inode->appending_to > *end)
		*end = hold->inode->appending_to;
	*layout = hold->inode->layout;
	if ((access & W_OK) && (hold->inode->ends.slot != 0 || hold->inode->ends.has_failed))
		access |= FS_HAS_SLOT;
	pthread_mutex_unlock(&hold->inode->lock);
	return access;
}

/* ---- Messages */

struct reclaim {
	uint64_t *handles, *inos, *ends, *layouts;
	uint32_t *accesses;
	size_t nr;
	Afar__FileLock *locks, **lock_list; /* the latter points into the former */
	size_t nr_locks;
};

static int reclaim_open(struct reclaim *reclaim)
{
	reclaim->handles = calloc(RECLAIM_MAX, sizeof(*reclaim->handles));
	reclaim->inos = calloc(RECLAIM_MAX, sizeof(*reclaim->inos));
	reclaim->ends = calloc(RECLAIM_MAX, sizeof(*reclaim->ends));
	reclaim->layouts = calloc(RECLAIM_MAX, sizeof(*reclaim->layouts));
	reclaim->accesses = calloc(RECLAIM_MAX, sizeof(*reclaim->accesses));
	reclaim->locks = calloc(RECLAIM_LOCKS_MAX, sizeof(*reclaim->locks));
	reclaim->lock_list = calloc(RECLAIM_LOCKS_MAX, sizeof(*reclaim->lock_list));
	return reclaim->handles && reclaim->inos && reclaim->ends && reclaim->layouts &&
			       reclaim->accesses && reclaim->locks && reclaim->lock_list
		       ? 0
		       : -ENOMEM;
}

static void reclaim_close(struct reclaim *reclaim)
{
	free(reclaim->handles);
	free(reclaim->inos);
	free(reclaim->ends);
	free(reclaim->layouts);
	free(reclaim->accesses);
	free(reclaim->locks);
	free(reclaim->lock_list);
}

static void reclaim_add(struct reclaim *reclaim, const struct fs_hold *hold)
{
	reclaim->handles[reclaim->nr] = hold->handle;
	reclaim->inos[reclaim->nr] = hold->inode->ino;
	reclaim->accesses[reclaim->nr] =
		look_at_end(hold, &reclaim->ends[reclaim->nr], &reclaim->layouts[reclaim->nr]);
	reclaim->nr++;
}

static Afar__FileReclaim reclaim_message(const struct reclaim *reclaim, bool is_last)
{
	Afar__FileReclaim message = AFAR__FILE_RECLAIM__INIT;

	message.handles = reclaim->handles;
	message.inos = reclaim->inos;
	message.ends = reclaim->ends;
	message.layouts = reclaim->layouts;
	message.accesses = reclaim->accesses;
	message.n_handles = message.n_inos = message.n_accesses = reclaim->nr;
	message.n_ends = message.n_layouts = reclaim->nr;
	message.locks = reclaim->lock_list;
	message.n_locks = reclaim->nr_locks;
	message.is_last = is_last;
	return message;
}

int fs_reclaim_again(struct afar_fs *fs, const struct fs_hold *hold)
{
	uint64_t handle = hold->handle, ino = hold->inode->ino, end, layout;
	uint32_t access;
	const struct reclaim reclaim = {.handles = &handle,
					.inos = &ino,
					.ends = &end,
					.layouts = &layout,
					.accesses = &access,
					.nr = 1};
	Afar__FileReclaim message = reclaim_message(&reclaim, false);

	access = look_at_end(hold, &end, &layout);
	return fs_hold_one(fs, NULL, FILE_HOLD(RECLAIM, reclaim, &message), NULL);
}

int fs_reclaim_uses(struct afar_fs *fs)
{
	Afar__FileReclaim message = AFAR__FILE_RECLAIM__INIT;

	message.answers_gone = true;
	return fs_hold_one(fs, NULL, FILE_HOLD(RECLAIM, reclaim, &message), NULL);
}

/* ---- When the session resumes: on the control thread */

/* True: telling again may go well. */
static bool is_passing(int status)
{
	return status == -ENOMEM || status == -EIO || status == -ENOSPC || status == -ETIMEDOUT;
}

/* A reclaim that failed is made again by resuming once more. */
static void reclaimed(void *argument, const Afar__Frame *frame, int status)
{
	struct afar_session *session = argument;
	const Afar__Reply *reply = frame ? frame->reply : NULL;

	if (reply)
		status = reply->status;
	if (reply && status == 0 && reply->result_case == AFAR__REPLY__RESULT_FILE_RESULTS &&
	    reply->file_results->n_results != 0)
		status = reply->file_results->results[0]->status;
	if (!is_passing(status))
		return;
	pthread_mutex_lock(&session->lock);
	if (session->manager)
		rpc_connection_close(session->manager);
	pthread_mutex_unlock(&session->lock);
}

static int send_reclaim(struct afar_fs *fs, const struct reclaim *reclaim, bool is_last)
{
	struct afar_session *session = fs->ns->session;
	const struct rpc_envelope envelope = {
		.deadline = session_deadline(session),
		.session = session->number,
		.request_id = ++session->next_request_id,
	};
	Afar__FileReclaim message = reclaim_message(reclaim, is_last);
	Afar__FileHold operation = AFAR__FILE_HOLD__INIT, *operations = &operation;
	Afar__FilesHold hold = AFAR__FILES_HOLD__INIT;

	operation.what_case = AFAR__FILE_HOLD__WHAT_RECLAIM;
	operation.reclaim = &message;
	message.answers_gone = fs->used.is_on;
	hold.fs = fs->ns->number;
	hold.operations = &operations;
	hold.n_operations = 1;
	return rpc_send(session->manager, &envelope, RPC_REQUEST(FILES_HOLD, files_hold, &hold),
			reclaimed, session);
}

/* Sends what is in it, if that is anything, or `max` of it. */
static int reclaim_flush(struct afar_fs *fs, struct reclaim *reclaim, size_t nr, size_t max)
{
	int ret = nr >= max ? send_reclaim(fs, reclaim, false) : 0;

	if (nr >= max)
		reclaim->nr = reclaim->nr_locks = 0;
	return ret;
}

static int reclaim_holds(struct afar_fs *fs, struct reclaim *reclaim)
{
	const struct fs_hold *hold;
	int ret = 0;

	cds_list_for_each_entry (hold, &fs->holds, node) {
		reclaim_add(reclaim, hold);
		ret = reclaim_flush(fs, reclaim, reclaim->nr, RECLAIM_MAX);
		if (ret)
			break;
	}
	return ret ? ret : reclaim_flush(fs, reclaim, reclaim->nr, 1);
}

/* Behind the handles that they were taken through. */
static int reclaim_locks(struct afar_fs *fs, struct reclaim *reclaim)
{
	const struct file_inode *inode;
	const struct fs_lock *lock;
	int ret = 0;

	for (unsigned i = 0; i < FS_BUCKETS; i++)
		cds_list_for_each_entry (inode, &fs->inodes[i], node)
			cds_list_for_each_entry (lock, &inode->locks, node) {
				Afar__FileLock *message = &reclaim->locks[reclaim->nr_locks];

				fs_lock_message(lock, message);
				reclaim->lock_list[reclaim->nr_locks++] = message;
				ret = reclaim_flush(fs, reclaim, reclaim->nr_locks,
						    RECLAIM_LOCKS_MAX);
				if (ret)
					return ret;
			}
	return 0;
}

static int reclaim_all(struct afar_fs *fs, struct reclaim *reclaim)
{
	int ret;

	pthread_mutex_lock(&fs->lock);
	fs->nr_reclaims++;
	reclaim->nr = reclaim->nr_locks = 0;
	ret = reclaim_holds(fs, reclaim);
	if (ret == 0)
		ret = reclaim_locks(fs, reclaim);
	if (ret == 0)
		ret = send_reclaim(fs, reclaim, true);
	pthread_mutex_unlock(&fs->lock);
	return ret;
}

void fs_session_resumed(struct afar_session *session)
{
	struct reclaim reclaim = {0};
	struct afar_fs *fs;
	int ret;

	if (cds_list_empty(&session->file_systems))
		return;
	/* First: the manager may have restarted, and lets others change things when it has been told. Nobody uses kept holds, so they are not reclaimed. */
	cds_list_for_each_entry (fs, &session->file_systems, node) {
		fs_stop_ends(fs);
		attr_cache_reset(&fs->attr_cache);
		kept_resumed(fs);
	}
	cds_list_for_each_entry (fs, &session->file_systems, node)
		attr_cache_await_kept(&fs->attr_cache);
	ret = reclaim_open(&reclaim);
	cds_list_for_each_entry (fs, &session->file_systems, node)
		if (ret == 0)
			ret = reclaim_all(fs, &reclaim);
	reclaim_close(&reclaim);
	if (ret)
		rpc_connection_close(session->manager);
}

int fs_join_session(struct afar_fs *fs)
{
	struct afar_session *session = fs->ns->session;
	struct afar_fs *other;
	int ret = 0;

	pthread_mutex_lock(&session->lock);
	cds_list_for_each_entry (other, &session->file_systems, node)
		if (other->ns->number == fs->ns->number)
			ret = -EBUSY;
	if (ret == 0)
		cds_list_add_tail(&fs->node, &session->file_systems);
	pthread_mutex_unlock(&session->lock);
	return ret == 0 ? 0
			: error_fail(ret,
				     "open file system '%s': this session has it open already; use "
				     "that handle, or another session",
				     fs->ns->name);
}

void fs_leave_session(struct afar_fs *fs)
{
	struct afar_session *session = fs->ns->session;

	pthread_mutex_lock(&session->lock);
	cds_list_del(&fs->node);
	pthread_mutex_unlock(&session->lock);
}
