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

#define CLAIM_MAX	65536U /* holds of one message */
#define CLAIM_LOCKS_MAX 4096U

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
	pthread_mutex_unlock(&inode->fs->lock);
	return hold;
}

void fs_hold_end(struct afar_fs *fs, struct fs_hold *hold)
{
	if (!hold)
		return;
	pthread_mutex_lock(&fs->lock);
	cds_list_del(&hold->node);
	fs_locks_end(hold);
	pthread_mutex_unlock(&fs->lock);
	free(hold);
}

uint64_t fs_count_claims(struct afar_fs *fs)
{
	uint64_t nr;

	pthread_mutex_lock(&fs->lock);
	nr = fs->nr_claims;
	pthread_mutex_unlock(&fs->lock);
	return nr;
}

/* Gives the end that we have told of, or relied on, and the layout that it goes by. A write inside the size that another
 * session had told of was not told. */
static void look_at_end(const struct fs_hold *hold, uint64_t *end, uint64_t *layout)
{
	pthread_mutex_lock(&hold->inode->lock);
	*end = hold->access & W_OK ? hold->inode->end : 0;
	if ((hold->access & W_OK) && hold->inode->size > *end)
		*end = hold->inode->size;
	/* Others append behind what we are appending, if the manager has forgotten of it. */
	if ((hold->access & W_OK) && hold->inode->appending_to > *end)
		*end = hold->inode->appending_to;
	*layout = hold->inode->layout;
	pthread_mutex_unlock(&hold->inode->lock);
}

/* ---- Messages */

struct claim {
	uint64_t *handles, *inos, *ends, *layouts;
	uint32_t *accesses;
	size_t nr;
	Afar__FileLock *locks, **lock_list; /* the latter points into the former */
	size_t nr_locks;
};

static int claim_open(struct claim *claim)
{
	claim->handles = calloc(CLAIM_MAX, sizeof(*claim->handles));
	claim->inos = calloc(CLAIM_MAX, sizeof(*claim->inos));
	claim->ends = calloc(CLAIM_MAX, sizeof(*claim->ends));
	claim->layouts = calloc(CLAIM_MAX, sizeof(*claim->layouts));
	claim->accesses = calloc(CLAIM_MAX, sizeof(*claim->accesses));
	claim->locks = calloc(CLAIM_LOCKS_MAX, sizeof(*claim->locks));
	claim->lock_list = calloc(CLAIM_LOCKS_MAX, sizeof(*claim->lock_list));
	return claim->handles && claim->inos && claim->ends && claim->layouts && claim->accesses &&
			       claim->locks && claim->lock_list
		       ? 0
		       : -ENOMEM;
}

static void claim_close(struct claim *claim)
{
	free(claim->handles);
	free(claim->inos);
	free(claim->ends);
	free(claim->layouts);
	free(claim->accesses);
	free(claim->locks);
	free(claim->lock_list);
}

static void claim_add(struct claim *claim, const struct fs_hold *hold)
{
	claim->handles[claim->nr] = hold->handle;
	claim->inos[claim->nr] = hold->inode->ino;
	look_at_end(hold, &claim->ends[claim->nr], &claim->layouts[claim->nr]);
	claim->accesses[claim->nr] = hold->access;
	claim->nr++;
}

static Afar__FileClaim claim_message(const struct claim *claim, bool is_last)
{
	Afar__FileClaim message = AFAR__FILE_CLAIM__INIT;

	message.handles = claim->handles;
	message.inos = claim->inos;
	message.ends = claim->ends;
	message.layouts = claim->layouts;
	message.accesses = claim->accesses;
	message.n_handles = message.n_inos = message.n_accesses = claim->nr;
	message.n_ends = message.n_layouts = claim->nr;
	message.locks = claim->lock_list;
	message.n_locks = claim->nr_locks;
	message.is_last = is_last;
	return message;
}

int fs_claim_again(struct afar_fs *fs, const struct fs_hold *hold)
{
	uint64_t handle = hold->handle, ino = hold->inode->ino, end, layout;
	uint32_t access = hold->access;
	const struct claim claim = {.handles = &handle,
				    .inos = &ino,
				    .ends = &end,
				    .layouts = &layout,
				    .accesses = &access,
				    .nr = 1};
	Afar__FileClaim message = claim_message(&claim, false);
	Afar__FileHold operation = AFAR__FILE_HOLD__INIT;

	look_at_end(hold, &end, &layout);
	operation.what_case = AFAR__FILE_HOLD__WHAT_CLAIM;
	operation.claim = &message;
	return fs_hold_one(fs, NULL, &operation, NULL);
}

