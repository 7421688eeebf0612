/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks of files: ranges of bytes as fcntl(2) has them, and whole files as flock(2) has them. They are advice,
 * and in memory alone. An owner is a number of its session's; what he locks takes the place of what he had
 * locked there.
 *
 * A lock hangs on the hold of the handle that it was taken through, and goes with that. So those of a session
 * that ends go when its servers are fenced: before that what it has posted under its lock may still land.
 * After a restart of the manager sessions reclaim their locks with their handles, and until all have done so
 * nobody is given another one (waits.c).
 *
 * A request that waits is an event of the core's, and its client asks again when that ends. Events
 * are looked at in the order in which their callers came.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "manager/connections/callers.h"
#include "manager/files/holds.h"
#include "manager/files/table.h"

/* The most locks of one session. A request to lock looks at all that are there in the file: so many
 * take it 0.1 ms. */
#define LOCKS_MAX 16384U
#define LOCK_LAST ((uint64_t)INT64_MAX) /* the last byte that a file can have */

enum lock_kind { LOCK_RANGE = 1, LOCK_FILE = 2 };
enum lock_mode { UNLOCKED, SHARED, EXCLUSIVE };

/* One that is held, or is wanted. */
struct lock {
	struct cds_list_head node; /* of the file, in the order of compare() */
	const struct hold *hold;
	uint64_t owner;
	uint32_t kind, mode;
	uint32_t pid;
	uint64_t first, last; /* bytes, both are in it */
};

static int compare(const struct lock *left, const struct lock *right)
{
	int order = tree_order(left->kind, right->kind);

	if (order == 0)
		order = tree_order(left->hold->session, right->hold->session);
	if (order == 0)
		order = tree_order(left->owner, right->owner);
	return order != 0 ? order : tree_order(left->first, right->first);
}

static bool is_of_owner(const struct lock *lock, const struct lock *of)
{
	return lock->kind == of->kind && lock->owner == of->owner &&
	       lock->hold->session == of->hold->session;
}

static bool overlap(const struct lock *lock, const struct lock *other)
{
	return lock->first <= other->last && other->first <= lock->last;
}

/* They exclude each other. */
static bool conflict(const struct lock *lock, const struct lock *other)
{
	return lock->kind == other->kind && overlap(lock, other) &&
	       (lock->mode == EXCLUSIVE || other->mode == EXCLUSIVE) && lock->mode != UNLOCKED &&
	       !is_of_owner(lock, other);
}

/* The first that is in the way; NULL: none. */
static const struct lock *find_conflict(const struct lock *wanted)
{
	const struct lock *lock;

	cds_list_for_each_entry (lock, &wanted->hold->file->locks, node)
		if (conflict(wanted, lock))
			return lock;
	return NULL;
}

/* ---- What is asked */

static int read_range(const Afar__FileLock *ask, struct lock *out)
{
	out->last = LOCK_LAST;
	if (ask->kind == LOCK_FILE)
		return 0;
	if (ask->start > LOCK_LAST || ask->length > LOCK_LAST - ask->start + 1)
		return error_fail(-EINVAL,
				  "lock %llu bytes at %llu: files have no more than 2^63 bytes",
				  (unsigned long long)ask->length, (unsigned long long)ask->start);
	out->first = ask->start;
	if (ask->length != 0)
		out->last = ask->start + ask->length - 1;
	return 0;
}

/* -EINVAL, -EBADF. */
static int read_ask(const struct fs *fs, uint64_t session, const Afar__FileLock *ask,
		    struct lock *out)
{
	const struct hold *hold = ask ? hold_find(fs, session, ask->handle) : NULL;

	if (!ask || (ask->kind != LOCK_RANGE && ask->kind != LOCK_FILE) || ask->mode > EXCLUSIVE)
		return error_fail(-EINVAL, "lock a file: the manager does not know this lock");
	if (!hold)
		return error_fail(-EBADF, "lock a file: the session has no handle %llu open",
				  (unsigned long long)ask->handle);
	*out = (struct lock){.hold = hold,
			     .owner = ask->owner,
			     .kind = ask->kind,
			     .mode = ask->mode,
			     .pid = ask->pid};
	return read_range(ask, out);
}

/* Linux has this rule, too: ranges are for those who could read, or write, them. */
static int check_mode(const struct lock *wanted)
{
	uint32_t access = wanted->mode == EXCLUSIVE ? W_OK : R_OK;

	if (wanted->kind == LOCK_FILE || wanted->mode == UNLOCKED ||
	    (wanted->hold->access & access))
		return 0;
	return error_fail(-EBADF, "lock inode %llu: it is not open to %s",
			  (unsigned long long)wanted->hold->file->ino,
			  access == W_OK ? "write, as an exclusive lock needs"
					 : "read, as a shared lock needs");
}

