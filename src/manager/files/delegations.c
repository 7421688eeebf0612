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
#include "manager/files/holds.h"
#include "manager/files/names.h"
#include "manager/files/records.h"
#include "manager/files/table.h"
#include "rpc/delegation.h"

static outgoing_answered answered;

#define DELEGATES_MAX 64U      /* sessions of one file system: the bits of a file's mask */
#define DELEGATED_MAX 131072U  /* inodes of one session */
#define SHARED_MAX    1048576U /* of all together: each is kept in memory */
#define KEPT_NS	      ((uint64_t)DELEGATION_KEPT_MS * 1000000U)
#define OWED_NS	      (KEPT_NS / 2) /* who owes an answer for longer is not renewed */
/* So long nothing is delegated of what had to be taken back: whoever changes it may go on doing that. */
#define QUIET_NS UINT64_C(10000000)

/* A session to which inodes are delegated. */
struct delegate {
	struct cds_list_head node; /* of the fs */
	uint64_t session;
	uint64_t number; /* of the delegation; never the same again, and it grows */
	unsigned slot;	 /* its bit in the masks of files */
	size_t nr;	 /* of these bits, at least */
	uint64_t renewed_at;
	bool has_left; /* the session has ended, and may not know it */
	struct cds_list_head revokes;
};

/* An inode that a session is to drop, and has not said that it has. */
struct revoke {
	struct cds_list_head node; /* of the delegate */
	uint64_t ino;
	uint64_t
		number; /* never the same again: an answer may come after the inode was delegated once more */
	uint64_t begun;
	const void *asked_at; /* over which connection; NULL: it is to be asked */
};

static uint64_t bit_of(const struct delegate *delegate)
{
	return UINT64_C(1) << delegate->slot;
}

static struct delegate *find_delegate(const struct fs *fs, uint64_t session)
{
	struct delegate *delegate;

	cds_list_for_each_entry (delegate, &fs->delegates, node)
		if (delegate->session == session && !delegate->has_left)
			return delegate;
	return NULL;
}

static bool has_run_out(const struct fs *fs, const struct delegate *delegate)
{
	return core_now(fs_core(fs)) >= delegate->renewed_at + KEPT_NS;
}

static void free_revokes(struct delegate *delegate)
{
	struct revoke *revoke, *next;

	cds_list_for_each_entry_safe (revoke, next, &delegate->revokes, node) {
		cds_list_del(&revoke->node);
		free(revoke);
	}
}

/* Delegated inodes stay in memory. */
static void set_bit(struct file *file, struct delegate *delegate)
{
	if (!file->is_pinned) {
		cds_list_del(&file->idle);
		file->is_pinned = true;
		file->fs->nr_pinned++;
	}
	file->delegates |= bit_of(delegate);
	delegate->nr++;
}

static void take_bit(struct file *file, struct delegate *delegate)
{
	file->delegates &= ~bit_of(delegate);
	delegate->nr--;
	if (!file->delegates)
		file_unpin(file);
}

static bool clear_bit(void *argument, void *row)
{
	struct delegate *delegate = argument;
	struct file *file = row;

	if (file->delegates & bit_of(delegate))
		take_bit(file, delegate);
	return true;
}

/* Takes everything from it. */
static void clear(struct fs *fs, struct delegate *delegate)
{
	if (delegate->nr != 0)
		tree_walk(fs->files_by_ino, clear_bit, delegate);
	free_revokes(delegate);
	delegate->number = ++fs->files->last_delegation;
}

static void end(struct fs *fs, struct delegate *delegate)
{
	clear(fs, delegate);
	cds_list_del(&delegate->node);
	free(delegate);
}

void delegations_free(struct fs *fs)
{
	struct delegate *delegate, *next;

	cds_list_for_each_entry_safe (delegate, next, &fs->delegates, node) {
		free_revokes(delegate);
		free(delegate);
	}
}

/* ---- Delegating */

/* Ends those that have run out, of sessions that have left or of all. */
static void end_old(struct fs *fs, bool is_of_all)
{
	struct delegate *delegate, *next;

	cds_list_for_each_entry_safe (delegate, next, &fs->delegates, node)
		if ((is_of_all || delegate->has_left) && has_run_out(fs, delegate))
			end(fs, delegate);
}

static uint64_t free_slots(const struct fs *fs)
{
	const struct delegate *delegate;
	uint64_t taken = 0;

	cds_list_for_each_entry (delegate, &fs->delegates, node)
		taken |= bit_of(delegate);
	return ~taken;
}

