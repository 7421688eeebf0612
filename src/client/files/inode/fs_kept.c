/* SPDX-License-Identifier: BSD-3-Clause */
/* See fs_kept.h. */
#include "client/files/inode/fs_kept.h"

#include <stdlib.h>
#include <string.h>

#include "base/epoch.h"
#include "base/error.h"
#include "client/files/inode/fs_call.h"
#include "client/session.h"

#define TELL_MAX  256U /* handles of one message */
#define EVICT_MIN 64U  /* are let go together */

/* ---- The lists. The fs's lock is held. */

static void unlist(struct fs_hold *hold)
{
	cds_list_del(&hold->kept);
	cds_list_del(&hold->sibling);
	atomic_fetch_sub(&hold->inode->fs->kept.nr, 1);
}

/* Without memory the manager keeps the file open until the session ends. */
static void owe(struct fs_kept *kept, uint64_t handle)
{
	if (kept->nr_owed == kept->max_owed) {
		size_t max = 2 * kept->max_owed + TELL_MAX;
		uint64_t *more = reallocarray(kept->owed, max, sizeof(*more));

		if (!more)
			return;
		kept->owed = more;
		kept->max_owed = max;
	}
	kept->owed[kept->nr_owed++] = handle;
}

/* Moves a kept hold to those that have ended here. It is reclaimed no more. */
static void end_one(struct fs_hold *hold, struct cds_list_head *ended)
{
	unlist(hold);
	owe(&hold->inode->fs->kept, hold->handle);
	cds_list_move(&hold->node, ended);
}

static void end_all(struct afar_fs *fs, struct cds_list_head *ended)
{
	struct fs_hold *hold, *next;

	cds_list_for_each_entry_safe (hold, next, &fs->kept.holds, kept)
		end_one(hold, ended);
}

static void end_of_inode(struct afar_fs *fs, uint64_t ino, struct cds_list_head *ended)
{
	struct file_inode *inode = inode_cached(fs, ino);
	struct fs_hold *hold, *next;

	if (!inode)
		return;
	cds_list_for_each_entry_safe (hold, next, &inode->kept_holds, sibling)
		end_one(hold, ended);
}

/* ---- Telling the manager */

/* Handles that a message tells of. The fs waits for its answer, as for a recall. */
struct telling {
	struct afar_fs *fs;
	uint64_t nr_reclaims; /* when it was sent */
	size_t nr;
	uint64_t handles[TELL_MAX];
};

static void tell_all(struct afar_fs *fs);

/* NULL: nothing is owed, or there is no memory; then the next one tells it. */
static struct telling *take_owed(struct afar_fs *fs)
{
	struct fs_kept *kept = &fs->kept;
	struct telling *telling = NULL;

	pthread_mutex_lock(&fs->lock);
	if (kept->nr_owed != 0)
		telling = malloc(sizeof(*telling));
	if (telling) {
		telling->fs = fs;
		telling->nr_reclaims = fs->nr_reclaims;
		telling->nr = kept->nr_owed < TELL_MAX ? kept->nr_owed : TELL_MAX;
		kept->nr_owed -= telling->nr;
		memcpy(telling->handles, kept->owed + kept->nr_owed,
		       telling->nr * sizeof(*telling->handles));
		fs->nr_recalls++;
	}
	pthread_mutex_unlock(&fs->lock);
	return telling;
}

static void owe_again(const struct telling *telling)
{
	struct afar_fs *fs = telling->fs;

	pthread_mutex_lock(&fs->lock);
	for (size_t i = 0; i < telling->nr; i++)
		owe(&fs->kept, telling->handles[i]);
	pthread_mutex_unlock(&fs->lock);
}

static void end_telling(struct telling *telling)
{
	struct afar_fs *fs = telling->fs;

	pthread_mutex_lock(&fs->lock);
	fs->nr_recalls--;
	pthread_cond_broadcast(&fs->changed);
	pthread_mutex_unlock(&fs->lock);
	free(telling);
}