/* ---- Changing what is locked */

/* A change to the locks of one owner in one file. */
struct change {
	struct file *file;
	struct undo *undo;
	struct session *session;
};

static struct change change_of(const struct hold *hold)
{
	struct core *core = fs_core(hold->file->fs);

	return (struct change){.file = hold->file,
			       .undo = core->undo,
			       .session = state_session(core->state, hold->session)};
}

static void set_version(void *argument)
{
	struct file *file = argument;

	file->locks_version = ++file->fs->files->last_locks_version;
}

/* Those who wait look again, also if this is taken back. */
static int note_change(const struct change *change)
{
	int ret = undo_room(change->undo, 1);

	if (ret < 0)
		return ret;
	store_mark(fs_core(change->file->fs)->store, &change->file->holds_mark);
	if (change->session)
		store_mark(fs_core(change->file->fs)->store, &change->session->holds_mark);
	set_version(change->file);
	undo_call(change->undo, set_version, NULL, change->file);
	return 0;
}

static int add(const struct change *change, const struct lock *wanted)
{
	struct lock *lock, *next;
	int ret;

	if (change->session->nr_locks >= LOCKS_MAX)
		return error_fail(
			-ENOLCK,
			"lock inode %llu: the session has locked %u ranges, and may have no "
			"more; unlock some",
			(unsigned long long)change->file->ino, LOCKS_MAX);
	lock = malloc(sizeof(*lock));
	ret = lock ? undo_room(change->undo, 3) : error_code(-ENOMEM);
	if (ret < 0) {
		free(lock);
		return ret;
	}
	*lock = *wanted;
	cds_list_for_each_entry (next, &change->file->locks, node)
		if (compare(next, lock) > 0)
			break;
	undo_made(change->undo, lock, free);
	undo_link(change->undo, &lock->node, &next->node);
	undo_set(change->undo, change->session->nr_locks, change->session->nr_locks + 1);
	return 0;
}

static int take_out(const struct change *change, struct lock *lock)
{
	int ret = undo_room(change->undo, 3);

	if (ret < 0)
		return ret;
	undo_unlink(change->undo, &lock->node);
	undo_gone(change->undo, lock, free);
	undo_set(change->undo, change->session->nr_locks, change->session->nr_locks - 1);
	return 0;
}

/* Takes the range of `wanted` out of a lock: what lies before and behind it stays. */
static int cut(const struct change *change, struct lock *lock, const struct lock *wanted)
{
	struct lock rest = *lock;
	int ret = undo_room(change->undo, 1);

	if (ret < 0)
		return ret;
	if (lock->first >= wanted->first && lock->last <= wanted->last)
		return take_out(change, lock);
	if (lock->first >= wanted->first) {
		undo_set(change->undo, lock->first, wanted->last + 1);
		return 0;
	}
	undo_set(change->undo, lock->last, wanted->first - 1);
	if (rest.last <= wanted->last)
		return 0;
	rest.first = wanted->last + 1;
	return add(change, &rest);
}

/* True: together they are one lock. */
static bool is_one(const struct lock *lock, const struct lock *wanted)
{
	return lock->mode == wanted->mode && lock->hold == wanted->hold &&
	       lock->pid == wanted->pid && lock->first <= wanted->last + 1 &&
	       wanted->first <= lock->last + 1;
}

/* Takes a lock out, and adds its range to that of `wanted`. */
static int join(const struct change *change, struct lock *lock, struct lock *wanted)
{
	if (lock->first < wanted->first)
		wanted->first = lock->first;
	if (lock->last > wanted->last)
		wanted->last = lock->last;
	return take_out(change, lock);
}

static int set(const struct change *change, struct lock wanted)
{
	const struct lock asked = wanted;
	struct lock *lock, *next;
	int ret = note_change(change);

	cds_list_for_each_entry_safe (lock, next, &change->file->locks, node) {
		if (ret < 0 || !is_of_owner(lock, &asked))
			continue;
		if (is_one(lock, &asked))
			ret = join(change, lock, &wanted);
		else if (overlap(lock, &asked))
			ret = cut(change, lock, &asked);
	}
	return ret == 0 && asked.mode != UNLOCKED ? add(change, &wanted) : ret;
}

int locks_drop(const struct hold *hold)
{
	const struct change change = change_of(hold);
	struct lock *lock, *next;
	int ret = 0;

	cds_list_for_each_entry_safe (lock, next, &hold->file->locks, node) {
		if (lock->hold != hold)
			continue;
		ret = take_out(&change, lock);
		if (ret == 0)
			ret = note_change(&change);
		if (ret < 0)
			return ret;
	}
	return 0;
}

