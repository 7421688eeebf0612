/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Delegations: what sessions may answer from their own memory. The answer to a question delegates the inodes that it tells
 * of: attributes, and of a directory its names. Before another session changes such an inode, or opens it to
 * write, the session is asked to drop it. So nobody is told an old value after somebody has seen a newer one.
 *
 * A session that does not answer is waited for until its delegation has run out (rpc/delegation.h). It is
 * renewed by each answer, but by none while the session owes one itself.
 *
 * Beside a batch (store.h) nothing is delegated that it has changed, as it will be asked for once more.
 *
 * All this is in memory alone and never taken back, because an inode that is delegated in vain costs a
 * question, no more. A manager that restarts has delegated nothing. Sessions of before drop what they have
 * before they tell what they hold, and changes wait for that. For those that never tell, changes
 * wait until what they have has run out.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "manager/connections/live.h"
#include "manager/connections/outgoing.h"
#include "manager/files/delegates.h"
#include "manager/files/holds.h"
#include "manager/files/names.h"
#include "manager/files/records.h"
#include "manager/files/table.h"

#define DELEGATED_MAX 131072U		       /* inodes of one session */
#define OWED_NS	      (DELEGATION_KEPT_NS / 2) /* who owes an answer for longer is not renewed */
/* So long nothing is delegated of what had to be taken back: whoever changes it may go on doing that. */
#define QUIET_NS UINT64_C(10000000)
/* Removals that are farther apart than this, for each file that was asked for, are not in a row. */
#define AHEAD_NS  UINT64_C(10000000)
#define AHEAD_MAX 255U

/* ---- Delegating */

void delegation_begin(struct fs *fs, const struct session *session, uint64_t dropped,
		      bool takes_many)
{
	struct delegate *delegate = delegate_get(fs, session);

	if (!delegate)
		return;
	delegate->takes_many = takes_many;
	if (!delegate_is_silent(fs, delegate) && delegate->number == dropped)
		delegate_clear(fs, delegate);
}

/* Makes room by what has run out: those that have waited for longest first. */
static void expire_old(struct fs *fs, const struct delegate *but)
{
	struct delegate *delegate, *next;

	cds_list_for_each_entry_safe (delegate, next, &fs->delegates, node) {
		if (fs->nr_shared < fs->max_shared || !delegate_has_run_out(fs, delegate))
			return;
		if (delegate != but)
			delegate_expire(fs, delegate);
	}
}

static bool is_full(struct fs *fs, const struct delegate *delegate)
{
	if (delegate->nr >= DELEGATED_MAX)
		return true;
	expire_old(fs, delegate);
	return fs->nr_shared >= fs->max_shared;
}

bool delegation_give(struct file *file, const struct session *session)
{
	struct fs *fs = file->fs;
	struct delegate *delegate = delegate_find(fs, session->number);
	const struct share *share;

	/* A writer who closes with the batch has it open again if that fails. */
	store_look(fs_core(fs)->store, file->holds_mark);
	if (!delegate || !file->inode || store_has_touched(fs_core(fs)->store) ||
	    delegate_is_silent(fs, delegate))
		return false;
	share = share_find(file, delegate);
	/* While it is asked to drop it, its answer, which is on its way, is about this one, too. */
	if (share)
		return share->revoke == 0;
	/* Somebody waits to change it: whoever is told now would have to be asked again. */
	if (file->revoked_until > core_now(fs_core(fs)) ||
	    file_is_written_elsewhere(file, session->number) || end_is_lost(file) ||
	    end_is_left(file) || is_full(fs, delegate))
		return false;
	return share_add(file, delegate);
}

/* Returns whether it has not answered for so long that it may not be there. */
static bool owes(const struct fs *fs, const struct delegate *delegate)
{
	const struct share *first;

	if (delegate->probed_at != 0 || delegate->has_missed)
		return true;
	if (delegate->revoked.next == &delegate->revoked)
		return false;
	first = cds_list_first_entry(&delegate->revoked, struct share, node);
	return core_now(fs_core(fs)) - first->revoked_at >= OWED_NS;
}

void delegation_renew(struct fs *fs, const struct session *session, Afar__FileResults *results)
{
	struct delegate *delegate = delegate_find(fs, session->number);

	if (!delegate || owes(fs, delegate))
		return;
	delegate_renew(fs, delegate);
	results->delegation = delegate->number;
	results->is_delegation_full = delegate->nr >= DELEGATED_MAX;
}

void delegations_leave(struct fs *fs, uint64_t session, bool was_told)
{
	struct delegate *delegate = delegate_find(fs, session);

	if (!delegate)
		return;
	if (was_told)
		delegate_end(fs, delegate);
	else
		delegate_leave(fs, delegate);
}

/* ---- Taking back */

/* The session is to drop it: since now, unless it was before. */
static void begin_revoke(struct share *share)
{
	if (share->revoke != 0)
		return;
	share->revoke = ++share->file->fs->files->last_recall;
	share->revoked_at = core_now(fs_core(share->file->fs));
	cds_list_del(&share->node);
	cds_list_add_tail(&share->node, &share->delegate->revoked);
}