int fs_claim_uses(struct afar_fs *fs)
{
	Afar__FileClaim message = AFAR__FILE_CLAIM__INIT;
	Afar__FileHold operation = AFAR__FILE_HOLD__INIT;

	message.answers_gone = true;
	operation.what_case = AFAR__FILE_HOLD__WHAT_CLAIM;
	operation.claim = &message;
	return fs_hold_one(fs, NULL, &operation, NULL);
}

/* ---- When the session resumes: on the control thread */

/* True: telling again may go well. */
static bool is_passing(int status)
{
	return status == -ENOMEM || status == -EIO || status == -ENOSPC || status == -ETIMEDOUT;
}

/* A claim that failed is made again by resuming once more. */
static void claimed(void *argument, const Afar__Frame *frame, int status)
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

static int send_claim(struct afar_fs *fs, const struct claim *claim, bool is_last)
{
	struct afar_session *session = fs->ns->session;
	const struct rpc_envelope envelope = {
		.deadline = session_deadline(session),
		.session = session->number,
		.request_id = ++session->next_request_id,
	};
	Afar__FileClaim message = claim_message(claim, is_last);
	Afar__FileHold operation = AFAR__FILE_HOLD__INIT, *operations = &operation;
	Afar__FilesHold hold = AFAR__FILES_HOLD__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;

	operation.what_case = AFAR__FILE_HOLD__WHAT_CLAIM;
	operation.claim = &message;
	message.answers_gone = fs->used.is_on;
	hold.fs = fs->ns->number;
	hold.operations = &operations;
	hold.n_operations = 1;
	request.call_case = AFAR__REQUEST__CALL_FILES_HOLD;
	request.files_hold = &hold;
	return rpc_send(session->manager, &envelope, &request, claimed, session);
}

/* Sends what is in it, if that is anything, or `max` of it. */
static int claim_flush(struct afar_fs *fs, struct claim *claim, size_t nr, size_t max)
{
	int ret = nr >= max ? send_claim(fs, claim, false) : 0;

	if (nr >= max)
		claim->nr = claim->nr_locks = 0;
	return ret;
}

static int claim_holds(struct afar_fs *fs, struct claim *claim)
{
	const struct fs_hold *hold;
	int ret = 0;

	cds_list_for_each_entry (hold, &fs->holds, node) {
		claim_add(claim, hold);
		ret = claim_flush(fs, claim, claim->nr, CLAIM_MAX);
		if (ret)
			break;
	}
	return ret ? ret : claim_flush(fs, claim, claim->nr, 1);
}

/* Behind the handles that they were taken through. */
static int claim_locks(struct afar_fs *fs, struct claim *claim)
{
	const struct file_inode *inode;
	const struct fs_lock *lock;
	int ret = 0;

	for (unsigned i = 0; i < FS_BUCKETS; i++)
		cds_list_for_each_entry (inode, &fs->inodes[i], node)
			cds_list_for_each_entry (lock, &inode->locks, node) {
				Afar__FileLock *message = &claim->locks[claim->nr_locks];

				fs_lock_message(lock, message);
				claim->lock_list[claim->nr_locks++] = message;
				ret = claim_flush(fs, claim, claim->nr_locks, CLAIM_LOCKS_MAX);
				if (ret)
					return ret;
			}
	return 0;
}

static int claim_all(struct afar_fs *fs, struct claim *claim)
{
	int ret;

	pthread_mutex_lock(&fs->lock);
	fs->nr_claims++;
	claim->nr = claim->nr_locks = 0;
	ret = claim_holds(fs, claim);
	if (ret == 0)
		ret = claim_locks(fs, claim);
	if (ret == 0)
		ret = send_claim(fs, claim, true);
	pthread_mutex_unlock(&fs->lock);
	return ret;
}

void fs_session_resumed(struct afar_session *session)
{
	struct claim claim = {0};
	struct afar_fs *fs;
	int ret;

	if (cds_list_empty(&session->file_systems))
		return;
	/* First: the manager may have restarted, and lets others change things when it has been told. */
	cds_list_for_each_entry (fs, &session->file_systems, node)
		known_reset(&fs->known);
	ret = claim_open(&claim);
	cds_list_for_each_entry (fs, &session->file_systems, node)
		if (ret == 0)
			ret = claim_all(fs, &claim);
	claim_close(&claim);
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