void locks_free(struct file *file)
{
	struct lock *lock, *next;

	cds_list_for_each_entry_safe (lock, next, &file->locks, node)
		free(lock);
}

/* ---- Circles of those who wait for each other */

/* A search with the events that it has come to. */
struct search {
	struct core *core;
	const struct fs *fs;
	uint64_t round;
	struct event *first, **end;
};

/* The range that an operation of an event waits for. False: it waits for none. */
static bool read_waiting(const struct fs *fs, const struct event *event,
			 const Afar__FileHold *operation, struct lock *out)
{
	return operation->what_case == AFAR__FILE_HOLD__WHAT_LOCK &&
	       operation->lock->wait_ms != 0 && operation->lock->kind == LOCK_RANGE &&
	       read_ask(fs, event->session, operation->lock, out) == 0;
}

static bool is_waiting_here(const struct event *event, const struct fs *fs)
{
	return event->lock.since != 0 && event->request->files_hold->fs == fs->number;
}

/* Notes the waiting events of an owner. */
static void find_waits_of(struct search *search, const struct lock *owner)
{
	struct session *session;
	struct event *event;
	struct lock wanted;

	cds_list_for_each_entry (event, &search->core->waiting, node) {
		const Afar__FilesHold *ask = event->request->files_hold;

		if (!is_waiting_here(event, search->fs) || event->lock.round == search->round ||
		    event->session != owner->hold->session ||
		    core_session(search->core, event, &session) < 0)
			continue;
		for (size_t i = 0; i < ask->n_operations; i++) {
			if (!read_waiting(search->fs, event, ask->operations[i], &wanted) ||
			    !is_of_owner(&wanted, owner))
				continue;
			event->lock.round = search->round;
			event->lock.next = NULL;
			*search->end = event;
			search->end = &event->lock.next;
			break;
		}
	}
}

/* Goes to those who are in the way of `wanted`. True: `owner` is one of them. */
static bool leads_to(struct search *search, const struct lock *wanted, const struct lock *owner)
{
	const struct lock *lock, *last = NULL;

	cds_list_for_each_entry (lock, &wanted->hold->file->locks, node) {
		if (!conflict(wanted, lock) || (last && is_of_owner(lock, last)))
			continue;
		if (is_of_owner(lock, owner))
			return true;
		find_waits_of(search, lock);
		last = lock;
	}
	return false;
}

/* True: if this waited, it would wait for itself in the end. */
static bool closes_circle(struct core *core, const struct fs *fs, const struct lock *wanted)
{
	struct search search = {.core = core, .fs = fs, .round = ++core->files->last_search};
	const struct event *event;
	struct lock waiting;

	search.end = &search.first;
	if (wanted->kind != LOCK_RANGE)
		return false;
	if (leads_to(&search, wanted, wanted))
		return true;
	for (event = search.first; event; event = event->lock.next) {
		const Afar__FilesHold *ask = event->request->files_hold;

		for (size_t i = 0; i < ask->n_operations; i++)
			if (read_waiting(fs, event, ask->operations[i], &waiting) &&
			    leads_to(&search, &waiting, wanted))
				return true;
	}
	return false;
}

/* ---- Waiting */

/* True: somebody who came before could have a lock now that excludes this one. He gets it as soon as those who
 * wait are looked at. */
static bool is_first_for_another(const struct core *core, const struct fs *fs,
				 const struct event *event, const struct lock *wanted)
{
	const struct event *other;
	struct lock earlier;

	cds_list_for_each_entry (other, &core->waiting, node) {
		const Afar__FilesHold *ask = other->request->files_hold;

		if (!is_waiting_here(other, fs) || other == event)
			continue;
		if (other->lock.since >= event->lock.since)
			return false;
		for (size_t i = 0; i < ask->n_operations; i++)
			if (ask->operations[i]->what_case == AFAR__FILE_HOLD__WHAT_LOCK &&
			    read_ask(fs, other->session, ask->operations[i]->lock, &earlier) == 0 &&
			    earlier.hold->file == wanted->hold->file &&
			    conflict(wanted, &earlier) && !find_conflict(&earlier))
				return true;
	}
	return false;
}

static void begin_wait(const struct core *core, struct event *event, const Afar__FileLock *ask)
{
	uint64_t now = core_now(core), waited = ask->waited_ms * UINT64_C(1000000);

	event->lock.until = now + ask->wait_ms * UINT64_C(1000000);
	if (event->lock.until > event->answer_by)
		event->lock.until = event->answer_by;
	event->lock.since = waited < now ? now - waited : 1;
}