/* False: all are taken, by sessions that use what they have. */
static bool find_slot(struct fs *fs, unsigned *out)
{
	uint64_t slots;

	end_old(fs, false);
	slots = free_slots(fs);
	if (slots == 0) {
		end_old(fs, true);
		slots = free_slots(fs);
	}
	if (slots == 0)
		return false;
	*out = (unsigned)__builtin_ctzll(slots);
	return true;
}

static struct delegate *new_delegate(struct fs *fs, uint64_t session)
{
	struct delegate *delegate;
	unsigned slot;

	if (!find_slot(fs, &slot))
		return NULL;
	delegate = calloc(1, sizeof(*delegate));
	if (!delegate)
		return NULL;
	delegate->session = session;
	delegate->slot = slot;
	delegate->number = ++fs->files->last_delegation;
	CDS_INIT_LIST_HEAD(&delegate->revokes);
	cds_list_add_tail(&delegate->node, &fs->delegates);
	return delegate;
}

void delegation_begin(struct fs *fs, const struct session *session, uint64_t dropped)
{
	struct delegate *delegate = find_delegate(fs, session->number);
	const struct region *pool = volume_region(fs_namespace(fs));

	/* One that has the pool open is heard of when it leaves. */
	if (fs->nr_unreclaimed != 0 || !pool || !session_reference(session, pool->generation))
		return;
	if (!delegate)
		new_delegate(fs, session->number);
	else if (delegate->number == dropped)
		clear(fs, delegate);
}

static bool is_full(const struct fs *fs, const struct delegate *delegate)
{
	const struct delegate *other;
	size_t nr = 0;

	if (delegate->nr >= DELEGATED_MAX)
		return true;
	cds_list_for_each_entry (other, &fs->delegates, node)
		nr += other->nr;
	return nr >= SHARED_MAX;
}

static struct revoke *find_revoke(const struct delegate *delegate, uint64_t ino)
{
	struct revoke *revoke;

	cds_list_for_each_entry (revoke, &delegate->revokes, node)
		if (revoke->ino == ino)
			return revoke;
	return NULL;
}

bool delegation_give(struct file *file, const struct session *session)
{
	struct fs *fs = file->fs;
	struct delegate *delegate = find_delegate(fs, session->number);

	/* A writer who closes with the batch has it open again if that fails. */
	store_look(fs_core(fs)->store, file->holds_mark);
	if (!delegate || !file->inode || store_has_touched(fs_core(fs)->store))
		return false;
	/* It is being asked to drop it: its answer to that, which is on its way, is about this one, too. */
	if (find_revoke(delegate, file->ino))
		return false;
	if (file->delegates & bit_of(delegate))
		return true;
	/* Somebody waits to change it: whoever is told now would have to be asked again. */
	if (file->revoked_until > core_now(fs_core(fs)) ||
	    file_is_written_elsewhere(file, session->number) || is_full(fs, delegate))
		return false;
	set_bit(file, delegate);
	return true;
}

void delegation_renew(struct fs *fs, const struct session *session, Afar__FileResults *results)
{
	struct delegate *delegate = find_delegate(fs, session->number);
	uint64_t now = core_now(fs_core(fs));
	const struct revoke *revoke;

	if (!delegate)
		return;
	cds_list_for_each_entry (revoke, &delegate->revokes, node)
		if (now - revoke->begun >= OWED_NS)
			return;
	delegate->renewed_at = now;
	results->delegation = delegate->number;
	results->is_delegation_full = delegate->nr >= DELEGATED_MAX;
}

void delegation_forget(struct file *file)
{
	struct delegate *delegate;

	cds_list_for_each_entry (delegate, &file->fs->delegates, node)
		if (file->delegates & bit_of(delegate))
			take_bit(file, delegate);
}

void delegations_leave(struct fs *fs, uint64_t session, bool was_told)
{
	struct delegate *delegate = find_delegate(fs, session);

	if (!delegate)
		return;
	if (was_told)
		end(fs, delegate);
	else
		delegate->has_left = true;
}

/* ---- Taking back */

static Afar__Request *new_request(const struct fs *fs, uint64_t ino)
{
	Afar__Request *request = MESSAGE_NEW(afar__request, Afar__Request);
	Afar__FileRevoke *message = MESSAGE_NEW(afar__file_revoke, Afar__FileRevoke);

	if (!request || !message) {
		free(request);
		free(message);
		return NULL;
	}
	message->fs = fs->number;
	message->ino = ino;
	request->file_revoke = message;
	request->call_case = AFAR__REQUEST__CALL_FILE_REVOKE;
	return request;
}

static struct revoke *get_revoke(struct delegate *delegate, const struct file *file)
{
	struct revoke *revoke = find_revoke(delegate, file->ino);