static bool are_closed(const Afar__Reply *reply)
{
	if (reply->status != 0 || reply->result_case != AFAR__REPLY__RESULT_FILE_RESULTS)
		return false;
	for (size_t i = 0; i < reply->file_results->n_results; i++)
		if (reply->file_results->results[i]->status != 0)
			return false;
	return true;
}

/* On the control thread. If the answer was lost with its connection, the session tells what is owed when it resumes. It may have resumed by
 * now. */
static void told(void *argument, const Afar__Frame *frame, int status)
{
	struct telling *telling = argument;
	struct afar_session *session = telling->fs->ns->session;
	bool is_told = status == 0 && frame && frame->reply && are_closed(frame->reply);

	if (!is_told)
		owe_again(telling);
	if (!is_told && telling->nr_reclaims != fs_count_reclaims(telling->fs)) {
		pthread_mutex_lock(&session->lock);
		if (session->state == SESSION_UP)
			tell_all(telling->fs);
		pthread_mutex_unlock(&session->lock);
	}
	end_telling(telling);
}

struct closes {
	Afar__FileClose closes[TELL_MAX];
	Afar__FileHold operations[TELL_MAX], *list[TELL_MAX];
};

static void fill(const struct telling *telling, struct closes *closes)
{
	for (size_t i = 0; i < telling->nr; i++) {
		fs_fill_close(&closes->operations[i], &closes->closes[i], telling->handles[i]);
		closes->list[i] = &closes->operations[i];
	}
}

/* The session's lock is held. */
static int send(struct telling *telling)
{
	struct afar_session *session = telling->fs->ns->session;
	const struct rpc_envelope envelope = {
		.deadline = session_deadline(session),
		.session = session->number,
		.request_id = ++session->next_request_id,
	};
	struct closes *closes = malloc(sizeof(*closes));
	Afar__FilesHold hold = AFAR__FILES_HOLD__INIT;
	Afar__Request request = AFAR__REQUEST__INIT;
	int ret;

	if (!closes)
		return error_code(-ENOMEM);
	fill(telling, closes);
	hold.fs = telling->fs->ns->number;
	hold.operations = closes->list;
	hold.n_operations = telling->nr;
	request.call_case = AFAR__REQUEST__CALL_FILES_HOLD;
	request.files_hold = &hold;
	ret = rpc_send(session->manager, &envelope, &request, told, telling);
	free(closes);
	return ret;
}

/* Handles that cannot be sent stay owed. The session's lock is held, and the manager can be reached. */
static void tell_all(struct afar_fs *fs)
{
	struct telling *telling;
	int ret = 0;

	while (ret == 0 && (telling = take_owed(fs))) {
		ret = send(telling);
		if (ret == 0)
			continue;
		owe_again(telling);
		end_telling(telling);
	}
}

/* ---- Letting go */

/* Drops users of inodes. Keeps the holds whose inodes nobody uses any more. Returns whether one of these has a view. */
static bool leave_inodes(struct cds_list_head *ended)
{
	struct fs_hold *hold, *next;
	bool has_view = false;

	cds_list_for_each_entry_safe (hold, next, ended, node) {
		if (inode_leave_users(hold->inode)) {
			has_view |= atomic_load(&hold->inode->view) != NULL;
			continue;
		}
		cds_list_del(&hold->node);
		free(hold);
	}
	return has_view;
}

/* From outside of the fs's lock. Waits once for those who are in views. */
static void free_ended(struct cds_list_head *ended)
{
	struct fs_hold *hold, *next;

	if (leave_inodes(ended))
		epoch_wait();
	cds_list_for_each_entry_safe (hold, next, ended, node) {
		view_free(&hold->inode->view);
		inode_unref(hold->inode);
		free(hold);
	}
}