static void take_revoked(struct file *file, const struct outgoing *outgoing, bool is_done)
{
	const struct delegate *delegate = delegate_find(file->fs, outgoing->session);
	struct share *share = delegate ? share_find(file, delegate) : NULL;

	if (!share || share->revoke != outgoing->recall)
		return;
	if (is_done)
		share_remove(share);
	else
		share->asked_at = NULL;
	if (file->shares && !is_done)
		file->shares->are_asked = false;
}

static int revoked(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	return question_take(core, outgoing, event, is_done, take_revoked);
}

static const void *peer_of(const struct session *session)
{
	return session && session->live ? session->live->peer : NULL;
}

static bool is_asked(const struct share *share)
{
	const struct delegate *delegate = share->delegate;
	const struct core *core = fs_core(share->file->fs);
	const void *peer;

	if (delegate->has_left)
		return true;
	peer = peer_of(state_session(core->state, delegate->session));
	return peer && share->asked_at == peer;
}

/* Asks it, if it can be reached and was not asked yet. Returns whether nothing is left but to wait. */
static bool ask(struct share *share)
{
	struct delegate *delegate = share->delegate;
	struct fs *fs = share->file->fs;
	const struct session *session = state_session(fs_core(fs)->state, delegate->session);
	const void *peer = peer_of(session);
	uint64_t number;

	if (is_asked(share))
		return true;
	if (!peer) {
		silence_is_away(fs, delegate);
		return false;
	}
	number = question_add(fs, session, delegate, ASK_REVOKES, share->file->ino, revoked);
	if (number == 0)
		return false;
	share->revoke = number;
	share->asked_at = peer;
	return true;
}

/* Somebody removes a file. Mostly he removes those, too, that the session was told of after it. So they are asked for in the same message, twice as
 * many with each message. One that he does not remove costs a question. */
static void ask_ahead(const struct share *share)
{
	struct delegate *delegate = share->delegate;
	const uint64_t now = core_now(fs_core(share->file->fs));
	struct cds_list_head *node = share->node.next, *next;

	if (!delegate->takes_many)
		return;
	if (now - delegate->ahead_at > (delegate->ahead + 1) * AHEAD_NS)
		delegate->ahead = 0;
	else if (delegate->ahead < AHEAD_MAX)
		delegate->ahead = 2 * delegate->ahead + 1;
	delegate->ahead_at = now;
	for (uint64_t i = 0; i < delegate->ahead && node != &delegate->shares; i++) {
		struct share *other = cds_list_entry(node, struct share, node);

		next = node->next;
		if (other->file->inode && !inode_is_directory(other->file->inode)) {
			begin_revoke(other);
			ask(other);
		}
		node = next;
	}
}

/* Until when at least he waits, if all others were asked; 0: that is to be found out. A connection that ends says so of its questions. */
static uint64_t wait_for_one(const struct file *file, uint64_t session)
{
	const struct shares *shares = file->shares;
	const struct share *share = shares->list[shares->nr - 1];

	if (!shares->are_asked || (shares->unasked != 0 && shares->unasked != session))
		return 0;
	if (share->delegate->session == session && shares->nr > 1)
		share = shares->list[shares->nr - 2];
	if (share->delegate->session == session || !is_asked(share) ||
	    delegate_has_run_out(file->fs, share->delegate))
		return 0;
	return share->delegate->renewed_at + DELEGATION_KEPT_NS;
}

static uint64_t ask_all(struct file *file, uint64_t session, bool is_removed)
{
	bool are_asked = true;
	uint64_t until = 0, unasked = 0;

	/* One that has run out takes its own place in the list along, and no other. */
	for (size_t i = file->shares ? file->shares->nr : 0; i-- > 0;) {
		struct share *share = file->shares->list[i];
		struct delegate *delegate = share->delegate;

		if (delegate->session == session) {
			unasked = share->revoke == 0 ? session : 0;
			continue;
		}
		if (delegate_has_run_out(file->fs, delegate)) {
			delegate_expire(file->fs, delegate);
			continue;
		}
		if (is_removed && share->revoke == 0)
			ask_ahead(share);
		begin_revoke(share);
		are_asked = ask(share) && are_asked;
		if (delegate->renewed_at + DELEGATION_KEPT_NS > until)
			until = delegate->renewed_at + DELEGATION_KEPT_NS;
	}
	if (file->shares) {
		file->shares->are_asked = are_asked;
		file->shares->unasked = unasked;
	}
	return until;
}

/* Until when somebody waits who is about to change a file. Asks those who have it delegated. */
static uint64_t take_back(struct file *file, uint64_t session, bool is_removed)
{
	uint64_t until = file->shares ? wait_for_one(file, session) : 0;

	if (until == 0)
		until = ask_all(file, session, is_removed);
	if (until != 0)
		file->revoked_until = core_now(fs_core(file->fs)) + QUIET_NS;
	return until;
}