uint64_t lock_wait_for(struct core *core, struct event *event, struct fs *fs,
		       const Afar__FileLock *ask)
{
	struct session *session;
	struct lock wanted;
	bool is_new = event->lock.since == 0;

	if (ask->wait_ms == 0 || core_session(core, event, &session) < 0 ||
	    read_ask(fs, event->session, ask, &wanted) < 0)
		return 0;
	if (is_new)
		begin_wait(core, event, ask);
	if (event->lock.until <= core_now(core))
		return 0;
	if (event->lock.version != 0 && event->lock.version == wanted.hold->file->locks_version)
		return event->lock.until;
	event->lock.version = 0;
	if (!find_conflict(&wanted))
		return is_first_for_another(core, fs, event, &wanted) ? event->lock.until : 0;
	/* A circle is closed by the one who comes last, so each is looked at when it comes. */
	if (is_new && closes_circle(core, fs, &wanted))
		return 0;
	event->lock.version = wanted.hold->file->locks_version;
	return event->lock.until;
}

void lock_cancel(struct fs *fs, const struct session *session, const Afar__FileLockCancel *ask)
{
	struct event *event;

	cds_list_for_each_entry (event, &fs_core(fs)->waiting, node) {
		const Afar__FilesHold *other = event->request->files_hold;

		if (!is_waiting_here(event, fs) || event->session != session->number)
			continue;
		for (size_t i = 0; i < other->n_operations; i++)
			if (other->operations[i]->what_case == AFAR__FILE_HOLD__WHAT_LOCK &&
			    other->operations[i]->lock->wait == ask->wait && ask->wait != 0)
				event->lock.until = core_now(fs_core(fs));
	}
}

/* ---- The operations */

static int fail_locked(const struct lock *wanted, const struct lock *other, int status)
{
	return error_fail(status, "lock inode %llu: session %llx has locked bytes %llu to %llu%s",
			  (unsigned long long)wanted->hold->file->ino,
			  (unsigned long long)other->hold->session,
			  (unsigned long long)other->first, (unsigned long long)other->last,
			  status == -EDEADLK ? ", and waits for what this one has" : "");
}

int lock_set(struct fs *fs, const struct session *session, const Afar__FileLock *ask)
{
	const struct lock *other;
	struct change change;
	struct lock wanted;
	int ret = read_ask(fs, session->number, ask, &wanted);

	if (ret == 0)
		ret = check_mode(&wanted);
	if (ret < 0)
		return ret;
	if (wanted.mode != UNLOCKED && fs->nr_unreclaimed != 0)
		return error_fail(
			-EAGAIN,
			"lock inode %llu: the manager has restarted, and not all sessions "
			"have told it what they have locked; try again",
			(unsigned long long)wanted.hold->file->ino);
	other = find_conflict(&wanted);
	if (other && ask->wait_ms != 0 && closes_circle(fs_core(fs), fs, &wanted))
		return fail_locked(&wanted, other, -EDEADLK);
	if (other)
		return fail_locked(&wanted, other, -EAGAIN);
	change = change_of(wanted.hold);
	return set(&change, wanted);
}

int lock_look(struct fs *fs, const struct session *session, const Afar__FileLock *ask,
	      Afar__FileResult *result)
{
	const struct lock *other;
	struct lock wanted;
	int ret = read_ask(fs, session->number, ask, &wanted);

	if (ret < 0)
		return ret;
	result->lock = MESSAGE_NEW(afar__file_lock, Afar__FileLock);
	if (!result->lock)
		return error_code(-ENOMEM);
	result->lock->kind = wanted.kind;
	other = find_conflict(&wanted);
	if (!other)
		return 0;
	result->lock->mode = other->mode;
	result->lock->start = other->first;
	result->lock->length = other->last == LOCK_LAST ? 0 : other->last - other->first + 1;
	if (other->hold->session != session->number)
		return 0;
	result->lock->owner = other->owner;
	result->lock->pid = other->pid;
	return 0;
}

int lock_reclaim(struct fs *fs, const struct session *session, const Afar__FileLock *ask)
{
	struct change change;
	struct lock wanted;
	int ret = read_ask(fs, session->number, ask, &wanted);

	/* Its file has ended, or its session does not know yet that it was unlocked: others may have it. */
	if (ret == -EBADF || (ret == 0 && (wanted.mode == UNLOCKED || find_conflict(&wanted))))
		return 0;
	if (ret == 0)
		ret = check_mode(&wanted);
	if (ret < 0)
		return ret;
	change = change_of(wanted.hold);
	return set(&change, wanted);
}