static void let_go(struct afar_fs *fs, const uint64_t *inos, size_t nr)
{
	CDS_LIST_HEAD(ended);

	pthread_mutex_lock(&fs->lock);
	for (size_t i = 0; i < nr; i++) {
		if (inos[i] != 0)
			end_of_inode(fs, inos[i], &ended);
		else
			end_all(fs, &ended);
	}
	pthread_mutex_unlock(&fs->lock);
	if (fs->ns->session->state == SESSION_UP)
		tell_all(fs);
	free_ended(&ended);
}

static void drop(struct afar_fs *fs, uint64_t ino)
{
	struct afar_session *session = fs->ns->session;

	pthread_mutex_lock(&session->lock);
	let_go(fs, &ino, 1);
	pthread_mutex_unlock(&session->lock);
}

void kept_resumed(struct afar_fs *fs)
{
	CDS_LIST_HEAD(ended);

	pthread_mutex_lock(&fs->lock);
	end_all(fs, &ended);
	pthread_mutex_unlock(&fs->lock);
	tell_all(fs);
	free_ended(&ended);
}

static const struct kept_calls calls = {.let_go = let_go, .drop = drop};

void kept_init(struct fs_kept *kept)
{
	CDS_INIT_LIST_HEAD(&kept->holds);
	kept->max = KEPT_MAX;
	kept->calls = &calls;
}

void kept_free(struct fs_kept *kept)
{
	free(kept->owed);
}

/* ---- Keeping */

/* Lets some of the oldest go, if there are too many. The fs's lock is held. */
static void evict(struct afar_fs *fs, struct cds_list_head *ended)
{
	struct fs_kept *kept = &fs->kept;
	unsigned nr = kept->max / 4 < EVICT_MIN ? kept->max / 4 + 1 : EVICT_MIN;

	if (atomic_load(&kept->nr) <= kept->max)
		return;
	for (unsigned i = 0; i < nr && !cds_list_empty(&kept->holds); i++)
		end_one(cds_list_first_entry(&kept->holds, struct fs_hold, kept), ended);
}

static bool may_keep(const struct fs_hold *hold)
{
	struct file_inode *inode = hold->inode;

	/* A writer who closes it is to be the last one, and locks go with their handle. */
	return inode->nr_writers == 0 && cds_list_empty(&inode->locks) &&
	       !atomic_load(&inode->has_unsure_locks);
}

bool kept_add(struct fs_hold *hold)
{
	struct file_inode *inode = hold->inode;
	struct afar_fs *fs = inode->fs;
	struct afar_session *session = fs->ns->session;
	CDS_LIST_HEAD(ended);
	bool is_kept;

	pthread_mutex_lock(&fs->lock);
	is_kept = may_keep(hold);
	if (is_kept) {
		cds_list_add_tail(&hold->kept, &fs->kept.holds);
		cds_list_add(&hold->sibling, &inode->kept_holds);
		atomic_fetch_add(&fs->kept.nr, 1);
		evict(fs, &ended);
	}
	pthread_mutex_unlock(&fs->lock);
	if (cds_list_empty(&ended))
		return is_kept;
	pthread_mutex_lock(&session->lock);
	if (session->state == SESSION_UP)
		tell_all(fs);
	pthread_mutex_unlock(&session->lock);
	free_ended(&ended);
	return true;
}

struct fs_hold *kept_take(struct afar_fs *fs, uint64_t ino, uint32_t access)
{
	struct fs_hold *hold, *found = NULL;
	struct file_inode *inode;

	if (atomic_load(&fs->kept.nr) == 0)
		return NULL;
	pthread_mutex_lock(&fs->lock);
	inode = inode_cached(fs, ino);
	if (inode)
		cds_list_for_each_entry (hold, &inode->kept_holds, sibling)
			if (hold->access == access) {
				found = hold;
				break;
			}
	if (found)
		unlist(found);
	pthread_mutex_unlock(&fs->lock);
	return found;
}