/* ---- Who has to wait */

/* A call that is looked at before it is carried out. */
struct taking {
	struct fs *fs;
	uint64_t session;
	uint64_t until;
};

static void take(struct taking *taking, uint64_t ino, bool is_removed)
{
	/* One that is delegated is in memory. */
	struct file *file = file_cached(taking->fs, ino);
	uint64_t until = file ? take_back(file, taking->session, is_removed) : 0;

	if (until > taking->until)
		taking->until = until;
}

static void take_inode(struct taking *taking, uint64_t ino)
{
	take(taking, ino, false);
}

static void take_name(struct taking *taking, uint64_t dir, const char *name, bool is_removed)
{
	uint32_t type;
	uint64_t ino;

	take_inode(taking, dir);
	if (check_name(name) == 0 && record_get_name(taking->fs, dir, name, &ino, &type) == 0)
		take(taking, ino, is_removed);
}

static void take_change(struct taking *taking, const Afar__FileChange *ask)
{
	switch (ask->what_case) {
	case AFAR__FILE_CHANGE__WHAT_MAKE:
		if (!ask->make->is_nameless)
			take_name(taking, ask->make->dir, ask->make->name, false);
		break;
	case AFAR__FILE_CHANGE__WHAT_REMOVE:
		take_name(taking, ask->remove->dir, ask->remove->name, true);
		break;
	case AFAR__FILE_CHANGE__WHAT_RENAME:
		take_name(taking, ask->rename->dir, ask->rename->name, false);
		take_name(taking, ask->rename->new_dir, ask->rename->new_name, false);
		break;
	case AFAR__FILE_CHANGE__WHAT_LINK:
		take_inode(taking, ask->link->dir);
		take_inode(taking, ask->link->ino);
		break;
	case AFAR__FILE_CHANGE__WHAT_SET:
		take_inode(taking, ask->set->ino);
		break;
	case AFAR__FILE_CHANGE__WHAT_EXTEND:
		take_inode(taking, ask->extend->ino);
		break;
	case AFAR__FILE_CHANGE__WHAT_PUNCH:
		take_inode(taking, ask->punch->ino);
		break;
	case AFAR__FILE_CHANGE__WHAT_SYNC:
		take_inode(taking, ask->sync->ino);
		break;
	case AFAR__FILE_CHANGE__WHAT_SET_XATTR:
		take_inode(taking, ask->set_xattr->ino);
		break;
	case AFAR__FILE_CHANGE__WHAT_REMOVE_XATTR:
		take_inode(taking, ask->remove_xattr->ino);
		break;
	default:
		break;
	}
}

/* Opening to write counts, because no more is asked then; so does a reclaim, which may be about a manager of before. */
static void take_hold(struct taking *taking, const Afar__FileWho *who, const Afar__FileHold *ask)
{
	const Afar__FileReclaim *reclaim = ask->reclaim;

	if (ask->what_case == AFAR__FILE_HOLD__WHAT_OPEN && (ask->open->access & W_OK) &&
	    !open_is_refused(taking->fs, who, ask->open->ino, ask->open->access)) {
		if (taking->fs->quiet_until > taking->until)
			taking->until = taking->fs->quiet_until;
		take_inode(taking, ask->open->ino);
	}
	if (ask->what_case != AFAR__FILE_HOLD__WHAT_RECLAIM)
		return;
	for (size_t i = 0; i < reclaim->n_inos && i < reclaim->n_accesses; i++)
		if (reclaim->accesses[i] & W_OK)
			take_inode(taking, reclaim->inos[i]);
}

/* Returns whether anybody but the session may have something delegated. */
static bool has_others(const struct fs *fs, uint64_t session)
{
	const struct delegate *delegate = delegate_find(fs, session);

	return fs->nr_shared > (delegate ? delegate->nr : 0);
}

uint64_t delegations_wait_to_change(const struct event *event, struct fs *fs)
{
	const Afar__FilesChange *ask = event->request->files_change;
	struct taking taking = {.fs = fs, .session = event->session, .until = fs->quiet_until};

	if (!has_others(fs, event->session))
		return taking.until;
	for (size_t i = 0; i < ask->n_operations; i++)
		take_change(&taking, ask->operations[i]);
	return taking.until;
}

uint64_t delegations_wait_to_hold(struct core *core, const struct event *event, struct fs *fs)
{
	const Afar__FilesHold *ask = event->request->files_hold;
	struct taking taking = {.fs = fs, .session = event->session};

	if (!has_others(fs, event->session) && fs->quiet_until <= core_now(core))
		return 0;
	for (size_t i = 0; i < ask->n_operations; i++)
		take_hold(&taking, ask->who, ask->operations[i]);
	return taking.until;
}

void delegations_await_silent(struct fs *fs)
{
	uint64_t until = fs_core(fs)->started_at + DELEGATION_KEPT_NS;

	if (until > fs->quiet_until)
		fs->quiet_until = until;
}