	if (revoke)
		return revoke;
	revoke = calloc(1, sizeof(*revoke));
	if (!revoke)
		return NULL;
	revoke->ino = file->ino;
	revoke->number = ++file->fs->files->last_delegation;
	revoke->begun = core_now(fs_core(file->fs));
	cds_list_add_tail(&revoke->node, &delegate->revokes);
	return revoke;
}

/* Asks it, if it can be reached and was not asked yet. */
static void ask(struct delegate *delegate, const struct file *file)
{
	struct core *core = fs_core(file->fs);
	const struct session *session = state_session(core->state, delegate->session);
	const struct live_session *live = session ? session->live : NULL;
	struct revoke *revoke = get_revoke(delegate, file);
	struct outgoing *outgoing;
	Afar__Request *request;

	if (!revoke || delegate->has_left || !live || !live->peer || revoke->asked_at == live->peer)
		return;
	outgoing = outgoing_new_to(answered, live->peer);
	request = new_request(file->fs, file->ino);
	if (!outgoing || !request) {
		if (outgoing)
			outgoing_free(outgoing);
		if (request)
			afar__request__free_unpacked(request, NULL);
		return;
	}
	outgoing->session = delegate->session;
	outgoing->fs = file->fs->number;
	outgoing->ino = file->ino;
	outgoing->recall = revoke->number;
	revoke->asked_at = live->peer;
	core_call(core, live->peer, DELEGATION_KEPT_MS, request, outgoing);
}

static int answered(struct core *core, struct outgoing *outgoing, struct event *event, bool is_done)
{
	struct fs *fs = files_find(core, outgoing->fs);
	struct delegate *delegate = fs ? find_delegate(fs, outgoing->session) : NULL;
	struct revoke *revoke = delegate ? find_revoke(delegate, outgoing->ino) : NULL;
	struct file *file;

	(void)event;
	if (!revoke || revoke->number != outgoing->recall)
		return 0;
	if (!is_done) {
		revoke->asked_at = NULL;
		return 0;
	}
	cds_list_del(&revoke->node);
	free(revoke);
	file = file_cached(fs, outgoing->ino);
	if (file && (file->delegates & bit_of(delegate)))
		take_bit(file, delegate);
	return 0;
}

/* Until when somebody waits who is about to change a file. Asks those who have it delegated. */
static uint64_t take_back(struct file *file, uint64_t session)
{
	uint64_t now = core_now(fs_core(file->fs)), until = 0;
	struct delegate *delegate, *next;

	if (!file->delegates)
		return 0;
	cds_list_for_each_entry_safe (delegate, next, &file->fs->delegates, node) {
		if (!(file->delegates & bit_of(delegate)) || delegate->session == session)
			continue;
		if (has_run_out(file->fs, delegate)) {
			end(file->fs, delegate);
			continue;
		}
		ask(delegate, file);
		if (delegate->renewed_at + KEPT_NS > until)
			until = delegate->renewed_at + KEPT_NS;
	}
	if (until != 0)
		file->revoked_until = now + QUIET_NS;
	return until;
}

/* ---- Who has to wait */

/* A call that is looked at before it is carried out. */
struct taking {
	struct fs *fs;
	uint64_t session;
	uint64_t until;
};

static void take_inode(struct taking *taking, uint64_t ino)
{
	/* One that is delegated is in memory. */
	struct file *file = file_cached(taking->fs, ino);
	uint64_t until = file ? take_back(file, taking->session) : 0;

	if (until > taking->until)
		taking->until = until;
}

static void take_name(struct taking *taking, uint64_t dir, const char *name)
{
	uint32_t type;
	uint64_t ino;

	take_inode(taking, dir);
	if (check_name(name) == 0 && record_get_name(taking->fs, dir, name, &ino, &type) == 0)
		take_inode(taking, ino);
}

static void take_change(struct taking *taking, const Afar__FileChange *ask)
{
	switch (ask->what_case) {
	case AFAR__FILE_CHANGE__WHAT_MAKE:
		if (!ask->make->is_nameless)
			take_name(taking, ask->make->dir, ask->make->name);
		break;
	case AFAR__FILE_CHANGE__WHAT_REMOVE:
		take_name(taking, ask->remove->dir, ask->remove->name);
		break;
	case AFAR__FILE_CHANGE__WHAT_RENAME:
		take_name(taking, ask->rename->dir, ask->rename->name);
		take_name(taking, ask->rename->new_dir, ask->rename->new_name);
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
	const struct delegate *delegate;

	cds_list_for_each_entry (delegate, &fs->delegates, node)
		if (delegate->session != session && delegate->nr != 0)
			return true;
	return false;
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
	uint64_t until = fs_core(fs)->started_at + KEPT_NS;

	if (until > fs->quiet_until)
		fs->quiet_until = until;
}
